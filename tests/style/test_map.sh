#!/bin/sh
# Every source file of the library and the program has a test: one with its name, tests/<room>/test_<file>, or those in
# a line of tests/map.txt. Each line names existing tests, and existing files that need the line.
#
# test_map.sh [ROOT]: only checks that other tree.
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/../..}" || exit 1
map=tests/map.txt passed=0 failed=0

report() {
    echo "$*"
    failed=$((failed + 1))
}

# named SOURCE: succeeds if a test has its name.
named() {
    named_room=${1#src/}
    named_test=tests/${named_room%%/*}/test_$(basename "$1" .c)
    case ${named_room#*/} in */*) return 1 ;; esac
    [ -f "$named_test.c" ] || [ -f "$named_test.sh" ]
}

# A line is stale if its files do not exist, or all have tests of their names.
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
grep -v -e '^#' -e '^[[:space:]]*$' "$map" >"$lines"
mapped=' '
while read -r source tests; do
    good=1 needed=
    for file in $source; do
        [ -f "$file" ] || continue
        named "$file" || needed=1
        case $mapped in *" $file "*) report "$map: $file is in two lines"; good=0 ;; esac
        mapped="$mapped$file "
    done
    [ -n "$needed" ] || { report "$map: $source: no such file without a test of its name"; good=0; }
    [ -n "$tests" ] || { report "$map: $source: no test"; good=0; }
    for test in $tests; do
        case $test in
        tests/*/test_*.c | tests/*/test_*.sh) [ -f "$test" ] || { report "$map: $source: $test does not exist"; good=0; } ;;
        *) report "$map: $source: $test is no test"; good=0 ;;
        esac
    done
    passed=$((passed + good))
done <"$lines"
for source in src/*/*.c src/*/*/*.c; do
    [ -f "$source" ] || continue
    case $mapped in
    *" $source "*) passed=$((passed + 1)) ;;
    *)
        if named "$source"; then
            passed=$((passed + 1))
        else
            report "$source: no tests/<room>/test_$(basename "$source" .c).c or .sh, and no line of $map"
        fi
        ;;
    esac
done

# ---- a tree of four files, each of which is wrong in turn ----

# refuse WORDS: checks that the check of the toy tree exits with 1 and prints the words.
refuse() {
    if said=$(sh "$here/test_map.sh" "$toy"); then
        report "not noticed: $1"
    elif ! echo "$said" | grep -q -F -e "$1"; then
        report "expected \`$1\`: $said"
    else
        passed=$((passed + 1))
    fi
}
if [ -z "${1:-}" ]; then
    toy=$(mktemp -d)
    trap 'rm -rf "$lines" "$toy"' EXIT
    mkdir -p "$toy/src/core/deep" "$toy/tests/core"
    touch "$toy/src/core/named.c" "$toy/src/core/deep/named.c" "$toy/tests/core/test_named.c" "$toy/tests/core/test_all.sh"
    echo '# tests' >"$toy/tests/map.txt"
    refuse 'src/core/deep/named.c: no tests/<room>/test_named.c or .sh, and no line of tests/map.txt'
    echo 'src/core/deep/*.c tests/core/test_all.sh' >>"$toy/tests/map.txt"
    sh "$here/test_map.sh" "$toy" >/dev/null || report "a tree without a defect is refused"
    for line in 'src/core/named.c tests/core/test_all.sh|no such file without a test of its name' \
        'src/core/gone.c tests/core/test_all.sh|src/core/gone.c: no such file without a test of its name' \
        'src/core/new.c|src/core/new.c: no test' 'src/core/new.c tests/core/test_gone.c|tests/core/test_gone.c does not exist' \
        'src/core/new.c src/core/named.c|src/core/named.c is no test' \
        'src/core/deep/named.c tests/core/test_named.c|src/core/deep/named.c is in two lines'; do
        cp "$toy/tests/map.txt" "$toy/kept"
        case $line in src/core/new.c*) touch "$toy/src/core/new.c" ;; esac
        echo "${line%%|*}" >>"$toy/tests/map.txt"
        refuse "${line#*|}"
        mv "$toy/kept" "$toy/tests/map.txt"
        rm -f "$toy/src/core/new.c"
    done
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
