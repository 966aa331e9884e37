#!/bin/sh
# The files from `make install` are enough to build and run the example, dynamically and statically.
. "$(dirname "$0")/support.sh"

sanitize=
nm "$build/libbrigade.a" 2>/dev/null | grep -q __asan_ && sanitize="-fsanitize=address,undefined"
nm "$build/libbrigade.a" 2>/dev/null | grep -q __tsan_ && sanitize="-fsanitize=thread"

# Only installs and does not build, so that a source that is being edited does not affect this test.
run_make() {
    make -s -C "$root" BUILD="$build" "$@" >"$folder/make.log" 2>&1 || { cat "$folder/make.log"; return 1; }
}

begin_case files
check "make install" run_make install PREFIX="$folder/usr"
for file in bin/brigade lib/libbrigade.a lib/libbrigade.so lib/pkgconfig/brigade.pc include/brigade.h include/brigade/nn.h \
    lib/cmake/brigade/brigade-config.cmake lib/cmake/brigade/brigade-config-version.cmake share/man/man1/brigade.1 \
    share/man/man1/brigade-gpt-pretrain.1 \
    share/man/man3/bg_session_run.3 share/man/man3/brigade_session.3 share/man/man3/BG_ERROR_SHAPE.3 \
    share/man/man3/brigade.3 share/doc/brigade/docs/embedding.md share/doc/brigade/examples/digits.c share/brigade/presets/mnist.json \
    share/bash-completion/completions/brigade share/zsh/site-functions/_brigade share/fish/vendor_completions.d/brigade.fish \
    share/doc/brigade/LICENSE include/brigade/brigade.hpp share/doc/brigade/examples/mlp.cpp share/doc/brigade/examples/mlp.py; do
    check "installed" test -e "$folder/usr/$file"
done
check "no place is left to be filled in" sh -c '! grep -rn "@[A-Z]*@" "$1/lib/cmake" "$1/lib/pkgconfig" "$1/share/man/man3"' sh "$folder/usr"
check "installed program runs" "$folder/usr/bin/brigade" --version >/dev/null
# The program runs from any folder, even one for which it was not built; presets and a text are installed with it.
check "and trains" sh -c 'cd / && BRIGADE_PRESETS= "$1" gpt pretrain --steps 1 --quiet >/dev/null 2>&1' sh "$folder/usr/bin/brigade"

# The Python package finds its library without an environment variable.
begin_case python
. "$root/tests/languages/python.sh"
place=$(find "$folder/usr/lib" -path '*dist-packages/brigade/__init__.py')
check "the package is installed" test -n "$place"
if [ -n "$python" ] && [ -z "$sanitize" ]; then
    check "it loads and knows its library" sh -c 'cd / && unset BRIGADE_LIBRARY && PYTHONPATH="$1" PYTHONDONTWRITEBYTECODE=1 "$2" -c "import brigade; print(brigade._library.PLACE)" | grep -qx "$3/lib/libbrigade.so.1"' \
        sh "${place%/brigade/__init__.py}" "$python" "$(cd "$folder/usr" && pwd -P)"
else
    echo "skipped: no python3 with NumPy (Debian: python3-numpy), or a library with a sanitizer"
    skipped=$((skipped + 1))
fi

# Each function of the headers has the release's version. A program contains this version, so that the loader can refuse
# a library of another release.
begin_case symbols
library=$folder/usr/lib/libbrigade.so
check "soname" sh -c 'readelf -d "$1" | grep -q "SONAME.*\[libbrigade\.so\.$2\]"' sh "$library" "$(sed -n 's/^SOVERSION := //p' "$root/Makefile")"
version=$(sed -n 's/^SYMBOL_VERSION := //p' "$root/Makefile")
unversioned=$(nm -D --defined-only "$library" | awk -v version="@@$version" '$2 == "T" && index($3, version) == 0 { print $3 }')
check "functions without a version: $unversioned" test -z "$unversioned"
check "the version itself" sh -c 'nm -D --defined-only "$1" | grep -q " A $2"' sh "$library" "$version"
"$root/tools/symbols.sh" "$version" "$folder"/usr/include/brigade/*.h | sed -n 's/^ *\(bg_[a-z0-9_]*\);$/\1/p' |
    grep -v '^bg_transport_mpi_' | LC_ALL=C sort >"$folder/declared"
nm -D --defined-only "$library" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort >"$folder/exported"
check "the headers' functions are the library's: $(diff "$folder/declared" "$folder/exported")" cmp -s "$folder/declared" "$folder/exported"

begin_case pkg_config
export PKG_CONFIG_PATH="$folder/usr/lib/pkgconfig"
check "pkg-config knows the version" test "$(pkg-config --modversion brigade)" = "$(cat "$root/VERSION")"

# The installation can be moved to another folder.
mv "$folder/usr" "$folder/moved"
flags=$(PKG_CONFIG_PATH="$folder/moved/lib/pkgconfig" pkg-config --cflags --libs brigade)
check "brigade.pc can be moved: $flags" sh -c 'case $2 in *"$1/usr"*) exit 1 ;; esac; set -- $2; test -e "${1#-I}/brigade.h" && test -e "${2#-L}/libbrigade.so"' sh "$folder" "$flags"
mv "$folder/moved" "$folder/usr"

# right_output FILE: succeeds if the file has loss and accuracy of three epochs, and of a test that is good enough.
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

# Programs that link the shared library do not need the development files of other libraries.
check "pkg-config asks for no other package" test -z "$(pkg-config --print-requires-private brigade)"
# With Brigade's archive and the other libraries shared, the libraries in brigade.pc must be enough.
private="$(sed -n 's/^Libs.private: //p' "$folder/usr/lib/pkgconfig/brigade.pc")"
check "the example links with the archive" ${CC:-cc} -std=c11 $sanitize "$root/examples/digits.c" \
    -I"$folder/usr/include" "$folder/usr/lib/libbrigade.a" \
    $private -o "$folder/digits-static"
check "the static example runs" "$folder/digits-static" >/dev/null

# A small project finds the library after it was moved.
begin_case cmake
if command -v cmake >/dev/null 2>&1; then
    mkdir "$folder/project"
    mv "$folder/usr" "$folder/moved"
    cp "$root/examples/core_digits.c" "$folder/project/"
    cat >"$folder/project/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.16)
project(user C)
set(CMAKE_C_FLAGS "$sanitize")
find_package(brigade $(cut -d . -f 1,2 "$root/VERSION") REQUIRED)
find_package(brigade REQUIRED) # twice does no harm
foreach(kind brigade static)
    add_executable(with_\${kind} core_digits.c)
    target_link_libraries(with_\${kind} PRIVATE brigade::\${kind})
endforeach()
EOF
    check "cmake configures" cmake -S "$folder/project" -B "$folder/project/b" -DCMAKE_PREFIX_PATH="$folder/moved" \
        -DCMAKE_C_COMPILER="$(echo "${CC:-cc}" | sed "s,.* ,,")" >"$folder/cmake.log" 2>&1 || cat "$folder/cmake.log"
    check "cmake builds" cmake --build "$folder/project/b" >"$folder/cmake.log" 2>&1 || cat "$folder/cmake.log"
    for kind in brigade static; do
        check "brigade::$kind runs" "$folder/project/b/with_$kind" >"$folder/$kind.out"
    done
    check "both learn the same" cmp -s "$folder/brigade.out" "$folder/static.out"
    sed 's/find_package(brigade [0-9.]* /find_package(brigade 99.0 /' "$folder/project/CMakeLists.txt" >"$folder/CMakeLists.txt"
    cp "$folder/CMakeLists.txt" "$folder/project/"
    check "another release is refused" sh -c '! cmake -S "$1/project" -B "$1/project/c" -DCMAKE_PREFIX_PATH="$1/moved"' sh "$folder" >/dev/null 2>&1
    mv "$folder/moved" "$folder/usr"
else
    echo "skipped: no cmake"
    skipped=$((skipped + 1))
fi

# The number of libraries that are loaded is that of docs/embedding.md.
begin_case sizes
if [ -z "$sanitize" ]; then
    # loaded FILE: prints the number of libraries that the loader loads for it, without the loader and the vDSO.
    loaded() {
        LC_ALL=C ldd "$1" | grep -cE '=> /|^[[:space:]]*/'
    }
    said() { # row, column of the table of docs/embedding.md
        sed -n "s/^| $1 |/|/p" "$root/docs/embedding.md" | cut -d '|' -f "$2" | tr -dc '0-9.'
    }
    rooms=$(sed -n 's/^CORE_ROOMS := //p' "$root/Makefile")
    objects=
    for room in $rooms; do
        for source in "$root"/src/"$room"/*.c "$root"/src/"$room"/*/*.c; do
            [ -f "$source" ] && name=${source#"$root/"} && objects="$objects $build/${name%.c}.o"
        done
    done
    check "the core links" ${CC:-cc} -shared $objects -Wl,--version-script="$build/gen/symbols.map" -lm -pthread -o "$folder/libcore.so"
    strip -o "$folder/core" "$folder/libcore.so"
    strip -o "$folder/full" "$library"
    strip -o "$folder/program" "$folder/usr/bin/brigade"
    for file in core full program; do
        bytes=$(wc -c <"$folder/$file")
        most=$(said "$file" 2)
        check "$file: $bytes bytes stripped, at most $most MB are promised" awk -v bytes="$bytes" -v most="$most" 'BEGIN { exit bytes <= most * 1000000 ? 0 : 1 }'
    done
    check "the core stays below 3 MB" test "$(wc -c <"$folder/core")" -lt 3000000
    for file in core full program; do
        brought=$(loaded "$folder/$file")
        most=$(said "$file" 3)
        check "$file brings $brought libraries, at most $most are promised" test "$brought" -le "$most"
    done
    check "none of them downloads" sh -c '! ldd "$1/full" "$1/program" | grep -E "curl|ssl|gnutls"' sh "$folder"
else
    skipped=$((skipped + 1))
fi

begin_case destdir
check "make install with DESTDIR" run_make install DESTDIR="$folder/stage" PREFIX=/usr
check "DESTDIR holds the files" test -e "$folder/stage/usr/lib/pkgconfig/brigade.pc"
check "DESTDIR is not in brigade.pc" grep -q '^prefix=/usr$' "$folder/stage/usr/lib/pkgconfig/brigade.pc"
check "make uninstall" run_make uninstall PREFIX="$folder/usr"
check "nothing is left" test -z "$(find "$folder/usr" -type f)"
finish
