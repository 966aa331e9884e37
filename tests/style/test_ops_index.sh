#!/bin/sh
# Compares docs/ops.md with the headers. The page has every function that adds an op, and every elementwise function,
# comparison, reduction, loss, padding, interpolation and logical function that they accept. It names none that does not
# exist.
. "$(dirname "$0")/../cli/support.sh"
cd "$root" || exit 1
page=docs/ops.md

# builders: prints the functions of two headers that return values of a graph.
builders() {
    sed -n 's/^BG_API bg_value \(bg_[a-z0-9_]*\)(.*/\1/p' include/brigade/ops.h include/brigade/nn.h
}

# choices: prints the constants of enumerations in ops.h that select what an op does.
choices() {
    awk '/^typedef enum bg_(unary|binary|comparison|reduction|pointwise_loss_function|pad_mode|interpolation|coordinates|nearest|logic) / { is_in = 1 }
        is_in && !/typedef.*{ *$/ && !/^}/
        /}/ { is_in = 0 }' include/brigade/ops.h | grep -o 'BG_[A-Z0-9_]*' | grep -v '_COUNT$' | sort -u
}

begin_case everything_is_there
check "there are builders" test "$(builders | wc -l)" -gt 50
check "there are choices" test "$(choices | wc -l)" -gt 50
for name in $(builders) $(choices); do
    check "$page has $name" grep -q "\`$name\`" "$page"
done

begin_case the_tables_are_current
index=$build/tests/ops/index_page
check "there are sections" test "$("$index" --sections | wc -l)" -gt 4
for section in $("$index" --sections); do
    check "$page has the section $section" grep -qxF "<!-- ops: $section -->" "$page"
done
"$index" "$page" >"$folder/page"
diff "$page" "$folder/page" >"$folder/difference"
check "$page, and what make tables writes: $(cat "$folder/difference")" test $? -eq 0

begin_case nothing_else_is_there
for name in $(grep -o '`[bB][gG]_[A-Za-z0-9_]*`' "$page" | tr -d '\140' | sort -u); do
    check "$name, which $page has, exists" grep -qw "$name" include/brigade/ops.h include/brigade/nn.h
done
finish
