#!/bin/sh
# `brigade gpt`: its lines, its log, data, the same bits in every strategy and after a stop, errors, the benchmark.
. "$(dirname "$0")/support.sh"

export BRIGADE_PRESETS=$root/share/presets
cd "$folder" || exit 1
# Under a sanitizer runs are slow: those that differ from others in numbers alone are left out.
quick=${BRIGADE_TEST_QUICK:-}
one='--set tensor_parallel_1=1 tensor_parallel_2=1'
small="$one precision=float32 maximum=0.003 warmup_proportion=0 --steps 6"

# train NAME ARGUMENT...: trains with checkpoints in NAME, weights in NAME.safetensors, the log in NAME.jsonl.
train() {
    name=$1
    shift
    if "$program" gpt pretrain $small --save "$name" --save-weights "$name.safetensors" --log "$name.jsonl" "$@" \
        >"$name.out" 2>"$name.err"; then
        pass
    else
        fail "$*:" "$(cat "$name.err")"
    fi
}

# values NAME KEY: the log's values of a key.
values() {
    sed -n "s/.*\"$2\":\([^,}]*\).*/\1/p" "$1.jsonl"
}

# same NAME NAME: the same weights, the same losses and norms, checkpoints that are the same to the byte.
same() {
    check "$1 and $2 have the same weights" cmp -s "$1.safetensors" "$2.safetensors"
    check "$1 and $2 have the same checkpoints" cmp -s "$1/checkpoint_train_step_6.safetensors" \
        "$2/checkpoint_train_step_6.safetensors"
    for key in loss grad_norm lr; do
        check "$1 and $2 log the same $key" test "$(values "$1" $key)" = "$(values "$2" $key)"
    done
}

# ---- lines ----

train base
number='[0-9.e+-]+'
for pattern in '^Process id: [0-9]+$' '^  layers: 2$' '^Gradient accumulation steps: 8$' '^Starting compilation$' \
    '^Compilation duration: [0-9]+\.[0-9][0-9] mins$' "^Data: the text of Brigade's documents and headers, .*ASCII only" \
    "^Step: 1/100000 Loss: [0-9]\.[0-9]{3} Duration: [0-9]+\.[0-9]{4} s Throughput: +[0-9]+\.[0-9] samples/s Tokens: $number tokens/s Gradient norm: $number Learning rate: 0.003$" \
    '^Step: 6/100000 ' '^Trained 6 weight updates in ' '^Finished pre-training\.$'; do
    check "a line $pattern" grep -q -E -e "$pattern" base.out
done
check "six steps" test "$(grep -c '^Step: ' base.out)" -eq 6
check "each update is a line of the log" test "$(values base step | tr '\n' ' ')" = '1 2 3 4 5 6 '
for key in loss grad_norm lr samples_per_s tokens_per_s; do
    check "$key of each update" test "$(values base $key | grep -c -E "^$number\$")" -eq 6
done
check "the newest checkpoint alone is kept" test "$(ls base)" = checkpoint_train_step_6.safetensors
"$program" gpt pretrain $small --quiet >quiet.out 2>&1
check "--quiet" test "$(wc -l <quiet.out)" -eq 2

# ---- what changes no bit ----

train single --strategy single
train pipelined --strategy pipelined
train schedule --strategy pipelined --schedule zb-h1 --stages auto:3
train stages --strategy pipelined --schedule grouped --stages 'Embedding,Layer-0|Layer-1,Head'
train sharded --strategy sharded --cores 1
train parallel --phases parallel
train resident --offload none --shard none --recompute none
train liveness --phase-liveness always_live --recompute-order then --io-threads 0
train serialised --set attention_serialisation=1
train scaled --set loss_scaling=4096
for other in single pipelined schedule stages sharded parallel resident liveness serialised scaled; do
    same base $other
done
# Options by name, and those that go straight to the library.
printf 'setExecutionStrategy(pipelined)\nschedule grouped\nseed 42\nplace_weights device\nmatmul_proportions 0.01\n' >run.txt
BRIGADE_OPTIONS='cores=1 seed=7' train byoptions --options run.txt --seed 3
same base byoptions
train proportion --matmul-proportion 0.001
same base proportion
# The same share by the configuration's name: other plans, the same bits.
train memory --set 'available_memory_proportion=[0.001]'
same base memory
for share in --steps=6 '--set=available_memory_proportion=[0.001]' '--matmul-proportion=0.001'; do
    "$program" gpt pretrain $one precision=float32 hidden_size=512 vocab_size=1000 micro_batch_size=16 data_parallel=1 \
        "${share%%=*}" "${share#*=}" --compile-only --quiet | awk '/^device 0/ { print $7 }'
done >shares.txt
check "less scratch" test "$(sed -n 2p shares.txt)" -lt "$(sed -n 1p shares.txt)"
check "as with --matmul-proportion" test "$(sed -n 2p shares.txt)" = "$(sed -n 3p shares.txt)"
train cached --cache-dir plans --log-dir notes
train fromcache --cache-dir plans --log-cycles
same base fromcache
check "the plan comes from the cache" grep -q '^Plan: loaded from cache in ' fromcache.out
check "the first one was compiled" grep -q '^Graph compilation: ' cached.out
check "a log of the compiler" grep -q ' info: plan: compiled in ' notes/brigade.log
check "each call's cycles" test "$(grep -c 'info: run took [0-9]* cycles$' fromcache.err)" -eq 6
"$program" gpt bench $one --compile-only --cache-dir plans >bench.out 2>&1
check "bench --compile-only runs nothing" sh -c 'grep -q "^Memory" bench.out && ! grep -q "^Step" bench.out'
printf 'seed 1\nsteps 3\nreplicas x\n' >wrong.txt
error 2 'wrong.txt:2: there is no option `steps`' gpt pretrain --options wrong.txt
error 2 'wrong.txt:3: option `replicas` is `x`' gpt pretrain --options wrong.txt
error 2 'none.txt' gpt pretrain --options none.txt
echo 'seed 9007199254740993' >seed.txt # one more than a double holds
"$program" gpt pretrain $one --steps 1 --options seed.txt >seed.out 2>&1
check "a seed is what was given" grep -q '^  seed: 9007199254740993$' seed.out
for refused in 'replicas 2:data_parallel=2' 'gradient_accumulation 2:global_batch_size=64' 'output_mode all:every loss' \
    'total_devices 4:give replicas' 'device_iterations 0:execution.device_iterations is 0' 'io_threads 99:io_threads is 99' \
    'seed 18446744073709551615:model.seed is' 'schedule gpipe:--strategy phased' 'max_gradient_norm -1:gradient_clipping is -1'; do
    echo "${refused%%:*}" >wrong.txt
    error 2 "${refused#*:}" gpt pretrain $one --options wrong.txt
done
train half --set precision=bfloat16
train halfpipelined --set precision=bfloat16 --strategy pipelined --schedule gpipe
same half halfpipelined
check "bfloat16 gives other weights" sh -c '! cmp -s base.safetensors half.safetensors'
train chance --set precision=bfloat16 weights=bfloat16
train chancepipelined --set precision=bfloat16 weights=bfloat16 --strategy pipelined --schedule gpipe
same chance chancepipelined
check "weights in bfloat16 take half the bytes" test "$(wc -c <chance.safetensors)" -lt \
    "$(($(wc -c <half.safetensors) * 6 / 10))"
train nearest --set precision=bfloat16 weights=bfloat16 stochastic_rounding=false
check "to nearest gives other weights" sh -c '! cmp -s chance.safetensors nearest.safetensors'
if [ -z "$quick" ]; then
    for rounding in true false; do
        train chance16$rounding --set precision=float16 weights=float16 stochastic_rounding=$rounding
    done
    check "in float16 too" sh -c '! cmp -s chance16true.safetensors chance16false.safetensors'
fi
train tohf --set precision=bfloat16 weights=bfloat16 --save-hf halfhf
train fromhf --set precision=bfloat16 weights=bfloat16 maximum=0 constant=true --hf-model halfhf --save-hf halfhf2
check "a folder of bfloat16 weights comes and goes" cmp -s halfhf/model.safetensors halfhf2/model.safetensors
for rule in adadelta sgd; do
    optimiser="training.optimizer.name=$rule"
    [ "$rule" = sgd ] && optimiser="$optimiser training.optimizer.momentum=0.9 training.optimizer.combined=true"
    train $rule --set $optimiser
    train ${rule}pipelined --set $optimiser --strategy pipelined
    same $rule ${rule}pipelined
done
train sixteen --set precision=float16 weights=float16 loss_scaling=1024
train sixteenpipelined --set precision=float16 weights=float16 loss_scaling=1024 --strategy pipelined --schedule gpipe
same sixteen sixteenpipelined
check "float16 is not bfloat16" sh -c '! cmp -s chance.safetensors sixteen.safetensors'
check "nobody says that it is" sh -c '! grep -q bfloat16 sixteen.err'
check "weights in float16" grep -q '"F16"' sixteen.safetensors
train sixteenhf --set precision=float16 weights=float16 maximum=0 constant=true --hf-model halfhf --save-hf halfhf3
train sixteenhf2 --set precision=float16 weights=float16 maximum=0 constant=true --hf-model halfhf3 --save-hf halfhf4
check "a folder of float16 weights comes and goes" cmp -s halfhf3/model.safetensors halfhf4/model.safetensors
# With next to no gradients weights decay alone; biases, and the ones that scale norms, do not.
train decay --set training.optimizer.name=sgd constant=true weight_decay=0.5 gradient_clipping=1e-30
check "norms do not decay" test "$(od -An -v -tx4 decay.safetensors | tr ' ' '\n' | grep -c '^3f800000$')" -eq 320
train without --set dropout_prob=0
train evaluation --set model.eval=true
check "model.eval is without dropout" cmp -s without.safetensors evaluation.safetensors
check "dropout gives other weights" sh -c '! cmp -s base.safetensors without.safetensors'
# Each setting of an optimiser reaches it.
train rmsprop --set training.optimizer.name=rmsprop
settings='rmsprop:momentum=0.5 rmsprop:alpha=0.5 rmsprop:centred=true rmsprop:tf_variant=true base:beta1=0.5
    base:beta2=0.5 base:epsilon=0.01 base:weight_decay=0.5 base:gradient_clipping=0.5'
[ -n "$quick" ] && settings='rmsprop:momentum=0.5 base:beta1=0.5'
for setting in $settings; do
    name=adamw
    [ "${setting%%:*}" = rmsprop ] && name=rmsprop
    train setting --set training.optimizer.name=$name "${setting#*:}"
    check "$setting has an effect" sh -c "! cmp -s ${setting%%:*}.safetensors setting.safetensors"
    rm -r setting
done
train lamb --set training.optimizer.name=lamb
train lambpipelined --set training.optimizer.name=lamb --strategy pipelined
same lamb lambpipelined
check "LAMB gives other weights" sh -c '! cmp -s base.safetensors lamb.safetensors'
# Every number and flag of an optimiser makes other weights.
if [ -z "$quick" ]; then
    for variant in adamw 'adamw beta1=0.5' 'adamw beta2=0.9' 'adamw epsilon=0.01' 'adamw weight_decay=0.5' \
        'adamw gradient_clipping=0.1' 'adamw gradient_clipping=0' 'adamw bias_correction=false' adam adamax lamb \
        'lamb max_weight_norm=0.1' sgd 'sgd momentum=0.9' 'sgd momentum=0.9 dampening=0.5' 'sgd momentum=0.9 nesterov=true' \
        rmsprop 'rmsprop alpha=0.9' 'rmsprop momentum=0.9' 'rmsprop centred=true' 'rmsprop tf_variant=true'; do
        rm -rf variant
        train variant --set training.optimizer.name=$variant --strategy single
        cksum <variant.safetensors >>variants.txt
    done
    check "21 optimisers give 21 results" test "$(sort -u variants.txt | grep -c .)" -eq 21
fi
error 2 'training.optimizer.momentum is set, and adamw has none: it is of sgd|rmsprop' gpt pretrain $one momentum=0.9
train automatic --set auto_loss_scaling=true
check "a scale that adapts itself is logged" test "$(values automatic loss_scale | head -n 2 | tr '\n' ' ')" = '1.0 2.0 '
train fromscale --set auto_loss_scaling=true loss_scaling=4096
check "and begins at loss_scaling" test "$(values fromscale loss_scale | head -n 1)" = '4096.0'
for key in loss grad_norm; do
    check "and changes no $key" test "$(values base $key)" = "$(values automatic $key)"
done
check "nor a weight" cmp -s base.safetensors automatic.safetensors
train evaluated --set eval=true
train undropped --set dropout_prob=0
same evaluated undropped
check "eval is without dropout" sh -c '! cmp -s base.safetensors evaluated.safetensors'
train seed --seed 7
check "another seed gives other weights" sh -c '! cmp -s base.safetensors seed.safetensors'
train order --no-shuffle
check "another order gives other weights" sh -c '! cmp -s base.safetensors order.safetensors'

# Twice the replicas are half the accumulation: the mean over the same samples.
train replicas --set data_parallel=4
check "other replicas see the same samples" test "$(values base loss | head -n 1 | cut -c 1-6)" = \
    "$(values replicas loss | head -n 1 | cut -c 1-6)"

# ---- a mesh ----

# close NAME NAME: losses and norms that agree to rounding.
close() {
    for key in loss grad_norm; do
        values "$1" $key >one.txt
        values "$2" $key >two.txt
        check "$1 and $2 have $key of the same size" awk 'NR == FNR { a[NR] = $1; next }
            { d = $1 - a[FNR]; n++; if (d < 0) d = -d; if (d > 1e-5 * a[FNR]) bad = 1 } END { exit bad || n != 6 }' \
            one.txt two.txt
    done
}

mesh='--set tensor_parallel_1=2 tensor_parallel_2=2'
train mesh $mesh
close base mesh
train wide --set tensor_parallel_1=1 tensor_parallel_2=4
close base wide
train meshsingle $mesh --strategy single --cores 1
train meshpipelined $mesh --strategy pipelined
train meshresident $mesh --offload none --shard none --recompute none
for other in meshsingle meshpipelined meshresident; do
    same mesh $other
done
# Stages of layers x tensor-parallel x data-parallel replicas, with every schedule of a pipeline.
schedules='interleaved zb-v'
[ -n "${BRIGADE_TEST_ALL:-}" ] && schedules=$("$program" schedule list | awk 'NR > 1 && $1 != "phased" { print $1 }')
train meshdata $mesh data_parallel=2
for schedule in $schedules; do
    train "mesh-$schedule" $mesh data_parallel=2 --strategy pipelined --schedule "$schedule"
    same meshdata "mesh-$schedule"
done
train meshwhole $mesh data_parallel=2 --shard optimiser,accumulators,weights
train meshpieces $mesh data_parallel=2
same meshwhole meshpieces
# Two of the tensor-parallel replicas have the same activations: of what is in one's store, each keeps half.
for name in meshwhole meshpieces; do
    shard='--shard optimiser,accumulators,weights'
    [ $name = meshpieces ] && shard=
    "$program" gpt pretrain $small $mesh data_parallel=2 $shard --compile-only >$name.out
done
check "stores that keep a piece of activations are smaller" test \
    "$(awk '/^device 0/ { print $NF }' meshpieces.out)" -lt "$(awk '/^device 0/ { print $NF }' meshwhole.out)"
train crossed $mesh --steps 3 --checkpoint-steps 1
train crossed --set tensor_parallel_1=4 --steps 6 --load crossed
close base crossed

# ---- a run that stops and goes on ----

small="$one precision=float32 maximum=0.003 warmup_proportion=0"
train stopped --steps 2 --checkpoint-steps 1
train stopped --steps 4 --load stopped --strategy pipelined
train stopped --steps 6 --load stopped --strategy sharded
same base stopped
"$program" gpt pretrain $small --steps 6 --load stopped >out 2>&1
check "a run that is done" grep -q '^Nothing was trained: the checkpoint is of step 6' out

# Replicas are no part of a checkpoint.
train spread --steps 2
train spread --steps 4 --load spread --set data_parallel=4
check "another number of replicas goes on" test "$(values spread step | tail -n 1)" -eq 4

# An epoch of 3 updates: order and place of the data go on too.
train epochs --steps 6 --set n_samples=50
train halves --steps 4 --set n_samples=50
train halves --steps 6 --set n_samples=50 --load halves
same epochs halves

# In larger calls the place is rounded down to one of them, and stays one; with other data it is the next epoch's beginning.
train larger --steps 3
train larger --steps 4 --load larger --set global_batch_size=32
check "samples that are used again are said" grep -q '48 samples of the epoch were used, .* 16 are used again' larger.err
train larger --steps 5 --load larger --set global_batch_size=32
check "once" test ! -s larger.err
train larger --steps 6 --load larger --set global_batch_size=32 n_samples=64
check "other data are said" grep -q 'the data had [0-9]* samples of 8 tokens and have 64 of 8 now; they begin anew' larger.err
check "from the next epoch on" grep -q "$(printf '"epoch": 1' | od -An -tx1 | tr -d ' \n')" larger/checkpoint_train_step_6.safetensors

# Fewer samples than an update takes: the same ones, several times.
train few --steps 6 --set n_samples=2 --no-shuffle
printf 'abcdefghijklmnopqrstuvwxyz0123456789' >alphabet.txt
train some --steps 2 --input-files alphabet.txt --set n_samples=2 global_batch_size=2 dropout_prob=0 --no-shuffle
train more --steps 2 --input-files alphabet.txt --set n_samples=2 global_batch_size=4 dropout_prob=0 --no-shuffle
check "few samples are used again and again" grep -q '; 4 samples of 8 tokens$' more.out
check "to the same loss" test "$(values some loss | head -n 1 | cut -c 1-8)" = "$(values more loss | head -n 1 | cut -c 1-8)"

train text --steps 6 --input-files alphabet.txt --set global_batch_size=2
check "a text file" grep -q '^Data: alphabet.txt; 4 samples of 8 tokens$' text.out

cp alphabet.txt longer.txt && printf '0123' >>longer.txt
train bytes --steps 1 --input-files longer.txt --set vocab_size=256 global_batch_size=4 --no-shuffle
check "the end of a text is no token of 256" grep -q '^Data: longer.txt; 4 samples of 8 tokens$' bytes.out
train end --steps 1 --input-files longer.txt --set vocab_size=257 global_batch_size=4 --no-shuffle
check "it is one of 257" grep -q '^Data: longer.txt; 5 samples of 8 tokens$' end.out

small="$one precision=float32 maximum=0.003 warmup_proportion=0"

# ---- models in Hugging Face's format ----

train saved --steps 2 --save-hf hf
check "a model is written" test -s hf/config.json -a -s hf/model.safetensors
train begun --steps 1 --hf-model hf --set maximum=0 constant=true weight_decay=0
check "a run begins with it" cmp -s saved.safetensors begun.safetensors
train random --steps 6 --hf-model test
same base random
error 1 'n_layer' gpt pretrain $one precision=float32 --quiet --hf-model hf --set layers=3
error 1 '--hf-model: ' gpt pretrain $one precision=float32 --quiet --hf-model nowhere
error 2 'weights come from one of them' gpt pretrain $one --hf-model hf --load saved

# ---- a log on a full disk ----

if [ -c /dev/full ]; then
    "$program" gpt pretrain $small --steps 3 --log /dev/full --save-weights full.safetensors >full.out 2>full.err
    check "a log that cannot be written is an error" test $? -eq 1
    check "which is said" grep -q -e '--log: /dev/full: ' full.err
    check "at the end: the run went on" grep -q '^Finished pre-training' full.out
    check "and saved its weights" test -s full.safetensors
fi

# ---- a log that somebody else writes to as well ----

: >shared.jsonl
lines=300
[ -n "$quick" ] && lines=30
"$program" gpt pretrain $small --steps $lines --log shared.jsonl --save busy --quiet >out 2>&1 &
until [ "$(wc -l <shared.jsonl)" -ge 2 ] || ! kill -0 $! 2>/dev/null; do sleep 0.02; done
echo '{"step":"ours"}' >>shared.jsonl
error 1 '--save: busy: another run writes there; wait' gpt pretrain $one precision=float32 --quiet --steps 1 --save busy
wait $!
check "what others wrote stays" test "$(grep -c '^{"step":.*}$' shared.jsonl)" -eq $((lines + 1))
check "nothing is cut" test "$(wc -l <shared.jsonl)" -eq $((lines + 1))

# ---- a run that goes wrong ----

for rate in 1e30 1e19; do
    error 1 'no checkpoint was made of it' gpt pretrain $one precision=float32 training.optimizer.name=sgd gradient_clipping=0 \
        maximum=$rate constant=true --steps 9 --quiet --save "wrong-$rate"
    check "and none is there" sh -c "! ls wrong-$rate/*.safetensors 2>/dev/null"
done

# ---- learning ----

steps=150
[ -n "$quick" ] && steps=15
train learns --steps $steps --strategy single --quiet
check "the loss falls by one" awk "BEGIN { exit !($(values learns loss | head -n 1) > 1 + $(values learns loss | tail -n 1)) }"

# Labels are the tokens behind: a model of a b a b ... goes on so.
awk 'BEGIN { for (i = 0; i < 400; i++) printf "ab" }' >abab.txt
train alternates --steps 60 --strategy single --quiet --input-files abab.txt --save-hf alternates.hf --set dropout_prob=0 maximum=0.01
check "what follows is learned" test "$("$program" gpt generate --hf-model alternates.hf --prompt ab --length 5 --temperature 0)" \
    = abababa

# The preset as it is, on its eight devices, with its own learning rates: means over 50 updates.
if [ -n "${BRIGADE_TEST_ALL:-}" ]; then
    "$program" gpt pretrain --config tiny --steps 600 --quiet --log tiny.jsonl >out 2>err
    check "the loss of the preset falls" awk "BEGIN { exit !($(values tiny loss | head -n 50 | paste -sd+) > \
        50 * 0.2 + $(values tiny loss | tail -n 50 | paste -sd+)) }"
fi

# ---- the configuration ----

train layers --steps 1 --set model.layers=3
check "--set is over the preset" grep -q '^  layers: 3$' layers.out
printf 'model:\n  layers: 1\ntraining:\n  steps: 2\n' >own.yaml
train own --config tiny --config-file own.yaml --set heads=2
check "a file is over the preset" grep -q '^  layers: 1$' own.out
check "a value is over the file" grep -q '^    heads: 2$' own.out
check "training.steps ends the run" grep -q '^Step: 2/2 ' own.out
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
"$program" gpt pretrain $small --steps 2 --set test_mode=true --save nothing --log nothing --save-weights nothing \
    >nothing.out 2>&1
check "test mode" grep -q '^Finished pre-training' nothing.out
check "writes nothing" sh -c '! test -e nothing'
# As many devices as published; those of the largest model stay below 1 GB.
for preset in tiny:8 test:16 gpt3_2.7B_pod64:64 gpt3_175B_pod256:256; do
    "$program" gpt pretrain --config ${preset%:*} --compile-only --quiet --device-memory 1G >plan.out 2>&1
    check "${preset%:*} is planned" grep -q -E '^device 0( +[0-9]+)+$' plan.out
    check "and its phases by class" sh -c 'grep -q "^Memory by phase$" plan.out && grep -q -E "^F stage 1-[0-9]+( +[0-9]+){8}$" plan.out'
    check "${preset%:*} has ${preset#*:} replicas" grep -q " on 1 device, ${preset#*:} replicas; " plan.out
done

# ---- data ----

# Tokens 0, 1, 2, ... of which sample k begins with 8 k.
i=0
while [ $i -lt 97 ]; do
    printf "$(printf '\\%03o\\000' $i)"
    i=$((i + 1))
done >count.u16
train tokens --steps 3 --input-files count.u16 --set global_batch_size=4 --no-shuffle
check "a token file" grep -q '^Data: count.u16; 12 samples of 8 tokens$' tokens.out
# Labels are the tokens one further on: the loss is that of `gpt eval`, which predicts each token but the first.
train shifted --steps 1 --input-files count.u16 --no-shuffle --hf-model hf \
    --set global_batch_size=12 dropout_prob=0 maximum=0 constant=true
"$program" gpt eval --hf-model hf --input-files count.u16 --sequence-length 8 >eval.out 2>&1
check "the loss is eval's" awk "BEGIN { d = $(values shifted loss) - $(sed -n 's/.*Loss: \([0-9.]*\).*/\1/p' eval.out); exit d > 1e-5 || d < -1e-5 }"
cp count.u16 count2.u16
train files --steps 1 --input-files 'count*.u16'
check "two files" grep -q '^Data: count.u16 and 1 more; 24 samples of 8 tokens$' files.out

# Windows of a text that overlap are samples, and the same as samples of the text that do.
"$program" data tokenise longer.txt --tokeniser bytes --output tokens.u16 >out
"$program" data tokenise longer.txt --tokeniser bytes --output windows.u16 --length 9 --overlap 5 >out
train windows --steps 3 --input-files windows.u16 --set sample_stride=9 vocab_size=257 global_batch_size=4
check "windows" grep -q '^Data: windows.u16; 9 samples of 8 tokens$' windows.out
train strides --steps 3 --input-files tokens.u16 --set sample_stride=4 vocab_size=257 global_batch_size=4
check "windows are samples" cmp -s windows.safetensors strides.safetensors

# Records of the corpus: 5 and 6 tokens, the second with an index of its own order.
tail -c +3 "$root/tests/fuzz/corpus/tfrecord/plain" >a.tfrecord
train records --steps 1 --input-files a.tfrecord --set sequence_length=4 vocab_size=300 global_batch_size=2 --no-shuffle
check "a TFRecord file" grep -q '^Data: a.tfrecord; 2 samples of 4 tokens$' records.out
check "no warning" test ! -s records.err
train cut --steps 1 --input-files a.tfrecord --set sequence_length=3 vocab_size=300 global_batch_size=2 attention_serialisation=1
check "longer records are cut with a warning" grep -q 'warning: records have 5 tokens, of which the first 4 are used' cut.err
error 1 'a record has 5 tokens, expected at least 6' gpt pretrain $one precision=float32 --quiet --steps 1 \
    --input-files a.tfrecord --set sequence_length=5 vocab_size=300 global_batch_size=2 attention_serialisation=1 --no-shuffle

# What is only compiled has nothing to save.
"$program" gpt pretrain $one layers=400 --compile-only >compiled.out 2>&1 &
sleep 0.5
kill -TERM $!
wait $! 2>/dev/null
check "a signal ends a compilation at once" test $? -eq 143

# ---- events ----

train events --steps 3 --tensorboard board
check "an event file" test "$(ls board | grep -c '^events\.out\.tfevents\.')" -eq 1
for tag in loss grad_norm lr throughput; do
    check "$tag in it" test "$(cat board/events* | tr -c 'a-z_' '\n' | grep -c -x -e "$tag")" -eq 3
done
od -An -v -tx1 board/events* | tr -d ' \n' >events.hex
for step in 1 2 3; do # field 2, the step, before field 5, what it has
    check "step $step in it" grep -q "100${step}2a" events.hex
done
error 1 '--tensorboard: ' gpt pretrain $one precision=float32 --quiet --steps 1 --tensorboard a.tfrecord

# ---- the benchmark ----

"$program" gpt bench $one >bench.out 2>bench.err
check "five timed steps" test "$(grep -c -E '^Step [0-4]\. Loss [0-9]+\.[0-9]{2}$' bench.out)" -eq 5
check "and no other" test "$(grep -c '^Step' bench.out)" -eq 5
check "duration and throughput" grep -q -E '^Duration: [0-9]+\.[0-9]{4} s Throughput: +[0-9]+\.[0-9] samples/s$' bench.out

# ---- errors ----

error 2 '`brigade gpt --help` lists them' gpt
error 2 'unknown command `pretrian`; did you mean `pretrain`?' gpt pretrian
error 2 'there is no preset `tony`' gpt pretrain --config tony
error 2 'model.attention.heads 4 is not divisible by execution.tensor_parallel_1 3' gpt pretrain --set tensor_parallel_1=3
error 2 'model.hidden_size 64 is not divisible by execution.tensor_parallel_2 3' gpt pretrain --set tensor_parallel_2=3
error 2 'model.hidden_size 64 is not divisible by model.attention.heads 5' gpt pretrain $one heads=5
error 2 'training.global_batch_size 17 is not divisible by execution.data_parallel 2 x' gpt pretrain $one global_batch_size=17
error 2 'did you mean `model.layers`?' gpt pretrain $one model.layer=3
error 2 'execution.attention_serialisation 3 does not divide model.sequence_length 8' gpt pretrain $one attention_serialisation=3
printf 'model:\n  layerz: 3\n' >wrong.yaml
error 2 'wrong.yaml:2:3: unknown key `model.layerz`; did you mean `model.layers`?' gpt pretrain --config-file wrong.yaml
error 2 '--schedule is `interleave`; it must be one of' gpt pretrain $one --strategy pipelined --schedule interleave
error 2 'without --save DIR' gpt pretrain $one --checkpoint-steps 5
error 2 'checkpoints go into a folder' gpt pretrain $one --save x.safetensors
error 2 '--steps 200 is more than training.steps 100' gpt pretrain $one training.steps=100 --steps 200
error 1 'the benchmark keeps remote buffers in memory' gpt bench $one memmap_dir=x
error 1 'make it 256 (or 128 for ASCII alone)' gpt pretrain $one vocab_size=100
error 1 'has 97 tokens, expected at least 129' gpt pretrain $one sequence_length=128 max_positional_length=128 \
    --input-files count.u16
error 1 '12 samples of 8 tokens, and a call takes training.global_batch_size 16' gpt pretrain $one --input-files count.u16
error 1 'is 50, expected below 50' gpt pretrain $one vocab_size=50 precision=float32 global_batch_size=4 --steps 3 \
    --input-files count.u16 --no-shuffle --quiet
error 1 'nothing matches `none*.u16`' gpt pretrain $one --input-files 'none*.u16'
error 1 'Names end in .u16' gpt pretrain $one --input-files own.yaml
error 1 '--save: ' gpt pretrain $one precision=float32 --quiet --save own.yaml
error 1 '--load: ' gpt pretrain $one precision=float32 --quiet --load nowhere
error 1 'there is a checkpoint of step 6, which is later' gpt pretrain $one precision=float32 --quiet --save base
finish
