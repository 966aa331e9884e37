# mnist.sh: code that the script tests of `brigade mnist` share. Source it after support.sh. It makes $images training
# digits and $tests test digits in $folder/data, and enters $folder.

# Sanitizer runs use a fifth of the images, in the same number of calls.
images=1600 tests=500 batch=10 least=50
[ -n "${BRIGADE_TEST_QUICK:-}" ] && images=320 tests=100 batch=2 least=15
make_digits $images $tests
cd "$folder" || exit 1
small="--data-dir $folder/data --batch-size $batch --device-iterations 2 --gradient-accumulation 8 --test-batch-size $((batch / 2))"

# train NAME ARGUMENT...: trains into NAME.safetensors and NAME.out.
train() {
    name=$1
    shift
    if "$program" mnist $small --save "$name.safetensors" "$@" >"$name.out" 2>"$name.err"; then
        pass
    else
        fail "$*:" "$(cat "$name.err")"
    fi
}

# lines FILE PATTERN...: checks that each pattern matches a line, in this order.
lines() {
    lines_file=$1 lines_at=1
    shift
    for pattern in "$@"; do
        next=$(tail -n +$lines_at "$lines_file" | grep -n -m 1 -E -e "$pattern" | cut -d: -f1)
        if [ -z "$next" ]; then
            fail "no line \`$pattern\` in its place in:" "$(cat "$lines_file")"
            return
        fi
        lines_at=$((lines_at + next))
    done
    pass
}

same() {
    check "$1 and $2 have the same weights" cmp -s "$1.safetensors" "$2.safetensors"
}

# Succeeds for three of four calls in sanitizer runs, whose cases are then skipped; tests/parity covers the engine.
seldom=0
is_left_out() {
    seldom=$((seldom + 1))
    [ -n "${BRIGADE_TEST_QUICK:-}" ] && [ $((seldom % 4)) -ne 1 ]
}
