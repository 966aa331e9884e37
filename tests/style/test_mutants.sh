#!/bin/sh
# Every mutant of tests/mutants still applies, and its tests exist. In a project of one function, tools/mutants.py
# distinguishes tests that detect a mutant from others. To run the mutants themselves, which takes long, use
# tools/mutants.py.
. "$(dirname "$0")/../cli/support.sh"
# Some machines have a wrapper before the system's python3, which takes longer than the tool.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
if ! "$python" -c '' 2>/dev/null; then
    skipped=1
    finish
fi
tool=$root/tools/mutants.py

begin_case list
"$python" "$tool" --check >"$folder/out" 2>&1
check "the list: $(cat "$folder/out")" test $? -eq 0

# ---- a project of one function, which a test covers by half ----

mkdir -p "$folder/toy/src" "$folder/toy/tests/toy" "$folder/toy/tests/mutants" "$folder/toy/docs"
cd "$folder/toy" || exit 1
cat >src/sign.sh <<'END'
sign() {
    [ "$1" -ge 0 ] && echo plus
    [ "$1" -ge 0 ] || echo minus
}
END
sed 's/^@case/begin_case/' >tests/toy/test_sign.sh <<'END'
#!/bin/sh
. src/sign.sh
begin_case() { :; }
@case plus
[ "$(sign 1)" = plus ] && echo "case plus: 1 passed, 0 failed" || echo "case plus: 0 passed, 1 failed"
@case minus
[ -n "$(sign -1)" ] && echo "case minus: 1 passed, 0 failed" || echo "case minus: 0 passed, 1 failed"
[ "$(sign 1)$(sign -1 | wc -l)" = plus1 ]
END
chmod +x tests/toy/test_sign.sh
echo 'all:' >Makefile
echo '| C001 | signs | `sign` | tests/toy/test_sign.sh:plus |' >docs/capabilities.md

# mutant NAME TEST OLD NEW: adds a mutant to the list.
mutant() {
    printf 'mutant %s\nrow C001\ntest tests/toy/test_sign.sh:plus\n%s\nfile src/sign.sh\n- %s\n+ %s\n\n' "$1" "$2" "$3" "$4" \
        >>tests/mutants/toy.txt
}

# run CODE WORDS ARGUMENT...: checks that the tool exits with the code and prints the words.
run() {
    run_code=$1 run_words=$2
    shift 2
    "$python" "$tool" --root "$folder/toy" "$@" >"$folder/out" 2>&1
    check "$*: $(cat "$folder/out")" test $? -eq "$run_code"
    check "$* says $run_words: $(cat "$folder/out")" grep -q -F -e "$run_words" "$folder/out"
}

begin_case caught
mutant plus_is_minus '' 'echo plus' 'echo minus'
run 0 'caught  plus_is_minus: by tests/toy/test_sign.sh:plus' plus
run 0 '1 passed, 0 failed' sign.sh
check "the tree is as before" grep -q 'echo plus' src/sign.sh
run 1 'no mutant matches' nothing-of-this-name
run 0 'plus_is_minus C001' --list

begin_case lives
mutant minus_is_plus '' 'echo minus' 'echo plus'
run 1 'LIVES   minus_is_plus: LIVES in tests/toy/test_sign.sh:plus' minus_is_plus
run 1 '1 passed, 1 failed'
check "the tree stays as it is" grep -q 'echo minus' src/sign.sh
rm tests/mutants/toy.txt
mutant nothing_for_minus 'test tests/toy/test_sign.sh:minus' 'echo minus' ':'
run 1 'LIVES in tests/toy/test_sign.sh:plus (noticed by minus)'

begin_case refused
rm tests/mutants/toy.txt
refuse() { # WORDS: and remove the list
    run 1 "$1" --check
    run 1 "$1"
    rm tests/mutants/toy.txt
}
mutant gone '' 'echo zero' 'echo plus'
refuse 'toy.txt:1: gone: src/sign.sh has the old text 0 times'
mutant twice '' '-ge 0 ]' '-gt 0 ]'
refuse 'has the old text 2 times'
mutant same '' 'echo plus' 'echo plus'
refuse 'the new text is the old one'
mutant untested 'test tests/toy/test_sign.sh:zero' 'echo plus' ':'
refuse 'tests/toy/test_sign.sh:zero is no test'
mutant rowless 'row C999' 'echo plus' ':'
refuse 'has no row C999'
printf 'mutant elsewhere\nrow C001\ntest tests/toy/test_sign.sh:minus\nfile src/sign.sh\n- echo plus\n+ :\n' >tests/mutants/toy.txt
refuse 'row C001 of docs/capabilities.md names none of tests/toy/test_sign.sh:minus'
mutant one '' 'echo plus' ':'
mutant one '' 'echo minus' ':'
refuse 'there is another mutant of that name'
printf 'mutant wordy\nwhy not\n' >tests/mutants/toy.txt
refuse 'toy.txt:2: `why not` is not one of'
: >tests/mutants/toy.txt
run 1 '0 passed, 1 failed' --check
finish
