#!/bin/sh
# Every row of docs/capabilities.md names a test that exists: "tests/x/test_y.c:function", or
# "tests/x/test_y.sh:word" with a word that the script has.
cd "$(dirname "$0")/../.." || exit 1
passed=0 failed=0
rows=$(grep -E '^\| *C[0-9]{3}' docs/capabilities.md | tr ' ' '\001')
for row in $rows; do
    id=$(printf '%s' "$row" | tr '\001' ' ' | sed 's/^| *\(C[0-9]*\).*/\1/')
    tests=$(printf '%s' "$row" | tr '\001' ' ' | grep -oE 'tests/[A-Za-z0-9_/]+\.(c|sh)(:[A-Za-z0-9_-]+)?')
    good=1
    [ -n "$tests" ] || { echo "$id names no test"; good=0; }
    for test in $tests; do
        file=${test%%:*}
        if [ ! -f "$file" ]; then
            echo "$id: $file does not exist"
            good=0
        elif [ "$file" = "$test" ]; then
            echo "$id: $file without a function or a word of it"
            good=0
        elif [ "${file%.sh}" != "$file" ]; then
            grep -q -w -F -e "${test#*:}" "$file" || { echo "$id: $file has no ${test#*:}"; good=0; }
        elif ! grep -q "[ (*]${test#*:}[(),]" "$file"; then
            echo "$id: $file has no ${test#*:}"
            good=0
        fi
    done
    if [ "$good" -eq 1 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
[ "$passed" -gt 0 ] || failed=$((failed + 1))
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
