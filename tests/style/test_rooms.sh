#!/bin/sh
# Holds every #include of src/ against tests/rooms.txt, and the kernel and runtime rooms against graphs.
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
# The core uses the core alone.
core=" $(sed -n 's/^CORE_ROOMS := //p' Makefile) "
for room in $core; do
    for used in $(sed -n "s/^$room://p" "$rooms"); do
        case "$core" in *" ${used%+} "*) continue ;; esac
        echo "tests/rooms.txt: $room is of the core (CORE_ROOMS in the Makefile), $used is not"
        failed=$((failed + 1))
    done
done

for source in src/*/*.[ch] src/kernels/*/*.[ch]; do
    room=${source#src/}
    room=${room%%/*}
    allowed=$(sed -n "s/^$room:[[:space:]]*//p" "$rooms")
    if ! grep -q "^$room:" "$rooms"; then
        echo "$source: room \`$room\` is not in tests/rooms.txt"
        failed=$((failed + 1))
        continue
    fi
    bad=
    for included in $(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\([^"]*\)".*/\1/p' "$source"); do
        into=${included%%/*}
        [ "$into" = "$included" ] && { bad="$bad $included(without its room)"; continue; }
        [ "$into" = "$room" ] && continue
        case " $allowed " in *" $into+ "*) ;; *) bad="$bad $included" ;; esac
    done
    if [ -n "$bad" ]; then
        echo "$source: room \`$room\` may look into: ${allowed:-nothing} (internal headers: those with a +); it includes$bad"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
done
# The runtime and reports read plans: of the plan room they may see plan.h only. Companions keep what the runtime hands
# out: of it they may see state.h only, and reports and predictions what was recorded, record.h.
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
