#!/bin/sh
# Compares predicted times of updates with measured ones in several turns (bench/predict.c): plan.sh [TURNS [CORES]]
# The same for two ranks of one core each under mpirun, with the link that brigade doctor measures: plan.sh ranks [TURNS]
# Time and memory of planning and simulating many devices: plan.sh scale [DEVICES]
cd "$(dirname "$0")/.." || exit 1

# plan ARGUMENT...: prints the first lines of a plan, then the output of /usr/bin/time
plan() {
    /usr/bin/time -o "$out.time" -f '%e s, %U s of processor time, %M KB' build/brigade plan gpt --config tiny \
        --device ipu-mk2 --tensor_parallel_1 1 --tensor_parallel_2 1 "$@" >"$out"
    tail -1 "$out.time"
    sed -n '1p;/ separate devices*: /p' "$out"
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

# row NAME TURNS COMMAND ARGUMENT...: measures training in samples per second
row() {
    name=$1 turns=$2
    shift 2
    predicted=$(build/brigade plan "$@" --ranks 2 --rank-link "$link" 2>/dev/null |
        sed -n 's/^2 ranks of a core, .* takes .*, \([0-9.e+]*\) [a-z]*\/s; .*/\1/p')
    case $1 in gpt) shift && set -- gpt pretrain "$@" --steps 400 ;; *) set -- "$@" --epochs 1000 --steps 400 ;; esac
    measured=$(for turn in $(seq "$turns"); do
        $start build/brigade "$@" --cores 1 2>/dev/null | sed -n 's/^Trained .* s: \([0-9.e+]*\) .*/\1/p'
    done | sort -g | sed -n "$(((turns + 1) / 2))p")
    echo "$name $predicted $measured" | awk -F' ' '{ n = NF; printf "%-44s predicted %9.1f, measured %9.1f samples/s: %+.1f %%\n",
        substr($0, 1, length($0) - length($(n - 1)) - length($n) - 2), $(n - 1), $n, 100 * ($(n - 1) / $n - 1) }'
}

if [ "${1:-}" = ranks ]; then
    make -s build/brigade || exit 1
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    start="mpirun.openmpi --bind-to core -n 2"
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
    build/brigade data digits --dir "$out/data" --count 4000 --test-count 40 >/dev/null || exit 1
    export XDG_CACHE_HOME="$out/cache"
    link=$($start build/brigade doctor --no-disk | sed -n 's/.*--rank-link //p')
    echo "messages: $link (us, GB/s)"
    digits="mnist --data-dir $out/data --batch-size 40 --device-iterations 10 --save $out/weights"
    gpt="gpt --config tiny --global_batch_size 16"
    row "digit network, a stage a rank" "${2:-3}" $digits --gradient-accumulation 10 --stages auto:2
    row "digit network, a replica a rank" "${2:-3}" $digits --gradient-accumulation 5 --strategy single --replicas 2
    row "GPT tiny, a stage a rank" "${2:-3}" $gpt --data_parallel 1 --tensor_parallel_1 1 --tensor_parallel_2 1 --strategy pipelined --stages auto:2
    row "GPT tiny, a replica a rank" "${2:-3}" $gpt --data_parallel 2 --tensor_parallel_1 1 --tensor_parallel_2 1 --strategy single
    row "GPT tiny, tensor-parallel" "${2:-3}" $gpt --data_parallel 1 --tensor_parallel_1 2 --tensor_parallel_2 1 --strategy single
    exit 0
fi
make -s build/bench/predict && exec build/bench/predict "$@"
