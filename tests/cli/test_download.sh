#!/bin/sh
# `brigade mnist --download` from a server on this machine: printed lines, a progress bar on a terminal, and failures.
# Files that are not MNIST are refused after the download. A successful download needs the real MNIST.
. "$(dirname "$0")/support.sh"

error 2 '--mirror applies only with --download; add --download' mnist --mirror http://127.0.0.1/
error 1 'cannot download train-images-idx3-ubyte.gz: ftp://127.0.0.1/' mnist --download --mirror ftp://127.0.0.1/ \
    --data-dir "$folder/none"

# serve FOLDER: serves its files at http://127.0.0.1:$port/ from process $server.
serve() {
    : >"$folder/port"
    python3 -c '
import functools, http.server, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
print(server.server_port, flush=True)
server.serve_forever()' "$1" >"$folder/port" 2>/dev/null &
    server=$!
    for attempt in $(seq 600); do
        [ -s "$folder/port" ] && break
        sleep 0.1
    done
    port=$(cat "$folder/port")
}

if ! python3 -c 'import http.server' 2>/dev/null; then
    skipped=$((skipped + 1))
    finish
fi
no_proxy=127.0.0.1
export no_proxy
has_terminal=false
command -v script >/dev/null 2>&1 && script -q -e -c true /dev/null >/dev/null 2>&1 </dev/null && has_terminal=true

# ---- files with MNIST's names and other content ----

make_digits
cd "$folder" || exit 1
begin_case terminal
first=train-images-idx3-ubyte.gz
[ -f "data/$first" ] || gzip -c data/train-images*ubyte >"data/$first"
serve "$folder/data"
error 1 "checksum (MD5, unpacked) is" mnist --download --mirror "http://127.0.0.1:$port/" --data-dir refused
check "no line for what was refused" sh -c "! grep -q kB '$folder/out'"
check "nothing was kept" sh -c "! ls refused | grep -q ubyte"
if $has_terminal; then
    script -q -e -c "stty cols 100; '$program' mnist --download --mirror http://127.0.0.1:$port/ --data-dir refused" \
        /dev/null >terminal.out 2>/dev/null </dev/null
    check "a terminal ends with it too" test $? -eq 1
    tr '\r' '\n' <terminal.out >parts.out
    check "a bar" grep -qE "^$first \[=+\] [0-9.]+/[0-9.]+ kB [0-9]+ kB/s" parts.out
    check "the error has a line of its own" grep -qE "^.\[Kbrigade mnist: cannot download $first" parts.out
else
    skipped=$((skipped + 3))
fi
kill "$server"
wait "$server" 2>/dev/null

end_case
# ---- a server that does not respond ----

: >port
python3 -c '
import socket, time
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
connection = s.accept()
print("connected", flush=True)
time.sleep(60)' >port 2>/dev/null &
server=$!
for attempt in $(seq 600); do
    [ -s port ] && break
    sleep 0.1
done
"$program" mnist --download --mirror "http://127.0.0.1:$(cat port)/" --data-dir waits >waits.out 2>waits.err &
process=$!
for attempt in $(seq 600); do
    grep -q connected port && break
    sleep 0.1
done
kill -TERM $process
wait $process
check "a signal ends the wait" test $? -eq 143
check "it is said" grep -q -F 'brigade mnist: stopped by signal 15; nothing was trained, so nothing is saved' waits.err
kill "$server"
wait "$server" 2>/dev/null

# ---- the real MNIST ----

cd "$root" || exit 1
for place in "${BRIGADE_TEST_DATA:-}" "${BRIGADE_DATA:-}" data; do
    [ -n "$place" ] && [ -f "$place/mnist/$first" ] && mnist=$(cd "$place/mnist" && pwd) && break
done
cd "$folder" || exit 1
if [ -z "${mnist:-}" ] || [ "$(ls "$mnist" | grep -c 'ubyte\.gz$')" -ne 4 ]; then
    echo "skipped: no MNIST in BRIGADE_TEST_DATA (${BRIGADE_TEST_DATA:-not set}), BRIGADE_DATA or data to serve"
    skipped=$((skipped + 7))
    finish
fi
serve "$mnist"
options="--download --mirror http://127.0.0.1:$port --steps 2 --batch-size 4 --device-iterations 1 --save w.safetensors"
check "a download" "$program" mnist $options --data-dir plain >plain.out
check "a line for each file" test "$(grep -cE '^(train|t10k)-(images|labels)-idx[13]-ubyte\.gz: [0-9]+\.[0-9] kB in [0-9]+\.[0-9] s$' plain.out)" -eq 4
check "no carriage returns without a terminal" sh -c "! grep -q '$(printf '\r')' plain.out"
check "trains on it" grep -q '^Data: MNIST from plain (60000 training, 10000 test images)$' plain.out
# Each run tests 10,000 images, which takes long under sanitizers.
if [ -n "${BRIGADE_TEST_QUICK:-}" ]; then
    skipped=$((skipped + 2))
else
    check "quiet" "$program" mnist $options --data-dir quiet --quiet >quiet.out
    check "quiet says nothing of it" sh -c '! grep -qE "ubyte|Downloading" quiet.out'
fi
"$program" mnist $options --data-dir plain >again.out
check "nothing is fetched twice" sh -c '! grep -qE "ubyte|Downloading" again.out'
kill "$server"
wait "$server" 2>/dev/null
finish
