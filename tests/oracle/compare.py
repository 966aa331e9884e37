#!/usr/bin/env python3
"""Makes compare.txt: PyTorch's comparisons, `where` with its gradient, and integer arithmetic.

    python3 tests/oracle/compare.py > tests/oracle/compare.txt

Each line has a tensor: case, tensor, [dims], values. Comparisons: in0, in1 -> y. Choices: condition, a, b, dy -> y, da, db.
Integers: in0, in1 -> y of int32; an int64 is two numbers, its high 32 bits (signed) and its low 32 bits (unsigned),
because tests read this file as float64.
"""
import torch

torch.manual_seed(20)

COMPARISONS = {
    "less": torch.lt, "less_equal": torch.le, "equal": torch.eq,
    "not_equal": torch.ne, "greater": torch.gt, "greater_equal": torch.ge}


def emit(case, name, tensor):
    dims = ",".join(str(d) for d in tensor.shape)
    values = tensor.detach().flatten().tolist()
    text = " ".join("%.9g" % v if tensor.dtype.is_floating_point else "%d" % v for v in values)
    print(f"{case} {name} [{dims}] {text}")


def emit_wide(case, name, tensor):
    emit(case, name + "_high", tensor >> 32)
    emit(case, name + "_low", tensor & 0xFFFFFFFF)


# Multiples of 1/4, which every float type represents, so that equal numbers occur.
def draw(*dims):
    return torch.randint(-6, 7, dims) / 4


def comparisons():
    special = torch.tensor([0.0, -0.0, 1.0, float("inf"), -float("inf"), float("nan")])
    for name, f in COMPARISONS.items():
        for kind, a, b in (("", draw(2, 3, 4), draw(2, 3, 4)), ("_right", draw(2, 3, 4), draw(3, 1)),
                           ("_left", draw(4), draw(2, 3, 4)), ("_both", draw(4, 1, 3), draw(5, 1)),
                           ("_scalar", draw(7), draw(1).reshape(())),
                           ("_special", special.reshape(6, 1), special)):
            case = f"compare_{name}{kind}"
            emit(case, "in0", a)
            emit(case, "in1", b)
            emit(case, "y", f(a, b))


def choices():
    for kind, condition, a, b in (("", (2, 3, 4), (2, 3, 4), (2, 3, 4)), ("_rows", (3, 1), (2, 3, 4), (2, 3, 4)),
                                  ("_repeated", (2, 3, 4), (4,), (3, 1)), ("_scalar", (5, 3), (), (5, 3)),
                                  ("_one", (), (2, 3), (2, 1)), ("_wide", (4, 1, 1), (2, 1), (3,))):
        case = f"where{kind}"
        condition = torch.randint(0, 2, condition)
        a, b = draw(*a).requires_grad_(True), draw(*b).requires_grad_(True)
        y = torch.where(condition != 0, a, b)
        dy = draw(*y.shape)
        y.backward(dy)
        emit(case, "condition", condition)
        for name, tensor in (("a", a), ("b", b), ("y", y), ("dy", dy), ("da", a.grad), ("db", b.grad)):
            emit(case, name, tensor)


def integers():
    arithmetic = {"add": torch.add, "subtract": torch.sub, "multiply": torch.mul,
                  "divide": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
                  "maximum": torch.maximum, "minimum": torch.minimum}
    for dtype, high in ((torch.int32, 2**31 - 1), (torch.int64, 2**63 - 1)):
        edge = [0, 1, -1, 2, -3, 7, 1000003, high // 2 + 1, high - 1, high, -high, -high - 1]
        if dtype is torch.int64:
            edge += [2**31, -(2**31) - 1, 2**53 + 1, -(2**53) - 1]
        a, b = torch.tensor(edge, dtype=dtype).reshape(-1, 1), torch.tensor(edge, dtype=dtype)
        prefix, write = ("int32", emit) if dtype is torch.int32 else ("int64", emit_wide)
        for name, f in arithmetic.items():
            divisors = b[(b != 0) & (b != -1)] if name == "divide" else b
            case = f"{prefix}_{name}"
            for tensor_name, tensor in (("in0", a), ("in1", divisors), ("y", f(a, divisors))):
                write(case, tensor_name, tensor)
        for name, f in COMPARISONS.items():
            case = f"{prefix}_{name}"
            write(case, "in0", a)
            write(case, "in1", b)
            emit(case, "y", f(a, b))


comparisons()
choices()
integers()
