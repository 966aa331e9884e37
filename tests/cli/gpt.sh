# gpt.sh: code that the script tests of `brigade gpt` share. Source it after support.sh. It enters $folder.

cd "$folder" || exit 1
# Runs are slow under a sanitizer. There, tests leave out runs that differ from other runs only in their numbers.
quick=${BRIGADE_TEST_QUICK:-}
one='--set tensor_parallel_1=1 tensor_parallel_2=1 stochastic_rounding=false'
plain="$one precision=float32 maximum=0.003 warmup_proportion=0"
small="$plain --steps 6"

# train NAME ARGUMENT...: trains with checkpoints in NAME, weights in NAME.safetensors, the log in NAME.jsonl.
train() {
    name=$1
    shift
    if "$program" gpt pretrain $small --save "$name" --save-weights "$name.safetensors" --log "$name.jsonl" "$@" \
        >"$name.out" 2>"$name.err"; then
        pass
    else
        fail "$*:" "$(cat "$name.err")"
    fi
}

# values NAME KEY: the log's values of a key.
values() {
    sed -n "s/.*\"$2\":\([^,}]*\).*/\1/p" "$1.jsonl"
}

# same NAME NAME: checks that weights, losses, norms and checkpoints are bit-identical.
same() {
    check "$1 and $2 have the same weights" cmp -s "$1.safetensors" "$2.safetensors"
    check "$1 and $2 have the same checkpoints" cmp -s "$1/checkpoint_train_step_6.safetensors" \
        "$2/checkpoint_train_step_6.safetensors"
    for key in loss grad_norm lr; do
        check "$1 and $2 log the same $key" test "$(values "$1" $key)" = "$(values "$2" $key)"
    done
}

# same_losses NAME NAME: checks that weights and losses are the same.
same_losses() {
    check "$1 and $2 have the same weights" cmp -s "$1.safetensors" "$2.safetensors"
    check "$1 and $2 log the same loss" test "$(values "$1" loss)" = "$(values "$2" loss)"
}

# consistent FILE SAMPLES: checks that SAMPLES / throughput is the duration in each line, up to the rounding of both.
consistent() {
    sed -n 's/.*Duration: \([0-9.]*\) s Throughput: *\([0-9.]*\) samples.*/\1 \2/p' "$1" | awk -v samples="$2" '
        { lines++; slack = 0.00006 + 0.0001 * $1
          if (samples / ($2 + 0.06) > $1 + slack || $2 > 0.06 && samples / ($2 - 0.06) < $1 - slack) wrong++ }
        END { exit lines == 0 || wrong > 0 }'
}

# count_tokens: makes a file of 97 16-bit tokens 0, 1, 2, ...; sample k of length 8 begins with 8 k.
count_tokens() {
    i=0
    while [ $i -lt 97 ]; do
        printf "$(printf '\\%03o\\000' $i)"
        i=$((i + 1))
    done
}
