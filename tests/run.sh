#!/bin/sh
# Runs every test program of a build folder and the script tests: tests/run.sh [BUILD [PATTERN]]
#
# Prints one line per test, the whole output of tests that fail, at the end their names, and one line that counts single
# tests: "N passed, N failed" (and ", N skipped" if tests were skipped). A test program that crashes or runs no test
# counts as a failure, and so does a run of no tests. PATTERN: only tests whose name contains it. BRIGADE_TEST_DATA: a
# folder with MNIST for the tests that need it, by default the one that tools/find_data.sh finds. BRIGADE_TEST_RUNNER: a
# command that runs test programs, such as an emulator; scripts are left out then. BRIGADE_TEST_EXCLUDE: an extended
# regular expression; tests whose names match are left out.
set -u

build=${1:-build}
pattern=${2:-}
here=$(dirname "$0")
if [ -z "${BRIGADE_TEST_DATA:-}" ] && [ -x "$here/../tools/find_data.sh" ]; then
    BRIGADE_TEST_DATA=$(cd "$here/.." && place=$(tools/find_data.sh) && [ -n "$place" ] && cd "$place" && pwd)
fi
export BRIGADE_TEST_DATA
jobs=${BRIGADE_TEST_JOBS:-$(($(getconf _NPROCESSORS_ONLN) + 1))} # tests sometimes wait

if [ "${1:-}" = --one ]; then
    # Runs one test ($2: its name, $3: its program, $4: the build folder); the log's last line is the exit code.
    log="$4/tests/logs/$(echo "$2" | tr / -).log"
    start=$(date +%s%N)
    # shellcheck disable=SC2086
    BRIGADE_BUILD="$4" timeout -k 10 "${BRIGADE_TEST_LIMIT_S:-900}" ${BRIGADE_TEST_RUNNER:-} "$3" >"$log" 2>&1
    code=$?
    end=$(date +%s%N)
    printf '\n@exit %d %d\n' "$code" "$(((end - start) / 1000000))" >>"$log"
    exit 0
fi

[ -d "$build" ] || { echo "tests/run.sh: no build folder $build; run make tests" >&2; exit 1; }
build=$(cd "$build" && pwd)
mkdir -p "$build/tests/logs"
rm -f "$build"/tests/logs/*.log

list="$build/tests/logs/list"
{
    find "$build/tests" -path '*/test_*' -type f -perm -u+x ! -name '*.*' | sort | while read -r program; do
        name=${program#"$build/tests/"}
        # A program without a source is from an older build.
        [ -f "$here/$name.c" ] && echo "$name $program"
    done
    for script in "$here"/*/test_*.sh; do
        [ -f "$script" ] && [ -z "${BRIGADE_TEST_RUNNER:-}" ] || continue
        name=${script#"$here/"}
        echo "$name $script"
    done
} | awk -v pattern="$pattern" 'index($1, pattern) > 0' | grep -v -E -- "${BRIGADE_TEST_EXCLUDE:-^$}" >"$list"

# Scripts run first, because they take longest, and the last tests should be short.
{ grep '\.sh$' "$list"; grep -v '\.sh$' "$list"; } | tr '\n ' '\0\0' | xargs -0 -r -n 2 -P "$jobs" sh -c '"$0" --one "$2" "$3" "$1"' "$0" "$build"

# cmocka prints "[  PASSED  ] 3 test(s)." and so on; script tests print "3 passed, 0 failed[, 0 skipped]".
count() {
    awk -v key="$2" '
        /^\[  (PASSED|FAILED|SKIPPED) +\] [0-9]+ test\(s\)/ {
            word = tolower($2); if (word == key) total += $4; next }
        /^[0-9]+ passed, [0-9]+ failed/ {
            for (i = 1; i < NF; i++) { w = $(i + 1); sub(/,$/, "", w); if (w == key) total += $i } }
        END { print total + 0 }' "$1"
}

total_passed=0 total_failed=0 total_skipped=0 names_failed=
while read -r name program; do
    log="$build/tests/logs/$(echo "$name" | tr / -).log"
    set -- $(sed -n 's/^@exit //p' "$log" 2>/dev/null | tail -n 1)
    code=${1:-1} milliseconds=${2:-0}
    passed=$(count "$log" passed) failed=$(count "$log" failed) skipped=$(count "$log" skipped)
    note=
    if [ "$code" -gt 128 ]; then
        note=" (crashed: signal $((code - 128)))"
    elif [ "$code" -ne 0 ] && [ "$failed" -eq 0 ]; then
        note=" (exit code $code)"
    elif [ $((passed + failed + skipped)) -eq 0 ]; then
        note=" (ran no test)"
    fi
    [ -n "$note" ] && failed=$((failed + 1))
    total_passed=$((total_passed + passed)) total_failed=$((total_failed + failed))
    total_skipped=$((total_skipped + skipped))
    result=ok
    [ "$failed" -gt 0 ] && result=FAILED && names_failed="$names_failed $name"
    printf '%-6s %-36s %4d tests %6d.%02d s%s\n' "$result" "$name" $((passed + failed + skipped)) \
        $((milliseconds / 1000)) $((milliseconds % 1000 / 10)) "$note"
    [ "$failed" -gt 0 ] && sed -e '/^@exit /d' -e 's/^/    /' "$log"
done <"$list"

[ -n "$names_failed" ] && echo "failed:$names_failed"
summary="$total_passed passed, $total_failed failed"
[ "$total_skipped" -gt 0 ] && summary="$summary, $total_skipped skipped"
if [ $((total_passed + total_failed)) -eq 0 ]; then
    echo "tests/run.sh: no test ran in $build" >&2
    echo "$summary"
    exit 1
fi
echo "$summary"
[ "$total_failed" -eq 0 ]
