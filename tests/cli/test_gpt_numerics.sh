#!/bin/sh
# `brigade gpt`: 16-bit formats, stochastic rounding, dropout, seeds, loss scales.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/gpt.sh"

train base

begin_case bfloat16
train half --set precision=bfloat16 weights=float32
train halfpipelined --set precision=bfloat16 weights=float32 --strategy pipelined --schedule gpipe
same half halfpipelined
check "bfloat16 gives other weights" sh -c '! cmp -s base.safetensors half.safetensors'
train mixed --precision bf16-mixed
same half mixed

begin_case chance
# Weights have the type of the precision unless another type is set.
train chance --set precision=bfloat16 stochastic_rounding=true
train chancepipelined --set precision=bfloat16 weights=bfloat16 stochastic_rounding=true --strategy pipelined --schedule gpipe
same chance chancepipelined
check "weights in bfloat16 take half the bytes" test "$(wc -c <chance.safetensors)" -lt \
    "$(($(wc -c <half.safetensors) * 6 / 10))"
check "stochastic rounding of 16 bits needs no warning" test ! -s chance.err
train nearest --set precision=bfloat16 weights=bfloat16
check "to nearest gives other weights" sh -c '! cmp -s chance.safetensors nearest.safetensors'
if [ -z "$quick" ]; then
    for rounding in true false; do
        train chance16$rounding --set precision=float16 weights=float16 stochastic_rounding=$rounding
    done
    check "in float16 too" sh -c '! cmp -s chance16true.safetensors chance16false.safetensors'
fi

begin_case presets
# Trains like the PopXL example, with float16 weights, stochastic rounding and float32 moments, without a warning.
"$program" gpt pretrain --config tiny --steps 2 --quiet --save preset --save-weights preset.safetensors >out 2>err
check "the preset trains without a warning: $(cat err)" test ! -s err
check "the preset's weights are float16" sh -c 'grep -a -q "\"F16\"" preset.safetensors && ! grep -a -q "\"F32\"" preset.safetensors'
head -c 20000 preset/checkpoint_train_step_2.safetensors | tr '}' '\n' | grep -a -F '.exp_avg' | grep -a -F '"dtype"' >moments
check "it has moments" test "$(wc -l <moments)" -ge 56
check "its moments are float32" test "$(grep -a -c -F '"dtype":"F32"' moments)" -eq "$(wc -l <moments)"
"$program" gpt pretrain --config tiny --steps 2 --quiet --save-weights nearest16.safetensors --stochastic_rounding False >out 2>err
check "the preset rounds at random" sh -c '! cmp -s preset.safetensors nearest16.safetensors'

begin_case idle-rounding
# Stochastic rounding has no effect for float32. The warning is one line, also in the library's log file, for compiled
# and cached plans. The presets request the rounding too, which is no mistake of the user.
preset='--set tensor_parallel_1=1 tensor_parallel_2=1 data_parallel=1 precision=float32'
default="$preset stochastic_rounding=true"
idle="stochastic rounding has no effect: weights and the optimizer's state are kept in float32; keep weights in bfloat16 or"
for run in compiled cached; do
    "$program" gpt pretrain $default --steps 1 --quiet --cache-dir idle.plans --log-dir idle.$run >out 2>err
    check "idle rounding, $run: $(cat err)" test "$(grep -c "^brigade gpt: warning: $idle float16, or set stochastic" err)" -eq 1
    check "and nothing more" test "$(wc -l <err)" -eq 1
    check "idle rounding, $run: the library's log" test "$(grep -c "warning: $idle" idle.$run/brigade.log)" -eq 1
done
"$program" gpt bench $default >out 2>err
check "bench says so too" grep -q "warning: $idle" err
"$program" gpt pretrain $preset --steps 1 --quiet >out 2>err
check "only the preset asks for it, nothing is said: $(cat err)" test ! -s err
"$program" gpt pretrain $preset stochastic_rounding=false --steps 1 --quiet >out 2>err
check "left off, nothing is said" test ! -s err

begin_case saved-bfloat16
train tohf --set precision=bfloat16 weights=bfloat16 --save-hf halfhf
train fromhf --set precision=bfloat16 weights=bfloat16 maximum=0 constant=true --hf-model halfhf --save-hf halfhf2
check "a folder of bfloat16 weights comes and goes" cmp -s halfhf/model.safetensors halfhf2/model.safetensors
check "its configuration says bfloat16" grep -q '"torch_dtype": "bfloat16"' halfhf/config.json

begin_case float16
train sixteen --set precision=float16 weights=float16 loss_scaling=1024
train sixteenpipelined --set precision=float16 weights=float16 loss_scaling=1024 --strategy pipelined --schedule gpipe
same sixteen sixteenpipelined
check "float16 is not bfloat16" sh -c '! cmp -s chance.safetensors sixteen.safetensors'
check "no word of bfloat16" sh -c '! grep -q bfloat16 sixteen.err'
check "weights in float16" grep -q '"F16"' sixteen.safetensors
train sixteenhf --set precision=float16 weights=float16 maximum=0 constant=true --hf-model halfhf --save-hf halfhf3
train sixteenhf2 --set precision=float16 weights=float16 maximum=0 constant=true --hf-model halfhf3 --save-hf halfhf4
check "a folder of float16 weights comes and goes" cmp -s halfhf3/model.safetensors halfhf4/model.safetensors
check "its configuration says float16" grep -q '"torch_dtype": "float16"' halfhf3/config.json

begin_case gradients
# Accumulates like the PopXL example, with a running mean in the weights' type. The largest preset then keeps 13.1 GB
# outside the device.
running='--accumulation mean-running --accumulator-type same'
train gradients --set precision=float16 loss_scaling=1024 $running
train gradientspipelined --set precision=float16 loss_scaling=1024 $running --strategy pipelined --schedule gpipe
same gradients gradientspipelined
check "sums in float32 give other weights" sh -c '! cmp -s gradients.safetensors sixteen.safetensors'
"$program" gpt pretrain --config gpt3_175B_pod256 --compile-only --quiet $running >plan.out 2>&1
check "half the gradients of the largest preset" grep -q \
    '^device 0 keeps  *1364940288  *5459761152  *1384257024  *4882[0-9]*  *1309[0-9]*$' plan.out

begin_case loss-scaling
train automatic --set auto_loss_scaling=true
check "a scale that adapts itself is logged" test "$(values automatic loss_scale | head -n 2 | tr '\n' ' ')" = '1.0 2.0 '
train fromscale --set auto_loss_scaling=true loss_scaling=4096
check "and begins at loss_scaling" test "$(values fromscale loss_scale | head -n 1)" = '4096.0'
for key in loss grad_norm; do
    check "and changes no $key" test "$(values base $key)" = "$(values automatic $key)"
done
check "nor a weight" cmp -s base.safetensors automatic.safetensors

begin_case dropout
train undropped --set dropout_prob=0
train evaluated --set eval=true
same evaluated undropped
check "eval is without dropout" sh -c '! cmp -s base.safetensors evaluated.safetensors'
train evaluation --set model.eval=true
check "model.eval too" cmp -s evaluated.safetensors evaluation.safetensors

begin_case seed-and-order
train seed --seed 7
check "another seed gives other weights" sh -c '! cmp -s base.safetensors seed.safetensors'
train order --no-shuffle
check "another order gives other weights" sh -c '! cmp -s base.safetensors order.safetensors'

# With twice the replicas and half the accumulation, the mean is over the same samples.
train replicas --set data_parallel=4
check "other replicas see the same samples" test "$(values base loss | head -n 1 | cut -c 1-6)" = \
    "$(values replicas loss | head -n 1 | cut -c 1-6)"
finish
