#!/bin/sh
# `brigade gpt`: the number of samples and the labels from texts, token files and TFRecord files.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/gpt.sh"

# Each run sets its number of steps.
small=$plain

begin_case few-samples
# If there are fewer samples than an update needs, the same samples are used several times.
train few --steps 6 --set n_samples=2 --no-shuffle
printf 'abcdefghijklmnopqrstuvwxyz0123456789' >alphabet.txt
train some --steps 2 --input-files alphabet.txt --set n_samples=2 global_batch_size=2 dropout_prob=0 --no-shuffle
train more --steps 2 --input-files alphabet.txt --set n_samples=2 global_batch_size=4 dropout_prob=0 --no-shuffle
check "few samples are used again and again" grep -q '; 4 samples of 8 tokens$' more.out
check "to the same loss" test "$(values some loss | head -n 1 | cut -c 1-8)" = "$(values more loss | head -n 1 | cut -c 1-8)"

begin_case texts
train text --steps 6 --input-files alphabet.txt --set global_batch_size=2
check "a text file" grep -q '^Data: alphabet.txt; 4 samples of 8 tokens$' text.out

cp alphabet.txt longer.txt && printf '0123' >>longer.txt
train bytes --steps 1 --input-files longer.txt --set vocab_size=256 global_batch_size=4 --no-shuffle
check "the end of a text is no token of 256" grep -q '^Data: longer.txt; 4 samples of 8 tokens$' bytes.out
train end --steps 1 --input-files longer.txt --set vocab_size=257 global_batch_size=4 --no-shuffle
check "it is one of 257" grep -q '^Data: longer.txt; 5 samples of 8 tokens$' end.out

begin_case data
train saved --steps 2 --save-hf hf
count_tokens >count.u16
train tokens --steps 3 --input-files count.u16 --set global_batch_size=4 --no-shuffle
check "a token file" grep -q '^Data: count.u16; 12 samples of 8 tokens$' tokens.out
# Labels are the next tokens, so the loss is that of `gpt eval`, which predicts each token except the first.
train shifted --steps 1 --input-files count.u16 --no-shuffle --hf-model hf \
    --set global_batch_size=12 dropout_prob=0 maximum=0 constant=true
"$program" gpt eval --hf-model hf --input-files count.u16 --sequence-length 8 >eval.out 2>&1
check "the loss is eval's" awk "BEGIN { d = $(values shifted loss) - $(sed -n 's/.*Loss: \([0-9.]*\).*/\1/p' eval.out); exit d > 1e-5 || d < -1e-5 }"
cp count.u16 count2.u16
train files --steps 1 --input-files 'count*.u16'
check "two files" grep -q '^Data: count.u16 and 1 more; 24 samples of 8 tokens$' files.out

# Overlapping windows in a token file give the same samples as overlapping samples of the text.
"$program" data tokenize longer.txt --tokenizer bytes --output tokens.u16 >out
"$program" data tokenize longer.txt --tokenizer bytes --output windows.u16 --length 9 --overlap 5 >out
train windows --steps 3 --input-files windows.u16 --set sample_stride=9 vocab_size=257 global_batch_size=4
check "windows" grep -q '^Data: windows.u16; 9 samples of 8 tokens$' windows.out
train strides --steps 3 --input-files tokens.u16 --set sample_stride=4 vocab_size=257 global_batch_size=4
check "windows are samples" cmp -s windows.safetensors strides.safetensors

begin_case records
# The data are records of the fuzz corpus with 5 and 6 tokens.
tail -c +3 "$root/tests/fuzz/corpus/tfrecord/plain" >a.tfrecord
train records --steps 1 --input-files a.tfrecord --set sequence_length=4 vocab_size=300 global_batch_size=2 --no-shuffle
check "a TFRecord file" grep -q '^Data: a.tfrecord; 2 samples of 4 tokens$' records.out
check "no warning" test ! -s records.err
train cut --steps 1 --input-files a.tfrecord --set sequence_length=3 vocab_size=300 global_batch_size=2 attention_serialization=1
check "longer records are cut with a warning" grep -q 'warning: records have 5 tokens, of which the first 4 are used' cut.err
error 1 'a record has 5 tokens but must have at least 6' gpt pretrain $one precision=float32 --quiet --steps 1 \
    --input-files a.tfrecord --set sequence_length=5 vocab_size=300 global_batch_size=2 attention_serialization=1 --no-shuffle

begin_case written-records
# Records that the program wrote, and windows in a token file, are samples with the same tokens.
"$program" data tokenize longer.txt --length 9 --overlap 5 --output windows.tfrecord >out
train recorded --steps 3 --input-files windows.tfrecord --set vocab_size=257 global_batch_size=4
check "TFRecord files of our own" grep -q '^Data: windows.tfrecord; 9 samples of 8 tokens$' recorded.out
same_losses windows recorded
# A pattern, as in the example, also matches the index files, under both of their names.
train globbed --steps 3 --input-files 'windows.[it]*' --set vocab_size=257 global_batch_size=4
same_losses windows globbed
check "the data are the records" grep -q '^Data: windows.tfrecord; 9 samples of 8 tokens$' globbed.out
check "the index is skipped, with a word: $(cat globbed.err)" test "$(cat globbed.err)" = \
    'brigade gpt: warning: input files: skipped windows.index, the index of a .tfrecord file in the list'
mkdir pieces && cp windows.tfrecord pieces/a.tfrecord && cp windows.index pieces/a.tfrecord.index &&
    cp windows.tfrecord pieces/b.tfrecord && cp windows.index pieces/b.index
train shards --steps 1 --input-files 'pieces/*' --set vocab_size=257 global_batch_size=4
check "two of each" grep -q '^Data: pieces/a.tfrecord and 1 more; 18 samples of 8 tokens$' shards.out
check "indexes of both names are skipped" grep -q -F \
    'skipped pieces/a.tfrecord.index and 1 other, the indexes of .tfrecord files in the list' shards.err
train folder --steps 1 --input-files pieces --set vocab_size=257 global_batch_size=4
check "a folder is its records" sh -c 'test ! -s folder.err && grep -q "^Data: pieces/a.tfrecord and 1 more; 18 " folder.out'
train bare --steps 3 --input-files windows --set vocab_size=257 global_batch_size=4
same_losses windows bare
cp windows.index lonely.index && cp hf/config.json lonely.json && mkdir lonely.d
error 1 'lonely.index: this is the index of a TFRecord file; name the .tfrecord file' \
    gpt pretrain $one precision=float32 --quiet --steps 1 --input-files 'lonely.i*'
error 1 'lonely.json: the kind of file is unknown; the name must end in .u16, .u32, .tfrecord (tokens), .txt or .md' \
    gpt pretrain $one precision=float32 --quiet --steps 1 --input-files 'lonely.j*'
error 1 'lonely.d: is a folder, not a file' gpt pretrain $one precision=float32 --quiet --steps 1 --input-files 'lonely.?'
error 1 'input files: lonely.d is a folder without .tfrecord files' \
    gpt pretrain $one precision=float32 --quiet --steps 1 --input-files lonely.d
finish
