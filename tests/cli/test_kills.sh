#!/bin/sh
# Kills ranks at random times of a training run with a checkpoint at every update. Each run resumes from the last
# checkpoint with another number of ranks and another strategy, and ends with the same bits as a run that was never
# killed. The test also does this through `brigade launch`, and with ranks that are stopped instead. BRIGADE_TEST_ALL=1:
# 200 kills instead of 4, 20 through launch instead of 2, 50 stops instead of 1. BRIGADE_TEST_SEED=N repeats the choices
# of a run. BRIGADE_TEST_KILLS, _LAUNCHED and _STOPS set the number of each kind, so that a long test can be split.
. "$(dirname "$0")/support.sh"
cd "$folder" || exit 1
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset BRIGADE_MPI
seed=${BRIGADE_TEST_SEED:-$(date +%s)}
kills=4 launched=2 stops=1
[ -n "${BRIGADE_TEST_QUICK:-}" ] && kills=2 launched=1
[ -n "${BRIGADE_TEST_ALL:-}" ] && kills=200 launched=20 stops=50
kills=${BRIGADE_TEST_KILLS:-$kills} launched=${BRIGADE_TEST_LAUNCHED:-$launched} stops=${BRIGADE_TEST_STOPS:-$stops}
start=
if [ -f "$build/libbrigade_mpi_openmpi.so" ] && command -v mpirun.openmpi >/dev/null 2>&1; then
    start="mpirun.openmpi --oversubscribe"
elif [ -f "$build/libbrigade_mpi_mpich.so" ] && command -v mpirun.mpich >/dev/null 2>&1; then
    start=mpirun.mpich
fi
if [ -z "$start" ]; then
    echo "skipped: there is no MPI"
    skipped=$((skipped + 1))
    finish
fi
echo "seed $seed"

# choose COUNT: sets a random number below COUNT, which depends only on the seed.
choices=0
choose() {
    choices=$((choices + 1))
    chosen=$(awk -v s=$seed -v n=$choices -v c="$1" 'BEGIN { srand(s * 1000 + n); rand(); print int(rand() * c) }')
}

make_digits 320 80
common="mnist --data-dir data --batch-size 4 --gradient-accumulation 4 --device-iterations 1 --optimizer adamw --cores 1
    --quiet --epochs 1000000"

# way: chooses another strategy each time; no strategy changes results.
way() {
    choose 6
    case $chosen in
    0) strategy="--strategy pipelined" ;;
    1) strategy="--strategy pipelined --schedule gpipe" ;;
    2) strategy="--strategy phased" ;;
    3) strategy="--strategy sharded" ;;
    4) strategy="--strategy pipelined --schedule interleaved --offload-optimizer" ;;
    5) strategy="--strategy pipelined --recompute stage" ;;
    esac
    choose 2
    [ $chosen -eq 1 ] && strategy="$strategy --checkpoint-async"
}

latest() {
    ls "$1" 2>/dev/null | sed -n 's/^checkpoint_train_step_\([0-9]*\)\.safetensors$/\1/p' | sort -n | tail -n 1
}

# begin FOLDER: resumes training with 2 to 4 ranks in the background; each rank's process is in pid.RANK.
begin() {
    rm -f pid.*
    choose 3
    ranks=$((chosen + 2))
    way
    setsid $start -n $ranks sh -c 'echo $$ >"pid.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"; exec "$@"' rank \
        "$program" $common $strategy --checkpoint "$1" --checkpoint-steps 1 --resume >out 2>err </dev/null &
    mpirun=$!
}

# some_left: succeeds if a rank's process is still running.
some_left() {
    for pid in $(cat pid.* 2>/dev/null); do
        [ -d "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null && return 0
    done
    return 1
}

# all_gone SECONDS: succeeds if all rank processes end within this time.
all_gone() {
    tries=0
    for pid in $(cat pid.* 2>/dev/null); do
        while [ -d "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null && [ $tries -lt $((20 * $1)) ]; do
            sleep 0.05
            tries=$((tries + 1))
        done
    done
    [ $tries -lt $((20 * $1)) ]
}

# compare FOLDER WHAT: resumes from the folder for three updates, and compares with a run that was never killed.
compare() {
    last=$(($(latest "$1") + 3))
    "$program" $common --checkpoint "$1" --resume --steps $last --save on >out 2>err || fail "$2:" "$(cat err)"
    "$program" $common --steps $last --save whole >out 2>err || fail "$2:" "$(cat err)"
    check "$2: after $last updates the same weights" cmp whole on
}

if [ $kills -gt 0 ]; then
begin_case kills
moved=0
for kill in $(seq $kills); do
    before=$(latest c)
    begin c
    # One of four kills is at any time, even while ranks start and load; the others are after an update of the run.
    choose 4
    if [ $chosen -eq 0 ]; then
        sleep 0.2
        choose 1800
    else
        tries=0
        until [ "$(latest c)" != "$before" ] || [ $tries -ge 600 ] || ! kill -0 $mpirun 2>/dev/null; do
            sleep 0.1
            tries=$((tries + 1))
        done
        choose 500
    fi
    sleep $(awk -v c=$chosen 'BEGIN { print c / 1000 }')
    choose $ranks
    victim=$chosen
    # Every other time another rank then gets a signal to end; without the dead rank's part there is no checkpoint.
    other=pid.$(((victim + 1) % ranks))
    if [ -s pid.$victim ]; then kill -KILL "$(cat pid.$victim)" 2>/dev/null; else kill -TERM $mpirun; fi
    [ $((kill % 2)) -eq 0 ] && [ -s $other ] && kill -TERM "$(cat $other)" 2>/dev/null
    # Open MPI's mpirun 4.1 sometimes waits forever after all of its ranks have ended.
    tries=0 alone=0
    while kill -0 $mpirun 2>/dev/null && [ $tries -lt 1000 ] && [ $alone -lt 5 ]; do
        sleep 0.1
        tries=$((tries + 1))
        [ $((tries % 10)) -ne 0 ] || some_left || alone=$((alone + 1))
    done
    kill -0 $mpirun 2>/dev/null && echo "kill $kill: mpirun stayed" && kill -KILL $mpirun
    wait $mpirun 2>/dev/null
    check "kill $kill of $ranks ranks, $strategy: all are gone" all_gone 90
    [ "$(latest c)" = "$before" ] || moved=$((moved + 1))
    if [ -n "$(latest c)" ]; then
        check "kill $kill: what is there is whole: $(cat err)" "$program" checkpoint verify c >verified
    fi
done
[ -n "$(latest c)" ] || begin c
tries=0
until [ -n "$(latest c)" ] || [ $tries -ge 1200 ]; do # all kills came before the first checkpoint
    sleep 0.05
    tries=$((tries + 1))
done
[ -s pid.0 ] && kill -KILL $(cat pid.*) 2>/dev/null
wait 2>/dev/null
echo "$moved of $kills kills came after an update, of $(latest c) altogether"
compare c "$kills kills"
check "one checkpoint is left" test "$(ls c | wc -l)" -eq 1
else
    skipped=$((skipped + 1))
fi

# ranks_of PROCESS: its descendants that are ranks.
ranks_of() {
    for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
        case $(tr '\0' ' ' <"/proc/$child/cmdline" 2>/dev/null) in "$program mnist "*) echo "$child" ;; esac
        (ranks_of "$child")
    done
}

if [ $launched -gt 0 ]; then
begin_case launch
rm -rf c
"$program" launch --launcher "${start%% *}" $([ "$start" != mpirun.mpich ] && echo --oversubscribe) --ranks 3 --delay 0 \
    --launcher-limit 5 --restart-on-failure 1000 --log log -- "$program" $common --checkpoint c --checkpoint-steps 1 >out 2>err </dev/null &
launch=$!
for kill in $(seq $launched); do
    before=$(latest c)
    tries=0
    until [ "$(latest c)" != "$before" ] || [ $tries -ge 1200 ] || ! kill -0 $launch 2>/dev/null; do
        sleep 0.05
        tries=$((tries + 1))
    done
    choose 300
    sleep $(awk -v c=$chosen 'BEGIN { print c / 1000 }')
    choose 3
    victim=$(ranks_of $launch | sed -n "$((chosen + 1))p")
    if [ $((kill % 5)) -eq 4 ]; then # kills all ranks while mpirun is stopped, so that launch must end mpirun
        kill -STOP $(cat "/proc/$launch/task/$launch/children")
        kill -KILL $(ranks_of $launch) 2>/dev/null
    elif [ -n "$victim" ]; then
        kill -KILL "$victim" 2>/dev/null
    fi
    before=$(grep -c 'ended after' log)
    tries=0
    until [ "$(grep -c ' start ' log)" -gt $kill ] || [ $tries -ge 1200 ] || ! kill -0 $launch 2>/dev/null; do
        sleep 0.05
        tries=$((tries + 1))
    done
done
before=$(latest c)
tries=0
until [ "$(latest c)" != "$before" ] || [ $tries -ge 1200 ] || ! kill -0 $launch 2>/dev/null; do
    sleep 0.05
    tries=$((tries + 1))
done
kill -TERM $launch
wait $launch
check "TERM ends it with 143: $(tail -n 3 err)" test $? -eq 143
check "it was started again after each kill" test "$(grep -c ' start [0-9]*: 3 ranks' log)" -gt $launched
check "mpirun that stood still was ended" test "$(grep -c 'still runs 5 s after its last rank' log)" -ge $(((launched + 1) / 5))
compare c "$launched kills under launch"
else
    skipped=$((skipped + 1))
fi

# A rank is stopped. Within the limit, the others report which rank, on which host and in which action, and end. Every
# other time one of them also gets a signal to end; ranks cannot agree without the stopped one, and complete checkpoints
# remain.
if [ $stops -gt 0 ]; then
begin_case stops
for stop in $(seq $stops); do
    rm -f pid.*
    choose 3
    victim=$chosen
    setsid $start -n 3 sh -c \
        'echo $$ >"pid.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"; exec "$@"' rank \
        "$program" $common --wait-limit 3 --checkpoint s --checkpoint-steps 50 --resume >out 2>err </dev/null &
    mpirun=$!
    before=$(latest s)
    tries=0
    until [ "$(latest s)" != "$before" ] || [ $tries -ge 1200 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
    kill -STOP "$(cat pid.$victim)"
    [ $((stop % 2)) -eq 1 ] && kill -TERM "$(cat pid.$(((victim + 1) % 3)))"
    tries=0
    while kill -0 $mpirun 2>/dev/null && [ $tries -lt 600 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    check "stop $stop of rank $victim: it ends within the limit and some: $tries" test $tries -lt 300
    check "stop $stop: says who waits for rank $victim: $(cat err)" grep -q "rank $victim" err
    check "stop $stop: no process is left" all_gone 30
    check "stop $stop: what is there is whole" "$program" checkpoint verify s >verified
    kill -KILL $(cat pid.*) 2>/dev/null
    wait $mpirun 2>/dev/null
done
else
    skipped=$((skipped + 1))
fi

finish
