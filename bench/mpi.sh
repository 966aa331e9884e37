#!/usr/bin/env bash
# Measures ranks on one machine, with each MPI of the build, in Markdown tables whose rows pass or fail. It compares
# sums with MPI_Allreduce of the same bytes (bench/mpi_allreduce.c), and training with one process on the same cores and
# with the simulator's prediction (bench/mpi_training.c).
#
#   bench/mpi.sh [BUILD]            also: make bench-mpi
#   RANKS=2                         number of ranks; default: the number of processors
#   LARGEST_KB=262144               size of the largest sum; 0: no sums
#   TURNS=5 LAYERS=12 VOCABULARY=50257 ONLY=TEXT
#                                   training: turns of a row; GPT-2's size; only rows whose names contain the text,
#                                   "-" for no rows
#   MPIS='openmpi mpich'
#
# A ratio of 1 means equally fast, 2 twice as fast. Times are those of the slowest rank, as medians of turns. The
# machine must be idle. The exit code is 1 when a row fails.
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
build=${1:-${BUILD:-build}}
ranks=${RANKS:-$(getconf _NPROCESSORS_ONLN)}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
code=0

# start MPI PROGRAM ARGUMENT...: runs the program on each rank.
start() {
    local mpi=$1
    shift
    case $mpi in
    openmpi) mpirun.openmpi --oversubscribe --bind-to none -n "$ranks" "$@" ;;
    mpich) mpirun.mpich -n "$ranks" "$@" ;;
    esac
}

processor=$(sed -n 's/^model name[[:space:]]*: *//p' /proc/cpuinfo | head -n 1)
echo "Processor: ${processor:-unknown}, $(getconf _NPROCESSORS_ONLN) cores. $("$build/brigade" --version | head -n 1). Load average before: $(cut -d ' ' -f 1 /proc/loadavg)."
for mpi in ${MPIS:-openmpi mpich}; do
    if [ ! -x "$build/bench/mpi_allreduce.$mpi" ] || ! command -v mpirun.$mpi >/dev/null 2>&1; then
        echo "skipped: $mpi: it is not installed"
        continue
    fi
    if [ "${LARGEST_KB:-262144}" -gt 0 ]; then
        echo
        start $mpi "$build/bench/mpi_allreduce.$mpi" "${LARGEST_KB:-262144}" || code=1
    fi
    if [ "${ONLY:-}" != - ]; then
        echo
        start $mpi "$build/bench/mpi_training.$mpi" --turns "${TURNS:-5}" --layers "${LAYERS:-12}" \
            --vocabulary "${VOCABULARY:-50257}" --only "${ONLY:-}" || code=1
    fi
done
exit $code
