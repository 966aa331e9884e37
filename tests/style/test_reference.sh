#!/bin/sh
# In the reference every public symbol has the tags that apply to it and a page, and the headers state thread rules.
. "$(dirname "$0")/../cli/support.sh"
if ! command -v python3 >/dev/null 2>&1; then
    echo "no Python to make the reference with"
    skipped=$((skipped + 1))
    finish
    exit
fi

# A copy of the reference's sources, from which the test removes tags.
mkdir "$folder/copy"
cp -r "$root/include" "$root/examples" "$root/abi" "$root/tools" "$root/VERSION" "$root/Makefile" "$folder/copy"
cd "$folder" || exit 1
made="python3 copy/tools/make_reference.py"

begin_case tags
$made check >tags.out
check "every symbol has its tags: $(head -n 3 tags.out)" test $? -eq 0
check "they are many" test "$(sed -n 's/^\([0-9]*\) symbols .*/\1/p' tags.out)" -ge 800
for header in copy/include/brigade/*.h; do
    case $header in */core.h) continue ;; esac
    check "$header says which threads may call it" grep -q '^ \* Threads: ' "$header"
done
# Without the tag's line, the check names the symbol and the tag.
mkdir saved
cp -r copy/include copy/abi saved
sed -i '/^ \* Threads: /,+1d' copy/include/brigade/mesh.h
sed -i '/^ \* Shapes: the result has/s/Shapes/shapes/' copy/include/brigade/ops.h
sed -i 's/Owner: \*out/*out/' copy/include/brigade/checkpoint.h
sed -i '/^bg_session_run /d' copy/abi/since.txt
$made check >dropped.out
while read -r name tag; do
    check "$name without $tag is found" grep -q -w "$name has no .*$tag" dropped.out
done <<END
bg_mesh_group_size Threads
bg_relu Shapes
bg_checkpoint_begin Owner
bg_session_run Since
END
rm -r copy/include copy/abi
mv saved/* copy

begin_case pages
rm -rf man html
$made man man && $made html html
# Every name that the headers declare, found without the reader of comments.
sed -n 's/^BG_API .*\b\(bg_[a-z0-9_]*\)(.*/\1/p' copy/include/brigade/*.h | sort -u >names
sed -n 's/^} \(bg_[a-z0-9_]*\);$/\1/p; s/^typedef struct \(bg_[a-z0-9_]*\) bg_.*;$/\1/p' copy/include/brigade/*.h | sort -u >>names
check "names are found" test "$(wc -l <names)" -ge 750
ls man | sed 's/\.3$//' | sort >paged
grep -o '\["[A-Za-z_0-9]*", "[a-z]' html/search-index.js | cut -d '"' -f 2 | sort -u >found
sort -u names | comm -23 - paged >missing
sort -u names | comm -23 - found >>missing
check "each has a page and is found: $(head -n 3 missing)" test ! -s missing
check "constants lead to their types" grep -q '^\.so man3/bg_status\.3$' man/BG_ERROR_SHAPE.3
check "a page has its parts" test "$(grep -c -x -e '\.SH ERRORS' -e '\.SH THREADS' -e '\.SH OWNERSHIP' -e '\.SH SINCE' \
    -e '\.SH EXAMPLES' man/bg_plan_create_training.3)" -eq 5
check "thread rules of sessions come from session.h" grep -q 'One thread at a time uses weights' man/bg_session_run.3
if command -v man >/dev/null && man --version >/dev/null 2>&1; then
    for name in bg_plan_create_training bg_options brigade_session; do
        check "man formats $name" test -z "$(man --warnings -l "man/$name.3" 2>&1 >/dev/null)"
    done
fi
python3 copy/tools/make_site.py --check html >links.out
check "links of the reference: $(head -n 3 links.out)" test $? -eq 0
sed -i 's/href="session-h.html#bg_session_run"/href="session-h.html#bg_session_runs"/' html/feed-h.html
check "a wrong one is found" sh -c '! python3 copy/tools/make_site.py --check html' >wrong.out
check "by its name" grep -q 'feed-h.html: session-h.html#bg_session_runs has no such anchor' wrong.out
finish
