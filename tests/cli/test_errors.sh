#!/bin/sh
# Wrong command lines give the right exit code and one helpful line.
. "$(dirname "$0")/support.sh"

begin_case commands
# ---- the program ----

"$program" 2>"$folder/greeting" >"$folder/out"
check "no command is a mistake" test $? -eq 2
check "what to do next is said" grep -q 'brigade mnist  .*train' "$folder/greeting"
check "each command of the greeting exists" sh -c 'sed -n "s/^  brigade \([a-z]*\) .*/\1/p" "$1" | while read -r name; do
    "$2" --help | grep -q "^  $name " || exit 1; done' sh "$folder/greeting" "$program"
error 2 'did you mean `mnist`' mnits
error 2 '`brigade --help`' frobnicate-the-thing
error 2 'did you mean --epochs' mnist --epoch 3
error 2 'unknown option --zzzzzzzzzz' mnist --zzzzzzzzzz
error 2 'two dashes' mnist -e 3
error 2 'unexpected argument `extra`' mnist extra
error 2 '--epochs needs a value' mnist --epochs
for command in mnist train infer 'plan mnist' 'gpt pretrain' 'gpt eval' 'gpt generate'; do
    error 2 '--profile takes no value; it was given `DIR`; name the folder with --profile-dir' $command --profile=DIR
done
error 2 '--quiet takes no value; it was given `yes`' mnist --quiet=yes
error 2 'no model is given' plan
error 2 'unknown model `gtp`' plan gtp
error 2 'unknown kind of data `letters`; the commands are digits, bench and tokenize' data letters
error 2 'no command is given; the commands are digits, bench and tokenize' data
error 2 'no output is named' data digits
error 2 'no command is given; the commands are show, list' schedule
error 2 'unknown command `draw`; the commands are show, list' schedule draw
error 2 'show needs a NAME: brigade schedule show NAME' schedule show
error 2 'verify needs a FILE' schedule verify
error 2 'unexpected argument `grouped`; list takes only options' schedule list grouped
error 2 'unknown schedule `grouped1`; did you mean `grouped`?' schedule show grouped1
error 2 'unknown schedule `xxxxxxxxxxxxxxxxxxx`; `brigade schedule list`' schedule show xxxxxxxxxxxxxxxxxxx
error 2 'convert needs --to text or --to csv' schedule convert file
error 2 '--to is `xml`; it must be one of text|csv' schedule convert file --to xml
error 2 '--to applies only to show and convert' schedule list --to csv
error 2 '--svg applies only to show and simulate' schedule list --svg x
error 2 'different outputs' schedule show grouped --svg x --to csv
error 2 '--color is `red`; it must be one of auto|always|never' schedule show grouped --color red
error 2 '--stages is `0`; it must be a whole number from 1 to 4096' schedule list --stages 0
for value in fast '' 1, ,1 1,,2 -1 nan 1e999 0x1 '1 '; do
    error 2 '--forward is ' schedule list --forward "$value"
done
error 2 '--update is `1;2`; it must be a number of at least 0, or one for each stage' schedule list --update '1;2'
error 1 'there are 4 stages and 8 devices' schedule show grouped --devices 8
error 1 'schedule `single` needs one device for all stages, but there are 4 stages and 2 devices' schedule show single --devices 2
for name in interleaved auto; do
    error 1 'use a larger unit of time' schedule show $name --forward 1e308
done
error 1 'use a larger unit of time' schedule show interleaved --transfer 1e308
error 2 '--weights has 2 numbers for 4 stages; give one, or one for each' schedule show grouped --weights 1,2

error 2 'no command is given; the commands are show, check, update, explain, convert' config
error 2 'did you mean `check`' config chekc
error 2 'update needs --update' config update
error 2 '--encoder-layers and --decoder-layers must be given together' config explain --encoder-layers 3
error 2 '--layers cannot be combined with --encoder-layers' config explain --layers 3 --encoder-layers 3 --decoder-layers 3
error 2 '--out, --to and --no-version apply only to update and convert' config show --to yaml
error 2 'two configurations' config show mnist --config mnist
error 2 'there is no preset, file or folder `nosuch`' config show nosuch
error 2 'did you mean `seed`?' config show --update sed=1

begin_case values
# ---- values: the option, the value, what is allowed ----

for option in batch-size device-iterations gradient-accumulation test-batch-size replicas cores steps; do
    error 2 "--$option is \`0\`; it must be a whole number" mnist --$option 0
    error 2 "--$option is \`-1\`; it must be a whole number" mnist --$option -1
    error 2 "--$option is \`ten\`; it must be a whole number" mnist --$option ten
    error 2 "--$option is \`10x\`; it must be a whole number" mnist --$option 10x
    error 2 "--$option is \`1.5\`; it must be a whole number" mnist --$option 1.5
    error 2 "--$option is \`\`; it must be a whole number" mnist --$option ''
    error 2 "--$option is \`99999999999999999999\`" mnist --$option=99999999999999999999
done
error 2 '--epochs is `-3`' mnist --epochs -3
error 2 '--seed is `0x10`; it must be a whole number from 0 to 18446744073709551615' mnist --seed 0x10
for value in fast -0.1 nan inf 1e999 0x1p3 1e-3z ' 1' ''; do
    error 2 "--learning-rate is \`$value\`; it must be a number of at least 0" mnist --learning-rate "$value"
done
error 2 '--optimizer adagradient: optimizer: there is no `adagradient`; the optimizers are sgd, adam, adamw' mnist --optimizer adagradient
error 2 '--optimizer adam:alpha=1: optimizer: adam has no setting `alpha`; it has weight_decay' mnist --optimizer adam:alpha=1
error 2 '--rate-schedule cosin: learning rate: there is no `cosin`; the schedules are constant, linear' mnist --rate-schedule cosin
error 2 'steps of cosine is 0; it must be a finite number of at least 1' mnist --rate-schedule cosine
error 2 '--rate-schedule plateau: a plateau needs the losses of validations, but there is no validation' mnist --rate-schedule plateau
error 2 '--learning-rate is 1e+39; it must be at most 3.40282e+38' mnist --learning-rate 1e39
for value in 0 12Q K -1K 1.5M 99999999999999999G ''; do
    error 2 "--device-memory is \`$value\`; it must be a number of bytes" mnist --device-memory "$value"
done
for value in 1.5 -1 nan some 0.5x fraction; do
    error 2 "--recompute is \`$value\`; it must be none, stage, checkpoints, auto, or a number from 0 to 1" mnist --recompute "$value"
done
error 2 '--recompute auto needs --device-memory' mnist --recompute auto
error 2 '--checkpoint-blocks is given without --recompute' mnist --checkpoint-blocks
error 2 '--recompute-order is given without --recompute' mnist --recompute-order then
error 2 'add --checkpoint-blocks' mnist --recompute checkpoints
error 1 'is a recomputation checkpoint, but the schedule is `interleaved`' plan mnist --ipu-limits --schedule interleaved \
    --recompute stage --checkpoint-blocks
error 2 'single|sharded|pipelined|phased' mnist --strategy parallel
error 2 'it must be one of' mnist --strategy ''
error 2 'it must be one of' mnist --strategy 'pipelined|sharded'
error 2 '--schedule is `zigzag`; it must be one of single|sharded|sequential|grouped|interleaved' mnist --schedule zigzag
error 2 '--phases parallel is given with --strategy pipelined' mnist --phases parallel
error 2 'serial|parallel' mnist --strategy phased --phases both
error 2 '--device-mapping is `x`; it must be a whole number from 0 to 65535' mnist --device-mapping 0,x
error 2 '--device-mapping is ``; it must be a whole number' mnist --device-mapping 0,,1
error 2 '--device-speeds is `fast`; it must be a number of at least 0' mnist --device-speeds 1,fast
error 2 '--device-memory is `1Q`; it must be a number of bytes' mnist --device-memory 1M,1Q
error 2 '--device-speeds has 2 values and --device-memory has 3' mnist --device-speeds 1,2 --device-memory 1M,1M,1M
error 2 '--auto-round-devices is given without --ipu-limits' mnist --auto-round-devices
error 1 'device_mapping has 2 devices, but there are 4 stages' plan mnist --device-mapping 0,1
error 1 'device_mapping and @ in stages' plan mnist --stages 'B1@0|B2,B3,B4@1' --device-mapping 0,1
error 1 'needs one device for each stage, but there are 4 stages and 2 devices' plan mnist --devices 2
error 1 'the model can be cut into at most 4 stages at block borders' plan mnist --stages auto:9
error 1 'stages are `auto:none`' plan mnist --stages auto:none
error 1 'no cut into 2 stages fits' plan mnist --stages auto:2 --device-memory 1400K
error 1 'the update of `layer3.weight` alone needs' plan mnist --stages auto:2 --device-memory 500K
error 2 'devices[1].speed is 0' plan mnist --device-speeds 1,0,1,1
error 1 'matmul_proportions has 2 shares, but the stages are on 4' plan mnist --matmul-proportion 0.1,0.2
error 2 '--matmul-proportion is `-1`' plan mnist --matmul-proportion -1
error 1 'devices: speed or memory is given for 2 devices, but the stages are on 4' plan mnist --device-speeds 1,2
error 1 'stage 1 of phase 1 (odd) is on device 0' plan mnist --strategy phased --phases parallel --stages 'B1@0;B2@0;B3,B4@1'
error 1 'have phases (;), but the strategy is pipelined' plan mnist --stages 'B1;B2;B3,B4'
error 1 'concurrent stages 1 and 2 share data' plan mnist --stages 'B1|B2&B3|B4'
error 2 'auto_stage is auto_increment, but stages are' plan mnist --auto-stage auto-increment --stages 'B1,B2|B3,B4'
error 1 'IPUs come in powers of two: use 4' plan mnist --ipu-limits --stages 'B1|B2|B3,B4'
error 2 'final|all|sum|every_n' mnist --output-mode last
error 2 'mode every_n needs --output-period' mnist --output-mode every_n
error 2 'period 3 does not divide --device-iterations 10' mnist --output-mode every_n --output-period 3
error 2 'period 2 is given with --output-mode sum' mnist --output-mode sum --output-period 2
error 2 'num-workers is `257`' mnist --num-workers 257
error 2 'prefetch is `0`' mnist --prefetch 0
error 2 'it must be one of sync|async|async-rebatched' mnist --loader-mode fork
error 2 'float32|bfloat16|float16' mnist --dtype half
error 2 'mean|sum|mean-running' mnist --accumulation none
error 2 'mean|sum' mnist --replica-reduction none
error 2 'default|same|float32|bfloat16|float16' mnist --accumulator-type half
error 2 '--clip-norm is `-1`' mnist --clip-norm -1
error 2 '--clip-norm is `nan`' mnist --clip-norm nan
error 2 '--loss-scaling is `0`; it must be a number above 0, auto, or auto:X' mnist --loss-scaling 0
error 2 '--loss-scaling is `automatic`' mnist --loss-scaling automatic
error 2 '--loss-scaling is `auto:`' mnist --loss-scaling auto:
error 2 'auto_loss_scaling is on, but gradients are sums' mnist --compile-only --loss-scaling auto --accumulation sum
error 2 'only the pipelined strategy' mnist --strategy sharded --schedule grouped
error 2 'use --strategy phased' mnist --schedule phased
error 2 'one stage' mnist --strategy single --stages 'B1|B2'
error 2 'use one of them' mnist --debug --quiet
error 2 '--offload names `wheels`; it must be activations' mnist --offload weights,wheels
error 2 '--offload-rule names `wheels`' mnist --offload-rule 'weights:layer3.*;wheels:*'
error 2 'weights has no pattern; it must be CLASSES:PATTERN' mnist --offload-rule 'optimizer:*;weights'
error 2 'always_live|off_chip_after_fwd' mnist --phase-liveness sometimes
error 2 '--stages is empty' mnist --stages ''
error 2 '--shard names `optimiser`' mnist --shard optimiser
error 2 '--shard names ``' mnist --shard optimizer,
finish
