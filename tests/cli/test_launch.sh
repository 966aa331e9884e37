#!/bin/sh
# brigade launch restarts failed ranks from their last checkpoint on the available hosts; a signal ends them with a
# checkpoint in time. A script replaces the launcher: it runs the command once, as one process.
. "$(dirname "$0")/support.sh"
make_digits 320 80
cd "$folder" || exit 1
common="--data-dir data --batch-size 4 --gradient-accumulation 2 --device-iterations 1 --optimizer adamw --cores 1 --quiet"

# The launcher writes its arguments to `asked`, and fails as long as `failures` has lines.
cat >fake <<'END'
#!/bin/sh
echo "$*" >>asked
while [ "${1#-}" != "$1" ]; do
    case $1 in
    -n | --host | -hosts | -w) shift 2 ;;
    *) shift ;;
    esac
done
[ -s failures ] && { sed -i 1d failures; "$@" --steps 3 >/dev/null; exit 1; }
exec "$@"
END
chmod +x fake
"$program" mnist $common --steps 6 --save whole >out 2>err || fail "$(cat err)"

# launch OPTION... -- OPTION...: options of `brigade launch`, then of training.
launch() {
    rm -f asked
    "$program" launch --launcher ./fake --delay 0 --log log "$@" >out 2>err
}

begin_case restarts
printf 'a\nb\n' >failures
launch --ranks 2 --restart-on-failure 3 -- "$program" mnist $common --steps 6 --checkpoint c --save on
check "it ends well: $(cat err)" test $? -eq 0
check "with the bits of a run without failures" cmp whole on
check "it was started three times" test "$(wc -l <asked)" -eq 3
check "at first as it is" sh -c '! head -n 1 asked | grep -q -e --resume'
check "then from the checkpoint" test "$(grep -c -e '--resume$' asked)" -eq 2
check "the log says so" grep -q 'Z start 2: 2 ranks, from the checkpoint of update 3$' log
check "and how each start ended" test "$(grep -c 'ended after [0-9.]* s with exit code' log)" -eq 3

printf 'a\n' >failures
rm -rf c
launch --ranks 2 --restart-on-failure 1 -- "$program" mnist $common --init whole --steps 6 --checkpoint c --save on
check "weights that it began with are not given again: $(cat err)" test "$(grep -c -e '--init' asked)" -eq 1
check "and it ends well: $(ls c)" test -f c/checkpoint_train_step_6.safetensors
printf 'a\n' >failures
rm -rf c
launch --ranks 2 --restart-on-failure 1 -- "$program" mnist $common --init=whole --steps 6 --checkpoint old --checkpoint=c
check "with an equals sign neither: $(cat err)" test "$(grep -c -e '--init' asked)" -eq 1
check "and the last folder counts: $(ls c)" test -f c/checkpoint_train_step_6.safetensors

# The program is a script that fails at once, so no model is trained; the folder already has a checkpoint.
mkdir -p bin g
cat >bin/brigade <<'END'
#!/bin/sh
exit 1
END
chmod +x bin/brigade
cp c/checkpoint_train_step_6.safetensors g
: >failures
for spelling in "--hf-model test" --hf-model=test "--hf_model test" --hf_model=test; do
    launch --restart-on-failure 1 -- ./bin/brigade gpt pretrain $spelling --save=g --steps 3
    check "$spelling is given once: $(cat asked)" test "$(grep -c -e '--hf.model' asked)" -eq 1
    check "and then the checkpoint" sh -c 'tail -n 1 asked | grep -q -e "--save=g --steps 3 --load g$"'
done

# A launcher that keeps running after its rank was killed is ended, even if it ignores signals, and the rank is
# restarted.
begin_case stays
cat >stays <<'END'
#!/bin/sh
shift 2
[ -s failures ] || exec "$@"
sed -i 1d failures
echo $$ >stays.pid
trap '[ -e killed ] && touch asked.to.end' TERM
"$@" >/dev/null 2>&1 &
until ls s/*.safetensors >/dev/null 2>&1; do sleep 0.05; done
sleep 1
touch killed
kill -KILL $!
while :; do sleep 0.1; done
END
chmod +x stays
printf 'a\n' >failures
: >stays.log
"$program" launch --launcher ./stays --delay 0 --ranks 1 --launcher-limit 1 --restart-on-failure 1 --log stays.log -- \
    "$program" mnist $common --checkpoint s --checkpoint-steps 1 --epochs 1000000 >out 2>err &
pid=$!
tries=0
until [ "$(grep -c ' start ' stays.log 2>/dev/null)" -ge 3 ] || [ $tries -ge 600 ]; do # two starts, and an end
    sleep 0.1
    tries=$((tries + 1))
done
check "it was ended: $(cat err)" grep -q 'stays still runs 1 s after its last rank on this host, so it is ended now$' stays.log
check "after it was asked to, not before its rank was gone" test -e asked.to.end
check "with its processes" sh -c '! kill -0 "$(cat stays.pid)" 2>/dev/null'
check "and the ranks began again" grep -q ' start 2: 1 rank, from the checkpoint of update ' stays.log
sleep 1.5 # the second start is not a descendant of the launcher, so launch does not know about it
check "a launcher without ranks on this host is left alone" test "$(grep -c 'still runs' stays.log)" -eq 1
kill -TERM $pid
wait $pid
check "TERM ends it with 143: $(cat err)" test $? -eq 143

begin_case limits
printf 'a\nb\nc\n' >failures
rm -rf c
launch --restart-on-failure 1 -- "$program" mnist $common --steps 6 --checkpoint c
check "the exit code is the last one's" test $? -eq 1
check "no restart is left" grep -q 'no restart is left: --restart-on-failure is 1' err
: >failures
launch --restart-on-failure 5 -- "$program" mnist $common --steps 6 --checkpoint c --no-such-option
check "a mistake in the command line ends it" test $? -eq 2
check "at once" test "$(wc -l <asked)" -eq 1
: >failures
launch --restart-on-failure 5 -- "$program" mnist $common --steps 12 --learning-rate 1e15 --checkpoint r --checkpoint-steps 1
check "a refused update ends it" test $? -eq 1
check "at once: it would be refused again" test "$(wc -l <asked)" -eq 1
check "it says so: $(cat err)" grep -q 'update [0-9]* was refused, and a restart would refuse it again, so there is no restart; `sh r/refused-[0-9]*/replay.sh`' err
cp fake mpirun.fake
error 2 'the command `./no-such` is not an executable file; give the path of a program' launch --launcher ./mpirun.fake -- ./no-such a
error 2 'the command `c` is not in a folder of PATH; give the path' launch --launcher ./mpirun.fake -- c
error 2 'the command begins with the option `-x`; after `--` comes a program' launch --launcher ./mpirun.fake -- -x A=1 "$program" mnist
launch --launcher ./mpirun.fake --hosts elsewhere:1 -- ./no-such
check "a program on other hosts is not looked for here: $(cat err)" grep -q -e '--host elsewhere:1 ./no-such$' asked
error 2 'no command is given; it comes after `--`' launch --ranks 2
error 2 'the command writes no checkpoints to resume from; add --checkpoint DIR' launch --restart-on-failure 1 -- "$program" mnist
error 2 'it must be names with numbers of ranks' launch --hosts a:0 -- "$program" mnist
error 2 '--min-ranks 3 must be at most the number of ranks, 2' launch --ranks 2 --min-ranks 3 -- "$program" mnist
error 1 'no-such-launcher: cannot be started' launch --launcher ./no-such-launcher -- "$program" mnist

begin_case hosts
printf 'a\nb\n' >failures
rm -rf c
touch up.one up.two
sed -i '/^\[ -s failures/i rm -f up.two' fake
launch --hosts one:2,two:3 --min-ranks 2 --restart-on-failure 3 --probe 'test -e up.{}' -- \
    "$program" mnist $common --steps 6 --checkpoint c --save on
check "it ends well: $(cat err)" test $? -eq 0
check "with the same bits" cmp whole on
check "all hosts at first" test "$(head -n 1 asked | cut -d' ' -f1-4)" = "-n 5 --host one:2,two:3"
check "those that are there later" test "$(tail -n 1 asked | cut -d' ' -f1-4)" = "-n 2 --host one:2"
check "the log says who is gone" grep -q 'host two is gone$' log
printf 'a\nb\n' >failures
rm -rf c
touch up.two
launch --hosts one:2,two:3 --min-ranks 4 --restart-on-failure 3 --probe 'test -e up.{}' -- \
    "$program" mnist $common --steps 6 --checkpoint c
check "too few are an error" test $? -eq 1
check "that says how many: $(cat err)" grep -q 'have slots for 2 ranks, fewer than the 4 that --min-ranks requires' err

# A signal ends the command with a checkpoint. A command that ignores the signal is killed after the grace period.
begin_case preemption
: >failures
rm -rf c
"$program" launch --launcher ./fake --log log --grace 60 --restart-on-failure 3 -- "$program" mnist $common \
    --epochs 1000000 --checkpoint c --checkpoint-steps 50 >out 2>err &
pid=$!
tries=0
until [ -n "$(ls c 2>/dev/null)" ] || [ $tries -ge 1200 ]; do
    sleep 0.05
    tries=$((tries + 1))
done
kill -TERM $pid
wait $pid
check "TERM ends it with 143: $(cat err)" test $? -eq 143
check "in time" grep -q 'ended in time with exit code 143' log
check "with a checkpoint" grep -q 'saved; --resume continues from here$' err
cat >deaf <<'END'
#!/bin/sh
trap '' TERM
while :; do sleep 0.1; done
END
chmod +x deaf
"$program" launch --launcher ./fake --log log --grace 1 -- ./deaf >out 2>err &
pid=$!
await_handler $pid
kill -TERM $pid
wait $pid
check "what does not end is killed" test $? -eq 137
check "and said" grep -q 'did not end within 1 s and were killed' log

finish
