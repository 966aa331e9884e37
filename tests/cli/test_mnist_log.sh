#!/bin/sh
# `brigade mnist`: the log of a training run, options by name, the loss scale in the log.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/mnist.sh"

begin_case log
train logged --epochs 2 --log log.jsonl
check "one line for the head and one for each update" test "$(wc -l <log.jsonl)" -eq 41
check "the head has configuration and versions" sh -c \
    'head -n 1 log.jsonl | grep -q "^{\"config\":{.*\"batch-size\":$1,.*\"versions\":{\"brigade\":.*\"compiler\":.*\"cpu_isa\":.*\"host_cores\":"' sh $batch
check "updates count from 1" test "$(sed -n 's/^{"step":\([0-9]*\),.*/\1/p' log.jsonl | tr '\n' ' ')" = "$(seq -s ' ' 40) "
check "each update has its numbers" test "$(grep -c -E '^\{"step":[0-9]+,"epoch":[12],"loss":[0-9.e-]+,"accuracy":[0-9.]+,"images_per_s":[0-9.]+\}$' log.jsonl)" -eq 40
train logged-all --epochs 2 --log all.jsonl --output-mode all --strategy single
check "the log is the same in every mode and strategy" test \
    "$(sed 's/,"images_per_s.*//' log.jsonl | tail -n +2)" = "$(sed 's/,"images_per_s.*//' all.jsonl | tail -n +2)"
same logged logged-all
train normed --epochs 2 --log normed.jsonl --gradient-norm
same logged normed
check "each update has its norm" test "$(grep -c -E '"accuracy":[0-9.]+,"grad_norm":[0-9.e-]+,"images_per_s":' normed.jsonl)" -eq 40
check "nothing else is different" test "$(sed 's/,"grad_norm.*//' normed.jsonl | tail -n +2)" = \
    "$(sed 's/,"images_per_s.*//' log.jsonl | tail -n +2)"

begin_case by-options
train flagged --epochs 1 --seed 3 --replicas 2 --clip-norm 0.5 --accumulation sum --strategy sharded --offload weights --offload-minimum 2
printf '# a run\nseed 3\nreplicationFactor(2)\nmax_gradient_norm=0.5\naccumulation sum\nplace_weights remote\nplace_activations device\n' >run.txt
export BRIGADE_OPTIONS='strategy=sharded seed=4'
train by-options --epochs 1 --seed 9 --options run.txt
unset BRIGADE_OPTIONS
same flagged by-options
printf '{"auto_loss_scaling": true, "loss_scaling": 16, "matmul_proportions": [0.001, 0, 0, 1], "cores": 2}\n' >run.json
train scaled-by-options --epochs 2 --log scaled-by-options.jsonl --options run.json
same logged scaled-by-options
check "options of a file are in the log" test "$(sed -n 's/.*"loss_scale":\([0-9]*\)\.0,.*/\1/p' scaled-by-options.jsonl | head -n 3 | tr '\n' ' ')" = '16 32 64 '
printf 'schedule auto\ncores 2\n' >run.txt
train searched-by-options --epochs 2 --options run.txt
same logged searched-by-options

begin_case loss-scaling
train scaled --epochs 2 --log scaled.jsonl --loss-scaling auto:16
same logged scaled
check "the scale doubles from update to update" test "$(sed -n 's/.*"loss_scale":\([0-9]*\)\.0,.*/\1/p' scaled.jsonl | head -n 3 | tr '\n' ' ')" = '16 32 64 '
check "no other number knows the scale" test "$(sed 's/,"loss_scale.*//' scaled.jsonl | tail -n +2)" = \
    "$(sed 's/,"images_per_s.*//' log.jsonl | tail -n +2)"

# has LOG TEXT: checks that the first line of the log contains the text.
has() {
    if head -n 1 "$1" | grep -q -F -e "$2"; then pass; else fail "$1 has no $2:" "$(head -n 1 "$1")"; fi
}

begin_case log-head
for word in '"schedule":"interleaved"' '"stages":"B1|B2|B3|B4"' '"device-memory":null' '"steps":null' '"io-threads":null' '"init":null' \
    '"save":"logged.safetensors"' '"profile-dir":null' '"source":"'"$folder"'/data"' '"training_images":'$images \
    '"test_images":'$tests; do
    has log.jsonl "$word"
done
has all.jsonl '"schedule":null,"stages":"B1,B2,B3,B4"'
train one-core --epochs 1 --cores 1 --log cores.jsonl
has cores.jsonl '"cores":1,'
check "the workers are counted" sh -c 'head -n 1 log.jsonl | grep -q "\"cores\":[1-9]"'

begin_case log-to-stdout
# The log goes to standard output: its lines are between printed lines, and no line is lost.
train to-stdout --epochs 1 --log /dev/stdout
lines to-stdout.out '^Training' '^\{"config"' '^Epoch 1/1' '^\{"step":1,' '^\{"step":20,' '^10/10 ' '^Accuracy on test set'
check "every line is whole" test "$(grep -c '^{"step":[0-9]*,.*}$' to-stdout.out)" -eq 20
finish
