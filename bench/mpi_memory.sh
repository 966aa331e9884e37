#!/usr/bin/env bash
# Memory of ranks, with each MPI that the build has, as two tables in markdown (bench/mpi_memory.c): what a rank needs to
# start its part of a model of 64 devices, and what 10,000 updates of a small network add.
#
#   bench/mpi_memory.sh [BUILD]     also: make bench-mpi-memory
#   RANKS='1 8 64'                  of the first table
#   GROWTH_RANKS='2 4'              of the second one
#   MPIS='openmpi mpich'
#
# Times do not matter here, so ranks may share processors. The exit code is 1 when a row fails.
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
build=${1:-${BUILD:-build}}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
code=0

# start MPI RANKS WHAT
start() {
    case $1 in
    openmpi) mpirun.openmpi --oversubscribe --bind-to none -n "$2" "$build/bench/mpi_memory.openmpi" "$3" ;;
    mpich) mpirun.mpich -n "$2" "$build/bench/mpi_memory.mpich" "$3" ;;
    esac
}

mpis=
for mpi in ${MPIS:-openmpi mpich}; do
    if [ -x "$build/bench/mpi_memory.$mpi" ] && command -v mpirun.$mpi >/dev/null 2>&1; then
        mpis="$mpis $mpi"
    else
        echo "skipped: $mpi: it is not installed"
    fi
done

echo "$("$build/brigade" --version | head -n 1), $(getconf _NPROCESSORS_ONLN) processors. MiB of the rank that has most."
echo
echo "| 64 stages of 1 MiB of weights | ranks | devices of a rank | MPI | plan | session | first update | shared |"
echo "|---|---:|---:|---:|---:|---:|---:|---:|"
for mpi in $mpis; do
    for ranks in ${RANKS:-1 8 64}; do
        start $mpi $ranks start || code=1
    done
done
echo
echo "| 10,000 updates | ranks | after 1,000 | anonymous | shared | blocks | MPI alone | at most +512 kB |"
echo "|---|---:|---:|---:|---:|---:|---:|---|"
for mpi in $mpis; do
    for ranks in ${GROWTH_RANKS:-2 4}; do
        start $mpi $ranks growth || code=1
    done
done
exit $code
