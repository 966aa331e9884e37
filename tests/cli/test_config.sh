#!/bin/sh
# brigade config prints layouts, converts between JSON and YAML, and reports every problem with its position.
. "$(dirname "$0")/support.sh"
cd "$root" || exit 1

explain() { # NAME WANTED ARGUMENT...: the first lines
    explain_name=$1 explain_wanted=$2
    shift 2
    "$program" config explain "$@" >"$folder/out" 2>"$folder/err"
    explain_code=$?
    printf '%s\n' "$explain_wanted" >"$folder/wanted"
    head -n "$(wc -l <"$folder/wanted")" "$folder/out" >"$folder/head"
    if cmp -s "$folder/wanted" "$folder/head"; then pass; else fail "$explain_name:" "$(cat "$folder/out")"; fi
}

begin_case encoder-and-decoder
explain "even split of 12+12 on 4" 'Training: pipelined, 4 devices a replica, 1 replica, devices in all: 4
    device 0      6 layers  encoder 0-5     embedding
    device 1      6 layers  encoder 6-11
    device 2      6 layers  decoder 0-5
    device 3      6 layers  decoder 6-11    head' --update 'layers_per_ipu=[-1],ipus_per_replica=4' \
    --encoder-layers 12 --decoder-layers 12
check "12+12 has no problem" test "$explain_code" -eq 0
check "what memory holds" grep -q "^    memory: optimizer's state on the devices; activations kept; scratch of a matrix product \
up to 0.2 of a device's memory, sums in 16 bits\$" "$folder/out"
check "inference is split too" grep -q '^Inference: sharded, 4 devices' "$folder/out"
explain "a device with both" 'Training: pipelined, 4 devices a replica, 1 replica, devices in all: 4
    device 0      2 layers  encoder 0-1     embedding
    device 1      2 layers  encoder 2-3
    device 2      2 layers  encoder 4       decoder 0
    device 3      2 layers  decoder 1-2     head' --update 'layers_per_ipu=[-1],ipus_per_replica=4' \
    --encoder-layers 5 --decoder-layers 3
check "no device is just the encoder's" test "$explain_code" -ne 0

end_case
"$program" config explain --update 'matmul_proportion=0.3,inference_matmul_proportion=0.5' --layers 4 >"$folder/out"
check "what it holds in inference" grep -q "^    memory: scratch of a matrix product up to 0.5 of" "$folder/out"

explain "bert-base" 'Training: pipelined, 4 devices a replica, 4 replicas, devices in all: 16
    device 0      0 layers  -          embedding, in pieces
    device 1      4 layers  0-3
    device 2      4 layers  4-7
    device 3      4 layers  8-11       head
    batch: micro 2, x 512 accumulation = 1024 a replica, x 4 replicas = 4096 an update, x 1 iterations = 4096 samples a call' \
    --config bert-base --layers 12 --batch-size 2 --devices 8
check "too few devices fail" test "$explain_code" -eq 1
check "too few devices are said" grep -q '16 devices, but there are 8' "$folder/err"
explain "wildcards" 'Training: pipelined, 4 devices a replica, 1 replica, devices in all: 4
    device 0      1 layer   0          embedding
    device 1      2 layers  1-2
    device 2      4 layers  3-6
    device 3      5 layers  7-11       head' --update 'layers_per_ipu=[1 2 -1 -1]' --layers 12

# Every preset fits its model.
for preset in 'bert-base --layers 12' 'bert-large --layers 24' 'gpt2-small --layers 12' 'gpt2-medium --layers 24' \
    'gpt2-large --layers 36' 'gpt2-xl --layers 48' 't5-small --encoder-layers 6 --decoder-layers 6' \
    't5-base --encoder-layers 12 --decoder-layers 12' 'vit-base --layers 12' 'mnist --layers 4' \
    'whisper-small --encoder-layers 12 --decoder-layers 12'; do
    check "preset $preset" "$program" config explain $preset >/dev/null
done
check "every preset is named in the README" sh -c 'for f in share/presets/*.json; do
    n=${f##*/}; grep -q "\`${n%.json}\`" share/presets/README.md || exit 1; done'

# Converts to the other format and back.
for preset in share/presets/*.json; do
    "$program" config convert "$preset" --out "$folder/one.yaml" && "$program" config convert "$folder/one.yaml" --to json \
        >"$folder/back.json"
    check "$preset comes back" cmp -s "$preset" "$folder/back.json"
done
"$program" config update mnist --update 'seed=5' >"$folder/new.json"
check "update" grep -q '"seed": 5' "$folder/new.json"
"$program" config update --update 'seed=1' --no-version --out "$folder/made.json"
check "no version" sh -c '! grep -q brigade_version "$1"' sh "$folder/made.json"
"$program" config update "$folder/made.json" --update 'layers_per_ipu=[1 2]' --out "$folder/again.json"
check "what is inferred is inferred again" sh -c '"$1" config show "$2" | grep -q "^ipus_per_replica  *2$"' sh "$program" \
    "$folder/again.json"
error 2 '`none` is not a value of `output_mode`' config update mnist --update output_mode=none
error 2 '--no-version apply only to update and convert' config show mnist --no-version
check "show" sh -c '"$1" config show mnist | grep -q "^ipus_per_replica  *4  (given)"' sh "$program"
check "check" "$program" config check mnist

printf '{\n  "seed": "x",\n  "foo": 1\n}\n' >"$folder/bad.json"
"$program" config check "$folder/bad.json" >/dev/null 2>"$folder/err"
check "they are mistakes" test $? -eq 2
check "two problems, two lines" test "$(wc -l <"$folder/err")" -eq 2
check "with their places" grep -q 'bad.json:2:3: `seed`' "$folder/err"
check "unknown keys are named" grep -q 'bad.json:3:3: unknown argument foo=1' "$folder/err"
error 1 'execute_encoder_on_cpu_for_generation is not supported' \
    config explain --layers 4 --update execute_encoder_on_cpu_for_generation=true
error 1 'exceed the largest number' config explain --layers 4 --update \
    'replication_factor=2147483647,gradient_accumulation_steps=2147483647,device_iterations=2147483647'
error 2 '`x` is not key=value' config update mnist --update x
error 2 'should use the same number of IPUs' config show mnist --update 'layers_per_ipu=[1 2]'
error 2 'there is no preset, file or folder `nope`' config check nope
error 1 'cannot create a file there' config convert mnist --out "$folder/none/x.json"
finish
