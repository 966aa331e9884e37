#!/bin/sh
# `brigade train`: every data format, every loss compared with PyTorch (tests/oracle/train.py), losses inside the model,
# and the models of tests/oracle/onnx.py with their data.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/train.sh"
numbers="--no-shuffle --optimizer adamw:weight_decay=0.1 --learning-rate 0.01 --batch-size 8 --epochs 2 --quiet"
table=$files/table.csv

# as_recorded CASE: checks the losses in CASE.jsonl.
as_recorded() {
    losses "$1.jsonl" >"$1.losses"
    recorded "$1" losses >"$1.wanted"
    near "$1" "$1.losses" "$1.wanted"
}

begin_case losses
for loss in mse l1 smooth-l1 huber; do
    train $loss "$files/table.onnx" --input "x=$table:area,rooms,age" --target "$table:price" --loss $loss $numbers
    as_recorded $loss
done
train bce-logits "$files/table.onnx" --input "x=$table:0,1,2" --target "$table:sold" --loss bce-logits $numbers
as_recorded bce-logits
train bce "$files/share.onnx" --input "$table:0,1,2" --target "$table:4" --loss bce $numbers
as_recorded bce
for loss in bce bce-logits; do
    model=table
    [ $loss = bce ] && model=share
    train $loss "$files/$model.onnx" --input "x=$table:0,1,2" --target "$table:sold" --loss $loss $numbers --metric accuracy
    sed -n 's/.*"accuracy":\([^,]*\),.*/\1/p' $loss.jsonl >sides
    recorded $loss accuracy >sides.wanted
    near "shares of right answers, $loss" sides sides.wanted
done
train side "$files/table.onnx" --input "x=$table:0,1,2" --target "$table:sold" --loss bce-logits $numbers --metric f1-micro
sed -n 's/.*"f1-micro":\([^,]*\),.*/\1/p' side.jsonl | awk '{ print 100 * $1 }' >sides
recorded bce-logits accuracy >sides.wanted
near "scores of right answers" sides sides.wanted
train mse "$files/table.onnx" --input "x=$table:0,1,2" --target "$table:price" $numbers --metric mae
as_recorded mse
check "a metric of numbers: $(head -1 mse.jsonl)" grep -q '^{"step":1,"epoch":1,"loss":0.5179[0-9]*,"mae":0.6320[0-9]*,' mse.jsonl

# Losses have the model's element type, here float64.
begin_case types
train mse "$files/table64.onnx" --input "x=$table:0,1,2" --target "$table:price" $numbers --metric mae
as_recorded mse
check "a metric of doubles: $(head -1 mse.jsonl)" grep -q '^{"step":1,"epoch":1,"loss":0.5179[0-9]*,"mae":0.6320[0-9]*,' mse.jsonl
train half "$files/inside16.onnx" --no-shuffle --optimizer sgd --learning-rate 0.1 --batch-size 8 --epochs 2 --quiet \
    --input "x=$files/inside.npz:rows" "labels=$files/inside.npz:labels"
losses half.jsonl >half.found
recorded inside losses >half.wanted
check "a loss in 16 bits: $(paste half.found half.wanted | tr '\n' ';')" sh -c 'paste half.found half.wanted |
    awk "{ d = \$1 / \$2; if (d < 0.99 || d > 1.01) exit 1 } END { if (NR != 12) exit 1 }"'

begin_case inside
inside="$files/inside.onnx --no-shuffle --optimizer sgd --learning-rate 0.1 --batch-size 8 --epochs 2 --quiet"
train inside $inside --input "x=$files/inside.npz:rows" --input "labels=$files/inside.npz:labels" --loss loss --save inside.onnx
as_recorded inside
train found $inside --input "x=$files/inside.npz:rows" "labels=$files/inside.npz:labels" --save found.onnx
check "an output that is one number is the loss" cmp -s inside.onnx found.onnx

begin_case files
train npy "$files/net.onnx" $data --epochs 2 --quiet --save npy.onnx
same_as_npy() {
    check "$1" cmp -s npy.onnx "$2.onnx"
}
like="$files/net.onnx --normalize 0.4,0.3 --batch-size 8 --epochs 2 --quiet"
train idx $like --input "x=$files/images-idx3-ubyte.gz" --target "$files/labels-idx1-ubyte" --save idx.onnx
same_as_npy "IDX files" idx
train tensors $like --input "x=$files/data.safetensors:images" --target "$files/data.safetensors:labels" --save tensors.onnx
same_as_npy "safetensors" tensors
like="$files/net.onnx --normalize 0.4,0.3 --batch-size 3 --epochs 2 --quiet"
train npz $like --input "x=$files/photos.npz:images" --target "$files/photos.npz:labels" --save npy.onnx
train photos $like --input "x=$files/photos" --target "$files/photos:classes" --save photos.onnx
same_as_npy "a folder of images" photos
mkdir 'odd:name'
cp "$files/images.npy" 'odd:name/a:b.npy'
train colons "$files/net.onnx" --input 'x=odd:name/a:b.npy' --target "$files/labels.npy" --epochs 1 --quiet
check "colons of a name that is there" test "$(losses colons.jsonl | wc -l)" -eq 2

# Exported scikit-learn models have labels as outputs, and maps of classes, which become rows of numbers.
begin_case imitations
infer_scikit() { # MODEL OUTPUT TYPE NAME
    "$program" infer "$files/$1.onnx" --input "X=$files/table.csv:area,rooms,age" --output "$2=scikit.npy" --quiet
    tail -c +129 scikit.npy | od -An -v -t"$3" -w"${3#?}" | tr -d ' ' >scikit.found
    recorded "$1" "$4" >scikit.wanted
    near "$1 $2" scikit.found scikit.wanted
}
for model in scikit_perceptron scikit_linear; do
    infer_scikit $model output_label d8 label
    infer_scikit $model output_probability f4 probability
done
infer_scikit scikit_regressor y f4 y
error 2 'nothing is left to train: the model has no parameter' train "$files/scikit_linear.onnx" \
    --input "X=$files/table.csv:area,rooms,age" --target "$files/table.csv:price"

# Inputs of bools: zeros and ones of any type, and nothing else.
begin_case bools
npy() { # TYPE: prints the header of a .npy file of two rows
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '$1', 'fortran_order': False, 'shape': (2, 3), }"
}
int64() {
    for number in "$@"; do printf "\\00$number\\000\\000\\000\\000\\000\\000\\000"; done
}
{ npy '|b1'; printf '\001\000\001\000\001\001'; } >bools.npy
{ npy '|u1'; printf '\001\000\001\000\001\001'; } >bytes.npy
{ npy '<i8'; int64 1 0 1 0 1 1; } >integers.npy
printf 'a,b,c\n1,0,1\n0,1,1\n' >floats.csv
printf 'a,b,c\n2,3,4\n5,6,7\n' >rows.csv
for file in bools.npy bytes.npy integers.npy floats.csv; do
    "$program" infer "$files/masked.onnx" --input x=rows.csv --input keep=$file --output masked.csv >out 2>err || fail "$file: $(cat err)"
    check "$file: $(tr '\n' ';' <masked.csv)" test "$(tr '\n' ';' <masked.csv)" = '22,28;53,66;'
done
{ npy '|u1'; printf '\001\000\001\000\002\001'; } >bytes.npy
{ npy '<i8'; int64 1 0 1 0 1 7; } >integers.npy
printf 'a,b,c\n1,0,1\n0.5,1,1\n' >floats.csv
masked="$files/masked.onnx --input x=rows.csv"
error 1 '--input keep=bytes.npy: sample 1: element 1 is 2, but the input is bool; it must be 0 or 1' infer $masked \
    --input keep=bytes.npy --output never.npy
error 1 '--input keep=integers.npy: sample 1: element 2 is 7, but the input is bool; it must be 0 or 1' infer $masked \
    --input keep=integers.npy --output never.npy
error 1 '--input keep=floats.csv: sample 1: element 0 is 0.5, but the input is bool; it must be 0 or 1' infer $masked \
    --input keep=floats.csv --output never.npy
check "nothing is written" test ! -e never.npy
printf 'y,z\n1,2\n3,4\n' >targets.csv
train masked $masked --input keep=bools.npy --target targets.csv --quiet
error 1 '--input keep=bytes.npy: sample 1: element 1 is 2, but the input is bool; it must be 0 or 1' train $masked \
    --input keep=bytes.npy --target targets.csv --quiet
error 1 '--validation keep=bytes.npy: sample 1: element 1 is 2, but the input is bool' train $masked --input keep=bools.npy \
    --target targets.csv --validation x=rows.csv,keep=bytes.npy,target=targets.csv --quiet

begin_case incomplete
# Rows without a value in an input or in the target are left out of both, so the table trains as one without these rows.
sed -e '3s/^[^,]*/NA/' -e '7s/,[^,]*,\([^,]*\)$/,,\1/' "$table" >gaps.csv
sed -e '3d' -e '7d' "$table" >whole.csv
for name in gaps whole; do
    skip=
    [ $name = gaps ] && skip=--skip-incomplete
    train $name "$files/table.onnx" --input x=$name.csv:area,rooms,age --target $name.csv:price --no-shuffle $skip \
        --validation x=$name.csv:area,rooms,age,target=$name.csv:price --batch-size 8 --save $name.safetensors
done
check "the same weights" cmp -s gaps.safetensors whole.safetensors
check "the rows are counted: $(grep '^Data' gaps.out)" grep -q \
    '^Data: 43 samples (2 rows with missing values left out), 43 for validation (2 rows with missing values left out);' gaps.out


begin_case incomplete-inference
# Inference reads no target, so it leaves out only the row without a value in an input.
sed 3d "$table" >inputs.csv
for name in gaps inputs; do
    skip=
    [ $name = gaps ] && skip=--skip-incomplete
    "$program" infer "$files/table.onnx" --input x=$name.csv:area,rooms,age $skip --output $name.found.csv >$name.out 2>$name.err ||
        fail "infer $name: $(cat $name.err)"
done
check "the rows are counted: $(cat gaps.out)" grep -q '^Data: 44 samples (1 row with missing values left out)$' gaps.out
check "the same outputs" cmp -s gaps.found.csv inputs.found.csv
error 1 'leave such rows out: --skip-incomplete of `brigade train` and `infer`' infer "$files/table.onnx" \
    --input x=gaps.csv:area,rooms,age --output gaps.out.csv

begin_case fixed-batch
train fixed "$files/net_fixed.onnx" --input "x=$files/images.npy" --target "$files/labels.npy" --normalize 0.4,0.3 --epochs 3 \
    $like_pytorch $validation
losses fixed.jsonl >fixed.losses
recorded net losses | head -5 >fixed.wanted
head -5 fixed.losses >fixed.first
near "the file's batch" fixed.first fixed.wanted
check "the rest is dropped" test "$(wc -l <fixed.losses)" -eq 15
check "in validations too: $(cat fixed.err)" grep -q '"validation":' fixed.jsonl
train fixed "$files/net_fixed.onnx" --input "x=$files/images.npy" --target "$files/labels.npy" --normalize 0.4,0.3 \
    --gradient-accumulation 4 $validation
check "of which a call is one batch: $(cat fixed.err)" grep -q '"validation":' fixed.jsonl

# learn MODEL TARGET ARGUMENT...: compares the losses of 50 updates with tests/oracle/onnx.txt, for two optimizers.
begin_case models
onnx_data=$files/onnx.npz
learn() {
    model=$1 target=$2
    shift 2
    losses_of=$model
    case $model in *_eval) losses_of=${model%_eval} ;; esac
    for optimizer in sgd adamw; do
        case $optimizer in
        sgd) how='--optimizer sgd:momentum=0.9 --learning-rate 0.05' ;;
        adamw) how='--optimizer adamw:epsilon=1e-4 --learning-rate 0.003' ;;
        esac
        train learn "$root/tests/oracle/onnx/$model.onnx" "$@" --target "$onnx_data:$target" --batch-size 4 --epochs 5 \
            --no-shuffle --quiet $how
        losses learn.jsonl >learn.losses
        sed -n "s|^$losses_of/$optimizer loss \[50\] ||p" "$root/tests/oracle/onnx.txt" | tr ' ' '\n' >learn.wanted
        check "$model with $optimizer: $(paste learn.losses learn.wanted | tail -1)" sh -c '[ "$(wc -l <learn.losses)" -eq 50 ] &&
            paste learn.losses learn.wanted | awk "{ d = \$1 - \$2; if (d < 0) d = -d; if (d > 2e-4 * (1 + \$2)) exit 1 }"'
    done
}
for model in mlp mlp_eval shared; do learn $model classes --input "x=$onnx_data:rows6"; done
for model in convnet residual depthwise vit vit_eval; do learn $model classes --input "x=$onnx_data:images"; done
for model in sequences lstm gru; do learn $model classes --input "x=$onnx_data:signals"; done
learn encoder classes --input "x=$onnx_data:tokens"
learn decoder next --input "x=$onnx_data:tokens"
learn unet places --input "x=$onnx_data:images"
learn autoencoder rows6 --input "x=$onnx_data:rows6"
learn two_inputs classes --input "x=$onnx_data:rows6" --input "y=$onnx_data:rows3"
finish
