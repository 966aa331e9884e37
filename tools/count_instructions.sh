#!/usr/bin/env bash
# Checks the speed of kernels without a clock: counts the instructions of each case of bench/instructions.txt under
# valgrind, with the kernels for AVX2 and the portable ones, and compares them with the recorded numbers. The counts do
# not depend on the machine or on its load. They depend on the compiler, so counts of another compiler are not compared.
# valgrind does not support AVX-512. On a processor that has it, the script times the AVX-512 and the AVX2 kernels
# alternately; the AVX-512 kernels must not be slower.
#
#   tools/count_instructions.sh [BUILD]           needs $(BUILD)/bench/ops; also: make check-speed
#   tools/count_instructions.sh --record [BUILD]  writes the counts into bench/instructions.txt
#
# Ends with "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C LD_BIND_NOW=1
table=bench/instructions.txt
tolerance=3  # percent
slowest=0.75 # of AVX2's speed, by the median of turns, for AVX-512
record=
[ "${1:-}" = --record ] && record=1 && shift
build=${1:-${BUILD:-build}}
program=$build/bench/ops
sets="avx2 portable"
passed=0 failed=0 skipped=0

finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
    exit
}
skip() {
    echo "skipped: $1"
    skipped=$((skipped + 1))
}

[ -x "$program" ] || { echo "count_instructions.sh: $program does not exist; run make $program" >&2 && exit 1; }
command -v valgrind >/dev/null 2>&1 || { skip "there is no valgrind" && finish; }
grep -qw avx2 /proc/cpuinfo 2>/dev/null || sets=portable
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
# The description of the compiler that is recorded in a program.
compiler=$(readelf -p .comment "$program" | sed -n 's/^ *\[ *[0-9a-f]*\] *//p' | paste -s -d ';')
recorded=$(sed -n 's/^# compiler: //p' "$table")
grep -v '^#' "$table" | sed 's/ *|.*//' >"$folder/cases"

# count SET: writes a line for each case with its instructions into $folder/SET, and the names of its kernels into
# names.SET.
count() {
    valgrind --tool=callgrind --toggle-collect=run_counted --dump-after=run_counted --dump-line=no \
        --callgrind-out-file="$folder/dump.$1" "$program" --count "$1" <"$folder/cases" >"$folder/names.$1" 2>"$folder/log.$1" ||
        return 1
    seq "$(wc -l <"$folder/cases")" | while read -r i; do
        sed -n 's/^totals: //p' "$folder/dump.$1.$i"
    done >"$folder/$1"
    [ "$(grep -c '^[1-9]' "$folder/$1")" -eq "$(wc -l <"$folder/cases")" ]
}

jobs_of=()
for set in $sets; do
    count "$set" &
    jobs_of+=($!)
done
for job in "${jobs_of[@]}"; do
    wait "$job" && continue
    tail -n 20 "$folder"/log.*
    failed=$((failed + 1))
done
[ "$failed" -eq 0 ] || finish

if [ -n "$record" ]; then
    [ "$sets" = "avx2 portable" ] || { echo "count_instructions.sh: recording needs a processor with AVX2" >&2 && exit 1; }
    {
        sed -n '/^#/p' "$table" | sed "s/^# compiler: .*/# compiler: $compiler/"
        paste -d ' ' "$folder/cases" "$folder/avx2" "$folder/portable" |
            awk '{ p = $NF; a = $(NF - 1); NF -= 2; printf "%-38s | %10d %10d\n", $0, a, p }'
    } >"$folder/table" && cp "$folder/table" "$table" && echo "$table: recorded"
    exit
fi

# Each family of kernels must have a case, which must run the intended kernels.
families=$(cd src/kernels && ls -d */fast_body.h | cut -d / -f 1)
for set in $sets; do
    missing=$(tr ' ' '\n' <"$folder/names.$set" | sed -n "s/\\.$set\$//p" | sort -u >"$folder/kernels"
        awk -v families="$families" '
            NR == FNR { counted[$1] = 1; next }
            /^\/\* ---- / { family = $3 }
            match($0, /^BGI_FAST_KERNEL\([A-Z0-9_]+, [a-z0-9_]+/) { split(substr($0, RSTART, RLENGTH), part, ", "); if (part[2] in counted) has[family] = 1 }
            END { n = split(families, name, "\n"); for (i = 1; i <= n; i++) if (!(name[i] in has)) print name[i] }' \
            "$folder/kernels" src/kernels/kernels.def)
    [ -z "$missing" ] && passed=$((passed + 1)) && continue
    failed=$((failed + 1))
    echo "FAILED  $set: families without a case in $table:" $missing
done

if [ "$compiler" != "$recorded" ]; then
    skip "the counts were recorded with $recorded; this is $compiler"
else
    for set in $sets; do
        column=$([ "$set" = avx2 ] && echo 1 || echo 2)
        grep -v '^#' "$table" | sed 's/.*| *//' | awk -v c="$column" '{ print $c + 0 }' >"$folder/was"
        awk -v set="$set" -v t="$tolerance" '
            FILENAME == ARGV[1] { name[++cases] = $0; next }
            FILENAME == ARGV[2] { was[++n] = $1; next }
            { i = FNR; change = was[i] > 0 ? 100 * ($1 / was[i] - 1) : 100
              if (change > t || change < -t)
                  printf "FAILED  %s, %s: %d instructions, %+.1f %% of the %d recorded%s\n", name[i], set, $1, change, was[i], change < 0 ? ": record the better ones (--record)" : ""
              else good++ }
            END { print good + 0 >"/dev/stderr" }' "$folder/cases" "$folder/was" "$folder/$set" 2>"$folder/good" >"$folder/bad"
        cat "$folder/bad"
        passed=$((passed + $(cat "$folder/good")))
        failed=$((failed + $(wc -l <"$folder/bad")))
    done
fi

# The median of the turns may still be wrong on a busy machine, so slow cases are timed again.
if grep -qw avx512vl /proc/cpuinfo 2>/dev/null; then
    cp "$folder/cases" "$folder/slow"
    for _ in 1 2 3; do
        "$program" --turns <"$folder/slow" >"$folder/ratios" || exit 1
        paste -d '|' "$folder/ratios" "$folder/slow" | awk -F '|' -v least="$slowest" '$1 < least' >"$folder/late"
        cut -d '|' -f 2 "$folder/late" >"$folder/slow"
        [ -s "$folder/slow" ] || break
    done
    sed 's/^\([^|]*\)|\(.*\)/FAILED  \2: the AVX-512 kernels have \1 of the speed of the AVX2 ones/' "$folder/late"
    slow=$(wc -l <"$folder/late")
    failed=$((failed + slow)) passed=$((passed + $(wc -l <"$folder/cases") - slow))
else
    skip "this processor has no AVX-512"
fi
finish
