#!/bin/sh
# The library has the binary interface of the baseline (abi/) or another SONAME, and the check detects changes.
. "$(dirname "$0")/../cli/support.sh"

library=$build/libbrigade.so
if ! command -v abidw >/dev/null || [ "$(uname -m)" != x86_64 ] || nm "$build/libbrigade.a" 2>/dev/null | grep -q '__[at]san_'; then
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
begin_case baseline
"$root/tools/abi.sh" check "$library" >"$folder/check.out" 2>&1
check "nothing changed under one SONAME: $(cat "$folder/check.out")" test $? -eq 0
end_case

# The check detects a struct with another size, and a missing function.
begin_case noticed
"$root/tools/abi.sh" write "$library" "$folder/own.gz"
check "a library has its own interface" "$root/tools/abi.sh" check "$library" "$folder/own.gz" >/dev/null
gzip -dc "$folder/own.gz" >"$folder/abi.xml"
sed "s/\(class-decl name='bg_run' size-in-bits='\)[0-9]*/\164/" "$folder/abi.xml" | gzip -n >"$folder/size.gz"
sed "s/name='bg_version'/name='bg_was_here'/" "$folder/abi.xml" | gzip -n >"$folder/function.gz"
for change in size function; do
    check "the baseline for $change differs" sh -c 'gzip -dc "$1" | cmp -s - "$2"; test $? -eq 1' sh "$folder/$change.gz" "$folder/abi.xml"
    "$root/tools/abi.sh" check "$library" "$folder/$change.gz" >"$folder/$change.out" 2>&1
    check "a changed $change is noticed" test $? -eq 1
done
check "a struct is named" grep -q 'bg_run' "$folder/size.out"
check "a function is named" grep -q 'bg_was_here' "$folder/function.out"
# Under another SONAME changes are expected and only counted.
sed "s/soname='libbrigade.so.[0-9]*'/soname='libbrigade.so.999'/; s/name='bg_version'/name='bg_was_here'/" "$folder/abi.xml" |
    gzip -n >"$folder/soname.gz"
check "another SONAME may change" "$root/tools/abi.sh" check "$library" "$folder/soname.gz" >"$folder/soname.out"
check "what is gone is counted" grep -q 'summary: 1 Removed' "$folder/soname.out"
end_case
finish
