#!/bin/sh
# `brigade gpt pretrain` ends early: it is killed, stopped by a signal, or has a full disk or a folder without write
# permission. A run that resumes from its checkpoint gives the same bits as an uninterrupted run. BRIGADE_TEST_ALL kills
# it at 50 times instead of a few.
. "$(dirname "$0")/support.sh"

cd "$folder" || exit 1
# The preset's 2 x 2 x 2 replicas, in phases, with dropout; each epoch has 3 updates.
steps=24 kills=4
[ -n "${BRIGADE_TEST_ALL:-}" ] && kills=50
[ -n "${BRIGADE_TEST_QUICK:-}" ] && steps=9 kills=2
run="--config tiny --set precision=float32 stochastic_rounding=false maximum=0.003 warmup_proportion=0 n_samples=50"

# pretrain ARGUMENT...: trains with --quiet, with output in the files out and err.
pretrain() {
    "$program" gpt pretrain $run --quiet "$@" >out 2>err
}

# newest FOLDER: prints the step of its newest checkpoint, if it has one.
newest() {
    ls "$1" 2>/dev/null | sed -n 's/^checkpoint_train_step_\([0-9]*\)\.safetensors$/\1/p' | sort -n | tail -n 1
}

# as_whole FOLDER WHAT: checks that its newest checkpoint equals that of the uninterrupted run, byte for byte.
as_whole() {
    step=$(newest "$1")
    check "$2: the checkpoint of step $step is that of the whole run" cmp -s \
        "$1/checkpoint_train_step_$step.safetensors" "whole/checkpoint_train_step_$step.safetensors"
}

# goes_on FOLDER WHAT: checks that a run resumes from it and ends with the same bits.
goes_on() {
    before=$(newest "$1")
    if pretrain --steps $steps --load "$1" --save "$1"; then pass; else fail "$2: does not go on:" "$(cat err)"; fi
    check "$2: goes on to the end" test "$(newest "$1")" -eq $steps
    as_whole "$1" "$2"
    # After a run that was killed after its last checkpoint, no step is left to save, so older checkpoints remain.
    check "$2: one checkpoint is left, nothing else" test "$(ls "$1" | wc -l)" -le $((before == steps ? 2 : 1))
}

pretrain --steps $steps --save whole --checkpoint-steps 1 --set max_checkpoints=$steps
check "a checkpoint of each step" test "$(ls whole | wc -l)" -eq $steps

begin_case killed
# ---- killed ----

# The time of the kill is between the start and a little after the end. A run that was killed before its first
# checkpoint starts from the beginning; every second killed run resumes and is killed again.
start=$(date +%s%N)
pretrain --steps $steps --save timed --checkpoint-steps 1 --checkpoint-keep-best loss --log timed.jsonl
life=$(($(date +%s%N) - start))
best=$(sed -n 's/.*"step":\([0-9]*\),"loss":\([-+.0-9e]*\).*/\2 \1/p' timed.jsonl | sort -s -g -k 1,1 | sed -n '1s/.* //p')
check "the one with the best loss is kept: $best, $(ls timed)" \
    test "$("$program" checkpoint best timed)" = "timed/checkpoint_train_step_$best.safetensors"
check "and the newest, no other" test "$(ls timed | wc -l)" -eq $((best == steps ? 1 : 2))
pretrain --steps 3 --save mean --checkpoint-keep-best loss --log mean.jsonl
mean=$(sed -n 's/.*"loss":\([-+.0-9e]*\).*/\1/p' mean.jsonl | awk '{ sum += $1 } END { printf "%.6g", sum / NR }')
metric=$("$program" checkpoint inspect mean --json | sed -n 's/.*"metric":{"name":"loss","value":\([0-9.e-]*\).*/\1/p')
check "of several updates it is their mean, $mean: $metric" test "$(awk -v m="$metric" 'BEGIN { printf "%.6g", m }')" = "$mean"
killed=0 with=0
while [ $killed -lt $kills ]; do
    [ $((killed % 2)) -eq 1 ] || rm -rf killed
    load=
    [ -n "$(newest killed)" ] && load='--load killed'
    "$program" gpt pretrain $run --quiet --steps $steps $load --save killed --checkpoint-steps 1 >out 2>err &
    pid=$!
    sleep "$(awk "BEGIN { srand($killed + $$ * 1000); printf \"%.4f\", rand() * 1.05 * $life / 1e9 }")"
    kill -KILL $pid 2>/dev/null
    wait $pid 2>/dev/null
    killed=$((killed + 1))
    step=$(newest killed)
    [ -n "$step" ] || continue
    with=$((with + 1))
    as_whole killed "kill $killed"
    rm -rf on && cp -r killed on
    goes_on on "kill $killed"
done
# On a slow machine, all of the few sanitizer runs may be killed before their first checkpoint.
least=1
[ -n "${BRIGADE_TEST_QUICK:-}" ] && least=0
check "some were killed after a checkpoint" test $with -ge $least

begin_case signals
# ---- signals ----

# The current step is finished and saved; the exit code is 0.
for signal in INT TERM; do
    rm -rf stopped stopped.out # the output of the previous signal also contains "Step: 3/"
    "$program" gpt pretrain $run --steps 100000 --save stopped >stopped.out 2>err &
    pid=$!
    until grep -q '^Step: 3/' stopped.out 2>/dev/null || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
    kill -$signal $pid
    wait $pid
    check "SIG$signal ends it with 0" test $? -eq 0
    step=$(newest stopped)
    check "SIG$signal: it says after which step" \
        grep -q -E "^Stopped by signal [0-9]+ after step $step; it is saved\$" stopped.out
    check "SIG$signal: which is the last it made" \
        test "$(sed -n 's|^Step: \([0-9]*\)/.*|\1|p' stopped.out | tail -n 1)" -eq "$step"
    pretrain --steps $((step + 1)) --load stopped --save stopped
    rm -rf unstopped && pretrain --steps $((step + 1)) --save unstopped
    check "SIG$signal: it goes on as if nothing had been" cmp -s stopped/* unstopped/*
done

begin_case full-disks
# ---- full disks ----

# unharmed CODE WHAT: checks for an error of one line, and that `there` has only the checkpoint of step 2, from which a
# run can resume.
unharmed() {
    check "$2: ends with 1" test "$1" -eq 1
    check "$2: one line" test "$(wc -l <err)" -eq 1
    check "$2: which says of what" grep -q -e '--save\|there/checkpoint_train_step_' err
    check "$2: one checkpoint is left, nothing else" test "$(ls there)" = checkpoint_train_step_2.safetensors
    as_whole there "$2"
    rm -rf on && cp -r there on
    goes_on on "$2"
}

# A limit on file sizes simulates a full disk: half a checkpoint fits.
pretrain --steps 2 --save there
kilobytes=$(($(wc -c <there/checkpoint_train_step_2.safetensors) / 1024))
(
    ulimit -f $kilobytes # of 512 bytes
    pretrain --steps 6 --load there --save there --checkpoint-steps 1
)
unharmed $? "a limit"

# The same for the weights that are saved at the end.
for option in save-weights save-hf; do
    (
        ulimit -f 64
        pretrain --steps 1 --$option saved.$option
    )
    check "a limit on --$option" test $? -eq 1
    check "is said" grep -q "^brigade gpt: --$option: saved.$option.*: cannot write: " err
    check "and nothing half written is left" test -z "$(find saved.$option -type f 2>/dev/null)"
done

# First a disk with space for one and a half checkpoints, then a read-only one; the test mounts both.
cat >mounts.sh <<'END'
mount -t tmpfs -o size="$1"k none there || exit 99
cp kept there/checkpoint_train_step_2.safetensors
[ "$2" = full ] || mount -o remount,ro there || exit 99
shift 2
"$@" >out 2>err
code=$?
rm -rf copy && cp -r there copy
exit $code
END
cp there/checkpoint_train_step_2.safetensors kept
for how in '-m' '-rm' none; do unshare $how true 2>/dev/null && break; done
for what in full read-only; do
    if [ "$how" = none ]; then
        skipped=$((skipped + 1))
        continue
    fi
    rm -rf there && mkdir there
    unshare $how sh mounts.sh $((kilobytes * 3 / 2)) $what \
        "$program" gpt pretrain $run --quiet --steps 6 --load there --save there --checkpoint-steps 1
    code=$?
    if [ $code -eq 99 ]; then
        skipped=$((skipped + 1))
        continue
    fi
    rm -rf there && mv copy there
    unharmed $code "a $what disk"
done

begin_case other-training
# ---- another optimizer, another depth ----

# refused WHAT WORD... -- ARGUMENT...: the run exits with 1, prints one line with every word, and saves no checkpoint.
refused() {
    what=$1
    shift
    words=
    while [ "$1" != -- ]; do words="$words $1" && shift; done
    shift
    pretrain --steps 4 --save refused "$@"
    check "$what: is refused" test $? -eq 1
    check "$what: in one line" test "$(wc -l <err)" -eq 1
    for word in $words; do check "$what: says $word" grep -q -F -e "$(echo "$word" | tr _ ' ')" err; done
    check "$what: nothing is saved" test -z "$(newest refused)"
}

pretrain --steps 2 --save first
refused "AdamW's state under LAMB" 'optimizer_`adamw`' 'trains_with_`lamb`' '--resume-drop_optimizer' -- \
    --load first --set name=lamb
refused "two layers in three" '2_of_`transformer.h.*`_where_the_model_has_3' '28_parameters_where_the_model_has_40' \
    '--resume-drop_parameters' -- --load first --set layers=3
refused "two layers in one" '2_of_`transformer.h.*`_where_the_model_has_1' '--resume-drop_parameters' -- \
    --load first --set layers=1
refused "the wrong part" 'trains_with_`lamb`' -- --load first --set name=lamb --resume-drop parameters
pretrain --steps 4 --load first --save as-lamb --set name=lamb --resume-drop optimizer
check "LAMB goes on from the weights" test $? -eq 0
check "and says what is dropped" grep -q "the optimizer's state (adamw: exp_avg exp_avg_sq) is dropped" err
check "to the end" test "$(newest as-lamb)" -eq 4
for layers in 1 3; do
    pretrain --steps 4 --load first --save "as-$layers" --set layers=$layers --resume-drop parameters
    check "$layers layers go on from what they have in common" test $? -eq 0
    check "and say what differs" grep -q "has 2 of .transformer.h.\*. where the model has $layers" err
done
pretrain --steps 4 --load first --save as-lamb-3 --set name=lamb layers=3 --resume-drop optimizer,parameters
check "both at once" test $? -eq 0
check "each is said" test "$(grep -c warning err)" -eq 2
pretrain --steps 2 --resume-drop optimizer
check "nothing to drop from: a wrong use" test $? -eq 2

begin_case test-mode
# ---- test mode ----

mkdir empty && cd empty || exit 1
"$program" gpt pretrain $run --set test_mode=true --steps 2 --save saved --checkpoint-steps 1 --log log.jsonl \
    --save-weights w.safetensors --save-hf hf --tensorboard board --trace t.json --log-dir notes --cache-dir plans --quiet >../out 2>../err
check "test mode ends well" test $? -eq 0
check "and writes nothing" test -z "$(ls -A)"
cp -r ../whole loaded
"$program" gpt pretrain $run --set test_mode=true --steps $((steps + 1)) --load loaded --save loaded \
    --checkpoint-steps 1 --quiet >../out 2>../err
check "test mode goes on from a checkpoint" test $? -eq 0
check "and leaves the folder alone" sh -c 'test "$(ls loaded)" = "$(ls ../whole)"'

finish
