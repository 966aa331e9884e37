#!/bin/sh
# brigade data tokenize: the tokens of documents, windows of them, and errors.
. "$(dirname "$0")/support.sh"

cd "$folder" || exit 1
printf 'abcd' >a.txt
printf 'ef\n' >b.txt
printf 'ab\n\ncd\nef\n\n\n \ngh' >c.txt
: >empty.txt

# tokens NAME "NUMBERS" ARGUMENT...: checks that the file has these tokens, in decimal.
tokens() {
    tokens_name=$1 tokens_wanted=$2
    shift 2
    rm -f out.u16
    "$program" data tokenize "$@" --output out.u16 --quiet >out 2>err
    tokens_got=$(od -An -v -tu2 out.u16 | tr -s ' \n' '  ' | sed 's/^ //; s/ $//')
    if [ "$tokens_got" = "$tokens_wanted" ] && [ ! -s out ] && [ ! -s err ]; then
        pass
    else
        fail "$tokens_name: \`$tokens_got\` instead of \`$tokens_wanted\`:" "$(cat out err)"
    fi
}
tokens files '97 98 99 100 256 101 102 10 256' a.txt empty.txt b.txt
tokens lines '97 98 256 99 100 256 101 102 256 103 104 256' c.txt --documents line
tokens paragraphs '97 98 256 99 100 10 101 102 256 32 10 103 104 256' c.txt --documents paragraph
tokens no-end '97 98 99 100 101 102 10' a.txt b.txt --no-end-of-text
tokens length '97 98 99 101 102 10' a.txt b.txt --length 3
tokens overlap '97 98 99 98 99 100 99 100 256 101 102 10 102 10 256' a.txt b.txt --length 3 --overlap 2
tokens stride '97 98 99 99 100 256 101 102 10' a.txt b.txt --length 3 --stride 2
tokens fill '97 98 99 100 256 256 101 102 10 256 256 256' a.txt b.txt --length 3 --fill
tokens fill-overlap '97 98 99 99 100 256 101 102 10 10 256 256' a.txt b.txt --length 3 --stride 2 --fill
printf 'ab\r\n\r\ncd\r\nef\r\n\r\n' >r.txt
tokens 'lines of Windows' '97 98 256 99 100 256 101 102 256' r.txt --documents line
tokens 'paragraphs of Windows' '97 98 256 99 100 13 10 101 102 256' r.txt --documents paragraph
printf 'x<|endoftext|>' >s.txt
tokens special '120 256 256' s.txt --special-tokens
check "text like any other" sh -c "'$program' data tokenize s.txt --output o.u16 | grep -q '^1 document, 15 tokens are in o.u16$'"
check summary sh -c "'$program' data tokenize a.txt b.txt --length 3 --output o.u16 | grep -q '^2 windows of 3 tokens; 3 tokens at the ends of documents'"

# Reads a tokenizer from a folder. Its vocabulary then grows beyond the tokens that two bytes can represent.
mkdir bpe
awk 'BEGIN {
    printf "{"
    beyond = 256
    for (b = 0; b < 256; b++) {
        prints = (b > 32 && b < 127) || (b > 160 && b != 173)
        printf "%s\"\\u%04x\": %d", b ? ", " : "", prints ? b : beyond, b
        if (!prints) beyond++
    }
    printf ", \"ab\": 256, \"abc\": 257"
    print "}"
}' >bpe/vocab.json
printf '#version: 0.2\na b\nab c\n' >bpe/merges.txt
tokens bpe '257 100' a.txt --tokenizer bpe --no-end-of-text
error 2 'bpe has no token <|endoftext|>; give --no-end-of-text' data tokenize a.txt --tokenizer bpe --output o.u16
sed -i "s/}$//" bpe/vocab.json
awk 'BEGIN { for (i = 258; i < 65537; i++) printf ", \"x%d\": %d", i, i; print "}" }' >>bpe/vocab.json
error 2 'a vocabulary of 65537 does not fit tokens of 2 bytes, which have 65536 values; let the name end in .u32' \
    data tokenize a.txt --tokenizer bpe --no-end-of-text --output o.u16
check u32 "$program" data tokenize a.txt --tokenizer bpe --no-end-of-text --output o.u32 --quiet
check "u32: the tokens" test "$(od -An -tu4 o.u32 | tr -s ' ')" = " 257 100"

# ---- records ----

printf 'abcdefgh' >h.txt
check "records" "$program" data tokenize a.txt h.txt --length 3 --overlap 1 --output r.tfrecord >out
check "records: two files are named" grep -q '^2 documents, 18 tokens are in r.tfrecord, indexed by r.index$' out
check "records: windows" grep -q '^6 windows of 3 tokens; ' out
check "records: the index" test "$(tr '\n' ' ' <r.index)" = '0 40 40 41 81 40 121 40 161 40 201 41 '
# The bytes of the first record were computed by hand: length, masked CRC-32C of the length, example, masked CRC-32C of
# the example.
check "records: the bytes" test "$(head -c 40 r.tfrecord | od -An -v -tx1 | tr -d ' \n')" = \
    1800000000000000a37f4b220a160a140a09696e7075745f69647312071a050a03616263126953d4
cp r.tfrecord kept.tfrecord && cp r.index kept.index
error 2 '--output r.tfrecord: each record is a window of tokens, so it needs --length' \
    data tokenize a.txt --output r.tfrecord
error 2 '--output r.tfrecord is one of the texts' data tokenize a.txt r.tfrecord --length 3 --output r.tfrecord
error 2 '--output r.tfrecord: its index r.index is one of the texts' data tokenize a.txt r.index --length 3 --output r.tfrecord
error 2 'the texts have no window of that length; r.tfrecord was not written' data tokenize a.txt --length 99 --output r.tfrecord
error 1 'none.txt' data tokenize a.txt none.txt --length 3 --output r.tfrecord
check "records of an earlier run stay" sh -c 'cmp -s r.tfrecord kept.tfrecord && cmp -s r.index kept.index'
check "and nothing is beside them" test "$(ls r.* | tr '\n' ' ')" = 'r.index r.tfrecord r.txt '

error 2 'no texts are given; name the files' data tokenize --output o.u16
error 2 'no output is named; --output FILE.u16' data tokenize a.txt
error 2 'its name must end in .u16 (tokens of 2 bytes), .u32 (of 4) or .tfrecord (windows as records)' data tokenize a.txt --output o.bin
error 2 '--overlap applies only to windows; add --length' data tokenize a.txt --output o.u16 --overlap 3
error 2 '--overlap 3 must be below --length 3' data tokenize a.txt --output o.u16 --overlap 3 --length 3
error 2 '--stride 4 leaves tokens out; it must be at most --length 3' data tokenize a.txt --output o.u16 --stride 4 --length 3
error 2 '--overlap 1 and --stride 2 mean the same; give one of them' data tokenize a.txt --output o.u16 --stride 2 --overlap 1 --length 3
error 2 '--output a.u16 is one of the texts' data tokenize a.u16 a.txt --output a.u16
error 1 'none.txt' data tokenize none.txt --output o.u16
error 1 'none: has no tokenizer' data tokenize a.txt --tokenizer none --output o.u16
rm -f o.u16
error 2 'the texts have no window of that length; o.u16 was not written' data tokenize a.txt --output o.u16 --length 100
check "nothing is left of a failure" test "$(find . -name 'o.u16*' | wc -l)" -eq 0
finish
