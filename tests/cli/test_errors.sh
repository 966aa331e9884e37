#!/bin/sh
# Wrong command lines, wrong files, full disks: the exit code, one line that helps, and no file left half written.
. "$(dirname "$0")/support.sh"

# ---- the program ----

error 2 'did you mean `mnist`' mnits
error 2 '`brigade --help`' frobnicate-the-thing
error 2 'did you mean --epochs' mnist --epoch 3
error 2 'unknown option --zzzzzzzzzz' mnist --zzzzzzzzzz
error 2 'two dashes' mnist -e 3
error 2 'unexpected argument `extra`' mnist extra
error 2 '--epochs needs a value' mnist --epochs
error 2 '--profile takes no value' mnist --profile=yes
error 2 'which model' plan
error 2 'unknown model `gpt`' plan gpt
error 2 'unknown kind of data' data letters
error 2 'nothing to write' data digits
error 2 'which command? There are show, list' schedule
error 2 'unknown command `draw`; there are show, list' schedule draw
error 2 'show needs a NAME: brigade schedule show NAME' schedule show
error 2 'verify needs a FILE' schedule verify
error 2 'unexpected argument `grouped`; list takes options alone' schedule list grouped
error 2 'unknown schedule `grouped1`; did you mean `grouped`?' schedule show grouped1
error 2 'unknown schedule `xxxxxxxxxxxxxxxxxxx`; `brigade schedule list`' schedule show xxxxxxxxxxxxxxxxxxx
error 2 'convert needs --to text or --to csv' schedule convert file
error 2 '--to is `xml`; it must be one of text|csv' schedule convert file --to xml
error 2 '--to goes with show and convert' schedule list --to csv
error 2 '--svg goes with show and simulate' schedule list --svg x
error 2 'two ways to print' schedule show grouped --svg x --to csv
error 2 '--color is `red`; it must be one of auto|always|never' schedule show grouped --color red
error 2 '--stages is `0`; it must be a whole number from 1 to 4096' schedule list --stages 0
for value in fast '' 1, ,1 1,,2 -1 nan 1e999 0x1 '1 '; do
    error 2 '--forward is ' schedule list --forward "$value"
done
error 2 '--update is `1;2`; it must be a number of at least 0, or one for each stage' schedule list --update '1;2'
error 1 'there are 4 stages and 8 devices' schedule show grouped --devices 8
error 1 'schedule `single` wants one device for all stages; there are 4 stages and 2 devices' schedule show single --devices 2
for name in interleaved auto; do
    error 1 'take a larger unit of time' schedule show $name --forward 1e308
done
error 1 'take a larger unit of time' schedule show interleaved --transfer 1e308
error 2 '--weights has 2 numbers for 4 stages; give one, or one for each' schedule show grouped --weights 1,2

error 2 'which command? There are show, check, update, explain, convert' config
error 2 'did you mean `check`' config chekc
error 2 'update needs --update' config update
error 2 '--encoder-layers and --decoder-layers go together' config explain --encoder-layers 3
error 2 '--layers with --encoder-layers' config explain --layers 3 --encoder-layers 3 --decoder-layers 3
error 2 '--out and --to go with update and convert' config show --to yaml
error 2 'two configurations' config show mnist --config mnist
error 2 'there is no preset, file or folder `nosuch`' config show nosuch
error 2 'did you mean `seed`?' config show --update sed=1

# ---- values: the option, the value, what is allowed ----

for option in batch-size device-iterations gradient-accumulation test-batch-size replicas cores steps; do
    error 2 "--$option is \`0\`; it must be a whole number" mnist --$option 0
    error 2 "--$option is \`-1\`; it must be a whole number" mnist --$option -1
    error 2 "--$option is \`ten\`; it must be a whole number" mnist --$option ten
    error 2 "--$option is \`10x\`; it must be a whole number" mnist --$option 10x
    error 2 "--$option is \`1.5\`; it must be a whole number" mnist --$option 1.5
    error 2 "--$option is \`\`; it must be a whole number" mnist --$option ''
    error 2 "--$option is \`99999999999999999999\`" mnist --$option=99999999999999999999
done
error 2 '--epochs is `-3`' mnist --epochs -3
error 2 '--seed is `0x10`; it must be a whole number from 0 to 18446744073709551615' mnist --seed 0x10
for value in fast -0.1 nan inf 1e999 0x1p3 1e-3z ' 1' ''; do
    error 2 "--learning-rate is \`$value\`; it must be a number of at least 0" mnist --learning-rate "$value"
done
error 2 '--optimiser adagradient: optimiser: there is no `adagradient`; there are sgd, adam, adamw' mnist --optimiser adagradient
error 2 '--optimiser adam:alpha=1: optimiser: adam has no `alpha`; it has weight_decay' mnist --optimiser adam:alpha=1
error 2 '--learning-rate is 1e+39; it must be at most 3.40282e+38' mnist --learning-rate 1e39
for value in 0 12Q K -1K 1.5M 99999999999999999G ''; do
    error 2 "--device-memory is \`$value\`; it must be a number of bytes" mnist --device-memory "$value"
done
for value in 1.5 -1 nan some 0.5x fraction; do
    error 2 "--recompute $value; it can be none, stage, checkpoints, auto, or a number from 0 to 1" mnist --recompute "$value"
done
error 2 '--recompute auto without --device-memory' mnist --recompute auto
error 2 '--checkpoint-blocks without --recompute' mnist --checkpoint-blocks
error 2 '--recompute-order without --recompute' mnist --recompute-order then
error 2 'add --checkpoint-blocks' mnist --recompute checkpoints
error 1 'is a recomputation checkpoint and the schedule is `interleaved`' plan mnist --ipu-limits --schedule interleaved \
    --recompute stage --checkpoint-blocks
error 2 'pipelined|sharded|phased|single' mnist --strategy parallel
error 2 'it must be one of' mnist --strategy ''
error 2 'it must be one of' mnist --strategy 'pipelined|sharded'
error 2 '--schedule is `zigzag`; it must be one of single|sharded|sequential|grouped|interleaved' mnist --schedule zigzag
error 2 '--phases parallel with --strategy pipelined' mnist --phases parallel
error 2 'serial|parallel' mnist --strategy phased --phases both
error 2 '--device-mapping is `x`; it must be a whole number from 0 to 65535' mnist --device-mapping 0,x
error 2 '--device-mapping is ``; it must be a whole number' mnist --device-mapping 0,,1
error 2 '--device-speeds is `fast`; it must be a number of at least 0' mnist --device-speeds 1,fast
error 2 '--device-memory is `1Q`; it must be a number of bytes' mnist --device-memory 1M,1Q
error 2 '--device-speeds has 2 values and --device-memory 3' mnist --device-speeds 1,2 --device-memory 1M,1M,1M
error 2 '--auto-round-devices without --ipu-limits' mnist --auto-round-devices
error 1 'device_mapping has 2 devices, there are 4 stages' plan mnist --device-mapping 0,1
error 1 'device_mapping and @ in stages' plan mnist --stages 'B1@0|B2,B3,B4@1' --device-mapping 0,1
error 1 'wants a device a stage; there are 4 stages and 2 devices' plan mnist --devices 2
error 1 'the model can be cut into at most 4 stages at block borders' plan mnist --stages auto:9
error 1 'stages are `auto:none`' plan mnist --stages auto:none
error 1 'no cut into 2 stages fits' plan mnist --stages auto:2 --device-memory 500K
error 2 'devices[1].speed is 0' plan mnist --device-speeds 1,0,1,1
error 1 'matmul_proportions has 2 shares, the stages are on 4' plan mnist --matmul-proportion 0.1,0.2
error 2 '--matmul-proportion is `-1`' plan mnist --matmul-proportion -1
error 1 'devices: speed or memory is given for 2 devices, the stages are on 4' plan mnist --device-speeds 1,2
error 1 'stage 1 of phase 1 (odd) is on device 0' plan mnist --strategy phased --phases parallel --stages 'B1@0;B2@0;B3,B4@1'
error 1 'have phases (;) and the strategy is pipelined' plan mnist --stages 'B1;B2;B3,B4'
error 1 'concurrent stages 1 and 2 share data' plan mnist --stages 'B1|B2&B3|B4'
error 2 'auto_stage is auto_increment and stages are' plan mnist --auto-stage auto-increment --stages 'B1,B2|B3,B4'
error 1 'IPUs come in powers of two: take 4' plan mnist --ipu-limits --stages 'B1|B2|B3,B4'
error 2 'final|all|sum|every_n' mnist --output-mode last
error 2 'mode every_n without --output-period' mnist --output-mode every_n
error 2 'period 3 does not divide --device-iterations 10' mnist --output-mode every_n --output-period 3
error 2 'period 2 with --output-mode sum' mnist --output-mode sum --output-period 2
error 2 'num-workers is `257`' mnist --num-workers 257
error 2 'prefetch is `0`' mnist --prefetch 0
error 2 'it must be one of sync|async|async-rebatched' mnist --loader-mode fork
error 2 'float32|bfloat16|float16' mnist --dtype half
error 2 'mean|mean-running|sum' mnist --accumulation none
error 2 'mean|sum' mnist --replica-reduction none
error 2 'default|same|float32|bfloat16|float16' mnist --accumulator-type half
error 2 '--clip-norm is `-1`' mnist --clip-norm -1
error 2 '--clip-norm is `nan`' mnist --clip-norm nan
error 2 '--loss-scaling is `0`; it must be a number above 0, auto, or auto:X' mnist --loss-scaling 0
error 2 '--loss-scaling is `automatic`' mnist --loss-scaling automatic
error 2 '--loss-scaling is `auto:`' mnist --loss-scaling auto:
error 2 'auto_loss_scaling is on and gradients are sums' mnist --compile-only --loss-scaling auto --accumulation sum
error 2 'only the pipelined strategy' mnist --strategy sharded --schedule grouped
error 2 'use --strategy phased' mnist --schedule phased
error 2 'one stage' mnist --strategy single --stages 'B1|B2'
error 2 'use one of them' mnist --debug --quiet
error 2 '--offload names `wheels`; there are activations' mnist --offload weights,wheels
error 2 '--offload-rule names `wheels`' mnist --offload-rule 'weights:layer3.*;wheels:*'
error 2 'weights has no pattern; it is CLASSES:PATTERN' mnist --offload-rule 'optimiser:*;weights'
error 2 'always_live|off_chip_after_fwd' mnist --phase-liveness sometimes
error 2 '--stages is empty' mnist --stages ''
error 2 '--shard names `optimizer`' mnist --shard optimizer
error 2 '--shard names ``' mnist --shard optimiser,

# ---- batches that the data do not have ----

make_digits
data="--data-dir $folder/data"
small="$data --batch-size 10 --device-iterations 2 --gradient-accumulation 8 --test-batch-size 5 --epochs 1"
cd "$folder" || exit 1
error 2 'images, there are 1600' mnist $data
error 2 '--batch-size 5000 x' mnist $small --batch-size 5000
error 2 'images, there are 1600' mnist $small --batch-size 2147483647 --device-iterations 2147483647 \
    --gradient-accumulation 2147483647 --replicas 65536

# ---- options by name ----

printf 'seed 1\nreplica 2\nwait_limit_s soon\n' >"$folder/run.txt"
error 2 'run.txt:3: option `wait_limit_s` is `soon`; it must be a number' plan mnist --options "$folder/run.txt"
error 2 '2 problems: ' mnist --options "$folder/run.txt"
printf 'wait_limit_s 0\n' >"$folder/run.txt"
error 2 'wait_limit_s is 0; it must be above 0' mnist $small --options "$folder/run.txt"
printf 'replicas 0\n' >"$folder/run.txt"
error 2 'replicas are at least 1' mnist --options "$folder/run.txt"
printf 'requests_only true\n' >"$folder/run.txt"
error 2 'requests_only is for C' mnist --options "$folder/run.txt"
printf 'total_devices 16\n' >"$folder/run.txt"
error 2 'give replicas' mnist --options "$folder/run.txt"
error 2 'none.txt' mnist --options "$folder/none.txt"

# ---- plans that cannot be ----

error 1 '`99999` is no device number (in stage 0, after @); they go from 0 to 65535' mnist $small --stages 'B1,B2@99999|B3,B4'
error 1 'B9' mnist $small --stages 'B1,B2|B3,B9'
error 1 'B2' mnist $small --stages 'B1|B3|B4'
error 1 'B1' mnist $small --stages 'B1,B2|B1,B3,B4'
error 2 'weights are sharded and on the device' mnist $small --shard weights
error 2 'activations are sharded' mnist $small --shard optimiser,activations
error 1 'shard the state too' mnist $small --shard accumulators --replicas 2
error 1 'gradient accumulation is 2' mnist $small --ipu-limits --gradient-accumulation 2

# The table of what is where follows the line.
"$program" mnist $small --device-memory 10K >/dev/null 2>"$folder/err"
check "too little memory is a failure" test $? -eq 1
check "the first line says device, need and remedy" sh -c \
    'head -n 1 "$0" | grep -q "^brigade mnist: device 2 needs .* its budget is .*--offload-optimiser"' "$folder/err"
check "the table has every device" test "$(grep -c '^device [0-3] ' "$folder/err")" -eq 4
"$program" mnist $small --device-memory 64M --save "$folder/kept.safetensors" >/dev/null 2>"$folder/err"
check "enough memory is no failure" test $? -eq 0

# ---- places that cannot be written ----

: >"$folder/file"
error 1 "$folder/file/w.safetensors" mnist $small --save "$folder/file/w.safetensors"
error 1 "--save: $folder/data: is a folder, not a file" mnist $small --save "$folder/data"
error 1 '--save: ' mnist $small --save /proc/no-such-folder/w.safetensors
error 1 "--log: $folder/file/log" mnist $small --log "$folder/file/log"
error 1 "--log: $folder/data" mnist $small --log "$folder/data"
error 1 '--profile-dir' mnist $small --profile --profile-dir "$folder/file/profile"
error 1 '--profile-dir' mnist $small --profile --profile-dir /proc/profile
error 1 '--log: ' mnist $small --log "$folder/none/log"

# What is there and is no file is refused and stays. The nodes are made here: nothing real is at stake.
mkfifo "$folder/pipe"
ln -s pipe "$folder/link-to-pipe"
error 1 "--save: $folder/pipe: is a pipe, not a file" mnist $small --save "$folder/pipe"
error 1 "--save: $folder/link-to-pipe: is a pipe, not a file" mnist $small --save "$folder/link-to-pipe"
error 1 "--init: $folder/pipe: is a pipe, not a file" mnist $small --init "$folder/pipe"
check "the pipe stays" test -p "$folder/pipe" -a -L "$folder/link-to-pipe"
if mknod "$folder/full" c 1 7 2>/dev/null; then
    error 1 "--save: $folder/full: is a device, not a file" mnist $small --save "$folder/full"
    error 1 "--init: $folder/full: is a device, not a file" mnist $small --init "$folder/full"
    check "the device stays" test -c "$folder/full"
else
    skipped=$((skipped + 3))
fi

# One file for two purposes, by whatever names.
ln -s kept.safetensors "$folder/link.safetensors"
mkdir "$folder/profile"
error 2 "--save and --log are one file: new" mnist $small --save new --log ./new
error 2 "--init and --log are one file: kept.safetensors" mnist $small --init kept.safetensors --log link.safetensors
error 2 "--save and --profile are one file: profile/summary.txt" mnist $small --profile --profile-dir "$folder/profile" \
    --save profile/summary.txt
error 2 "--log and --profile are one file: profile/trace.json" mnist $small --profile --profile-dir profile \
    --log profile/trace.json
"$program" mnist $small --steps 1 --init kept.safetensors --save link.safetensors >/dev/null 2>&1
check "weights may go back to where they came from" test $? -eq 0 -a -L link.safetensors

# Names with control characters make one line all the same.
escape=$(printf '\033')
error 2 'is `\x1b[31m\n`; it must be' mnist --seed "$escape[31m
"
error 2 'unknown option --a\tb' mnist --a"$(printf '\t')"b
error 1 '--data-dir: ' mnist --data-dir "a
b"

# ---- a learning rate that is too large ----

"$program" mnist $small --learning-rate 1e30 --save nan.safetensors --output-mode all >nan.out 2>"$folder/err"
check "a loss that is not finite is a failure" test $? -eq 1
check "it names the update and the remedy" grep -q -E \
    '^brigade mnist: the loss became (NaN|infinite) at update [0-9]+: lower --learning-rate$' "$folder/err"
check "it says so once" test "$(wc -l <"$folder/err")" -eq 1
check "the weights are saved" test -s nan.safetensors
"$program" mnist $small --learning-rate 1e30 --save nan.safetensors >nan.out 2>"$folder/err"
check "the updates of the call" grep -q -E \
    '^brigade mnist: the loss became (NaN|infinite) in updates [0-9]+ to [0-9]*[02468]: lower --learning-rate$' "$folder/err"

# ---- warnings ----

# warns COUNT WORDS ARGUMENT...: the run is good, and says a line with the words so often.
warns() {
    warns_count=$1 warns_words=$2
    shift 2
    "$program" mnist $small --steps 1 --save warned.safetensors "$@" >/dev/null 2>"$folder/err"
    warns_code=$?
    check "$*: $warns_code, $(cat "$folder/err")" test $warns_code -eq 0 -a \
        "$(grep -c -F -e "warning: $warns_words" "$folder/err")" -eq "$warns_count"
    check "$*: nothing twice" test -z "$(sort "$folder/err" | uniq -d)"
}

warns 1 '--profile-dir without --profile: nothing is recorded' --profile-dir p
check "no profile folder" test ! -e p
warns 0 '' --batch-size 20
warns 1 '' --stages 'B1,B2@0|B3,B4@0'
BRIGADE_DATA=$folder/none "$program" mnist --batch-size 10 --device-iterations 1 --gradient-accumulation 4 --steps 1 \
    --save warned.safetensors >/dev/null 2>"$folder/err"
check "a folder without MNIST is said" grep -q -F \
    "brigade mnist: warning: \$BRIGADE_DATA ($folder/none) has no MNIST; it was skipped" "$folder/err"

# ---- places of weights ----

error 1 '--init: ' mnist $small --init "$folder/none.safetensors"
printf 'no safetensors' >"$folder/bad.safetensors"
error 1 '--init: ' mnist $small --init "$folder/bad.safetensors"

# ---- data that are not there, or not right ----

error 1 '--data-dir' mnist --data-dir "$folder/none"

# damage NAME: a copy of the data to spoil, in $bad.
damage() {
    bad="$folder/$1"
    cp -r "$folder/data" "$bad"
}

images=train-images-idx3-ubyte labels=train-labels-idx1-ubyte
damage truncated-gz
head -c 5000 "$folder/data/$images.gz" >"$bad/$images.gz"
error 1 "$bad/$images.gz" mnist $small --data-dir "$bad"
damage garbage
printf 'this is no IDX file at all' >"$bad/$images.gz"
error 1 "$bad/$images.gz" mnist $small --data-dir "$bad"
damage empty
: >"$bad/$labels.gz"
error 1 "$bad/$labels.gz" mnist $small --data-dir "$bad"
damage corrupt-gz
printf 'XXXXXXXXXXXXXXXX' | dd of="$bad/$images.gz" bs=1 seek=2000 conv=notrunc 2>/dev/null
error 1 "$bad/$images.gz" mnist $small --data-dir "$bad"
damage truncated-idx
gunzip "$bad/$images.gz"
head -c 100000 "$bad/$images" >"$bad/cut" && mv "$bad/cut" "$bad/$images"
error 1 "$bad/$images" mnist $small --data-dir "$bad"
damage too-long
gunzip "$bad/$labels.gz"
printf 'x' >>"$bad/$labels"
error 1 "$bad/$labels" mnist $small --data-dir "$bad"
damage label-out-of-range
gunzip "$bad/$labels.gz"
printf '\013' | dd of="$bad/$labels" bs=1 seek=108 conv=notrunc 2>/dev/null
error 1 'label 100 (byte 108) is 11, expected 0 to 9' mnist $small --data-dir "$bad"
damage counts-differ
cp "$bad/t10k-labels-idx1-ubyte.gz" "$bad/$labels.gz"
error 1 '500 labels, but' mnist $small --data-dir "$bad"

# ---- full disks ----

# No file but those that were there: nothing half written, no temporary.
nothing_new() {
    [ -z "$(find "$folder/run" -type f)" ]
}

mkdir "$folder/run"
cd "$folder/run" || exit 1
if [ -c /dev/full ]; then
    error 1 '/dev/full' mnist $small --save "$folder/kept.safetensors" --log /dev/full
    "$program" --version >/dev/full 2>"$folder/err"
    check "a full standard output is a failure" test $? -eq 1
    check "a full standard output is said" grep -q 'standard output' "$folder/err"
else
    skipped=$((skipped + 3))
fi

# limited BLOCKS WORDS ARGUMENT...: as `error 1`, with a limit on the size of files, which stands for a full disk.
limited() {
    blocks=$1 words=$2
    shift 2
    (
        ulimit -f "$blocks"
        "$program" "$@" >/dev/null 2>"$folder/err"
    )
    code=$?
    if [ "$code" -eq 1 ] && [ "$(wc -l <"$folder/err")" -eq 1 ] && grep -q -F -e "$words" "$folder/err"; then
        pass
    else
        fail "limit $blocks, $*: exit code $code:" "$(cat "$folder/err")"
    fi
}

limited 100 '--save: ' mnist $small --save w.safetensors
check "no weights are left" nothing_new
limited 800 'trace.json' mnist $small --save "$folder/kept.safetensors" --profile --profile-dir p
limited 4 '--save: ' mnist $small --save none.safetensors --log log.jsonl
check "the log has lines" test "$(wc -l <log.jsonl)" -gt 1
check "the log ends with a whole line" test "$(tail -c 2 log.jsonl | od -An -c | tr -d ' ')" = '}\n'
rm -f log.jsonl
check "no trace is left" nothing_new
# A log whose reader goes away stands for one whose disk fills up: the training goes on, and is saved.
mkfifo ../log-pipe
head -n 1 ../log-pipe >../log-head &
error 1 '--log: ../log-pipe: Broken pipe' mnist $small --epochs 2 --save ../logged.safetensors --log ../log-pipe
check "the reader got its line" grep -q '^{"config"' ../log-head
check "the training went on to its end" grep -q '^Trained 40 weight updates' ../out
check "it was tested" grep -q '^Accuracy on test set' ../out
check "its weights are saved" test -s ../logged.safetensors

printf 'old weights' >"$folder/run/old.safetensors"
limited 100 '--save: ' mnist $small --save old.safetensors
check "the old file stays" test "$(cat "$folder/run/old.safetensors")" = 'old weights'
finish
