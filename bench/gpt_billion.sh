#!/bin/sh
# gpt_billion.sh [FOLDER [UPDATES]]: trains a GPT of 1.2 billion parameters on two devices of 512 MB, with remote
# buffers in files. It does UPDATES (2) weight updates, then the same number again from the files. For each run it
# prints the run's lines, the peak of anonymous memory and the size of the files. The files (20 GB, in a new folder of
# FOLDER or $TMPDIR) are removed. BRIGADE_BUILD is the build; BRIGADE_GPT has further values (--set) for a smaller
# model.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
program=${BRIGADE_BUILD:-$root/build}/brigade
updates=${2:-2}
folder=$(mktemp -d "${1:-${TMPDIR:-/tmp}}/brigade-XXXXXX") || exit 1
trap 'rm -rf "$folder"' EXIT
export BRIGADE_PRESETS="$root/share/presets"
model="--device-memory 512M --set layers=24 hidden_size=2048 heads=16 vocab_size=512 sequence_length=128
max_positional_length=128 global_batch_size=4 precision=float32 maximum=0.00001 warmup_proportion=0
data_parallel=1 tensor_parallel_1=2 tensor_parallel_2=1 ${BRIGADE_GPT:-}"

# train UPDATES: trains until UPDATES updates are done; sets $peak in kB.
train() {
    "$program" gpt pretrain $model --memmap-dir "$folder" --steps "$1" >"$folder/out" &
    pid=$!
    peak=$("$root/tools/peak_memory.sh" $pid 0.2)
    wait $pid || exit 1
    grep -E '^(Going on|Step|Trained|Compilation)' "$folder/out"
    echo "anonymous memory: at most $((peak / 1000)) MB; files: $(du -sm "$folder" | cut -f 1) MiB"
}

"$program" gpt pretrain $model --compile-only | tail -n 2
train "$updates"
train $((2 * updates))
