#!/bin/sh
# Runs four ranks under valgrind, with the suppressions that Open MPI ships and those of tests/ranks/mpi.supp: the digit
# network as a pipeline, as replicas with state in pieces, and with remote buffers; GPT with both meshes. Any read of
# uninitialized memory and any leak is a failure.
#
#   tools/valgrind_ranks.sh [BUILD]            also: make check-valgrind
#
# Ends with "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Ranks wait longer, because runs under valgrind are slow.
export BRIGADE_OPTIONS=wait_limit_s=600
build=$(realpath "${1:-${BUILD:-build}}")
own=$PWD/tests/ranks/mpi.supp
passed=0 failed=0

for needed in valgrind mpirun.openmpi; do
    command -v $needed >/dev/null 2>&1 && continue
    echo "skipped: $needed is not installed"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
done
if [ ! -f "$build/libbrigade_mpi_openmpi.so" ]; then
    echo "skipped: $build has no transport for Open MPI"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
prefix=$(dirname "$(dirname "$(realpath "$(command -v mpirun.openmpi)")")")
theirs=
for file in "$prefix/share/openmpi/openmpi-valgrind.supp" /usr/share/openmpi/openmpi-valgrind.supp; do
    [ -f "$file" ] && theirs="--suppressions=$file" && break
done
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
"$build/brigade" data digits --dir data --count 64 --test-count 16 >/dev/null || exit 1

# run NAME ARGUMENT...: runs `brigade ARGUMENT...` on four ranks, and reports the result under this name.
run() {
    name=$1
    shift
    rm -f report.*
    timeout 900 mpirun.openmpi --oversubscribe -n 4 valgrind -q --num-callers=30 --leak-check=full --keep-debuginfo=yes \
        --show-leak-kinds=definite --errors-for-leak-kinds=definite --error-exitcode=9 $theirs "--suppressions=$own" \
        --log-file=report.%p "$build/brigade" "$@" >out 2>err </dev/null
    code=$?
    if [ $code -eq 0 ] && ! grep -q . report.*; then
        passed=$((passed + 1))
        echo "ok      $name"
    else
        failed=$((failed + 1))
        echo "FAILED  $name ($code)"
        tail -n 5 err
        cat report.* | head -n 100
    fi
}

digits="mnist --data-dir data --cores 1 --quiet --batch-size 2 --device-iterations 1 --steps 2"
run pipeline $digits --gradient-accumulation 7 --save w --profile --profile-dir profile
run replicas $digits --strategy single --replicas 4 --gradient-accumulation 2 --optimizer adam --shard optimizer --shard-minimum 16 \
    --loss-scaling auto --clip-norm 1
run remote $digits --strategy phased --replicas 2 --gradient-accumulation 2 --offload weights,optimizer,activations
run gpt gpt pretrain --config tiny --cores 1 --quiet --steps 1
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
