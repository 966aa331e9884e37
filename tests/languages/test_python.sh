#!/bin/sh
# The Python package needs only Debian's python3 and python3-numpy.
. "$(dirname "$0")/../cli/support.sh"
. "$root/tests/languages/python.sh"

skip_all() {
    echo "skipped: $*"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
[ -n "$python" ] || skip_all "no python3 with NumPy (Debian: python3-numpy)"
nm "$build/libbrigade.a" 2>/dev/null | grep -qE '__(asan|tsan)_' && skip_all "python3 cannot load a library with a sanitizer; the plain build tests this"
export PYTHONPATH="$root/python" PYTHONDONTWRITEBYTECODE=1
export BRIGADE_LIBRARY="$build/libbrigade.so.1"

begin_case generated
for part in "python python/brigade/_abi.py" "structs src/bindings/structs.def"; do
    check "${part#* } is what the headers give (tools/make_bindings.py ${part% *})" sh -c '"$1" "$2/tools/make_bindings.py" "$3" | cmp - "$2/$4"' \
        sh "$python" "$root" ${part% *} "${part#* }"
done

begin_case package
"$python" "$root/tools/make_bindings.py" layout >"$folder/layout.c"
check "the layout compiles" ${CC:-cc} -std=c11 -I"$root/include" "$folder/layout.c" -o "$folder/layout"
"$folder/layout" >"$folder/layout.txt"
check "the package works" sh -c '"$@" >"$0" 2>&1 || { cat "$0"; false; }' "$folder/out" "$python" "$root/tests/languages/package.py" "$folder" "$folder/layout.txt"
check "every check was made: $(tail -n 1 "$folder/out")" grep -q '^101 passed, 0 failed$' "$folder/out"

# A library of another release or with another layout is refused when the package is loaded; the error contains both
# numbers.
begin_case refused
refuses() { # WORDS C-SOURCE
    printf '%s\n' "$2" >"$folder/other.c"
    ${CC:-cc} -shared -fPIC "$folder/other.c" -o "$folder/other.so" || return 1
    ! BRIGADE_LIBRARY=$folder/other.so "$python" -c 'import brigade' 2>"$folder/err" && tail -n 1 "$folder/err" | grep -q "^ImportError: .*$1"
}
ours="const char *bg_version(void) { return \"$(cat "$root/VERSION")\"; } typedef unsigned long z;"
check "another release" refuses "other.so is Brigade 7.3.1 but this package is for" 'const char *bg_version(void) { return "7.3.1"; } unsigned long bg_struct_bytes(const char *n) { return n != 0; }'
check "another layout" refuses "has 1 bytes in .* in this package" "$ours z bg_struct_bytes(const char *n) { return n != 0; }"
check "no Brigade" refuses "not a Brigade library" "int none;"
check "a library that is not there" sh -c '! BRIGADE_LIBRARY=/none/libbrigade.so.1 "$1" -c "import brigade" 2>"$2" && grep -q "set BRIGADE_LIBRARY" "$2"' sh "$python" "$folder/err"
finish
