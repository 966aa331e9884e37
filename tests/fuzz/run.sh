#!/bin/sh
# Builds every fuzz target with libFuzzer and runs each for SECONDS, two per processor: tests/fuzz/run.sh [SECONDS]
#
# A target starts from tests/fuzz/corpus/<name>/ (read only) and grows a separate corpus under build-fuzz. A crash, a
# leak, undefined behavior, or an input that takes longer than 10 s is a failure, and the script names the input.
cd "$(dirname "$0")/../.." || exit 1
seconds=${1:-60}
build=${BUILD:-build-fuzz}
make -s -j2 BUILD="$build" fuzz || { echo "0 passed, 1 failed"; exit 1; }

run_one() {
    name=$(basename "$1")
    mkdir -p "$2/corpus/$name"
    seeds=tests/fuzz/corpus/${name#fuzz_}
    [ -d "$seeds" ] || seeds=
    if "$1" -max_total_time="$3" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
        -artifact_prefix="$2/$name." "$2/corpus/$name" $seeds >"$2/$name.log" 2>&1; then
        echo "ok $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$2/$name.log") inputs"
    else
        echo "FAILED $name"
        tail -n 40 "$2/$name.log"
    fi
}
if [ "${2:-}" = --one ]; then
    run_one "$3" "$build" "$seconds"
    exit 0
fi
ls "$build"/fuzz/fuzz_* | grep -v '\.' | xargs -P $((2 * $(getconf _NPROCESSORS_ONLN))) -I{} "$0" "$seconds" --one {} >"$build/results"
cat "$build/results"
failed=$(grep -c '^FAILED' "$build/results")
echo "$(grep -c '^ok' "$build/results") passed, $failed failed"
[ "$failed" -eq 0 ]
