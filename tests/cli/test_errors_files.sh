#!/bin/sh
# Wrong files, closed descriptors and full disks give the right exit code and one helpful line, and leave no incomplete
# file.
. "$(dirname "$0")/support.sh"

make_digits
data="--data-dir $folder/data"
small="$data --batch-size 10 --device-iterations 2 --gradient-accumulation 8 --test-batch-size 5 --epochs 1"
cd "$folder" || exit 1

begin_case closed-descriptors
# If a standard stream is closed, the next file that is opened must not become this stream.
(
    cd "$folder" || exit 1
    "$program" mnist $small --save closed.safetensors --log closed.jsonl >&- 2>closed.err
)
check "a closed standard output is an error" test $? -eq 1
check "it is said" grep -q 'standard output: ' "$folder/closed.err"
check "the log has nothing but JSON" sh -c '! grep -q -v "^{" "$1" && test -s "$1"' sh "$folder/closed.jsonl"
(
    cd "$folder" || exit 1
    "$program" mnist $small --save all.safetensors --log all.jsonl <&- >&- 2>&-
)
check "all three closed" test $? -eq 1
check "the log is the same" sh -c 'test "$(wc -l <"$1")" -eq "$(wc -l <"$2")" && ! grep -q -v "^{" "$2"' sh \
    "$folder/closed.jsonl" "$folder/all.jsonl"
check "the weights are the same" cmp -s "$folder/closed.safetensors" "$folder/all.safetensors"

begin_case places
# ---- places that cannot be written ----

"$program" mnist $small --save "$folder/kept.safetensors" >/dev/null 2>&1
: >"$folder/file"
error 1 "$folder/file/w.safetensors" mnist $small --save "$folder/file/w.safetensors"
error 1 "--save: $folder/data: is a folder, not a file" mnist $small --save "$folder/data"
error 1 '--save: ' mnist $small --save /proc/no-such-folder/w.safetensors
error 1 "--log: $folder/file/log" mnist $small --log "$folder/file/log"
error 1 "--log: $folder/data" mnist $small --log "$folder/data"
error 1 '--profile-dir' mnist $small --profile --profile-dir "$folder/file/profile"
error 1 '--profile-dir' mnist $small --profile --profile-dir /proc/profile
error 1 '--log: ' mnist $small --log "$folder/none/log"

# Existing targets that are not files are refused and remain. The test makes a pipe and a device node, so that no real
# device is at risk.
mkfifo "$folder/pipe"
ln -s pipe "$folder/link-to-pipe"
error 1 "--save: $folder/pipe: is a pipe, not a file" mnist $small --save "$folder/pipe"
error 1 "--save: $folder/link-to-pipe: is a pipe, not a file" mnist $small --save "$folder/link-to-pipe"
error 1 "--init: $folder/pipe: is a pipe, not a file" mnist $small --init "$folder/pipe"
check "the pipe stays" test -p "$folder/pipe" -a -L "$folder/link-to-pipe"
if mknod "$folder/full" c 1 7 2>/dev/null; then
    error 1 "--save: $folder/full: is a device, not a file" mnist $small --save "$folder/full"
    error 1 "--init: $folder/full: is a device, not a file" mnist $small --init "$folder/full"
    check "the device stays" test -c "$folder/full"
else
    skipped=$((skipped + 3))
fi

# One file cannot have two purposes, even under different names.
ln -s kept.safetensors "$folder/link.safetensors"
mkdir "$folder/profile"
error 2 "--save and --log name the same file, new" mnist $small --save new --log ./new
error 2 "--init and --log name the same file, kept.safetensors" mnist $small --init kept.safetensors --log link.safetensors
error 2 "--save and --profile name the same file, profile/summary.txt" mnist $small --profile --profile-dir "$folder/profile" \
    --save profile/summary.txt
error 2 "--log and --profile name the same file, profile/trace.json" mnist $small --profile --profile-dir profile \
    --log profile/trace.json
"$program" mnist $small --steps 1 --init kept.safetensors --save link.safetensors >/dev/null 2>&1
check "weights may go back to where they came from" test $? -eq 0 -a -L link.safetensors

# Even for names with control characters the message is one line.
escape=$(printf '\033')
error 2 'is `\x1b[31m\n`; it must be' mnist --seed "$escape[31m
"
error 2 'unknown option --a\tb' mnist --a"$(printf '\t')"b
error 1 '--data-dir: ' mnist --data-dir "a
b"

begin_case weights
# ---- places of weights ----

error 1 '--init: ' mnist $small --init "$folder/none.safetensors"
printf 'no safetensors' >"$folder/bad.safetensors"
error 1 '--init: ' mnist $small --init "$folder/bad.safetensors"

begin_case data
# ---- missing or wrong data ----

error 1 '--data-dir' mnist --data-dir "$folder/none"

# damage NAME: makes a copy of the data, in $bad, for the test to damage.
damage() {
    bad="$folder/$1"
    cp -r "$folder/data" "$bad"
}

images=train-images-idx3-ubyte labels=train-labels-idx1-ubyte
damage truncated-gz
head -c 5000 "$folder/data/$images.gz" >"$bad/$images.gz"
error 1 "$bad/$images.gz" mnist $small --data-dir "$bad"
damage garbage
printf 'this is no IDX file at all' >"$bad/$images.gz"
error 1 "$bad/$images.gz" mnist $small --data-dir "$bad"
damage empty
: >"$bad/$labels.gz"
error 1 "$bad/$labels.gz" mnist $small --data-dir "$bad"
damage corrupt-gz
printf 'XXXXXXXXXXXXXXXX' | dd of="$bad/$images.gz" bs=1 seek=2000 conv=notrunc 2>/dev/null
error 1 "$bad/$images.gz" mnist $small --data-dir "$bad"
damage truncated-idx
gunzip "$bad/$images.gz"
head -c 100000 "$bad/$images" >"$bad/cut" && mv "$bad/cut" "$bad/$images"
error 1 "$bad/$images" mnist $small --data-dir "$bad"
damage too-long
gunzip "$bad/$labels.gz"
printf 'x' >>"$bad/$labels"
error 1 "$bad/$labels" mnist $small --data-dir "$bad"
damage label-out-of-range
gunzip "$bad/$labels.gz"
printf '\013' | dd of="$bad/$labels" bs=1 seek=108 conv=notrunc 2>/dev/null
error 1 'label 100 (byte 108) is 11 but must be 0 to 9' mnist $small --data-dir "$bad"
damage counts-differ
cp "$bad/t10k-labels-idx1-ubyte.gz" "$bad/$labels.gz"
error 1 '500 labels but' mnist $small --data-dir "$bad"

begin_case full-disks
# ---- full disks ----

# Only the previous files exist, and no incomplete or temporary file.
nothing_new() {
    [ -z "$(find "$folder/run" -type f)" ]
}

mkdir "$folder/run"
cd "$folder/run" || exit 1
if [ -c /dev/full ]; then
    error 1 '/dev/full' mnist $small --save "$folder/kept.safetensors" --log /dev/full
    "$program" --version >/dev/full 2>"$folder/err"
    check "a full standard output is a failure" test $? -eq 1
    check "a full standard output is said" grep -q 'standard output' "$folder/err"
else
    skipped=$((skipped + 3))
fi

# limited BLOCKS WORDS ARGUMENT...: like `error 1`, with a limit on file sizes, which simulates a full disk.
limited() {
    blocks=$1 words=$2
    shift 2
    (
        ulimit -f "$blocks"
        "$program" "$@" >/dev/null 2>"$folder/err"
    )
    code=$?
    if [ "$code" -eq 1 ] && [ "$(wc -l <"$folder/err")" -eq 1 ] && grep -q -F -e "$words" "$folder/err"; then
        pass
    else
        fail "limit $blocks, $*: exit code $code:" "$(cat "$folder/err")"
    fi
}

limited 100 '--save: ' mnist $small --save w.safetensors
check "no weights are left" nothing_new
limited 800 'trace.json: cannot write: File too large' mnist $small --save "$folder/kept.safetensors" --profile --profile-dir p
# The disk fills up one block before the log ends, independent of the length of the first line, which lists all options.
limited $(($(wc -c <"$folder/all.jsonl") / 512 - 1)) '--save: ' mnist $small --save none.safetensors --log log.jsonl
check "the log has lines" test "$(wc -l <log.jsonl)" -gt 1
check "the log ends with a whole line" test "$(tail -c 2 log.jsonl | od -An -c | tr -d ' ')" = '}\n'
rm -f log.jsonl
check "no trace is left" nothing_new
# A log whose reader exits simulates a full disk: training continues, and the result is saved.
mkfifo ../log-pipe
head -n 1 ../log-pipe >../log-head &
error 1 '--log: ../log-pipe: Broken pipe' mnist $small --epochs 2 --save ../logged.safetensors --log ../log-pipe
check "the reader got its line" grep -q '^{"config"' ../log-head
check "the training went on to its end" grep -q '^Trained 40 weight updates' ../out
check "it was tested" grep -q '^Accuracy on test set' ../out
check "its weights are saved" test -s ../logged.safetensors

printf 'old weights' >"$folder/run/old.safetensors"
limited 100 '--save: ' mnist $small --save old.safetensors
check "the old file stays" test "$(cat "$folder/run/old.safetensors")" = 'old weights'
finish
