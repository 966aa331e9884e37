#!/bin/sh
# `brigade gpt` accepts the command line of the PopXL GPT example unchanged.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/gpt.sh"

printf 'abcdefghijklmnopqrstuvwxyz01234567890123' >longer.txt
"$program" data tokenize longer.txt --length 9 --overlap 5 --output windows.tfrecord >out

example='--tensor_parallel_1 1 --tensor_parallel_2=1 --precision float32 --maximum 0.003 --warmup_proportion 0'
sets='--set tensor_parallel_1=1 tensor_parallel_2=1 precision=float32 maximum=0.003 warmup_proportion=0'
trained() {
    trained_name=$1
    shift
    "$program" gpt pretrain --steps 3 --save-weights $trained_name.safetensors --log $trained_name.jsonl "$@" \
        >$trained_name.out 2>$trained_name.err || fail "$*:" "$(cat $trained_name.err)"
}

begin_case example
trained ours $sets layers=1 eval=true stochastic_rounding=false training.steps=50 training.optimizer.name=sgd \
    'available_memory_proportion=[0.1, 0.2]' vocab_size=257 micro_batch_size=2 global_batch_size=4 load=null n_samples=null \
    --input-files windows.tfrecord longer.txt --checkpoint-steps 0
trained theirs $example --layers 1 --eval --stochastic_rounding False --training.steps 50 --optimizer sgd \
    --available_memory_proportion 0.1 0.2 --vocab_size 257 --micro-batch-size 2 --global_batch_size=4 --load None --n_samples None \
    --input_files windows.tfrecord longer.txt --checkpoint.steps 0 --hf_model None
same_losses ours theirs
settings() { sed -n '/^Configuration:/,/^Gradient/p' "$1.out"; }
check "the same configuration" test "$(settings ours)" = "$(settings theirs)"
check "of what was asked for" sh -c 'grep -q "^  layers: 1$" theirs.out && grep -q "^  eval: true$" theirs.out &&
    grep -q "name: \"sgd\"" theirs.out && grep -q "^  steps: 50$" theirs.out && grep -q "stochastic_rounding: false" theirs.out'
trained hers $example --layers 1 --eval true --eval=False --hf_model Test --data.input_files longer.txt \
    --model.embedding.vocab_size 257 --global_batch_size 4 --save_weights hers.safetensors --no_shuffle
check "flags have values too" grep -q '^  eval: false$' hers.out
check "paths of fields" grep -q 'longer.txt; 5 samples' hers.out
check "bench" "$program" gpt bench $example --layers 1 --data_parallel 1 --stochastic_rounding f --eval 0 >bench.out 2>&1
check "bench has the fields" grep -q '^Duration: ' bench.out

begin_case flag-words
for word in 0 no N F False 1 yes y T TRUE; do
    "$program" gpt pretrain $example --layers 1 --steps 1 --eval $word >words.out 2>/dev/null
    sed -n 's/^  eval: //p' words.out
done >words.txt
check "words of flags" test "$(tr '\n' ' ' <words.txt)" = 'false false false false false true true true true true '
check "help tells of them" sh -c '"$1" gpt pretrain --wandb --help | grep -q -e "--layers 3, --training.steps 100"' sh "$program"
finish
