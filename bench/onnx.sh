#!/usr/bin/env bash
# Measures ResNet-18 on images of 32 x 32, exported by PyTorch, in Markdown tables: training compared with the same
# network built from the library's layers, inference with OpenCV's dnn module and onnxruntime-web (WebAssembly). Numbers
# are medians of all timed steps. The rows alternate, so that other load on the machine affects all of them.
#
#   bench/onnx.sh [BUILD]               needs `make benches`; also: make bench-onnx
#   BATCHES="1 32"                      images of a step
#   ROUNDS=5 STEPS=6                    each row: ROUNDS times a process that times STEPS steps
#   PYTHON=...                          a Python that has torch and cv2
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
build=${1:-${BUILD:-build}}
steps=${STEPS:-6} cores=$(nproc)
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

die() {
    echo "onnx.sh: $*" >&2
    exit 1
}
# shellcheck source=bench/peers/torch.sh
. bench/peers/torch.sh
torch_find || die "no python3 has torch; on Debian: apt-get install python3-torch libopenblas0-pthread"
[ -x "$build/bench/resnet" ] || die "$build/bench/resnet is not there; run make benches"
has_opencv=false
"$python" -c 'import cv2' 2>/dev/null && has_opencv=true
module=$(tools/onnxruntime_web.sh "$build" 2>/dev/null) && module=$PWD/$module
command -v node >/dev/null || module=

# ROW: reads lines `step SECONDS` from standard input, the times of the row.
note() { awk -v row="$1" '$1 == "step" { print row "\t" $2 }' >>"$scratch/times"; }

ours() {
    row=$1
    shift
    "$build/bench/resnet" --cores "$cores" --steps "$steps" --times "$@" >"$scratch/output" || exit 1
    note "$row" <"$scratch/output"
}

for batch in ${BATCHES:-1 32}; do
    "$python" bench/peers/resnet_torch.py resnet18 "$batch" 1 0 export "$scratch/$batch" >"$scratch/output" 2>&1 || die "PyTorch exports nothing"
done
load=$(cut -d ' ' -f 1 /proc/loadavg)
for _ in $(seq "${ROUNDS:-5}"); do
    for batch in ${BATCHES:-1 32}; do
        ours "$batch training	built" --batch "$batch" --network resnet18
        ours "$batch training	exported" --batch "$batch" --network "$scratch/$batch.train.onnx"
        ours "$batch inference	exported" --batch "$batch" --inference --network "$scratch/$batch.eval.onnx"
        for threads in 1 "$cores"; do
            if $has_opencv; then
                "$python" bench/peers/onnx_opencv.py "$scratch/$batch.eval.onnx" "$batch" "$threads" "$steps" >"$scratch/output" || exit 1
                note "$batch inference	OpenCV, $threads" <"$scratch/output"
            fi
            if [ -n "$module" ]; then
                node bench/peers/onnx_web.js "$module" "$scratch/$batch.eval.onnx" "$batch" "$threads" "$steps" >"$scratch/output" || exit 1
                note "$batch inference	onnxruntime-web, $threads" <"$scratch/output"
            fi
        done
    done
done

processor=$(sed -n 's/^model name[[:space:]]*: *//p' /proc/cpuinfo | head -n 1)
echo "Processor: ${processor:-unknown}, $cores cores. brigade $(cat VERSION); $("$python" -c 'import cv2; print("OpenCV", cv2.__version__)' 2>/dev/null); onnxruntime-web $(sed -n 's/^version=//p' tools/onnxruntime_web.sh). Load average before: $load."
echo
echo "| batch | | with | images/s | the exported model's speed is |"
echo "|---:|---|---|---:|---:|"
sort -t '	' -k 1,1 -k 2,2 -k 3,3n "$scratch/times" | awk -F '\t' '
    function settle() { if (count == 0) return
        split(key, k, " "); row = key "\t" who; order[++rows] = row; what[row] = key; name[row] = who
        rate[row] = k[1] / times[int((count + 1) / 2)]; count = 0 }
    $1 != key || $2 != who { settle(); key = $1; who = $2 }
    { times[++count] = $3 }
    END { settle(); for (i = 1; i <= rows; i++) { row = order[i]; split(what[row], k, " "); own = rate[what[row] "\texported"]
            printf "| %s | %s | %s | %.0f | %.2f |\n", k[1], k[2], name[row] ~ /^(built|exported)$/ ? "Brigade, " name[row] : name[row] " threads", rate[row], own / rate[row] } }'
