#!/bin/sh
# `brigade mnist`: its lines, its log, --steps, --init and --save, the same bits in every strategy, interruption.
. "$(dirname "$0")/support.sh"

make_digits
cd "$folder" || exit 1
small="--data-dir $folder/data --batch-size 10 --device-iterations 2 --gradient-accumulation 8 --test-batch-size 5"

# train NAME ARGUMENT...: trains into NAME.safetensors and NAME.out.
train() {
    name=$1
    shift
    if "$program" mnist $small --save "$name.safetensors" "$@" >"$name.out" 2>"$name.err"; then
        pass
    else
        fail "$*:" "$(cat "$name.err")"
    fi
}

# lines FILE PATTERN...: each pattern matches a line, in this order.
lines() {
    lines_file=$1 lines_at=1
    shift
    for pattern in "$@"; do
        next=$(tail -n +$lines_at "$lines_file" | grep -n -m 1 -E -e "$pattern" | cut -d: -f1)
        if [ -z "$next" ]; then
            fail "no line \`$pattern\` in its place in:" "$(cat "$lines_file")"
            return
        fi
        lines_at=$((lines_at + next))
    done
    pass
}

number='[0-9]+\.[0-9]'

# ---- lines ----

train lines --epochs 2 --profile --profile-dir "$folder/p"
lines lines.out '^Profiling is enabled\.$' '^Training\.\.\.$' '^Graph compilation: [0-9.]+ ms$' '^Epoch 1/2$' \
    "^10/10 \[=+\] Loss:${number}{4} \| Accuracy:${number}{2}% ${number}{2}it/s [0-9]+ images/s$" '^Epoch 2/2$' \
    "^10/10 \[=+\] Loss:${number}{4} \| Accuracy:${number}{2}%" '^Weights saved to lines\.safetensors$' '^Testing\.\.\.$' \
    '^6/6 \[=+\]' "^Accuracy on test set: ${number}{2}%$" "^Accuracy on all 500 test images: ${number}{2}%$"
check "no carriage returns without a terminal" sh -c "! grep -q '$(printf '\r')' lines.out"
check "nothing on stderr" test ! -s lines.err
check "the profile is written" test -s "$folder/p/trace.json" -a -s "$folder/p/summary.txt"
check "it learns" test "$(sed -n 's/^Accuracy on test set: \([0-9]*\)\..*/\1/p' lines.out)" -ge 50

train quiet --epochs 1 --quiet
check "quiet is five lines" test "$(wc -l <quiet.out)" -eq 5
train debug --epochs 1 --debug
lines debug.out '^Stages:$' 'B1' '^Memory:$' '^Timetable:$' '^Epoch 1/1$' '^Loader: 10 batches'
train only-test --epochs 0
check "epochs 0 does not train" sh -c '! grep -q "^Epoch" only-test.out'
lines only-test.out '^Testing\.\.\.$' '^Accuracy on test set: '
"$program" mnist --help >help.out
check "help ends well" test $? -eq 0
for option in batch-size device-iterations gradient-accumulation test-batch-size epochs learning-rate strategy \
    profile profile-dir debug offload-optimiser replicas schedule stages device-memory cores seed no-shuffle steps \
    init save log dtype output-mode data-dir download ipu-limits quiet help; do
    check "help has --$option" grep -q -e "--$option" help.out
done
for default in 'batch-size N .*default: 40' 'device-iterations N .*default: 10' 'test-batch-size N .*default: 8' \
    'epochs N .*default: 3' 'learning-rate X .*default: 0.001' 'gradient-accumulation N .*default: 10' \
    'profile-dir DIR .*default: ./profile' 'seed N .*default: 0'; do
    check "help says" grep -q -e "$default" help.out
done
"$program" plan mnist --stages 'B1,B2|B3,B4' >plan.out
lines plan.out '^2 stages on 2 devices' '^Stages$' '^Memory$' '^Timetable$'

# ---- the same bits whatever runs them ----

same() {
    check "$1 and $2 have the same weights" cmp -s "$1.safetensors" "$2.safetensors"
}

train base --epochs 1
train again --epochs 1
same base again
for variant in '--strategy sharded' '--strategy single' '--schedule grouped' '--schedule sequential' \
    '--stages B1,B2|B3,B4' '--cores 1' '--offload-optimiser' '--profile' '--output-mode all' '--device-iterations 1'; do
    train variant --epochs 1 $variant
    same base variant
done
train other-seed --epochs 1 --seed 1
check "another seed gives other weights" sh -c '! cmp -s base.safetensors other-seed.safetensors'
train unshuffled --epochs 1 --no-shuffle
check "another order gives other weights" sh -c '! cmp -s base.safetensors unshuffled.safetensors'
train replicas --epochs 1 --replicas 2 --gradient-accumulation 4 --strategy sharded
train bfloat16 --epochs 1 --dtype bfloat16
check "bfloat16 gives other weights of the same size" test \
    "$(wc -c <base.safetensors)" -eq "$(wc -c <bfloat16.safetensors)"

# ---- what the numbers of a call cover ----

score() {
    sed -n 's/^10\/10 .*\(Loss:[0-9.]* | Accuracy:[0-9.]*%\).*/\1/p' "$1"
}
train all --epochs 1 --output-mode all
train sum --epochs 1 --output-mode sum
check "all and sum say the same: $(score all.out), $(score sum.out)" test "$(score all.out)" = "$(score sum.out)"
check "final says what it covers" grep -q 'last micro-batch of a call: 10 of 160 images' base.out

# ---- the log ----

train logged --epochs 2 --log log.jsonl
check "one line for the head and one for each update" test "$(wc -l <log.jsonl)" -eq 41
check "the head has configuration and versions" sh -c \
    'head -n 1 log.jsonl | grep -q "^{\"config\":{\"batch-size\":10,.*\"versions\":{\"brigade\":.*\"compiler\":.*\"cpu_isa\":.*\"host_cores\":"'
check "updates count from 1" test "$(sed -n 's/^{"step":\([0-9]*\),.*/\1/p' log.jsonl | tr '\n' ' ')" = "$(seq -s ' ' 40) "
check "each update has its numbers" test "$(grep -c -E '^\{"step":[0-9]+,"epoch":[12],"loss":[0-9.e-]+,"accuracy":[0-9.]+,"images_per_s":[0-9.]+\}$' log.jsonl)" -eq 40
train logged-all --epochs 2 --log all.jsonl --output-mode all --strategy single
check "the log is the same in every mode and strategy" test \
    "$(sed 's/,"images_per_s.*//' log.jsonl | tail -n +2)" = "$(sed 's/,"images_per_s.*//' all.jsonl | tail -n +2)"
same logged logged-all

# ---- --steps ----

train seven --epochs 1 --steps 7 --log seven.jsonl
train seven-by-one --epochs 1 --steps 7 --device-iterations 1
same seven seven-by-one
check "seven updates are logged" test "$(wc -l <seven.jsonl)" -eq 8
check "seven updates are those of a longer run" test "$(sed 's/,"images_per_s.*//' seven.jsonl | tail -n +2)" = \
    "$(sed -n '2,8p' log.jsonl | sed 's/,"images_per_s.*//')"
check "seven updates are four calls" grep -q '^4/4 ' seven.out
train one --epochs 1 --steps 1
check "one update is enough" grep -q '^Trained 1 weight updates, 80 images' one.out
train whole --epochs 2 --steps 20
train epoch --epochs 1
same whole epoch
train second --epochs 2 --steps 23
check "the second epoch is begun" grep -q '^Epoch 2/2' second.out
train beyond --epochs 1 --steps 500
check "what was not reached is said" grep -q -e '--steps 500 was not reached: the epochs have 20' beyond.out

# ---- --init and --save ----

train copy --epochs 0 --init base.safetensors
same base copy
check "the same weights test the same" test "$(grep '^Accuracy' base.out)" = "$(grep '^Accuracy' copy.out)"
train from-base --epochs 1 --init base.safetensors --no-shuffle
check "training goes on from there" sh -c '! cmp -s base.safetensors from-base.safetensors'
check "the names are PyTorch's" test "$(head -c 1200 base.safetensors | tr '{' '\n' |
    grep -a -o 'layer[0-9][a-z.]*\.\(weight\|bias\)' | sort | tr '\n' ' ')" = \
    "layer1.conv.bias layer1.conv.weight layer2.conv.bias layer2.conv.weight layer3.bias layer3.weight layer4.bias layer4.weight "
# A file of another network: the same bytes with one name changed, all that differs is listed.
sed 's/layer3\.bias/layer9.bias/' base.safetensors >renamed.safetensors
error 1 '`layer3.bias` is missing; the network has no `layer9.bias`' mnist $small --init renamed.safetensors
sed 's/"shape":\[256,320\]/"shape":[320,256]/' base.safetensors >turned.safetensors
error 1 '`layer3.weight` is float32[320,256], the network has float32[256,320]' mnist $small --init turned.safetensors

# ---- interruption ----

# Ends with 128 + the signal, after a whole call, with the weights saved.
interrupt() {
    "$program" mnist $small --epochs 100000 --save "$1.safetensors" --log "$1.jsonl" >"$1.out" 2>"$1.err" &
    process=$!
    for attempt in $(seq 50); do
        [ "$(cat "$1.jsonl" 2>/dev/null | wc -l)" -gt 10 ] && break
        sleep 0.2
    done
    kill -"$1" $process
    wait $process
    interrupt_code=$?
    check "$1 ends with $2" test $interrupt_code -eq "$2"
    check "$1 saves" grep -q "^Weights saved to $1.safetensors" "$1.out"
    check "$1 says one line" test "$(wc -l <"$1.err")" -eq 1
    check "$1 does not test" sh -c "! grep -q Testing $1.out"
    check "$1 ends after a whole call" test $(($(wc -l <"$1.jsonl") % 2)) -eq 1
    train "after-$1" --epochs 0 --init "$1.safetensors"
}
interrupt INT 130
interrupt TERM 143

# ---- data ----

"$program" data digits --out sheet.pgm --count 45 >/dev/null
check "a picture of 20 by 3 digits" test "$(head -n 2 sheet.pgm | tail -n 1)" = "560 84"
finish
