#!/bin/sh
# `brigade infer` prints a model's results, and `brigade inspect` its content.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/train.sh"
net=$files/net.onnx
x=x=$files/images.npy

# values FILE: prints the floats of a .npy file, one per line.
values() {
    tail -c +129 "$1" | od -An -v -tf4 -w4 | tr -d ' '
}

infer() {
    check "infer $*" sh -c '"$@" >infer.out 2>infer.err' - "$program" infer "$@"
}

begin_case batches
infer "$net" --input "$x" --normalize 0.4,0.3 --output logits=whole.npy --batch-size 45
check "what it says: $(cat infer.out)" grep -q '^whole.npy: float32\[45,4\]$' infer.out
for batch in 1 7 8 32 64; do
    infer "$net" --input "$x" --normalize 0.4,0.3 --output logits=some.npy --batch-size $batch
    values whole.npy >whole.txt
    values some.npy >some.txt
    near "batches of $batch" some.txt whole.txt
done
infer "$net" --input "$x" --normalize 0.4,0.3 --output a.npy --batch-size 8
infer "$net" --input "$x" --normalize 0.4,0.3 --output b.npy --batch-size 8 --stages auto:2 --device-iterations 2
check "the same bits in a pipeline" cmp -s a.npy b.npy
infer "$net" --input "$x" --normalize 0.4,0.3 --output b.npy --batch-size 8 --strategy phased --stages auto:2
check "and phased" cmp -s a.npy b.npy
infer "$net" --input "$x" --normalize 0.4,0.3 --output b.npy --batch-size 4 --replicas 2
values a.npy >whole.txt
values b.npy >some.txt
near "on replicas" some.txt whole.txt
infer "$files/net_fixed.onnx" --input "$x" --normalize 0.4,0.3 --output b.npy --quiet
check "a fixed batch with a rest" cmp -s a.npy b.npy
check "--quiet" test ! -s infer.out

infer "$net" --input "$x" --normalize 0.4,0.3 --output b.npy --batch-size 8 --precision bf16-mixed
values a.npy >whole.txt
values b.npy >some.txt
check "products of bfloat16: other bits, the same results within 3 digits" sh -c '! cmp -s a.npy b.npy && paste whole.txt some.txt | awk "
    { d = \$1 - \$2; if (d < 0) d = -d; s = \$1 < 0 ? -\$1 : \$1; if (d > 0.05 + 0.05 * s) exit 1 }"'
error 2 '--precision bf16-true: a model from a file keeps its weights in the file' infer "$net" --input "$x" --output b.npy --precision bf16-true

begin_case outputs
infer "$files/inside.onnx" --input "x=$files/inside.npz:rows" --input "labels=$files/inside.npz:labels" \
    --output logits=logits.npy --output loss=loss.npy --batch-size 9
check "of samples" grep -q '^logits.npy: float32\[45,4\]$' infer.out
check "of micro-batches" grep -q '^loss.npy: float32\[5\]$' infer.out
train saved "$net" $data --epochs 2 --quiet --save saved.safetensors
train saved "$net" $data --epochs 2 --quiet --save saved.onnx
infer "$net" --input "$x" --output a.npy --init saved.safetensors
infer saved.onnx --input "$x" --output b.npy --normalize none
check "weights of a file" cmp -s a.npy b.npy

begin_case table
infer "$net" --input "$x" --normalize 0.4,0.3 --output logits=logits.csv --batch-size 45
check "a line for each sample, with a number for each class" awk -F, 'NF != 4 { exit 1 } END { exit NR != 45 }' logits.csv
infer "$net" --input "$x" --normalize 0.4,0.3 --output whole.npy --batch-size 45
od -A n -t f4 -v -w4 -j 128 whole.npy | tr -d ' ' >numbers.npy
tr ',' '\n' <logits.csv >numbers.csv
near "the numbers" numbers.csv numbers.npy

begin_case mistakes
error 2 'no model is given; give the path of an ONNX file' infer
error 2 'no output is named; give --output NAME=FILE.npy for each output to write' infer "$net" --input "$x"
error 2 '--output is `scores=a.npy`; it must be NAME=FILE.npy or NAME=FILE.csv with an output of the model: `logits`' infer "$net" --input "$x" --output scores=a.npy
error 2 '--output names output `logits` twice' infer "$net" --input "$x" --output a.npy --output logits=b.npy
error 2 "--output logits=a.txt: the file's name must end in .npy or .csv" infer "$net" --input "$x" --output logits=a.txt
error 2 '--input: there are no data for `x`' infer "$net" --output a.npy
error 1 '--output: nowhere/a.npy' infer "$net" --input "$x" --output nowhere/a.npy
error 1 'a sample is float32[3], but the model needs float32[1,8,8]' infer "$net" --input "x=$files/table.csv:0,1,2" --output c.npy
check "nothing is left" test ! -e c.npy

begin_case inspect
"$program" inspect "$net" --batch-size 8 --stages 2 --nodes --weights >inspect.out 2>inspect.err
check "it ends with 0: $(cat inspect.err)" test $? -eq 0
for line in '^.*net.onnx: pytorch 1.13.0, opset 13, IR version [0-9]*$' '^  x  *float\[batch,1,8,8\]$' '^  logits  *float\[batch,4\]$' \
    '^Nodes: 25$' '^  Constant 5, Add 3, Mul 3, ' '^  trained  *732 in 8 tensors$' '^  conv.weight  *trained  *float32\[4,1,3,3\]$' \
    '^Forward: [0-9.]* Mflop a sample, [0-9.]* Mflop a micro-batch of 8; [0-9]* blocks to cut stages from$' \
    '^  /conv/Conv  *Conv  *block conv  *1 op  *[0-9.e-]* Mflop$' '^Memory to train it, in MB: loss cross-entropy, optimizer adamw, micro-batches of 8$'; do
    check "$line" grep -q "$line" inspect.out
done
for strategy in single sharded pipelined phased; do
    check "memory, $strategy" grep -q "^  $strategy  *[1-4]  *[0-9]*  *[0-9.]*  *[0-9.]*  *[0-9.]*$" inspect.out
done
# `brigade inspect` prints the same memory as `brigade plan`.
"$program" plan train "$net" --batch-size 8 >plan.out 2>&1
bytes=$(sed -n 's/^device 0 *[0-9]* *[0-9]* *[0-9]* *[0-9]* *[0-9]* *[0-9]* *\([0-9]*\) .*/\1/p' plan.out)
check "as the plan: $bytes" awk -v bytes="$bytes" '$1 == "single" { d = $4 * 1e6 - bytes; exit d > -501 && d < 501 ? 0 : 1 }' inspect.out
error 2 'no model is given; give the path of an ONNX file' inspect
error 2 '--optimizer none: optimizer: there is no `none`' inspect "$net" --optimizer none
error 1 'none.onnx: cannot open' inspect none.onnx
"$program" inspect "$files/refused.onnx" >inspect.out 2>inspect.err
check "a model that is not supported fails" test $? -eq 1
for line in '^Not supported: 2$' '^  /find (NonZero): ' '^  /odd (Unheard): its domain is "com.example"'; do
    check "$line" grep -q "$line" inspect.out
done
check "which the error does not repeat: $(cat inspect.err)" grep -q 'refused.onnx: 2 nodes are not supported; the list is above$' inspect.err
check "an input whose value matters: $(cat inspect.out)" grep -q '^  /find (NonZero): .*, but it is an input of the model; fix its value$' inspect.out
"$program" inspect "$files/quantized.onnx" >inspect.out 2>&1
check "a quantized one is for inference" grep -q '^Training: .*a quantized model cannot be trained' inspect.out

begin_case quantized
printf 'a,b,c,d,e\n0.1,0.2,0.3,0,1\n-0.1,5,20,1,0\n' >rows.csv
error 1 'node `/quantize` is a QuantizeLinear, and a quantized model cannot be trained' train "$files/quantized.onnx" \
    --input x=rows.csv:a,b,c --target rows.csv:d,e
infer "$files/quantized.onnx" --input x=rows.csv:a,b,c --output q.npy
check "it is run: $(values q.npy | tr '\n' ' ')" test "$(values q.npy | tr '\n' ' ')" = '2.2 2.8000002 78.4 96 '
finish
