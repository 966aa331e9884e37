#!/bin/sh
# `brigade gpt`: later runs use the content of a checkpoint: weights, and the position in the data, with any number of
# replicas.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/gpt.sh"

train base

# The runs below set their number of steps.
small=$plain

begin_case stopped
train stopped --steps 2 --checkpoint-steps 1
train stopped --steps 4 --load stopped --strategy pipelined
train stopped --steps 6 --load stopped --strategy sharded
same base stopped
"$program" gpt pretrain $small --steps 6 --load stopped >out 2>&1
check "a run that is done" grep -q '^Nothing was trained: the checkpoint is at step 6' out

begin_case other-replicas
# A checkpoint does not depend on the number of replicas.
train spread --steps 2
train spread --steps 4 --load spread --set data_parallel=4
check "another number of replicas goes on" test "$(values spread step | tail -n 1)" -eq 4

begin_case epochs
# With epochs of 3 updates, the order of and the position in the data are restored too.
train epochs --steps 6 --set n_samples=50
train halves --steps 4 --set n_samples=50
train halves --steps 6 --set n_samples=50 --load halves
same epochs halves

begin_case larger-calls
# With larger calls the position is rounded down to the beginning of a call. With other data it is the beginning of the
# next epoch.
train larger --steps 3
train larger --steps 4 --load larger --set global_batch_size=32
check "samples that are used again are said" grep -q '48 samples of the epoch were used, .* 16 are used again' larger.err
train larger --steps 5 --load larger --set global_batch_size=32
check "once" test ! -s larger.err
train larger --steps 6 --load larger --set global_batch_size=32 n_samples=64
check "other data are said" grep -q 'the data had [0-9]* samples of 8 tokens and have 64 of 8 now; the data start from the beginning' larger.err
check "from the next epoch on" grep -q "$(printf '"epoch": 1' | od -An -tx1 | tr -d ' \n')" larger/checkpoint_train_step_6.safetensors
finish
