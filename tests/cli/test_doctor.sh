#!/bin/sh
# brigade doctor: the description of the machine, and findings for settings that this test makes bad.
. "$(dirname "$0")/support.sh"
cd "$folder" || exit 1

begin_case machine
"$program" doctor --dir . >out 2>err
check "it ends well: $(cat err)" test $? -eq 0
for line in Processors Instructions Caches Memory 'Huge pages' MPI Disk; do
    check "it says $line" grep -q "^$line" out
done
check "how many processors it may use" grep -q "use $(nproc)\$" out
check "how fast the disk is" grep -q 'writes [0-9.e+]* MB/s, reads [0-9.e+]* MB/s' out
check "no line is too long: $(awk 'length($0) > 120' out)" test "$(wc -L <out)" -le 120
check "nothing is left" test "$(ls)" = "err
out"
"$program" doctor --no-disk --json >json 2>err
check "JSON: $(cat json)" grep -q '^{"machine":{"processor":.*"findings":\[' json
check "without the disk" sh -c '! grep -q "\"disk\"" json'

begin_case findings
OMP_NUM_THREADS=100000 "$program" doctor --no-disk >out
check "threads of a BLAS" grep -q 'OMP_NUM_THREADS is 100000' out
check "with a remedy" grep -q 'export OMP_NUM_THREADS=1' out
(ulimit -n 100 && "$program" doctor --no-disk >out)
check "few files" grep -q 'may open 100 files' out
(ulimit -f 1000000 && "$program" doctor --no-disk --json >json)
check "small files" grep -q '"subject":"limits","text":"A file may have at most' json
error 1 'no-such-folder' doctor --dir no-such-folder
error 2 'brigade doctor: ' doctor --no-such-option

finish
