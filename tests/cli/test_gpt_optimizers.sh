#!/bin/sh
# `brigade gpt`: every optimizer and each setting has an effect, which is the same under two strategies.
. "$(dirname "$0")/support.sh"
. "$(dirname "$0")/gpt.sh"

begin_case rules
for rule in adadelta sgd; do
    optimizer="training.optimizer.name=$rule"
    [ "$rule" = sgd ] && optimizer="$optimizer training.optimizer.momentum=0.9 training.optimizer.combined=true"
    train $rule --set $optimizer
    train ${rule}pipelined --set $optimizer --strategy pipelined
    same $rule ${rule}pipelined
done
train lamb --set training.optimizer.name=lamb
train lambpipelined --set training.optimizer.name=lamb --strategy pipelined
same lamb lambpipelined

begin_case weight-decay
# With nearly zero gradients, weights only decay; biases and the weights of norms do not change.
train decay --set training.optimizer.name=sgd constant=true weight_decay=0.5 gradient_clipping=1e-30
check "norms do not decay" test "$(od -An -v -tx4 decay.safetensors | tr ' ' '\n' | grep -c '^3f800000$')" -eq 320

begin_case settings
# Every optimizer, number and flag gives different weights.
trained=0
for variant in adamw 'adamw beta1=0.5' rmsprop 'rmsprop momentum=0.9' lamb 'adamw beta2=0.9' 'adamw epsilon=0.01' \
    'adamw weight_decay=0.5' 'adamw gradient_clipping=0.1' 'adamw gradient_clipping=0' 'adamw bias_correction=false' adam adamax \
    'lamb max_weight_norm=0.1' sgd 'sgd momentum=0.9' 'sgd momentum=0.9 dampening=0.5' 'sgd momentum=0.9 nesterov=true' \
    'rmsprop alpha=0.9' 'rmsprop centered=true' 'rmsprop tf_variant=true'; do
    [ -n "$quick" ] && [ $trained -eq 5 ] && break
    rm -rf variant
    train variant --set training.optimizer.name=$variant --strategy single
    cksum <variant.safetensors >>variants.txt
    trained=$((trained + 1))
done
check "$trained optimizers give $trained results" test "$(sort -u variants.txt | grep -c .)" -eq $trained
error 2 'training.optimizer.momentum is set, but adamw has no such setting; it belongs to sgd|rmsprop' gpt pretrain $one momentum=0.9
finish
