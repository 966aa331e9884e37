#!/bin/sh
# `brigade gpt pretrain --memmap-dir` gives the same bits as in memory, in one run, after a stop and under every
# strategy. Memory has no second copy of the model, test mode writes no files, and files of another model are refused.
. "$(dirname "$0")/support.sh"

cd "$folder" || exit 1
values='precision=float32 stochastic_rounding=false maximum=0.003 warmup_proportion=0'
tiny="--set $values tensor_parallel_1=1 tensor_parallel_2=1"

# train NAME ARGUMENT...: trains, with weights in NAME.safetensors and the log in NAME.jsonl.
train() {
    name=$1
    shift
    if "$program" gpt pretrain "$@" --save-weights "$name.safetensors" --log "$name.jsonl" >"$name.out" 2>"$name.err"; then
        pass
    else
        fail "$*:" "$(cat "$name.err")"
    fi
}

# same NAME NAME: checks that weights, losses and norms are the same.
same() {
    check "$1 and $2 have the same weights" cmp -s "$1.safetensors" "$2.safetensors"
    for key in step loss grad_norm; do
        check "$1 and $2 log the same $key" test "$(sed -n "s/.*\"$key\":\([^,}]*\).*/\1/p" "$1.jsonl")" = \
            "$(sed -n "s/.*\"$key\":\([^,}]*\).*/\1/p" "$2.jsonl")"
    done
}

begin_case bits
# ---- bits ----

# both NAME ARGUMENT...: trains in memory, and in files in two runs.
both() {
    way=$1
    shift
    train "$way.memory" $tiny --steps 4 "$@"
    train "$way" $tiny --steps 2 --memmap-dir "$way.files" "$@"
    train "$way" $tiny --steps 4 --memmap-dir "$way.files" "$@"
    check "$way: the second run goes on" grep -q '^Continuing from step 2$' "$way.out"
    same "$way" "$way.memory"
}

both phased
both pieces --set data_parallel=2
both mesh --set tensor_parallel_1=2 tensor_parallel_2=2
both pipelined --strategy pipelined --offload weights,accumulators,optimizer,activations
both single --strategy single --offload optimizer
both resident --strategy sharded --offload none
for other in pipelined single resident; do
    same phased $other
done
train whole $tiny --steps 4 --memmap-dir phased.files
check "nothing is left to train" grep -q '^Nothing was trained: the files are at step 4' whole.out
check "the same weights once more" cmp -s whole.safetensors phased.safetensors

# The samples of an epoch are not a multiple of those of an update; the position in the data is restored too.
train epochs.memory $tiny --steps 6 --set n_samples=50
train epochs $tiny --steps 4 --set n_samples=50 --memmap-dir epochs.files
train epochs $tiny --steps 6 --set n_samples=50 --memmap-dir epochs.files
same epochs epochs.memory

printf '{"memmap_dir": "named.files"}' >options.json
train named $tiny --steps 2 --options options.json
train named $tiny --steps 4 --options options.json
same named phased.memory

begin_case checkpoints
# ---- checkpoints ----

train saved.memory $tiny --steps 3 --save saved.memory
train saved $tiny --steps 3 --save saved --memmap-dir saved.files
check "a checkpoint is the same" cmp -s saved/checkpoint_train_step_3.safetensors \
    saved.memory/checkpoint_train_step_3.safetensors
train back $tiny --steps 4 --memmap-dir phased.files --load saved --save saved
same_weights() { cmp -s back.safetensors phased.safetensors; }
check "a checkpoint goes over the files" same_weights
train model.memory $tiny --steps 1 --save-hf hf
train model.memory $tiny --steps 2 --hf-model hf
train model $tiny --steps 2 --hf-model hf --memmap-dir model.files
same model model.memory
error 1 'the files in model.files are from step 2' gpt pretrain $tiny --steps 4 --hf-model hf --memmap-dir model.files

begin_case test-mode
# ---- test mode ----

before=$(cksum phased.files/*)
"$program" gpt pretrain $tiny test_mode=true --steps 6 --memmap-dir phased.files >tested.out 2>&1
check "test mode goes on" grep -q '^Step: 6/' tested.out
check "test mode leaves the files as they are" test "$(cksum phased.files/*)" = "$before"
"$program" gpt pretrain $tiny test_mode=true --steps 2 --memmap-dir nothing.files >tested.out 2>&1
check "test mode without files" grep -q '^Step: 2/' tested.out
check "test mode makes none" test ! -e nothing.files

begin_case refusals
# ---- files that are not used ----

error 1 'belongs to another plan' gpt pretrain $tiny --memmap-dir phased.files --set layers=3 --steps 9
error 1 'belongs to another plan' gpt pretrain $tiny --memmap-dir phased.files --strategy single --steps 9
size=$(wc -c <single.files/replica0.device0.store)
head -c $((size - 1)) single.files/replica0.device0.store >cut && mv cut single.files/replica0.device0.store
error 1 'replica0.device0.store is truncated: it has' gpt pretrain $tiny --strategy single --offload optimizer \
    --memmap-dir single.files --steps 9
(
    trap '' XFSZ
    ulimit -f 16
    exec "$program" gpt pretrain $tiny --memmap-dir full.files --steps 2
) >out 2>full.err
check "a full disk ends before the run" grep -q 'full.files/replica0.device0.store needs .* MB are free there' full.err
check "and leaves nothing" test "$(ls full.files)" = lock

begin_case ends
# ---- a run that ends before its files are complete ----

"$program" gpt pretrain $tiny --memmap-dir killed.files --save killed --checkpoint-steps 2 >killed.out 2>&1 &
pid=$!
while kill -0 $pid 2>/dev/null && ! grep -q '^Step: 5/' killed.out; do sleep 0.02; done
error 1 'killed.files is in use by another session' gpt pretrain $tiny --memmap-dir killed.files --steps 9
kill -9 $pid
wait $pid 2>/dev/null
error 1 'did not end properly' gpt pretrain $tiny --memmap-dir killed.files --steps 9
last=$(ls killed | sed -n 's/^checkpoint_train_step_\([0-9]*\)\.safetensors$/\1/p' | sort -n | tail -n 1)
train killed $tiny --memmap-dir killed.files --load killed --steps $((last + 3))
train killed.memory $tiny --steps $((last + 3))
check "after a kill a checkpoint goes on to the same bits" cmp -s killed.safetensors killed.memory.safetensors

"$program" gpt pretrain $tiny --memmap-dir ended.files >ended.out 2>&1 &
pid=$!
while kill -0 $pid 2>/dev/null && ! grep -q '^Step: 3/' ended.out; do sleep 0.02; done
kill -TERM $pid
wait $pid
check "a signal ends the run in order" grep -q '; it is saved$' ended.out
last=$(sed -n 's/^Stopped by signal 15 after step \([0-9]*\);.*/\1/p' ended.out)
train ended $tiny --memmap-dir ended.files --steps $((last + 2))
train ended.memory $tiny --steps $((last + 2))
check "after a signal the files go on to the same bits" cmp -s ended.safetensors ended.memory.safetensors

# Complete files are no longer complete once a run has resumed from them.
"$program" gpt pretrain $tiny --memmap-dir ended.files >again.out 2>&1 &
pid=$!
while kill -0 $pid 2>/dev/null && ! grep -q '^Step: ' again.out; do sleep 0.02; done
kill -9 $pid
wait $pid 2>/dev/null
error 1 'did not end properly' gpt pretrain $tiny --memmap-dir ended.files --steps 99

begin_case memory
# ---- memory ----

# The model has 10.8 million parameters, 173 MB with gradients and moments, and is on two devices of 5 MB.
large="--set $values layers=24 hidden_size=192 heads=4 vocab_size=512 sequence_length=32 max_positional_length=32
global_batch_size=4 data_parallel=1 tensor_parallel_1=2 tensor_parallel_2=1"

# peak NAME ARGUMENT...: trains, and sets $peak to the largest anonymous memory in kB.
peak() {
    name=$1
    shift
    "$program" gpt pretrain $large --device-memory 5M --steps 3 --save-weights "$name.safetensors" --save "$name" "$@" \
        >"$name.out" 2>"$name.err" &
    pid=$!
    peak=$("$root/tools/peak_memory.sh" $pid 0.02)
    wait $pid
    check "$name" grep -q '^Finished pre-training' "$name.out"
}

if [ -n "${BRIGADE_TEST_QUICK:-}" ] || ! grep -q '^RssAnon' /proc/self/status 2>/dev/null; then
    skipped=$((skipped + 1))
else
    peak large.memory
    check "remote buffers in memory take it: $peak kB" test "$peak" -gt 169000
    peak large --memmap-dir large.files
    check "in files they do not: $peak kB" test "$peak" -lt 40000
    check "the same weights" cmp -s large.safetensors large.memory.safetensors
    check "the same checkpoint" cmp -s large/checkpoint_train_step_3.safetensors \
        large.memory/checkpoint_train_step_3.safetensors
fi
finish
