#!/bin/sh
# The version script of a shared library: each function that the headers declare with BG_API, under one version, and no
# other symbol. For the linker a function that is declared but not defined in this library is not an error.
#
#   tools/symbols.sh VERSION HEADER... > symbols.map
set -eu
version=$1
shift
echo "$version {"
echo "global:"
# A declaration may take several lines, and its function is the first name before a parenthesis. A macro is no declaration.
cat "$@" | awk '
    /^BG_API / { text = ""; is_in = 1 }
    is_in { text = text " " $0 }
    is_in && match(text, /bg_[a-z0-9_]+\(/) { print "    " substr(text, RSTART, RLENGTH - 1) ";"; is_in = 0 }' | LC_ALL=C sort -u
echo "local:"
echo "    *;"
echo "};"
