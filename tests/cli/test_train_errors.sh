#!/bin/sh
# `brigade train`: errors in options, files and shapes are reported in one line, before anything is trained.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/train.sh"
net=$files/net.onnx
x=x=$files/images.npy
y=$files/labels.npy

begin_case model
error 2 'no model is given: brigade train MODEL.onnx --input x=FILE --target FILE' train
error 1 'none.onnx: cannot open: No such file or directory' train none.onnx --input $x
error 1 "$files/images.npy" train "$files/images.npy" --input $x
error 2 'unexpected argument `b.onnx`' train a.onnx b.onnx
error 2 'no data are given; give --input NAME=FILE for each input of the model, and --target FILE' train "$net"
error 2 '--output scores: the model has no such output; its outputs are `logits`' train "$net" --input $x --target "$y" --output scores
error 2 '--size is `batch`; it must be NAME=N' train "$net" --size batch
error 2 '--size is `batch=0`; it must be NAME=N' train "$net" --size batch=0
error 2 '`sequence` is not a symbolic dimension' train "$net" --size sequence=3
error 2 '--freeze names all parameters' train "$net" --input $x --target "$y" --freeze '*'
error 2 '--freeze: the pattern "noone.*" matches no float initializer; the first of them is `' train "$net" --input $x --target "$y" --freeze 'noone.*'
error 2 '--unfreeze: the pattern "zzz*" matches no float initializer' train "$net" --input $x --target "$y" --unfreeze 'zzz*'
error 2 '--batch-size 4: input `x` of' train "$files/net_fixed.onnx" --input $x --target "$y" --batch-size 4
error 2 '--last-batch smaller: ' train "$files/net_fixed.onnx" --input $x --target "$y" --last-batch smaller

begin_case data
error 2 '--input is `z=a.npy`; it must be NAME=FILE with an input of the model: `x`' train "$net" --input z=a.npy
error 2 '--input is `x=`; it must be NAME=FILE' train "$net" --input x=
error 1 '--input: none.npy: cannot open: No such file or directory' train "$net" --input x=none.npy --target "$y"
error 2 '--input has input `x` twice' train "$net" --input $x $x --target "$y"
error 2 '--input: there are no data for `labels`; give NAME=FILE for each input' train "$files/inside.onnx" --input "x=$files/inside.npz:rows"
error 1 'there is no array `pixels`; the file has `images`, `labels`' train "$net" --input "x=$files/test.npz:pixels" --target "$y"
error 2 'the name of the array is missing; add one after a colon (the file has `images`, `labels`)' train "$net" --input "x=$files/test.npz" --target "$y"
error 1 'there is no tensor `pixels`; the file has `images`, `labels`' train "$net" --input "x=$files/data.safetensors:pixels" --target "$y"
error 1 'there is no column `garden`' train "$files/table.onnx" --input "x=$files/table.csv:garden" --target "$files/table.csv:price"
error 2 'a .npy file has no named parts; leave `:a` out' train "$net" --input "$x:a" --target "$y"
error 1 'a folder of images has no part of that name' train "$net" --input "x=$files/photos:names" --target "$y"
error 1 'read as an IDX file, because the name does not end in' train "$net" --input "x=$root/README.md" --target "$y"
error 1 'samples, but the target has 13; both need the same number of samples' train "$net" --input $x --target "$files/test.npz:labels"
error 1 'a sample is float32[3], but the model needs float32[1,8,8]' train "$net" --input "x=$files/table.csv:0,1,2" --target "$y"
printf 'area,rooms,age,price\n1,2,3,4\n1,NA,3,4\n1,2,3,\n5,6,7,8\n' >gaps.csv
error 1 '--input: gaps.csv:3: column `rooms`: `NA` is a missing value, but every row needs a number here; fill the gaps, or leave such rows out: --skip-incomplete' \
    train "$files/table.onnx" --input x=gaps.csv:area,rooms,age --target gaps.csv:price
error 2 'gaps.csv and '"$files"'/table.csv are different files, whose rows cannot be left out together' train "$files/table.onnx" \
    --input x=gaps.csv:0,1,2 --target "$files/table.csv:price" --skip-incomplete
error 2 '--input or --target with --skip-incomplete: '"$files"'/images.npy: rows with missing values can be left out only of a CSV file' train "$net" \
    --input $x --target "$y" --skip-incomplete
error 2 '--validation is `x=a.npy;target=b.npy`; separate the files by a comma: x=FILE,target=FILE' train "$net" --input $x \
    --target "$y" --validation 'x=a.npy;target=b.npy'
head -c 500 "$files/images.npy" >cut.npy
error 1 'cut.npy' train "$net" --input x=cut.npy --target "$y"

begin_case target
error 2 'no --target is given; give --target FILE' train "$net" --input $x
error 2 '--input: there is no target for --loss mse; give --target FILE' train "$net" --input $x --loss mse
error 2 'table.csv is a table, but the first argument must be the model' train table.csv --target y.npy
error 2 'repeat --input for each input' train "$net" --input $x,${x%%=*}=other.npy
error 2 'This is a schedule: --strategy pipelined --schedule gpipe' train "$net" --strategy gpipe
error 2 '--target is given without --input' train "$net" --target "$y"
error 2 '--validation is given without --input' train "$net" --validation $x
error 2 '--validation: there is no target for --loss cross-entropy; add target=FILE' train "$net" --input $x --target "$y" --validation $x
error 2 '--target is given, but the loss is inside the model' train "$files/inside.onnx" --input "x=$files/inside.npz:rows" \
    "labels=$files/inside.npz:labels" --target "$y" --loss loss
error 2 '--loss is `hinge`; it must be cross-entropy, nll, mse, l1, smooth-l1, huber, bce, bce-logits, or the name of an output' \
    train "$net" --input $x --target "$y" --loss hinge
error 2 '--loss logits: that output is float32[32,4], but a loss is one float for a micro-batch' train "$net" --input $x --loss logits
error 1 '--target: the label of a sample is uint8[8,8], but the output has the shape float32[32,4]' train "$net" --input $x \
    --target "$files/images.npy"
error 2 '--metric mae does not fit --loss cross-entropy, whose targets are labels of classes: use accuracy, top5, f1 or perplexity' train "$net" --input $x \
    --target "$y" --metric mae
error 2 '--metric accuracy does not fit --loss mse, whose targets are numbers: use mae or mse' train "$files/table.onnx" \
    --input "x=$files/table.csv:0,1,2" --target "$files/table.csv:price" --metric accuracy
error 2 '--metric perplexity does not fit --loss bce-logits, whose targets are yes and no: use accuracy, f1, mae or mse' train \
    "$files/table.onnx" --input "x=$files/table.csv:0,1,2" --target "$files/table.csv:sold" --loss bce-logits --metric perplexity
error 2 '--metric f1-binary needs two classes, but the output has 4; use f1' train "$net" --input $x --target "$y" --metric f1-binary
error 2 '--metric top5: the output has only 4 classes' train "$net" --input $x --target "$y" --metric top5
awk 'BEGIN { print "label"; for (i = 0; i < 45; i++) print i == 7 ? 4 : i % 4 }' >labels.csv
error 1 'sample 7: label 4: the output has the classes 0 to 3 (and -100 is ignored)' train "$net" --input $x \
    --target labels.csv --loss cross-entropy --no-shuffle --quiet
awk 'BEGIN { print "label"; for (i = 0; i < 45; i++) print i == 9 ? 1.5 : i % 4 }' >labels.csv
error 1 'sample 9: element 0 of tensor 0 is 1.5, which does not fit int32; it must be a whole number from -2147483648 to 2147483647' train "$net" --input $x \
    --target labels.csv --loss cross-entropy --no-shuffle --quiet

awk 'BEGIN { print "sold"; for (i = 0; i < 45; i++) print i % 2 }' >sides.csv
error 2 '--loss cross-entropy: the output `y` has one class, so the loss is always zero; give --loss bce-logits' train \
    "$files/table.onnx" --input "x=$files/table.csv:area,rooms,age" --target sides.csv --loss cross-entropy

begin_case options
good="$net --input $x --target $y"
error 2 '--normalize is `0.5`; it must be MEAN,DEVIATION' train $good --normalize 0.5
error 2 '--normalize is `0.5,x`; it must be MEAN,DEVIATION' train $good --normalize 0.5,x
error 2 'the mean is 0.5 and the deviation is 0 for channel 0' train $good --normalize 0.5,0
error 2 '2 channels are given for samples of uint8[8,8]; give 1, or one for each element of their first dimension' train $good --normalize 1,2,3,4
error 2 '--precision bf16-true: a model from a file keeps its weights in the file' train $good --precision bf16-true
error 2 '--limit-train-batches is `2x`; it must be a number of batches, such as 10, or a share of them with a decimal point' \
    train $good --limit-train-batches 2x
error 2 '--limit-train-batches is `1.5`; it must be' train $good --limit-train-batches 1.5
error 2 '--limit-train-batches is 0.0, which trains nothing; it must be above 0' train $good --limit-train-batches 0.0
error 2 '--limit-val-batches is `-1`; it must be' train $good --limit-val-batches -1
error 2 '--save out.pt: the name must end in .onnx' train $good --save out.pt
error 2 '--resume is given without a folder; add --checkpoint DIR' train $good --resume
error 2 '--optimizer adamx' train $good --optimizer adamx
error 2 'rmsprop, lamb, adagrad, adadelta; did you mean `adam`?' train $good --optimizer adma
error 2 'unknown option --lr; did you mean --learning-rate?' train $good --lr 0.1
error 2 'unknown option --limit-test-batches; did you mean --limit-val-batches?' train $good --limit-test-batches 0
error 2 'unknown option --limit-val-batches; did you mean --limit-test-batches?' mnist --limit-val-batches 0
error 2 'unknown option --weights; did you mean --init?' train $good --weights w.npz
error 2 'unknown option --bs; did you mean --batch-size?' train $good --bs 8
error 1 '--init: none.npz: cannot open' train "$net" --input x=none.npy --target "$y" --init none.npz
error 1 '"2" names a block; for 2 stages write auto:2: ' train $good --stages 2
check "nothing has begun: $(cat out)" sh -c '! grep -q Training out'
error 2 '--rate-schedule cosines' train $good --rate-schedule cosines
error 2 '--rate-schedule plateau: a plateau needs the losses of validations, but there is no validation; give --validation, or use another rule' \
    train $good --rate-schedule plateau
error 2 '--stages auto:2 is given with --strategy single' train $good --strategy single --stages auto:2
error 2 '--metric is `f2`; it must be one of accuracy|top5|f1|f1-micro|f1-weighted|f1-binary|precision|recall|perplexity|mae|mse|none' \
    train $good --metric f2
error 2 'a training call takes --batch-size 32 x --device-iterations 1 x --gradient-accumulation 2 x --replicas 1 = 64 samples, but there are 45' \
    train $good --last-batch drop --gradient-accumulation 2
error 1 '--save: ' train $good --save nowhere/out.onnx
error 2 '--save and --log name the same file' train $good --save out.onnx --log out.onnx
cp "$net" own.onnx
error 2 'name the same file' train own.onnx --input $x --target "$y" --log own.onnx
check "no training has begun" test ! -e out.onnx

begin_case diverged
"$program" train $good --optimizer sgd --learning-rate 1e30 --epochs 2 --quiet --save diverged.onnx >diverged.out 2>diverged.err
check "it fails" test $? -eq 1
check "it says why: $(cat diverged.err)" grep -q 'the loss became .* at update [0-9]*: lower --learning-rate' diverged.err
awk 'BEGIN { for (i = 0; i < 45; i++) print i == 7 ? 3e38 : 1 }' >large.csv
"$program" train "$files/table.onnx" --input "x=$files/table.csv:area,rooms,age" --target large.csv --batch-size 45 --quiet >large.out 2>large.err
check "of data, before anything was learned: $(cat large.err)" grep -q \
    'at update 1: no weight had changed yet; look for values that are not finite, or too large, in the data' large.err

begin_case help
"$program" train --help all >help.out
check "the command" grep -q '^Usage: brigade train MODEL.onnx \[OPTION\]\.\.\.$' help.out
check "its width" awk 'length > 80 { exit 1 }' help.out
for option in input target loss validation normalize freeze save checkpoint stages replicas recompute offload shard; do
    check "--$option" grep -q -e "^  --$option" help.out
done
"$program" plan train --help >help.out
check "its plan" grep -q '^Usage: brigade plan train MODEL.onnx \[OPTION\]\.\.\.$' help.out
error 2 'no model is given: brigade train MODEL.onnx' plan train
finish
