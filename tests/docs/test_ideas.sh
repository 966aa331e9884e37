#!/bin/sh
# The pages of docs/ideas: the program prints the pictures that they show, and each page is in the index and the glossary.
# tests/docs/pages.sh says what is compared, and how.
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
