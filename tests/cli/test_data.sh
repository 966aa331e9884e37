#!/bin/sh
# brigade data bench prints JSON for every kind of data, and messages about data that it cannot read.
. "$(dirname "$0")/support.sh"

make_digits
corpus=$root/tests/fuzz/corpus
cp "$corpus/npy/u1" "$folder/a.npy"
cp "$corpus/npz/stored" "$folder/a.npz"
printf 'x,y,class\n1,2,0\n3,4.5,1\n' >"$folder/a.csv"
printf '0123456789abcdef' >"$folder/a.u16"
mkdir -p "$folder/images/a"
cp "$corpus/png/rgb" "$folder/images/a/1.png"

# bench NAME EPOCHS ARGUMENT...: must print one line with this number of epochs, and no field may be 0.
bench() {
    bench_name=$1 bench_epochs=$2
    shift 2
    check "bench $bench_name" "$program" data bench "$@" --epochs "$bench_epochs" >"$folder/out" 2>"$folder/err"
    check "bench $bench_name: a rate" grep -qE '^Verdict: the data set gives [1-9][0-9]* samples/s; .*--device-rate' "$folder/err"
    check "bench $bench_name: no limit" sh -c "! grep -q limit '$folder/out'"
    check "bench $bench_name: one line" test "$(wc -l <"$folder/out")" -eq 1
    check "bench $bench_name: epochs" test "$(grep -o elements_processed "$folder/out" | wc -l)" -eq "$bench_epochs"
    check "bench $bench_name: no 0" sh -c "! grep -qE '\"(time_elapsed|bandwidth|latency_mean|total_bytes_processed)\":0[,}]' '$folder/out'"
}
begin_case bench
bench digits 10 --elements 512
bench mnist 2 "$folder/data" --batch-size 40 --shuffle --normalize
bench sync 2 "$folder/data" --batch-size 40 --mode sync --shuffle --shuffle-buffer 100 --keep-last --no-memcpy
bench stream 2 --batch-size 40 --stream --shards 7 --workers 2 --shuffle
bench stream-sync 1 --batch-size 40 --stream --mode sync --shuffle --shuffle-buffer 50
bench rebatched 2 --batch-size 40 --stream --shards 7 --mode async-rebatched --rebatched-size 9 --keep-last
bench npy 1 "$folder/a.npy"
bench csv 1 "$folder/a.csv" --label class
bench tokens 1 "$folder/a.u16" --sequence-length 3 --stride 1
bench images 3 "$folder/images" --channels 1 --cache
error 2 '--elements is 0, which measures nothing; give at least 1, or leave the option out' data bench --elements 0
# verdict FIELD WORDS ARGUMENT...: with a device rate, the verdict is the last field of the JSON and on standard error.
verdict() {
    verdict_field=$1 verdict_words=$2
    shift 2
    check "verdict $*" "$program" data bench --epochs 2 "$@" >"$folder/out" 2>"$folder/err"
    check "verdict $*: field" grep -qF "}],\"limit\":\"$verdict_field\"}" "$folder/out"
    check "verdict $*: words" grep -qE "^Verdict: $verdict_words: the data set gives [1-9][0-9]* samples/s" "$folder/err"
    check "verdict $*: a line" test "$(wc -l <"$folder/err")" -eq 1
}
begin_case verdict
verdict device 'the device limits the run' --device-rate 1
verdict dataset 'the data set limits the run \(more workers may help\)' --device-rate 1e13
verdict device 'the device limits the run' --batch-size 40 --device-rate 0.5
verdict dataset 'the data set limits the run \(more workers may help\)' --batch-size 40 --mode sync --device-rate 1e13
begin_case picture
"$program" data digits --out "$folder/sheet.pgm" --count 45 >/dev/null
check "a picture of 20 by 3 digits" test "$(head -n 2 "$folder/sheet.pgm" | tail -n 1)" = "560 84"

begin_case errors
error 2 '--device-rate is 0' data bench --device-rate 0
error 1 'array 1: has 4 samples, but array 0 has 2' data bench "$folder/a.npz"
error 1 'the kind of data is unknown' data bench "$folder/a.txt"
error 1 'none.npy' data bench "$folder/none.npy"
error 1 'there is no column `z`' data bench "$folder/a.csv" --label z
error 2 '--shuffle-buffer applies only with --shuffle; add --shuffle' data bench --shuffle-buffer 3
error 2 '--mode is `fast`; it must be one of sync|async|async-rebatched' data bench --mode fast
error 2 '--stream applies only to batches; add --batch-size' data bench --stream
error 2 '--workers applies only to batches; add --batch-size' data bench --workers 3
error 2 '--keep-last applies only to batches; add --batch-size' data bench --shuffle --keep-last
error 2 '--shards applies only with --stream; add --stream' data bench --batch-size 4 --shards 2
error 2 '--rebatched-size applies only with --mode async-rebatched; add this mode' data bench --batch-size 4 --rebatched-size 2
error 1 'rebatched_size is 5 but must be at most the batch size, 4' data bench --batch-size 4 --mode async-rebatched --rebatched-size 5
error 1 'ended before a whole batch of 20000' data bench --batch-size 20000 --stream
check "data bench --help: headings" sh -c "'$program' data bench --help all | grep -q '^The loader:$'"
error 2 '--epochs is `0`' data bench --epochs 0
check "data --help" sh -c "'$program' data --help | grep -q '^  bench  *measure'"
check "bench --help" sh -c "'$program' data bench --help all | grep -q -e '--shuffle-buffer'"
(cd "$folder" && "$program" mnist --data-dir data --device-iterations 2 --steps 2 --debug) >"$folder/out"
check "verdict" sh -c "tail -n 1 '$folder/out' | grep -qE '^Verdict: the (device|data set) limits the run'"
finish
