#!/bin/sh
# `brigade train --normalize auto` measures means and deviations. A saved model names its normalization, which `brigade
# infer`, `brigade inspect` and a further training use. Names that are wrong are errors.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/train.sh"
table=$files/table.csv
columns="x=$table:area,rooms,age"
short="--batch-size 8 --no-shuffle"
onnx=$root/tests/oracle/onnx

# moments: reads lines "CHANNEL VALUE", and prints the means of channels 0, 1, ..., then their deviations.
moments() {
    awk '{ count[$1]++; sum[$1] += $2; channel[NR] = $1; value[NR] = $2 }
         END {
             for (i = 1; i <= NR; i++) { d = value[i] - sum[channel[i]] / count[channel[i]]; squares[channel[i]] += d * d }
             for (c = 0; c in count; c++) printf "%.17g\n", sum[c] / count[c]
             for (c = 0; c in count; c++) printf "%.17g\n", sqrt(squares[c] / count[c])
         }'
}

# list NAME INPUT: prints the list that the training NAME (or the inference of NAME.out) printed for an input.
list() {
    sed -n "s/^Normalization of .$2.: --normalize \([^ ]*\) (.*/\1/p" "$1.out"
}

# measured NAME INPUT: compares this list with NAME.wanted, up to the rounding of float32.
measured() {
    list "$1" "$2" | tr ',' '\n' >found
    check "$1, $2: $(paste found "$1.wanted" | tr '\n' ';')" sh -c '[ -s found ] && [ "$(wc -l <found)" -eq "$(wc -l <"$1")" ] &&
        paste found "$1" | awk "{ d = \$1 - \$2; if (d < 0) d = -d; s = \$2 < 0 ? -\$2 : \$2; if (d > 1e-9 + 1e-7 * s) exit 1 }"' - "$1.wanted"
}

# oracle_data NAME: prints the numbers of an array of tests/oracle/onnx.txt, one per line.
oracle_data() {
    sed -n "s/^data $1 [^ ]* //p" "$root/tests/oracle/onnx.txt" | tr ' ' '\n'
}

# npy TYPE SHAPE: prints the header of a .npy file.
npy() {
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '$1', 'fortran_order': False, 'shape': ($2), }"
}

# octal NUMBER: prints the byte.
octal() {
    printf "\\$(printf %03o "$1")"
}

# with_metadata MODEL KEY VALUE: prints the model with an entry of metadata (field 14). The texts are short.
with_metadata() {
    cat "$1"
    octal 114
    octal $((${#2} + ${#3} + 4))
    octal 10
    octal ${#2}
    printf %s "$2"
    octal 18
    octal ${#3}
    printf %s "$3"
}

begin_case columns
tail -n +2 "$table" | awk -F, '{ for (i = 0; i < 3; i++) print i, $(i + 1) }' | moments >auto.wanted
train auto "$files/table.onnx" --input "$columns" --target "$table:price" $short --epochs 2 --normalize auto --save auto.onnx
measured auto x
listed=$(list auto x)
check "over all samples: $(grep ^Normalization auto.out)" grep -q '^Normalization of `x`: --normalize [^ ]* (measured over 45 samples)$' auto.out
train given "$files/table.onnx" --input "$columns" --target "$table:price" $short --epochs 2 --normalize "$listed" --save given.onnx
check "the printed list is that of the training" cmp -s auto.onnx given.onnx
check "which is not repeated: $(cat given.out)" sh -c '! grep -q ^Normalization given.out'
train other "$files/table.onnx" --input "x=$table:age,rooms,area" --target "$table:price" $short --normalize auto
check "in the order of the columns: $(list other x)" test "$(list other x)" = "$(echo "$listed" | awk -F, '{ print $3","$2","$1","$6","$5","$4 }')"
train other "$files/table.onnx" --input "$columns" --target "$table:price" --normalize auto --quiet
check "--quiet: $(cat other.out)" sh -c '! grep -q -e Normalization -e normalization other.out'
sed -e '3s/^[^,]*/NA/' "$table" >gaps.csv
sed -e '3d' "$table" >whole.csv
train gaps "$files/table.onnx" --input x=gaps.csv:area,rooms,age --target gaps.csv:price --normalize auto --skip-incomplete
train whole "$files/table.onnx" --input x=whole.csv:area,rooms,age --target whole.csv:price --normalize auto
check "without the rows that are left out" test -n "$(list gaps x)" -a "$(list gaps x)" = "$(list whole x)"

begin_case channels
oracle_data images | awk '{ print int((NR - 1) / 64) % 2, $1 }' | moments >planes.wanted
train planes "$onnx/convnet.onnx" --input "x=$files/onnx.npz:images" --target "$files/onnx.npz:classes" --normalize auto
measured planes x
oracle_data signals | sed 's/^/0 /' | moments >signals.wanted
train signals "$onnx/lstm.onnx" --input "x=$files/onnx.npz:signals" --target "$files/onnx.npz:classes" --normalize auto
measured signals x
tail -c +129 "$files/images.npy" | od -An -v -tu1 -w1 | awk '{ print 0, $1 / 255 }' | moments >bytes.wanted
train bytes "$files/net.onnx" --input "x=$files/images.npy" --target "$files/labels.npy" --normalize auto
measured bytes x
{ npy '|u1' '22, 2, 8, 8'; tail -c +129 "$files/images.npy" | head -c 2816; } >pairs.npy
awk 'BEGIN { print "label"; for (i = 0; i < 22; i++) print i % 3 }' >labels.csv
tail -c +129 pairs.npy | od -An -v -tu1 -w1 | awk '{ print int((NR - 1) / 64) % 2, $1 / 255 }' | moments >pairs.wanted
train pairs "$onnx/convnet.onnx" --input x=pairs.npy --target labels.csv --loss cross-entropy --normalize auto
measured pairs x
# Dimensions of size 1 at the end do not count, and a first dimension of size 1 is one channel.
{ npy '|u1' '45, 8, 8, 1'; tail -c +129 "$files/images.npy"; } >last.npy
train last "$files/net.onnx" --input x=last.npy --target "$files/labels.npy" --normalize auto
check "[8,8,1]: $(list last x)" test "$(list last x)" = "$(list bytes x)"
{ npy '|u1' '45, 1, 8, 8'; tail -c +129 "$files/images.npy"; } >first.npy
train first "$files/net.onnx" --input x=first.npy --target "$files/labels.npy" --normalize auto
check "[1,8,8]: $(list first x)" test "$(list first x)" = "$(list bytes x)"
train photos "$files/net.onnx" --input "x=$files/photos" --target "$files/photos:classes" --normalize auto
train array "$files/net.onnx" --input "x=$files/photos.npz:images" --target "$files/photos.npz:labels" --normalize auto
check "a folder of images: $(list photos x)" test -n "$(list photos x)" -a "$(list photos x)" = "$(list array x)"

# Large means do not make small deviations wrong: 1000000000 and 1000000001 by turns.
begin_case large-means
{
    npy '<f8' '4, 3'
    for row in 1 2; do
        for column in 1 2 3; do printf '\000\000\000\000\145\315\315\101'; done
        for column in 1 2 3; do printf '\000\000\200\000\145\315\315\101'; done
    done
} >large.npy
printf 'y\n1\n2\n3\n4\n' >four.csv
train large "$files/table64.onnx" --input x=large.npy --target four.csv --normalize auto
check "deviations of a half: $(list large x)" test "$(list large x)" = 1e+09,1e+09,1e+09,0.5,0.5,0.5

begin_case validation
# The validation data have other means, but the numbers of the training data are used for them.
both="--input x=$files/images.npy --target $files/labels.npy $validation $short --epochs 2"
train auto "$files/net.onnx" $both --normalize auto
train given "$files/net.onnx" $both --normalize "$(list auto x)"
for name in auto given; do
    sed 's/,"samples_per_s":[^}]*//' $name.jsonl >$name.lines
done
check "there are validations" test "$(grep -c '"validation"' auto.lines)" -eq 2
check "the same losses" cmp -s auto.lines given.lines

begin_case inputs
oracle_data rows6 | awk '{ print (NR - 1) % 6, $1 }' | moments >both.wanted
two="$onnx/two_inputs.onnx --input x=$files/onnx.npz:rows6 --input y=$files/onnx.npz:rows3 --target $files/onnx.npz:classes"
train both $two --normalize auto --save both.onnx
measured both x
oracle_data rows3 | awk '{ print (NR - 1) % 3, $1 }' | moments >both.wanted
measured both y
check "a saved model: $(tail -n 1 both.out)" test "$(tail -n 1 both.out)" = \
    'The saved model names the normalization of its inputs, which `brigade infer` applies'
"$program" infer both.onnx --input "x=$files/onnx.npz:rows6" --input "y=$files/onnx.npz:rows3" --output both.npy >infer.out
for input in x y; do
    check "the model names it for $input" test "$(list infer $input)" = "$(list both $input)"
done
train weights $two --normalize auto --save both.npz
check "saved weights: $(tail -n 1 weights.out)" test "$(tail -n 1 weights.out)" = \
    'The saved weights expect normalized inputs; --save OUT.onnx writes a model that names their normalization'
train weights $two --normalize 0.5,2 --save both.npz
check "weights with one list: $(tail -n 1 weights.out)" test "$(tail -n 1 weights.out)" = \
    'The saved weights expect normalized inputs: give `brigade infer` --normalize 0.5,2'
train weights $two --save both.npz
check "weights without one: $(tail -n 1 weights.out)" test "$(tail -n 1 weights.out)" = 'Weights saved to both.npz'

begin_case saved-models
train auto "$files/table.onnx" --input "$columns" --target "$table:price" $short --epochs 2 --normalize auto --save auto.onnx
train weights "$files/table.onnx" --input "$columns" --target "$table:price" $short --epochs 2 --normalize auto --save auto.safetensors
listed=$(list auto x)
infer() { # OUTPUT MODEL ARGUMENT...
    infer_output=$1 infer_model=$2
    shift 2
    "$program" infer "$infer_model" --input "$columns" --output "$infer_output" "$@" >infer.out 2>infer.err ||
        fail "infer $infer_model $*: $(cat infer.err)"
}
infer named.npy auto.onnx
check "infer says so: $(cat infer.out)" test "$(head -n 1 infer.out)" = "Normalization of \`x\`: --normalize $listed (named by auto.onnx)"
infer quiet.npy auto.onnx --quiet
check "--quiet" test ! -s infer.out
check "and does so" cmp -s named.npy quiet.npy
infer given.npy auto.onnx --normalize "$listed"
check "a list says nothing: $(cat infer.out)" test "$(cat infer.out)" = 'given.npy: float32[45,1]'
check "the same list" cmp -s named.npy given.npy
infer bare.npy "$files/table.onnx" --init auto.safetensors --normalize "$listed"
check "the same as the weights with the list" cmp -s named.npy bare.npy
infer none.npy auto.onnx --normalize none
check "none says nothing" test "$(cat infer.out)" = 'none.npy: float32[45,1]'
infer bare.npy "$files/table.onnx" --init auto.safetensors
check "none switches it off" cmp -s none.npy bare.npy
check "which matters" sh -c '! cmp -s named.npy none.npy'
infer other.npy auto.onnx --normalize 0.5,2
infer bare.npy "$files/table.onnx" --init auto.safetensors --normalize 0.5,2
check "another list replaces the model's" cmp -s other.npy bare.npy
"$program" inspect auto.onnx >inspect.out 2>inspect.err
check "inspect: $(grep ^Normal inspect.out)" grep -q -x -F "Normalization of \`x\`: --normalize $listed (named by auto.onnx)" inspect.out
"$program" inspect "$files/table.onnx" >inspect.out 2>inspect.err
check "nothing for other models" sh -c '! grep -q Normalization inspect.out'

# A further training of a saved model normalizes as before.
begin_case further-training
further="--input $columns --target $table:price $short"
train more auto.onnx $further --save more.onnx
check "it says so: $(cat more.out)" grep -q -x -F "Normalization of \`x\`: --normalize $listed (named by auto.onnx)" more.out
train given auto.onnx $further --normalize "$listed" --save given.onnx
check "as with the list" cmp -s more.onnx given.onnx
"$program" inspect more.onnx >inspect.out 2>&1
check "its model names it too" grep -q -x -F "Normalization of \`x\`: --normalize $listed (named by more.onnx)" inspect.out
train none auto.onnx $further --normalize none --save none.onnx
check "none: $(cat none.out)" sh -c '! grep -q -i normalization none.out'
"$program" inspect none.onnx >inspect.out 2>&1
check "its model names none" sh -c '! grep -q Normalization inspect.out'
check "the weights are others" sh -c '! cmp -s none.onnx more.onnx'
train changed auto.onnx $further --normalize 0.5,2 --save changed.onnx
"$program" inspect changed.onnx >inspect.out 2>&1
check "another list: $(grep ^Norm inspect.out)" test "$(grep -c '^Normalization of .x.: --normalize 0.5,2 (' inspect.out)" -eq 1

begin_case resume
resumed="$files/table.onnx --target $table:price $short --checkpoint state"
train whole "$files/table.onnx" --input "$columns" --target "$table:price" $short --epochs 2 --normalize auto --save whole.onnx
train first $resumed --input "$columns" --normalize auto --epochs 1
cp -r state before
train second $resumed --input "$columns" --normalize auto --epochs 2 --resume --save second.onnx
check "the same numbers: $(list second x)" test -n "$(list second x)" -a "$(list first x)" = "$(list second x)"
check "the same model" cmp -s whole.onnx second.onnx
rm -rf state
cp -r before state
sed '2s/^[^,]*/7/' "$table" >changed.csv
error 1 "checkpoint_train_step_6.safetensors is from a training that normalizes \`x\` with $listed, but this run normalizes \`x\` with " \
    train $resumed --input x=changed.csv:area,rooms,age --normalize auto --epochs 2 --resume
error 1 'but this run normalizes nothing; give the same --normalize, and with --normalize auto the same data' \
    train $resumed --input "$columns" --epochs 2 --resume
train given $resumed --input "$columns" --normalize "$listed" --epochs 2 --resume
train bare "$files/table.onnx" --target "$table:price" $short --checkpoint bare --input "$columns" --epochs 1
error 1 'is from a training that normalizes nothing, but this run normalizes `x` with 0.5,2; give the same' \
    train "$files/table.onnx" --target "$table:price" $short --checkpoint bare --input "$columns" --epochs 2 --resume --normalize 0.5,2

begin_case mistakes
awk -F, -v OFS=, 'NR > 1 { $2 = 5 } { print }' "$table" >constant.csv
constant="$files/table.onnx --input x=constant.csv:area,rooms,age --target constant.csv:price --normalize"
error 2 '--input x: --normalize auto: the deviation of channel 1 is 0, because its value is 5 in all 45 samples; leave this channel out' \
    train $constant auto
advised=$(sed -n 's/.*another deviation: --normalize //p' err)
check "it advises a list: $advised" test "$(echo "$advised" | awk -F, '{ print NF, $2, $5 }')" = '6 5 1'
train advised $constant "$advised"
head -c 2880 /dev/zero >zeros
{ npy '|u1' '45, 8, 8'; cat zeros; } >zeros.npy
error 2 'the deviation of channel 0 is 0, because its value is 0 in all 45 samples' train "$files/net.onnx" --input x=zeros.npy \
    --target "$files/labels.npy" --normalize auto
{ npy '<f4' '2, 3'; printf '\000\000\200\077\000\000\200\077\000\000\200\077\000\000\000\000\000\000\300\177\000\000\000\000'; } >nan.npy
printf 'y\n1\n2\n' >two.csv
error 1 '--input x: --normalize auto: sample 1: element 1 is nan; it must be a finite number of float32' train "$files/table.onnx" \
    --input x=nan.npy --target two.csv --normalize auto
error 2 'decoder.onnx has no input of floats, and others are not normalized; leave it out' train "$onnx/decoder.onnx" \
    --input "x=$files/onnx.npz:tokens" --target "$files/onnx.npz:next" --normalize auto
error 2 '--normalize auto measures the data of a training; give `brigade infer` the list of the training.' infer auto.onnx \
    --input "$columns" --output never.npy --normalize auto
error 2 '--normalize is `atuo`; it must be MEAN,DEVIATION, or' infer auto.onnx --input "$columns" --output never.npy --normalize atuo
error 2 '--normalize is `atuo`; it must be MEAN,DEVIATION, or' train "$files/table.onnx" --input "$columns" --target "$table:price" \
    --normalize atuo
check "train names auto, and infer does not" sh -c 'grep -q "or auto, or none$" err && ! "$1" infer auto.onnx --normalize x 2>&1 | grep -q "or auto"' - "$program"
"$program" plan train $constant auto >plan.out 2>plan.err
check "a plan measures nothing: $(cat plan.err)" grep -q '^1 stage on 1 device' plan.out

begin_case hostile-metadata
key=brigade.normalize.x
# wrong VALUE REASON: the model with this value is refused, with its name, the key, the value and what would be right.
wrong() {
    with_metadata "$files/table.onnx" $key "$1" >hostile.onnx
    words="hostile.onnx: the metadata \`$key\` is \`$1\`, but $2"
    error 1 "$words" infer hostile.onnx --input "$columns" --output never.npy
    check "what would be right: $(cat err)" grep -q -F "; it must be the means of all channels and then their deviations, finite numbers, none of the deviations 0: correct the file, or give --normalize with a list or \`none\`" err
    error 1 "$words" train hostile.onnx --input "$columns" --target "$table:price"
    error 1 "$words" inspect hostile.onnx
}
for value in abc '' 0.4 0.4,0.3, 0.4,0.3x '0.4;0.3' ,1 1, 1,2,3; do
    wrong "$value" 'that is no list of numbers in pairs'
done
wrong nan,1 'the mean is nan and the deviation is 1 for channel 0'
wrong 1,0 'the mean is 1 and the deviation is 0 for channel 0'
wrong 1,2,3,1,-0,1 'the mean is 2 and the deviation is -0 for channel 1'
wrong 1,inf 'the mean is 1 and the deviation is inf for channel 0'
wrong 1e99,1 'the mean is inf and the deviation is 1 for channel 0'
wrong 1,1,1,1,1,1,1,1 "no dimension of the input's samples has the size 4"
check "nothing is written" test ! -e never.npy
infer none.npy hostile.onnx --normalize none
infer given.npy hostile.onnx --normalize 0.5,2
infer plain.npy "$files/table.onnx"
check "an option replaces it" cmp -s none.npy plain.npy
with_metadata "$files/inside.onnx" brigade.normalize.labels 1,2 >labels.onnx
error 1 'labels.onnx: the metadata `brigade.normalize.labels` is `1,2`, but only inputs of floats can be normalized' inspect labels.onnx
with_metadata "$files/net.onnx" $key 1,1,1,1,1,1,1,1,2,2,2,2,2,2,2,2 >rows.onnx
error 1 'but there are 8 channels in it and a sample is uint8[1,8,8]' infer rows.onnx --input x=first.npy --output never.npy
"$program" infer rows.onnx --input "x=$files/images.npy" --output rows.npy --quiet
check "for samples of eight rows it is right" test -s rows.npy
with_metadata "$files/table.onnx" brigade.normalize.z 1,0 >other.onnx
infer other.npy other.onnx
check "a key of no input does nothing" cmp -s other.npy plain.npy
with_metadata "$files/table.onnx" $key 0.5,2 >right.onnx
infer right.npy right.onnx
check "a right one is used" cmp -s right.npy given.npy
finish
