#!/bin/sh
# Compares the documents with the tree: the C code of docs/custom-ops.md is in its test, and relative links, anchors,
# and files in backquotes exist.
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
    # A block consists of paragraphs of the test; each must be in the test unchanged.
    result "docs/custom-ops.md, C block ${block##*block}" "$(awk '
        NR == FNR { text = text $0 "\n"; next }
        { if ($0 == "" && (last == "}" || last == "};")) { look(); part = "" } else part = part $0 "\n"; last = $0 }
        function look() { if (part != "" && index(text, part) == 0) { print "not in the test:"; printf "%s", part } }
        END { look() }' tests/ops/test_check.c "$block")"
done
result "docs/custom-ops.md has code" "$([ "$count" -gt 0 ] || echo none)"

# Prints the anchors of a page, one per line, as GitHub makes them from headings.
anchors() {
    awk '/^```/ { fence = !fence; next } !fence && /^#+ / { sub(/^#+ +/, ""); print tolower($0) }' "$1" |
        sed -E -e 's/\[([^]]*)\]\([^)]*\)/\1/g' -e 's/[^a-z0-9 _-]//g' -e 's/ /-/g'
}

for document in README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md examples/README.md docs/*.md docs/*/*.md; do
    folder=$(dirname "$document")
    result "$document: anchors" "$(grep -oE '\]\([^):]*#[^)]+' "$document" | sed 's/^](//' | while read -r link; do
        page=${link%%#*}
        [ -z "$page" ] && page=$document || page=$folder/$page
        case $page in *.md) anchors "$page" | grep -qxF -e "${link#*#}" || echo "$link" ;; esac
    done)"
    result "$document: links" "$(grep -oE '\]\([^)#]+' "$document" | sed 's/^](//' | grep -vE '^https?:' | while read -r link; do
        [ -e "$folder/$link" ] || echo "$link"; done)"
    result "$document: files" "$(grep -oE '`(src|tests|include|bench|tools|examples|docs)/[A-Za-z0-9_./-]+`' "$document" |
        tr -d '`' | while read -r name; do [ -e "$name" ] || echo "$name"; done)"
done
result "CITATION.cff has the version" "$(grep -qx "version: $(cat VERSION)" CITATION.cff || echo "not $(cat VERSION)")"
# Code paths: "`file` (`function`, ...)" is a function of that file.
code_paths() {
    awk '/^## Code paths/ { on = 1; next } /^## / { on = 0 } on' "$1" | tr '\n' ' ' |
        grep -oE '`[A-Za-z0-9_./-]+/[A-Za-z0-9_.-]+` \((`[a-z0-9_]+`(, +)?)+\)' | tr -d '`(),' | tr -s ' '
}
missing() { # document
    code_paths "$1" | while read -r file names; do
        for name in $names; do
            grep -qE "(^|[^a-z0-9_])$name\(" "$file" || echo "$file has no $name"
        done
    done
}
result "docs/architecture.md: functions of the code paths" "$(missing docs/architecture.md)"
result "docs/architecture.md has code paths with functions" "$([ "$(code_paths docs/architecture.md | wc -l)" -gt 25 ] || echo too few)"
sed 's/`bgi_engine_run`/`bgi_engine_walk`/' docs/architecture.md >"$scratch/other.md"
result "a function that is not there is told" "$([ "$(missing "$scratch/other.md")" = 'src/runtime/engine_run.c has no bgi_engine_walk' ] || missing "$scratch/other.md"; echo)"
# Documents do not mention a path that only developers of this repository have.
result "documents name no place of the developers" "$(grep -n 'shared/data' README.md docs/*.md docs/*/*.md share/presets/README.md)"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
