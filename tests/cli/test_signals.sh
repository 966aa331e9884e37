#!/bin/sh
# Signals end long work before a run quickly, with the usual exit code and without leftover files.
. "$(dirname "$0")/support.sh"

make_digits
data="--data-dir $folder/data"
small="$data --batch-size 10 --device-iterations 2 --gradient-accumulation 8 --test-batch-size 5 --epochs 1"
cd "$folder" || exit 1

begin_case stopped-plans
soon_s=3
[ -n "${BRIGADE_TEST_QUICK:-}" ] && soon_s=30 # sanitizers are slow
# stopped WORDS ARGUMENT...: checks that a signal during long planning ends it quickly, with the words and the usual
# exit code.
stopped() {
    stopped_words=$1
    shift
    "$program" "$@" >/dev/null 2>"$folder/stopped.err" &
    process=$!
    await_handler $process
    kill -TERM $process
    check "$*: it was at work" test $? -eq 0
    began=$(date +%s)
    wait $process
    check "$*: ends by the signal" test $? -eq 143
    check "$*: soon" test $(($(date +%s) - began)) -le $soon_s
    check "$*: $stopped_words: $(cat "$folder/stopped.err")" grep -q -F -e "$stopped_words" "$folder/stopped.err"
}
stopped 'brigade plan: stopped by signal 15' plan mnist --schedule auto --gradient-accumulation 60000
stopped 'brigade mnist: stopped by signal 15' mnist --compile-only --schedule auto --gradient-accumulation 60000
stopped 'brigade schedule: stopped by signal 15' schedule show auto --stages 1000 --micro-batches 2000
stopped 'brigade schedule: stopped by signal 15' schedule list --stages 1000 --micro-batches 2000
# A partly written file is removed too.
head -c 60000000 /dev/zero | tr '\0' 'x' | fold -w 60 >"$folder/long.txt"
mkdir "$folder/written"
stopped 'brigade data: stopped by signal 15' data tokenize "$folder/long.txt" --output "$folder/written/tokens.u16"
check "tokens: nothing is left" test -z "$(ls -A "$folder/written")"
rm "$folder/long.txt"
# Signals end drawing too, even while no process reads the output.
mkfifo "$folder/unread"
exec 8<>"$folder/unread"
unread() {
    "$program" "$@" >"$folder/unread" 2>"$folder/unread.err" &
    process=$!
    await_handler $process
    kill -TERM $process
    check "$*: it was at work" test $? -eq 0
    wait $process
    check "$*: ends by the signal" test $? -eq 143
    check "$*: says so: $(cat "$folder/unread.err")" \
        grep -q -x "brigade $1: stopped by signal 15" "$folder/unread.err"
}
unread plan mnist --gradient-accumulation 2000 --batch-size 1
unread schedule show gpipe --stages 100 --micro-batches 200
unread schedule show gpipe --stages 100 --micro-batches 200 --to csv
unread schedule show gpipe --stages 100 --micro-batches 200 --svg -
exec 8<&-
finish
