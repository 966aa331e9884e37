#!/usr/bin/env bash
# Compares training and inference of ResNet-8, ResNet-18 and a MobileNet on images of 32 x 32 with PyTorch in a Markdown
# table: medians of all timed steps, with the share of the machine's peak, measured in the same rounds. The rows
# alternate, so that other load on the machine affects all of them.
#
#   bench/resnet.sh [BUILD]             needs `make benches`; also: make bench-resnet
#   NETWORKS="resnet8 resnet18 mobilenet" BATCHES="32 128"      the networks, and images of a step
#   ROUNDS=3 STEPS=8                    each row: ROUNDS times a process that times STEPS steps
#   PYTHON=...                          a Python that has torch (default: the first python3 on the PATH that has it)
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
build=${1:-${BUILD:-build}}
steps=${STEPS:-8} cores=$(nproc)
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

die() {
    echo "resnet.sh: $*" >&2
    exit 1
}
# shellcheck source=bench/peers/torch.sh
. bench/peers/torch.sh
torch_find || die "no python3 has torch; on Debian: apt-get install python3-torch libopenblas0-pthread"
torch_describe
for program in resnet ops; do
    [ -x "$build/bench/$program" ] || die "$build/bench/$program is not there; run make benches"
done

# ROW: reads lines `step SECONDS` from standard input, the times of the row.
note() { awk -v row="$1" '$1 == "step" { print row "\t" $2 }' >>"$scratch/times"; }

# NETWORK BATCH training|inference: measures a round of this row, Brigade and PyTorch.
round() {
    local capability threads mode=
    [ "$3" = inference ] && mode=--inference
    # shellcheck disable=SC2086
    "$build/bench/resnet" --network "$1" --batch "$2" --cores "$cores" --steps "$steps" --times $mode >"$scratch/output" || exit 1
    note "$1 $2 $3	ours" <"$scratch/output"
    awk -v key="$1 $2 $3" '$1 == "flops" { print key "\t" $2 }' "$scratch/output" >>"$scratch/flops"
    echo "flops $cores 20" | "$build/bench/ops" >>"$scratch/peaks"
    for capability in $torch_capabilities; do
        for threads in 1 "$cores"; do
            ATEN_CPU_CAPABILITY=$capability "$python" bench/peers/resnet_torch.py "$1" "$2" "$threads" "$steps" "$3" >"$scratch/output" || exit 1
            note "$1 $2 $3	$capability, $threads" <"$scratch/output"
        done
    done
}

load=$(cut -d ' ' -f 1 /proc/loadavg)
for _ in $(seq "${ROUNDS:-3}"); do
    for network in ${NETWORKS:-resnet8 resnet18 mobilenet}; do
        for batch in ${BATCHES:-32 128}; do
            round "$network" "$batch" training
            round "$network" "$batch" inference
        done
    done
done

processor=$(sed -n 's/^model name[[:space:]]*: *//p' /proc/cpuinfo | head -n 1)
echo "Processor: ${processor:-unknown}, $cores cores. brigade $(cat VERSION); $torch_line. Load average before: $load."
echo
echo "| network | batch | | Brigade, images/s | PyTorch, images/s | with | x PyTorch | of the peak |"
echo "|---|---:|---|---:|---:|---|---:|---:|"
sort -t '	' -k 1,1 -k 2,2 -k 3,3n "$scratch/times" | awk -F '\t' -v peak="$(sort -n "$scratch/peaks" | tail -n 1)" -v counts="$scratch/flops" '
    BEGIN { while ((getline line <counts) > 0) { split(line, f, "\t"); flops[f[1]] = f[2] } }
    function settle() { if (count > 0) { split(key, k, " "); rate = k[2] / times[int((count + 1) / 2)]
            if (who == "ours") ours[key] = rate; else if (rate > peer[key]) { peer[key] = rate; with[key] = who }
            if (!(key in seen)) { seen[key] = 1; order[++keys] = key } } count = 0 }
    $1 != key || $2 != who { settle(); key = $1; who = $2 }
    { times[++count] = $3 }
    END { settle(); for (i = 1; i <= keys; i++) { split(order[i], k, " ")
            share = peak > 0 ? 100 * flops[order[i]] * ours[order[i]] / k[2] / (peak * 1e9) : 0
            printf "| %s | %s | %s | %.0f | %.0f | %s threads | %.2f | %.0f %% |\n", k[1], k[2], k[3], ours[order[i]], peer[order[i]], with[order[i]], ours[order[i]] / peer[order[i]], share } }'
