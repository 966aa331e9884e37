#!/bin/sh
# The core of the library works without its companions. Linked alone it needs only libc, libm and threads, and an
# example trains the digit network with it. `make MINIMAL=1` builds the same from sources.
. "$(dirname "$0")/support.sh"
cd "$root" || exit 1

rooms=$(sed -n 's/^CORE_ROOMS := //p' Makefile)
objects=
for room in $rooms; do
    for source in src/"$room"/*.c src/"$room"/*/*.c; do
        [ -f "$source" ] && objects="$objects $build/${source%.c}.o"
    done
done
# Finds the sanitizer that the build folder's objects have.
sanitize=
if nm "$build/src/core/error.o" | grep -q __asan_; then sanitize=address,undefined; fi
if nm "$build/src/core/error.o" | grep -q __tsan_; then sanitize=thread; fi
if nm "$build/src/core/error.o" | grep -q __sanitizer_cov_; then sanitize=fuzzer-no-link,address,undefined; fi
link=${CC:-cc}
[ "${sanitize#fuzzer}" = "$sanitize" ] || link=clang
flags=${sanitize:+-fsanitize=$sanitize}

begin_case links_the_c_library_alone
if [ -z "$sanitize" ]; then # a sanitizer links another library
    check "the core refers to nothing but itself, libc, libm and threads" \
        $link -shared -Wl,-z,defs $objects -lm -pthread -o "$folder/libcore.so"
    others=$(LC_ALL=C ldd "$folder/libcore.so" | awk '{ print $1 }' | grep -vE '^(linux-vdso|libc|libm|libpthread|libgcc_s|/lib.*/ld-linux)[^ ]*$|^linux-vdso')
    check "libraries of the core: $others" test -z "$others"
    outside=$(nm -D --undefined-only "$folder/libcore.so" | awk '$1 == "U" && $2 !~ /@(GLIBC|GCC)/ { print $2 }')
    check "symbols that nobody defines: $outside" test -z "$outside"
else
    skipped=$((skipped + 1))
fi

begin_case trains_the_digit_network
check "core_digits links" $link $flags "$build/examples/core_digits.o" $objects -lm -pthread -o "$folder/core_digits"
"$folder/core_digits" >"$folder/out" 2>&1 || fail "core_digits: $(cat "$folder/out")"
awk '/^ *[0-9]+ updates: loss [0-9.]+, [0-9.]+ % right$/ { lines++; loss = $4 + 0; if (lines > 1 && loss >= last) rising++; last = loss; right = $5 + 0 }
    END { exit lines == 4 && !rising && right > 95 ? 0 : 1 }' "$folder/out" && pass || fail "core_digits: $(cat "$folder/out")"
finish
