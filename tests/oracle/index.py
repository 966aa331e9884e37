#!/usr/bin/env python3
"""Makes index.txt: PyTorch's results and gradients for gathers and scatters, and for top-k.

    python3 tests/oracle/index.py > tests/oracle/index.txt

Each line has a tensor: case, tensor, [dims], values. Operands x, ids, updates -> y; seed dy -> dx, dupdates. `numbers`
has the indices of the largest elements.
"""
import torch

torch.manual_seed(26)


def emit(case, name, tensor):
    dims = ",".join(str(d) for d in tensor.shape)
    print(f"{case} {name} [{dims}] " + " ".join("%.9g" % v for v in tensor.detach().flatten().tolist()))


def draw(*dims):
    """Returns multiples of 1/16, which every float type represents; equal numbers occur."""
    return (torch.randint(-32, 33, dims) / 16).double()


def record(case, y, ids=None, **operands):
    dy = draw(*y.shape)
    y.backward(dy)
    for name, tensor in operands.items():
        emit(case, name, tensor)
        emit(case, "d" + name, tensor.grad)
    if ids is not None:
        emit(case, "ids", ids)
    emit(case, "y", y)
    emit(case, "dy", dy)


def gathers():
    for axis in range(3):
        x = draw(4, 5, 6).requires_grad_()
        ids = torch.randint(0, x.shape[axis], (7,))
        record(f"gather_{axis}", torch.index_select(x, axis, ids), ids, x=x)
        x = draw(4, 5, 6).requires_grad_()
        ids = torch.randint(0, x.shape[axis], (2, 3))
        y = torch.index_select(x, axis, ids.flatten())
        record(f"gather_matrix_{axis}", y.reshape(*x.shape[:axis], 2, 3, *x.shape[axis + 1:]), ids, x=x)
        x, updates = draw(4, 5, 6).requires_grad_(), None
        ids = torch.randint(0, x.shape[axis], (7,))
        shape = list(x.shape)
        shape[axis] = 7
        updates = draw(*shape).requires_grad_()
        record(f"scatter_{axis}", torch.index_add(x, axis, ids, updates), ids, x=x, updates=updates)
        x = draw(4, 5, 6).requires_grad_()
        ids = torch.randint(0, x.shape[axis], shape)
        record(f"gather_elements_{axis}", torch.gather(x, axis, ids), ids, x=x)
        x, updates = draw(4, 5, 6).requires_grad_(), draw(*shape).requires_grad_()
        record(f"scatter_elements_{axis}", torch.scatter_add(x, axis, ids, updates), ids, x=x, updates=updates)


def largest():
    for name, smallest in (("top", False), ("bottom", True)):
        for k in (1, 3, 8):
            # All numbers differ, because PyTorch does not define the order of equal numbers.
            x = torch.stack([torch.randperm(8) for _ in range(5)]).double().requires_grad_()
            values, numbers = torch.topk(x, k, -1, largest=not smallest)
            record(f"{name}_{k}", values, x=x)
            emit(f"{name}_{k}", "numbers", numbers)


print(f"# made by tests/oracle/index.py with PyTorch {torch.__version__}")
gathers()
largest()
