#!/bin/sh
# C, C++ and Python train one model to the same bits, under several strategies.
. "$(dirname "$0")/../cli/support.sh"
. "$root/tests/languages/python.sh"

libraries=$(pkg-config --libs hwloc jansson yaml-0.1 zlib libpng libprotobuf-c)
sanitized=
nm "$build/libbrigade.a" 2>/dev/null | grep -qE '__(asan|tsan)_' && sanitized=yes
for strategy in single pipelined phased; do
    "$build/examples/mlp" $strategy >"$folder/$strategy.c"
done

begin_case c
check "C says what it has learned" grep -qE '^mlp: loss 0\.[0-9]+, after 200 updates 0\.[0-9]+; weights [0-9a-f]{16}$' "$folder/single.c"

begin_case cpp
if [ -z "$sanitized" ] && command -v "${CXX:-c++}" >/dev/null 2>&1; then
    check "mlp.cpp compiles" "${CXX:-c++}" -std=c++11 -Wall -Wextra -Werror -I"$root/include" "$root/examples/mlp.cpp" \
        "$build/libbrigade.a" $libraries -ldl -lm -pthread -o "$folder/mlp"
    for strategy in single pipelined phased; do
        "$folder/mlp" $strategy >"$folder/$strategy.cpp"
        check "C++, $strategy: $(cat "$folder/$strategy.cpp")" cmp "$folder/$strategy.c" "$folder/$strategy.cpp"
    done
    check "an error is a line" sh -c '! "$1" fast 2>&1 | grep -q "^mlp: .*fast" || exit 0; exit 1' sh "$folder/mlp"
else
    echo "skipped: no C++ compiler, or a library with a sanitizer"
    skipped=$((skipped + 1))
fi

begin_case python
if [ -z "$sanitized" ] && [ -n "$python" ]; then
    export PYTHONPATH="$root/python" BRIGADE_LIBRARY="$build/libbrigade.so.1" PYTHONDONTWRITEBYTECODE=1
    for strategy in single pipelined phased; do
        "$python" "$root/examples/mlp.py" $strategy >"$folder/$strategy.py"
        check "Python, $strategy: $(cat "$folder/$strategy.py")" cmp "$folder/$strategy.c" "$folder/$strategy.py"
    done
else
    echo "skipped: no python3 with NumPy (Debian: python3-numpy), or a library with a sanitizer"
    skipped=$((skipped + 1))
fi
finish
