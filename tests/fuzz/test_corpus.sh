#!/bin/sh
# Replays the committed corpora in plain builds of the fuzz targets, without a fuzzer.
cd "$(dirname "$0")/../.." || exit 1
build=${BRIGADE_BUILD:-build}
passed=0 failed=0
for target in "$build"/tests/fuzz/replay_*; do
    case "$target" in *.o | *.d) continue ;; esac
    name=${target##*/replay_}
    for input in tests/fuzz/corpus/"$name"/*; do
        [ -f "$input" ] || continue
        if "$target" "$input" >/dev/null 2>&1; then
            passed=$((passed + 1))
        else
            echo "fuzz_$name fails on $input"
            failed=$((failed + 1))
        fi
    done
done
[ "$passed" -gt 0 ] || failed=$((failed + 1))
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
