#!/bin/sh
# Holds the documents against the tree: C code of docs/custom-ops.md stands in the test it is taken from, relative links
# and files named in backquotes exist.
cd "$(dirname "$0")/../.." || exit 1
passed=0 failed=0
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

result() { # what, findings ("" is good)
    if [ -n "$2" ]; then
        printf '%s:\n%s\n' "$1" "$2"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
}

# Code: every line of a C block, in order, without gaps inside a function.
awk -v out="$scratch/block" '/^```c$/ { n++; on = 1; next } /^```$/ { on = 0 } on { print > (out n) }' docs/custom-ops.md
count=0
for block in "$scratch"/block*; do
    [ -f "$block" ] || continue
    count=$((count + 1))
    # Blocks are paragraphs of the test put together: each must be there word for word.
    result "docs/custom-ops.md, C block ${block##*block}" "$(awk '
        NR == FNR { text = text $0 "\n"; next }
        { if ($0 == "" && (last == "}" || last == "};")) { look(); part = "" } else part = part $0 "\n"; last = $0 }
        function look() { if (part != "" && index(text, part) == 0) { print "not in the test:"; printf "%s", part } }
        END { look() }' tests/ops/test_check.c "$block")"
done
result "docs/custom-ops.md has code" "$([ "$count" -gt 0 ] || echo none)"

for document in README.md CHANGELOG.md docs/*.md; do
    folder=$(dirname "$document")
    result "$document: links" "$(grep -oE '\]\([^)#]+' "$document" | sed 's/^](//' | grep -vE '^https?:' | while read -r link; do
        [ -e "$folder/$link" ] || echo "$link"; done)"
    result "$document: files" "$(grep -oE '`(src|tests|include|bench|tools|examples|docs)/[A-Za-z0-9_./-]+`' "$document" |
        tr -d '`' | while read -r name; do [ -e "$name" ] || echo "$name"; done)"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
