#!/bin/sh
# The listings of each chapter of the tutorial are in the compiled programs, and its commands print the output on the
# page. tests/docs/pages.sh describes the comparison.
. "$(dirname "$0")/../cli/support.sh"
. "$(dirname "$0")/pages.sh"
prepare_pages

# chapter NAME: checks the chapter's page, which must have commands.
chapter() {
    run_page "docs/tutorial/$1.md"
    check "$1 has commands" test "$commands" -ge 1
}

begin_case first_model
chapter 01-first-model
check "and a program" test "$blocks" -ge 1

begin_case pipeline
chapter 02-pipeline
check "and a program" test "$blocks" -ge 1

begin_case memory
chapter 04-memory
check "and a program" test "$blocks" -ge 1

begin_case data
chapter 05-data
check "and a program" test "$blocks" -ge 1

begin_case serving
chapter 09-serving
check "and a program" test "$blocks" -ge 1

begin_case custom_op
chapter 10-custom-op
check "and a program" test "$blocks" -ge 1

# These chapters are about the program, whose tests also run under sanitizers.
if [ "${BRIGADE_TEST_QUICK:-}" != 1 ]; then
    begin_case timetable
    chapter 03-timetable-and-profile

    begin_case checkpoints
    chapter 06-checkpoints
    check "and a program" test "$blocks" -ge 1

    # The thread sanitizer reports races in MPI libraries that were built without it.
    begin_case processes
    if [ ! -x "$folder/bin/mpirun" ] || grep -q __tsan_init "$program"; then
        echo "skipped: 07-processes: there is no MPI, the build has no transport for it, or it has the thread sanitizer"
        skipped=$((skipped + 1))
    else
        export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0" # MPI keeps memory until the process ends
        chapter 07-processes
    fi

    begin_case onnx
    chapter 08-onnx
    check "and a program" test "$blocks" -ge 1
fi

# Every chapter is in the index and among the cases above.
begin_case index
for page in "$root"/docs/tutorial/[0-9]*.md; do
    name=$(basename "$page" .md)
    check "$name is in the index" grep -q "]($name.md)" "$root/docs/tutorial/README.md"
    check "$name is tested" grep -q "^ *chapter $name\$" "$script"
done

# Differences that the comparison must detect, and differences that it must ignore.
begin_case comparison
compare() { # differs|agrees SHOWN PRINTED
    printf "$2" >shown
    printf "$3" >printed
    : >hashes
    if agrees shown printed hashes; then found=agrees; else found=differs; fi
    check "$2 and $3: $found" test "$found" = "$1"
}
compare differs 'a\nc\n' 'a\nb\n'
compare differs 'a\n' 'a\nb\n'
compare differs 'a\nb\n' 'a\n'
compare agrees '...\nb\n' 'a\na\nb\n'
compare differs '...\nc\n' 'a\nb\n'
compare agrees 'loss 0.5000\n' 'loss 0.5090\n'
compare differs 'loss 0.5000\n' 'loss 0.5200\n'
compare differs 'loss -0.5000\n' 'loss 0.5000\n'
compare differs '12 images\n' '13 images\n'
compare agrees 'in 1.2 ms: 12 images/s, 3 s\n' 'in 12.34 ms:   120 images/s, 4 s\n'
compare differs '4 stages\n' '5 stages\n'
compare agrees 'a 0123456789abcdef 1.0\na 0123456789abcdef\n' 'a 00000000000000ff 1.0\na 00000000000000ff\n'
compare differs 'a 0123456789abcdef\na 0123456789abcdef\n' 'a 00000000000000ff\na 00000000000000fe\n'
compare differs 'a 0123456789abcdef\na 0123456789abcdee\n' 'a 00000000000000ff\na 00000000000000ff\n'
printf 'b\nc\n' >part
printf 'a\nb\nc\n' >text
check "lines that follow each other are a part" is_part part text
printf 'a\nc\n' >part
if is_part part text; then fail "lines with another one between them are taken for a part"; else pass; fi
finish
