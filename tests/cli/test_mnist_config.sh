#!/bin/sh
# brigade mnist --config: a configuration gives the same plan and bits as the equivalent flags. A flag that contradicts
# it is refused, and the error names both.
. "$(dirname "$0")/support.sh"
cd "$root" || exit 1
images=1600 tests=500
[ -n "${BRIGADE_TEST_QUICK:-}" ] && images=320 tests=240
make_digits $images $tests

common="--data-dir $folder/data --epochs 1 --batch-size 8 --cores 2 --quiet"

# plan FILE ARGUMENT...: writes the parts of a plan that are not measured.
plan() {
    plan_file=$1
    shift
    "$program" plan mnist --batch-size 8 "$@" 2>/dev/null | sed 's/; compiled in .*//; /^the process takes /d' >"$plan_file"
}

# same NAME CONFIG UPDATE FLAG...: checks that the plan and the weights are the same.
same() {
    same_name=$1 same_config=$2 same_update=$3
    shift 3
    printf '%s\n' "$same_config" >"$folder/ipu_config.json"
    rm -f "$folder/one.plan" "$folder/two.plan" "$folder/one.safetensors" "$folder/two.safetensors"
    plan "$folder/one.plan" --config "$folder" --config-update "$same_update"
    plan "$folder/two.plan" "$@"
    check "$same_name has a plan" test -s "$folder/one.plan"
    check "$same_name: the plan" cmp "$folder/one.plan" "$folder/two.plan"
    "$program" mnist $common --config "$folder" --config-update "$same_update" --save "$folder/one.safetensors" \
        >"$folder/one.out" 2>/dev/null
    "$program" mnist $common "$@" --save "$folder/two.safetensors" >"$folder/two.out" 2>/dev/null
    check "$same_name: the weights" cmp "$folder/one.safetensors" "$folder/two.safetensors"
    check "$same_name: the test" test "$(tail -n 1 "$folder/one.out")" = "$(tail -n 1 "$folder/two.out")"
}

begin_case flags
same "pipelined over four" '{"layers_per_ipu": [1, 1, 1, 1], "gradient_accumulation_steps": 2}' \
    'device_iterations=5,seed=3' \
    --stages 'B1|B2|B3|B4' --gradient-accumulation 2 --device-iterations 5 --seed 3
cp "$folder/one.safetensors" "$folder/first"
same "two replicas, state in pieces" '{"ipus_per_replica": 2, "replication_factor": 2}' \
    'replicated_tensor_sharding=true,device_iterations=2,gradient_accumulation_steps=3' \
    --stages 'B1,B2|B3,B4' --devices 2 --replicas 2 --shard optimizer --device-iterations 2 --gradient-accumulation 3
check "another configuration gives other weights" sh -c '! cmp -s "$1" "$2"' sh "$folder/first" "$folder/one.safetensors"
if [ -z "${BRIGADE_TEST_QUICK:-}" ]; then
    same "recomputation" '{"layers_per_ipu": [2, -1], "recompute_checkpoint_every_layer": true}' \
        'gradient_accumulation_steps=4,device_iterations=2' \
        --stages 'B1,B2|B3,B4' --recompute checkpoints --checkpoint-blocks --gradient-accumulation 4 --device-iterations 2
    same "state off the devices, a device without layers" '{"layers_per_ipu": [0, 3, 1], "output_mode": "all"}' \
        'optimizer_state_offchip=true,gradient_accumulation_steps=8' \
        --stages 'B1,B2,B3|B4' --devices 2 --offload-optimizer --gradient-accumulation 8 --device-iterations 1 \
        --output-mode all
    same "bfloat16 sums on one device" '{"enable_half_partials": true}' 'layers_per_ipu=[4],device_iterations=2' \
        --stages 'B1,B2,B3,B4' --partials float16 --gradient-accumulation 1 --device-iterations 2
    printf 'layers_per_ipu: [1, 1, 1, 1]\ngradient_accumulation_steps: 2\ndevice_iterations: 5\nseed: 3\n' >"$folder/c.yaml"
    "$program" mnist $common --config "$folder/c.yaml" --save "$folder/yaml" >/dev/null 2>&1
    check "YAML says the same" cmp "$folder/first" "$folder/yaml"
fi

end_case
# Fields that do not change results must have an effect too.
plan "$folder/one.plan" --config-update 'matmul_proportion=0.0001,ipus_per_replica=4' --batch-size 400
plan "$folder/two.plan" --matmul-proportion 0.0001 --devices 4 --partials float16 --gradient-accumulation 1 \
    --device-iterations 1 --batch-size 400
plan "$folder/three.plan" --devices 4 --partials float16 --gradient-accumulation 1 --device-iterations 1 --batch-size 400
check "a bound of the scratch" cmp "$folder/one.plan" "$folder/two.plan"
check "which makes it smaller" sh -c '! cmp -s "$1" "$2"' sh "$folder/one.plan" "$folder/three.plan"
"$program" mnist $common --config-update 'auto_loss_scaling=true,gradient_accumulation_steps=20' --steps 2 \
    --loss-scaling auto:16 --log "$folder/log" --save "$folder/one" >/dev/null 2>&1
check "a scale that adapts itself" test "$(sed -n 's/.*"loss_scale":\([0-9]*\)\.0,.*/\1/p' "$folder/log" | tr '\n' ' ')" = '16 32 '

for rounding in --config-update=layers_per_ipu=[4] --stochastic-rounding --quiet; do
    "$program" mnist $common "$rounding" --steps 4 --weight-type bfloat16 --gradient-accumulation 2 --device-iterations 1 \
        --save "$folder/rounded$rounding" >/dev/null 2>&1
done
check "what is 16 bits wide is rounded by chance" cmp "$folder/rounded--config-update=layers_per_ipu=[4]" \
    "$folder/rounded--stochastic-rounding"
check "which is seen" sh -c '! cmp -s "$1" "$2"' sh "$folder/rounded--stochastic-rounding" "$folder/rounded--quiet"

# The test task of this configuration runs on one replica. --shard is for the two replicas of training, so it causes no
# warning.
"$program" mnist $common --config-update 'replication_factor=2,gradient_accumulation_steps=2' --offload weights \
    --shard weights,optimizer --shard-minimum 1 --save "$folder/one" >"$folder/out" 2>"$folder/err"
check "a test on one replica: $(cat "$folder/err")" grep -q '^Accuracy on test set: ' "$folder/out"
check "no warning of its replica" sh -c '! grep -q "sharding over replicas" "$1"' sh "$folder/err"

# Fields for layers that the network does not have cause a message.
"$program" plan mnist --config mnist --config-update 'embedding_serialization_factor=4,inference_projection_serialization_factor=1' \
    >/dev/null 2>"$folder/err"
check "no embedding" grep -q 'warning: --config: `embedding_serialization_factor` has no effect' "$folder/err"
check "nothing of what is plain" test "$(grep -c 'has no effect' "$folder/err")" = 1

# A preset is selected by name; flags set the fields that it lacks.
plan "$folder/one.plan" --config mnist --replicas 2 --schedule grouped
plan "$folder/two.plan" --devices 4 --replicas 2 --schedule grouped --partials float16
check "a preset and flags that it leaves open" cmp "$folder/one.plan" "$folder/two.plan"
plan "$folder/one.plan" --config-update gradient_accumulation_steps=4 --stages 'B1|B2,B3,B4'
plan "$folder/two.plan" --stages 'B1|B2,B3,B4' --gradient-accumulation 4 --device-iterations 1 --partials float16
check "layers that it leaves open" cmp "$folder/one.plan" "$folder/two.plan"

# The test task uses the inference fields.
"$program" mnist $common --config mnist --config-update 'inference_layers_per_ipu=[2 2],inference_device_iterations=7,
    inference_replication_factor=2,gradient_accumulation_steps=2' --log "$folder/log" --log-dir "$folder/logs" \
    --save "$folder/one" >"$folder/out" 2>&1
check "two devices" grep -q '^block B3: stage 1, device 1$' "$folder/logs/brigade.log"
check "and seven micro-batches a call" grep -q '^dev1 [.]  F0 F1 F2 F3 F4 F5 F6$' "$folder/logs/brigade.log"
check "all images are tested so" grep -q "^Accuracy on all $tests test images: " "$folder/out"
check "the log has the options as they came out" grep -q '"gradient-accumulation":2,.*"config":"mnist"' "$folder/log"

# For contradictions the error names both sides.
error 2 '--replicas 2 contradicts `replication_factor` = 4 of --config mnist with --config-update' \
    mnist --config mnist --config-update replication_factor=4 --replicas 2
error 2 '--stages B1|B2,B3,B4 contradicts `layers_per_ipu` = [1, 1, 1, 1] of --config mnist' \
    mnist --config mnist --stages 'B1|B2,B3,B4'
error 2 '--devices 2 contradicts `ipus_per_replica` = 4' mnist --config-update ipus_per_replica=4 --devices 2
error 2 '--device-mapping 3,2,1,0 contradicts `layers_per_ipu`' mnist --config mnist --device-mapping 3,2,1,0
error 2 '--strategy single contradicts --config' mnist --config mnist --strategy single
error 2 '--accumulation sum contradicts --config' plan mnist --config mnist --accumulation sum
error 2 '--recompute stage contradicts `recompute_checkpoint_every_layer` = false' mnist --config mnist --recompute stage
error 2 '--offload-optimizer contradicts `optimizer_state_offchip` = false' \
    mnist --config-update optimizer_state_offchip=false --offload-optimizer
error 2 '--offload weights contradicts `optimizer_state_offchip` = true' \
    mnist --config-update optimizer_state_offchip=y --offload weights
error 2 '--shard accumulators contradicts `replicated_tensor_sharding` = true' \
    mnist --config-update replicated_tensor_sharding=y,replication_factor=2 --shard accumulators
error 2 '--partials float32 contradicts `enable_half_partials` = true' \
    mnist --config-update enable_half_partials=y --partials float32
error 2 '--loss-scaling 8 contradicts `auto_loss_scaling` = true' mnist --config-update auto_loss_scaling=y --loss-scaling 8
error 2 '--matmul-proportion 0.1 contradicts `matmul_proportion` = 0.2' \
    mnist --config-update matmul_proportion=0.2 --matmul-proportion 0.1
error 2 '--seed 1 contradicts `seed` = 2' mnist --config-update seed=2 --seed 1
check "the same said twice is no contradiction" "$program" mnist --compile-only --config mnist --device-iterations 10 \
    --devices 4 --offload activations >/dev/null
error 2 'the model 4' mnist --config mnist --config-update 'layers_per_ipu=[1 1 1 2]'
error 2 'no preset, file or folder `nope`' mnist --config nope
error 2 'layers_per_ipu' mnist --config-update 'layers_per_ip=[1]'
error 2 '--save and --config name the same file' mnist --config "$folder/ipu_config.json" --save "$folder/ipu_config.json"
finish
