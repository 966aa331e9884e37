#!/bin/sh
# The program under MPI's launchers gives the same bits for any number of ranks and any layout. The test also covers
# settings on which ranks must agree, signals, and ranks that die. It uses each MPI of the build; ranks share the
# processors.
. "$(dirname "$0")/support.sh"

cd "$folder" || exit 1
# MPI keeps memory until the process ends.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
# Without these Open MPI starts no ranks as root.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset BRIGADE_MPI

# The first MPI runs all tests, and the other only those that depend on the MPI most: all with BRIGADE_TEST_ALL, and
# none with BRIGADE_TEST_QUICK, because both transports have the same source.
mpis= full=
for mpi in openmpi mpich; do
    if [ ! -f "$build/libbrigade_mpi_$mpi.so" ]; then
        echo "skipped: $mpi: the build has no transport for it (there was no mpicc.$mpi)"
    elif ! command -v mpirun.$mpi >/dev/null 2>&1; then
        echo "skipped: $mpi: there is no mpirun.$mpi"
    else
        mpis="$mpis $mpi"
        [ -n "$full" ] && [ -z "${BRIGADE_TEST_ALL:-}" ] || full="$full $mpi"
        continue
    fi
    skipped=$((skipped + 1))
done
[ -z "${BRIGADE_TEST_QUICK:-}" ] || mpis=$full

# in_full MPI: succeeds if this MPI runs all tests.
in_full() {
    case " $full " in *" $1 "*) true ;; *) false ;; esac
}

# launcher MPI: prints its command, which can start more ranks than processors.
launcher() {
    case $1 in
    openmpi) echo "mpirun.openmpi --oversubscribe" ;;
    mpich) echo "mpirun.mpich" ;;
    esac
}

# ranks MPI COUNT ARGUMENT...: runs the program in COUNT ranks for at most a minute, with output in out and err.
ranks() {
    command="$(launcher "$1") -n $2 $program"
    shift 2
    timeout 240 $command "$@" >out 2>err </dev/null
}

# two MPI 'FIRST' 'SECOND' ARGUMENT...: runs two ranks, each with additional arguments; results are in out, err and
# code.
two() {
    start=$(launcher "$1") first=$2 second=$3
    shift 3
    timeout 240 $start -n 1 "$program" "$@" $first : -n 1 "$program" "$@" $second >out 2>err </dev/null
    code=$?
}

# says NAME WORDS: checks that the run ended with an error without being killed, and that one rank printed one message
# with the words. Before MPI starts (each=uniq) all ranks may print it.
each=cat
says() {
    check "$1: fails" test "$code" -ne 0 -a "$code" -ne 124
    check "$1: says so: $(cat err)" grep -q -F -e "$2" err
    check "$1: says nothing else: $(cat err)" test "$(grep '^brigade' err | grep -v 'warning:\|stopped by signal' | $each | wc -l)" -eq 1
}

# trained CODE WHAT WANTED SAVED: checks that a run ended with 0, and that SAVED has the same weights as WANTED.
trained() {
    if [ "$1" -ne 0 ]; then fail "$2 ends with $1:" "$(cat err)"; else pass; fi
    check "$2 has the same weights" cmp "$3" "$4"
    rm -f "$4"
}

digits="mnist --data-dir data --cores 1 --quiet --batch-size 8 --gradient-accumulation 8 --device-iterations 2 --steps 6"
gpt="gpt pretrain --config tiny --cores 1 --quiet --set precision=float32 stochastic_rounding=false maximum=0.003"
gpt="$gpt warmup_proportion=0 n_samples=50"
make_digits 400 100

begin_case version
built=$("$program" --version | sed -n 's/^MPI: //p')
wanted=$(for library in "$build"/libbrigade_mpi_*.so; do
    [ -f "$library" ] && basename "$library" .so | sed 's/^libbrigade_mpi_//'
done | sort | tr '\n' ' ')
check "--version names them: $built" test "$(echo "$built" | tr ' ' '\n' | sort | tr '\n' ' ')" = "${wanted:-none }"

# ---- the same bits ----

begin_case digits
"$program" $digits --save whole 2>/dev/null >out
"$program" $digits --replicas 2 --save whole-replicas 2>/dev/null >out
for mpi in $mpis; do
    for count in $(in_full $mpi && echo 1 2) 3 4; do
        ranks $mpi $count $digits --save w
        trained $? "$mpi, $count ranks" whole w
    done
    check "$mpi: one rank prints" test "$(grep -c '^Testing' out)" -eq 1
    in_full $mpi || continue
    ranks $mpi 2 $digits --layout 1,0,1,0 --schedule zb-h1 --save w
    trained $? "$mpi, by list, another schedule" whole w
    ranks $mpi 3 $digits --schedule gpipe --offload weights,optimizer,activations --recompute stage --save w
    trained $? "$mpi, offload and recomputation" whole w
    ranks $mpi 2 $digits --strategy single --replicas 2 --layout 1,0 --save w
    trained $? "$mpi, replicas, by list" whole-replicas w
    ranks $mpi 4 $digits --replicas 2 --layout data,stage,tensor --save w
    trained $? "$mpi, replicas of a stage together" whole-replicas w
done

# Divides an update of 8 micro-batches in several ways into replicas, accumulation and ranks. The last batch of an epoch
# is smaller.
begin_case canonical
common="mnist --data-dir data --cores 1 --quiet --batch-size 4 --last-batch smaller --epochs 1 --canonical-reductions"
common="$common --device-iterations 2 --output-mode all"
"$program" $common --gradient-accumulation 8 --log whole.l --save whole-canonical 2>/dev/null >out
for mpi in $mpis; do
    for share in "2 4 2" "4 2 3" "8 1 4"; do
        set -- $share
        ranks $mpi $3 $common --replicas $1 --gradient-accumulation $2 --log l --save w
        trained $? "$mpi, $1 replicas, $3 ranks" whole-canonical w
        check "$mpi, $1 replicas: the same losses" test "$(grep -o '"loss":[^,]*' l)" = "$(grep -o '"loss":[^,]*' whole.l)"
        in_full $mpi || break
    done
done
"$program" $gpt --steps 4 --canonical-reductions --save-weights whole-canonical >out 2>&1
for share in "2 2" "4 1"; do
    set -- $share
    for mpi in $mpis; do
        in_full $mpi || continue
        ranks $mpi $2 $gpt --steps 4 --canonical-reductions --set data_parallel=$1 --save-weights w
        trained $? "$mpi, gpt, $1 replicas, $2 ranks" whole-canonical w
    done
done

# The model and the data are in files; each rank reads only the data that its devices need.
begin_case train
oracle=$root/tests/oracle/train
train="train $oracle/net.onnx --input x=$oracle/images.npy --target $oracle/labels.npy --normalize 0.4,0.3 --cores 1"
train="$train --batch-size 4 --gradient-accumulation 2 --epochs 2 --quiet"
validation="--validation x=$oracle/test.npz:images,target=$oracle/test.npz:labels"
"$program" $train $validation --log whole.l --save whole.onnx >out 2>&1
"$program" $train --replicas 2 --save whole-replicas.onnx >out 2>&1
for mpi in $mpis; do
    ranks $mpi 2 $train $validation --stages auto:2 --log l --save w.onnx
    trained $? "$mpi, two stages" whole.onnx w.onnx
    check "$mpi: the same losses" test "$(grep -o '"loss":[^,}]*' l)" = "$(grep -o '"loss":[^,}]*' whole.l)"
    in_full $mpi || continue
    ranks $mpi 3 $train $validation --stages auto:3 --save w.onnx
    trained $? "$mpi, three stages" whole.onnx w.onnx
    ranks $mpi 2 $train --replicas 2 --save w.onnx
    trained $? "$mpi, replicas" whole-replicas.onnx w.onnx
    two $mpi '--epochs 1' '--epochs 3' $train
    says "$mpi, other epochs" 'option epochs is `1` on rank 0 and `3` on rank 1'
    two $mpi "--target $oracle/labels.npy" "--target $oracle/images.npy" train "$oracle/net.onnx" --input "x=$oracle/images.npy"
    says "$mpi, another target" 'the label of a sample is uint8[8,8]'
done

begin_case gpt
"$program" $gpt --steps 4 --save whole.d --save-weights whole.s >out 2>&1
for mpi in $mpis; do
    for count in $(in_full $mpi && echo 2) 8; do
        rm -rf d$count
        ranks $mpi $count $gpt --steps 4 --save "d$count" --save-weights s
        trained $? "$mpi, gpt, $count ranks" whole.s s
        check "$mpi, gpt, $count ranks: the same checkpoint" "$program" checkpoint diff whole.d "d$count" >diff
    done
    in_full $mpi || continue
    rm -rf part
    ranks $mpi 2 $gpt --steps 2 --save part
    check "$mpi: a checkpoint of 2 ranks: $(cat err)" test -f part/checkpoint_train_step_2.safetensors
    ranks $mpi 3 $gpt --steps 4 --load part --save part --save-weights s --checkpoint-steps 1 --checkpoint-async
    trained $? "$mpi: 3 ranks resume what 2 have begun" whole.s s
    check "$mpi, resumed: the same checkpoint" "$program" checkpoint diff whole.d part >diff
    check "$mpi: each rank wrote a part, and the older ones are gone" test "$(ls part/*.part-* | wc -l)" -eq 3
    rm -rf one
    "$program" checkpoint convert part one --to checkpoint >out 2>err
    check "$mpi: parts as one file are that of one process: $(cat err)" cmp whole.d/checkpoint_train_step_4.safetensors \
        one/checkpoint_train_step_4.safetensors
done

# Files of remote buffers are resumed with another number of ranks, also from one process.
begin_case memmap
for mpi in $mpis; do
    rm -rf files
    ranks $mpi 3 $gpt --steps 1 --memmap-dir files
    check "$mpi: 3 ranks leave files: $(cat err)" test -f files/index
    in_full $mpi && "$program" $gpt --steps 2 --memmap-dir files >out 2>err
    ranks $mpi 2 $gpt --steps 4 --memmap-dir files --save-weights s
    trained $? "$mpi: 2 ranks go on from files" whole.s s
    "$program" $gpt --steps 4 --memmap-dir files --save-weights s >out 2>err
    trained $? "$mpi: one process has the same weights" whole.s s
    in_full $mpi || continue
    two $mpi '--memmap-dir files' '--memmap-dir others' $gpt --steps 6
    says "$mpi, directories" 'option memmap_dir is `files` on rank 0 and `others` on rank 1'
    store=$(ls files/*.store | tail -n 1)
    head -c 5000 "$store" >cut && mv cut "$store"
    ranks $mpi 2 $gpt --steps 6 --memmap-dir files
    code=$?
    says "$mpi, a store that is cut off" "$store is truncated"
done

# ---- errors ----

begin_case disagreement
for mpi in $mpis; do
    two $mpi '--schedule gpipe' '--schedule interleaved' $digits --save w
    says "$mpi, schedules" 'option schedule is `gpipe` on rank 0 and `interleaved` on rank 1'
    two $mpi '' '--steps 8' $digits --save w
    says "$mpi, numbers of steps" 'the ranks do not agree: option steps is `6` on rank 0 and `8` on rank 1'
    in_full $mpi || continue
    two $mpi '--steps 2' '--steps 3' $gpt
    says "$mpi, gpt, numbers of steps" 'option training.steps is `2` on rank 0 and `3` on rank 1'
    two $mpi '--optimizer adam' '--learning-rate 0.1' $digits
    says "$mpi, optimizers" 'option optimizer is `adam'
    two $mpi '' '--dtype bfloat16' $digits --save w
    says "$mpi, plans" 'the ranks do not agree'
    check "$mpi: nothing is saved" test ! -e w
done

begin_case layout
for mpi in $full; do
    ranks $mpi 2 $digits --layout 0,0,1,5 --save w
    code=$?
    says "$mpi, no such rank" 'layout `0,0,1,5`: entry 3 is not a rank from 0 to 1'
    ranks $mpi 2 $digits --layout 0,0,0,0 --save w
    code=$?
    says "$mpi, an idle rank" 'rank 1 gets no device'
done

begin_case data
for mpi in $mpis; do
    two $mpi '--data-dir data' '--data-dir nowhere' $digits --save w
    says "$mpi, no data on rank 1" 'train-images-idx3-ubyte.gz and its labels are not in any of: nowhere'
    in_full $mpi || continue
    two $mpi '--data-dir nowhere' '--data-dir data' $digits --save w
    says "$mpi, no data on rank 0" 'train-images-idx3-ubyte.gz and its labels are not in any of: nowhere'
done

begin_case output
for mpi in $mpis; do
    ranks $mpi 3 $digits --log log --save w
    check "$mpi: the first rank keeps a log" test "$(echo log*)" = log
    rm -f log w
    in_full $mpi || continue
    ranks $mpi 3 $digits --log 'log.%r.json' --save w
    check "$mpi: each rank keeps its own" test "$(echo log*)" = "log.0.json log.1.json log.2.json"
    for rank in 0 1 2; do
        check "$mpi: with a line an update" test "$(grep -c '"loss"' log.$rank.json)" -eq 6
    done
    rm -f log* w
    ranks $mpi 3 $digits --profile --profile-dir profile --save w
    for device in 0 1 2 3; do
        check "$mpi: the profile has device $device" grep -q "\"cat\":\"F\",\"pid\":0,\"tid\":$device," profile/trace.json
    done
    rm -rf profile w
    timeout 240 $(launcher $mpi) -n 2 "$program" $(echo "$digits" | sed s/--quiet//) --save w 2>err </dev/null | cat >out
    check "$mpi: what goes into a pipe has no controls: $(cat out)" test "$(tr -d '\n -~' <out | wc -c)" -eq 0
    check "$mpi: prints progress once: $(cat out)" test "$(grep -c 'it/s' out)" -ge 1
    rm -f w
done

begin_case which-mpi
each=uniq
for mpi in $mpis; do
    BRIGADE_MPI=lam ranks $mpi 2 $digits --save w
    code=$?
    says "$mpi, a wrong name" 'BRIGADE_MPI is `lam`; it must be openmpi, mpich or none'
    BRIGADE_MPI=none ranks $mpi 2 $digits --save w
    check "$mpi, none: each trains by itself" test "$? $(grep -c '^Testing' out)" = "0 2"
    rm -f w
done
# Under MPICH's launcher, Open MPI finds only one process, which is an error.
for mpi in $mpis; do
    [ $mpi = openmpi ] && continue
    case $mpis in *openmpi*) ;; *) continue ;; esac
    BRIGADE_MPI=openmpi ranks $mpi 2 $digits --save w
    code=$?
    says "Open MPI under MPICH's launcher" 'the launcher has started 2 processes, but MPI sees one'
done

each=cat
begin_case other-commands
"$program" schedule list >listed
for mpi in $mpis; do
    ranks $mpi 2 schedule list
    check "$mpi: prints once" cmp listed out
done

# ---- signals and deaths ----

# begin_training MPI COUNT ARGUMENT...: starts a long training run in the background, with each rank's process in
# pid.RANK, and waits for a checkpoint.
begin_training() {
    rm -rf checkpoint pid.*
    start=$(launcher "$1") count=$2
    shift 2
    timeout 240 $start -n "$count" sh -c 'echo $$ >"pid.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"; exec "$@"' rank \
        "$program" $digits --steps 1000000 --epochs 1000000 --checkpoint checkpoint --checkpoint-steps 4 --save stopped \
        "$@" >out 2>err </dev/null &
    mpirun=$!
    tries=0
    until ls checkpoint/*.safetensors >/dev/null 2>&1 || [ $tries -ge 600 ] || ! kill -0 $mpirun; do
        sleep 0.05
        tries=$((tries + 1))
    done
}

# all_gone: succeeds if all rank processes end within 10 seconds.
all_gone() {
    tries=0
    for pid in $(cat pid.*); do
        while [ -d "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null && [ $tries -lt 200 ]; do
            sleep 0.05
            tries=$((tries + 1))
        done
    done
    [ $tries -lt 200 ]
}

begin_case signals
for mpi in $mpis; do
    begin_training $mpi 3
    kill -TERM "$(cat pid.1)"
    wait $mpirun
    check "$mpi: TERM ends it with 143" test $? -eq 143
    check "$mpi: all ranks are gone" all_gone
    check "$mpi: says what to do: $(cat err)" grep -q 'saved; --resume continues from here$' err
    step=$(ls checkpoint | sed -n 's/^checkpoint_train_step_\([0-9]*\)\.safetensors$/\1/p' | sort -n | tail -n 1)
    "$program" $digits --steps "${step:-0}" --epochs 1000000 --save whole-stopped >out 2>err
    trained $? "$mpi: $step updates of one process and those that TERM ended" whole-stopped stopped
done

begin_case doctor
for mpi in $mpis; do
    timeout 240 $(launcher $mpi) -n 3 "$program" doctor --no-disk >out 2>err </dev/null
    check "$mpi: it ends well: $(cat err)" test $? -eq 0
    check "$mpi: how fast each rank is reached: $(cat out)" test "$(grep -c '^  rank 0 to [12] .* us, .* GB/s, the same host$' out)" -eq 2
    check "$mpi: one rank prints" test "$(grep -c '^Ranks          3, 3 on this host' out)" -eq 1
done

# Ranks are bound as by launchers, rank 0 to the second processor. Its worker must start and stay there.
begin_case binding
for mpi in $mpis; do
    if ! taskset -c 0 true 2>/dev/null || ! taskset -c 1 true 2>/dev/null; then
        echo "skipped: $mpi: this process may not use processors 0 and 1, or there is no taskset"
        skipped=$((skipped + 1))
        continue
    fi
    timeout 240 $(launcher $mpi) -n 2 sh -c 'exec taskset -c $((1 - ${OMPI_COMM_WORLD_RANK:-$PMI_RANK})) "$@"' rank \
        "$program" $(echo "$digits" | sed 's/--quiet/--debug/; s/--cores 1/--pinning compact/') >out 2>err </dev/null
    check "$mpi: it ends well: $(cat err)" test $? -eq 0
    check "$mpi: the worker is on the rank's processor: $(grep '^ *worker ' out)" \
        test "$(grep '^ *worker ' out)" = '  worker 0 on core 1'
done

# If one rank never creates its session, the other does not hang inside MPI.
begin_case late
for mpi in $mpis; do
    probe=$build/tests/cli/mpi_late.$mpi
    if [ ! -x "$probe" ]; then
        echo "skipped: late ranks with $mpi: not built (sanitizers)"
        skipped=$((skipped + 1))
        continue
    fi
    timeout 120 $(launcher $mpi) -n 2 "$probe" >out 2>err </dev/null
    check "$mpi: says who is late: $(cat out)" grep -q 'no sign of rank 1 for 1 s (wait_limit_s)$' out
    check "$mpi: within seconds: $(cat out)" grep -q '^after [1-5] s$' out
done

begin_case deaths
for mpi in $mpis; do
    begin_training $mpi 3
    kill -KILL "$(cat pid.2)"
    wait $mpirun 2>/dev/null
    check "$mpi: ends with an error" test $? -ne 0 -a $? -ne 124
    check "$mpi: no rank is left" all_gone
    rm -f stopped
done

# One rank exists but does not respond. The report says which rank and device wait and in which action, and names the
# silent rank, not another waiting rank. The waiting operation may be a checkpoint.
begin_case stopped
for mpi in $mpis; do
    begin_training $mpi 3 --wait-limit 2
    kill -STOP "$(cat pid.1)"
    wait $mpirun 2>/dev/null
    check "$mpi: ends with an error by itself" test $? -ne 0 -a $? -ne 124
    check "$mpi: names rank, device, action and peer: $(cat err)" grep -q -E \
        '^brigade mnist: no progress for [0-9.]+ s \(wait_limit_s\): rank [02] on host [^ ,]+, replica 0, device [0-3], [A-Z]+ .*no sign of rank 1 on host [^ ]+ (and .*)?meanwhile$|which waits too; no sign of rank 1|no sign of rank 1 (on host [^ ]+ )?for ' err
    check "$mpi: in one report: $(cat err)" test "$(grep '^brigade' err | grep -c -v 'warning:')" -eq 1
    check "$mpi: no rank is left" all_gone
    rm -f stopped
done
finish
