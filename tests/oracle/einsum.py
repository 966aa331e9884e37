#!/usr/bin/env python3
"""Makes einsum.txt: PyTorch's einsum, triangles and PReLU.

    python3 tests/oracle/einsum.py > tests/oracle/einsum.txt

Each line has a tensor: case, tensor, [dims], values. Operands in0, in1, ... -> result y; seed dy -> gradients d0, d1, ...
Operands are float32 values; results are computed in float64. Cases of sums are numbered as in tests/ops/test_einsum.c.
"""
import torch
import torch.nn.functional as F

torch.manual_seed(41)
SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 2, "f": 3, "B": 2}
EQUATIONS = [
    "ab,bc->ac", "ab,cb->ac", "ba,bc->ac", "abc,acd->abd", "abc,cbd->adb", "abc,abd->bcd", "ab,cd->acbd", "a,a->", "ab->ba",
    "abc->b", "abc->", "ab,ab->ab", "ab,ab->ba", "abc,b->ac", "ab,bc,cd->ad", "ab,ac,ad->bcd", "abcd,aecd->abec", "ab,bc",
    "cB,Bb", "abc, cde -> abde", "a,b,c->cab", "abcd,efcd->abef", "ab,abd,c->d",
]


def emit(case, name, tensor):
    dims = ",".join(str(d) for d in tensor.shape)
    values = " ".join("%.10g" % v for v in tensor.detach().to(torch.float64).flatten().tolist())
    print(f"{case} {name} [{dims}] {values}")


def draw(*dims):
    return (torch.rand(*dims) * 4 - 2).to(torch.float32)


def differentiate(case, function, *operands):
    inputs = [o.to(torch.float64).requires_grad_(True) for o in operands]
    y = function(*inputs)
    dy = draw(*y.shape) if y.dim() > 0 else draw(1).reshape(())
    y.backward(dy.to(torch.float64))
    for i, o in enumerate(operands):
        emit(case, f"in{i}", o)
    emit(case, "y", y)
    emit(case, "dy", dy)
    for i, o in enumerate(inputs):
        emit(case, f"d{i}", o.grad)


print(f"# made by tests/oracle/einsum.py with PyTorch {torch.__version__}")
for i, equation in enumerate(EQUATIONS):
    operands = [draw(*(SIZES[letter] for letter in o.strip())) for o in equation.split("->")[0].split(",")]
    differentiate(f"einsum_{i}", lambda *o, e=equation: torch.einsum(e, *o), *operands)
x = draw(2, 4, 5)
for diagonal in (-9, -2, 0, 1, 9):
    differentiate(f"lower_{diagonal}", lambda t, d=diagonal: torch.tril(t, d), x)
    differentiate(f"upper_{diagonal}", lambda t, d=diagonal: torch.triu(t, d), x)
x = draw(2, 3, 4)
x[0, 0, 0] = 0.0
differentiate("prelu_each", F.prelu, x, draw(3))
differentiate("prelu_one", F.prelu, x, draw(1))
