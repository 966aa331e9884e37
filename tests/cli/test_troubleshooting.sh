#!/bin/sh
# The listings of docs/troubleshooting.md: each command prints the output shown below it. A line `...` matches any
# lines.
. "$(dirname "$0")/support.sh"
page="$(cd "$(dirname "$0")/../.." && pwd)/docs/troubleshooting.md"

cd "$folder" || exit 1
mkdir bin page && ln -s "$program" bin/brigade
PATH="$folder/bin:$PATH"
unset BRIGADE_DATA
brigade data digits --count 2000 --test-count 500 --dir data >/dev/null

# Writes command n of the page to page/n.command, and its output to page/n.shown.
awk '/^    \$ / { n++; print substr($0, 7) >("page/" n ".command"); printf "" >("page/" n ".shown"); on = 1; next }
     /^    / { if (on) print substr($0, 5) >("page/" n ".shown"); next }
     { on = 0 }' "$page"

# Succeeds if the lines of a file are those that are shown.
matches() { # shown, printed
    awk 'NR == FNR { shown[++count] = $0; next }
         { line[++lines] = $0 }
         END {
             at = 1
             for (i = 1; i <= count; i++) {
                 if (shown[i] != "...") {
                     if (skips) while (at <= lines && line[at] != shown[i]) at++
                     if (at > lines || line[at] != shown[i]) exit 1
                     at++
                 }
                 skips = shown[i] == "..."
             }
             exit !(skips || at > lines)
         }' "$1" "$2"
}

begin_case listings
count=0
for command in page/*.command; do
    count=$((count + 1))
    sh -c "$(cat "$command")" >printed 2>&1
    if matches "${command%command}shown" printed; then
        pass
    else
        fail "$(cat "$command") printed:" "$(cat printed)"
    fi
done
check "the page has listings" test "$count" -ge 7
begin_case differences
# differs SHOWN PRINTED: checks that lines which are not on the page are detected.
differs() {
    printf "$1" >shown
    printf "$2" >printed
    if matches shown printed; then fail "not noticed: $1 against $2"; else pass; fi
}
differs 'a\nc\n' 'a\nb\n'
differs 'a\n' 'a\nb\n'
differs 'a\nb\n' 'a\n'
differs '...\nc\n' 'a\nb\n'
finish
