#!/usr/bin/env python3
"""Makes ctc.txt: PyTorch's connectionist temporal classification.

    python3 tests/oracle/ctc.py > tests/oracle/ctc.txt

Each line has a tensor: case, tensor, [dims], values. in0 are logits [N, T, C], of which the log-softmax is taken;
result y; seed dy -> gradient d0. Operands are float32 values; results are computed in float64. Targets and lengths are
those of tests/ops/test_ctc.c.
"""
import torch
import torch.nn.functional as F

torch.manual_seed(11)
TARGETS = torch.tensor([[1, 2, 2, 3], [4, 4, 4, 4], [3, 1, 0, 0], [2, 2, 2, 2], [1, 1, 1, 1]])
LENGTHS, TARGET_LENGTHS = torch.tensor([9, 8, 5, 4, 3]), torch.tensor([4, 4, 2, 0, 1])
TIGHT = torch.tensor([9, 6, 5, 4, 3])  # the second sample's targets do not fit: three blanks must separate them


def emit(case, name, tensor):
    dims = ",".join(str(d) for d in tensor.shape)
    values = " ".join("%.12g" % v for v in tensor.detach().to(torch.float64).flatten().tolist())
    print(f"{case} {name} [{dims}] {values}")


def write(case, x, targets, lengths, target_lengths, **options):
    logits = x.to(torch.float64).requires_grad_()
    y = F.ctc_loss((logits - logits.logsumexp(2, keepdim=True)).transpose(0, 1), targets, lengths, target_lengths, **options)
    dy = (torch.rand(y.shape) * 2 - 1).to(torch.float32)
    y.backward(dy.to(torch.float64))
    for name, tensor in (("in0", x), ("y", y), ("dy", dy), ("d0", logits.grad)):
        emit(case, name, tensor)


print(f"# made by tests/oracle/ctc.py with PyTorch {torch.__version__}")
inputs = (torch.rand(5, 9, 5) * 4 - 2).to(torch.float32)
for reduction in ("mean", "sum", "none"):
    write(f"{reduction}", inputs, TARGETS, LENGTHS, TARGET_LENGTHS, reduction=reduction)
    write(f"{reduction}_tight", inputs, TARGETS, TIGHT, TARGET_LENGTHS, reduction=reduction, zero_infinity=True)
# The last class is the blank; all samples have the full length.
write("last", inputs[:3], TARGETS[:3].clamp(max=3), torch.tensor([9] * 3), torch.tensor([4] * 3), blank=4, reduction="none")
