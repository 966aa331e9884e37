#!/bin/sh
# The examples print what the pages say they do.
cd "$(dirname "$0")/../.." || exit 1
build=${BRIGADE_BUILD:-build}
passed=0 failed=0

expect() { # example, arguments, wanted output
    name=$1 wanted=$3
    # shellcheck disable=SC2086
    found=$("$build/examples/$name" $2 2>&1) || found="$found
exit code $?"
    if [ "$found" = "$wanted" ]; then
        passed=$((passed + 1))
    else
        printf '%s %s:\n%s\ninstead of\n%s\n' "$name" "$2" "$found" "$wanted"
        failed=$((failed + 1))
    fi
}

expect counter_loop "" "counter 10 after 10 iterations
d1 float32[10,800]: 1 2 3 4 5 6 7 8 9 10
d2 float32[10,800]: -1 0 1 2 3 4 5 6 7 8"

expect iterator "" "0 2, 4 6
8 10, 12 14
16 18, 20 22
24 26, 28 30
32 34, 36 38
end of the data"

expect training_loop thread "100 losses, the last ones are less than half"

# The mean loss of each execution falls, and each has its 25 rows.
lines=$("$build/examples/training_loop")
echo "$lines" | awk '
    /^steps [0-9]+ to [0-9]+: mean loss [0-9.]+ of 25$/ { lines++; loss = $7; if (lines > 1 && loss + 0 >= last + 0) rising++; last = loss }
    END { exit lines == 4 && !rising ? 0 : 1 }' && passed=$((passed + 1)) || {
    echo "training_loop: $lines"
    failed=$((failed + 1))
}

# Averaged gradients over replicas: the weights of one replica with the same global batch.
lines=$("$build/examples/replicas")
if [ "$(echo "$lines" | grep -c 'weights are those of one')" -eq 3 ]; then
    passed=$((passed + 1))
else
    echo "replicas: $lines"
    failed=$((failed + 1))
fi

# The loss falls from validation to validation, and the test, on the same samples, finds what the last one found.
lines=$("$build/examples/trainer")
echo "$lines" | awk '
    /^validate after [0-9]+ updates: loss [0-9.]+, [0-9.]+% of 800 right$/ { lines++; if (lines > 1 && $6 + 0 >= last + 0) rising++; last = $6; found = $5 $6 $7 }
    /^test after 120 updates: loss [0-9.]+, [0-9.]+% of 800 right$/ { same = found == $5 $6 $7 }
    END { exit lines == 3 && !rising && same && last < 1 ? 0 : 1 }' && passed=$((passed + 1)) || {
    echo "trainer: $lines"
    failed=$((failed + 1))
}

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
