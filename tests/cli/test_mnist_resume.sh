#!/bin/sh
# brigade mnist --checkpoint: a training run that ended in any way and was resumed gives bit-identical weights to an
# uninterrupted run, and continues at the same position in the data.
. "$(dirname "$0")/support.sh"
# Sanitizer runs use a quarter of the images, in the same number of updates.
images=1600 batch=8
[ -n "${BRIGADE_TEST_QUICK:-}" ] && images=400 batch=2
make_digits $images $((images / 4))
cd "$folder" || exit 1

common="--data-dir data --batch-size $batch --gradient-accumulation 2 --cores 2"

# train OPTION...: trains with --quiet; returns the exit code.
train() {
    "$program" mnist $common "$@" >out 2>err
}

latest() { # FOLDER: the update of its checkpoint
    ls "$1" 2>/dev/null | sed -n 's/^checkpoint_train_step_\([0-9]*\)\.safetensors$/\1/p' | sort -n | tail -n 1
}

begin_case resumed
# Stops in the middle of the second epoch (an epoch has 20 calls of 5 updates), then resumes with another strategy.
train --device-iterations 5 --epochs 3 --save whole --log whole.log
train --device-iterations 5 --epochs 3 --save half --log two.log --checkpoint c1 --steps 125
check "the checkpoint is of the last update" test "$(latest c1)" -eq 125
cp -r c1 c3
train --device-iterations 5 --epochs 3 --save on --log two.log --checkpoint c1 --resume
check "a resumed training has the same weights" cmp whole on
check "it says where it goes on" \
    grep -q "^Resumed from c1/checkpoint_train_step_125.safetensors: 125 weight updates, epoch 2, image $((images / 4))\$" out
grep -v '"config"' whole.log | sed 's/,"images_per_s.*//' >whole.lines
grep -v '"config"' two.log | sed 's/,"images_per_s.*//' >two.lines
check "its log goes on, on the same images" cmp whole.lines two.lines
check "the log has a head for each part" test "$(grep -c '"config"' two.log)" -eq 2
train --device-iterations 5 --epochs 3 --save again --checkpoint c1 --resume
check "a training that is over stays" cmp whole again
check "and nothing is trained" sh -c '! grep -q "^Trained" out'

if [ -z "${BRIGADE_TEST_QUICK:-}" ]; then
    for other in '--strategy single --device-iterations 5' '--device-iterations 25' \
        '--replicas 2 --gradient-accumulation 1 --device-iterations 5' '--schedule grouped --offload-optimizer --device-iterations 1'; do
        train --device-iterations 5 --epochs 3 --save half --checkpoint "c $other" --steps 125
        train --epochs 3 --save on --checkpoint "c $other" --resume $other
        # The mean over two replicas rounds differently from that over two micro-batches of one replica, so only the
        # position is compared.
        case $other in
        *replicas*) check "resumed as $other" grep -q 'epoch 2, image 400$' out ;;
        *) check "resumed as $other" cmp whole on ;;
        esac
    done
fi

end_case
# interrupt SIGNAL CODE: interrupts a training run of thousands of updates.
interrupt() {
    rm -rf c2
    "$program" mnist $common --device-iterations 2 --epochs 100000 --checkpoint c2 --checkpoint-steps 6 --save half \
        >out 2>err &
    pid=$!
    tries=0
    while [ -z "$(latest c2)" ] && [ $tries -lt 2400 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
    [ "$1" = TERM ] && error 1 '--checkpoint: c2: another run writes there; wait' mnist --data-dir data --checkpoint c2 --resume
    kill -"$1" $pid
    wait $pid 2>/dev/null
    check "SIG$1 ends it with $2" test $? -eq "$2"
    [ "$1" = KILL ] || check "SIG$1 says what to do" grep -q 'saved; --resume continues from here$' err
    check "SIG$1 leaves a checkpoint" test "$(latest c2)" -gt 0
    last=$(($(latest c2) + 6))
    train --device-iterations 2 --epochs 100000 --save on --checkpoint c2 --resume --steps $last
    train --device-iterations 2 --epochs 100000 --save whole --steps $last
    check "after SIG$1 it goes on as if nothing had been" cmp whole on
}
interrupt TERM 143
interrupt KILL 137
[ -n "${BRIGADE_TEST_QUICK:-}" ] || interrupt INT 130

# A checkpoint is refused without --resume, or with options that do not match it.
error 1 'has a checkpoint of an earlier training, of weight update 300; add --resume' \
    mnist --data-dir data --checkpoint c1
shape="--batch-size $batch --gradient-accumulation 2 --device-iterations 5 --strategy sharded"
error 1 'was made with seed 0, this session has 1' mnist --data-dir data $shape --checkpoint c3 --resume --seed 1
error 1 'is from a training without --no-shuffle; leave the option out' \
    mnist --data-dir data $shape --checkpoint c3 --resume --no-shuffle
"$program" mnist --data-dir data --batch-size $batch --gradient-accumulation 8 --device-iterations 10 --checkpoint c3 \
    --resume >out 2>err
check "another call is refused: $(cat err)" test $? -eq 1
check "the reason" grep -q "no call of $((80 * batch)) images begins" err
check "a warning about the batch" grep -q "was made with precision=32 batch=$((2 * batch)) .* this session has precision=32 batch=$((8 * batch)) " err
error 2 '--resume is given without a folder; add --checkpoint' mnist --resume
error 2 '--checkpoint-steps is given without a folder; add --checkpoint' mnist --checkpoint-steps 3
error 2 '--resume is given with --init w' mnist --checkpoint c1 --resume --init w
"$program" data digits --dir other --count $((images / 2)) --test-count 100 >/dev/null
error 1 "is from a training on $images images, but this run has $((images / 2)); give the same --data-dir" \
    mnist --data-dir other $shape --checkpoint c3 --resume
train --device-iterations 5 --save new --checkpoint none --resume --epochs 1
check "without a checkpoint it begins anew" grep -q -F -e '--resume: there is no checkpoint in none; a new training starts' err

begin_case other-optimizer
train --steps 2 --epochs 1 --device-iterations 1 --checkpoint c4 --save w4
cp -r c4 c5
error 1 'state of optimizer `adamw` (exp_avg exp_avg_sq), but this session trains with `lamb`' mnist $common \
    --strategy single --device-iterations 1 --steps 4 --checkpoint c4 --resume --optimizer lamb
check "the checkpoint stays" cmp c4/checkpoint_train_step_2.safetensors c5/checkpoint_train_step_2.safetensors
train --device-iterations 1 --steps 4 --epochs 1 --checkpoint c4 --resume --optimizer lamb --resume-drop optimizer
check "LAMB goes on from the weights" test "$(latest c4)" -eq 4
check "and says what is dropped" grep -q "the optimizer's state (adamw: exp_avg exp_avg_sq) is dropped" err
error 2 '--resume-drop is given without --resume' mnist --checkpoint c4 --resume-drop optimizer
error 2 '--resume-optimizer is given without --resume' mnist --checkpoint c4 --resume-optimizer adamw
finish
