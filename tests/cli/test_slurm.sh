#!/bin/sh
# The program under Slurm's srun, in a cluster that the test starts: a controller and one node on this machine. Ranks of
# Open MPI use PMIx, and those of MPICH use PMI-2. The test checks that bits are those of one process, rank numbers, and
# a rank that is killed.
. "$(dirname "$0")/support.sh"

cd "$folder" || exit 1
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset BRIGADE_MPI

skip_all() {
    echo "skipped: $*"
    skipped=$((skipped + 1))
    finish
}

[ "$(uname)" = Linux ] || skip_all "this test's cluster needs Linux"
[ "$(id -u)" -eq 0 ] || skip_all "only root starts a cluster for this test"
for tool in slurmctld slurmd srun sinfo; do
    command -v $tool >/dev/null 2>&1 || skip_all "$tool is not installed (packages slurmctld, slurmd, slurm-client)"
done
[ -n "$(ls "$build"/libbrigade_mpi_*.so 2>/dev/null)" ] || skip_all "the build has no transport for an MPI"

stop_cluster() {
    for daemon in node controller; do
        [ -s $daemon.pid ] && kill "$(cat $daemon.pid)" 2>/dev/null
    done
    for try in 1 2 3 4 5 6 7 8 9 10; do
        [ -s node.pid ] || [ -s controller.pid ] || break
        sleep 0.2
    done
    rm -rf "$folder"
}
trap stop_cluster EXIT

# Ports that other tests on this machine are unlikely to use.
host=$(hostname -s)
port=$((20000 + $$ % 5000 * 4))
mkdir state spool
cat >slurm.conf <<EOF
ClusterName=brigade
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SrunPortRange=$((port + 2))-$((port + 102))
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/controller.pid
SlurmdPidFile=$folder/node.pid
SlurmctldLogFile=$folder/controller.log
SlurmdLogFile=$folder/node.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
ReturnToService=2
KillWait=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(getconf _NPROCESSORS_ONLN)
PartitionName=all Nodes=$host Default=YES State=UP OverSubscribe=FORCE
EOF
export SLURM_CONF="$folder/slurm.conf"
slurmctld -c >/dev/null 2>&1 && slurmd >/dev/null 2>&1 || skip_all "Slurm does not start here: $(tail -n 1 controller.log node.log 2>&1)"
for try in $(seq 50); do
    [ "$(sinfo -h -o %t 2>/dev/null)" = idle ] && break
    sleep 0.2
done
[ "$(sinfo -h -o %t 2>/dev/null)" = idle ] || skip_all "Slurm's node does not come up here: $(tail -n 1 node.log)"

# Interfaces that both this Slurm and an MPI of the build support.
interfaces=
for pair in pmix:openmpi pmi2:mpich; do
    if [ ! -f "$build/libbrigade_mpi_${pair#*:}.so" ]; then
        echo "skipped: ${pair%:*}: the build has no transport for ${pair#*:}"
        skipped=$((skipped + 1))
    elif ! srun --mpi=list 2>&1 | grep -q -w "${pair%:*}"; then
        echo "skipped: ${pair%:*}: this Slurm has no plugin for it"
        skipped=$((skipped + 1))
    else
        interfaces="$interfaces ${pair%:*}"
    fi
done

# ranks INTERFACE COUNT ARGUMENT...: runs the program in COUNT ranks, with output in out and err.
ranks() {
    interface=$1 count=$2
    shift 2
    timeout 60 srun --kill-on-bad-exit=1 --mpi="$interface" -n "$count" --overcommit "$program" "$@" >out 2>err </dev/null
}

make_digits 400 100
digits="mnist --data-dir data --cores 1 --quiet --batch-size 8 --gradient-accumulation 8 --device-iterations 2 --steps 4"
gpt="gpt pretrain --config tiny --cores 1 --quiet --steps 3 --set precision=float32 stochastic_rounding=false"
gpt="$gpt maximum=0.003 warmup_proportion=0 n_samples=50"

begin_case bits
"$program" $digits --save whole >out 2>&1
"$program" $gpt --save-weights whole-gpt >out 2>&1
for interface in $interfaces; do
    for count in 2 3; do
        ranks $interface $count $digits --save w || fail "$interface: $count ranks:" "$(cat err)"
        check "$interface: $count ranks, the same weights" cmp whole w
        rm -f w
    done
    check "$interface: one rank prints" test "$(grep -c '^Testing' out)" -eq 1
    check "$interface: GPT trains" ranks $interface 2 $gpt --save-weights w
    check "$interface: GPT, the same weights" cmp whole-gpt w
    rm -f w
done

begin_case instances
for interface in $interfaces; do
    ranks $interface 3 $digits --log log.%r
    check "$interface: each rank keeps a log" test -s log.0 -a -s log.1 -a -s log.2
    rm -f log.*
done

# Without an interface the ranks print the remedy, before their MPI ends them with a long message.
ranks none 2 $digits
check "no interface: fails" test $? -ne 0
check "no interface: $(cat err)" grep -q 'brigade mnist: srun has started 2 processes without an interface to MPI: start them with srun --mpi=pmix' err

# A rank that is killed in the middle of a run ends the run, and no process is left.
begin_case killed
for interface in $interfaces; do
    ranks $interface 2 $digits --steps 100000000 --epochs 1000000 --log "$folder/log.%r" &
    started=$!
    for try in $(seq 100); do
        [ -s log.1 ] && break
        sleep 0.1
    done
    victim=$(pgrep -n -f "^$program mnist .*$folder/log")
    check "$interface: it trains" test -s log.0 -a -n "$victim"
    kill -9 "$victim"
    wait $started
    code=$?
    check "$interface: the run ends by itself with an error: $code" test $code -ne 0 -a $code -ne 124
    check "$interface: nothing is left" test -z "$(pgrep -f "^$program mnist .*$folder/log")"
    rm -f log.*
done

# step: prints the update of the newest checkpoint.
step() {
    ls c 2>/dev/null | sed -n 's/^checkpoint_train_step_\([0-9]*\)\.safetensors$/\1/p' | sort -n | tail -n 1
}

# further STEP: waits for a newer checkpoint.
further() {
    for try in $(seq 200); do
        [ -n "$(step)" ] && [ "$(step)" != "$1" ] && break
        sleep 0.1
    done
}

# brigade launch through srun: killed ranks are restarted from the last checkpoint, and a signal ends them with a new
# checkpoint.
begin_case launch
for interface in $interfaces; do
    rm -rf c launched
    "$program" launch --launcher srun --launcher-options=--mpi=$interface --launcher-options=--overcommit --ranks 2 \
        --delay 0 --restart-on-failure 3 --grace 30 --log launched -- "$program" $digits --steps 100000000 \
        --epochs 1000000 --checkpoint c --checkpoint-steps 4 --log "$folder/log.%r" >out 2>err </dev/null &
    launch=$!
    further ''
    victim=$(pgrep -n -f "^$program mnist .*$folder/log")
    kill -9 "$victim"
    for try in $(seq 200); do
        grep -q ' start 2: ' launched && break
        sleep 0.1
    done
    check "$interface: they are started again: $(cat launched)" \
        grep -q ' start 2: 2 ranks, from the checkpoint of update [0-9]*$' launched
    further "$(step)"
    kill -TERM $launch
    wait $launch
    check "$interface: TERM ends it with 143: $(cat launched)" test $? -eq 143
    check "$interface: in time" grep -q 'ended in time' launched
    check "$interface: nothing is left" test -z "$(pgrep -f "^$program mnist .*$folder/log")"
    last=$(step)
    "$program" $digits --steps $((last + 4)) --epochs 1000000 --checkpoint c --resume --save on >out 2>err
    "$program" $digits --steps $((last + 4)) --epochs 1000000 --save whole-on >out 2>err
    check "$interface: after $last updates and four more the same weights" cmp whole-on on
    rm -f log.*
done
finish
