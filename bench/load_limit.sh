#!/bin/sh
# load_limit.sh [FOLDER [RANKS]]: a checkpoint of a GPT is loaded by RANKS (4) ranks of which none may have an address
# space as large as the checkpoint (`ulimit -v`), and trains on. The checkpoint (1 GB, in a new folder of FOLDER or
# $TMPDIR) is removed.
# BRIGADE_BUILD names the build; BRIGADE_LIMIT the limit as a share of the checkpoint's size in per cent (80).
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
program=${BRIGADE_BUILD:-$root/build}/brigade
ranks=${2:-4}
folder=$(mktemp -d "${1:-${TMPDIR:-/tmp}}/brigade-XXXXXX") || exit 1
trap 'rm -rf "$folder"' EXIT
export BRIGADE_PRESETS="$root/share/presets" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
model="--set layers=12 hidden_size=768 heads=12 vocab_size=256 sequence_length=16 max_positional_length=16
global_batch_size=2 precision=float32 maximum=0.00001 warmup_proportion=0 data_parallel=1 tensor_parallel_2=1"

"$program" gpt pretrain $model tensor_parallel_1=1 --steps 1 --save "$folder/run" >"$folder/out" 2>&1 || {
    cat "$folder/out"
    exit 1
}
bytes=$(du -sb "$folder/run" | cut -f 1)
limit=$((bytes / 1024 * ${BRIGADE_LIMIT:-80} / 100))
echo "checkpoint: $((bytes / 1000000)) MB; address space of each of $ranks ranks: at most $((limit * 1024 / 1000000)) MB"

# try RANKS: whether so many, each with the limit, load it and train an update.
try() {
    mpirun --oversubscribe -n "$1" sh -c 'ulimit -v "$0" && exec "$@"' $limit "$program" gpt pretrain $model \
        tensor_parallel_1="$1" --steps 2 --load "$folder/run" --cores 1 >"$folder/out" 2>&1
}
try 1 && echo "one process has room under the limit too: it shows nothing" && exit 1
try "$ranks" || {
    cat "$folder/out"
    exit 1
}
grep -E '^(Going on|Resumed|Loaded|Step|Trained)' "$folder/out"
echo "$ranks ranks loaded it and trained on"
