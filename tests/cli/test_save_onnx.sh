#!/bin/sh
# `brigade mnist --save x.onnx` and `brigade gpt pretrain --save-weights x.onnx` write the trained model as an ONNX
# file. The program can inspect, run and train this model, with the same bits under every strategy.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/mnist.sh"

begin_case mnist
"$program" mnist $small --epochs 1 --save one.onnx >one.out 2>one.err
check "it is written: $(cat one.err)" grep -q '^Weights saved to one.onnx$' one.out
"$program" mnist $small --epochs 1 --save four.onnx --stages 'B1|B2|B3|B4' >four.out 2>&1
check "four stages write the same file" cmp -s one.onnx four.onnx
"$program" inspect one.onnx >inspected
check "the input's batch is open" grep -q 'images  *uint8\[batch,1,28,28\]' inspected
check "the output" grep -q 'logits  *float\[batch,10\]' inspected
"$program" infer one.onnx --input "images=data/t10k-images-idx3-ubyte.gz" --output logits=logits.npy --quiet 2>infer.err
check "it runs: $(cat infer.err)" test -s logits.npy
"$program" train one.onnx --input images=data/train-images-idx3-ubyte.gz --target data/train-labels-idx1-ubyte.gz --epochs 1 \
    --batch-size 20 --validation images=data/t10k-images-idx3-ubyte.gz,target=data/t10k-labels-idx1-ubyte.gz --save more.onnx >more.out 2>&1
check "it trains on: $(cat more.out)" test "$(sed -n 's/^Validation: .*Accuracy:\([0-9]*\)\..*/\1/p' more.out)" -ge $least
check "its blocks are the network's" sh -c '"$1" plan train one.onnx --batch-size 8 --stages "B1,B2|B3,B4,loss" 2>/dev/null | grep -q B3' sh "$program"

begin_case gpt
plain="--set tensor_parallel_1=1 tensor_parallel_2=1 precision=float32"
"$program" gpt pretrain $plain --steps 2 --save run --save-weights gpt.onnx >gpt.out 2>gpt.err
check "it is written: $(cat gpt.err)" test -s gpt.onnx
"$program" inspect gpt.onnx >inspected
check "the input's batch is open" grep -q 'tokens  *int32\[batch,' inspected
check "a name of Hugging Face's" grep -q transformer.wte.weight gpt.onnx
check "layers are blocks" sh -c '"$1" inspect gpt.onnx | grep -q "blocks to cut stages from"' sh "$program"
python=python3
[ -x /usr/bin/python3 ] && python=/usr/bin/python3
for file in one gpt; do
    if "$python" -c 'import onnx' 2>/dev/null; then
        "$python" -c 'import onnx, sys; onnx.checker.check_model(onnx.load(sys.argv[1]), full_check=True)' $file.onnx >checked 2>&1
        check "$file.onnx keeps the format's rules: $(cat checked)" test $? -eq 0
    else
        skipped=$((skipped + 1))
    fi
done

finish
