#!/bin/sh
# The table of models: another model needs one file and one row, from which the program gets its command, plan and help.
. "$(dirname "$0")/support.sh"
cd "$root" || exit 1

# Finds the sanitizer that the build folder's objects have.
sanitize=
if nm "$build/src/cli/main.o" | grep -q __asan_; then sanitize=address,undefined; fi
if nm "$build/src/cli/main.o" | grep -q __tsan_; then sanitize=thread; fi
if nm "$build/src/cli/main.o" | grep -q __sanitizer_cov_; then sanitize=fuzzer-no-link,address,undefined; fi
compile=${CC:-cc}
[ "${sanitize#fuzzer}" = "$sanitize" ] || compile=clang
flags="-std=c11 -D_POSIX_C_SOURCE=200809L ${sanitize:+-fsanitize=$sanitize}"

# Copies the program's sources and adds the new model, whose row follows the last one.
mkdir -p "$folder/src"
cp -r src/cli "$folder/src/cli"
cp tests/cli/points_model.c "$folder/src/cli/points.c"
echo 'CLI_MODEL(points)' >>"$folder/src/cli/models.def"

begin_case size
diff -rq src/cli "$folder/src/cli" >"$folder/difference"
check "a file is new: $(cat "$folder/difference")" test "$(grep -c '^Only in .*points.c$' "$folder/difference")" -eq 1
check "another one differs" test "$(wc -l <"$folder/difference")" -eq 2
check "by a line" test "$(diff src/cli/models.def "$folder/src/cli/models.def" | grep -c '^[<>]')" -eq 1

# Other objects do not depend on the table, so those of the build are used.
begin_case builds
objects=
for source in src/cli/*.c; do
    [ "$source" = src/cli/models.c ] || objects="$objects $build/${source%.c}.o"
done
for file in models points; do
    check "$file.c" $compile $flags -Wall -Wextra -Werror -I"$folder/src" -Iinclude -Isrc -c "$folder/src/cli/$file.c" \
        -o "$folder/$file.o"
done
others=$(grep -l 'models\.def' src/cli/*.c | tr '\n' ' ')
check "one file includes the rows: $others" test "$others" = 'src/cli/models.c '
libraries="$(pkg-config --libs $(sed -n 's/^PACKAGES := //p' Makefile)) -lm -pthread -ldl"
check "the program" $compile ${sanitize:+-fsanitize=$sanitize} $objects "$folder/models.o" "$folder/points.o" \
    "$build/gen/gpt_own_text.o" "$build/libbrigade.a" $libraries -o "$folder/brigade"
program=$folder/brigade

begin_case trains
cd "$folder" || exit 1
"$program" points --cores 2 >points.out 2>points.err
check "it ends with 0: $(cat points.err)" test $? -eq 0
check "the loss falls: $(cat points.out)" awk '/^update [0-9]+: loss / { if (lines++ == 0) first = $4; last = $4 }
    END { exit lines == 4 && last < first / 2 && last < 0.2 ? 0 : 1 }' points.out
"$program" points --cores 2 --strategy single >single.out 2>&1
check "and the same on one device" cmp -s points.out single.out

begin_case plans
"$program" plan points --hidden 8 >plan.out 2>plan.err
check "its plan: $(cat plan.err)" grep -q '^2 stages on 2 devices, 1 replica; 4 micro-batches of 16 points an update' plan.out
for part in Stages Memory Timetable; do
    check "$part" grep -q -x "$part" plan.out
done
"$program" points --compile-only >compiled.out 2>&1
check "--compile-only" test "$(sed -n '1s/;.*//p' compiled.out)" = '2 stages on 2 devices, 1 replica'

begin_case help
"$program" --help >help.out
check "the program's" grep -q '^  points  *learn the quarters of the plane$' help.out
"$program" points --help >own.out
check "its own" sh -c 'sed -n 1p own.out | grep -q "^Usage: brigade points \[OPTION\]" && grep -q "^  --hidden N .*16" own.out'
"$program" plan --help >plans.out
check "that of plans" grep -q '^  points  *as `brigade points`$' plans.out

begin_case mistakes
error 2 'brigade points: unexpected argument `x`' points x
error 2 '--hidden is `0`' points --hidden 0
error 2 'unknown command `point`; did you mean `points`?' point
error 2 'unknown model `point`; the models are mnist, gpt, train, points' plan point
finish
