#!/bin/sh
# Writes the version script of a shared library: each function that the headers declare with BG_API, under one version,
# and no other symbol. The linker ignores declared functions that this library does not define.
#
#   tools/symbols.sh VERSION HEADER... > symbols.map
set -eu
version=$1
shift
echo "$version {"
echo "global:"
# A declaration may have several lines; its function is the first name before a parenthesis. A macro is not a declaration.
cat "$@" | awk '
    /^BG_API / { text = ""; is_in = 1 }
    is_in { text = text " " $0 }
    is_in && match(text, /bg_[a-z0-9_]+\(/) { print "    " substr(text, RSTART, RLENGTH - 1) ";"; is_in = 0 }' | LC_ALL=C sort -u
echo "local:"
echo "    *;"
echo "};"
