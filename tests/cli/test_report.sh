#!/bin/sh
# `--profile` of every command that runs a plan, and `brigade report`.
. "$(dirname "$0")/support.sh"
. "$root/tests/cli/mnist.sh"

# report FOLDER: checks that the three files exist and `brigade report` reads them.
report() {
    for file in report.html summary.json trace.json; do
        check "$1/$file" test -s "$1/$file"
    done
    "$program" report "$1" --text >text.out 2>text.err
    check "$1 as text: $(cat text.err)" grep -q '^What to change$' text.out
}

begin_case mnist
train digits --epochs 1 --profile --profile-dir digits
check "says where" grep -q '^Report: digits/report.html' digits.out
report digits
report digits/test
train plain --epochs 1
same digits plain

begin_case report
"$program" report digits --text >text.out 2>&1
for line in '^Device time$' '^stage 3 ' 'GFLOP/s' '^device 0 ' '^Largest tensors$' 'images/s'; do
    check "a line $line" grep -q -e "$line" text.out
done
check "no colors in a file" sh -c '! grep -q "$(printf "\\033")" text.out'
rm digits/report.html
"$program" report digits >page.out 2>&1
check "the page is made again: $(cat page.out)" test -s digits/report.html
"$program" report digits --compare digits/test >/dev/null 2>&1
check "a comparison" grep -q 'data-name="digits/test"' digits/compare.html
"$program" report digits --compare digits/test --text >text.out 2>&1
check "a comparison as text" grep -q '^throughput .*%$' text.out
"$program" report digits --output other.html >/dev/null 2>&1
check "another place" test -s other.html

begin_case gpt
gpt='--set tensor_parallel_1=1 tensor_parallel_2=1 stochastic_rounding=false precision=float32 --steps 3 --layers 2 --quiet'
"$program" gpt pretrain $gpt --save-hf hf --profile --profile-dir pretrain >gpt.out 2>&1
check "pretrain: $(cat gpt.out)" test -d hf
report pretrain
printf 'some words that are here to be predicted, and a few more of them after that' >words.txt
"$program" gpt eval --hf-model hf --tokenizer bytes --input-files words.txt --profile --profile-dir eval >gpt.out 2>&1
check "eval: $(cat gpt.out)" grep -q '^Tokens' gpt.out
report eval
"$program" gpt generate --hf-model hf --tokenizer bytes --prompt ab --length 6 --go-on --profile --profile-dir generate >gpt.out 2>&1
check "generate: $(cat gpt.out)" test -s gpt.out
report generate

begin_case infer
files=$root/tests/oracle/train
"$program" infer "$files/net.onnx" --input "x=$files/images.npy" --normalize 0.4,0.3 --output y.npy --batch-size 8 --stages auto:2 \
    --profile --profile-dir infer >infer.out 2>&1
check "infer: $(cat infer.out)" test -s y.npy
report infer

begin_case errors
error 2 'no folder is given; name the one that --profile wrote' report
error 2 '--text prints' report digits --text --output x.html
error 1 'nowhere/summary.json: ' report nowhere
mkdir -p broken
head -c 1000 digits/summary.json >broken/summary.json
error 1 'not JSON' report broken --text
echo '{"format":"brigade-profile","version":7}' >broken/summary.json
error 1 'the summary of a profile has version 7' report broken
echo '[]' >broken/summary.json
error 1 'this is not the summary of a profile' report broken
error 1 '--profile-dir' gpt pretrain --profile --profile-dir /proc/profile

begin_case environment
BRIGADE_PROFILE=environment "$program" mnist $small --epochs 1 --save w.safetensors --quiet >environment.out 2>&1
check "by the environment: $(cat environment.out)" test -s environment/training/report.html
check "the test too" test -s environment/test/summary.json
finish
