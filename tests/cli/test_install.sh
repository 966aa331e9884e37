#!/bin/sh
# What `make install` leaves is enough to build and run the example, dynamically and statically.
. "$(dirname "$0")/support.sh"

sanitize=
nm "$build/libbrigade.a" 2>/dev/null | grep -q __asan_ && sanitize="-fsanitize=address,undefined"
nm "$build/libbrigade.a" 2>/dev/null | grep -q __tsan_ && sanitize="-fsanitize=thread"

# Only installs: an object that is older than a source that is being edited is not this test's business.
run_make() {
    make -s -C "$root" BUILD="$build" "$@" >"$folder/make.log" 2>&1 || { cat "$folder/make.log"; return 1; }
}

check "make install" run_make install PREFIX="$folder/usr"
for file in bin/brigade lib/libbrigade.a lib/libbrigade.so lib/pkgconfig/brigade.pc include/brigade.h include/brigade/nn.h \
    share/man/man1/brigade.1; do
    check "installed" test -e "$folder/usr/$file"
done
check "installed program runs" "$folder/usr/bin/brigade" --version >/dev/null
# From any folder, also where it was not built for: presets and a text come with it.
check "and trains" sh -c 'cd / && BRIGADE_PRESETS= "$1" gpt pretrain --steps 1 --quiet >/dev/null 2>&1' sh "$folder/usr/bin/brigade"

export PKG_CONFIG_PATH="$folder/usr/lib/pkgconfig"
check "pkg-config knows the version" test "$(pkg-config --modversion brigade)" = "$(cat "$root/VERSION")"

# Loss and accuracy of three epochs, then of the test.
right_output() {
    [ "$(grep -c '^train: loss [0-9.]*, accuracy [0-9.]* %$' "$1")" -eq 3 ] &&
        grep -q '^test: loss 0\.[0-9]*, accuracy [0-9.]* %$' "$1" &&
        [ "$(sed -n 's/^test: .* accuracy \([0-9]*\)\..*/\1/p' "$1")" -ge 90 ]
}

check "the example compiles" ${CC:-cc} -std=c11 -Wall -Wextra -Werror $sanitize "$root/examples/digits.c" \
    $(pkg-config --cflags --libs brigade) -o "$folder/digits"
LD_LIBRARY_PATH="$folder/usr/lib" "$folder/digits" >"$folder/digits.out" 2>&1
check "the example ends well" test $? -eq 0
check "the example learns: $(cat "$folder/digits.out")" right_output "$folder/digits.out"

# Brigade's own archive, the other libraries shared: what brigade.pc names must be enough.
private="$(sed -n 's/^Libs.private: //p' "$folder/usr/lib/pkgconfig/brigade.pc")"
check "the example links with the archive" ${CC:-cc} -std=c11 $sanitize "$root/examples/digits.c" \
    -I"$folder/usr/include" "$folder/usr/lib/libbrigade.a" \
    $(pkg-config --libs $(pkg-config --print-requires-private brigade)) $private -o "$folder/digits-static"
check "the static example runs" "$folder/digits-static" >/dev/null

check "make install with DESTDIR" run_make install DESTDIR="$folder/stage" PREFIX=/usr
check "DESTDIR holds the files" test -e "$folder/stage/usr/lib/pkgconfig/brigade.pc"
check "DESTDIR is not in brigade.pc" grep -q '^prefix=/usr$' "$folder/stage/usr/lib/pkgconfig/brigade.pc"
check "make uninstall" run_make uninstall PREFIX="$folder/usr"
check "nothing is left" test -z "$(find "$folder/usr" -type f)"
finish
