#!/bin/sh
# `brigade gpt`: printed lines, log, configuration, presets, learning, events, benchmark, errors.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/gpt.sh"

begin_case lines
train base
number='[0-9.e+-]+'
for pattern in '^Process id: [0-9]+$' '^  layers: 2$' '^Gradient accumulation steps: 8$' '^Starting compilation$' \
    '^Compilation duration: [0-9]+\.[0-9][0-9] mins$' "^Data: the text of Brigade's documents and headers, .*ASCII only" \
    "^Step: 1/100000 Loss: [0-9]\.[0-9]{3} Duration: [0-9]+\.[0-9]{4} s Throughput: +[0-9]+\.[0-9] samples/s Tokens: $number tokens/s Gradient norm: $number Learning rate: 0.003$" \
    '^Step: 6/100000 ' '^Trained 6 weight updates in ' '^Finished pre-training\.$'; do
    check "a line $pattern" grep -q -E -e "$pattern" base.out
done
check "samples over duration is the throughput" consistent base.out 16
check "six steps" test "$(grep -c '^Step: ' base.out)" -eq 6
check "each update is a line of the log" test "$(values base step | tr '\n' ' ')" = '1 2 3 4 5 6 '
for key in loss grad_norm lr samples_per_s tokens_per_s; do
    check "$key of each update" test "$(values base $key | grep -c -E "^$number\$")" -eq 6
done
check "the newest checkpoint alone is kept" test "$(ls base)" = checkpoint_train_step_6.safetensors
"$program" gpt pretrain $small --quiet >quiet.out 2>&1
check "--quiet" test "$(wc -l <quiet.out)" -eq 2

# The runs below set their number of steps.
small=$plain

begin_case learning
steps=150
[ -n "$quick" ] && steps=25
train learns --steps $steps --strategy single --quiet
check "the loss falls by one" awk "BEGIN { exit !($(values learns loss | head -n 1) > 1 + $(values learns loss | tail -n 1)) }"

# Labels are the next tokens, so a model of a b a b ... continues this sequence.
awk 'BEGIN { for (i = 0; i < 400; i++) printf "ab" }' >abab.txt
train alternates --steps 60 --strategy single --quiet --input-files abab.txt --save-hf alternates.hf --set dropout_prob=0 maximum=0.01
check "what follows is learned" test "$("$program" gpt generate --hf-model alternates.hf --prompt ab --length 5 --temperature 0)" \
    = abababa
"$program" gpt generate --hf-model alternates.hf --prompt ab --length 5 --temperature 0 --weights-type int4 >rounded.out 2>rounded.err
check "with weights of 4 bits too" test "$(cat rounded.out)" = abababa
check "whose rounding is told" grep -qE '^Weights: [0-9]+ matrices rounded to [0-9.]+ bits a weight, .*largest error .*, bound ' rounded.err
check "with weights and activations of bfloat16 too" test "$("$program" gpt generate --hf-model alternates.hf --prompt ab --length 5 \
    --temperature 0 --weights-type bfloat16 --dtype bfloat16 2>/dev/null)" = abababa
"$program" gpt generate --hf-model alternates.hf --prompt ab --length 5 --temperature 0 --dtype bfloat16 >cast.out 2>cast.err
check "casts of bfloat16 are not told: $(cat cast.err)" test "$(cat cast.out)" = abababa -a ! -s cast.err
"$program" gpt eval --hf-model alternates.hf --input-files abab.txt --weights-type int8 >eval.out
check "eval with weights of 8 bits" test "$(grep -cE '^Tokens: 799 |^Weights: ' eval.out)" -eq 2

# Trains the unchanged preset on its eight devices with its learning rates, and compares means of 50 losses.
if [ -n "${BRIGADE_TEST_ALL:-}" ]; then
    "$program" gpt pretrain --config tiny --steps 600 --quiet --log tiny.jsonl >out 2>err
    check "the loss of the preset falls" awk "BEGIN { exit !($(values tiny loss | head -n 50 | paste -sd+) > \
        50 * 0.2 + $(values tiny loss | tail -n 50 | paste -sd+)) }"
fi

begin_case configuration
train layers --steps 1 --set model.layers=3
check "--set is over the preset" grep -q '^  layers: 3$' layers.out
printf 'model:\n  layers: 1\ntraining:\n  steps: 2\n' >own.yaml
train own --config tiny --config-file own.yaml --set heads=2
check "a file is over the preset" grep -q '^  layers: 1$' own.out
check "a value is over the file" grep -q '^    heads: 2$' own.out
check "training.steps ends the run" grep -q '^Step: 2/2 ' own.out

begin_case calls
train calls --steps 4 --set device_iterations=2 training.steps=8 warmup_proportion=0.4 decay=cosine
check "two updates a call" test "$(grep -c '^Step: ' calls.out)" -eq 2
train singly --steps 4 --set training.steps=8 warmup_proportion=0.4 decay=cosine
check "are the same as one by one" cmp -s calls.safetensors singly.safetensors
for key in loss lr; do
    check "each has its line and $key" test "$(values calls $key)" = "$(values singly $key)"
done
check "the line of a call has the mean of its losses" test "$(sed -n 's/^Step: 4.*Loss: \([0-9.]*\) .*/\1/p' calls.out)" = \
    "$(values calls loss | tail -n 2 | awk '{ sum += $1 } END { printf "%.3f", sum / 2 }')"
train callspipelined --steps 4 --set device_iterations=4 training.steps=8 warmup_proportion=0.4 decay=cosine \
    --strategy pipelined --cores 1
check "four updates a call in a pipeline" cmp -s callspipelined.safetensors singly.safetensors

begin_case test-mode
"$program" gpt pretrain $small --steps 2 --set test_mode=true --save nothing --log nothing --save-weights nothing \
    >nothing.out 2>&1
check "test mode" grep -q '^Finished pre-training' nothing.out
check "writes nothing" sh -c '! test -e nothing'

begin_case presets
# The numbers of devices are the published ones, and devices of the largest model need less than 1 GB.
for preset in tiny:8 test:16 gpt3_2.7B_pod64:64 gpt3_175B_pod256:256; do
    "$program" gpt pretrain --config ${preset%:*} --compile-only --quiet --device-memory 1G >plan.out 2>&1
    check "${preset%:*} is planned" grep -q -E '^device 0( +[0-9]+)+$' plan.out
    check "and its phases by class" sh -c 'grep -q "^Memory by phase$" plan.out && grep -q -E "^F stage 1-[0-9]+( +[0-9]+){8}$" plan.out'
    check "${preset%:*} has ${preset#*:} replicas" grep -q " on 1 device, ${preset#*:} replicas[; ]" plan.out
done

begin_case stopped-compilation
# A run that only compiles has nothing to save.
"$program" gpt pretrain $one layers=4000 --compile-only >compiled.out 2>&1 &
await_handler $!
kill -TERM $!
wait $! 2>/dev/null
check "a signal ends a compilation at once" test $? -eq 143

begin_case events
train events --steps 3 --tensorboard board
check "an event file" test "$(ls board | grep -c '^events\.out\.tfevents\.')" -eq 1
for tag in loss grad_norm lr throughput; do
    check "$tag in it" test "$(cat board/events* | tr -c 'a-z_' '\n' | grep -c -x -e "$tag")" -eq 3
done
od -An -v -tx1 board/events* | tr -d ' \n' >events.hex
for step in 1 2 3; do # field 2 is the step, and field 5 its value
    check "step $step in it" grep -q "100${step}2a" events.hex
done
error 1 '--tensorboard: ' gpt pretrain $one precision=float32 --quiet --steps 1 --tensorboard own.yaml

begin_case benchmark
bench_start=$(date +%s%N)
"$program" gpt bench $one >bench.out 2>bench.err
bench_s=$(awk "BEGIN { print ($(date +%s%N) - $bench_start) / 1e9 }")
check "five timed steps" test "$(grep -c -E '^Step [0-4]\. Loss [0-9]+\.[0-9]{2}$' bench.out)" -eq 5
check "and no other" test "$(grep -c '^Step' bench.out)" -eq 5
check "samples of a step over its duration is the throughput" consistent bench.out 16
check "the duration is of one step, not of the five" awk -v bench="$(sed -n 's/^Duration: \([0-9.]*\) s.*/\1/p' bench.out)" \
    -v wall="$bench_s" 'BEGIN { exit !(bench > 0 && bench * 5 < wall) }'
check "duration and throughput" grep -q -E '^Duration: [0-9]+\.[0-9]{4} s Throughput: +[0-9]+\.[0-9] samples/s$' bench.out

begin_case errors
count_tokens >count.u16
error 2 '`brigade gpt --help` lists them' gpt
error 2 'unknown command `pretrian`; did you mean `pretrain`?' gpt pretrian
error 2 'there is no preset `tony`' gpt pretrain --config tony
error 2 'model.attention.heads 4 is not divisible by execution.tensor_parallel_1 3' gpt pretrain --set tensor_parallel_1=3
error 2 'model.hidden_size 64 is not divisible by execution.tensor_parallel_2 3' gpt pretrain --set tensor_parallel_2=3
error 2 'model.hidden_size 64 is not divisible by model.attention.heads 5' gpt pretrain $one heads=5
error 2 'training.global_batch_size 17 is not divisible by execution.data_parallel 2 x' gpt pretrain $one global_batch_size=17
error 2 'did you mean `model.layers`?' gpt pretrain $one model.layer=3
error 2 'execution.attention_serialization 3 does not divide model.sequence_length 8' gpt pretrain $one attention_serialization=3
printf 'model:\n  layerz: 3\n' >wrong.yaml
error 2 'wrong.yaml:2:3: unknown key `model.layerz`; did you mean `model.layers`?' gpt pretrain --config-file wrong.yaml
error 2 '--schedule is `interleave`; it must be one of' gpt pretrain $one --strategy pipelined --schedule interleave
error 2 'add --save DIR' gpt pretrain $one --checkpoint-steps 5
error 2 '--checkpoint-keep-best is given without --save DIR, the folder that it needs' gpt pretrain $one --checkpoint-keep-best loss
error 2 'the training measures only `loss`' gpt pretrain $one --save x --checkpoint-keep-best accuracy
error 2 'checkpoints go into a folder' gpt pretrain $one --save x.safetensors
error 2 '--steps 200 is more than training.steps 100' gpt pretrain $one training.steps=100 --steps 200
error 1 'the benchmark keeps remote buffers in memory' gpt bench $one memmap_dir=x
error 1 'make it 256 (or 128 for ASCII only)' gpt pretrain $one vocab_size=100
error 1 'has 97 tokens but must have at least 129' gpt pretrain $one sequence_length=128 max_positional_length=128 \
    --input-files count.u16
error 1 '12 samples of 8 tokens, and a call takes training.global_batch_size 16' gpt pretrain $one --input-files count.u16
error 1 'is 50 but must be below 50' gpt pretrain $one vocab_size=50 precision=float32 global_batch_size=4 --steps 3 \
    --input-files count.u16 --no-shuffle --quiet
error 1 'no file matches `none*.u16`' gpt pretrain $one --input-files 'none*.u16'
error 1 'the name must end in .u16' gpt pretrain $one --input-files own.yaml
error 1 '--save: ' gpt pretrain $one precision=float32 --quiet --save own.yaml
error 1 '--load: ' gpt pretrain $one precision=float32 --quiet --load nowhere
error 1 'there is a checkpoint of step 6, but this run begins at step' gpt pretrain $one precision=float32 --quiet --save base
finish
