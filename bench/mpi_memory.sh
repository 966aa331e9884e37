#!/usr/bin/env bash
# Measures the memory of ranks, with each MPI of the build, in two Markdown tables (bench/mpi_memory.c): the memory that
# a rank needs to start its part of a model of 64 devices, and the growth over 10,000 updates of a small network.
#
#   bench/mpi_memory.sh [BUILD]     also: make bench-mpi-memory
#   RANKS='1 8 64'                  numbers of ranks in the first table
#   GROWTH_RANKS='2 4'              numbers of ranks in the second table
#   MPIS='openmpi mpich'
#
# Times do not matter here, so ranks may share processors. The exit code is 1 when a row fails.
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
build=${1:-${BUILD:-build}}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
code=0

# start MPI RANKS WHAT: runs the measurement WHAT of bench/mpi_memory.c on RANKS ranks.
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

echo "$("$build/brigade" --version | head -n 1), $(getconf _NPROCESSORS_ONLN) processors. MiB of the rank with the most memory."
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
