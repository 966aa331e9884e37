#!/bin/sh
# docs/architecture.md says how many functions the library exports and how many types its headers have: more of either is
# then a line of a change that one sees. Functions are counted in the library, types as typedefs.
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
functions=$(nm -D --defined-only "$build/libbrigade.so" | awk '$2 == "T" && $3 ~ /^bg_/' | wc -l)
if [ "$said" = "$functions $types" ]; then
    echo "1 passed, 0 failed"
    exit 0
fi
echo "docs/architecture.md says \`${said:-nothing}\` of functions and types; there are $functions $types"
echo "0 passed, 1 failed"
exit 1
