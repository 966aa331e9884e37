#!/bin/sh
# `brigade schedule`: timetables, comparison, verification, times and conversion. The test takes the names of schedules
# from the program's list, so that a new schedule needs no line here.
. "$(dirname "$0")/support.sh"

cd "$folder" || exit 1
run() {
    "$program" schedule "$@" >out 2>err
    code=$?
}

# prints WORDS ARGUMENT...: checks that the command succeeds and prints a line with the words.
prints() {
    prints_words=$1
    shift
    run "$@"
    check "$*: $(cat err)" test $code -eq 0
    check "$* prints $prints_words: $(cat out)" grep -q -F -e "$prints_words" out
}

# ---- show ----

prints 'dev2 .  .  F0 .  F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 .  B7 .  .' show interleaved
prints 'makespan 33, idle 27.3 %; 48 messages a step' show interleaved
prints 'micro-batches kept, by device: 4 3 2 1' show interleaved
# Schedules also have the names of other systems. With --separate-loss, grouped has TensorFlow's timetable of M + 2 N -
# 1 steps.
prints 'makespan 33, idle 27.3 %; 48 messages a step' show 1F1B
prints 'dev3 .    .    .    F0   F1B0 F2B1 F3B2 F4B3 F5B4 F6B5 F7B6 B7   .    .    .' show Grouped --separate-loss
prints 'micro-batches kept, by device: 8 6 4 2' show grouped --separate-loss
prints 'makespan 49, idle 2.0 %' show interleavedzerobubble --stages 4
prints 'Interleaved1F1B        looped' --help
# `auto` chooses a schedule that is as fast as grouped and stashes less.
prints 'micro-batches kept, by device: 4 3 2 1' show auto
prints 'messages a step, 49152 bytes' show interleaved --message 1K
prints 'by device: 4 3 2 1; at most 4194304 bytes' show interleaved --stash 1M
prints 'dev1 .  F0 F1' show interleaved --inference --stages 2 --micro-batches 2
prints '2 stages on 2 devices, 2 micro-batches, inference' show interleaved --inference --stages 2 --micro-batches 2
prints '2 stages on 1 device, 8' show single --stages 2
prints 'dev0 F0.0 F1.0' show sequential --stages 4 --devices 2
prints '3 stages on 1 device, 8 micro-batches, inference' show single --stages 3 --inference
# Device 1 starts at 2.5 and computes for 4 x 2. Its last message arrives at 11, and then B1 and the update follow.
prints 'makespan 16,' show interleaved --stages 2 --micro-batches 2 --forward 2 --transfer 0.5 --update 3
# Each stage has a cost; the second stage takes longer.
prints 'makespan 17,' show sequential --stages 2 --micro-batches 1 --forward 1,10 --backward 1,1 --weights 1,3
prints 'dev1 ..F0B0--F1B1--..' show interleaved --timed --stages 2 --micro-batches 2
prints 'dev0 F0F1....B0--..B1--' show interleaved --timed --stages 2 --micro-batches 2
run show interleaved --timed --columns 30 --micro-batches 40
check "the timed picture keeps within its columns" test "$(grep '^dev' out | awk '{ print length($0) }' | sort -n | tail -n 1)" -le 30

# ---- large timetables ----

# 2.2 million actions and 432 million cells, of which the middle is left out. The limits are far above the required time
# and memory.
if [ -z "${BRIGADE_TEST_QUICK:-}" ]; then
    (
        ulimit -v 300000
        ulimit -t 15
        "$program" schedule show sharded --stages 600 --micro-batches 600 >large
    )
    check "a large schedule takes little memory and time" test $? -eq 0
    check "its first steps are there" sh -c 'sed -n 4p large | grep -q "^dev1   [.] *F0 "'
    check "and its last ones" sh -c 'sed -n 3p large | grep -q " B599$"'
    check "between them there is a gap in every line" test "$(head -n 602 large | grep -c ' [.][.][.] ')" -eq 601
    check "which is said" grep -q '^Steps [0-9]* to [0-9]* are omitted because the timetable would be too large[.]$' large
    check "the measures follow" grep -q '^makespan 1.08e+06, idle 99.8 %; 718800 messages a step$' large
    rm -f large
else
    skipped=$((skipped + 6))
fi

# ---- colors ----

escape=$(printf '\033')
run show interleaved
check "no colors in a file" test "$(grep -c "$escape" out)" -eq 0
run show interleaved --color always
check "colors when asked for" grep -q "${escape}\[38;5;231;48;5;25mF0${escape}\[0m" out
sed "s/${escape}\[[0-9;]*m//g" out >plain
run show interleaved
check "colors change no letter" cmp -s plain out
run show interleaved --timed --color always
check "colors to scale" grep -q "${escape}\[38;5;231;48;5;25mF0" out
NO_COLOR=1 "$program" schedule show interleaved --color always >out
check "an option is stronger than NO_COLOR" grep -q "$escape" out
if script -qec true /dev/null >/dev/null 2>&1; then
    NO_COLOR='' TERM=xterm script -qec "$program schedule show interleaved" /dev/null >out 2>/dev/null </dev/null
    check "colors on a terminal" grep -q "$escape\[38" out
    NO_COLOR=1 TERM=xterm script -qec "$program schedule show interleaved" /dev/null >out 2>/dev/null </dev/null
    check "NO_COLOR: none on a terminal" test "$(grep -c "$escape\[38" out)" -eq 0
    TERM=xterm script -qec "$program schedule show interleaved --color never" /dev/null >out 2>/dev/null </dev/null
    check "never: none on a terminal" test "$(grep -c "$escape\[38" out)" -eq 0
else
    skipped=$((skipped + 3))
fi

# ---- list ----

run list --message 2K --stash 1M
check "list" test $code -eq 0
check "a line with costs" grep -q -E '^interleaved +4 +33 +27\.3 +4 +4194304 +48 +98304 +4$' out
"$program" schedule --help | sed -n '/^Schedules:/,/^$/p' | sed -n 's/^  \([a-z][a-z0-9-]*\) .*/\1/p' >names
check "the help names schedules" test "$(wc -l <names)" -ge 5
while read -r name; do
    check "list has $name" grep -q "^$name " out
done <names
prints 'interleaved  does not apply: interleaved schedule: stages 0 and 1 share device 0' list --devices 2
prints 'single       does not apply' list --devices 2

# ---- files, for every schedule that takes some number of stages and devices ----

while read -r name; do
    taken=0
    for stages in 4 8; do
        for devices in 1 4; do
            "$program" schedule show "$name" --stages $stages --devices $devices --to text >a.txt 2>/dev/null || continue
            taken=$((taken + 1))
            prints "a.txt is valid: $stages stages on $devices device$([ $devices = 1 ] || echo s), 8 micro-batches, training" \
                verify a.txt
            run convert a.txt --to csv
            cp out a.csv
            run convert a.csv --to text
            # CSV has no updates; the reader adds them at the end.
            sed 's/ U[0-9]*:0//g' a.txt >a.plain
            sed 's/ U[0-9]*:0//g' out >out.plain
            check "$name, $stages stages, $devices devices: through CSV and back" cmp -s a.plain out.plain
            run convert a.csv --to csv
            check "$name, $stages stages, $devices devices: CSV stays" cmp -s a.csv out
            [ -z "${BRIGADE_TEST_QUICK:-}" ] || break 2 # one problem is enough under a sanitizer
        done
    done
    check "$name takes some problem" test $taken -gt 0
done <names

"$program" schedule show interleaved --to text >i.txt
prints 'makespan 33, idle 27.3 %; 48 messages a step' simulate i.txt
prints 'makespan 44,' simulate i.txt --forward 2
prints 'valid' verify i.txt --stages 4 --micro-batches 8 --devices 4
error 1 '--stages is 3, but i.txt has 4' schedule verify i.txt --stages 3
error 1 '--micro-batches is 9, but i.txt has 8' schedule verify i.txt --micro-batches 9
error 1 '--devices is 2, but i.txt has 4' schedule simulate i.txt --devices 2
# A number that contradicts the file is refused even if it is the default without a file.
"$program" schedule show interleaved --stages 2 --micro-batches 2 --to text >two.txt
error 1 '--stages is 4, but two.txt has 2' schedule verify two.txt --stages 4
error 1 '--micro-batches is 8, but two.txt has 2' schedule verify two.txt --micro-batches 8
error 1 '--forward has 3 numbers for 4 stages; give one, or one for each' schedule simulate i.txt --forward 1,2,3

sed 's/ B0\.3//' i.txt >bad.txt
error 1 'bad.txt: device 0 lacks B0.3' schedule verify bad.txt
sed 's/F2\.0 /F9Q /' i.txt >bad.txt
error 1 "bad.txt:3:26: expected '.' and a micro-batch number, found Q" schedule verify bad.txt
printf '0F0,0F1\n0G0\n' >bad.csv
error 1 'bad.csv:2:2: expected F, B, I, W' schedule verify bad.csv
printf '0F0,1F0\0' >bad.csv
error 1 'bad.csv: byte 7 is zero' schedule verify bad.csv
: >empty
error 1 'empty:1:1: expected "device 0:"' schedule verify empty
error 1 'none: ' schedule verify none
error 1 '--svg: ' schedule show interleaved --svg none/x.svg

# PyTorch's runtime form: its messages are skipped, with a note.
printf '0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0\r\n1RECV_F0,1F0,1B0,1SEND_B0\r\n' >runtime.csv
run verify runtime.csv
check "the runtime form is read" grep -q -F 'runtime.csv is valid: 2 stages on 2 devices, 1 micro-batch, training' out
check "what is skipped is said" grep -q -F 'note: runtime.csv: 5 messages, gathers of weights and sums of gradients were skipped' err
prints '0F0,,,0B0' convert runtime.csv --to csv

# ---- SVG ----

run show grouped --svg a.svg --messages --transfer 0.25
check "the picture is printed and drawn: $(cat err)" test $code -eq 0 -a -s a.svg -a -s out
run show grouped --svg - --messages --transfer 0.25
check "on standard output: the same, and nothing else" cmp -s out a.svg
run simulate i.txt --svg i.svg
check "a file can be drawn" grep -q '>i.txt</title>' i.svg
if python3 -c 'import xml.etree' 2>/dev/null; then
    for picture in a.svg i.svg; do
        check "$picture is XML" python3 -c 'import sys, xml.etree.ElementTree as e; e.parse(sys.argv[1])' $picture
    done
else
    skipped=$((skipped + 2))
fi

# The diagrams in the documents are those that the program draws (`make pictures` updates them).
"$root/tools/draw_schedules.sh" "$program" "$folder/pictures"
for picture in "$root"/docs/schedules/*.svg; do
    check "docs/schedules/${picture##*/} is up to date" cmp -s "$picture" "$folder/pictures/${picture##*/}"
done
finish
