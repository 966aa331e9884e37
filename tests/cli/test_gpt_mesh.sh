#!/bin/sh
# `brigade gpt` with tensor-parallel replicas, stages, and data-parallel copies.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/gpt.sh"

train base

# close NAME NAME: checks that losses and norms agree up to rounding.
close() {
    for key in loss grad_norm; do
        values "$1" $key >one.txt
        values "$2" $key >two.txt
        check "$1 and $2 have $key of the same size" awk 'NR == FNR { a[NR] = $1; next }
            { d = $1 - a[FNR]; n++; if (d < 0) d = -d; if (d > 1e-5 * a[FNR]) bad = 1 } END { exit bad || n != 6 }' \
            one.txt two.txt
    done
}

mesh='--set tensor_parallel_1=2 tensor_parallel_2=2'

begin_case mesh
train mesh $mesh
close base mesh
train wide --set tensor_parallel_1=1 tensor_parallel_2=4
close base wide
train meshsingle $mesh --strategy single --cores 1
train meshpipelined $mesh --strategy pipelined
train meshresident $mesh --offload none --shard none --recompute none
for other in meshsingle meshpipelined meshresident; do
    same mesh $other
done

begin_case mesh-schedules
# Trains with stages of layers, tensor-parallel and data-parallel replicas, under two schedules of a pipeline; with
# BRIGADE_TEST_ALL under all.
schedules='interleaved zb-v'
[ -n "${BRIGADE_TEST_ALL:-}" ] && schedules=$("$program" schedule list | awk 'NR > 1 && $1 != "phased" { print $1 }')
train meshdata $mesh data_parallel=2
for schedule in $schedules; do
    train "mesh-$schedule" $mesh data_parallel=2 --strategy pipelined --schedule "$schedule"
    same meshdata "mesh-$schedule"
done

begin_case mesh-pieces
train meshwhole $mesh data_parallel=2 --shard optimizer,accumulators,weights
train meshpieces $mesh data_parallel=2
same meshwhole meshpieces
# Two of the tensor-parallel replicas have the same activations, so each stores half of them.
for name in meshwhole meshpieces; do
    shard='--shard optimizer,accumulators,weights'
    [ $name = meshpieces ] && shard=
    "$program" gpt pretrain $small $mesh data_parallel=2 $shard --compile-only >$name.out
done
check "stores that keep a piece of activations are smaller" test \
    "$(awk '/^device 0 keeps/ { print $NF }' meshpieces.out)" -lt "$(awk '/^device 0 keeps/ { print $NF }' meshwhole.out)"

begin_case other-mesh
train crossed $mesh --steps 3 --checkpoint-steps 1
train crossed --set tensor_parallel_1=4 --steps 6 --load crossed
close base crossed
finish
