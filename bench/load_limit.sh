#!/bin/sh
# load_limit.sh [FOLDER [RANKS]]: uses a checkpoint of a GPT (2 GB, in a new folder of FOLDER or $TMPDIR, which is
# removed at the end) under limits of the address space (`ulimit -v`) far below its size. `brigade checkpoint` reads all
# of it and converts its weights. RANKS (8) ranks load their parts and train one update. BRIGADE_BUILD is the build. The
# limits are percentages of the checkpoint's size: BRIGADE_LIMIT_COMMANDS (5), and BRIGADE_LIMIT (30) for each rank.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
program=${BRIGADE_BUILD:-$root/build}/brigade
ranks=${2:-8}
folder=$(mktemp -d "${1:-${TMPDIR:-/tmp}}/brigade-XXXXXX") || exit 1
trap 'rm -rf "$folder"' EXIT
export MALLOC_ARENA_MAX=1 # glibc reserves 64 MB of addresses, at first 128, for each thread that allocates
export BRIGADE_PRESETS="$root/share/presets" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
model="--set layers=${BRIGADE_LAYERS:-24} hidden_size=768 heads=16 vocab_size=256 sequence_length=16 max_positional_length=16
global_batch_size=2 precision=float32 maximum=0.00001 warmup_proportion=0 data_parallel=1 tensor_parallel_2=1"

fail() {
    cat "$folder/out"
    echo "FAILED: $*"
    exit 1
}

"$program" gpt pretrain $model tensor_parallel_1=1 --steps 1 --save "$folder/run" >"$folder/out" 2>&1 || fail training
bytes=$(du -sb "$folder/run" | cut -f 1)
echo "checkpoint: $((bytes / 1000000)) MB"

# limited PERCENT COMMAND...: runs a command with this share of the checkpoint's size as its address space.
limited() {
    limit=$((bytes / 1024 * $1 / 100))
    shift
    (ulimit -v $limit && exec "$@") >"$folder/out" 2>&1
}

share=${BRIGADE_LIMIT_COMMANDS:-5}
limited "$share" "$program" checkpoint inspect "$folder/run" || fail inspect
limited "$share" "$program" checkpoint verify "$folder/run" || fail verify
limited "$share" "$program" checkpoint diff "$folder/run" "$folder/run" || fail diff
limited "$share" "$program" checkpoint convert "$folder/run" "$folder/weights.safetensors" || fail convert
echo "inspect, verify, diff, convert: $((limit * 1024 / 1000000)) MB, $share %"

# try PERCENT RANKS: succeeds if RANKS ranks, each under the limit, load the checkpoint and train an update.
try() {
    limit=$((bytes / 1024 * $1 / 100))
    mpirun --oversubscribe -n "$2" sh -c 'ulimit -v "$0" && exec "$@"' $limit "$program" gpt pretrain $model \
        tensor_parallel_1="$2" --steps 2 --load "$folder/run" --cores 1 >"$folder/out" 2>&1
}
share=${BRIGADE_LIMIT:-30}
try "$share" 1 && fail "one process has room under the limit too: it shows nothing"
try "$share" "$ranks" || fail "$ranks ranks"
grep -E '^(Step|Trained)' "$folder/out"
echo "each of $ranks ranks, which load it and train an update: $((limit * 1024 / 1000000)) MB, $share %"
