#!/bin/sh
# Tests programs in C and Fortran that use MPI themselves and train in their ranks, with each available MPI.
. "$(dirname "$0")/../cli/support.sh"

# Without these Open MPI starts no ranks as root.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# expect NAME PATTERN: checks that a line of the output matches.
expect() {
    check "$1: a line $2 in: $(cat "$folder/out" "$folder/err")" grep -q -E -e "$2" "$folder/out"
}

# surrogate LANGUAGE MPI RANKS MPIRUN...: some ranks train while the others compute, and afterward all continue.
surrogate() {
    name="$1, $2, $3 ranks" example=$build/examples/mpi_surrogate_$1.$2 count=$3
    if [ ! -x "$example" ]; then
        echo "skipped: $1 with $2: not built (no compiler for it, no such MPI, or sanitizers)"
        skipped=$((skipped + 1))
        return
    elif ! command -v "mpirun.$2" >/dev/null 2>&1; then
        echo "skipped: $1 with $2: there is no mpirun.$2"
        skipped=$((skipped + 1))
        return
    fi
    shift 3
    timeout 60 "$@" -n "$count" "$example" >"$folder/out" 2>"$folder/err" </dev/null
    check "$name ends well: $(cat "$folder/err")" test $? -eq 0
    trainers=$((count / 2))
    expect "$name" "^meanwhile: 200 small steps on $(((count - trainers) * 64)) cells, heat is conserved$"
    expect "$name" '^5 large steps differ from 40 small ones by [0-9.]+[eE]-0[4-9] of the heat$'
    expect "$name" "^afterward: 200 small steps on $((count * 64)) cells, heat is conserved$"
}

begin_case surrogate
surrogate c openmpi 4 mpirun.openmpi --oversubscribe
[ "$skipped" -gt 0 ] || expect "c, openmpi" '^our error handler is in its place$'
before=$skipped
surrogate c mpich 3 mpirun.mpich
[ "$skipped" -gt "$before" ] || expect "c, mpich" '^our error handler is in its place$'

begin_case fortran
surrogate f90 openmpi 4 mpirun.openmpi --oversubscribe
surrogate f90 mpich 2 mpirun.mpich
finish
