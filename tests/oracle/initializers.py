#!/usr/bin/env python3
"""Makes initializers.txt: initial values of torch.nn.init that are not random.

    python3 tests/oracle/initializers.py > tests/oracle/initializers.txt

Orthogonal weights are computed from random ones, which the file contains too.
"""
import torch


def emit(case, name, tensor):
    dims = ",".join(str(d) for d in tensor.shape)
    print(f"{case} {name} [{dims}] " + " ".join("%.15g" % v for v in tensor.flatten().tolist()))


def orthogonal(case, shape, gain):
    drawn = []
    normal = torch.Tensor.normal_

    def keep(self, *arguments, **names):
        drawn.append(normal(self, *arguments, **names).clone())
        return self

    torch.Tensor.normal_ = keep
    weight = torch.empty(shape, dtype=torch.float64)
    torch.nn.init.orthogonal_(weight, gain)
    torch.Tensor.normal_ = normal
    emit(case, "drawn", drawn[0])
    emit(case, "weight", weight)


torch.manual_seed(5)
print(f"# made by tests/oracle/initializers.py with PyTorch {torch.__version__}")
orthogonal("wide", (5, 9), 1.5)
orthogonal("tall", (7, 4), 1.0)
orthogonal("square", (6, 6), 1.0)
orthogonal("image", (4, 2, 3, 2), 0.5)
for name, shape in (("eye_wide", (3, 5)), ("eye_tall", (4, 2))):
    emit(name, "weight", torch.nn.init.eye_(torch.empty(shape)))
for name, shape, groups in (("dirac_1", (4, 3, 3), 1), ("dirac_2", (6, 2, 3, 4), 2), ("dirac_3", (2, 4, 1, 2, 3), 1),
                            ("dirac_rest", (6, 2, 2), 3)):
    emit(name, "weight", torch.nn.init.dirac_(torch.empty(shape), groups))
for name, shape, share in (("sparse_10", (10, 4), 0.25), ("sparse_7", (7, 3), 0.5), ("sparse_all", (3, 2), 1.0)):
    weight = torch.nn.init.sparse_(torch.empty(shape), share, 0.1)
    emit(name, "zeros", (weight == 0).sum(0))
