#!/usr/bin/env bash
# Compares training of a U-Net, an LSTM over 256 steps, a masked language model over padded sentences, a decoder of 110
# million parameters, a vision transformer (ViT-S/16) and a small GPT (nanoGPT's setting for processors) with PyTorch in
# a Markdown table: medians of all timed steps, with the speed of all cores over that of one, and the share of the
# machine's peak, measured in the same rounds. The rows alternate, so that other load on the machine affects all of them.
#
#   bench/models.sh [BUILD]             needs `make benches`; also: make bench-models
#   NETWORKS="unet lstm bert llama vit gpt"  the models, each with its batch (bench/models.c)
#   ROUNDS=3 STEPS=5                    each row: ROUNDS times a process that times STEPS steps; 20 times as many of gpt
#   THREADS="1 2"                       of PyTorch: one and all; the faster one counts
#   PYTHON=...                          a Python that has torch (default: the first python3 on the PATH that has it)
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
build=${1:-${BUILD:-build}}
cores=$(nproc)
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

die() {
    echo "models.sh: $*" >&2
    exit 1
}
# shellcheck source=bench/peers/torch.sh
. bench/peers/torch.sh
torch_find || die "no python3 has torch; on Debian: apt-get install python3-torch libopenblas0-pthread"
torch_describe
for program in models ops; do
    [ -x "$build/bench/$program" ] || die "$build/bench/$program is not there; run make benches"
done

# ROW: reads lines `step SECONDS` from standard input, the times of the row.
note() { awk -v row="$1" '$1 == "step" { print row "\t" $2 }' >>"$scratch/times"; }

batch_of() { case $1 in unet | bert) echo 16 ;; lstm) echo 32 ;; vit) echo 4 ;; gpt) echo 12 ;; *) echo 1 ;; esac; }
steps_of() { case $1 in gpt) echo $((20 * ${STEPS:-5})) ;; *) echo "${STEPS:-5}" ;; esac; }

# NETWORK: measures a round of the network, Brigade and PyTorch.
round() {
    local capability threads batch steps
    batch=$(batch_of "$1") steps=$(steps_of "$1")
    "$build/bench/models" --network "$1" --batch "$batch" --cores "$cores" --steps "$steps" --times >"$scratch/output" || exit 1
    note "$1 $batch	ours" <"$scratch/output"
    awk -v key="$1 $batch" '$1 == "flops" { flops = $2 } $1 == "items" { print key "\t" flops "\t" $2 }' "$scratch/output" >>"$scratch/counts"
    if [ "$cores" -gt 1 ]; then
        "$build/bench/models" --network "$1" --batch "$batch" --cores 1 --steps "$steps" --times >"$scratch/output" || exit 1
        note "$1 $batch	one core" <"$scratch/output"
    fi
    echo "flops $cores 20" | "$build/bench/ops" >>"$scratch/peaks"
    for capability in $torch_capabilities; do
        for threads in ${THREADS:-1 $cores}; do
            ATEN_CPU_CAPABILITY=$capability "$python" bench/peers/models_torch.py "$1" "$batch" "$threads" "$steps" >"$scratch/output" || exit 1
            note "$1 $batch	$capability, $threads" <"$scratch/output"
        done
    done
}

load=$(cut -d ' ' -f 1 /proc/loadavg)
for _ in $(seq "${ROUNDS:-3}"); do
    for network in ${NETWORKS:-unet lstm bert llama vit gpt}; do
        round "$network"
    done
done

processor=$(sed -n 's/^model name[[:space:]]*: *//p' /proc/cpuinfo | head -n 1)
echo "Processor: ${processor:-unknown}, $cores cores. brigade $(cat VERSION); $torch_line. Load average before: $load."
echo
echo "| model | batch | Brigade, items/s | PyTorch, items/s | with | x PyTorch | x one core | of the peak |"
echo "|---|---:|---:|---:|---|---:|---:|---:|"
sort -t '	' -k 1,1 -k 2,2 -k 3,3n "$scratch/times" | awk -F '\t' -v peak="$(sort -n "$scratch/peaks" | tail -n 1)" -v counts="$scratch/counts" '
    BEGIN { while ((getline line <counts) > 0) { split(line, f, "\t"); flops[f[1]] = f[2]; items[f[1]] = f[3] } }
    function settle() { if (count > 0) { rate = items[key] / times[int((count + 1) / 2)]
            if (who == "ours") ours[key] = rate; else if (who == "one core") one[key] = rate
            else if (rate > peer[key]) { peer[key] = rate; with[key] = who }
            if (!(key in seen)) { seen[key] = 1; order[++keys] = key } } count = 0 }
    $1 != key || $2 != who { settle(); key = $1; who = $2 }
    { times[++count] = $3 }
    END { settle(); for (i = 1; i <= keys; i++) { split(order[i], k, " ")
            share = peak > 0 ? 100 * flops[order[i]] * ours[order[i]] / items[order[i]] / (peak * 1e9) : 0
            printf "| %s | %s | %.0f | %.0f | %s threads | %.2f | %s | %.0f %% |\n", k[1], k[2], ours[order[i]], peer[order[i]], with[order[i]], ours[order[i]] / peer[order[i]], order[i] in one ? sprintf("%.2f", ours[order[i]] / one[order[i]]) : "", share } }'
