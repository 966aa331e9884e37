#!/bin/sh
# Headless Chromium opens the report of a run and the comparison of two, and does what a user does (browser.js). The
# test is skipped if Chromium is not installed.
. "$(dirname "$0")/../cli/support.sh"

browser=
for name in chromium chromium-browser google-chrome; do
    [ -z "$browser" ] && command -v $name >/dev/null 2>&1 && browser=$name
done
if [ -z "$browser" ] || [ -n "${BRIGADE_TEST_QUICK:-}" ]; then
    echo "no Chromium to look at reports with, or a quick run"
    skipped=$((skipped + 1))
    finish
    exit
fi
. "$root/tests/cli/mnist.sh"

# visit FILE COUNT: opens a copy of a report with the user's script at its end; the page's text is in page.txt.
visit() {
    sed -e "s|<html lang=\"en\">|<html lang=\"en\" data-expected=\"$2\"><script>window.brigadeErrors = []; window.addEventListener('error', function (e) { window.brigadeErrors.push(e.message); });</script>|" \
        -e '/^<\/body>$/d' -e '/^<\/html>$/d' "$1" >visited.html
    { echo '<script>'; cat "$root/tests/profile/browser.js"; echo '</script></body></html>'; } >>visited.html
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$folder/browser" \
        --window-size=1500,1000 --enable-logging=stderr --v=0 --virtual-time-budget=4000 --dump-dom "file://$folder/visited.html" \
        >dom.html 2>console.log
    sed -n '/<pre id="results">/,/<\/pre>/p' dom.html | sed -e 's/<[^>]*>//g' >results.txt
    check "the browser has opened $1: $(tail -n 2 console.log)" test -s results.txt
    check "no failure in $1: $(grep FAILED results.txt)" test "$(grep -c FAILED results.txt)" = 0
    check "$(wc -l <results.txt) checks in $1" test "$(grep -c '^ok' results.txt)" -gt 20
    check "no error on the console: $(grep CONSOLE console.log | head -n 2)" sh -c '! grep -q "CONSOLE.*rror" console.log'
}

begin_case report
train pipelined --epochs 2 --profile --profile-dir pipelined
visit pipelined/report.html 1

begin_case comparison
train sharded --epochs 2 --strategy sharded --profile --profile-dir sharded
"$program" report pipelined --compare sharded >compare.out 2>&1
check "the comparison is written: $(cat compare.out)" test -s pipelined/compare.html
visit pipelined/compare.html 2

begin_case themes
for theme in light dark; do
    timeout 60 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$folder/browser" \
        --window-size=1500,1000 --screenshot="$folder/$theme.png" "file://$folder/pipelined/report.html#$theme" >/dev/null 2>&1
    check "a picture of the $theme theme" test "$(wc -c <$theme.png)" -gt 20000
done
check "themes differ" sh -c '! cmp -s light.png dark.png'
finish
