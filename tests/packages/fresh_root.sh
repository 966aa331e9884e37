#!/bin/sh
# Installs the packages of `make deb` into a fresh Debian system (debootstrap). There it runs the program, and builds or
# runs programs in each language against the installed library. Beyond the packages' dependencies, these need only a
# compiler or an interpreter.
#
#   tests/packages/fresh_root.sh FOLDER    where the .deb files are
#
# The test is skipped, with the reason, without root, debootstrap, the permission to mount, or a Debian mirror.
# BRIGADE_DEBIAN_MIRROR is the mirror, by default deb.debian.org. The release is that of this system, for which the
# packages were built.
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
packages=$(cd "$1" && pwd)
passed=0 failed=0
work=
skip() {
    echo "skipped: $*"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
clean() {
    [ -z "$work" ] || {
        umount "$work/root/proc" 2>/dev/null
        rm -rf --one-file-system "$work"
    }
}
check() { # NAME COMMAND...
    check_name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $check_name: $*"
        tail -n 15 "$work/log"
    fi
}

[ -z "${BRIGADE_TEST_QUICK:-}" ] || skip "BRIGADE_TEST_QUICK"
[ "$(id -u)" -eq 0 ] || skip "needs root"
command -v debootstrap >/dev/null 2>&1 || skip "no debootstrap"
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
mirror=${BRIGADE_DEBIAN_MIRROR:-http://deb.debian.org/debian}
[ -n "$release" ] || skip "this system does not say which release of Debian it is"
[ -e "/usr/share/debootstrap/scripts/$release" ] || skip "debootstrap does not know $release"
work=$(mktemp -d)
trap clean EXIT
trap 'exit 1' INT TERM
chmod 755 "$work"
root=$work/root

timeout 60 debootstrap --print-debs --variant=minbase "$release" "$work/names" "$mirror" >"$work/log" 2>&1 ||
    skip "no Debian mirror at $mirror ($(tail -n 1 "$work/log"))"
debootstrap --variant=minbase "$release" "$root" "$mirror" >"$work/log" 2>&1 ||
    skip "debootstrap is not permitted here ($(tail -n 1 "$work/log"))"
mount -t proc proc "$root/proc" 2>/dev/null

inside() {
    LC_ALL=C DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"
}
install() {
    inside apt-get install -q -y --no-install-recommends "$@"
}
cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null
mkdir "$root/packages"
cp "$packages"/*.deb "$root/packages/"
inside apt-get update -q >"$work/log" 2>&1
version=$(cat "$here/VERSION")
of() { # NAME: prints the path of its file in the fresh system
    (cd "$root" && ls -1 packages/"$1"_"$version"_*.deb | sed 's,^,/,')
}

# Installs the program with the packages that it depends on, and no others.
check "the program installs" install "$(of brigade)"
check "it trains" inside brigade gpt pretrain --steps 1 --quiet
check "it says that libcurl is missing" sh -c '! LC_ALL=C chroot "$1" brigade mnist --download --data-dir /tmp/none >/dev/null 2>"$2" && grep -q "install it (Debian: libcurl4)" "$2"' sh "$root" "$work/curl"

check "the library installs" install "$(of libbrigade1)" "$(of libbrigade-dev)" gcc g++ libc6-dev pkg-config
examples=$root/usr/share/doc/brigade/examples
check "examples are there" test -f "$examples/digits.c"
compile() { # COMPILER STANDARD SOURCE PROGRAM
    inside sh -c "$1 -std=$2 -Wall -Werror /usr/share/doc/brigade/examples/$3 \$(pkg-config --cflags --libs brigade) -o /tmp/$4"
}
check "a C program is built" compile gcc c11 core_digits.c c
check "and trains" inside /tmp/c
check "a C++ program is built" compile g++ c++11 mlp.cpp cpp
check "its C form too" compile gcc c11 mlp.c mlp
check "the Python package installs" install "$(of python3-brigade)"
inside /tmp/mlp pipelined >"$work/mlp.c" 2>&1
inside /tmp/cpp pipelined >"$work/mlp.cpp" 2>&1
inside python3 /usr/share/doc/brigade/examples/mlp.py pipelined >"$work/mlp.py" 2>&1
check "C learns: $(cat "$work/mlp.c")" grep -q '^mlp: loss .*; weights [0-9a-f]*$' "$work/mlp.c"
check "C++ has the same bits: $(cat "$work/mlp.cpp")" cmp "$work/mlp.c" "$work/mlp.cpp"
check "Python has the same bits: $(cat "$work/mlp.py")" cmp "$work/mlp.c" "$work/mlp.py"
check "all packages can be removed" inside dpkg --purge $(cd "$packages" && for file in *.deb; do echo "${file%%_*}"; done | grep -vE -- '-(openmpi|mpich)$')
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
