#!/bin/sh
# The program prints the diagrams on the pages of docs/ideas, and each page is in the index and the glossary.
# tests/docs/pages.sh describes the comparison.
. "$(dirname "$0")/../cli/support.sh"
. "$(dirname "$0")/pages.sh"
prepare_pages

begin_case pictures
for page in "$root"/docs/ideas/*.md; do
    name=$(basename "$page" .md)
    [ "$name" = README ] && continue
    run_page "docs/ideas/$name.md"
    check "$name has pictures" test "$commands" -ge 1
done

begin_case index
for page in "$root"/docs/ideas/*.md; do
    name=$(basename "$page" .md)
    [ "$name" = README ] && continue
    check "$name is in the index" grep -q "]($name.md)" "$root/docs/ideas/README.md"
    check "$name is in the glossary" grep -q "](ideas/$name.md)" "$root/docs/glossary.md"
done
finish
