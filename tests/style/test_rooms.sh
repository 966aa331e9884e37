#!/bin/sh
# Holds every #include of src/ against tests/rooms.txt, and the kernel and runtime rooms against graphs.
cd "$(dirname "$0")/../.." || exit 1
passed=0 failed=0

for source in src/*/*.[ch] src/kernels/*/*.[ch]; do
    room=${source#src/}
    room=${room%%/*}
    allowed=$(sed -n "s/^$room:[[:space:]]*//p" tests/rooms.txt)
    if ! grep -q "^$room:" tests/rooms.txt; then
        echo "$source: room \`$room\` is not in tests/rooms.txt"
        failed=$((failed + 1))
        continue
    fi
    bad=
    for included in $(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\([^"]*\)".*/\1/p' "$source"); do
        into=${included%%/*}
        [ "$into" = "$included" ] && { bad="$bad $included(without its room)"; continue; }
        [ "$into" = "$room" ] && continue
        case " $allowed " in *" $into "*) ;; *) bad="$bad $included" ;; esac
    done
    if [ -n "$bad" ]; then
        echo "$source: room \`$room\` may look into: ${allowed:-nothing}; it includes$bad"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
done
# The runtime reads plans: of the plan room it may see plan.h only.
if grep -n '#include "plan/' src/runtime/*.[ch] | grep -v '"plan/plan.h"'; then
    echo "src/runtime: only plan/plan.h is for the runtime"
    failed=$((failed + 1))
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
