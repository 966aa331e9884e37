#!/bin/sh
# brigade gpt generate and eval, with a model of 257 tokens (bytes) whose next token is always `z`, and one whose
# weights are all zero.
. "$(dirname "$0")/support.sh"

cd "$folder" || exit 1

# zeros COUNT: writes this number of zero bytes.
zeros() {
    head -c "$1" /dev/zero
}

# model DIR LOGIT [TOKEN [VOCABULARY]]: makes a model with one layer of width 4 and 16 positions. The logit of z, or of
# TOKEN, is LOGIT (four octal bytes of a float); others are 0.
model() {
    mkdir -p "$1"
    row=${3:-122} vocabulary=${4:-257}
    cat >"$1/config.json" <<END
{"model_type": "gpt2", "n_embd": 4, "n_head": 2, "n_layer": 1, "n_positions": 16, "vocab_size": $vocabulary}
END
    at=0 header=
    tensor() { # NAME FLOATS SHAPE
        header="$header${header:+, }\"$1\": {\"dtype\": \"F32\", \"shape\": [$3], \"data_offsets\": [$at, $((at + 4 * $2))]}"
        at=$((at + 4 * $2))
    }
    tensor wte.weight $((vocabulary * 4)) $vocabulary,4
    tensor ln_f.bias 4 4
    tensor ln_f.weight 4 4
    tensor wpe.weight 64 16,4
    for name in ln_1.weight ln_1.bias attn.c_proj.bias ln_2.weight ln_2.bias mlp.c_proj.bias; do tensor "h.0.$name" 4 4; done
    tensor h.0.attn.c_attn.weight 48 4,12
    tensor h.0.attn.c_attn.bias 12 12
    tensor h.0.attn.c_proj.weight 16 4,4
    tensor h.0.mlp.c_fc.weight 64 4,16
    tensor h.0.mlp.c_fc.bias 16 16
    tensor h.0.mlp.c_proj.weight 64 16,4
    header="{$header}"
    {
        printf "\\$(printf %o $((${#header} % 256)))\\$(printf %o $((${#header} / 256)))"
        zeros 6
        printf %s "$header"
        zeros $((row * 16))
        printf "$2"
        zeros $((vocabulary * 16 - row * 16 - 4))
        printf '\000\000\200\077' # 1
        zeros $((at - vocabulary * 16 - 4))
    } >"$1/model.safetensors"
}
model z '\000\000\310\102' # 100
model zero '\000\000\000\000'
model end '\000\000\310\102' 256

check greedy "$program" gpt generate --hf-model z --prompt 'a b' --length 5 --temperature 0 >out
check "greedy: the text" test "$(cat out)" = 'a bzzzzz'
check "certain at any temperature" "$program" gpt generate --hf-model z --prompt 'a' --length 3 --only-new --seed 7 >out
check "certain: the text" test "$(cat out)" = 'zzz'
check bfloat16 "$program" gpt generate --hf-model z --length 16 --top-k 1 --dtype bfloat16 --length 15 >out
check "bfloat16: the text" test "$(cat out)" = 'zzzzzzzzzzzzzzz'
check float16 "$program" gpt generate --hf-model z --length 15 --top-k 1 --dtype float16 >out
check "float16: the text" test "$(cat out)" = 'zzzzzzzzzzzzzzz'
printf 'from a file' >prompt
check prompt-file "$program" gpt generate --hf-model z --prompt-file prompt --length 2 --tokenizer bytes >out
check "prompt-file: the text" test "$(cat out)" = 'from a filezz'
check "end of text" "$program" gpt generate --hf-model z --prompt 'a<|endoftext|>b' --length 1 >out
check "end of text: a token, not a text" test "$(cat out)" = 'abz'
"$program" gpt generate --hf-model end --prompt 'a' --length 2 >out
check "an end of text ends it" test "$(cat out)" = a
"$program" gpt generate --hf-model end --prompt 'a' --length 2 --go-on >out
check "or is a token like others" test "$(cat out)" = 'a<|endoftext|><|endoftext|>'
for run in 1.a 1.b 2.a; do
    "$program" gpt generate --hf-model zero --prompt x --length 12 --seed "${run%.*}" --go-on | od -An -tu1 >"seed.$run"
done
check "each token is drawn anew" test "$(head -n 1 seed.1.a | tr -s ' ' '\n' | sort -u | wc -l)" -gt 6
check "a seed's text is the same" cmp seed.1.a seed.1.b
check "another seed's is not" sh -c '! cmp -s seed.1.a seed.2.a'

# Several prompts together give the same texts as each alone; --stop ends texts, and --beams searches for the best.
printf 'a\nlonger one\n\nbc\n' >prompts
for sequences in 1 2 8; do
    check "prompts, $sequences at once" "$program" gpt generate --hf-model zero --prompts prompts --length 5 --seed 4 --go-on --sequences $sequences >"prompts.$sequences"
    check "and the same texts" cmp prompts.1 prompts.$sequences
done
check "z thrice: --stop" "$program" gpt generate --hf-model z --prompt a --length 9 --stop nothing zzz --only-new >out
check "z thrice: nothing is left" test "$(cat out)" = ''
check beams "$program" gpt generate --hf-model z --prompt a --length 4 --beams 3 >out
check "beams: the likeliest text" test "$(cat out)" = azzzz
check penalties "$program" gpt generate --hf-model z --prompt a --length 3 --temperature 0 --presence-penalty 1000 --go-on --only-new >out
check "penalties: another token after the first" sh -c 'test "$(head -c 1 out)" = z && ! test "$(head -c 2 out)" = zz'
error 1 'weights_type is int8, but no product of the graph reads a float32 matrix of parameters that would become smaller' \
    gpt generate --hf-model z --weights-type int8 --length 2
error 2 '--beams 4 needs the same number of --sequences or more, but --sequences is 2' gpt generate --hf-model z --beams 4 --sequences 2
error 2 '--prompts gives all prompts' gpt generate --hf-model z --prompt a --prompts prompts
error 2 '--min-p is 2; it must be from 0 to 1' gpt generate --hf-model z --min-p 2
error 2 '--typical-p is 0; it must be above 0' gpt generate --hf-model z --typical-p 0
error 2 '--repetition-penalty is 0; it must be above 0' gpt generate --hf-model z --repetition-penalty 0

# All tokens are equally likely, so the loss is the logarithm of 257.
printf 'twenty bytes of text' >a.txt
printf 'abcdefgh' >b.u16
error 1 'b.u16: token 0 is 25185 but must be below 257' gpt eval --hf-model zero --input-files a.txt b.u16
printf 'a\000\001\001' >b.u16
error 1 'b.u16: token 1 is 257 but must be below 257' gpt eval --hf-model zero --input-files b.u16
printf 'a\000b\000c\000' >b.u16
check eval "$program" gpt eval --hf-model zero --input-files a.txt b.u16 >out
check "eval: the loss" test "$(cat out)" = 'Tokens: 21 Loss: 5.549076 Perplexity: 257.0000'
for length in 1 5 16; do
    printf 'zzzzzzzzzzzzzzzzzzzzz\377' >c.txt
    check "eval $length" "$program" gpt eval --hf-model z --input-files c.txt --sequence-length $length --micro-batch 3 >out
    check "eval $length: 20 right ones of 21" test "$(cat out)" = 'Tokens: 21 Loss: 4.761905 Perplexity: 116.9685'
done

error 2 'unknown command `generat`; did you mean `generate`?' gpt generat
error 2 'no model is given; --hf-model DIR names its folder' gpt generate
error 2 'no model is given; --hf-model DIR names its folder' gpt eval
error 2 'no texts are given; name the files' gpt eval --hf-model z
error 1 'none/config.json' gpt generate --hf-model none
error 2 'a prompt of 3 tokens and --length 14 exceed the model' gpt generate --hf-model z --prompt abc --length 14
error 2 '--top-p is 0; it must be above 0 and at most 1' gpt generate --hf-model z --top-p 0
error 2 '--prompt and --prompt-file mean the same' gpt generate --hf-model z --prompt a --prompt-file prompt
error 2 'sequence_length is 17, but positions is 16' gpt eval --hf-model z --input-files a.txt --sequence-length 17
printf z >short.txt
error 1 'short.txt: has 1 token but must have at least 2' gpt eval --hf-model z --input-files short.txt
sed -i 's/257/300/' zero/config.json
error 1 'zero: has no tokenizer: neither tokenizer.json nor vocab.json and merges.txt; --tokenizer DIR names another' \
    gpt generate --hf-model zero
error 1 'zero: has no tokenizer: neither tokenizer.json nor vocab.json and merges.txt; --tokenizer DIR names another' \
    gpt eval --hf-model zero --input-files b.u16 a.txt
# Token files need no tokenizer: the model has 300 tokens, more than a tokenizer of bytes.
model many '\000\000\000\000' 122 300
printf 'a\000b\000\053\001' >b.u16
check "tokens without a tokenizer" "$program" gpt eval --hf-model many --input-files b.u16 >out
check "their loss" test "$(cat out)" = 'Tokens: 2 Loss: 5.703783 Perplexity: 300.0000'
printf 'a\000\000\000\053\001\000\000' >b.u32
check "tokens of four bytes" sh -c '"$1" gpt eval --hf-model many --input-files b.u16 b.u32 | grep -q "^Tokens: 3 "' sh "$program"
error 1 'many: has no tokenizer' gpt eval --hf-model many --input-files b.u16 a.txt
error 1 '--tokenizer: none: has no tokenizer' gpt eval --hf-model many --input-files b.u16 --tokenizer none
error 1 'b.u16: token 2 is 299 but must be below 257' gpt eval --hf-model z --input-files b.u16
# Each record of a TFRecord file is a separate text: 3 records of 7 tokens have 6 predicted tokens each.
"$program" data tokenize a.txt --length 7 --output records.tfrecord --quiet
check "records" sh -c '"$1" gpt eval --hf-model many --input-files records.tfrecord | grep -q "^Tokens: 18 "' sh "$program"
printf 'zzaz' >zzaz.txt
"$program" data tokenize zzaz.txt --length 2 --no-end-of-text --output two.tfrecord --quiet
check "two records" "$program" gpt eval --hf-model z --input-files two.tfrecord >out
check "nothing follows from one to the next" test "$(cat out)" = 'Tokens: 2 Loss: 0.000000 Perplexity: 1.0000'
"$program" data tokenize zzaz.txt --length 1 --output one.tfrecord --quiet
error 1 'one.tfrecord: record 0: has 1 token but must have at least 2' gpt eval --hf-model z --input-files one.tfrecord
head -c 30 records.tfrecord >cut.tfrecord
error 1 'cut.tfrecord: byte 0: ' gpt eval --hf-model many --input-files cut.tfrecord
error 1 'tensor `wte.weight` is [257,4], but the configuration makes it [300,4]' gpt generate --hf-model zero --tokenizer bytes
sed -i 's/300/100/' zero/config.json
error 1 'the tokenizer has 257 tokens, but the model of zero has a vocabulary of 100' gpt generate --hf-model zero --tokenizer bytes
# Generates with a model that the program trained; its tokens are ASCII characters.
check pretrain "$program" gpt pretrain --config tiny --set tensor_parallel_1=1 tensor_parallel_2=1 data_parallel=1 --steps 2 \
    --quiet --save-hf own >out 2>err
check own "$program" gpt generate --hf-model own --prompt 'the ' --length 4 --temperature 0 >out
check "own: eight characters" sh -c "grep -q '^the ' out && test \$(wc -c <out) -eq 9"
printf 'a text of characters' >ascii.txt
check "own: eval" sh -c "'$program' gpt eval --hf-model own --input-files ascii.txt | grep -q '^Tokens: 19 Loss: 4[.]8'"
error 2 'the model has no end-of-text token to begin with; give a --prompt' gpt generate --hf-model own --length 2
error 2 'token 0 is 195 but must be below the vocabulary' gpt generate --hf-model own --prompt "$(printf '\303\251')" --length 2

check help sh -c "'$program' gpt --help | grep -q '^  generate '"
finish
