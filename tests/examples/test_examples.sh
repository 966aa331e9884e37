#!/bin/sh
# The examples print the output that the pages show.
. "$(dirname "$0")/../cli/support.sh"
cd "$root" || exit 1

expect() { # example, arguments, wanted output
    name=$1 wanted=$3
    # shellcheck disable=SC2086
    found=$("$build/examples/$name" $2 2>&1) || found="$found
exit code $?"
    if [ "$found" = "$wanted" ]; then
        pass
    else
        fail "$name $2:" "$found" "instead of" "$wanted"
    fi
}

begin_case counter_loop
expect counter_loop "" "counter 10 after 10 iterations
d1 float32[10,800]: 1 2 3 4 5 6 7 8 9 10
d2 float32[10,800]: -1 0 1 2 3 4 5 6 7 8"

begin_case iterator
expect iterator "" "0 2, 4 6
8 10, 12 14
16 18, 20 22
24 26, 28 30
32 34, 36 38
end of the data"

begin_case training_loop_thread
expect training_loop thread "100 losses, the last ones are less than half"

# The mean loss of each execution falls, and each has its 25 rows.
begin_case training_loop
lines=$("$build/examples/training_loop")
echo "$lines" | awk '
    /^steps [0-9]+ to [0-9]+: mean loss [0-9.]+ of 25$/ { lines++; loss = $7; if (lines > 1 && loss + 0 >= last + 0) rising++; last = loss }
    END { exit lines == 4 && !rising ? 0 : 1 }' && pass || fail "training_loop: $lines"

# README has the program and its output.
begin_case first
expect first "" "$(awk '/^<!-- output: first -->$/ { on = 1; next } /^<!-- end -->$/ { on = 0 } on && !/^```/' README.md)"
listing=$(awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' README.md)
check "the listing is examples/first.c" test "$listing" = "$(sed -n '/^#include/,$p' examples/first.c)"

# Gradients averaged over replicas give the weights of one replica with the same global batch.
begin_case replicas
lines=$("$build/examples/replicas")
check "replicas: $lines" test "$(echo "$lines" | grep -c 'weights are those of one')" -eq 3

# Two processes over the program's transport give the same bits as one.
begin_case own_transport
lines=$(timeout 60 "$build/examples/own_transport" 2>&1)
check "own_transport: $lines" test $? -eq 0
echo "$lines" | awk '
    /^two processes: loss [0-9.]+ after the first run, [0-9.]+ after 20$/ { falls = $10 + 0 < $4 / 10 }
    /^one process has the same losses$/ { same = 1 }
    END { exit falls && same ? 0 : 1 }' && pass || fail "own_transport: $lines"

# The loss falls from validation to validation. The test, on the same samples, gives the loss of the last validation.
begin_case trainer
lines=$("$build/examples/trainer")
echo "$lines" | awk '
    /^validate after [0-9]+ updates: loss [0-9.]+, [0-9.]+% of 800 right$/ { lines++; if (lines > 1 && $6 + 0 >= last + 0) rising++; last = $6; found = $5 $6 $7 }
    /^test after 120 updates: loss [0-9.]+, [0-9.]+% of 800 right$/ { same = found == $5 $6 $7 }
    END { exit lines == 3 && !rising && same && last < 1 ? 0 : 1 }' && pass || fail "trainer: $lines"

# The first text is printed while it is drawn and again with the results; the program's own model has eight positions.
begin_case generate
own=$folder/own
"$program" gpt pretrain --config tiny --set tensor_parallel_1=1 tensor_parallel_2=1 data_parallel=1 --steps 2 --quiet \
    --save-hf "$own" >/dev/null 2>&1
for type in '' int8; do
    # shellcheck disable=SC2086
    lines=$("$build/examples/generate" "$own" $type)
    check "generate $type: $lines" test $? -eq 0
    check "generate $type: three results" test "$(echo "$lines" | grep -c '^\[full length, [0-9]* tokens\] ')" -eq 3
    check "generate $type: the text is that of the callback" \
        test "ROMEO:$(echo "$lines" | head -n 1)" = "$(echo "$lines" | sed -n 's/^\[full length, 2 tokens\] \(ROMEO:\)/\1/p')"
done
lines=$("$build/examples/generate" "$folder/none" 2>&1)
check "a missing folder: $lines" test $? -eq 1
finish
