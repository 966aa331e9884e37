#!/bin/sh
# tests/run.sh counts tests that pass, fail, are skipped, crash, or run nothing, in a small tree of fake tests.
. "$(dirname "$0")/support.sh"

tree=$folder/tree
mkdir -p "$tree/tests/room" "$tree/build/tests/room"
cp "$root/tests/run.sh" "$tree/tests/run.sh"

# pretend NAME: makes a test program from the script on stdin.
pretend() {
    : >"$tree/tests/room/test_$1.c"
    { echo '#!/bin/sh'; cat; } >"$tree/build/tests/room/test_$1"
    chmod +x "$tree/build/tests/room/test_$1"
}

clear_tests() {
    rm -f "$tree"/tests/room/* "$tree"/build/tests/room/*
}

# expect CODE LAST_LINE: checks the exit code of tests/run.sh and its last line.
expect() {
    "$tree/tests/run.sh" "$tree/build" >"$folder/out" 2>&1
    run_code=$?
    check "$2: exit code $run_code" test $run_code -eq "$1"
    check "$2: $(tail -n 1 "$folder/out")" test "$(tail -n 1 "$folder/out")" = "$2"
}

good() {
    pretend "$1" <<END
echo '[  PASSED  ] 3 test(s).'
END
}

good one
expect 0 "3 passed, 0 failed"
good two
expect 0 "6 passed, 0 failed"
pretend skips <<'END'
echo '[  PASSED  ] 2 test(s).'
echo '[  SKIPPED ] 1 test(s), listed below:'
echo '[  SKIPPED ] test_something'
END
expect 0 "8 passed, 0 failed, 1 skipped"
pretend fails <<'END'
echo 'the reason'
echo '[  PASSED  ] 1 test(s).'
echo '[  FAILED  ] 2 test(s), listed below:'
echo '[  FAILED  ] test_something'
exit 2
END
expect 1 "9 passed, 2 failed, 1 skipped"
check "the log of a failure is shown" grep -q 'the reason' "$folder/out"

clear_tests
good one
pretend crashes <<'END'
echo '[  PASSED  ] 4 test(s).'
kill -SEGV $$
END
expect 1 "7 passed, 1 failed"
check "a crash is called one" grep -q 'crashed: signal 11' "$folder/out"

clear_tests
good one
pretend silent <<'END'
exit 0
END
expect 1 "3 passed, 1 failed"
check "no test is called so" grep -q 'ran no test' "$folder/out"

clear_tests
good one
printf '#!/bin/sh\necho "5 passed, 0 failed, 2 skipped"\n' >"$tree/tests/room/test_script.sh"
chmod +x "$tree/tests/room/test_script.sh"
expect 0 "8 passed, 0 failed, 2 skipped"
printf '#!/bin/sh\necho "5 passed, 1 failed"\nexit 1\n' >"$tree/tests/room/test_script.sh"
expect 1 "8 passed, 1 failed"

# ---- data for the tests ----

# found PLACE: checks that tools/find_data.sh prints PLACE, and that a test gets this folder.
found() {
    check "find_data.sh finds ${1:-nothing}" test "$(cd "$tree" && tools/find_data.sh)" = "$1"
    wanted=${1:+$(cd "$tree" && cd "$1" && pwd)}
    clear_tests
    printf '#!/bin/sh\ntest "${BRIGADE_TEST_DATA:-}" = "%s" && echo "1 passed, 0 failed"\n' "$wanted" \
        >"$tree/tests/room/test_script.sh"
    chmod +x "$tree/tests/room/test_script.sh"
    expect 0 "1 passed, 0 failed"
}
unset BRIGADE_DATA BRIGADE_TEST_DATA
mkdir -p "$tree/tools" "$folder/shared/data/mnist" "$tree/data" "$folder/own" "$folder/else/mnist"
cp "$root/tools/find_data.sh" "$tree/tools"
found ''
: >"$folder/shared/data/mnist/train-images-idx3-ubyte.gz"
found ../shared/data
: >"$tree/data/train-images-idx3-ubyte"
found data
export BRIGADE_DATA="$folder/own"
found data
: >"$folder/own/train-images.idx3-ubyte"
found "$folder/own"
export BRIGADE_TEST_DATA="$folder/else"
expect 1 "0 passed, 1 failed"
unset BRIGADE_DATA BRIGADE_TEST_DATA

# The program looks only in `data` of the folder in which it runs.
rm -r "$tree/data" && "$program" data digits --dir "$folder/shared/data" --count 400 --test-count 400 >/dev/null
for place in "$tree" "$folder/shared"; do
    (cd "$place" && "$program" mnist --steps 1 --batch-size 4 --test-batch-size 4 --save "$folder/weights") >"$folder/out" 2>&1
    grep '^Data: ' "$folder/out"
done >"$folder/places"
check "no data beside the folder: $(head -n 1 "$folder/places")" sh -c 'head -n 1 "$1" | grep -q "^Data: generated digits"' sh \
    "$folder/places"
check "but in it: $(tail -n 1 "$folder/places")" sh -c 'tail -n 1 "$1" | grep -q "^Data: MNIST from data (400 training"' sh \
    "$folder/places"
check "the place is named in no help" sh -c '! "$1" mnist --help all | grep -q shared/data' sh "$program"

clear_tests
expect 1 "0 passed, 0 failed"
rm -r "$tree/build"
"$tree/tests/run.sh" "$tree/build" >"$folder/out" 2>&1
check "no build folder is a failure" test $? -eq 1
finish
