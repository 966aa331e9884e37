#!/bin/sh
# Checks docs/adding-an-op.md on a real op: the files that mention the op are those of the page, each table has one row
# for each of its kernels, and the page's code is that of the files. The test also checks that the functions of every
# kernel are in the folder of its family.
. "$(dirname "$0")/../cli/support.sh"
cd "$root" || exit 1
page=docs/adding-an-op.md
op=log_softmax

# listed: prints the files in the page's table.
listed() {
    sed -n 's/^| `\([^`]*\)` |.*/\1/p' "$page" | sort
}

# speaking ROOT: prints the source and test files that mention the op, except this script.
speaking() {
    (cd "$1" && grep -rliI "$op" src include tests bench examples 2>/dev/null | grep -v '^tests/style/test_adding_an_op.sh$' | sort)
}

begin_case files
listed >"$folder/listed"
check "the page lists files" test "$(wc -l <"$folder/listed")" -gt 5
speaking . >"$folder/speaking"
diff "$folder/listed" "$folder/speaking" >"$folder/difference"
check "files listed (<) and files that speak of $op (>): $(cat "$folder/difference")" test $? -eq 0

begin_case one_more
# Tests the check with one file more, as if the op were registered elsewhere.
mkdir -p "$folder/copy/src/kernels"
cp -r src include tests bench examples "$folder/copy/"
echo "BGI_CHOICE(bgi_cpu_$op)" >>"$folder/copy/src/kernels/cpu/choose.c"
speaking "$folder/copy" >"$folder/speaking"
check "a file more is noticed" test "$(diff "$folder/listed" "$folder/speaking")" = "$(diff "$folder/listed" "$folder/speaking" |
    sed -n 1p)
> src/kernels/cpu/choose.c"

begin_case rows
for name in "$op" "${op}_backward"; do
    upper=$(echo "$name" | tr a-z A-Z)
    check "$name: one row in the ops table" test "$(grep -o "OP($name)" src/ops/ops.h | wc -l)" -eq 1
    check "$name: one row in the kernels table" test "$(grep -c "^BGI_FAST_KERNEL($upper, $name, " src/kernels/kernels.def)" -eq 1
    check "$name: nothing but a row in the kernels table" \
        test "$(grep -ciE "(^|[^a-z_])$name[^a-z_]" src/kernels/kernels.def)" -eq 1
done

begin_case code
# Each code block of the page names its file and is in that file unchanged.
awk -v out="$folder/block" '/^```c / { n++; on = 1; print $2 > (out n ".file"); next } /^```$/ { on = 0 } on { print > (out n) }' "$page"
count=0
for block in "$folder"/block*.file; do
    [ -f "$block" ] || continue
    count=$((count + 1))
    file=$(cat "$block")
    check "$file has: $(cat "${block%.file}")" awk '
        NR == FNR { text = text $0 "\n"; next }
        { part = part (part == "" ? "" : "\n") $0 }
        END { exit part == "" || index(text, part) == 0 }' "$file" "${block%.file}"
done
check "the page has code" test "$count" -gt 5

begin_case families
# A section of kernels.def is a family, whose folder has the plain body, shape and fast body. Families with attributes
# or fast bodies are in the list at the head.
family= kernels=0
while read -r line; do
    case $line in
    '/* ---- '*' ---- */')
        family=${line#/\* ---- }
        family=${family%% *}
        check "family $family has a folder" test -d "src/kernels/$family"
        [ ! -f "src/kernels/$family/attributes.h" ] ||
            check "family $family is in the list" grep -q "^#include BGI_FAMILY_FILE($family)\$" src/kernels/kernels.def
        ;;
    'BGI_KERNEL('* | 'BGI_FAST_KERNEL('*)
        name=$(echo "$line" | sed 's/^[A-Z_]*([A-Z0-9_]*, \([a-z0-9_]*\),.*/\1/')
        kernels=$((kernels + 1))
        check "$name: plain body in $family" grep -qs "^void bgi_reference_$name(" src/kernels/"$family"/*.c
        case $line in
        'BGI_FAST_KERNEL('*)
            check "$name: shape in $family" grep -qs "^bool bgi_cpu_shape_$name(" src/kernels/"$family"/fast.c
            check "$name: fast body in $family" grep -qs "^static void run_$name(" src/kernels/"$family"/*_body.h
            ;;
        esac
        ;;
    esac
done <<END
$(sed -n '/^#else/,$p' src/kernels/kernels.def)
END
check "kernels are counted" test "$kernels" -gt 70
finish
