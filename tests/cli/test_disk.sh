#!/bin/sh
# Training with a checkpoint at every update on faulty disks: a disk fills up, loses half of a write, fails to flush or
# rename, or is slow, or the process is killed during a write. Complete checkpoints are never lost, no incomplete one
# has a final name, and a resumed run gives the same bits as on a good disk. BRIGADE_TEST_ALL=1 tests 55 faults instead
# of 10.
. "$(dirname "$0")/support.sh"
preload=$build/tests/preload/disk.so
if [ ! -f "$preload" ]; then
    echo "skipped: there is no $preload (sanitizers)"
    skipped=$((skipped + 1))
    finish
fi
make_digits 320 80
cd "$folder" || exit 1
common="mnist --data-dir data --batch-size 4 --gradient-accumulation 2 --device-iterations 1 --optimizer adamw --cores 1 --quiet"
numbers="2 7"
[ -n "${BRIGADE_TEST_ALL:-}" ] && numbers="1 2 3 4 5 6 7 8 9 10 11"
"$program" $common --steps 6 --save whole >out 2>err || fail "$(cat err)"

# fault KIND N CODE: runs training whose N-th call of that kind fails, and then a run that resumes it.
fault() {
    rm -rf c
    # The shell reports killed processes.
    (LD_PRELOAD=$preload BRIGADE_TEST_DISK=$1:$2 exec "$program" $common --steps 6 --checkpoint c --checkpoint-steps 1 \
        $beside) >out 2>err
    code=$?
    check "$1 $2 $beside: ends with $code: $(cat err)" test $code -eq 0 -o $code -eq "$3"
    [ $code -eq 0 ] && reached=$((reached + 1))
    if ls c/*.safetensors >/dev/null 2>&1; then
        check "$1 $2 $beside: what is there is whole" "$program" checkpoint verify c >verified
    fi
    "$program" $common --steps 6 --checkpoint c --resume --save on >out 2>err || fail "$1 $2:" "$(cat err)"
    check "$1 $2 $beside: the same bits" cmp whole on
    check "$1 $2 $beside: nothing else is left: $(ls c)" test "$(ls c | wc -l)" -eq 1
}

# faults KIND CODE: runs a fault at each number, every other one with checkpoints in the background. At least one fault
# must occur before the run ends.
faults() {
    reached=0 turn=0
    for number in $numbers; do
        turn=$((turn + 1))
        beside=
        [ $((turn % 2)) -eq 0 ] && beside=--checkpoint-async
        fault "$1" "$number" "$2"
    done
    check "$1: faults came about" test $reached -lt $turn
}

begin_case full
faults full 1

begin_case torn
faults torn 1

begin_case flush
faults flush 1

begin_case rename
numbers=$(echo "$numbers" | cut -d' ' -f1-6)
faults rename 1

begin_case cut
faults cut 137

# Rank 0 writes the manifest of its first checkpoint so late that rank 1 has given up. All parts in a manifest must
# exist. Whether rank 0 writes the manifest before the launcher kills it depends on the machine, so there are three
# attempts.
if [ -f "$build/libbrigade_mpi_openmpi.so" ] && command -v mpirun.openmpi >/dev/null 2>&1; then
begin_case late
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset BRIGADE_MPI
for turn in 1 2 3; do
    rm -rf c
    mpirun.openmpi --oversubscribe -n 2 sh -c '[ "$OMPI_COMM_WORLD_RANK" = 0 ] && export LD_PRELOAD="$0"; exec "$@"' "$preload" \
        env BRIGADE_TEST_DISK=slow:2 "$program" $common --steps 6 --checkpoint c --checkpoint-steps 1 --wait-limit 1 >out 2>err
    code=$?
    check "late $turn: rank 1 gives up: $(cat err)" test $code -ne 0
    [ -f c/checkpoint_train_step_1.safetensors ] || continue
    check "late $turn: what is there is whole" "$program" checkpoint verify c >verified
    break
done
fi

finish
