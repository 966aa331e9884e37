#!/bin/sh
# `brigade train`: an exported model trains as in PyTorch (tests/oracle/train.py), with the same bits under every
# strategy, and resumes where it was interrupted.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/train.sh"

begin_case pytorch
train net "$files/net.onnx" $data $validation $like_pytorch --epochs 3 --save net.onnx
losses net.jsonl >net.losses
recorded net losses >net.wanted
near losses net.losses net.wanted
sed -n 's/.*"validation":{"loss":\([^,]*\),.*/\1/p' net.jsonl >net.losses
recorded net validation >net.wanted
near "validation" net.losses net.wanted
sed -n 's/.*"validation":{"loss":[^,]*,"accuracy":\([^}]*\)}}/\1/p' net.jsonl >net.losses
recorded net accuracy >net.wanted
near "accuracy" net.losses net.wanted
"$program" infer net.onnx --input "x=$files/test.npz:images" --normalize 0.4,0.3 --output logits=logits.npy --quiet
tail -c +129 logits.npy | od -An -v -tf4 -w4 | tr -d ' ' >net.losses
recorded net logits >net.wanted
near "the trained model" net.losses net.wanted

begin_case scores
train f1 "$files/net.onnx" $data $validation $like_pytorch --epochs 3 --metric f1 --quiet
sed -n 's/.*"validation":{"loss":[^,]*,"f1":\([^}]*\)}}/\1/p' f1.jsonl >f1.found
recorded net f1 >f1.wanted
near "f1" f1.found f1.wanted
check "the line: $(grep Validation f1.out | head -1)" grep -q '^Validation: Loss:0\.4935 | F1:0\.9$' f1.out
train perplexity "$files/net.onnx" $data $validation $like_pytorch --epochs 3 --metric perplexity --quiet
losses perplexity.jsonl | awk '{ print exp($1) }' >perplexity.wanted
recorded net validation | awk '{ print exp($1) }' >>perplexity.wanted
sed -n 's/^{"step":.*"loss":[^,]*,"perplexity":\([^,}]*\),.*/\1/p' perplexity.jsonl >perplexity.found
sed -n 's/.*"validation":{"loss":[^,]*,"perplexity":\([^}]*\)}}/\1/p' perplexity.jsonl >>perplexity.found
near "perplexity, of each update and of validations" perplexity.found perplexity.wanted
train micro "$files/net.onnx" $data $validation $like_pytorch --epochs 1 --metric f1-micro --quiet
train share "$files/net.onnx" $data $validation $like_pytorch --epochs 1 --quiet
sed -n 's/.*"f1-micro":\([^,}]*\).*/\1/p' micro.jsonl | awk '{ print 100 * $1 }' >micro.found
sed -n 's/.*"accuracy":\([^,}]*\).*/\1/p' share.jsonl >micro.wanted
near "f1-micro is the accuracy" micro.found micro.wanted

begin_case output
check "the model" grep -q '^Model: .*net.onnx (pytorch 1.13.0, opset 13), 732 parameters in 8 tensors$' net.out
check "the data" grep -q -F 'Data: 45 samples, 13 for validation; loss: cross-entropy; metric: accuracy; micro-batches of 8' net.out
check "epochs" grep -q '^Epoch 3/3$' net.out
check "the bar" grep -q '^6/6 \[====================\] Loss:0\.[0-9]* | Accuracy:[0-9.]*% [0-9.]*it/s [0-9]* samples/s [0-9.]* s$' net.out
check "validation" grep -q '^Validation: Loss:0\.0144 | Accuracy:100\.00%$' net.out
check "the end" grep -q '^Trained 18 weight updates, 135 samples in [0-9.]* s: [0-9]* samples/s$' net.out
check "the file" grep -q '^Weights saved to net.onnx$' net.out
check "the scale: $(tail -n 1 net.out)" grep -q '^The saved model names the normalization of its inputs, which `brigade infer` applies$' net.out
check "the log" grep -q '^{"step":18,"epoch":3,"loss":[0-9.e-]*,"accuracy":[0-9.]*,"lr":0.05,"samples_per_s":[0-9.]*}$' net.jsonl
check "nothing else in it: $(cat net.jsonl)" test "$(grep -c -v -E '^\{"step":[0-9]+,"epoch":[1-3],("loss"|"validation")' net.jsonl)" -eq 0

# Results are compared with those of one device; an update has the same micro-batches everywhere.
begin_case strategies
for batches in 1 4; do
    many="$files/net.onnx $data --gradient-accumulation $batches --epochs 2 --quiet"
    train single $many --save single.onnx
    losses single.jsonl >single.losses
    train sharded $many --save sharded.onnx --strategy sharded --stages auto:2
    train pipelined $many --save pipelined.onnx --stages auto:2
    train named $many --save named.onnx --stages 'conv,main,hidden,main.2|norm,head,loss'
    train phased $many --save phased.onnx --strategy phased --stages auto:2
    train recomputed $many --save recomputed.onnx --stages auto:3 --recompute stage --schedule grouped
    for other in sharded pipelined named phased recomputed; do
        check "$other, $batches an update: weights" cmp -s single.onnx $other.onnx
        losses $other.jsonl >$other.losses
        check "$other, $batches an update: losses" cmp -s single.losses $other.losses
    done
done
check "something was learned" sh -c '! cmp -s single.onnx "$1"' - "$files/net.onnx"
# Two replicas with two micro-batches each have the same samples as one replica with four.
train halves "$files/net.onnx" $data --gradient-accumulation 2 --replicas 2 --epochs 2 --last-batch drop --canonical-reductions --quiet --save halves.onnx
train whole "$files/net.onnx" $data --gradient-accumulation 4 --epochs 2 --last-batch drop --canonical-reductions --quiet --save whole.onnx
check "replicas" cmp -s halves.onnx whole.onnx

begin_case resume
train straight "$files/net.onnx" $data --epochs 3 --quiet --save straight.onnx
train first "$files/net.onnx" $data --epochs 3 --steps 7 --quiet --checkpoint state
train second "$files/net.onnx" $data --epochs 3 --quiet --checkpoint state --resume --save second.onnx --stages auto:2
check "the same bits" cmp -s straight.onnx second.onnx
check "the rest of the updates" test "$(losses second.jsonl | wc -l)" -eq 11
error 1 'has a checkpoint of an earlier training' train "$files/net.onnx" $data --quiet --checkpoint state
error 1 'is from a training on 45 samples, but this run has 13; give the same --input and --target' train "$files/net.onnx" \
    --input "x=$files/test.npz:images" --target "$files/test.npz:labels" --batch-size 8 --quiet --checkpoint state --resume

# 45 training samples are 6 batches of 8 (the last one smaller), and 13 validation samples are 2 batches.
begin_case limits
train half "$files/net.onnx" $data $validation --no-shuffle --epochs 2 --limit-train-batches 0.5 --limit-val-batches 1 --save half.onnx
check "epochs of 3 batches: $(cat half.out)" grep -q '^Trained 6 weight updates, 48 samples' half.out
train three "$files/net.onnx" $data $validation --no-shuffle --epochs 2 --limit-train-batches 3 --limit-val-batches 0 --save three.onnx
check "the same as a number" cmp -s half.onnx three.onnx
check "one validation batch, and none" test "$(grep -c '"validation"' half.jsonl)$(grep -c '"validation"' three.jsonl)" = 20
train begun "$files/net.onnx" $data --no-shuffle --epochs 2 --limit-train-batches 3 --steps 4 --quiet --checkpoint part
train begun "$files/net.onnx" $data --no-shuffle --epochs 2 --limit-train-batches 3 --quiet --checkpoint part --resume --save begun.onnx
check "resumed within an epoch" cmp -s begun.onnx three.onnx
error 1 'batch_shares is 0.1, and 0.1 of 6 batches is less than one; give a larger share, or 0 for none' train "$files/net.onnx" $data \
    --limit-train-batches 0.1

# From the second epoch on all 13 samples are correct. Of equally good checkpoints the earlier one is kept, even after a
# resume.
begin_case keep_best
best="$data $validation --no-shuffle --learning-rate 0.3 --quiet --checkpoint best --checkpoint-keep-best"
train best "$files/net.onnx" $best accuracy --epochs 3 --optimizer adam
train best "$files/net.onnx" $best accuracy --epochs 5 --optimizer adam --resume
check "the best and the newest: $(ls best)" test "$(echo best/*)" = \
    "best/checkpoint_train_step_12.safetensors best/checkpoint_train_step_30.safetensors"
check "inspect says the metric" sh -c '"$1" checkpoint inspect best/checkpoint_train_step_12.safetensors | grep -q "^  metric     accuracy 100, higher is better$"' - "$program"
check "checkpoint best names it: $("$program" checkpoint best best 2>&1)" test "$("$program" checkpoint best best)" = \
    best/checkpoint_train_step_12.safetensors
error 1 'state: has no checkpoint with a metric; train with --checkpoint-keep-best to record one' checkpoint best state
train loss "$files/net.onnx" $data --epochs 2 --quiet --checkpoint loss --checkpoint-keep-best loss --checkpoint-async
"$program" checkpoint inspect loss --json >loss.found
check "without a validation the loss of the training: $(ls loss)" grep -q '"metric":{"name":"loss","value":[0-9.e-]*,"better":"lower"}' loss.found
error 2 'needs --validation, which measures it' train "$files/net.onnx" $data --checkpoint b --checkpoint-keep-best accuracy
error 2 'this training measures `loss` and `accuracy`' train "$files/net.onnx" $data --checkpoint b --checkpoint-keep-best f1

begin_case frozen
train frozen "$files/net.onnx" $data --epochs 1 --quiet --freeze 'conv.*' 'norm.*' --unfreeze norm.bias --save frozen.npz
train begun "$files/net.onnx" $data --epochs 0 --quiet --save begun.npz
train from-npz "$files/net.onnx" $data --epochs 0 --quiet --init frozen.npz --save from-npz.npz
check "weights of a .npz file begin a training" cmp -s frozen.npz from-npz.npz
frozen_array() { unzip -p "$1" "$2.npy" 2>/dev/null | cksum; }
if command -v unzip >/dev/null; then
    for name in conv.weight conv.bias norm.weight; do
        check "$name stays" test "$(frozen_array frozen.npz $name)" = "$(frozen_array begun.npz $name)"
    done
    for name in norm.bias hidden.weight head.weight; do
        check "$name learns" test "$(frozen_array frozen.npz $name)" != "$(frozen_array begun.npz $name)"
    done
else
    skipped=$((skipped + 1))
fi

begin_case warnings
train rest "$files/net.onnx" $data --epochs 1 --stages auto:2 --gradient-accumulation 5
check "the last batch is named: $(cat rest.err)" grep -q 'warning: the last, smaller batch: gradient accumulation is 1, below the 3' rest.err

begin_case saved
train weights "$files/net.onnx" $data --epochs 2 --quiet --save weights.safetensors
train model "$files/net.onnx" $data --epochs 2 --quiet --save model.onnx
train again "$files/net.onnx" $data --epochs 0 --quiet --init weights.safetensors --save again.onnx
check "safetensors and ONNX have the same weights" cmp -s model.onnx again.onnx
train plain "$files/net.onnx" $data --epochs 0 --quiet --save plain.onnx
train longer plain.onnx $data --epochs 2 --quiet --save longer.onnx
check "a saved model trains like its original" cmp -s model.onnx longer.onnx
train none "$files/net.onnx" $data --epochs 1
check "without --save it says so" grep -q '^Nothing is saved; --save OUT.onnx keeps the trained weights$' none.out

begin_case read-once
# A file of --init is opened once, when the options are checked. Then comes a warning, and the program waits, because
# standard output is a full pipe. The file is removed before its weights are loaded.
for file in frozen.npz weights.safetensors; do
    cp $file once.$file
    rm -f waits
    mkfifo waits
    exec 3<>waits
    dd if=/dev/zero of=waits bs=4096 oflag=nonblock 2>/dev/null
    "$program" train "$files/net.onnx" $data --epochs 0 --ranks 1 --init once.$file --save once.out.npz >waits 2>once.err &
    process=$!
    for attempt in $(seq 600); do
        grep -q 'only describes ranks' once.err && break
        sleep 0.1
    done
    rm once.$file
    cat waits >/dev/null 3>&- &
    exec 3>&-
    wait $process
    check "the weights of $file are those that were checked: $(cat once.err)" test $? -eq 0
    wait
    "$program" train "$files/net.onnx" $data --epochs 0 --quiet --init $file --save twice.out.npz >/dev/null
    check "$file: the same weights" cmp -s once.out.npz twice.out.npz
done

begin_case schedule
train rate "$files/net.onnx" $data --steps 10 --quiet --rate-schedule linear:warmup=2 --learning-rate 0.01
check "rates: $(sed -n 's/.*"lr":\([^,]*\),.*/\1/p' rate.jsonl | tr '\n' ' ')" test \
    "$(sed -n 's/.*"lr":\([^,]*\),.*/\1/p' rate.jsonl | sed -n '1p;3p;10p' | tr '\n' ' ')" = '0.0 0.01 0.00125 '
train calls "$files/net.onnx" $data --epochs 2 --device-iterations 5 --quiet --save calls.onnx
train single "$files/net.onnx" $data --epochs 2 --quiet --save single.onnx
check "updates of a call are those of calls" cmp -s calls.onnx single.onnx
check "their lines too" sh -c 'test "$(wc -l <calls.jsonl)" -eq 12'

# The rate is halved after each validation without enough improvement, even across a checkpoint that was saved between
# an epoch and its validation.
begin_case plateau
plateau="--rate-schedule plateau:patience=0,factor=0.5,threshold=0.5 --learning-rate 0.01 --checkpoint"
train whole "$files/net.onnx" $data $validation $plateau whole-state --epochs 6 --save whole.onnx
awk -F '[,:}]' '/"validation"/ { if (best == "" || $7 < best / 2) best = $7; else rate /= 2; next }
    BEGIN { rate = 0.01; best = "" } { printf "%g\n", rate }' whole.jsonl >plateau.wanted
sed -n 's/.*"lr":\([^,]*\),.*/\1/p' whole.jsonl >plateau.found
check "rates: $(uniq plateau.found | tr '\n' ' ')" cmp -s plateau.found plateau.wanted
check "they fall more than once" test "$(uniq plateau.found | wc -l)" -gt 2
check "it says so: $(grep 'Learning rate' whole.out | tr '\n' ' ')" grep -q '^Learning rate: 0\.005$' whole.out
train first "$files/net.onnx" $data $validation $plateau part-state --epochs 3 --quiet
train second "$files/net.onnx" $data $validation $plateau part-state --epochs 6 --quiet --resume --save resumed.onnx
check "resumed: $(sed -n 's/.*"lr":\([^,]*\),.*/\1/p' second.jsonl | uniq | tr '\n' ' ')" cmp -s resumed.onnx whole.onnx
check "with its rates" test "$(sed -n 's/.*"lr":\([^,]*\),.*/\1/p' second.jsonl)" = "$(tail -n 18 plateau.found)"

begin_case plan
"$program" plan train "$files/net.onnx" --stages auto:2 --batch-size 8 >plan.out 2>plan.err
check "without data: $(cat plan.err)" grep -q '^2 stages on 2 devices, 1 replica; 1 micro-batches of 8 samples an update' plan.out
for part in Stages Memory Timetable; do
    check "$part" grep -q -x "$part" plan.out
done
check "the block of the loss" grep -q '^block loss: stage 1, device 1$' plan.out
"$program" plan train "$files/net.onnx" $data --stages auto:2 2>/dev/null | sed 's/compiled in.*//; /^the process takes /d' >data.out
sed 's/compiled in.*//; /^the process takes /d' plan.out >plain.out
check "with data it is the same" cmp -s data.out plain.out
"$program" train "$files/net.onnx" $data --stages auto:2 --compile-only >only.out 2>only.err
check "--compile-only: $(cat only.err)" grep -q '^2 stages on 2 devices' only.out

begin_case signals
"$program" train "$files/net.onnx" $data --epochs 1000000 --save stopped.onnx --checkpoint stopped --log stopped.jsonl --quiet >stopped.out 2>stopped.err &
process=$!
for attempt in $(seq 600); do
    grep -q '"step":9,' stopped.jsonl 2>/dev/null && break # all plans are made
    sleep 0.1
done
kill -INT $process
wait $process
check "it ends with the signal" test $? -eq 130
check "it says so: $(cat stopped.err)" grep -q \
    '^brigade train: stopped by signal 2; the weights so far are saved; --resume continues from here$' stopped.err
check "weights and state are there" test -s stopped.onnx -a "$(ls stopped | wc -l)" -ge 1

begin_case profile
train profile "$files/net.onnx" $data --epochs 1 --profile --profile-dir profile --stages auto:2
check "the trace" grep -q '"traceEvents"' profile/trace.json
check "the summary" test -s profile/summary.txt
check "on the screen" grep -q '^Profile:' profile.out
finish
