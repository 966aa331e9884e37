#!/bin/sh
# Runs ranks on several hosts (make check-hosts). The hosts are network namespaces of this machine, each with a name and
# an address. A relay, which can be slow (relay.c), connects them. Checks that two and four hosts, over slow and late
# links, give the same bits, and that runs end as documented when a link is cut or a rank dies. Needs root, `ip` and an
# MPI; if one is missing, reports that and skips. BRIGADE_BUILD: the build folder, build by default.
. "$(dirname "$0")/../cli/support.sh"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export BRIGADE_HOSTS_PREFIX=brigade$$- BRIGADE_HOSTS_FILE=$folder/hosts
agent=$root/tests/hosts/agent.sh
relay_pid= host_count=0
# Otherwise UCX detects that its hosts are one machine, and shares memory.
export UCX_TLS=tcp,self UCX_NET_DEVICES=eth0
unset BRIGADE_MPI

take_down() {
    [ -n "$relay_pid" ] && kill "$relay_pid" 2>/dev/null && wait "$relay_pid" 2>/dev/null
    relay_pid=
    while [ "$host_count" -gt 0 ]; do
        ip netns del "${BRIGADE_HOSTS_PREFIX}node$host_count"
        host_count=$((host_count - 1))
    done
}
trap 'take_down; rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM

# skip_all REASON
skip_all() {
    echo "skipped: hosts: $1"
    skipped=$((skipped + 1))
    finish
}

# set_up COUNT RELAY-OPTION...: makes hosts node1 to nodeCOUNT.
set_up() {
    take_down
    wanted=$1 names='' host=0
    shift
    echo 127.0.0.1 localhost >"$BRIGADE_HOSTS_FILE"
    while [ $host_count -lt "$wanted" ]; do
        ip netns add "${BRIGADE_HOSTS_PREFIX}node$((host_count + 1))" || skip_all "no network namespaces"
        host_count=$((host_count + 1))
        names="$names ${BRIGADE_HOSTS_PREFIX}node$host_count"
        echo "10.77.0.$host_count node$host_count" >>"$BRIGADE_HOSTS_FILE"
    done
    "$build/tests/hosts/relay" "$@" $names >"$folder/relay" 2>&1 &
    relay_pid=$!
    until grep -q ready "$folder/relay"; do
        kill -0 $relay_pid 2>/dev/null || { cat "$folder/relay"; relay_pid=; skip_all "no network interfaces (/dev/net/tun)"; }
        sleep 0.05
    done
    while [ $host -lt $host_count ]; do
        host=$((host + 1)) name=${BRIGADE_HOSTS_PREFIX}node$host
        ip -n "$name" link set lo up
        ip -n "$name" link set eth0 address "02:00:00:00:00:0$host" mtu 9000
        ip -n "$name" addr add "10.77.0.$host/24" dev eth0
        ip -n "$name" link set eth0 up
    done
}

# start MPI COUNT: prints the launcher's command for COUNT ranks on all hosts, to run on node1.
start() {
    all='' host=0
    while [ $host -lt $host_count ]; do
        host=$((host + 1))
        all="$all,node$host"
    done
    each=$((($2 + host_count - 1) / host_count))
    case $1 in
    openmpi)
        echo "mpirun.openmpi --oversubscribe --mca plm_rsh_agent $agent --mca pml ob1 --mca btl tcp,self,vader" \
            "--mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 -n $2 --host $(echo "${all#,}" | sed "s/\(node[0-9]*\)/\1:$each/g")"
        ;;
    mpich) echo "mpirun.mpich -launcher ssh -launcher-exec $agent -hosts ${all#,} -ppn $each -n $2" ;;
    esac
}

# ranks MPI COUNT ARGUMENT...: runs the program in COUNT ranks over all hosts for at most two minutes, with output in
# out and err.
ranks() {
    command="$(start "$1" "$2") $program"
    shift 2
    timeout 120 "$agent" node1 "cd $folder && $command $*" >out 2>err </dev/null
}

# ended CODE WHAT: checks that a run ended with 0. MPI_Finalize of MPICH 4.0 sometimes hangs over UCX and TCP, in any
# program; the ranks then end by themselves, and the launcher reports an error.
ended() {
    case $2 in
    mpich*) [ "$1" -ne 124 ] && grep -q '^Testing\|^Finished' out ;;
    *) [ "$1" -eq 0 ] ;;
    esac
}

# trained CODE WHAT WANTED SAVED: checks that a run ended, and that SAVED has the same weights as WANTED.
trained() {
    if ! ended "$1" "$2"; then fail "$2 ends with $1:" "$(cat err)"; else pass; fi
    check "$2 has the same weights" cmp "$3" "$4"
    rm -f "$4"
}

[ "$(id -u)" -eq 0 ] || skip_all "only root may make network namespaces"
command -v ip >/dev/null || skip_all "there is no ip (iproute2)"
[ -x "$build/tests/hosts/relay" ] || skip_all "the relay is not built (make check-hosts builds it)"
mpis=
for mpi in openmpi mpich; do
    [ -f "$build/libbrigade_mpi_$mpi.so" ] && command -v mpirun.$mpi >/dev/null && mpis="$mpis $mpi"
done
[ -n "$mpis" ] || skip_all "there is no MPI"

cd "$folder" || exit 1
digits="mnist --data-dir data --cores 1 --quiet --batch-size 8 --gradient-accumulation 8 --device-iterations 2 --steps 6"
gpt="gpt pretrain --config tiny --cores 1 --quiet --set precision=float32 stochastic_rounding=false maximum=0.003"
gpt="$gpt warmup_proportion=0 n_samples=50 --steps 3"
make_digits 400 100
"$program" $digits --save whole >out 2>&1
"$program" $digits --replicas 2 --save whole-replicas >out 2>&1
"$program" $gpt --save-weights whole.s >out 2>&1

begin_case hosts
for count in 2 4; do
    set_up $count
    for mpi in $mpis; do
        names=$(timeout 60 "$agent" node1 "$(start $mpi $count) hostname" 2>err | sort | tr '\n' ' ')
        check "$mpi starts a rank on each: $names $(cat err)" test "$names" = "$(seq -f node%g -s ' ' $count) "
        ranks $mpi 4 $digits --save w
        trained $? "$mpi, $count hosts, a pipeline" whole w
        ranks $mpi 4 $digits --replicas 2 --save w
        trained $? "$mpi, $count hosts, replicas" whole-replicas w
        ranks $mpi 4 $digits --replicas 2 --layout data,stage,tensor --offload weights,optimizer --save w
        trained $? "$mpi, $count hosts, another layout and offload" whole-replicas w
        ranks $mpi 4 $gpt --save-weights s
        trained $? "$mpi, $count hosts, gpt" whole.s s
    done
done

begin_case throttled
set_up 2
for host in 1 2; do
    tc -n ${BRIGADE_HOSTS_PREFIX}node$host qdisc add dev eth0 root tbf rate 40mbit burst 64kb latency 200ms 2>err ||
        { echo "skipped: throttled by tbf: $(cat err)"; skipped=$((skipped + 1)); set_up 2 --rate-mbit 40; break; }
done
for mpi in $mpis; do
    ranks $mpi 4 $digits --replicas 2 --save w
    trained $? "$mpi, replicas over 40 Mbit/s" whole-replicas w
done

begin_case delayed
set_up 2 --delay-ms 5
for mpi in $mpis; do
    ranks $mpi 2 $digits --save w
    trained $? "$mpi, a pipeline over 5 ms" whole w
    ranks $mpi 2 $gpt --save-weights s
    trained $? "$mpi, gpt over 5 ms" whole.s s
done

# begin_training MPI: starts a long training run of two ranks in the background, with each rank's process in pid.RANK
# and its messages in err.RANK, and waits for a checkpoint.
begin_training() {
    rm -rf checkpoint pid.* err.*
    cat >rank.sh <<'END'
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
echo $$ >pid.$rank
BRIGADE_OPTIONS=wait_limit_s=3 exec "$@" 2>err.$rank
END
    timeout 90 "$agent" node1 "cd $folder && $(start "$1" 2) sh rank.sh $program $digits --steps 1000000 --epochs 1000000 \
        --checkpoint checkpoint --checkpoint-steps 4" >out 2>err </dev/null &
    mpirun=$!
    tries=0
    until ls checkpoint/*.safetensors >/dev/null 2>&1 || [ $tries -ge 600 ] || ! kill -0 $mpirun; do
        sleep 0.05
        tries=$((tries + 1))
    done
    check "$1: the training goes on: $(cat err err.* 2>/dev/null)" kill -0 $mpirun
}

# all_gone SECONDS: succeeds if all rank processes end within this time.
all_gone() {
    tries=$(($1 * 20))
    for pid in $(cat pid.*); do
        while [ -d "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null && [ $tries -gt 0 ]; do
            sleep 0.05
            tries=$((tries - 1))
        done
    done
    [ $tries -gt 0 ]
}

begin_case cut
for mpi in $mpis; do
    set_up 2
    begin_training $mpi
    kill -USR1 $relay_pid
    check "$mpi: no rank is left after 20 s: $(cat err.*)" all_gone 20
    for rank in 0 1; do
        check "$mpi: rank $rank reports: $(cat err.$rank)" grep -q 'no progress for .*: rank '$rank'\|no sign of rank' err.$rank
    done
    kill $mpirun 2>/dev/null
    wait $mpirun 2>/dev/null
    check "$mpi: a checkpoint is left" test -n "$(ls checkpoint/*.safetensors 2>/dev/null)"
done

begin_case deaths
set_up 2
for mpi in $mpis; do
    begin_training $mpi
    kill -KILL "$(cat pid.1)"
    wait $mpirun 2>/dev/null
    check "$mpi: ends with an error" test $? -ne 0 -a $? -ne 124
    check "$mpi: no rank is left" all_gone 10
done
finish
