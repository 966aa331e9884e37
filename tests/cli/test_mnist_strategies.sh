#!/bin/sh
# `brigade mnist`: the same weights under every strategy, with offload, recomputation, sharding and clipped gradients.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/mnist.sh"

begin_case same-bits
train base --epochs 1
train again --epochs 1
same base again
for variant in '--strategy sharded' '--strategy sharded --strict --pinning compact' '--strategy single' '--schedule grouped' '--schedule Grouped --separate-loss' '--schedule ZB1P' '--schedule sequential' \
    '--stages B1,B2|B3,B4' '--device-mapping 0,1,1,0' '--cores 1' '--offload-optimizer' '--recompute stage' '--recompute 0.5 --recompute-order then' \
    '--strategy single --recompute checkpoints --checkpoint-blocks' \
    '--strategy phased --phase-liveness off_chip_after_each_phase --io-threads 1' '--strategy phased --offload none' \
    '--offload weights,accumulators,optimizer,activations --recompute stage' \
    '--offload-rule weights:layer3.*;weights,optimizer:layer4.* --offload-minimum 300 --io-threads 0' \
    '--loss-scaling 1024' '--partials bfloat16' '--profile' '--output-mode all' '--device-iterations 1'; do
    is_left_out && continue
    train variant --epochs 1 $variant
    same base variant
done

begin_case gradients
gradients='--accumulation mean-running --accumulator-type bfloat16 --clip-norm 0.5 --replica-reduction sum --replicas 2'
train clipped --epochs 1 --gradient-accumulation 4 --strategy single $gradients
train clipped-pipeline --epochs 1 --gradient-accumulation 4 $gradients
same clipped clipped-pipeline
check "gradients that are bounded and rounded give other weights" sh -c '! cmp -s base.safetensors clipped.safetensors'

begin_case pieces
train replicas --epochs 1 --replicas 2 --gradient-accumulation 4 --strategy sharded
train pieces --epochs 1 --replicas 2 --gradient-accumulation 4 --shard optimizer,accumulators --shard-minimum 1
train pieces2 --epochs 1 --replicas 2 --gradient-accumulation 4 --shard optimizer,accumulators,weights \
    --shard-minimum 1 --offload-rule 'weights:layer3.*'
train pieces3 --epochs 1 --replicas 2 --gradient-accumulation 4 --shard weights --shard-minimum 1 --offload weights
same replicas pieces
same replicas pieces2
same replicas pieces3
# The last test images run on one of the two replicas, which must not cause a warning about --shard.
check "sharding over two replicas has an effect" sh -c "! grep -q 'sharding over replicas' pieces2.err pieces3.err"
train whole --epochs 1 --steps 1 --shard weights --offload weights
check "over one replica it has none" test "$(grep -c 'warning: sharding over replicas has no effect' whole.err)" -eq 1
finish
