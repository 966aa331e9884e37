#!/bin/sh
# `brigade mnist`: --init and --save, and signals, after which the weights are saved.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/mnist.sh"

train base --epochs 1

begin_case init-and-save
train copy --epochs 0 --init base.safetensors
same base copy
check "the same weights test the same" test "$(grep '^Accuracy' base.out)" = "$(grep '^Accuracy' copy.out)"
train from-base --epochs 1 --init base.safetensors --no-shuffle
check "training goes on from there" sh -c '! cmp -s base.safetensors from-base.safetensors'
check "the names are PyTorch's" test "$(head -c 1200 base.safetensors | tr '{' '\n' |
    grep -a -o 'layer[0-9][a-z.]*\.\(weight\|bias\)' | sort | tr '\n' ' ')" = \
    "layer1.conv.bias layer1.conv.weight layer2.conv.bias layer2.conv.weight layer3.bias layer3.weight layer4.bias layer4.weight "

begin_case other-network
# The file of another network has one changed name; the error lists all differences.
sed 's/layer3\.bias/layer9.bias/' base.safetensors >renamed.safetensors
error 1 '`layer3.bias` is missing; the network has no `layer9.bias`' mnist $small --init renamed.safetensors
sed 's/"shape":\[256,320\]/"shape":[320,256]/' base.safetensors >turned.safetensors
error 1 '`layer3.weight` is float32[320,256], but the network has float32[256,320]' mnist $small --init turned.safetensors
# Of many differences the first are listed.
sed 's/layer\([1-9]\)/other\1/g' base.safetensors >others.safetensors
error 1 '`layer3.bias` is missing; and 11 more (0 of another shape or type, 8 missing, 8 that the network does not have)' \
    mnist $small --init others.safetensors

begin_case formats
mkdir -p folder
cp base.safetensors folder/model.safetensors
train folded --epochs 0 --init folder
same base folded
if command -v zip >/dev/null; then
    printf text >note.txt
    zip -q note.zip note.txt
    error 1 '--init: read as a .npz file, because it is a ZIP archive: note.zip: byte ' mnist $small --init note.zip
    error 1 'this is not a .npz file: `note.txt` does not end in .npy' mnist $small --init note.zip
fi
printf 'weights of a network\n' >text.safetensors
error 1 '--init: text.safetensors: is not a safetensors or .npz file' mnist $small --init text.safetensors
error 1 'net.onnx: is not a safetensors or .npz file, but an ONNX model' mnist $small --init "$root/tests/oracle/train/net.onnx"
length=$(od -A n -t u1 -N 2 base.safetensors | awk '{ print $1 + 256 * $2 }')
head -c 100 base.safetensors >cut.safetensors
error 1 "cut.safetensors: byte 100: the file is truncated: its header length is $length, so at least $((length + 8)) bytes are needed, but the file has 100" \
    mnist $small --init cut.safetensors
head -c $((length + 20)) base.safetensors >cut.safetensors
error 1 "bytes of data: the file is truncated, or its header is wrong" mnist $small --init cut.safetensors

# interrupt SIGNAL CODE: a training run ends with the code, after a whole call, with the weights saved.
interrupt() {
    "$program" mnist $small --epochs 100000 --save "$1.safetensors" --log "$1.jsonl" >"$1.out" 2>"$1.err" &
    process=$!
    for attempt in $(seq 600); do
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

begin_case signals
interrupt INT 130
interrupt TERM 143
# Under nohup the signal is ignored from the start, and remains ignored.
case $(sed -n 's/^SigIgn:.*\(.\)$/\1/p' /proc/self/status 2>/dev/null) in
    [13579bdf]) skipped=$((skipped + 7)) ;;
    *) interrupt HUP 129 ;;
esac

begin_case signal-before-training
# Interrupts before the first update: the log is a pipe without a reader, so the program waits.
mkfifo waiting
printf 'old weights' >old.safetensors
"$program" mnist $small --epochs 1 --save old.safetensors --log waiting >waiting.out 2>waiting.err &
process=$!
for attempt in $(seq 600); do
    grep -q '^Graph compilation' waiting.out 2>/dev/null && break
    grep -q '^Training' waiting.out 2>/dev/null && [ "$attempt" -gt 5 ] && break
    sleep 0.2
done
kill -TERM $process
wait $process
check "a signal ends the wait for a reader" test $? -eq 143
check "nothing is saved over older weights" test "$(cat old.safetensors)" = 'old weights'
check "it is said" grep -q -F 'brigade mnist: stopped by signal 15; nothing was trained, so nothing is saved' waiting.err
finish
