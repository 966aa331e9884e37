#!/bin/sh
# Predicted times of updates beside measured ones, in turns (bench/predict.c): plan.sh [TURNS [CORES]]
# Time and memory of planning and simulating many devices: plan.sh scale [DEVICES]
cd "$(dirname "$0")/.." || exit 1

# plan ARGUMENT...: what /usr/bin/time says of a plan, behind its first lines
plan() {
    /usr/bin/time -o "$out.time" -f '%e s, %U s of processor time, %M KB' build/brigade plan gpt --config tiny \
        --device ipu-mk2 --tensor_parallel_1 1 --tensor_parallel_2 1 "$@" >"$out"
    tail -1 "$out.time"
    sed -n '1p;/ of their own: /p' "$out"
}

if [ "${1:-}" = scale ]; then
    make -s build/brigade || exit 1
    out=$(mktemp)
    trap 'rm -f "$out" "$out.time"' EXIT
    devices=${2:-512}
    micro_batches=$((devices > 512 ? 512 : 2 * devices))
    for schedule in interleaved zb-h1; do
        echo "$schedule, $devices devices, $micro_batches micro-batches"
        plan --strategy pipelined --schedule $schedule --layers $((devices - 2)) --global_batch_size $micro_batches --data_parallel 1
    done
    [ "$devices" -gt 512 ] && exit 0
    echo "phased, $devices replicas of $devices phases, $micro_batches micro-batches"
    plan --strategy phased --layers $((devices - 2)) --global_batch_size $((micro_batches * devices)) --data_parallel "$devices"
    exit 0
fi
make -s build/bench/predict && exec build/bench/predict "$@"
