#!/bin/sh
# `brigade mnist`: printed lines, also on narrow terminals, help, log folder, and plans without a run.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/mnist.sh"

number='[0-9]+\.[0-9]'

begin_case lines
train lines --epochs 2 --profile --profile-dir "$folder/p"
lines lines.out '^Profiling is enabled\.$' '^Training\.\.\.$' '^Graph compilation: [0-9.]+ ms$' '^Epoch 1/2$' \
    "^10/10 \[=+\] Loss:${number}{4} \| Accuracy:${number}{2}% ${number}{2}it/s [0-9]+ images/s ${number} s$" '^Epoch 2/2$' \
    "^10/10 \[=+\] Loss:${number}{4} \| Accuracy:${number}{2}%" '^Weights saved to lines\.safetensors$' '^Testing\.\.\.$' \
    '^6/6 \[=+\]' "^Accuracy on test set: ${number}{2}%$" "^Accuracy on all $tests test images: ${number}{2}%$"
check "an epoch's speed is of its own images" test "$(sed -n 's|.*% \([0-9.]*\)it/s \([0-9]*\) images/s.*|\1 \2|p' lines.out |
    awk '{ share = $2 / $1; if (NR == 1) first = share; same += share > 0.98 * first && share < 1.02 * first }
         END { print same }')" = 2
check "no carriage returns without a terminal" sh -c "! grep -q '$(printf '\r')' lines.out"
check "nothing is drawn without a terminal" sh -c '! grep -q Compiling lines.out'
check "nothing on stderr" test ! -s lines.err
check "the profile is written" test -s "$folder/p/trace.json" -a -s "$folder/p/summary.txt"
check "it learns" test "$(sed -n 's/^Accuracy on test set: \([0-9]*\)\..*/\1/p' lines.out)" -ge $least

begin_case quiet
train quiet --epochs 1 --quiet
check "quiet is five lines" test "$(wc -l <quiet.out)" -eq 5

begin_case debug
train debug --epochs 1 --debug
lines debug.out '^Stages:$' 'B1' '^Memory:$' '^Timetable:$' '^Epoch 1/1$' '^Loader: 10 batches' '^Accuracy on all ' '^Verdict: '
check "the verdict is last" sh -c "tail -n 1 debug.out | grep -qE '^Verdict: the (device|data set) limits the run'"

begin_case log-dir-and-cycles
train cycles --epochs 1 --log-cycles --log-dir notes
lines notes/brigade.log '^20[0-9-]+T[0-9:]+Z info: plan: compiled in ' '^Stages:$' 'B1' '^Memory:$' '^Timetable:$' ' info: run took [0-9]+ cycles$' \
    ' info: plan: compiled in ' '^Stages:$' ' info: run took [0-9]+ cycles$'
check "the log has every run" test "$(grep -c 'run took' notes/brigade.log)" -eq 17
train no-cycles --epochs 1 --log-dir notes/two --stages 'B1|B2|B3|B4' --gradient-accumulation 2 --device-iterations 8
check "warnings are in it" grep -q ' warning: gradient accumulation is 2' notes/two/brigade.log
error 1 'log_dir: ' mnist $small --epochs 1 --log-dir lines.out
check "10 calls of training and 7 of the test tell their cycles" test "$(grep -cE 'run took [1-9][0-9]* cycles$' cycles.err)" -eq 17
check "the same weights with and without" cmp cycles.safetensors debug.safetensors

begin_case only-test
train only-test --epochs 0
check "epochs 0 does not train" sh -c '! grep -q "^Epoch" only-test.out'
lines only-test.out '^Testing\.\.\.$' '^Accuracy on test set: '

begin_case limits
train limits --epochs 1 --limit-train-batches 2 --limit-test-batches 0.5
lines limits.out '^2/2 ' '^Accuracy on test set: ' '^Accuracy on [0-9]* of [0-9]* test images: '
train untested --steps 2 --limit-test-batches 0 --profile --profile-dir untested.profile
check "no test batches: nothing is tested" sh -c '! grep -q -e Testing -e "Accuracy on" untested.out'

begin_case help
"$program" mnist --help all >help.out
check "help ends well" test $? -eq 0
# Joins an option and its whole description to one line.
awk '/^  -/ { printf "\n" } { printf "%s ", $0 }' help.out | tr -s ' ' | sed 's/^ //' >options.out
for option in batch-size device-iterations gradient-accumulation test-batch-size epochs optimizer learning-rate strategy \
    profile profile-dir debug offload-optimizer offload offload-rule matmul-proportion offload-minimum phase-liveness io-threads shard \
    shard-minimum replicas schedule stages device-memory cores pinning strict seed accumulation replica-reduction accumulator-type clip-norm gradient-norm loss-scaling \
    no-shuffle steps init save log dtype partials weight-type stochastic-rounding output-mode output-period loader-mode num-workers prefetch last-batch data-dir download mirror ipu-limits quiet cache-dir compile-only options log-cycles log-dir help; do
    check "help has --$option" grep -q -E -e "(^  |, )--$option( |\$)" help.out
done
for default in 'batch-size N .*default: 40' 'device-iterations N .*default: 10' 'test-batch-size N .*default: 8' \
    'epochs N .*default: 3' 'learning-rate X .*default: 0.001' 'gradient-accumulation N .*default: 10' \
    'profile-dir DIR .*default: ./profile' 'seed N .*default: 0'; do
    check "help says" grep -q -e "$default" options.out
done

begin_case plan
"$program" plan mnist --stages 'B1,B2|B3,B4' >plan.out
lines plan.out '^2 stages on 2 devices, 1 replica;' '^Stages$' '^Memory$' '^Timetable$'
"$program" plan mnist --schedule single >plan.out 2>plan.err
lines plan.out '^4 stages on 1 device, 1 replica;'
check "a warning names the command: $(cat plan.err)" grep -q '^brigade plan: warning: all stages are on one device' plan.err
rm -f brigade-mnist.safetensors

begin_case compile-only
"$program" mnist --compile-only --schedule gpipe --data-dir /nowhere >plan.out
check "compile-only ends well" test $? -eq 0
lines plan.out '^4 stages on 4 devices, 1 replica;' 'compiled in'

begin_case cache-dir
"$program" mnist --compile-only --cache-dir plans --data-dir /nowhere >plan.out
lines plan.out 'compiled in'
"$program" mnist --compile-only --cache-dir plans --seed 7 --data-dir /nowhere >plan.out
lines plan.out 'loaded from cache in'
BRIGADE_CACHE_DIR=plans "$program" mnist --compile-only --data-dir /nowhere >plan.out
lines plan.out 'loaded from cache in'
for file in plans/*; do echo broken >"$file"; done
"$program" mnist --compile-only --cache-dir plans --data-dir /nowhere >plan.out 2>plan.err
lines plan.out 'compiled in'
check "a bad file is not used: $(cat plan.err)" grep -q 'is not used, so the plan is compiled again: it is not a plan file' plan.err

begin_case compile-only-runs-nothing
"$program" mnist --compile-only --schedule gpipe --data-dir /nowhere >plan.out
check "compile-only runs nothing" sh -c '! grep -q Training plan.out && test ! -e brigade-mnist.safetensors'

# widest COLUMNS: trains on a terminal of that width, and sets $widest to the length of its longest progress line.
widest() {
    script -q -e -c "stty cols $1; '$program' mnist $small --epochs 1 --save terminal.safetensors" /dev/null >terminal.out \
        2>/dev/null </dev/null
    tr '\r' '\n' <terminal.out | sed "s/$(printf '\033')\[K//" | grep '^10/10 ' >progress.out
    widest=$(awk '{ if (length($0) > most) most = length($0) } END { print most + 0 }' progress.out)
}

begin_case widest
if command -v script >/dev/null 2>&1 && script -q -e -c true /dev/null >/dev/null 2>&1 </dev/null; then
    widest 200
    check "compiling is said until it is done" grep -q "Compiling\.\.\.$(printf '\r\033')\[K" terminal.out
    check "a wide terminal has all" grep -q 'Loss:.*it/s .*images/s' progress.out
    widest 72
    check "first the images go: $widest" test "$widest" -gt 0 -a "$widest" -lt 72
    check "the bar and it/s stay" grep -q '\[=.*it/s' progress.out
    widest 40
    check "then it/s and the bar: $widest" test "$widest" -gt 0 -a "$widest" -lt 40
    check "loss and accuracy stay" grep -q '^10/10 Loss:.*Accuracy:' progress.out
    widest 12
    check "then the rest: $widest" test "$widest" -gt 0 -a "$widest" -lt 12
else
    skipped=$((skipped + 7))
fi
finish
