#!/bin/sh
# `brigade plan`, and the dumps of the compiler's passes.
. "$(dirname "$0")/support.sh"
cd "$folder" || exit 1

begin_case models
for model in mnist gpt; do
    "$program" plan $model >$model.out 2>$model.err
    check "$model: ends with 0: $(cat $model.err)" test $? -eq 0
    for part in Stages Memory Timetable; do
        check "$model: $part" grep -q -x "$part" $model.out
    done
    check "$model: --help" sh -c '"$1" plan $2 --help 2>/dev/null | sed -n 1p | grep -q "^Usage: brigade plan $2 \[OPTION\]"' sh "$program" $model
    check "--help names $model" sh -c '"$1" plan --help | grep -q "^  $2 .*as .brigade $2"' sh "$program" $model
done
"$program" plan gpt --strategy pipelined --layers 2 --device-memory 1M >pipelined.out 2>&1
check "gpt: options and fields are those of the program" grep -q '^4 stages on 4 devices, 8 replicas (data_parallel [0-9]* x tensor parallel [0-9]*); ' pipelined.out
"$program" gpt pretrain --strategy pipelined --layers 2 --device-memory 1M --compile-only --quiet >compiled.out 2>&1
check "the same plan as --compile-only" test "$(sed -n '/^Memory$/,/^$/p' pipelined.out)" = "$(sed -n '/^Memory$/,/^$/p' compiled.out)"
check "memory by phase for phases" test "$(grep -c '^F stage' gpt.out)" -gt 1
"$program" plan --save gpt mnist >word.out 2>&1
check "a value that is a model's name is no model" test "$(sed -n '/^Stages/,$p' word.out)" = "$(sed -n '/^Stages/,$p' mnist.out)"
error 2 'model.layers is 0' plan gpt --layers 0
error 2 'no model is given to `brigade plan MODEL`; the models are mnist, gpt' plan
error 2 'unknown model `gtp`; the models are mnist, gpt, train' plan gtp
error 2 'unknown option --epochs' plan gpt --epochs 2
error 2 "--log-level: \`--quiet\`" plan gpt --log-level debug

begin_case prediction
devices=$BRIGADE_PRESETS/devices
"$program" plan mnist --html page.html --svg picture.svg >predicted.out 2>predicted.err
check "ends with 0: $(cat predicted.err)" test $? -eq 0
check "separate devices" grep -q '^4 separate devices: an update takes .* images/s; idle [0-9.]* %$' predicted.out
check "and the cores that are here" grep -q '^[0-9]* cores* shared by them: an update takes .* images/s; idle [0-9.]* %$' predicted.out
check "where time goes, a row for each device" test "$(grep -c '^device [0-3]   *[0-9.]*  *[0-9.]' predicted.out)" -ge 4
check "the memory of the process" grep -q '^the process takes [0-9.]* MB: weights [0-9.]* kB, .*program ' predicted.out
check "the picture" sh -c 'grep -q "^<svg " "$1" && grep -c "<rect class=.F" "$1" | grep -q "^41$"' sh picture.svg
check "the page has it all, and no script" sh -c 'grep -q "<h2>Memory of devices</h2>" "$1" && grep -q "<svg " "$1" &&
    grep -q "<h2>Memory by phase</h2>" "$1" && ! grep -q -i "<script\|src=\|href=" "$1"' sh page.html
"$program" plan mnist --device=ipu-mk2 >ipu.out 2>&1
check "another device: $(sed -n 5,9p ipu.out)" grep -q '^Graphcore IPU Mk2 (GC200), ' ipu.out
check "its memory is the budget" sh -c 'grep -q "^memory: device 2 needs the most, .* of 941 MB$" "$1" && grep -q "^device 3 .* 940572672 " "$1"' sh ipu.out
check "this machine's cores are not asked" sh -c '! grep -q "shared by them" "$1"' sh ipu.out
"$program" plan mnist --device h100 --device-memory 4M >own.out 2>&1
check "but one that is given stays" grep -q '^device 3 .* 4194304 ' own.out
sed 's/"memory_bytes": [0-9]*/"memory_bytes": 1.4e6/' "$devices/ipu-mk2.json" >small.json
"$program" plan mnist --device small.json >small.out 2>&1
check "what does not fit is refused with the table" test "$? $(grep -c 'device 2 needs 2.16 MB .*its budget is 1.40 MB' small.out)" = "1 1"
sed 's/"devices": 64/"devices": 0/' small.json >wrong.json
error 2 'wrong.json: `link.devices` is 0; it must be a whole number from 1 to 1.67772e+07' plan mnist --device wrong.json
error 2 '--device ipu-mk3: the file does not exist, and neither does ipu-mk3.json in' plan mnist --device ipu-mk3
error 2 '--svg needs a value' plan mnist --svg
error 1 'no/such/page.html' plan mnist --html no/such/page.html
check "help" sh -c '"$1" plan mnist --help | grep -q "^  --device NAME|FILE"' sh "$program"
check "alone, and of a model from a file" sh -c '"$1" plan train --help | grep -q "^  --svg FILE"' sh "$program"

begin_case calibration
"$program" plan mnist --batch-size 4 --gradient-accumulation 4 --device-iterations 1 --calibrate missing >measured.out 2>measured.err
check "calls are measured: $(cat measured.err)" grep -q ' distinct calls measured on this machine$' measured.out
file=$(ls "$XDG_CACHE_HOME"/brigade/calls-*.json)
check "and kept: $file" grep -q '"format": "brigade call costs 4"' "$file"
"$program" plan mnist --batch-size 4 --gradient-accumulation 4 --device-iterations 1 >again.out
same='s/compiled in.*//; /^the process takes /d' # the program itself may need one more page
check "the next time they are known" test "$(sed "$same" again.out)" = "$(sed "$same" measured.out)"
"$program" plan mnist --batch-size 5 >never.out
check "others are by their kernels" grep -q ' of [0-9]* distinct calls measured on this machine, the others by operations' never.out
echo '{' >"$file"
"$program" plan mnist --batch-size 4 >broken.out 2>broken.err
check "a broken cache is a warning: $(cat broken.err)" grep -q '^brigade plan: warning: .*calls-.*not JSON' broken.err
check "and no costs" grep -q ', operations and bytes of each op, none measured$' broken.out
rm "$file"
error 2 '--calibrate' plan mnist --calibrate sometimes
BRIGADE_CALIBRATE=x "$program" plan mnist >x.out 2>&1
check "the variable is checked: $(cat x.out)" test "$? $(grep -c 'BRIGADE_CALIBRATE is .x.; it must be missing, always or never' x.out)" = "2 1"

begin_case search
"$program" plan mnist --search 4 --device ipu-mk2 >search.out 2>search.err
check "ends with 0: $(cat search.err)" test $? -eq 0
best=$(sed -n 's/^Best: //p' search.out)
check "the best one as options" test -n "$best"
# shellcheck disable=SC2086
"$program" plan mnist --device ipu-mk2 $best >best.out 2>&1
check "they can be typed, and give what was said" sh -c 'grep -q "^4 separate devices: an update takes" "$1" &&
    grep -q "$(sed -n "s/^ 1\. [^,]*, \([^ ]* images.s\);.*/, \1/p" "$2")" "$1"' sh best.out search.out
check "runners-up and why they lost" grep -q -E '^    (as fast, and needs|[0-9.]+ % slower, mainly because of [a-z]+: )' search.out
check "what is not possible, and why" grep -q '^    10 micro-batches in an update are not a multiple of 4 replicas$' search.out
check "the best is first" test "$(sed -n 's/^ *[0-9]*\. .*, \([^ ]*\) images.s.*/\1/p' search.out | sort -g -r | head -1)" = "$(sed -n 's/^ 1\. .*, \([^ ]*\) images.s.*/\1/p' search.out)"
"$program" plan mnist --search 2 --device ipu-mk2 --device-memory 2M --strategy pipelined --schedule gpipe >memory.out 2>&1
check "remedies are tried where memory is short: $(cat memory.out)" test "$(grep -c 'its budget is 2.10 MB' memory.out)" -ge 3
check "and what the command line says stays" sh -c '! grep -q -e "--schedule" "$1"' sh memory.out
"$program" plan gpt --config tiny --set layers=2 --search 2 --device h100 >gpt.out 2>&1
check "meshes of the other model: $(sed -n 1,3p gpt.out)" grep -q -e '--data_parallel 1 --tensor_parallel_1 2 --tensor_parallel_2 1' gpt.out
error 2 '--search' plan mnist --search 0

begin_case dump-after
"$program" plan mnist --dump-after list >list.out
check "the passes by name, with a sentence each" test "$(grep -c -E '^[a-z]+ +[a-z].* .*[^.]$' list.out)" -eq "$(wc -l <list.out)"
check "from the first to the last" test "$(cut -d' ' -f1 list.out | sed -n '1p;$p' | tr '\n' ' ')" = "anchors budget "
"$program" plan mnist --dump-after fuse >fuse.out
check "the graph after a pass, then the plan" sh -c 'sed -n 1p "$1" | grep -q "^After pass .fuse.:$" && grep -q conv2d_pool "$1" &&
    grep -q "^Timetable" "$1"' sh fuse.out
check "and after no other" test "$(grep -c '^After pass' fuse.out)" -eq 1
"$program" gpt pretrain --config tiny --compile-only --dump-after programs >gpt.out
check "of the other model too" grep -q '^After pass `programs`:$' gpt.out
error 1 'dump_after is `fuze`; it must be a pass (anchors, copies, loop, precision, prune, quantize, fuse' plan mnist --dump-after fuze

# row TABLE RANKS: prints the last number in the row of these ranks.
row() {
    sed -n "/^$1/,/^\$/p" ranks.out | sed -n "s/^$2  .* \([0-9.]* [kMGT]*B\)\$/\1/p"
}

begin_case ranks
"$program" plan mnist --batch-size 4 >ranks.out
check "one process has no ranks" sh -c '! grep -q "^Ranks" ranks.out'
"$program" plan mnist --batch-size 4 --replicas 2 --ranks 3 >ranks.out
check "their devices: $(cat ranks.out)" grep -q -x 'rank 1: replica 0 device 3, replica 1 devices 0-1' ranks.out
check "their memory" test -n "$(row 'memory of rank' 2)"
check "what they send" test -n "$(row 'sent in a step' 2)"
"$program" plan mnist --batch-size 4 --replicas 2 --ranks 3 --layout 0,0,0,2,1,1,1,2 >ranks.out
check "a layout: $(cat ranks.out)" grep -q -x 'rank 2: replica 0 device 3, replica 1 device 3' ranks.out
check "ranks that are equal share a row" test -n "$(row 'sent in a step' '0-1')"
"$program" gpt pretrain --config tiny --compile-only --ranks 2 >ranks.out
check "of the other model too: $(cat ranks.out)" test -n "$(row 'memory of rank' '0-1')"
error 1 'entry 3 is not a rank from 0 to 1' plan mnist --ranks 2 --layout 0,0,1,5
error 1 'layout `tensor,stages,data`: there is no such axis' plan mnist --layout tensor,stages,data
error 1 'entry 3 is not a rank from 0 to 3' plan mnist --layout 0,0,1,5
rate() { # images a second, of a prediction of ranks
    "$program" plan mnist --batch-size 4 --ranks 4 --rank-link "$1" >ranks.out
    sed -n 's/^4 ranks of a core, .* between them: an update takes .*, \([0-9.e+]*\) images\/s; .*/\1/p' ranks.out
}
fast=$(rate 0,1000) slow=$(rate 50000,1000)
check "slow messages take longer: $fast, $slow: $(sed -n '/^Prediction/,/^$/p' ranks.out)" \
    awk -v fast="$fast" -v slow="$slow" 'BEGIN { exit !(slow > 0 && fast > 2 * slow) }'
error 1 '--rank-link is `fast`; it must be two numbers' plan mnist --ranks 4 --rank-link fast
error 1 '--rank-link is `,8`' plan mnist --ranks 4 --rank-link ,8
error 1 'predicts a rank for each of the 4 devices of all replicas, but --ranks is 3; set --ranks 4' plan mnist --ranks 3 --rank-link 1,8
"$program" plan mnist --batch-size 4 --gradient-accumulation 4 --device-iterations 1 --calibrate missing --ranks 4 >unknown.out
check "an unknown link predicts no ranks" sh -c '! grep -q " ranks of a core" unknown.out'
file=$(ls "$XDG_CACHE_HOME"/brigade/calls-*.json)
sed -i 's/"rank_latency_ns": 0.0/"rank_latency_ns": 700.0/; s/"rank_bytes_per_ns": 0.0/"rank_bytes_per_ns": 2.5/' "$file"
"$program" plan mnist --batch-size 4 --gradient-accumulation 4 --device-iterations 1 --ranks 4 >known.out
check "the link in the cache is used: $(grep ranks known.out)" grep -q '^4 ranks of a core, 0.7 us and 2.5 GB/s between them: ' known.out
"$program" plan mnist --batch-size 4 --gradient-accumulation 4 --device-iterations 1 --ranks 3 >known.out
check "not for other numbers of ranks" sh -c '! grep -q " ranks of a core" known.out'
"$program" plan mnist --batch-size 4 --gradient-accumulation 4 --device-iterations 1 --ranks 4 --rank-link 1,8 >known.out
check "the option has priority" grep -q '^4 ranks of a core, 1 us and 8 GB/s between them: ' known.out
rm "$file"
if [ -n "${BRIGADE_TEST_ALL:-}" ]; then
    "$program" gpt pretrain --config gpt3_175B_pod256 --compile-only --ranks 256 >ranks.out
    check "256 of the largest: $(cat ranks.out)" test "$(row 'memory of rank' '0-255') $(row 'sent in' '0-255')" = "15.1 GB 895 GB"
fi
finish
