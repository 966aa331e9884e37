#!/bin/sh
# One allocation fails, anywhere in the process, even in libraries. The program either writes its complete output or
# reports the error. Existing files are unchanged, byte for byte, or completely replaced.
. "$(dirname "$0")/support.sh"

preload=$build/tests/preload/allocations.so
# Each of the first allocations fails in turn; after that the number grows by a tenth each time.
every=12 tenths=13
[ -n "${BRIGADE_TEST_QUICK:-}" ] && every=4 tenths=20
[ -n "${BRIGADE_TEST_ALL:-}" ] && every=100000
cd "$folder" || exit 1

if [ ! -f "$preload" ]; then
    echo "skipped: sanitizers have allocators of their own"
    skipped=$((skipped + 1))
    finish
fi

# right_files FOLDER CODE: checks the files of a run that ended with CODE. Each must equal that of `old` (before the
# run) or of `new` (after it), except files that the run reported it could not remove. Logs contain times, so only their
# lines are checked for completeness.
right_files() {
    for file in $(cd "$1" && find . -type f); do
        case $file in
        *log)
            [ -z "$(tail -c 1 "$1/$file")" ] && ! grep -q -v '^{.*}$' "$1/$file" || { echo "$file has half a line"; return 1; } ;;
        *)
            cmp -s "$1/$file" "new/$file" || { [ "$2" -ne 0 ] && cmp -s "$1/$file" "old/$file"; } ||
                grep -q "cannot remove ${file##*/} in" err ||
                { echo "$file is neither the old one nor the new one"; return 1; } ;;
        esac
    done
    for file in $(cd new && find . -type f); do
        [ -f "$1/$file" ] || [ "$2" -ne 0 ] || { echo "$file is not there"; return 1; }
    done
    for file in $(cd old && find . -type f); do
        [ -f "$1/$file" ] && continue
        # Only a checkpoint may be removed, and only if the next one exists.
        case $file in
        */checkpoint_*) [ -f "$1/$(cd new && find . -name 'checkpoint_*')" ] && continue ;;
        esac
        echo "$file is gone"
        return 1
    done
}

# said_why CODE: checks that the run printed nothing, or one line about lack of memory, perhaps after a warning about
# it.
said_why() {
    ! grep -q -F '(null)' err || return 1
    [ "$1" -eq 0 ] && return 0
    [ "$1" -le 2 ] && [ "$(wc -l <err)" -le 2 ] &&
        tail -n 1 err | grep -q -E '^brigade [a-z]+: .*(out of memory|failed to start thread|cannot start worker)'
}

# fails_anywhere LEAST ARGUMENT...: runs the program repeatedly in a copy of `old`; at least LEAST of the runs must end
# with an error.
fails_anywhere() {
    least=$1 n=1 errors=0
    shift
    rm -rf new && cp -r old new
    (cd new && LD_PRELOAD=$preload BRIGADE_TEST_COUNT=$folder/count "$program" "$@") >out 2>err ||
        { fail "$*:" "$(cat err)"; return; }
    total=$(cat count)
    [ "${total:-0}" -gt 0 ] || { fail "$preload counts nothing"; return; }
    while [ "$n" -le "$total" ]; do
        rm -rf now && cp -r old now
        (cd now && LD_PRELOAD=$preload BRIGADE_TEST_FAIL=$n exec "$program" "$@") >out 2>err
        code=$?
        [ $code -eq 0 ] || errors=$((errors + 1))
        if ! said_why $code; then
            fail "allocation $n of $total: ends with $code and says:" "$(cat err)"
        elif ! wrong=$(right_files now $code); then
            fail "allocation $n of $total: ends with $code, and $wrong:" "$(cat err)"
        else
            pass
        fi
        n=$((n < every ? n + 1 : n * tenths / 10 + 1))
    done
    check "allocations that are missed: $errors" test $errors -ge "$least"
}

begin_case tokens
printf 'one two three\n\nfour\n' >text
mkdir old
"$program" data tokenize text --output old/t.tfrecord --length 2
printf 'five six seven\n\neight\n' >text
fails_anywhere 5 data tokenize ../text --output t.tfrecord --length 3
rm -rf old

begin_case configurations
for file in c.json c.yaml; do
    mkdir old
    "$program" config update --config mnist --update seed=1 --out old/$file
    fails_anywhere 8 config update --config $file --update 'seed=2,layers_per_ipu=[1 1 2 3]' --out $file
    rm -rf old
done

begin_case training
# ---- resumed training: a checkpoint replaces another one ----

make_digits 100 20
mkdir old
digits="--data-dir $folder/data --batch-size 1 --gradient-accumulation 7 --test-batch-size 1 --quiet --checkpoint kept --log log --save w.safetensors"
(cd old && "$program" mnist $digits --steps 2) >/dev/null || fail "a checkpoint to begin with"
fails_anywhere 10 mnist $digits --resume --steps 4
rm -rf old

begin_case models
mkdir old
gpt="gpt pretrain --config tiny --set stochastic_rounding=false --quiet --save kept --log log --save-hf hf --overwrite-hf"
(cd old && "$program" $gpt --steps 2) >/dev/null || fail "a checkpoint to begin with"
fails_anywhere 10 $gpt --load kept --steps 4
rm -rf old

begin_case files
mkdir old
oracle=$root/tests/oracle/train
net="$oracle/net.onnx --cores 1"
fails_anywhere 20 train $net --input "x=$oracle/images.npy" --target "$oracle/labels.npy" --normalize auto --quiet \
    --validation "x=$oracle/test.npz:images,target=$oracle/test.npz:labels" --batch-size 8 --strategy sharded --stages auto:2 \
    --save out.onnx --log train.log
fails_anywhere 20 train "$oracle/table.onnx" --input "x=$oracle/table.csv:0,1,2" --target "$oracle/table.csv:price" \
    --cores 1 --quiet --save out.npz
"$program" train $net --input "x=$oracle/images.npy" --target "$oracle/labels.npy" --normalize 0.4,0.3 --quiet --save old/net.onnx \
    >out 2>err || fail "a model that names its normalization:" "$(cat err)"
fails_anywhere 20 infer net.onnx --cores 1 --input "x=$oracle/data.safetensors:images" --output logits=out.npy --quiet
fails_anywhere 20 inspect "$oracle/net.onnx"
finish
