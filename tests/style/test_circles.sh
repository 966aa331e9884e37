#!/bin/sh
# In the rooms below, files do not call each other in a circle: their objects, read by nm, have an order in which each
# object refers only to symbols of earlier ones.
. "$(dirname "$0")/../cli/support.sh"
rooms='device kernels nn options plan profile transport'

# edges OBJECT...: prints a line "user used" for each object that refers to a symbol of another object.
edges() {
    nm -A "$@" 2>/dev/null | awk '
        { object = $1; sub(/:.*/, "", object); type = $(NF - 1); symbol = $NF }
        type == "U" { uses[object, symbol] = 1 }
        type ~ /^[TDRBC]$/ { made[symbol] = object }
        END { for (use in uses) { split(use, part, SUBSEP)
                  if (part[2] in made && made[part[2]] != part[1]) print part[1], made[part[2]] } }' | sort -u
}

# has_order OBJECT...: succeeds if there is no circle, and otherwise prints one.
has_order() {
    edges "$@" | tsort 2>&1 >/dev/null | tee "$folder/circle"
    [ ! -s "$folder/circle" ]
}

begin_case rooms
for room in $rooms; do
    set --
    for source in "$root"/src/"$room"/*.c "$root"/src/"$room"/*/*.c; do
        object=$build/${source#"$root"/}
        object=${object%.c}.o
        [ -f "$object" ] && set -- "$@" "$object"
    done
    check "objects of $room" test $# -gt 0
    check "no circle in $room" has_order "$@"
done
check "files of plan call each other" test "$(edges "$build"/src/plan/*.o | wc -l)" -gt 50

# ---- two files that call each other, and two of which one calls the other ----

begin_case circle
cd "$folder" || exit 1
echo 'void a(void); void b(void) { a(); }' >b.c
echo 'void b(void); void a(void) { b(); }' >circle.c
echo 'void a(void) {}' >line.c
for file in b circle line; do
    ${CC:-cc} -c $file.c -o $file.o 2>err || fail "cc $file.c:" "$(cat err)"
done
check "a line has an order" has_order b.o line.o
if has_order b.o circle.o >out; then fail "a circle is not noticed"; else pass; fi
check "it is named" grep -q 'circle.o' out
finish
