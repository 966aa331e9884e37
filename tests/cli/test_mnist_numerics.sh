#!/bin/sh
# `brigade mnist`: optimizers, number formats, rounding and seeds change the weights, in the same way under two
# strategies.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/mnist.sh"

train base --epochs 1

begin_case optimizers
for optimizer in rmsprop:centered,momentum=0.5 adamax:uncorrected lamb adagrad adadelta \
    sgd:momentum=0.9,combined,velocity_scaling=3; do
    is_left_out && continue
    train optimizer --epochs 1 --optimizer "$optimizer" --strategy single
    train optimizer-pipeline --epochs 1 --optimizer "$optimizer" --offload-optimizer
    same optimizer optimizer-pipeline
    check "$optimizer gives other weights" sh -c '! cmp -s base.safetensors optimizer.safetensors'
done

begin_case rate-schedule
train rated --epochs 1 --rate-schedule cosine:warmup=2,steps=12 --strategy single
train rated-pipeline --epochs 1 --rate-schedule cosine:warmup=2,steps=12
same rated rated-pipeline
check "a schedule gives other weights" sh -c '! cmp -s base.safetensors rated.safetensors'
train constant --epochs 1 --rate-schedule constant
same base constant

begin_case weight-type
train half --epochs 1 --weight-type bfloat16 --stochastic-rounding --replicas 2 --gradient-accumulation 4
train half-pieces --epochs 1 --weight-type bfloat16 --stochastic-rounding --replicas 2 --gradient-accumulation 4 \
    --strategy sharded --shard optimizer,accumulators --shard-minimum 1 --dtype float32
same half half-pieces
check "weights in bfloat16 take half the bytes" test "$(wc -c <half.safetensors)" -lt 183000
train half-nearest --epochs 1 --weight-type bfloat16 --replicas 2 --gradient-accumulation 4
check "rounding to nearest gives other weights" sh -c '! cmp -s half.safetensors half-nearest.safetensors'
train idle --epochs 1 --steps 1 --stochastic-rounding --optimizer sgd:momentum=0.9,velocity_scaling=3
check "rounding that nothing needs is said" grep -q 'warning: stochastic rounding has no effect' idle.err
check "and a scaling that nothing has" grep -q 'warning: velocity_scaling 3 is ignored' idle.err

begin_case other-seed
train other-seed --epochs 1 --seed 1
check "another seed gives other weights" sh -c '! cmp -s base.safetensors other-seed.safetensors'

begin_case other-order
train unshuffled --epochs 1 --no-shuffle
check "another order gives other weights" sh -c '! cmp -s base.safetensors unshuffled.safetensors'

begin_case partials
train bfloat16 --epochs 1 --dtype bfloat16
train float16 --epochs 1 --dtype float16 --weight-type float16 --stochastic-rounding --loss-scaling auto:256 \
    --accumulator-type float16 --accumulation mean-running --partials float16
train float16-single --epochs 1 --dtype float16 --weight-type float16 --stochastic-rounding --loss-scaling auto:256 \
    --accumulator-type float16 --accumulation mean-running --partials float16 --strategy single
same float16 float16-single
check "weights in float16" grep -q '"F16"' float16.safetensors
train partials --epochs 1 --dtype bfloat16 --partials bfloat16
train partials-single --epochs 1 --dtype bfloat16 --partials bfloat16 --strategy single
same partials partials-single
check "partial sums in bfloat16 give other weights" sh -c '! cmp -s bfloat16.safetensors partials.safetensors'
check "bfloat16 gives other weights of the same size" test \
    "$(wc -c <base.safetensors)" -eq "$(wc -c <bfloat16.safetensors)"

begin_case precision
train mixed --epochs 1 --precision bf16-mixed --strategy single
same bfloat16 mixed
train true --epochs 1 --precision bf16-true
check "weights in bfloat16 take half the bytes" test "$(wc -c <true.safetensors)" -lt 183000
check "a precision beside types of one's own is refused" sh -c "! '$program' mnist --precision 16-mixed --dtype float16 2>err"
check "and named: $(cat err)" grep -q 'precision is given with --dtype float16' err
finish
