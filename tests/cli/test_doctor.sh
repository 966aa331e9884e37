#!/bin/sh
# brigade doctor describes the machine and reports bad settings, which this test makes.
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

# started WANTED VARIABLE=VALUE...: checks that the launcher is recognized by these variables; with BRIGADE_MPI=none no
# MPI is needed.
started() {
    wanted=$1
    shift
    env "$@" BRIGADE_MPI=none "$program" doctor --no-disk >out 2>err
    check "$*: $(grep '^Launcher' out)" grep -q -x "Launcher  *$wanted" out
}
begin_case launchers
for variable in $(env | sed -n 's/^\(OMPI_[A-Z_]*\|PMI_[A-Z_]*\|PMIX_[A-Z_]*\|SLURM_[A-Z_]*\)=.*/\1/p') BRIGADE_MPI; do
    unset "$variable"
done
alone='; each process runs alone (BRIGADE_MPI=none)'
started none A=b
started "Open MPI's mpirun$alone" OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 PMIX_RANK=1
started "MPICH's mpirun or PMI$alone" PMI_SIZE=2 PMI_RANK=0
started "MPICH's mpirun or PMI$alone" PMI_SIZE=2 PMI_RANK=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0
started "srun$alone" SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0
started "PMIx$alone" PMIX_RANK=0
started none OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 PMIX_RANK=0
started "MPICH's mpirun or PMI$alone" OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 PMI_SIZE=3 PMI_RANK=2
# Commands that use no ranks run only in the first process.
for variables in OMPI_COMM_WORLD_SIZE=2,OMPI_COMM_WORLD_RANK PMI_SIZE=2,PMI_RANK SLURM_STEP_NUM_TASKS=2,SLURM_PROCID PMIX_RANK; do
    for rank in 0 1; do
        env $(echo "$variables=$rank" | tr , ' ') "$program" schedule list >listed.$rank 2>err
    done
    check "$variables: the first process prints" test -s listed.0
    check "$variables: the second one does not" test ! -s listed.1
done
SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 error 2 'srun has started 2 processes without an interface to MPI: start them with srun --mpi=pmix' mnist
SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 BRIGADE_MPI=lam error 2 'BRIGADE_MPI is `lam`; it must be openmpi, mpich or none' mnist

finish
