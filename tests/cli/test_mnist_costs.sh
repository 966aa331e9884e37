#!/bin/sh
# `brigade mnist`: the schedule `auto` with measured costs, and profiles of shortened calls.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/mnist.sh"

begin_case searched
train searched --epochs 1 --schedule auto --costs costs.json
train plain --epochs 1
same searched plain
check "the costs are written" grep -q '"format": "brigade costs 1"' costs.json
check "of each stage" test "$(grep -c forward_ns costs.json)" -eq 4
cp costs.json kept.json
"$program" plan mnist $small --schedule auto --costs costs.json >plan-a.out
"$program" plan mnist $small --schedule auto --costs costs.json >plan-b.out
check "a plan by measured costs" grep -q 'by measured costs' plan-a.out
check "the same plan each time" sh -c 'for f in a b; do sed "1,2d; /^the process takes /d" plan-$f.out >$f; done; cmp -s a b'
train again --epochs 1 --schedule auto --costs costs.json
same again plain
check "costs that are there stay" cmp -s costs.json kept.json

begin_case idle-share
check "what the idle share means is said" sh -c '"$1" plan mnist --cores 1 | grep -q -E \
    "^idle share [0-9.]+ % of the devices. time by static costs, if each had its own core; here 4 devices share 1 core, whose idle share is at least 0.0 %$"' \
    sh "$program"
check "with a core each there is one share" sh -c '"$1" plan mnist --strategy single | grep -q -E \
    "^idle share 0.0 % of the devices. time by static costs, if each had its own core$"' sh "$program"
check "without a file a plan goes by the model" sh -c '"$1" plan mnist --schedule auto | grep -q "by static costs"' sh \
    "$program"

begin_case costs-errors
error 1 'the file does not exist; `brigade mnist --schedule auto --costs none.json` with the same options measures' \
    plan mnist --schedule auto --costs none.json
error 2 '--costs costs.json is given without --schedule auto' mnist $small --costs costs.json
error 2 '--costs and --save name the same file, costs.json' mnist $small --schedule auto --costs costs.json --save costs.json
error 1 'costs are given for 4 stages, but the plan has 2' plan mnist --schedule auto --costs costs.json --stages 'B1,B2|B3,B4'
echo '{"format": "brigade costs 1"}' >broken.json
error 1 'broken.json: the file has no number `message_bytes_per_ns`' plan mnist --schedule auto --costs broken.json

# steps_of FILE: prints the updates of which a trace has slices.
steps_of() {
    grep -o '"step":[0-9]*' "$1" | sort -u | sed 's/"step"://' | sort -n | tr '\n' ' '
}

begin_case short-profiles
train two-calls --epochs 1 --steps 7 --profile --profile-dir short
check "the whole calls are in trace.json" test "$(steps_of short/trace.json)" = "0 1 2 3 4 5 "
check "the last call is in trace-last.json" test "$(steps_of short/trace-last.json)" = "6 "
check "it is said" grep -q '^Trace of the shorter last call: short/trace-last.json' two-calls.out
check "the summary has both" grep -q '^the last call, of 1 weight updates only:$' short/summary.txt
train one-call --epochs 1 --steps 1 --profile --profile-dir short
check "an only call is in trace.json" test "$(steps_of short/trace.json)" = "0 "
check "what is older is gone" test ! -e short/trace-last.json
mkdir -p short/trace-last.json/full
error 1 "short/trace-last.json: cannot remove an earlier run's trace: " mnist $small --epochs 1 --steps 1 --profile \
    --profile-dir short
finish
