#!/bin/sh
# The runtime and the program do not depend on single optimizers: they do not name rows of src/options/optimizers.def,
# kinds and builders of optimizers, or members of bg_optimizer that are settings.
cd "$(dirname "$0")/../.." || exit 1
table=src/options/optimizers.def
settings=$(sed -nE 's/^(NUMBER|FLAG)\(([a-z0-9_]+),.*/\2/p' "$table" | paste -sd '|')
kinds=$(sed -nE 's/^OPTIMIZER\((BG_[A-Z]+),.*/\1/p' "$table" | paste -sd '|')
builders=$(sed -nE 's/^OPTIMIZER\(BG_[A-Z]+, "([a-z]+)",.*/bg_\1/p' "$table" | paste -sd '|')
passed=0 failed=0

look() { # where
    # shellcheck disable=SC2086
    grep -nE "(\.|->)($settings)\b|\b($kinds)\b|\b($builders)\(" $1
}

# Checks that the patterns find such names.
if [ "$(look tests/options/test_optimizer.c | wc -l)" -gt 20 ]; then
    passed=$((passed + 1))
else
    echo "the patterns that are made of $table find nothing in tests/options/test_optimizer.c"
    failed=$((failed + 1))
fi
for room in runtime device transport cli; do
    if look "src/$room/*.c src/$room/*.h"; then
        echo "src/$room: knows the above of optimizers; what goes by the table is in src/options/optimizer.h"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
