#!/bin/sh
# Every row of docs/capabilities.md names tests that run: "tests/x/test_y.c:function", a function that the program
# registers with cmocka, or "tests/x/test_y.sh:case", a case that the script begins. tests/cli/support.sh sees to it that
# such a case really runs; here a word of a comment or of a string is no case.
cd "$(dirname "$0")/../.." || exit 1
passed=0 failed=0

# judge FILE NAME: prints what is wrong with it.
judge() {
    if [ ! -f "$1" ]; then
        echo "$1 does not exist"
    elif [ -z "$2" ]; then
        echo "$1 without a function or a case of it"
    elif [ "${1%.sh}" != "$1" ]; then
        grep -q "^ *begin_case $2\$" "$1" || echo "$1 begins no case $2"
        grep -q '^\. .*support\.sh"$' "$1" && grep -q '^finish$' "$1" || echo "$1 does not run its cases by support.sh"
    else
        grep -qE "(cmocka_unit_test[a-z_]*|[A-Z_]*_TEST)\($2[,)]" "$1" || echo "$1 registers no test $2"
    fi
}

rows=$(grep -E '^\| *C[0-9]{3}' docs/capabilities.md | tr ' ' '\001')
for row in $rows; do
    id=$(printf '%s' "$row" | tr '\001' ' ' | sed 's/^| *\(C[0-9]*\).*/\1/')
    # The last cell: names, each with a comma and a space between it and the next.
    tests=$(printf '%s' "$row" | tr '\001' ' ' | sed 's/ *|$//; s/.*| //; s/, /\n/g' | tr ' ' '?')
    good=1
    [ -n "$tests" ] || { echo "$id names no test"; good=0; }
    for test in $tests; do
        name=
        [ "${test%%:*}" = "$test" ] || name=${test#*:}
        wrong=$(judge "${test%%:*}" "$name")
        [ -z "$wrong" ] || { echo "$id: $wrong"; good=0; }
    done
    if [ "$good" -eq 1 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
[ "$passed" -gt 0 ] || failed=$((failed + 1))
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
