#!/bin/sh
# `brigade gpt`: models in Hugging Face's format, logs that cannot be written or are shared, and failing runs.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/gpt.sh"

train base

# The runs below set their number of steps.
small=$plain

begin_case saved-model
train saved --steps 2 --save-hf hf
check "a model is written" test -s hf/config.json -a -s hf/model.safetensors
train begun --steps 1 --hf-model hf --set maximum=0 constant=true weight_decay=0
check "a run begins with it" cmp -s saved.safetensors begun.safetensors
check "its configuration says float32" grep -q '"torch_dtype": "float32"' hf/config.json
# A folder that is not empty is refused at the start, before training, and does not change.
cp -r hf kepthf
error 1 '--save-hf: hf is not empty; name another folder, or replace the model in it with --overwrite-hf' \
    gpt pretrain $one precision=float32 --quiet --steps 3 --save-hf hf --save neverbegun
check "nothing was trained" test ! -e neverbegun
check "the model stays" diff -r hf kepthf
mkdir emptyhf && train emptyfolder --steps 1 --save-hf emptyhf
check "an empty folder is fine" test -s emptyhf/model.safetensors
cp -r hf overhf && train over --steps 3 --save-hf overhf --overwrite-hf
check "--overwrite-hf replaces the model" sh -c '! cmp -s hf/model.safetensors overhf/model.safetensors'
error 2 '--overwrite-hf is given without --save-hf DIR' gpt pretrain $one precision=float32 --quiet --steps 1 --overwrite-hf

begin_case loaded-model
train random --steps 6 --hf-model test
same base random
error 1 'n_layer' gpt pretrain $one precision=float32 --quiet --hf-model hf --set layers=3
error 1 '--hf-model: ' gpt pretrain $one precision=float32 --quiet --hf-model nowhere
error 2 'weights can come from only one of them' gpt pretrain $one --hf-model hf --load saved

begin_case full-log
if [ -c /dev/full ]; then
    "$program" gpt pretrain $small --steps 3 --log /dev/full --save-weights full.safetensors >full.out 2>full.err
    check "a log that cannot be written is an error" test $? -eq 1
    check "which is said" grep -q -e '--log: /dev/full: ' full.err
    check "at the end: the run went on" grep -q '^Finished pre-training' full.out
    check "and saved its weights" test -s full.safetensors
else
    skipped=$((skipped + 4))
fi

begin_case shared-log
: >shared.jsonl
lines=300
[ -n "$quick" ] && lines=200
"$program" gpt pretrain $small --steps $lines --log shared.jsonl --save busy --quiet >out 2>&1 &
until [ "$(wc -l <shared.jsonl)" -ge 2 ] || ! kill -0 $! 2>/dev/null; do sleep 0.02; done
echo '{"step":"ours"}' >>shared.jsonl
error 1 '--save: busy: another run writes there; wait' gpt pretrain $one precision=float32 --quiet --steps 1 --save busy
wait $!
check "what others wrote stays" test "$(grep -c '^{"step":.*}$' shared.jsonl)" -eq $((lines + 1))
check "nothing is cut" test "$(wc -l <shared.jsonl)" -eq $((lines + 1))

begin_case diverged
for rate in 1e30 1e19; do
    error 1 'the update was refused' gpt pretrain $one precision=float32 training.optimizer.name=sgd gradient_clipping=0 \
        maximum=$rate constant=true --steps 9 --quiet --save "wrong-$rate"
    check "and none is there" sh -c "! ls wrong-$rate/*.safetensors 2>/dev/null"
done
finish
