#!/usr/bin/env bash
# Sums over ranks beside MPI_Allreduce of the same bytes, with each MPI that the build has.
#
#   bench/mpi.sh [BUILD]            also: make bench-mpi
#   RANKS=2                         how many; as many as there are processors by default
#   LARGEST_KB=262144
#
# A ratio of 1 is as fast as MPI, 2 twice as fast; the slowest rank's time counts, and medians of many turns.
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
build=${1:-${BUILD:-build}}
ranks=${RANKS:-$(getconf _NPROCESSORS_ONLN)}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
code=0

for mpi in openmpi mpich; do
    program=$build/bench/mpi_allreduce.$mpi
    if [ ! -x "$program" ] || ! command -v mpirun.$mpi >/dev/null 2>&1; then
        echo "skipped: $mpi: it is not installed"
        continue
    fi
    options=
    [ $mpi = openmpi ] && options=--oversubscribe
    mpirun.$mpi $options -n "$ranks" "$program" "${LARGEST_KB:-262144}" || code=1
done
exit $code
