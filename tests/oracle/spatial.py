#!/usr/bin/env python3
"""Makes spatial.txt: PyTorch's convolutions, pools and interpolations over one, two and three dimensions.

    python3 tests/oracle/spatial.py > tests/oracle/spatial.txt

Each line has a tensor: case, tensor, [dims], values. Operands in0, in1, ... -> result y; seed dy -> gradients d0, d1, ...
Operands are float32 values; results are computed in float64. PyTorch has no interpolation by ONNX's rules (`onnx_...`),
so these cases compute the sums in the text of the Resize operator, as products with a matrix for each axis.
"""
import math

import torch
import torch.nn.functional as F

torch.manual_seed(31)


def emit(case, name, tensor):
    dims = ",".join(str(d) for d in tensor.shape)
    values = " ".join("%.9g" % v for v in tensor.detach().to(torch.float64).flatten().tolist())
    print(f"{case} {name} [{dims}] {values}")


def draw(*dims):
    """Returns multiples of 1/4, whose sums of products have few digits."""
    return torch.randint(-8, 9, dims) / 4


def differentiate(case, function, *operands):
    inputs = [o.to(torch.float64).requires_grad_(True) for o in operands]
    y = function(*inputs)
    dy = draw(*y.shape)
    y.backward(dy.to(torch.float64))
    for i, o in enumerate(operands):
        emit(case, f"in{i}", o)
    emit(case, "y", y)
    emit(case, "dy", dy)
    for i, o in enumerate(inputs):
        emit(case, f"d{i}", o.grad if o.grad is not None else torch.zeros_like(o))


def convolutions():
    for dims, f, back in ((1, F.conv1d, F.conv_transpose1d), (2, F.conv2d, F.conv_transpose2d),
                          (3, F.conv3d, F.conv_transpose3d)):
        x, k = ((2, 4, 7), (1, 4, 5, 6), (1, 4, 4, 3, 5))[dims - 1], (3, 2, 3)[:dims]
        s, p, d = (2, 1, 2)[:dims], (1, 2, 0)[:dims], (1, 2, 1)[:dims]
        more = (1, 0, 1)[:dims]
        for g in (1, 2):
            differentiate(f"conv{dims}_plain_{g}", lambda x, w, g=g: f(x, w, groups=g), draw(*x), draw(6, 4 // g, *k))
            differentiate(f"conv{dims}_{g}", lambda x, w, b, g=g: f(x, w, b, s, p, d, g), draw(*x), draw(6, 4 // g, *k),
                          draw(6))
            differentiate(f"transpose{dims}_plain_{g}", lambda x, w, g=g: back(x, w, groups=g), draw(*x),
                          draw(4, 6 // g, *k))
            differentiate(f"transpose{dims}_{g}", lambda x, w, b, g=g: back(x, w, b, s, p, more, g, d), draw(*x),
                          draw(4, 6 // g, *k), draw(6))


def pools():
    shapes = ((2, 3, 11), (1, 3, 7, 9), (1, 1, 5, 6, 7))
    for dims in (1, 2, 3):
        largest = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[dims - 1]
        mean = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[dims - 1]
        k, s, p, d = (3, 2, 3)[:dims], (2, 3, 2)[:dims], (1, 1, 0)[:dims], (1, 2, 1)[:dims]
        x = draw(*shapes[dims - 1])
        for ceil in (False, True):
            differentiate(f"max{dims}_{int(ceil)}", lambda t, c=ceil: largest(t, k, s, p, d, c), x)
            for pad in (False, True):
                differentiate(f"avg{dims}_{int(ceil)}{int(pad)}", lambda t, c=ceil, i=pad: mean(t, k, s, p, c, i), x)
        even = draw(*((2, 3, 8), (1, 2, 6, 9), (1, 1, 4, 6, 8))[dims - 1])
        adaptive = {"max": (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)[dims - 1],
                    "avg": (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[dims - 1]}
        for name, f in adaptive.items():
            differentiate(f"adaptive_{name}{dims}_global", lambda t, f=f: f(t, (1,) * dims), x)
            differentiate(f"adaptive_{name}{dims}_even", lambda t, f=f: f(t, (2, 3, 4)[:dims]), even)
            differentiate(f"adaptive_{name}{dims}_uneven", lambda t, f=f: f(t, (4, 5, 3)[:dims]), x)
    # Of equal elements, the first gets the gradient.
    equal = torch.randint(0, 2, (1, 1, 4, 4, 4)).to(torch.float32)
    differentiate("max3_equal", lambda t: F.max_pool3d(t, 2), equal)


def interpolations():
    modes = {1: ("linear",), 2: ("bilinear", "bicubic"), 3: ("trilinear",)}
    sizes = {1: ((5,), (11,), (1,)), 2: ((7, 3), (3, 10), (1, 1)), 3: ((2, 7, 3),)}
    for dims in (1, 2, 3):
        x = draw(*((1, 2, 6), (1, 2, 4, 5), (1, 2, 3, 4, 5))[dims - 1])
        for i, size in enumerate(sizes[dims]):
            for mode in modes[dims]:
                for corners in (False, True):
                    differentiate(f"{mode}_{i}_{int(corners)}",
                                  lambda t, m=mode, z=size, c=corners: F.interpolate(t, z, mode=m, align_corners=c), x)
            for mode in ("nearest", "nearest-exact", "area"):
                differentiate(f"{mode.replace('-', '_')}{dims}_{i}", lambda t, m=mode, z=size: F.interpolate(t, z, mode=m),
                              x)
    x = draw(1, 2, 4, 5)
    for mode in ("nearest", "bilinear", "bicubic"):
        differentiate(f"{mode}_scale", lambda t, m=mode: F.interpolate(t, scale_factor=(1.7, 0.6), mode=m), x)


def onnx_matrix(size, out, scale, mode, coordinates, nearest, a=-0.75):
    """Returns a matrix whose row o has the weight of each input element in output element o, by the operator's text."""
    matrix = torch.zeros(out, size, dtype=torch.float64)
    for o in range(out):
        at = {"half_pixel": (o + 0.5) / scale - 0.5, "asymmetric": o / scale,
              "pytorch_half_pixel": (o + 0.5) / scale - 0.5 if out > 1 else 0.0,
              "align_corners": o * (size - 1) / (out - 1) if out > 1 else 0.0}[coordinates]
        low = math.floor(at)
        t = at - low
        if mode == "nearest":
            place = {"floor": math.floor(at), "ceil": math.ceil(at), "round_prefer_floor": math.ceil(at - 0.5),
                     "round_prefer_ceil": math.floor(at + 0.5)}[nearest]
            terms = [(place, 1.0)]
        elif mode == "linear":
            terms = [(low, 1 - t), (low + 1, t)]
        else:
            def near(d):
                return (a + 2) * d**3 - (a + 3) * d**2 + 1

            def far(d):
                return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a

            terms = [(low - 1, far(1 + t)), (low, near(t)), (low + 1, near(1 - t)), (low + 2, far(2 - t))]
        for place, weight in terms:
            matrix[o, min(max(place, 0), size - 1)] += weight
    return matrix


def onnx():
    """Writes cases with scales that are not quotients of sizes, and with enlarging and reducing together."""
    x, scales = draw(1, 2, 4, 5), (1.8, 0.7)
    out = [math.floor(n * s) for n, s in zip(x.shape[2:], scales)]
    for coordinates in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"):
        kinds = [("nearest", n) for n in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")]
        for mode, nearest in kinds + [("linear", ""), ("cubic", "")]:
            rows, columns = (onnx_matrix(n, o, s, mode, coordinates, nearest) for n, o, s in
                             zip(x.shape[2:], out, scales))
            differentiate(f"onnx_{mode}_{coordinates}{'_' + nearest if nearest else ''}",
                          lambda t, r=rows, c=columns: r @ t @ c.T, x)
    rows, columns = (onnx_matrix(n, o, s, "cubic", "half_pixel", "", -0.5) for n, o, s in zip(x.shape[2:], out, scales))
    differentiate("onnx_cubic_half", lambda t: rows @ t @ columns.T, x)


print(f"# made by tests/oracle/spatial.py with PyTorch {torch.__version__}")
convolutions()
pools()
interpolations()
onnx()
