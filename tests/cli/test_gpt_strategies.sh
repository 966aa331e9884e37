#!/bin/sh
# `brigade gpt` gives the same bits under every strategy, with options from a file, with less memory, and with cached
# plans.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/gpt.sh"

train base

begin_case strategies
train single --strategy single
train pipelined --strategy pipelined
train schedule --strategy pipelined --schedule zb-h1 --stages auto:3
train stages --strategy pipelined --schedule grouped --stages 'Embedding,Layer-0|Layer-1,Head'
train sharded --strategy sharded --cores 1
train strict --strategy sharded --strict --pinning spread
train parallel --phases parallel
train resident --offload none --shard none --recompute none
train liveness --phase-liveness always_live --recompute-order then --io-threads 0
train serialized --set attention_serialization=1
train scaled --set loss_scaling=4096
for other in single pipelined schedule stages sharded strict parallel resident liveness serialized scaled; do
    same base $other
done

begin_case trace
train traced --phases parallel --trace trace.json
same base traced
# In the trace a replica is a process, and a device is a thread. Layers are on two devices, each with reductions and
# backward actions.
for kind in REDUCE B; do
    for place in '"pid":0,"tid":0' '"pid":0,"tid":1' '"pid":1,"tid":0' '"pid":1,"tid":1'; do
        check "$kind of $place" grep -q "\"cat\":\"$kind\",$place" trace.json
    done
done

begin_case options
# Passes options by name in a file, and others directly to the library in BRIGADE_OPTIONS.
printf 'setExecutionStrategy(pipelined)\nschedule grouped\nseed 42\nplace_weights device\nmatmul_proportions 0.01\n' >run.txt
BRIGADE_OPTIONS='cores=1 seed=7' train byoptions --options run.txt --seed 3
same base byoptions
printf 'seed 1\nsteps 3\nreplicas x\n' >wrong.txt
error 2 'wrong.txt:2: there is no option `steps`' gpt pretrain --options wrong.txt
error 2 'wrong.txt:3: option `replicas` is `x`' gpt pretrain --options wrong.txt
error 2 'none.txt' gpt pretrain --options none.txt
echo 'seed 9007199254740993' >seed.txt # one more than a double holds
"$program" gpt pretrain $one --steps 1 --options seed.txt >seed.out 2>&1
check "a seed is what was given" grep -q '^  seed: 9007199254740993$' seed.out
for refused in 'replicas 2:data_parallel=2' 'gradient_accumulation 2:global_batch_size=64' 'output_mode all:every loss' \
    'total_devices 4:give replicas' 'device_iterations 0:execution.device_iterations is 0' 'io_threads 99:io_threads is 99' \
    'seed 18446744073709551615:model.seed is' 'schedule gpipe:--strategy phased' 'max_gradient_norm -1:gradient_clipping is -1'; do
    echo "${refused%%:*}" >wrong.txt
    error 2 "${refused#*:}" gpt pretrain $one --options wrong.txt
done

begin_case memory-share
train proportion --matmul-proportion 0.001
same base proportion
# The same share under the configuration's name gives other plans and the same bits.
train memory --set 'available_memory_proportion=[0.001]'
same base memory
for share in --steps=6 '--set=available_memory_proportion=[0.001]' '--matmul-proportion=0.001'; do
    "$program" gpt pretrain $one precision=float32 hidden_size=512 vocab_size=1000 micro_batch_size=16 data_parallel=1 \
        "${share%%=*}" "${share#*=}" --compile-only --quiet | awk '/^device 0/ { print $7 }'
done >shares.txt
check "less scratch" test "$(sed -n 2p shares.txt)" -lt "$(sed -n 1p shares.txt)"
check "as with --matmul-proportion" test "$(sed -n 2p shares.txt)" = "$(sed -n 3p shares.txt)"

begin_case cache
train cached --cache-dir plans --log-dir notes
train fromcache --cache-dir plans --log-cycles
same base fromcache
check "the plan comes from the cache" grep -q '^Plan: loaded from cache in ' fromcache.out
check "the first one was compiled" grep -q '^Graph compilation: ' cached.out
check "a log of the compiler" grep -q ' info: plan: compiled in ' notes/brigade.log
check "each call's cycles" test "$(grep -c 'info: run took [0-9]* cycles$' fromcache.err)" -eq 6
"$program" gpt bench $one --compile-only --cache-dir plans >bench.out 2>&1
check "bench --compile-only runs nothing" sh -c 'grep -q "^Memory" bench.out && ! grep -q "^Step" bench.out'
finish
