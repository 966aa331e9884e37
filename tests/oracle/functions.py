#!/usr/bin/env python3
"""Makes functions.txt: PyTorch's results and gradients for functions of one element, and its losses.

    python3 tests/oracle/functions.py > tests/oracle/functions.txt

Each line has a tensor: case, tensor, [dims], values. Operands in0, in1, ... -> result y; seed dy -> gradients d0, d1, ...
Operands are float32 values; results are computed in float64.
"""
import torch
import torch.nn.functional as F

torch.manual_seed(26)


def emit(case, name, tensor):
    dims = ",".join(str(d) for d in tensor.shape)
    values = " ".join("%.12g" % v for v in tensor.detach().to(torch.float64).flatten().tolist())
    print(f"{case} {name} [{dims}] {values}")


def draw(*dims, low=-2.0, high=2.0):
    return (torch.rand(*dims) * (high - low) + low).to(torch.float32)


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
        emit(case, f"d{i}", o.grad if o.grad is not None else torch.zeros_like(o))


def functions():
    everywhere = {
        "silu": F.silu, "mish": F.mish, "softsign": F.softsign, "log_sigmoid": F.logsigmoid, "hard_swish": F.hardswish,
        "expm1": torch.expm1, "erf": torch.erf, "sign": torch.sign, "round": torch.round, "floor": torch.floor,
        "ceil": torch.ceil, "trunc": torch.trunc, "sin": torch.sin, "cos": torch.cos, "atan": torch.atan,
        "sinh": torch.sinh, "cosh": torch.cosh, "asinh": torch.asinh, "softplus": F.softplus, "elu": F.elu,
        "leaky_relu": F.leaky_relu, "hard_sigmoid": F.hardsigmoid, "clamp": lambda x: x.clamp(0.0, 6.0), "power": torch.square,
        "elu_half": lambda x: F.elu(x, 0.5), "leaky_relu_quarter": lambda x: F.leaky_relu(x, 0.25),
        "softplus_sharp": lambda x: F.softplus(x, 2.0, 3.0), "clamp_both": lambda x: x.clamp(-1.5, 0.75),
        "power_cube": lambda x: x.pow(3.0), "power_none": lambda x: x.pow(0.0),
    }
    for name, f in everywhere.items():
        x = draw(4, 8, low=-4.5, high=4.5)
        # The points where the pieces of a function meet.
        x[0] = torch.tensor([0.0, -3.0, 3.0, 6.0, -1.5, 0.75, 0.5, 2.5])
        differentiate(name, f, x)
    limited = {
        "rsqrt": (torch.rsqrt, 0.1, 4.0), "log1p": (torch.log1p, -0.9, 4.0), "tan": (torch.tan, -1.4, 1.4),
        "asin": (torch.asin, -0.9, 0.9), "acos": (torch.acos, -0.9, 0.9), "acosh": (torch.acosh, 1.1, 4.0),
        "atanh": (torch.atanh, -0.9, 0.9), "power_half": (lambda x: x.pow(0.5), 0.1, 4.0),
        "power_inverse": (lambda x: x.pow(-2.0), 0.5, 3.0), "power_odd": (lambda x: x.pow(1.7), 0.1, 4.0),
    }
    for name, (f, low, high) in limited.items():
        differentiate(name, f, draw(4, 8, low=low, high=high))


def losses():
    """Writes the losses; the first row has operands where the pieces of a loss meet."""
    p, t = draw(3, 5, low=-3.0, high=3.0), draw(3, 5, low=-3.0, high=3.0)
    p[0], t[0] = torch.tensor([0.0, 1.0, -0.5, 2.0, 2.0]), torch.tensor([0.0, 0.0, 0.0, 0.5, -1.0])
    probability, share = draw(3, 5, low=0.05, high=0.95), draw(3, 5, low=0.05, high=0.95)
    share[0] = torch.tensor([0.0, 1.0, 0.5, 0.0, 1.0])
    positive = draw(3, 5, low=0.05, high=0.95)  # PyTorch's gradient of a target that is 0 is NaN
    logarithm = draw(3, 5, low=-4.0, high=-0.1)
    weight = torch.tensor(2.5)
    kinds = {
        "squared": (F.mse_loss, p, t), "absolute": (F.l1_loss, p, t), "smooth_l1": (F.smooth_l1_loss, p, t),
        "smooth_l1_half": (lambda x, y, reduction: F.smooth_l1_loss(x, y, beta=0.5, reduction=reduction), p, t),
        "huber": (lambda x, y, reduction: F.huber_loss(x, y, delta=1.5, reduction=reduction), p, t),
        "binary_logits": (F.binary_cross_entropy_with_logits, p, share),
        "binary_logits_weight": (
            lambda x, y, reduction: F.binary_cross_entropy_with_logits(x, y, pos_weight=weight, reduction=reduction),
            p, share),
        "binary": (F.binary_cross_entropy, probability, share), "kl": (F.kl_div, logarithm, positive),
        "kl_log": (lambda x, y, reduction: F.kl_div(x, y, reduction=reduction, log_target=True), logarithm,
                   draw(3, 5, low=-4.0, high=-0.1)),
    }
    for name, (f, x, y) in kinds.items():
        for reduction in ("mean", "sum", "none"):
            differentiate(f"{name}_{reduction}", lambda a, b, f=f, reduction=reduction: f(a, b, reduction=reduction),
                          x, y)


def moves():
    x = draw(2, 3, 4, 5)
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "replicate", "circular": "circular"}
    for name, mode in modes.items():
        options = {"value": 1.5} if mode == "constant" else {}
        differentiate(f"pad_{name}", lambda t, m=mode, o=options: F.pad(t, (1, 3, 2, 1), m, **o), x)
    differentiate("pad_everywhere", lambda t: F.pad(t, (1, 2, 0, 1, 2, 0, 1, 1), "constant", -0.5), x)
    differentiate("pad_crop", lambda t: F.pad(t, (-1, 2, 1, -2), "constant", 0.0), x)
    for axis in range(4):
        differentiate(f"cumulative_{axis}", lambda t, a=axis: torch.cumsum(t, a), x)
        differentiate(f"cumulative_reverse_{axis}", lambda t, a=axis: t.flip(a).cumsum(a).flip(a), x)
        differentiate(f"cumulative_exclusive_{axis}", lambda t, a=axis: torch.cumsum(t, a) - t, x)
        differentiate(f"roll_{axis}", lambda t, a=axis: torch.roll(t, 4, a), x)
        differentiate(f"flip_{axis}", lambda t, a=axis: torch.flip(t, (a,)), x)
    for axis in range(3):
        differentiate(f"stack_{axis}", lambda a, b, c, d=axis: torch.stack((a, b, c), d), draw(3, 4), draw(3, 4),
                      draw(3, 4))
    differentiate("tile", lambda t: torch.tile(t, (2, 1, 3)), draw(2, 3, 4))


def norms():
    """PyTorch 1.13 has no RMSNorm, so this uses the paper's formula."""
    def rms(x, gamma=None):
        y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)
        return y if gamma is None else y * gamma

    differentiate("rms_norm", rms, draw(3, 4, 6), draw(6))
    differentiate("rms_norm_plain", rms, draw(5, 7))
    for groups in (1, 3, 6):
        differentiate(f"group_norm_{groups}", lambda x, g, b, n=groups: F.group_norm(x, n, g, b, 1e-5),
                      draw(2, 6, 4, 3), draw(6), draw(6))
    differentiate("group_norm_plain", lambda x: F.group_norm(x, 2, eps=1e-5), draw(2, 4, 5))


print(f"# made by tests/oracle/functions.py with PyTorch {torch.__version__}")
functions()
losses()
moves()
norms()
