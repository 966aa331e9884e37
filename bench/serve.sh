#!/usr/bin/env bash
# Compares calls of small models with PyTorch, and measures serving from two threads and two processes, in a Markdown
# table.
#
#   bench/serve.sh [BUILD]              needs `make benches`; also: make bench-serve
#   SECONDS_EACH=1                      length of each measurement
#   PYTHON=...                          a Python that has torch (default: the first python3 on the PATH that has it)
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
build=${1:-${BUILD:-build}}
seconds=${SECONDS_EACH:-1}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

die() {
    echo "serve.sh: $*" >&2
    exit 1
}
# shellcheck source=bench/peers/torch.sh
. bench/peers/torch.sh
torch_find || die "no python3 has torch; on Debian: apt-get install python3-torch libopenblas0-pthread"
torch_describe
[ -x "$build/bench/serve" ] || die "$build/bench/serve is not there; run make benches"

"$build/bench/serve" "$seconds" >"$scratch/ours" || exit 1
for capability in $torch_capabilities; do
    ATEN_CPU_CAPABILITY=$capability "$python" bench/peers/serve_torch.py "$seconds" >>"$scratch/torch" || exit 1
done
echo "$(lscpu | sed -n 's/^Model name: *//p' | head -1), $(nproc) processors; $torch_line"
echo
echo "| | threads, processes or sessions | brigade | PyTorch, one thread | |"
echo "|---|--:|--:|--:|---|"
awk -F, '
    NR == FNR { key = $1 FS $4; if (!(key in torch) || $3 < torch[key]) torch[key] = $3; next }
    { key = $1 FS $4; printf "| %s | %s | %s | %s | %s |\n", $1, $2, $3, key in torch ? torch[key] : "", $4 }
' "$scratch/torch" "$scratch/ours"
