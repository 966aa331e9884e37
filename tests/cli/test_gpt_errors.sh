#!/bin/sh
# Errors in options, configuration and files of `brigade gpt` give the right exit code and one line that says what would
# be right, before training.
. "$(dirname "$0")/support.sh"

cd "$folder" || exit 1
one='--quiet --steps 2 --set tensor_parallel_1=1 tensor_parallel_2=1 data_parallel=1 precision=float32 stochastic_rounding=false'

# ---- values ----

# wrong KEY=VALUE WORDS: the configuration is refused.
wrong() {
    error 2 "$2" gpt pretrain $one "$1"
}

for field in layers:model. heads:model.attention. vocab_size:model.embedding. sequence_length:model. \
    micro_batch_size:execution. global_batch_size:training. device_iterations:execution. training.steps: \
    attention_serialization:execution. max_checkpoints:checkpoint. tensor_parallel_1:execution. n_samples:data. \
    sample_stride:data.; do
    for value in 0 -1 1.5 many; do
        is=$value
        [ "$value" = many ] && is='"many"'
        wrong "${field%:*}=$value" "--set: ${field#*:}${field%:*} is $is; it must be a whole number from 1 to "
    done
done
wrong maximum=-1 'training.optimizer.learning_rate.maximum is -1; it must be a number from 0 to'
wrong maximum=nan 'training.optimizer.learning_rate.maximum is "nan"; it must be a number'
wrong dropout_prob=1 'model.dropout_prob is 1; it must be a number from 0 to 0.999999'
wrong beta1=1.5 'training.optimizer.beta1 is 1.5; it must be a number from 0 to 1'
wrong warmup_proportion=2 'warmup_proportion is 2; it must be a number from 0 to 1'
wrong gradient_clipping=-1 'gradient_clipping is -1; it must be a number from 0'
wrong loss_scaling=0 'execution.loss_scaling is 0; it must be a number from'
wrong precision=fp16 'model.precision is "fp16"; it must be one of '
wrong decay=exp 'decay is "exp"; it must be one of linear|cosine'
wrong training.optimizer.name=adamx 'training.optimizer.name is "adamx"; it must be one of '
wrong test_mode=maybe 'execution.test_mode is "maybe"; it must be true or false'
wrong available_memory_proportion=2 'it must be a list of 1 to 16 numbers from 0 to 1'
wrong layers 'must have the form KEY=VALUE, such as model.layers=4'
wrong =3 'must have the form KEY=VALUE, such as model.layers=4'
wrong layers= 'model.layers is null; it must be'
wrong steps=5 '`steps` can mean training.steps or checkpoint.steps; give the full name'

# ---- combinations ----

wrong heads=5 'model.hidden_size 64 is not divisible by model.attention.heads 5'
wrong sequence_length=16 'model.sequence_length 16 is longer than model.embedding.max_positional_length 8'
error 2 'training.global_batch_size 16 is not divisible by execution.data_parallel 1 x execution.micro_batch_size 3 = 3; a global_batch_size of 15 would be' \
    gpt pretrain $one micro_batch_size=3
error 2 'training.global_batch_size 16 is not divisible by execution.data_parallel 3 x execution.micro_batch_size 1 = 3; a global_batch_size of 15 would be' \
    gpt pretrain $one data_parallel=3
wrong tensor_parallel_1=8 'model.attention.heads 4 is not divisible by execution.tensor_parallel_1 8'
wrong tensor_parallel_2=5 'model.hidden_size 64 is not divisible by execution.tensor_parallel_2 5'
wrong attention_serialization=3 'execution.attention_serialization 3 does not divide model.sequence_length 8'
printf 'abcdefghijklmnopqrstuvwxyz' >alphabet.txt
error 1 '3 samples of 8 tokens, and a call takes training.global_batch_size 16 x execution.device_iterations 1 = 16' \
    gpt pretrain $one n_samples=4 --input-files alphabet.txt
error 2 '--steps 3 is not divisible by execution.device_iterations 2' gpt pretrain $one device_iterations=2 --steps 3

# ---- no listing before an error ----

mkdir filled && touch filled/file
for options in '--set n_samples=4 --input-files alphabet.txt' '--device-memory 1K' '--save-hf filled' \
    '--log nowhere/log' '--compile-only --device-memory 1K' '--set device_iterations=2 --steps 3'; do
    # shellcheck disable=SC2086
    "$program" gpt pretrain ${one#--quiet } $options >refused.out 2>refused.err </dev/null
    check "refused: $options" test $? -ne 0
    check "at most ten lines before the error of $options" test "$(wc -l <refused.out)" -le 10
    check "no configuration before the error of $options" sh -c '! grep -q ^Configuration: refused.out'
    check "the error of $options" grep -q '^brigade gpt: ' refused.err
done

# ---- names ----

error 2 'unknown option --resume: `--load DIR` resumes from the newest checkpoint in a folder' gpt pretrain $one --resume

wrong layerz=3 'unknown key `layerz`; did you mean `model.layers`?'
wrong training.layers=3 'unknown key `training.layers`; did you mean `model.layers`?'
wrong checkpoint.stepz=3 'unknown key `checkpoint.stepz`; did you mean `checkpoint.steps`?'
wrong optimizer.name=adam 'did you mean `training.optimizer.name`?'
wrong lerning_rate=1 'did you mean `training.optimizer.learning_rate`?'
wrong zzzzz=1 'unknown key `zzzzz`'
wrong model=3 'model is a group, not a value; its fields are layers, hidden_size, '
wrong training.optimizer.learning_rate=1 'learning_rate is a group, not a value; its fields are maximum, '

# Errors about the example's options contain the option as the user wrote it.
error 2 '--layers: model.layers is "many"; it must be a whole number from 1 to 100000' gpt pretrain --layers many
error 2 '--hidden-size: model.hidden_size is 0; it must be a whole number' gpt pretrain --hidden-size=0
error 2 '--eval: model.eval is "maybe"; it must be true or false' gpt pretrain --eval maybe
error 2 '--dampening: training.optimizer.dampening is "x"; it must be a number' gpt pretrain --dampening x
error 2 'training.optimizer.dampening is set, but adamw has no such setting' gpt pretrain --dampening -1
error 2 '--set: model.layers is 0; ' gpt pretrain --layers 2 --set layers=0
error 2 '--layers needs a value: --layers VALUE' gpt pretrain --layers
error 2 '--layers needs a value: --layers VALUE' gpt pretrain --layers --eval
error 2 'unexpected argument `extra`' gpt pretrain --layers 3 extra
error 2 '`steps` can mean training.steps or checkpoint.steps; give the full name' gpt bench --steps 3
error 2 'unknown option --quantum; --help all lists the options' gpt pretrain --quantum 4
error 2 'unknown option --input_files; --help all lists the options' gpt bench --input_files a.txt
for option in wandb wandb_name wandb-name wandb=True; do
    for command in pretrain bench; do
        error 2 "unknown option --${option%=*}: metrics are written by \`--tensorboard DIR\` and \`--log FILE\`" \
            gpt $command --$option True
    done
done
for option in log_level log-level log_level=DEBUG; do
    error 2 "unknown option --${option%=*}: \`--quiet\` prints only results, \`--log-cycles\` adds the time of each call, and \`--log-dir" \
        gpt pretrain --$option INFO
done

# ---- files of configuration ----

# file NAME CONTENT WORDS: a configuration file with this content is refused.
file() {
    printf "$2" >"$1"
    error 2 "$3" gpt pretrain --config-file "$1" --quiet --steps 1
}
file a.yaml 'modle:\n  layers: 3\n' 'a.yaml:1:1: unknown key `modle`; did you mean `model`?'
file a.yaml 'model:\n  attention:\n    head: 3\n' 'a.yaml:3:5: unknown key `model.attention.head`; did you mean `model.attention.heads`?'
file a.yaml 'model: 3\n' 'a.yaml:1:1: model is a group, not a value; its fields are layers, '
file a.yaml 'model:\n  layers: [1]\n' 'a.yaml:2:3: model.layers is [1]; it must be a whole number'
file a.yaml 'model:\n  layers: 3\n  layers: 4\n' 'a.yaml:3:3: the key `layers` occurs twice'
file a.yaml 'model:\n  layers: 3\n layers: 4\n' 'a.yaml:3:'
file a.yaml '\000\001' 'a.yaml:1:1: '
file a.json '{"model": {"layers": 3,}}' 'a.json:1:24: '
error 2 'none.yaml: cannot open: No such file or directory' gpt pretrain --config-file none.yaml

# ---- data ----

: >empty.txt
: >empty.u16
: >empty.tfrecord
printf 'abc' >odd.u16
printf '\377\377\000\000\001\000\002\000\003\000\004\000\005\000\006\000\007\000' >large.u16
error 1 'none.u16: cannot open' gpt pretrain $one --input-files none.u16
error 1 'empty.txt: byte 0: the file has 0 tokens but must have at least 9' gpt pretrain $one --input-files empty.txt
error 1 'empty.u16: byte 0: the file has 0 tokens but must have at least 9' gpt pretrain $one --input-files empty.u16
error 1 'empty.tfrecord: has no records' gpt pretrain $one --input-files empty.tfrecord
error 1 'odd.u16: byte 3: the file ends within a token of 2 bytes' gpt pretrain $one --input-files odd.u16
error 1 'large.u16: byte 0: token 0 is 65535 but must be below 128' gpt pretrain $one global_batch_size=1 --input-files large.u16
error 1 'the name must end in .u16, .u32, .tfrecord (tokens), .txt or .md (text)' gpt pretrain $one --input-files "$0"
head -c 40 "$root/tests/fuzz/corpus/tfrecord/plain" >cut.tfrecord
error 1 'cut.tfrecord: byte ' gpt pretrain $one --input-files cut.tfrecord

# ---- models and checkpoints ----

"$program" gpt pretrain $one --save saved --save-hf hf >out 2>&1
check "a model and a checkpoint" test -s hf/model.safetensors -a -s saved/checkpoint_train_step_2.safetensors

# model CONTENT-COMMAND WORDS: a folder with a wrong model is refused.
model() {
    rm -rf bad && cp -r hf bad
    sh -c "$1"
    error 1 "$2" gpt pretrain $one --hf-model bad
    error 1 "$2" gpt generate --hf-model bad --prompt the --length 2
}
model ': >bad/model.safetensors' 'model.safetensors: is 0 bytes long but must be at least 10'
model 'head -c 1000 hf/model.safetensors >bad/model.safetensors' 'model.safetensors: byte 1000: the file is truncated: its header length is '
model 'head -c 9000 hf/model.safetensors >bad/model.safetensors' 'are not within the file'
model 'printf "\377\377\377\377\377\377\377\377{}" >bad/model.safetensors' 'header length is 18446744073709551615 but must be 2 to 2'
model 'printf "{" | dd of=bad/model.safetensors bs=1 seek=20 conv=notrunc 2>dd' 'bad/model.safetensors: '
model 'rm bad/model.safetensors' 'bad'
model 'printf "{\"a\":" >bad/config.json' 'bad/config.json:1:6: not JSON'
model 'rm bad/config.json' 'bad/config.json: cannot open'
error 1 'n_head is 4, but the program'"'"'s heads is 2; n_layer is 2, but the program'"'"'s layers is 3; vocab_size is 128' \
    gpt pretrain $one heads=2 layers=3 vocab_size=200 --hf-model hf
error 1 '--hf-model: none/config.json: cannot open' gpt pretrain $one --hf-model none

error 1 '--load: checkpoint: the folder none does not exist' gpt pretrain $one --load none
error 1 '--load: checkpoint: hf has no checkpoint' gpt pretrain $one --load hf
error 1 'hf/config.json' gpt pretrain $one --load hf/config.json
error 1 '`transformer.wte.weight` is float32[128,64], but the weight is float32[128,32]' \
    gpt pretrain $one hidden_size=32 --load saved
cp -r saved cut && truncate -s 50000 cut/*
error 1 'it is not used, and cut has no other: start a new training' gpt pretrain $one --load cut
cp -r saved flipped && printf 'x' | dd of=flipped/checkpoint_train_step_2.safetensors bs=1 seek=40000 conv=notrunc 2>dd
error 1 'the checksum is ' gpt pretrain $one --load flipped
# A damaged checkpoint is reported with a remedy; an older one is not used silently.
"$program" gpt pretrain $one --checkpoint-keep 2 --save both --checkpoint-steps 1 >out 2>&1
printf 'x' | dd of=both/checkpoint_train_step_2.safetensors bs=1 seek=40000 conv=notrunc 2>dd
error 1 'it is not used: name `checkpoint_train_step_1.safetensors`' gpt pretrain $one --load both
error 1 'but this run begins at step 1; resume from the checkpoint with --load, remove it if it is damaged' \
    gpt pretrain $one --load both/checkpoint_train_step_1.safetensors --save both
check "an older one, by its name" \
    "$program" gpt pretrain $one --load both/checkpoint_train_step_1.safetensors --save another >out 2>err
check "is gone on from, to the same bits" cmp -s another/checkpoint_train_step_2.safetensors \
    saved/checkpoint_train_step_2.safetensors

# With the guard, a loss that is not finite ends the run before its update, and leaves no checkpoint, but a folder with
# which the update can be repeated. Without the guard the run ends after the update.
error 1 'the loss of weight update 2 is infinite or NaN: the update was refused' \
    gpt pretrain $one maximum=1e30 constant=true gradient_clipping=0 --save diverging
check "no checkpoint: $(ls diverging)" test "$(ls diverging)" = refused-2
echo guard_loss=false >off
error 1 'the loss became NaN in update 2: lower training.optimizer.learning_rate.maximum; no checkpoint of it was written' \
    gpt pretrain $one maximum=1e30 constant=true gradient_clipping=0 --save unguarded --options off
check "no checkpoint: $(ls unguarded)" test -z "$(ls unguarded)"

# ---- output files ----

error 1 '--save: /dev/null: is not a folder' gpt pretrain $one --save /dev/null
error 1 '--log: none/x: No such file or directory' gpt pretrain $one --log none/x
error 1 '--save-weights: none/x: cannot create a file there' gpt pretrain $one --save-weights none/x
error 1 '--save-hf: ' gpt pretrain $one --save-hf /dev/null/x
error 1 '--trace: none/x: cannot create a file there' gpt pretrain $one --trace none/x
error 1 '--tensorboard: ' gpt pretrain $one --tensorboard /dev/null/x

# No option may write a file that another option reads or writes, above all the data.
"$program" data tokenize "$root/docs/gpt.md" --output kept.u16 --quiet
cp kept.u16 whole.u16 && ln -s kept.u16 link.u16 && printf 'training:\n  steps: 2\n' >kept.yaml
error 2 '--log and --input-files name the same file, kept.u16' gpt pretrain $one --input-files 'kept.*16' --log kept.u16
error 2 '--log and --input-files name the same file, link.u16' gpt pretrain $one --input-files kept.u16 --log link.u16
error 2 '--save-weights and --input-files name the same file, ./kept.u16' \
    gpt pretrain $one --input-files kept.u16 --save-weights ./kept.u16
error 2 '--log and --save-weights name the same file, new' gpt pretrain $one --log new --save-weights ./new
error 2 '--save-weights and --trace name the same file, ./new' gpt pretrain $one --trace new --save-weights ./new
error 2 '--log and --config-file name the same file, kept.yaml' gpt pretrain $one --config-file kept.yaml --log kept.yaml
error 2 '--log and --load name the same file, saved/checkpoint_train_step_2.safetensors' gpt pretrain $one \
    --load saved/checkpoint_train_step_2.safetensors --log saved/checkpoint_train_step_2.safetensors
check "they are as they were" cmp -s kept.u16 whole.u16
for option in save load memmap-dir; do
    error 2 "--$option: \`" gpt pretrain $one --$option "$(printf 'no\377')"
    check "--$option: why" grep -q 'is not UTF-8 text' err
done

# ---- invalid positions of calls ----

"$program" gpt pretrain $one --steps 3 --save third >out 2>&1
"$program" gpt pretrain $one device_iterations=2 --steps 8 --load third --set global_batch_size=8 >out 2>err
check "a position between calls is refused: $(cat err)" test $? -eq 1
check "and the error gives it: $(cat err)" grep -q \
    'step 3, where the run would resume, is not divisible by execution.device_iterations 2' err
check "after a warning about another batch: $(cat err)" grep -q 'batch=16 .* this session has .*batch=8 ' err
check "what is done is done" "$program" gpt pretrain $one device_iterations=2 --load third --save-weights third.safetensors \
    --set global_batch_size=8 >out 2>err
check "and saved" test -s third.safetensors

# ---- devices ----

error 1 'stages: block `Layer-5` is not in the model; its blocks are `Embedding`, `Layer-0`, `Layer-1`, `Head`' \
    gpt pretrain $one --stages 'Embedding,Layer-5|Head'
error 1 'block `Layer-1` is in no stage' gpt pretrain $one --stages 'Embedding|Layer-0'
error 1 'the model can be cut into at most 4 stages' gpt pretrain $one --strategy pipelined --stages auto:99
error 1 'there are 4 stages and 99 devices' gpt pretrain $one --strategy pipelined --devices 99
error 2 'above 1 is set, but the single strategy' gpt pretrain $one --strategy single --devices 3
error 2 '--schedule grouped is given with --strategy phased' gpt pretrain $one --schedule grouped
error 2 '--device-memory has 2 values' gpt pretrain $one --device-memory 1K,2K
error 2 '--shard names `bogus`' gpt pretrain $one --shard bogus
error 2 '--offload names `bogus`' gpt pretrain $one --offload bogus
error 2 '--recompute is `2`; it must be' gpt pretrain $one --recompute 2
error 2 '--recompute auto needs --device-memory' gpt pretrain $one --recompute auto
error 1 'activations are sharded, but the model has no tensor-parallel replicas' \
    gpt pretrain $one --shard activations
error 2 'activations are sharded and on the device' gpt pretrain $one --shard activations --offload weights
error 2 'weights are sharded and on the device' gpt pretrain $one --shard weights --offload none
error 2 'the phases are parallel and need loads that overlap' \
    gpt pretrain $one --phases parallel --phase-liveness off_chip_after_each_phase
error 2 '--seed is `-1`' gpt pretrain $one --seed -1
error 2 '--steps is `0`' gpt pretrain $one --steps 0
error 2 '--config needs a value' gpt pretrain --config
error 2 'unexpected argument `extra`' gpt pretrain extra
error 2 'did you mean --config?' gpt pretrain --confg tiny

# ---- generating, evaluating, tokens ----

error 2 'a prompt of 3 tokens and --length 50 exceed the model'"'"'s 8 positions; --length 5 fits' \
    gpt generate --hf-model hf --prompt the
error 2 'a prompt of 8 tokens leaves no position for a new token, because the model has 8; give a shorter prompt' \
    gpt generate --hf-model hf --prompt 'eight ch' --length 1
error 2 '--temperature is `nan`' gpt generate --hf-model hf --prompt the --temperature nan
error 2 '--top-p is 1.5; it must be above 0 and at most 1' gpt generate --hf-model hf --prompt the --top-p 1.5
error 2 'the model has no end-of-text token to begin with; give a --prompt' \
    gpt generate --hf-model hf --prompt-file empty.txt --length 2
error 1 'none: cannot open' gpt generate --hf-model hf --prompt-file none
error 1 '--tokenizer: none: has no tokenizer' gpt generate --hf-model hf --prompt the --tokenizer none
error 1 'is a folder, not a file' gpt eval --hf-model hf --input-files hf
error 1 'none.txt: cannot open' gpt eval --hf-model hf --input-files none.txt
# The first weight of the last layer norm becomes NaN.
cp -r hf diverged && printf '\377\377\377\377' | dd of=diverged/model.safetensors bs=1 seek=$(($(wc -c <hf/model.safetensors) - 4)) conv=notrunc 2>dd
error 1 'the loss is not a number: the weights of diverged are damaged' gpt eval --hf-model diverged --input-files kept.yaml
error 2 '--micro-batch is `0`' gpt eval --hf-model hf --input-files a.yaml --micro-batch 0
printf 'a text' >a.txt
error 2 'no texts are given; name the files' data tokenize
error 2 'its name must end in .u16' data tokenize a.txt --tokenizer bytes --output a.bin
error 2 '--overlap 9 must be below --length 9' data tokenize a.txt --tokenizer bytes --output a.u16 --length 9 --overlap 9
error 2 '--stride 12 leaves tokens out; it must be at most --length 9' \
    data tokenize a.txt --tokenizer bytes --output a.u16 --length 9 --stride 12
error 2 'the texts have no window of that length; a.u16 was not written' \
    data tokenize a.txt --tokenizer bytes --output a.u16 --length 100
error 2 'the texts have no tokens' data tokenize empty.txt --tokenizer bytes --output a.u16
check "nothing was written" test ! -e a.u16

finish
