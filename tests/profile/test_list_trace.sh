#!/bin/sh
# tools/list_trace.py lists an update of two small traces, whose overlaps were computed by hand.
cd "$(dirname "$0")/../.." || exit 1
command -v python3 >/dev/null 2>&1 || { echo "skipped: there is no python3"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# expect NAME: checks that the listing of the trace equals standard input.
expect() {
    cat >"$folder/expected"
    tools/list_trace.py "$folder/trace.json" >"$folder/out" 2>&1
    diff "$folder/expected" "$folder/out" || { echo "FAILED: $1"; failed=$((failed + 1)); }
}

# track PID TID NAME, slice PID TID KIND BEGIN TIME STEP
track() {
    echo "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":$1,\"tid\":$2,\"args\":{\"name\":\"$3\"}},"
}
slice() {
    echo "{\"ph\":\"X\",\"name\":\"$3 0\",\"cat\":\"$3\",\"pid\":$1,\"tid\":$2,\"ts\":$4,\"dur\":$5,\"args\":{\"step\":$6}},"
}
# arrow END TID TIME [MICRO_BATCH]
arrow() {
    echo "{\"ph\":\"$1\",\"name\":\"message\",\"id\":\"0.0.1.${4:-0}\",\"pid\":0,\"tid\":$2,\"ts\":$3},"
}
end='{"ph":"C","name":"memory","pid":0,"ts":0}]}'

# Two replicas with one device each; half of the first replica's sum overlaps its backward pass.
{
    echo '{"traceEvents":['
    for pid in 0 1; do
        track $pid 0 'device 0 (stage 0: B1)'
        track $pid 1 'device 0: reductions'
        slice $pid 0 F 0 100 0
    done
    slice 0 0 B 1000 1000 1
    slice 0 1 REDUCE 1500 1000 1
    slice 1 0 B 1000 1250 1
    echo "$end"
} >"$folder/trace.json"
expect "a sum beside a backward" <<'END'
update 2, ms after it began
   begin      end  replica 0 device 0      replica 1 device 0
   0.000    1.000  B 0
   0.000    1.250                          B 0
   0.500    1.500  REDUCE 0 beside
sums of replica 0 device 0: 1.000 ms; 50 % while it computes, 75 % while others do
END

# Two devices; a message is sent from the first to the second while both compute.
{
    echo '{"traceEvents":['
    track 0 0 'device 0 (stage 0: B1)'
    track 0 1 'device 1 (stage 1: B2)'
    slice 0 0 F 0 10 0
    slice 0 0 SEND 100 10 1
    slice 0 0 F 200 200 1
    slice 0 1 F 50 200 1
    slice 0 1 RECEIVE 250 50 1
    arrow s 0 100
    arrow f 1 300
    arrow s 0 390 1
    arrow f 1 430 1
    echo "$end"
} >"$folder/trace.json"
expect "a message" <<'END'
update 2, ms after it began
   begin      end  replica 0 device 0      replica 0 device 1
   0.000    0.200                          F 0
   0.050    0.060  SEND 0
   0.150    0.350  F 0
   0.200    0.250                          RECEIVE 0
messages of replica 0 device 0 to device 1: 2; 1 came while it computed; it waited for 1, in the median 0.040 ms, and the sender computed during 1 of these
END

if tools/list_trace.py "$folder/trace.json" --step 7 >"$folder/out" 2>&1 || ! grep -q 'step 7 is not in the trace' "$folder/out"; then
    echo "FAILED: a step that is not there: $(cat "$folder/out")"
    failed=$((failed + 1))
fi
echo "$((3 - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
