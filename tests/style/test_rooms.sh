#!/bin/sh
# Compares every #include of src/ with tests/rooms.txt, and checks that kernels and runtime do not include graphs.
cd "$(dirname "$0")/../.." || exit 1
rooms=${ROOMS:-tests/rooms.txt}
passed=0 failed=0

above=' '
while IFS=: read -r room allowed; do
    for used in $allowed; do
        case "$above" in *" ${used%+} "*) continue ;; esac
        echo "tests/rooms.txt: $room may not use $used: it is no room of a line above"
        failed=$((failed + 1))
    done
    above="$above$room "
done <<END
$(grep -v '^#' "$rooms")
END
# The core uses only the core.
core=" $(sed -n 's/^CORE_ROOMS := //p' Makefile) "
for room in $core; do
    for used in $(sed -n "s/^$room://p" "$rooms"); do
        case "$core" in *" ${used%+} "*) continue ;; esac
        echo "tests/rooms.txt: $room is of the core (CORE_ROOMS in the Makefile), $used is not"
        failed=$((failed + 1))
    done
done

# One process reads all sources, because there are hundreds of them.
counts=$(awk '
    FILENAME == ARGV[1] {
        if (/^#/ || !/:/) next
        name = $0
        sub(/:.*/, "", name)
        may[name] = $0
        sub(/^[^:]*:[[:space:]]*/, "", may[name])
        next
    }
    FNR == 1 {
        judge()
        source = FILENAME
        split(source, parts, "/")
        room = parts[2]
        bad = ""
    }
    match($0, /^[[:space:]]*#[[:space:]]*include[[:space:]]*"[^"]*"/) {
        split($0, quoted, "\"")
        split(quoted[2], place, "/")
        if (place[1] == quoted[2]) bad = bad " " quoted[2] "(without its room)"
        else if (place[1] != room && index(" " may[room] " ", " " place[1] "+ ") == 0) bad = bad " " quoted[2]
    }
    function judge() {
        if (source == "") return
        if (!(room in may)) print source ": room `" room "` is not in tests/rooms.txt" >"/dev/stderr"
        else if (bad != "")
            print source ": room `" room "` may look into: " (may[room] != "" ? may[room] : "nothing") \
                " (internal headers: those with a +); it includes" bad >"/dev/stderr"
        if (!(room in may) || bad != "") failures++
        else passes++
    }
    END { judge(); print passes + 0, failures + 0 }' "$rooms" src/*/*.[ch] src/kernels/*/*.[ch])
passed=$((passed + ${counts% *})) failed=$((failed + ${counts#* }))
# The runtime and reports read plans, so from the plan room they may include only plan.h. Companions may include only
# state.h of the runtime, and reports and predictions also record.h.
if grep -n '#include "plan/' src/runtime/*.[ch] src/profile/*.[ch] | grep -v '"plan/plan.h"'; then
    echo "src/runtime, src/profile: only plan/plan.h is for them"
    failed=$((failed + 1))
fi
if grep -n '#include "runtime/' src/*/*.[ch] | grep -v '^src/runtime/' | grep -v '"runtime/state.h"' |
    grep -v '^src/profile/.*"runtime/record.h"' | grep -v '^src/predict/.*"runtime/record.h"'; then
    echo "only runtime/state.h is for other rooms, and runtime/record.h for profile and predict"
    failed=$((failed + 1))
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
