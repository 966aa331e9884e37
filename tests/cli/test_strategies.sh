#!/bin/sh
# The commands of docs/strategies.md print the output shown below them, and its tables agree with the program.
. "$(dirname "$0")/support.sh"

document=$root/docs/strategies.md
PATH=$build:$PATH

# Writes each block of a command and its output to a separate file.
awk -v folder="$folder" '
    /^    \$ brigade / { file = folder "/block-" ++count; print substr($0, 7) >file; next }
    /^    / && file != "" { print substr($0, 5) >file; next }
    { file = "" }' "$document"

blocks=0
for block in "$folder"/block-*; do
    blocks=$((blocks + 1))
    command=$(head -n 1 "$block")
    eval "$command" >"$folder/out" 2>&1
    # Bytes of transient memory depend on the processor.
    sed 's/ needs .*, its budget/ needs ..., its budget/; s/; most is.*//' "$folder/out" >"$folder/printed"
    tail -n +2 "$block" | sed 's/ needs .*, its budget/ needs ..., its budget/; s/; most is.*//' >"$folder/expected"
    while IFS= read -r line; do
        check "$command prints: $line" grep -q -x -F -e "$line" "$folder/printed"
    done <"$folder/expected"
    check "$command has output in the document" test -s "$folder/expected"
done
check "the document has nineteen blocks" test $blocks -eq 19

for schedule in sequential interleaved grouped; do
    stash=$(brigade plan mnist --schedule $schedule | awk '$1 == "bytes" { for (i = 2; i <= NF; i++) if ($i == "stash") at = i + 1 }
        $1 == "device" && at && $2 ~ /^[0-3]$/ && !seen[$2]++ { printf " | %s", $at }')
    check "the stash of $schedule:$stash" grep -q -F -e "| $schedule$stash |" "$document"
done
for how in '--recompute stage' '--recompute stage --recompute-order then'; do
    stash=$(brigade plan mnist --schedule grouped $how | awk '$1 == "bytes" { for (i = 2; i <= NF; i++) if ($i == "stash") at = i + 1 }
        $1 == "device" && at && $2 ~ /^[0-3]$/ && !seen[$2]++ { printf " | %s", $at }')
    check "the stash of $how:$stash" grep -q -F -e "| \`$how\`$stash |" "$document"
done
finish
