#!/bin/sh
# An update whose loss is not finite is refused, and leaves a folder from which one process can repeat the update. The
# folder does not depend on the size of calls, the strategy or the number of ranks.
. "$(dirname "$0")/support.sh"
cd "$folder" || exit 1
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset BRIGADE_MPI BRIGADE_OPTIONS
make_digits 320 80
# This learning rate makes the weights so large that a later loss is not finite.
digits="mnist --data-dir data --batch-size 4 --gradient-accumulation 4 --optimizer adamw --learning-rate 1e15 --cores 1
    --quiet --steps 12 --epochs 1"

# refused WHAT FOLDER COMMAND...: checks that the command fails with one error that names the update, and stores the
# update's number in `update`.
refused() {
    refused_what=$1 refused_folder=$2
    shift 2
    timeout 60 "$@" >out 2>err </dev/null
    check "$refused_what: ends with 1" test $? -eq 1
    update=$(sed -n 's/^brigade [a-z]*: the loss of weight update \([0-9]*\) is infinite or NaN: the update was refused.*/\1/p' err)
    check "$refused_what: says which update: $(cat err)" test -n "$update"
    check "$refused_what: leaves what repeats it: $(ls "$refused_folder")" test -x /bin/sh -a \
        -s "$refused_folder/refused-$update/replay.sh" -a -s "$refused_folder/refused-$update/inputs.safetensors" -a \
        -s "$refused_folder/refused-$update/checkpoint_train_step_$((update - 1)).safetensors"
}

# repeats WHAT FOLDER ARGUMENT...: checks that the update is refused again.
repeats() {
    repeats_what=$1 repeats_folder=$2
    shift 2
    sh "$repeats_folder/replay.sh" "$@" >out 2>err
    check "$repeats_what: ends with 1: $(cat out err)" test $? -eq 1
    check "$repeats_what: of the same update: $(cat err)" grep -q "the loss of weight update $update is infinite" err
    check "$repeats_what: says of which micro-batch: $(cat out)" grep -q '^micro-batch [0-9]* of 1*[46]: loss .*, which is not finite$' out
}

# same WHAT FOLDER FOLDER: checks that two folders have the same samples and weights.
same() {
    check "$1: the same samples" cmp "$2/inputs.safetensors" "$3/inputs.safetensors"
    check "$1: the same weights: $(cat diff 2>/dev/null)" "$program" checkpoint diff "$2" "$3" >diff
}

begin_case digits
refused "one update a call" a "$program" $digits --device-iterations 1 --checkpoint a --checkpoint-steps 1
first=$update
check "the newest checkpoint is that before it" test "$(ls a | grep -c "^checkpoint_train_step_$((update - 1)).safetensors$")" -eq 1
repeats "a replay" a/refused-$first
grep '^micro-batch' out >losses
repeats "under another strategy" a/refused-$first --strategy sharded
check "the same losses" sh -c "grep '^micro-batch' out | cmp - losses"
check "nothing was written: $(ls a/refused-$first)" test "$(ls a/refused-$first | wc -l)" -eq 3
refused "in the middle of a call" b "$program" $digits --device-iterations 5 --checkpoint b
check "the same update" test "$update" -eq "$first"
same "of a longer call" a/refused-$first b/refused-$first

begin_case samples
refused "in order" n "$program" $digits --no-shuffle --device-iterations 2 --checkpoint n --checkpoint-async
# An update has 16 images of 784 bytes, which are the last bytes before the labels. The image file has a header of 16
# bytes.
gzip -cd data/train-images-idx3-ubyte.gz 2>/dev/null | tail -c +$((17 + 784 * 16 * (update - 1))) | head -c $((784 * 16)) >wanted
tail -c $((785 * 16)) n/refused-$update/inputs.safetensors | head -c $((784 * 16)) >found
check "the samples of the update are in the file" cmp wanted found
check "and they are some" test "$(wc -c <wanted)" -eq $((784 * 16))

begin_case off
"$program" $digits --log l --save w >out 2>err
check "without checkpoints nothing is refused" test "$(grep -c '"step"' l)" -eq 12
rm -rf l w
"$program" $digits --guard-loss --save w >out 2>err
check "unless --guard-loss says so: $(cat err)" test -d brigade-refused-$first
printf 'guard_loss=false\n' >options
"$program" $digits --options options --checkpoint off --save w >out 2>err
check "and not when the options say so: $(cat err)" test "$(ls off)" = checkpoint_train_step_12.safetensors

begin_case errors
"$program" mnist --data-dir data --batch-size 4 --gradient-accumulation 4 --optimizer adamw --cores 1 --dtype float16 \
    --replay a/refused-$first >out 2>err
check "a folder of another command" test $? -eq 1
error 1 'nowhere/inputs.safetensors' mnist --data-dir data --gradient-accumulation 1 --replay nowhere

begin_case train
oracle=$root/tests/oracle/train
refused train t "$program" train "$oracle/net.onnx" --input "x=$oracle/images.npy" --target "$oracle/labels.npy" --cores 1 \
    --batch-size 4 --gradient-accumulation 4 --epochs 20 --quiet --learning-rate 1e25 --checkpoint t
repeats train t/refused-$update

begin_case gpt
gpt="gpt pretrain --config tiny --cores 1 --quiet --set precision=float32 stochastic_rounding=false maximum=1e30
    warmup_proportion=0 n_samples=50 gradient_clipping=0 global_batch_size=4 micro_batch_size=1 data_parallel=1 --steps 8 --input-files text.md"
cp "$root/docs/training.md" text.md
refused gpt g "$program" $gpt --save g
gpt_update=$update
mv text.md kept.md
repeats "gpt without its data" g/refused-$update
mv kept.md text.md

begin_case ranks
start=
for mpi in openmpi mpich; do
    [ -f "$build/libbrigade_mpi_$mpi.so" ] && command -v mpirun.$mpi >/dev/null 2>&1 && start=$mpi
done
# The thread sanitizer reports races in MPI libraries that were built without it.
grep -q __tsan_init "$program" && start=
case $start in
openmpi) start="mpirun.openmpi --oversubscribe" ;;
mpich) start=mpirun.mpich ;;
*)
    echo "skipped: there is no MPI, or the build has the thread sanitizer"
    skipped=$((skipped + 1))
    finish
    ;;
esac
refused "three ranks" r $start -n 3 "$program" $digits --device-iterations 5 --checkpoint r --checkpoint-steps 5
check "the same update" test "$update" -eq "$first"
same "three ranks" a/refused-$first r/refused-$first
repeats "what ranks have left" r/refused-$update
refused "GPT on ranks" q $start -n 2 "$program" $gpt --save q --checkpoint-steps 1 --checkpoint-async
check "the same update" test "$update" -eq "$gpt_update"
same "GPT on ranks" g/refused-$update q/refused-$update
finish
