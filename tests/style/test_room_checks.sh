#!/bin/sh
# The checks of rooms detect every kind of error in the table, and report it with the right words.
. "$(dirname "$0")/../cli/support.sh"

# refuses CHECK WORDS SCRIPT: checks that the table of rooms, changed by a sed script, fails a check.
refuses() {
    sed "$3" "$root/tests/rooms.txt" >"$folder/rooms.txt"
    if cmp -s "$folder/rooms.txt" "$root/tests/rooms.txt"; then
        fail "$3 changes nothing"
    elif ROOMS=$folder/rooms.txt BRIGADE_BUILD=$build "$root/tests/style/$1.sh" >"$folder/out" 2>&1; then
        fail "$1 takes $3"
    elif grep -qF "$2" "$folder/out"; then
        pass
    else
        fail "$1, $3: $(cat "$folder/out")" "instead of" "$2"
    fi
}

begin_case includes
refuses test_rooms 'it includes plan/plan.h' '/^runtime:/s/ plan+/ plan/'
refuses test_rooms 'ops may not use plan: it is no room of a line above' '/^ops:/s/$/ plan/'
refuses test_rooms 'is not in tests/rooms.txt' '/^topology:/d'
refuses test_rooms 'runtime is of the core' '/^runtime:/s/$/ formats/'

begin_case symbols
refuses test_room_symbols 'room `data` may not call `bg_session_run_kept` of `runtime`' '/^data:/s/ runtime//'
refuses test_room_symbols 'room `models` may not call `bgi_layer_cast` of `nn`' '/^models:/s/ nn+/ nn/'
refuses test_room_symbols 'nn names device and uses nothing of it' '/^nn:/s/$/ device/'

# circle WORDS: checks that the list of circles in $folder/circles.txt fails.
circle() {
    if CIRCLES=$folder/circles.txt BRIGADE_BUILD=$build "$root/tests/style/test_room_symbols.sh" >"$folder/out" 2>&1; then
        fail "circles: $1 is not noticed"
    else
        grep -qF "$1" "$folder/out" && pass || fail "circles: $(cat "$folder/out")" "instead of" "$1"
    fi
}

begin_case circles
grep -v '^runtime:' "$root/tests/circles.txt" >"$folder/circles.txt"
circle 'src/runtime/engine.c: on a circle of calls that tests/circles.txt does not name'
{ cat "$root/tests/circles.txt"; echo 'core: arena'; } >"$folder/circles.txt"
circle 'core/arena is on no circle'
finish
