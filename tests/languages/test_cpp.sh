#!/bin/sh
# The C++ wrapper, include/brigade/brigade.hpp, compiles without warnings in each standard from C++11 on. A program that
# uses it runs with the address sanitizer, which checks that all owned objects are freed.
. "$(dirname "$0")/../cli/support.sh"

skip_all() {
    echo "skipped: $*"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
command -v "${CXX:-c++}" >/dev/null 2>&1 || skip_all "no C++ compiler"
nm "$build/libbrigade.a" 2>/dev/null | grep -qE '__(asan|tsan)_' && skip_all "the library has a sanitizer of its own; the plain build tests this"
warnings="-Wall -Wextra -Wpedantic -Wshadow -Werror -Wno-missing-field-initializers"
libraries=$(pkg-config --libs hwloc jansson yaml-0.1 zlib libpng libprotobuf-c)

begin_case header
printf '#include <brigade/brigade.hpp>\n#include <brigade/brigade.hpp>\nint main() {}\n' >"$folder/a.cc"
for standard in 11 14 17 20; do
    check "alone as C++$standard" "${CXX:-c++}" -std=c++$standard $warnings -I"$root/include" -fsyntax-only "$folder/a.cc"
done

begin_case wrapper
for standard in 11 20; do
    check "a program as C++$standard" "${CXX:-c++}" -std=c++$standard $warnings -O0 -fsanitize=address,undefined -I"$root/include" \
        "$root/tests/languages/wrapper.cpp" "$build/libbrigade.a" $libraries -ldl -lm -pthread -o "$folder/wrapper$standard"
    mkdir "$folder/$standard"
    check "runs" sh -c '"$1" "$2" >"$3" 2>&1 || { cat "$3"; false; }' sh "$folder/wrapper$standard" "$folder/$standard" "$folder/out"
    check "every check was made: $(tail -n 1 "$folder/out")" grep -q '^42 passed, 0 failed$' "$folder/out"
done
finish
