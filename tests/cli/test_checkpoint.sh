#!/bin/sh
# brigade checkpoint prints the content of a checkpoint, verifies it, compares two checkpoints, and converts them to
# weights of other frameworks and back.
. "$(dirname "$0")/support.sh"
images=320 batch=4
make_digits $images 80
cd "$folder" || exit 1

common="--data-dir data --batch-size $batch --gradient-accumulation 2 --device-iterations 1 --optimizer adamw --cores 2"

train() {
    "$program" mnist $common "$@" >out 2>err || fail "$*:" "$(cat err)"
}

train --checkpoint run --steps 4 --save four.safetensors
four=run/checkpoint_train_step_4.safetensors
cp -r run saved
train --checkpoint run --resume --steps 6
six=run/checkpoint_train_step_6.safetensors

# flip FILE OFFSET: inverts a byte.
flip() {
    byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    printf "\\$(printf %03o $((255 - byte)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

begin_case inspect
"$program" checkpoint inspect run --tensors >out 2>err
check "the latest of a folder" test "$(head -n 1 out)" = "$six"
check "the step" grep -q '^  step       6 weight updates$' out
check "the optimizer and its state" grep -q '^  optimizer  adamw (exp_avg exp_avg_sq)$' out
check "the run: $(grep '^  run' out)" grep -q '^  run        precision=32 batch=8 micro_batch=4 replicas=1$' out
check "the place in the data" grep -q '"image":48,"images":320' out
check "who made it" grep -q '^  made by    brigade mnist$' out
check "parameters" grep -q '^  parameter .* tensors, ' out
check "every tensor" test "$(grep -c 'float32\[' out)" -eq "$(sed -n 's/^  all .* in \([0-9]*\) tensors.*/\1/p' out)"
check "the age of state" grep -q 'exp_avg .* state, 6 updates$' out
"$program" checkpoint inspect $six --json >json 2>err
check "JSON has the step" grep -q '"step":6,' json
check "JSON has the run" grep -q '"run":"precision=32 batch=8 micro_batch=4 replicas=1"' json
check "JSON has the tensors" test "$(grep -o '"role":"parameter"' json | wc -l)" -eq "$(grep -c ' parameter$' out)"
"$program" checkpoint inspect four.safetensors >out
check "weights are no checkpoint" grep -q 'weights, no checkpoint' out
error 1 'nowhere' checkpoint inspect nowhere
mkdir empty
error 1 'has no checkpoint (checkpoint_train_step_<n>.safetensors), no model.safetensors and no' checkpoint inspect empty
error 2 'no command is given; the commands are inspect, verify, convert, diff and best' checkpoint
error 2 'did you mean `verify`' checkpoint verfy run
error 2 'diff takes 2 paths, but 1 were given' checkpoint diff run
error 2 'verify takes no --tensors' checkpoint verify run --tensors

begin_case verify
"$program" checkpoint verify run >out 2>err
check "a good one: $(cat err)" grep -q "^$six: complete, checksum [0-9a-f]\{16\}$" out
cp $six bad.safetensors
flip bad.safetensors $(($(wc -c <bad.safetensors) - 5))
error 1 'bad.safetensors: the checksum is' checkpoint verify bad.safetensors
check "nothing is said of it" test ! -s "$folder/out"
head -c 5000 $six >short.safetensors
error 1 'short.safetensors' checkpoint verify short.safetensors
# One of two checkpoints is bad.
mkdir two
cp bad.safetensors two/checkpoint_train_step_6.safetensors
cp saved/checkpoint_train_step_4.safetensors two
error 1 'two/checkpoint_train_step_6.safetensors: the checksum is' checkpoint verify two
check "the other one is complete" grep -q '^two/checkpoint_train_step_4.safetensors: complete' "$folder/out"
"$program" checkpoint verify four.safetensors >out
check "weights have no checksum" grep -q 'there is no checksum' out
error 1 'bad.safetensors: the checksum is' checkpoint convert bad.safetensors out.safetensors
check "what is damaged is not converted" test ! -e out.safetensors

begin_case diff
"$program" checkpoint diff $six $six >out
check "a file and itself" test $? -eq 0
check "says so" grep -q '^[0-9]* tensors are the same, 0 different$' out
"$program" checkpoint diff saved $six >out
check "two steps differ" test $? -eq 1
check "in the step" grep -q '^step: 4 and 6$' out
check "in values" grep -q '^tensor `.*`: [0-9]* of [0-9]* elements differ, by at most [0-9.e-]*; element [0-9]* is ' out
check "in the age of state" grep -q '4 updates and state, 6 updates$' out
"$program" checkpoint diff saved $six --json >json
check "JSON says so" grep -q '"is_same":false' json
check "the runs are equal" sh -c '! grep -q "^run:" out'
train --checkpoint large --steps 4 --batch-size 8 --gradient-accumulation 1
"$program" checkpoint diff saved large >out
check "runs of other batches differ" test $? -eq 1
check "in the size of a micro-batch: $(grep '^run' out)" grep -q \
    '^run: precision=32 batch=8 micro_batch=4 replicas=1 and precision=32 batch=8 micro_batch=8 replicas=1$' out
"$program" checkpoint diff saved large --weights >out
check "which weights do not have" sh -c '! grep -q "^run:" out'
"$program" checkpoint diff saved large --json >json
check "JSON has both" grep -q '"key":"run","first":"precision=32 batch=8 micro_batch=4 replicas=1","second":"[^"]*micro_batch=8 ' json
"$program" checkpoint diff saved four.safetensors --weights >out
check "weights of a checkpoint are the saved ones" test $? -eq 0
"$program" checkpoint diff saved four.safetensors >out
check "which have no state" grep -q 'exp_avg.*`: only in saved/checkpoint' out

begin_case convert
"$program" checkpoint convert saved out.safetensors >out 2>err
check "to weights: $(cat err)" "$program" checkpoint diff out.safetensors four.safetensors >/dev/null
"$program" checkpoint convert saved hub/ --file-size 20K >out 2>err
check "to a folder: $(cat err)" test -f hub/model.safetensors.index.json
check "of several files" test "$(ls hub/model-0*.safetensors | wc -l)" -gt 1
check "with the same weights" "$program" checkpoint diff hub four.safetensors >/dev/null
"$program" checkpoint convert saved half/ --floats bfloat16 --prefix net. --rename 'm.*=layer1.*' >out 2>err
check "renamed: $(cat err)" sh -c "'$program' checkpoint inspect half --tensors | grep -q 'net.m.*bfloat16'"
# Converts weights back to a checkpoint: those of step 6 get the state of step 4.
"$program" checkpoint convert run six/ >out 2>err
"$program" checkpoint convert six back --like saved >out 2>err
check "back to a checkpoint: $(cat err)" "$program" checkpoint verify back >out
"$program" checkpoint diff back $six --weights >out
check "it has the weights" test $? -eq 0
"$program" checkpoint diff back saved >out
check "and the rest of the other" sh -c '! grep -q -e "^step" -e "exp_avg" out'
"$program" checkpoint convert hub again --like saved >out 2>err
check "there and back is the same" cmp again/checkpoint_train_step_4.safetensors saved/checkpoint_train_step_4.safetensors
train --checkpoint again --resume --steps 6 --save on.safetensors
train --steps 6 --save whole.safetensors
check "a training goes on from it" cmp on.safetensors whole.safetensors
"$program" checkpoint convert half new --rename 'm.*=layer1.*' --prefix net. --step 3 --seed 7 >out 2>err
check "without another checkpoint: $(cat err)" sh -c "'$program' checkpoint inspect new | grep -q 'step       3 weight updates'"
error 1 'already exists' checkpoint convert hub back --like saved
error 1 'has no tensor for parameter' checkpoint convert hub else --like saved --ignore 'layer1.*'
error 1 'which saved/checkpoint_train_step_4.safetensors does not have' checkpoint convert half else --like saved
error 1 'it must be THERE=HERE' checkpoint convert hub else --rename layer1
error 1 'add --to checkpoint' checkpoint convert saved else/ --like saved

# Reads a sparse file of 420 MB of zeros in 160 MB of address space; one tensor of 14 MB is in memory at a time.
begin_case limit
limited() {
    (ulimit -v 160000 && exec "$program" "$@") >out 2>err </dev/null
}
if limited --version; then
    header= at=0
    for number in $(seq 10 39); do
        header="$header,\"t$number\":{\"dtype\":\"F32\",\"shape\":[3500,1000],\"data_offsets\":[$at,$((at + 14000000))]}"
        at=$((at + 14000000))
    done
    header="{${header#,}}"
    length=${#header}
    printf "\\$(printf %03o $((length % 256)))\\$(printf %03o $((length / 256)))\\000\\000\\000\\000\\000\\000%s" "$header" \
        >large.safetensors
    truncate -s $((8 + length + at)) large.safetensors
    check "inspect: $(cat err)" limited checkpoint inspect large.safetensors
    check "verify: $(cat err)" limited checkpoint verify large.safetensors
    check "diff: $(cat err)" limited checkpoint diff large.safetensors large.safetensors
    check "says so" grep -q '^30 tensors are the same, 0 different$' out
    check "convert: $(cat err)" limited checkpoint convert large.safetensors small.safetensors --to weights --floats bfloat16 \
        --ignore 't3*'
    check "20 of them, of 280 MB" test "$(wc -c <small.safetensors)" -gt 140000000
    rm -f large.safetensors small.safetensors
else
    skipped=$((skipped + 1)) # sanitizers need more address space
fi

finish
