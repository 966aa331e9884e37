#!/bin/sh
# Runs the large parity matrix under MPI's launchers (`make check-ranks`): strategies, schedules, meshes, replicas,
# offload, sharding, recomputation and canonical reductions, of the digit network and of GPT, over 2, 3, 4 and 8 ranks.
# Weights must be bit-identical to those of one process. It uses each MPI of the build. BRIGADE_MATRIX_STEP=N runs every
# N-th cell.
. "$(dirname "$0")/../cli/support.sh"

cd "$folder" || exit 1
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset BRIGADE_MPI
step=${BRIGADE_MATRIX_STEP:-1} number=0

mpis=
for mpi in openmpi mpich; do
    if [ -f "$build/libbrigade_mpi_$mpi.so" ] && command -v mpirun.$mpi >/dev/null 2>&1; then
        mpis="$mpis $mpi"
    else
        echo "skipped: $mpi: the build has no transport for it, or there is no mpirun.$mpi"
        skipped=$((skipped + 1))
    fi
done

launcher() {
    case $1 in
    openmpi) echo "mpirun.openmpi --oversubscribe" ;;
    mpich) echo "mpirun.mpich" ;;
    esac
}

# row SAVE ARGUMENT...: runs one process, then ranks; SAVE is the option that saves weights.
row() {
    save=$1
    shift
    rm -f whole
    if ! "$program" "$@" "$save" whole >out 2>err </dev/null; then
        fail "one process: $*" "$(cat err)"
        return
    fi
    for mpi in $mpis; do
        for count in 2 3 4 8; do
            number=$((number + 1))
            [ $((number % step)) -eq 0 ] || continue
            rm -f w
            if ! timeout 120 $(launcher $mpi) -n $count "$program" "$@" "$save" w >out 2>err </dev/null; then
                fail "$mpi, $count ranks: $*" "$(cat err)"
            elif ! cmp -s whole w; then
                fail "$mpi, $count ranks: other bits: $*"
            else
                pass
            fi
        done
    done
}

digits="mnist --data-dir data --cores 1 --quiet --batch-size 4 --gradient-accumulation 7 --device-iterations 1 --steps 3"
gpt="gpt pretrain --config tiny --cores 1 --quiet --steps 2 --set precision=float32 stochastic_rounding=false maximum=0.003"
gpt="$gpt warmup_proportion=0 n_samples=50"
make_digits 300 50

begin_case schedules
for schedule in gpipe interleaved grouped sequential zb-h1 zb-h2; do
    row --save $digits --schedule $schedule
done
row --save $digits --strategy sharded
row --save $digits --strategy sharded --strict
row --save $digits --strategy phased
row --save $digits --stages auto:3

begin_case memory
row --save $digits --recompute stage
row --save $digits --recompute stage --recompute-order then --schedule gpipe
row --save $digits --offload weights,optimizer,activations --optimizer adam
row --save $digits --strategy phased --offload weights,optimizer,accumulators,activations

begin_case replicas
for way in "--strategy single --replicas 4" "--replicas 2" "--replicas 2 --layout data,stage,tensor" \
    "--replicas 2 --schedule zb-h1 --optimizer adam --shard optimizer --shard-minimum 16 --clip-norm 1" \
    "--replicas 2 --optimizer adam --shard optimizer --shard-minimum 16 --loss-scaling auto" \
    "--replicas 2 --reduce update" "--strategy phased --replicas 2 --offload weights,optimizer,accumulators"; do
    row --save $digits $way
done
row --save $digits --replicas 2 --gradient-accumulation 4 --canonical-reductions

begin_case gpt
row --save-weights $gpt
row --save-weights $gpt data_parallel=4 tensor_parallel_1=1 tensor_parallel_2=1
row --save-weights $gpt data_parallel=1 tensor_parallel_1=2 tensor_parallel_2=1
row --save-weights $gpt data_parallel=1 tensor_parallel_1=1 tensor_parallel_2=2
row --save-weights $gpt data_parallel=2 tensor_parallel_1=2 tensor_parallel_2=1 --strategy pipelined --stages auto:2
row --save-weights $gpt data_parallel=2 tensor_parallel_1=1 tensor_parallel_2=1 --strategy phased --recompute none

finish
