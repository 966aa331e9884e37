#!/bin/sh
# docs/architecture.md says how many functions the library exports, also for each group of headers, and how many types the
# headers have. So a change that adds a function or a type also changes that page. Functions are counted in the library,
# types as typedefs.
cd "$(dirname "$0")/../.." || exit 1
build=${BRIGADE_BUILD:-build}
said=$(sed -nE 's/^The library exports ([0-9]+) functions, and its headers have ([0-9]+) types.*/\1 \2/p' docs/architecture.md)
# A typedef ends with the first semicolon outside braces.
types=$(awk '
    $1 == "typedef" {
        is_in = 1
        depth = 0
    }
    is_in {
        depth += gsub(/\{/, "{") - gsub(/\}/, "}")
        if (depth == 0 && /;/) {
            count++
            is_in = 0
        }
    }
    END { print count }' include/brigade/*.h)
names=$(mktemp) || exit 1
trap 'rm -f "$names"' EXIT
nm -D --defined-only "$build/libbrigade.so" | awk '$2 == "T" && $3 ~ /^bg_/ { sub(/@.*/, "", $3); print $3 }' | sort -u >"$names"
functions=$(wc -l <"$names")
wrong=0
if [ "$said" != "$functions $types" ]; then
    echo "docs/architecture.md says \`${said:-nothing}\` of functions and types; there are $functions $types"
    wrong=1
fi
# Rows of the table: | `a.h`, `b.h` | number | subject |
sed -nE 's/^\| (`[a-z_]+\.h`(, `[a-z_]+\.h`)*) \| ([0-9]+) \|.*/\3 \1/p' docs/architecture.md | tr -d '`,' | {
    total=0
    while read -r number headers; do
        # shellcheck disable=SC2086
        found=$(cd include/brigade && cat $headers | tr '\n' ' ' | sed 's,/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/,,g' | grep -oE 'bg_[a-z0-9_]+\(' | tr -d '(' | sort -u | comm -12 - "$names" | wc -l)
        [ "$found" = "$number" ] || echo "docs/architecture.md says $number functions in $headers; there are $found"
        [ "$found" = "$number" ] || wrong=1
        total=$((total + number))
    done
    [ "$total" = "$functions" ] || echo "docs/architecture.md says $total functions in its table; there are $functions"
    [ "$total" = "$functions" ] || wrong=1
    [ "$wrong" = 0 ]
} || {
    echo "0 passed, 1 failed"
    exit 1
}
echo "1 passed, 0 failed"
