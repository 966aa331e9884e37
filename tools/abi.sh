#!/bin/sh
# Compares the library's binary interface with that of the last release (Debian: abigail-tools).
#
#   tools/abi.sh check LIBRARY [BASELINE]   prints the changes since; fails when a program compiled for the baseline
#                                           could be loaded with this library but not run with it
#   tools/abi.sh write LIBRARY [BASELINE]   makes this library's interface the baseline
#
# LIBRARY is a libbrigade.so built with debug information, on x86-64. The baseline, abi/libbrigade.abi.gz, is abidw's
# description of the functions and types of the public headers. New functions are not a change. Old programs do not load
# a library of another SONAME, so its changes are only counted.
set -eu
[ $# -ge 2 ] || { echo "usage: tools/abi.sh check|write LIBRARY [BASELINE]" >&2; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)
library=$2
baseline=${3:-$root/abi/libbrigade.abi.gz}
if [ "$(uname -m)" != x86_64 ]; then
    echo "skipped: the baseline is of x86-64"
    exit 0
fi
made=$(mktemp)
old=$(mktemp)
trap 'rm -f "$made" "$old"' EXIT
abidw --headers-dir "$root/include/brigade" --drop-private-types --drop-undefined-syms --no-show-locs --no-corpus-path \
    --no-comp-dir-path "$library" >"$made"

soname() { # description
    sed -n "s/^<abi-corpus .*soname='\([^']*\)'.*/\1/p" "$1" | head -n 1
}

case $1 in
write)
    gzip -9n <"$made" >"$baseline"
    ;;
check)
    gzip -dc "$baseline" >"$old"
    before=$(soname "$old")
    now=$(soname "$made")
    if [ "$before" != "$now" ]; then
        echo "The library is $now and the baseline $before; changes since:"
        abidiff --no-added-syms --stat "$old" "$made" || [ $? -ge 4 ] || exit 1
        exit 0
    fi
    abidiff --no-added-syms "$old" "$made" && exit 0
    echo "The binary interface differs from the baseline; docs/architecture.md (Binary interface) says what to do."
    exit 1
    ;;
*)
    echo "tools/abi.sh: unknown command $1; use check or write" >&2
    exit 2
    ;;
esac
