#!/usr/bin/env bash
# Measures the digit network's speed: `brigade mnist` with several strategies and PyTorch, as one table with ratios.
#
#   bench/mnist.sh [BUILD]          also: make bench-mnist
#   ROUNDS=3 EPOCHS=5 TURNS=4       each row is ROUNDS runs of EPOCHS epochs, which alternate with other rows; the rows
#                                   that compare two cores with one run TURNS times per round
#   PYTHON=...                      a Python that has torch (default: the first python3 on the PATH that has it); its BLAS
#                                   must be an optimized one (bench/peers/torch.sh)
#
# Prints Markdown and writes the same numbers to BUILD/bench/mnist.csv. Ends with three checks, each "pass" or "fail";
# the exit code is 1 when one fails. The compared numbers:
#
#   best     the fastest (least disturbed) epoch of a row; compared with PyTorch's best.
#   median   of the row's epochs, without the first of each run, in which caches are cold.
#
# A processor's speed drifts with its temperature and load, by more than the difference between two pipelines. Therefore
# a turn runs both a pipeline on two cores and one device on one core. Its ratio is that of their medians, and the
# result is the median of the turns' ratios. If a second core exists, the loader of a row on one core uses it.
#
#   Brigade  the whole program: batches drawn in random order and copied by its loader, pixels standardized by the
#            network, forward, backward, AdamW; images over the wall time of an epoch. A micro-batch has 40 images, an
#            update 10 micro-batches, a call 10 updates.
#   PyTorch  the same network, loss and optimizer, on images that are in memory, in order and already standardized.
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
build=${1:-${BUILD:-build}}
program=$build/brigade
rounds=${ROUNDS:-3}
epochs=${EPOCHS:-5}
turns=${TURNS:-4}
cores=2
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

die() {
    echo "mnist.sh: $*" >&2
    exit 1
}

[ "$epochs" -ge 2 ] || die "EPOCHS is $epochs; the first is not counted, so 2 at least"
[ -x "$program" ] || die "$program is not there; run make"
if [ "$(nproc)" -lt "$cores" ]; then die "needs $cores cores, this process may use $(nproc)"; fi

# shellcheck source=bench/peers/torch.sh
. bench/peers/torch.sh
torch_find || die "no python3 has torch (on Debian: tools/dependencies.sh bench)"
torch_describe

# ---- data: MNIST if tools/find_data.sh finds it, otherwise generated digits ----

mnist=
folder=$(tools/find_data.sh)
for place in "$folder" "$folder/mnist"; do
    [ -n "$folder" ] && [ -z "$mnist" ] && ls "$place"/train-images*idx3-ubyte* >/dev/null 2>&1 && mnist=$place
done
if [ -n "$mnist" ]; then
    data_name=MNIST
else
    data_name="generated digits"
    mnist=$scratch/digits
    "$program" data digits --dir "$mnist" >/dev/null || die "cannot generate digits"
fi
# Ten thousand test images take too little time, so inference is timed on the 60,000 training images.
mkdir "$scratch/inference"
for file in "$mnist"/train-*; do
    for split in train t10k; do
        name=$(basename "$file")
        ln -s "$(realpath "$file")" "$scratch/inference/$split${name#train}"
    done
done

# ---- Brigade ----

load=$(cut -d ' ' -f 1 /proc/loadavg)

# name | arguments; the first row is compared with PyTorch, and the first four alternate
turn_rows=4
single=2
pipelines=(1 3 4)
rows="pipelined, 4 stages, $cores cores|--cores $cores
single device, 1 core|--strategy single --cores 1
pipelined zb-h1, $cores cores|--schedule zb-h1 --cores $cores
pipelined grouped, $cores cores|--schedule grouped --cores $cores
pipelined, 4 stages, 1 core|--cores 1
sharded, $cores cores|--strategy sharded --cores $cores
single device, $cores cores|--strategy single --cores $cores
single device x 2 replicas, $cores cores|--strategy single --replicas 2 --cores $cores
pipelined, bfloat16, $cores cores|--dtype bfloat16 --cores $cores"

run() { # arguments: runs `brigade mnist`, and prints the images/s of every progress line
    "$program" mnist "$@" >"$scratch/out" 2>"$scratch/err" || die "brigade mnist $*: $(cat "$scratch/err")"
    sed -n 's/.*\] .* \([0-9]*\) images\/s .*$/\1/p' "$scratch/out"
}

best() { # file: prints the largest number in the file
    sort -n "$1" | tail -n 1
}

median() { # file [digits]: prints the median of the numbers in the file
    sort -n "$1" | awk -v format="%.${2:-0}f" '
        { rates[NR] = $1 } END { printf format, (rates[int((NR + 1) / 2)] + rates[int(NR / 2) + 1]) / 2 }'
}

ratio() { awk -v a="$1" -v b="$2" -v format="%.${3:-2}f" 'BEGIN { printf format "\n", a / b }'; }

train() { # row, arguments: runs the row, adds its epochs except the first to the row's, and leaves them in rates
    local index=$1
    shift
    run "$@" --data-dir "$mnist" --epochs "$epochs" --save "$scratch/weights" >"$scratch/epochs"
    sed -n "2,${epochs}p" "$scratch/epochs" >"$scratch/rates"
    cat "$scratch/rates" >>"$scratch/training.$index"
}

for round in $(seq "$rounds"); do
    for _ in $(seq "$turns"); do
        index=0
        while [ "$index" -lt "$turn_rows" ] && IFS='|' read -r name arguments; do
            index=$((index + 1))
            # shellcheck disable=SC2086
            train "$index" $arguments
            median "$scratch/rates" >"$scratch/turn.$index"
        done <<<"$rows"
        for index in "${pipelines[@]}"; do
            ratio "$(cat "$scratch/turn.$index")" "$(cat "$scratch/turn.$single")" 5 >>"$scratch/ratios.$index"
        done
    done
    index=0
    while IFS='|' read -r name arguments; do
        index=$((index + 1))
        # shellcheck disable=SC2086
        [ "$index" -le "$turn_rows" ] || train "$index" $arguments
        # shellcheck disable=SC2086
        run $arguments --data-dir "$scratch/inference" --epochs 0 --test-batch-size 40 >>"$scratch/inference.$index"
    done <<<"$rows"
    # PyTorch runs in every round, so that other load on the machine affects both.
    for capability in $torch_capabilities; do
        ATEN_CPU_CAPABILITY=$capability "$python" bench/mnist_torch.py --threads "1,$cores" --rounds 1 --seconds 1 \
            >"$scratch/torch" || exit 1
        sed -n -E "s/^((training|inference),.*),([0-9]+)\$/\1,$capability,\3/p" "$scratch/torch" >>"$scratch/torch.all"
    done
    echo "round $round of $rounds done" >&2
done

# ---- PyTorch: the best of each row, in the order of the first round ----

torch_fastest "$scratch/torch.all" >"$scratch/torch.csv"
torch_best() { # training|inference
    awk -F, -v mode="$1" '$1 == mode && $5 > best { best = $5 } END { print best + 0 }' "$scratch/torch.csv"
}
torch_training=$(torch_best training)
torch_inference=$(torch_best inference)

# ---- the table ----

csv=$build/bench/mnist.csv
mkdir -p "$build/bench"
echo "system,setting,training_images_per_s,inference_images_per_s,training_median" >"$csv"
processor=$(sed -n 's/^model name[[:space:]]*: *//p' /proc/cpuinfo | head -n 1)
echo "Processor: ${processor:-unknown}, $(nproc) cores. brigade $(cat VERSION); $torch_line. Data: $data_name." \
    "Images per second, the best of $rounds rounds; median: the median of training. Load average before: $load."
echo
echo "| | training | x torch | median | inference | x torch |"
echo "|---|---:|---:|---:|---:|---:|"
index=0
while IFS='|' read -r name arguments; do
    index=$((index + 1))
    training=$(best "$scratch/training.$index")
    middle=$(median "$scratch/training.$index")
    inference=$(best "$scratch/inference.$index")
    echo "| Brigade, $name | $training | $(ratio "$training" "$torch_training") | $middle | $inference |" \
        "$(ratio "$inference" "$torch_inference") |"
    echo "brigade,\"$name\",$training,$inference,$middle" >>"$csv"
    [ "$index" = 1 ] && pipelined=$training && pipelined_inference=$inference
    names[index]=$name bests[index]=$training
done <<<"$rows"
# MODE: prints rate and capability of the current row.
torch_row() { sed -n "s/^$1,$threads,$batch,$accumulation,//p" "$scratch/torch.csv"; }

while IFS=, read -r threads batch accumulation; do
    name="$threads thread$([ "$threads" = 1 ] || echo s), batch $batch"
    [ "$accumulation" = 1 ] || name="$name x $accumulation accumulated"
    IFS=, read -r training capability <<<"$(torch_row training)"
    IFS=, read -r inference inference_capability <<<"$(torch_row inference)"
    echo "| torch, $name | $training ($capability) | $(ratio "$training" "$torch_training") | |" \
        "${inference:+$inference ($inference_capability)} | ${inference:+$(ratio "$inference" "$torch_inference")} |"
    echo "torch,\"$name\",$training,$inference," >>"$csv"
done < <(sed -n "s/^training,\([^,]*,[^,]*,[^,]*\),.*/\1/p" "$scratch/torch.csv")
echo

failed=0
check() { # what, value, bound
    if awk -v a="$2" -v b="$3" 'BEGIN { exit !(a >= b) }'; then
        echo "pass: $1: $2 (at least $3)"
    else
        echo "fail: $1: $2 (at least $3)"
        failed=1
    fi
}
check "training, pipelined on $cores cores over the fastest torch row" "$(ratio "$pipelined" "$torch_training")" 5
check "inference, pipelined on $cores cores over the fastest torch row" \
    "$(ratio "$pipelined_inference" "$torch_inference")" 2.5
fastest=1
for index in "${pipelines[@]}"; do
    gains[index]=$(median "$scratch/ratios.$index" 3)
    [ "${gains[index]/./}" -gt "${gains[fastest]/./}" ] && fastest=$index
done
check "training, the fastest pipeline on $cores cores over one device on 1 core, median of $((rounds * turns)) turns" \
    "${gains[fastest]}" 1.8
for index in "${pipelines[@]}"; do
    echo "      ${names[index]}: median ${gains[index]}, of best epochs $(ratio "${bests[index]}" "${bests[single]}")"
done
exit $failed
