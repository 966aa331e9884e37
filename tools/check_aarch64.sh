#!/bin/sh
# Builds the core for aarch64, without companions, and tests it under an emulator: the digit network of
# examples/core_digits.c, every kernel with NEON and with portable vectors against the plain C ones, and the recorded bits
# of training.
#
#   tools/check_aarch64.sh [BUILD]            also: make check-aarch64
#   CROSS=aarch64-linux-gnu-                  the compiler's prefix
#
# On Debian it needs the packages gcc-aarch64-linux-gnu and qemu-user, and, of the architecture arm64
# (`dpkg --add-architecture arm64`), libcmocka-dev. Without them the script skips its tests.
# Ends with "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
build=${1:-${BUILD:-build-aarch64}}
cross=${CROSS:-aarch64-linux-gnu-}
tests=$(ls tests/kernels/test_*.c tests/parity/test_recorded.c tests/transport/test_add.c | sed 's|^tests/||' |
    grep -v -E -- "${BRIGADE_TEST_EXCLUDE:-^$}" | sed 's|^|tests/|')

skip() {
    echo "skipped: $1"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
for needed in "${cross}gcc" "${cross}ar" qemu-aarch64; do
    command -v "$needed" >/dev/null 2>&1 || skip "there is no $needed"
done
printf '#include <stdarg.h>\n#include <stddef.h>\n#include <setjmp.h>\n#include <stdint.h>\n#include <cmocka.h>\nint main(void) { return 0; }\n' |
    "${cross}gcc" -x c - -lcmocka -o /dev/null 2>/dev/null || skip "there is no libcmocka-dev of arm64"

# SOURCES: prints the programs that are built from them.
built() { for source in "$@"; do echo "$build/${source%.c}"; done; }

# shellcheck disable=SC2046,SC2086
if ! make -s -j"$(getconf _NPROCESSORS_ONLN)" MINIMAL=1 BUILD="$build" CC="${CCACHE:+$CCACHE }${cross}gcc" AR="${cross}ar" CFLAGS=-Werror all $(built $tests); then
    echo "the build for aarch64 failed"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi
echo "examples/core_digits"
qemu-aarch64 "$build/examples/core_digits" || {
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}
BRIGADE_TEST_RUNNER=qemu-aarch64 tests/run.sh "$build"
