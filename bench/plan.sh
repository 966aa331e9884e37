#!/bin/sh
# Compares predicted times of updates with measured ones in several turns (bench/predict.c): plan.sh [TURNS [CORES [NAME...]]]
# The same for ranks under mpirun, with each MPI (bench/mpi_predict.c): plan.sh ranks [TURNS [NETWORK[/SETUP]...]]
#   RANKS='2' MPIS='openmpi mpich'    numbers of ranks, and MPIs
# Median and worst error of the undisturbed rows that these commands printed into files: plan.sh verdict FILE...
# Time and memory of planning and simulating many devices: plan.sh scale [DEVICES]
cd "$(dirname "$0")/.." || exit 1

# plan ARGUMENT...: prints the first lines of a plan, then the output of /usr/bin/time
plan() {
    /usr/bin/time -o "$out.time" -f '%e s, %U s of processor time, %M KB' build/brigade plan gpt --config tiny \
        --device ipu-mk2 --tensor_parallel_1 1 --tensor_parallel_2 1 "$@" >"$out"
    tail -1 "$out.time"
    sed -n '1p;/ separate devices*: /p' "$out"
}

if [ "${1:-}" = scale ]; then
    make -s build/brigade || exit 1
    out=$(mktemp)
    trap 'rm -f "$out" "$out.time"' EXIT
    devices=${2:-512}
    micro_batches=$((devices > 512 ? 512 : 2 * devices))
    for schedule in interleaved zb-h1; do
        echo "$schedule, $devices devices, $micro_batches micro-batches"
        plan --strategy pipelined --schedule $schedule --layers $((devices - 2)) --global_batch_size $micro_batches --data_parallel 1
    done
    [ "$devices" -gt 512 ] && exit 0
    echo "phased, $devices replicas of $devices phases, $micro_batches micro-batches"
    plan --strategy phased --layers $((devices - 2)) --global_batch_size $((micro_batches * devices)) --data_parallel "$devices"
    exit 0
fi

# start MPI RANKS ARGUMENT...: runs bench/mpi_predict.c on each rank.
start() {
    mpi=$1 ranks=$2
    shift 2
    case $mpi in
    openmpi) mpirun.openmpi --oversubscribe --bind-to none -n "$ranks" build/bench/mpi_predict.openmpi "$@" ;;
    mpich) mpirun.mpich -n "$ranks" build/bench/mpi_predict.mpich "$@" ;;
    esac
}

if [ "${1:-}" = ranks ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    shift
    status=0
    for mpi in ${MPIS:-openmpi mpich}; do
        if ! command -v "mpirun.$mpi" >/dev/null 2>&1 || ! make -s "build/bench/mpi_predict.$mpi"; then
            echo "skipped: $mpi: it is not installed"
            continue
        fi
        for ranks in ${RANKS:-2}; do
            echo "$mpi, $ranks ranks"
            start "$mpi" "$ranks" "$@" || status=1
            echo
        done
    done
    exit $status
fi

# Lists the errors of all rows of printed tables, except rows during which other programs took over 5 % of the
# processors.
if [ "${1:-}" = verdict ]; then
    shift
    sed -n 's/^|.* | \([0-9.]*\) | \([-+][0-9.]*\) |$/\1 \2/p' "$@" | awk '$1 <= 5 { print $2 }' | tr -d '+-' | sort -g |
        awk '{ off[NR] = $1 } END { middle = (off[int((NR + 1) / 2)] + off[int(NR / 2) + 1]) / 2; nine = off[int(NR * 0.9) + 1]; worst = off[NR]
            printf "%d configurations: off by %.1f %% (median), %.1f %% (nine in ten), %.1f %% (worst): %s\n", NR, middle, nine,
                worst, (NR >= 30 && middle <= 3 && worst <= 10 ? "pass" : "fail") }'
    exit
fi
make -s build/bench/predict && exec build/bench/predict "$@"
