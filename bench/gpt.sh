#!/usr/bin/env bash
# GPT-2's training step beside PyTorch and oneDNN's matrix products, as a table in markdown.
#
#   bench/gpt.sh [BUILD]            needs `make benches`; also: make bench-gpt
#   ROUNDS=3 STEPS=3                each row is the best of ROUNDS runs of STEPS steps; the rows take turns
#   LAYERS=12 VOCABULARY=50257      of the model: smaller ones for a quick look
#   PYTHON=...                      a Python that has torch (default: python3); without one its rows are left out
#   LLMC=...                        a command that prints the tokens/s of llm.c's CPU trainer at 4 x 256, if there is one
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
build=${1:-${BUILD:-build}}
layers=${LAYERS:-12} vocabulary=${VOCABULARY:-50257} steps=${STEPS:-3}
python=${PYTHON:-python3}
declare -A best

[ -x "$build/bench/gpt" ] || { echo "gpt.sh: $build/bench/gpt is not there; run make benches" >&2; exit 1; }
"$python" -c 'import torch' 2>/dev/null || { echo "gpt.sh: $python has no torch: its rows are left out" >&2; python=; }

# NAME TOKENS_PER_SECOND: keeps the larger.
note() {
    if [ -n "$2" ] && awk "BEGIN { exit !($2 > ${best[$1]:-0}) }"; then best[$1]=$2; fi
}

brigade() {
    local cores=$1 output
    shift
    output=$(OMP_NUM_THREADS=$cores "$build/bench/gpt" --layers "$layers" --vocabulary "$vocabulary" --steps "$steps" --cores "$cores" "$@") || exit 1
    note "$row" "$(sed -n 's|^best .*, \([0-9]*\) tokens/s.*|\1|p' <<<"$output")"
    share=$(sed -n 's|.*the step reaches \([0-9.]*\) %.*|\1|p' <<<"$output")
    if [ -n "$share" ]; then note "share $cores" "$share"; fi
}

for _ in $(seq "${ROUNDS:-3}"); do
    for cores in 1 2; do
        row="Brigade float32, cores: $cores" && brigade "$cores" --dnnl
        row="Brigade bfloat16, cores: $cores" && brigade "$cores" --bfloat16
        if [ -n "$python" ]; then
            note "PyTorch float32, cores: $cores" "$("$python" bench/gpt_torch.py "$cores" "$steps" "$layers" "$vocabulary")"
            note "PyTorch bfloat16, cores: $cores" "$("$python" bench/gpt_torch.py "$cores" "$steps" "$layers" "$vocabulary" bfloat16)"
        fi
    done
    if [ -n "${LLMC:-}" ]; then note "llm.c float32" "$($LLMC)"; fi
done

echo "| GPT-2, $layers layers, 4 x 256 tokens | tokens/s |"
echo "|---|---|"
printf '%s\n' "${!best[@]}" | grep -v '^share' | sort | while read -r name; do echo "| $name | ${best[$name]} |"; done
for cores in 1 2; do echo "float32 on $cores: ${best[share $cores]} % of what oneDNN's products reach in the same run"; done
