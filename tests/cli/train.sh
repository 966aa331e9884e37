# train.sh: code that the script tests of `brigade train` and `brigade infer` share. Source it after support.sh. $files
# has the models and data of tests/oracle/train.py; the script enters $folder.
files=$root/tests/oracle/train
oracle=$root/tests/oracle/train.txt
cd "$folder" || exit 1
data="--input x=$files/images.npy --target $files/labels.npy --normalize 0.4,0.3 --batch-size 8"
validation="--validation x=$files/test.npz:images,target=$files/test.npz:labels"
like_pytorch="--no-shuffle --optimizer sgd:momentum=0.9 --learning-rate 0.05"

# train NAME ARGUMENT...: trains into NAME.out, NAME.err and NAME.jsonl.
train() {
    name=$1
    shift
    rm -f "$name.jsonl"
    if "$program" train "$@" --log "$name.jsonl" >"$name.out" 2>"$name.err"; then
        pass
    else
        fail "$*:" "$(cat "$name.err")"
    fi
}

# losses FILE: prints the losses of a log's updates, one per line.
losses() {
    sed -n 's/^{"step":[0-9]*,"epoch":[0-9]*,"loss":\([^,]*\),.*/\1/p' "$1"
}

# recorded CASE NAME: prints PyTorch's numbers, one per line.
recorded() {
    sed -n "s/^$1 $2 //p" "$oracle" | tr ' ' '\n'
}

# near WHAT FILE FILE: checks that both have the same number of values, which differ only by float32 rounding over a
# short training.
near() {
    check "$1: $(paste "$2" "$3" | head -50 | tr '\n' ';')" sh -c '
        [ -s "$1" ] && [ "$(wc -l <"$1")" -eq "$(wc -l <"$2")" ] && paste "$1" "$2" | awk "
            { d = \$1 - \$2; if (d < 0) d = -d; s = \$2 < 0 ? -\$2 : \$2; if (d > 1e-5 + 5e-5 * s) exit 1 }"' - "$2" "$3"
}
