#!/bin/sh
# Compares the symbols that each room's objects define and use with tests/rooms.txt, and circles of calls between the
# files of a room with tests/circles.txt. ROOMS and CIRCLES can name other tables (tests/style/test_room_checks.sh).
cd "$(dirname "$0")/../.." || exit 1
build=${BRIGADE_BUILD:-build}

objects=
for source in src/*/*.c src/kernels/*/*.c; do
    # The MPI libraries do not call Brigade, and each MPI has a separate one.
    case $source in src/mpi/*) continue ;; esac
    object=$build/${source%.c}.o
    if [ ! -f "$object" ]; then
        echo "$object is not there: make all"
        echo "0 passed, 1 failed"
        exit 1
    fi
    objects="$objects $object"
done
grep -v '^#' "${ROOMS:-tests/rooms.txt}" >"${TMPDIR:-/tmp}/rooms.$$"
grep -v '^#' "${CIRCLES:-tests/circles.txt}" >"${TMPDIR:-/tmp}/circles.$$"
trap 'rm -f "${TMPDIR:-/tmp}/rooms.$$" "${TMPDIR:-/tmp}/circles.$$"' EXIT

# Lines of nm: OBJECT: NAME TYPE [VALUE SIZE].
# shellcheck disable=SC2086
LC_ALL=C nm -A -P $objects | awk -v build="$build/src/" '
    function fail(text) { print text; failed++ }
    FILENAME ~ /rooms\.[0-9]+$/ {
        split($0, halves, ":")
        room = halves[1]
        rooms[++room_count] = room
        count = split(halves[2], used, " ")
        for (i = 1; i <= count; i++) {
            name = used[i]
            inner = sub(/\+$/, "", name)
            may[room, name] = 1 + inner
        }
        next
    }
    FILENAME ~ /circles\.[0-9]+$/ {
        if ($0 ~ /^[^ ]/) {
            split($0, halves, ":")
            current = halves[1]
            count = split(halves[2], names, " ")
            for (i = 1; i <= count; i++)
                known[current "/" names[i]] = 1
        }
        next
    }
    {
        file = $1
        sub(/:$/, "", file)
        file = substr(file, length(build) + 1)
        sub(/\.o$/, "", file)
        if ($3 == "U")
            asked[file, $2] = 1
        else if ($3 ~ /^[A-Z]$/)
            owner[$2] = file
    }
    function room_of(f) { return substr(f, 1, index(f, "/") - 1) }
    END {
        for (pair in asked) {
            split(pair, part, SUBSEP)
            from = part[1]; symbol = part[2]
            if (!(symbol in owner) || owner[symbol] == from)
                continue
            into = owner[symbol]
            a = room_of(from); b = room_of(into)
            if (a == b) {
                call[from, into] = symbol
                nodes[from]; nodes[into]
                continue
            }
            level = (symbol ~ /^bg_/) ? 1 : 2
            if (may[a, b] < level)
                fail("src/" from ".c: room `" a "` may not call `" symbol "` of `" b "` (src/" into ".c); see tests/rooms.txt")
            else
                passed++
            used_symbols[a, b] = 1
        }
        # Each named room is called or (for inline functions and structs) included.
        for (pair in may) {
            split(pair, part, SUBSEP)
            if ((part[1], part[2]) in used_symbols)
                continue
            command = "grep -lE \"#include \\\"" part[2] "/\" src/" part[1] "/*.[ch] src/" part[1] "/*/*.[ch] 2>/dev/null | head -n 1"
            found = ""
            command | getline found
            close(command)
            if (found == "")
                fail("tests/rooms.txt: " part[1] " names " part[2] " and uses nothing of it")
            else
                passed++
        }
        # A file is on a circle if it reaches itself.
        for (pair in call) {
            split(pair, part, SUBSEP)
            reach[part[1], part[2]] = 1
        }
        for (k in nodes)
            for (i in nodes)
                if (((i, k) in reach) && room_of(i) == room_of(k))
                    for (j in nodes)
                        if ((k, j) in reach)
                            reach[i, j] = 1
        for (f in nodes)
            if (!((f, f) in reach))
                delete nodes[f]
        for (f in nodes) {
            if (f in known) {
                passed++
                continue
            }
            calls = ""
            for (pair in call) {
                split(pair, part, SUBSEP)
                if (part[1] == f && ((part[2], f) in reach))
                    calls = calls " " call[pair] " (" part[2] ".c)"
            }
            fail("src/" f ".c: on a circle of calls that tests/circles.txt does not name; it calls" calls)
        }
        for (f in known)
            if (!(f in nodes))
                fail("tests/circles.txt: " f " is on no circle")
        printf "%d passed, %d failed\n", passed, failed
        exit failed > 0
    }' "${TMPDIR:-/tmp}/rooms.$$" "${TMPDIR:-/tmp}/circles.$$" -
