#!/bin/sh
# `brigade mnist`: the images that a call's loss and accuracy cover, images that do not fill a call, --steps, and small
# test sets.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/mnist.sh"

train base --epochs 1 --log base.jsonl

score() {
    sed -n 's/^10\/10 .*\(Loss:[0-9.]* | Accuracy:[0-9.]*%\).*/\1/p' "$1"
}

begin_case output-mode
train all --epochs 1 --output-mode all
train sum --epochs 1 --output-mode sum
check "all and sum say the same: $(score all.out), $(score sum.out)" test "$(score all.out)" = "$(score sum.out)"
for period in 1 2; do
    train "every-$period" --epochs 1 --output-mode every_n --output-period $period
    same all "every-$period"
done
check "every update is all: $(score every-1.out)" test "$(score all.out)" = "$(score every-1.out)"
train every-smaller --epochs 1 --output-mode every_n --output-period 2 --last-batch smaller --gradient-accumulation 7
for loader in '--loader-mode sync' '--loader-mode async-rebatched' '--num-workers 0' '--num-workers 3' '--prefetch 1'; do
    train loader --epochs 1 --output-mode all $loader
    same all loader
done
check "final says what it covers" grep -q "last micro-batch of each call: $batch of $((16 * batch)) images" base.out

# 1600 images in updates of 56 are 28 updates and 32 images; 320 are 5 updates and 40 images.
begin_case uneven-calls
uneven="--epochs 1 --no-shuffle --batch-size 7 --device-iterations 3"
last_whole=$((images / 56 / 3 * 3)) last_update=$((images / 56 + 1))
train dropped $uneven --log dropped.jsonl
train smaller $uneven --log smaller.jsonl --last-batch smaller
train padded $uneven --log padded.jsonl --last-batch pad
value() {
    sed -n "s/^{\"step\":$2,.*\"$3\":\([0-9.e-]*\).*/\1/p" "$1"
}
check "drop leaves out what makes no whole call" test "$(tail -n +2 dropped.jsonl | wc -l)" -eq $last_whole
for last in smaller padded; do
    check "$last: no image is left out" test "$(tail -n +2 $last.jsonl | wc -l)" -eq $last_update
    check "$last: whole updates are the same" test "$(value $last.jsonl $last_whole loss)" = "$(value dropped.jsonl $last_whole loss)"
done
check "padding does not count: $(value padded.jsonl $last_update loss), $(value smaller.jsonl $last_update loss)" \
    awk -v a="$(value padded.jsonl $last_update loss)" -v b="$(value smaller.jsonl $last_update loss)" \
    'BEGIN { d = a - b; exit !(a > 0 && d < 1e-5 && d > -1e-5) }'
check "nor for the accuracy" test "$(value padded.jsonl $last_update accuracy)" = "$(value smaller.jsonl $last_update accuracy)"
train few --epochs 1 --batch-size $((4 * batch)) --device-iterations 100 --last-batch smaller --log few.jsonl
check "fewer images than a call has are enough then" test "$(tail -n +2 few.jsonl | wc -l)" -eq 5

begin_case steps
train seven --epochs 1 --steps 7 --log seven.jsonl
train seven-by-one --epochs 1 --steps 7 --device-iterations 1
same seven seven-by-one
check "seven updates are logged" test "$(wc -l <seven.jsonl)" -eq 8
check "seven updates are those of a longer run" test "$(sed 's/,"images_per_s.*//' seven.jsonl | tail -n +2)" = \
    "$(sed -n '2,8p' base.jsonl | sed 's/,"images_per_s.*//')"
check "seven updates are four calls" grep -q '^4/4 ' seven.out
train one --epochs 1 --steps 1
check "one update is enough" grep -q "^Trained 1 weight updates, $((8 * batch)) images" one.out
train whole --epochs 2 --steps 20
same whole base
train second --epochs 2 --steps 23
check "the second epoch is begun" grep -q '^Epoch 2/2' second.out
train beyond --epochs 1 --steps 500
check "what was not reached is said" grep -q -e '--steps 500 was not reached: the epochs have 20' beyond.out

"$program" mnist $small --epochs 0 --steps 5 >none.out
check "nor is it without epochs" grep -q -e '--steps 5 was not reached: the epochs have 0' none.out

begin_case small-test-set
train few --epochs 1 --test-batch-size $((2 * tests / 5))
lines few.out '^Trained 20 ' "^A test call has 2 micro-batches of $((2 * tests / 5)) images: there are $tests test images" \
    '^1/1 \[=+\]' '^Accuracy on test set' "^Accuracy on all $tests test images"
train fewer --epochs 1 --test-batch-size $((tests + 100)) --ipu-limits
lines fewer.out '^Trained 20 ' "^The $tests test images are fewer than" "^Accuracy on all $tests test images"
all_accuracy() {
    sed -n "s/^Accuracy on all $tests test images: //p" "$1"
}
check "the accuracy is the same" test "$(all_accuracy few.out)" = "$(all_accuracy fewer.out)"
finish
