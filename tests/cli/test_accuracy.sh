#!/bin/sh
# `brigade mnist` learns as well as the program of PopTorch's pipelining tutorial. Its authors accept 97.5 to 99.9 % after two
# epochs, in both strategies, with and without offload, and published 98.4 % after three. The data are MNIST in
# $BRIGADE_TEST_DATA, or generated digits, which are about as hard. BRIGADE_TEST_ALL trains with five seeds; sanitizer
# runs skip this test.
. "$(dirname "$0")/support.sh"

if [ -n "${BRIGADE_TEST_QUICK:-}" ]; then
    skipped=1
    finish
fi
cd "$root" || exit 1

# accuracy ARGUMENT...: trains, and sets $accuracy to the value in the line that the tutorial's program prints too.
accuracy() {
    "$program" mnist --quiet ${real:+--data-dir "$real"} --save "$folder/weights" "$@" >"$folder/out" 2>"$folder/err" ||
        fail "brigade mnist $*:" "$(cat "$folder/err")"
    accuracy=$(sed -n 's/^Accuracy on test set: \([0-9.]*\)%$/\1/p' "$folder/out")
}

# between LOW HIGH: succeeds if $accuracy is in this range.
between() {
    awk -v a="${accuracy:-0}" -v low="$1" -v high="$2" 'BEGIN { exit !(a > low && a < high) }'
}

real=
for place in "${BRIGADE_TEST_DATA:-}" "${BRIGADE_DATA:-}" data; do
    for file in "$place"/train-images* "$place"/mnist/train-images*; do
        [ -n "$place" ] && [ -z "$real" ] && [ -e "$file" ] && real=$place
    done
done

(cd "$folder" && env -u BRIGADE_DATA "$program" mnist --quiet --steps 1 --save weights) >"$folder/out" 2>"$folder/err"
check "generated digits are said to be so, quietly too" grep -q '^Data: generated digits (60000 training' "$folder/out"
begin_case two-epochs
accuracy --epochs 2
check "two epochs, pipelined: $accuracy %" between 97.5 99.9
if [ -n "$real" ] || [ -n "${BRIGADE_TEST_ALL:-}" ]; then
    for variant in '--offload-optimizer' '--strategy sharded' '--strategy sharded --offload-optimizer'; do
        accuracy --epochs 2 $variant
        check "two epochs, $variant: $accuracy %" between 97.5 99.9
    done
    begin_case three-epochs
    accuracy
    check "three epochs: $accuracy %" between 97.9 98.9
else
    echo "skipped: no MNIST in BRIGADE_TEST_DATA (${BRIGADE_TEST_DATA:-not set}), BRIGADE_DATA or data"
    skipped=$((skipped + 4))
fi
# The published accuracy is 98.4 %. Five seeds are used, so that the result does not depend on a lucky one.
if [ -n "$real" ] && [ -n "${BRIGADE_TEST_ALL:-}" ]; then
    all_accuracies=
    for seed in 0 1 2 3 4; do
        accuracy --seed $seed
        check "three epochs, seed $seed: $accuracy %" between 98.1999 99.9
        all_accuracies="$all_accuracies ${accuracy:-0}"
    done
    accuracy=$(echo $all_accuracies | awk '{ for (i = 1; i <= NF; i++) sum += $i; print sum / NF }')
    check "the mean of$all_accuracies: $accuracy %" between 98.2999 99.9
else
    skipped=$((skipped + 6))
fi
finish
