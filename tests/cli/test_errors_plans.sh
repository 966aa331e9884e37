#!/bin/sh
# Runs are refused because of batches, options, plans or memory, with the right exit code and one helpful line. Unusual
# settings cause warnings.
. "$(dirname "$0")/support.sh"

make_digits
data="--data-dir $folder/data"
small="$data --batch-size 10 --device-iterations 2 --gradient-accumulation 8 --test-batch-size 5 --epochs 1"
cd "$folder" || exit 1

begin_case batches
# ---- batches for which there are not enough data ----

error 2 'images, but there are 1600' mnist $data
error 2 '--batch-size 5000 x' mnist $small --batch-size 5000
error 2 'images, but there are 1600' mnist $small --batch-size 2147483647 --device-iterations 2147483647 \
    --gradient-accumulation 2147483647 --replicas 65536

begin_case options
# ---- options by name ----

printf 'seed 1\nreplica 2\nwait_limit_s soon\n' >"$folder/run.txt"
error 2 'run.txt:3: option `wait_limit_s` is `soon`; it must be a number' plan mnist --options "$folder/run.txt"
error 2 '2 problems: ' mnist --options "$folder/run.txt"
printf 'wait_limit_s 0\n' >"$folder/run.txt"
error 2 'wait_limit_s is 0; it must be above 0' mnist $small --options "$folder/run.txt"
printf 'replicas 0\n' >"$folder/run.txt"
error 2 'replicas must be at least 1' mnist --options "$folder/run.txt"
printf 'requests_only true\n' >"$folder/run.txt"
error 2 'requests_only works only in C' mnist --options "$folder/run.txt"
printf 'total_devices 16\n' >"$folder/run.txt"
error 2 'give replicas' mnist --options "$folder/run.txt"
error 2 'none.txt' mnist --options "$folder/none.txt"
echo 'memmap_dir files' >"$folder/run.txt"
error 1 'its files belong to the session of a fit' mnist $small --options "$folder/run.txt"

begin_case plans
# ---- invalid plans ----

error 1 '`99999` is not a device number (in stage 0, after @); device numbers are 0 to 65535' mnist $small --stages 'B1,B2@99999|B3,B4'
error 1 'B9' mnist $small --stages 'B1,B2|B3,B9'
error 1 'B2' mnist $small --stages 'B1|B3|B4'
error 1 'B1' mnist $small --stages 'B1,B2|B1,B3,B4'
error 2 'weights are sharded and on the device' mnist $small --shard weights
error 2 'activations are sharded' mnist $small --shard optimizer,activations
error 1 'shard the state too' mnist $small --shard accumulators --replicas 2

begin_case ipu-limits
error 1 'gradient accumulation is 2' mnist $small --ipu-limits --gradient-accumulation 2
# The limit of the default schedule is the same whether the schedule is named or not.
for schedule in '' '--schedule interleaved'; do
    error 1 'needs at least 7 (2 N - 1)' plan mnist --ipu-limits --gradient-accumulation 6 $schedule
    "$program" plan mnist --ipu-limits --gradient-accumulation 7 $schedule >/dev/null 2>"$folder/err"
    check "7 are enough $schedule: $(cat "$folder/err")" test $? -eq 0
done
error 1 'IPUs come in powers of two: use 4' plan mnist --ipu-limits --stages 'B1|B2|B3,B4' --gradient-accumulation 8
"$program" mnist $small --ipu-limits --gradient-accumulation 7 --save "$folder/limit.safetensors" >/dev/null 2>"$folder/err"
check "the least accumulation is enough: $(cat "$folder/err")" test $? -eq 0

begin_case machine-memory
# One replica per image is refused before memory is allocated, if the machine does not have enough.
if [ "$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo 2>/dev/null || echo 0)" -lt 90000000 ]; then
    (
        # Sanitizers map much more memory than they use.
        [ -n "${BRIGADE_TEST_QUICK:-}" ] || ulimit -v 8000000 2>/dev/null
        "$program" mnist --epochs 1 --replicas 60000 --batch-size 1 --device-iterations 1 --gradient-accumulation 1 \
            --last-batch smaller --save "$folder/many.safetensors" >/dev/null 2>"$folder/err"
    )
    check "60000 replicas are refused" test $? -eq 1
    check "with what they need, what there is, what helps: $(cat "$folder/err")" grep -q -E \
        'needs [0-9.]+ GB .* for 240000 devices \(60000 replicas\), .* has .* free; use fewer replicas' "$folder/err"
else
    skipped=$((skipped + 2))
fi

begin_case device-memory
# The memory table follows the line of the error.
"$program" mnist $small --device-memory 1320K >/dev/null 2>"$folder/err"
check "too little memory is a failure" test $? -eq 1
check "the first line says device, need and remedy" sh -c \
    'head -n 1 "$0" | grep -q "^brigade mnist: device 2 needs .* its budget is .*--offload optimizer"' "$folder/err"
check "the table has every device" test "$(grep -c '^device [0-3] ' "$folder/err")" -eq 4
error_first() { # WORDS ARGUMENT...: exit code 1, and the words in the first line
    first_words=$1
    shift
    "$program" "$@" >/dev/null 2>"$folder/err"
    check "$*: a failure" test $? -eq 1
    check "$*: $first_words" sh -c 'head -n 1 "$1" | grep -q -F -e "$2"' sh "$folder/err" "$first_words"
}
error_first 'device 2 needs' mnist $small --device-memory 64M,64M,1320K,64M
error_first 'device 3 needs' mnist $small --device-memory 64M,64M,64M,60K
# Phases are already offloaded and recomputed, so the advice does not name these options.
"$program" gpt pretrain --config tiny --set hidden_size=128 sequence_length=64 precision=float32 tensor_parallel_1=1 tensor_parallel_2=1 \
    max_positional_length=64 data_parallel=1 global_batch_size=8 micro_batch_size=4 --strategy phased --device-memory 1100K >/dev/null 2>"$folder/err"
check "phased: the block, and the size of the micro-batch: $(cat "$folder/err")" \
    grep -q 'of block [A-Za-z0-9-]* needs .* smaller micro-batch (now 4)' "$folder/err"
check "phased: no option that is in use" sh -c '! grep -q -e --offload -e --recompute "$1"' sh "$folder/err"
"$program" gpt pretrain --config tiny --set hidden_size=128 layers=2 precision=float32 tensor_parallel_1=1 tensor_parallel_2=1 \
    data_parallel=1 global_batch_size=64 micro_batch_size=64 --strategy single --device-memory 1100K >/dev/null 2>"$folder/err"
check "single: one slot: $(cat "$folder/err")" grep -q ', 1 slot of ' "$folder/err"
check "single: no schedule with fewer micro-batches" sh -c '! grep -q "in flight" "$1"' sh "$folder/err"
# Advice does not name the schedule that is in use; --phase-liveness is for phases.
"$program" plan mnist --gradient-accumulation 16 --kernels portable --device-memory 1500K,64M --batch-size 80 --stages 'B1,B2|B3,B4' \
    --schedule interleaved >/dev/null 2>"$folder/err"
check "interleaved: not itself: $(cat "$folder/err")" grep -q 'micro-batches in flight (`sequential`)' "$folder/err"
phased="--strategy phased --batch-size 8 --gradient-accumulation 8 --kernels portable --device-memory 1330K"
"$program" plan mnist $phased >/dev/null 2>"$folder/err"
check "windows of phases, one for each block: $(cat "$folder/err")" grep -q 'most of it is windows .*); load .*--phase-liveness' "$folder/err"
check "which cannot be divided" sh -c '! grep -q "more stages" "$1"' sh "$folder/err"
"$program" plan mnist $phased --stages 'B1,B2;B3,B4' >/dev/null 2>"$folder/err"
check "windows of phases of two blocks: $(cat "$folder/err")" grep -q 'most of it is windows .*; use more stages, or load .*--phase-liveness' "$folder/err"
"$program" plan mnist $phased --phase-liveness off_chip_after_each_phase >/dev/null 2>"$folder/err"
check "windows, loaded on demand: $(cat "$folder/err")" sh -c '! grep -q -e --phase-liveness "$1"' sh "$folder/err"
"$program" mnist $small --device-memory 100K --offload optimizer,weights,accumulators >/dev/null 2>"$folder/err"
check "an update that is too large: $(cat "$folder/err")" grep -q \
    'the update of `layer3.weight` alone needs 1.31 MB .* but the budget of device 2 is 102 kB' "$folder/err"
"$program" mnist $small --device-memory 64M --save "$folder/kept.safetensors" >/dev/null 2>"$folder/err"
check "enough memory is no failure" test $? -eq 0

begin_case learning-rate
# ---- a learning rate that is too large ----

"$program" mnist $small --learning-rate 1e30 --save nan.safetensors --output-mode all >nan.out 2>"$folder/err"
check "a loss that is not finite is a failure" test $? -eq 1
check "it names the update and the remedy" grep -q -E \
    '^brigade mnist: the loss became (NaN|infinite) at update [0-9]+: lower --learning-rate$' "$folder/err"
check "it says so once" test "$(wc -l <"$folder/err")" -eq 1
check "the weights are saved" test -s nan.safetensors
"$program" mnist $small --learning-rate 1e30 --save nan.safetensors >nan.out 2>"$folder/err"
check "the updates of the call" grep -q -E \
    '^brigade mnist: the loss became (NaN|infinite) in updates [0-9]+ to [0-9]*[02468]: lower --learning-rate$' "$folder/err"

begin_case warnings
# ---- warnings ----

# warns COUNT WORDS ARGUMENT...: the run succeeds and prints COUNT lines with the words.
warns() {
    warns_count=$1 warns_words=$2
    shift 2
    "$program" mnist $small --steps 1 --save warned.safetensors "$@" >/dev/null 2>"$folder/err"
    warns_code=$?
    check "$*: $warns_code, $(cat "$folder/err")" test $warns_code -eq 0 -a \
        "$(grep -c -F -e "warning: $warns_words" "$folder/err")" -eq "$warns_count"
    check "$*: nothing twice" test -z "$(sort "$folder/err" | uniq -d)"
}

warns 1 '--profile-dir is given without --profile, so nothing is recorded; add --profile' --profile-dir p
check "no profile folder" test ! -e p
warns 0 '' --batch-size 20
warns 1 '' --stages 'B1,B2@0|B3,B4@0'
BRIGADE_DATA=$folder/none "$program" mnist --batch-size 10 --device-iterations 1 --gradient-accumulation 4 --steps 1 \
    --save warned.safetensors >/dev/null 2>"$folder/err"
check "a folder without MNIST is said" grep -q -F \
    "brigade mnist: warning: \$BRIGADE_DATA ($folder/none) has no MNIST; it was skipped" "$folder/err"
finish
