#!/usr/bin/env python3
"""Makes ops_b.txt: PyTorch's results and gradients for linear, elementwise, reduction and shape ops, and its optimizers.

    python3 tests/oracle/ops_b.py > tests/oracle/ops_b.txt

Each line has a tensor: case, tensor, [dims], values. Operands in0, in1, ... -> result y; seed dy -> gradients d0, d1, ...
Operands are float32 values; results are computed in float64 unless a case is about float32 itself.
"""
import sys

import torch

torch.manual_seed(20)


def emit(case, name, tensor):
    dims = ",".join(str(d) for d in tensor.shape)
    values = " ".join("%.9g" % v for v in tensor.detach().to(torch.float64).flatten().tolist())
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


def linear():
    f = torch.nn.functional.linear
    differentiate("linear", f, draw(4, 5), draw(3, 5))
    differentiate("linear_bias", f, draw(4, 5), draw(3, 5), draw(3))
    differentiate("linear_deep", f, draw(2, 3, 5), draw(4, 5), draw(4))
    differentiate("linear_vector", f, draw(5), draw(3, 5), draw(3))
    for ta in (False, True):
        for tb in (False, True):
            a = draw(2, 4, 3) if ta else draw(2, 3, 4)
            b = draw(2, 5, 4) if tb else draw(2, 4, 5)

            def product(x, y, ta=ta, tb=tb):
                return torch.matmul(x.transpose(-1, -2) if ta else x, y.transpose(-1, -2) if tb else y)

            differentiate(f"matmul_{int(ta)}{int(tb)}", product, a, b)
            differentiate(f"matmul_shared_{int(ta)}{int(tb)}", product, draw(3, 1, *a.shape[1:]), b)
            differentiate(f"matmul_flat_{int(ta)}{int(tb)}", product, a, b[0])


def elementwise():
    functions = {
        "relu": torch.relu, "gelu": torch.nn.functional.gelu,
        "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"), "tanh": torch.tanh,
        "sigmoid": torch.sigmoid, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "square": torch.square,
        "negate": torch.neg, "abs": torch.abs, "reciprocal": torch.reciprocal}
    for name, f in functions.items():
        x = draw(3, 5, low=0.1, high=3.0) if name in ("log", "sqrt") else draw(3, 5, low=-3.0, high=3.0)
        if name in ("relu", "abs"):
            x[1, 2] = 0.0
        differentiate(f"unary_{name}", f, x)
    binaries = {"add": torch.add, "subtract": torch.sub, "multiply": torch.mul, "divide": torch.div,
                "maximum": torch.maximum, "minimum": torch.minimum}
    for name, f in binaries.items():
        a, b, c = draw(2, 3, 4), draw(3, 1), draw(2, 3, 4)
        b[:, 0] += 3.0 if name == "divide" else 0.0
        c += 3.0 if name == "divide" else 0.0
        a[0, 1, 2] = b[1, 0]
        a[1, 2, 3] = c[1, 2, 3]
        differentiate(f"binary_{name}", f, a, c)
        differentiate(f"binary_{name}_right", f, a, b)
        differentiate(f"binary_{name}_left", f, draw(4) + 2.0, c)
        differentiate(f"binary_{name}_both", f, draw(4, 1, 3), draw(5, 1) + 3.0)
        differentiate(f"binary_{name}_scalar", f, a, draw(1).reshape(()) + 4.0)
    differentiate("scale", lambda x: 1.5 * x - 0.25, draw(7))


def conversions():
    pixels = torch.arange(256, dtype=torch.uint8)
    emit("standardize", "in0", pixels)
    emit("standardize", "y", (pixels.to(torch.float32).div(255)).sub(0.1307).div(0.3081))
    x = torch.cat([draw(40, low=-100.0, high=100.0), torch.tensor([0.0, 1.00390625, 1.01171875, 3.4e38, 1e-40])])
    emit("bfloat16", "in0", x)
    emit("bfloat16", "y", x.to(torch.bfloat16))
    x = torch.cat([x[:40], x[:40] * 1e-6, torch.tensor([0.0, 65504.0, 65519.99, 65520.0, 3e-8, 2.98e-8, 1.00048828125])])
    emit("float16", "in0", x)
    emit("float16", "y", x.to(torch.float16))


def reductions():
    x = draw(2, 3, 4, 2)
    for name, f in (("sum", torch.sum), ("mean", torch.mean), ("max", torch.amax)):
        differentiate(f"reduce_{name}_all", lambda t: f(t, dim=(0, 1, 2, 3)), x)
        differentiate(f"reduce_{name}_last", lambda t: f(t, dim=-1), x)
        differentiate(f"reduce_{name}_outer", lambda t: f(t, dim=(0, 2), keepdim=True), x)
    differentiate("broadcast", lambda t: t.expand(2, 5, 3), draw(5, 1))
    emit("argmax", "in0", x)
    emit("argmax", "y", torch.argmax(x, -1))


def shapes():
    differentiate("reshape", lambda t: t.reshape(4, 3, 2), draw(2, 3, 4))
    differentiate("flatten", lambda t: t.flatten(1), draw(2, 3, 4))
    differentiate("transpose", lambda t: t.permute(2, 0, 3, 1), draw(2, 3, 4, 2))
    differentiate("slice", lambda t: t[:, 1:4], draw(2, 5, 3))
    differentiate("slice_step", lambda t: t[:, :, 1:7:3], draw(2, 2, 8))
    differentiate("slice_negative", lambda t: t[-3:-1], draw(5, 2))
    differentiate("concat", lambda a, b, c: torch.cat([a, b, c], 1), draw(2, 1, 3), draw(2, 4, 3), draw(2, 2, 3))


def optimize(case, make, states):
    """Makes eight float32 steps; the rate is halved before the fifth. The gradient of step i is in `gradients`."""
    p = draw(6).requires_grad_(True)
    gradients = draw(8, 6)
    gradients[2, 3] = 0.0
    optimizer = make([p])
    emit(case, "start", p)
    emit(case, "gradients", gradients)
    history = []
    for i in range(8):
        if i == 4:
            optimizer.param_groups[0]["lr"] *= 0.5
        p.grad = gradients[i].clone()
        optimizer.step()
        history.append(p.detach().clone())
    emit(case, "history", torch.stack(history))
    for name in states:
        emit(case, name, optimizer.state[p][name])


def by_formula(case, step):
    """Makes the steps of `optimize` by a published formula in float64, for optimizers that torch.optim lacks."""
    p, gradients, state, history = draw(6), draw(8, 6), {}, []
    gradients[2, 3] = 0.0
    emit(case, "start", p)
    emit(case, "gradients", gradients)
    p = p.to(torch.float64)
    for i in range(8):
        p = step(p, gradients[i].to(torch.float64), state, 0.01 if i < 4 else 0.005)
        history.append(p)
    emit(case, "history", torch.stack(history))
    for name in state:
        emit(case, name, state[name])


def adam_uncorrected(p, g, state, lr):
    state["exp_avg"] = 0.9 * state.get("exp_avg", 0.0) + 0.1 * g
    state["exp_avg_sq"] = 0.999 * state.get("exp_avg_sq", 0.0) + 0.001 * g * g
    return p - lr * state["exp_avg"] / (torch.sqrt(state["exp_avg_sq"]) + 1e-8)


def adamax_uncorrected(p, g, state, lr):
    state["exp_avg"] = 0.9 * state.get("exp_avg", 0.0) + 0.1 * g
    state["exp_inf"] = torch.maximum(0.999 * state.get("exp_inf", torch.zeros_like(g)), g.abs())
    return p - lr * state["exp_avg"] / (state["exp_inf"] + 1e-8)


def sgd_combined(momentum, dampening, scaling, nesterov):
    """Returns a step of PopART's combined variant: the velocity starts from 0 and is multiplied by a scaling."""
    def step(p, g, state, lr):
        g = scaling * (g + 0.05 * p)
        velocity = state["momentum_buffer"] = momentum * state.get("momentum_buffer", 0.0) + (1 - dampening) * g
        return p - lr / scaling * (g + momentum * velocity if nesterov else velocity)
    return step


def rmsprop_tf(momentum, centered):
    """Returns a step of TensorFlow's RMSprop: epsilon is inside the root, and the learning rate inside the momentum."""
    def step(p, g, state, lr):
        state["square_avg"] = 0.9 * state.get("square_avg", 0.0) + 0.1 * g * g
        variance = state["square_avg"]
        if centered:
            state["grad_avg"] = 0.9 * state.get("grad_avg", 0.0) + 0.1 * g
            variance = variance - state["grad_avg"] ** 2
        velocity = lr * g / torch.sqrt(variance + 1e-3)
        if momentum > 0:
            velocity = velocity + momentum * state.get("momentum_buffer", 0.0)
            state["momentum_buffer"] = velocity
        return p - velocity
    return step


def lamb(beta1, beta2, epsilon, decay, most):
    """Returns a step of You et al., 2019, algorithm 2: phi is min(|w|, most)."""
    def step(p, g, state, lr):
        t = state["t"] = state.get("t", torch.zeros(())) + 1
        state["exp_avg"] = beta1 * state.get("exp_avg", 0.0) + (1 - beta1) * g
        state["exp_avg_sq"] = beta2 * state.get("exp_avg_sq", 0.0) + (1 - beta2) * g * g
        direction = state["exp_avg"] / (1 - beta1 ** t) / (torch.sqrt(state["exp_avg_sq"] / (1 - beta2 ** t)) + epsilon)
        direction = direction + decay * p
        return p - lr * min(p.norm().item(), most) / direction.norm() * direction
    return step


def optimizers():
    sgd, adam, adamw = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
    velocity = ["momentum_buffer"]
    optimize("sgd", lambda p: sgd(p, lr=0.1), [])
    optimize("sgd_decay", lambda p: sgd(p, lr=0.1, weight_decay=0.05), [])
    optimize("sgd_momentum", lambda p: sgd(p, lr=0.1, momentum=0.9, weight_decay=0.05), velocity)
    optimize("sgd_dampening", lambda p: sgd(p, lr=0.1, momentum=0.9, dampening=0.3), velocity)
    optimize("sgd_nesterov", lambda p: sgd(p, lr=0.1, momentum=0.9, weight_decay=0.05, nesterov=True), velocity)
    moments = ["exp_avg", "exp_avg_sq"]
    optimize("adam", lambda p: adam(p, lr=0.01), moments)
    optimize("adam_decay", lambda p: adam(p, lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1), moments)
    optimize("adamw", lambda p: adamw(p, lr=0.01), moments)
    optimize("adamw_decay", lambda p: adamw(p, lr=0.02, betas=(0.85, 0.99), eps=1e-6, weight_decay=0.1), moments)
    adamax, rmsprop = torch.optim.Adamax, torch.optim.RMSprop
    optimize("adamax", lambda p: adamax(p, lr=0.02), ["exp_avg", "exp_inf"])
    optimize("adamax_decay", lambda p: adamax(p, lr=0.02, betas=(0.8, 0.95), weight_decay=0.1), ["exp_avg", "exp_inf"])
    optimize("rmsprop", lambda p: rmsprop(p, lr=0.01), ["square_avg"])
    optimize("rmsprop_decay", lambda p: rmsprop(p, lr=0.01, alpha=0.9, eps=1e-4, weight_decay=0.1), ["square_avg"])
    optimize("rmsprop_momentum", lambda p: rmsprop(p, lr=0.01, momentum=0.9), ["square_avg", "momentum_buffer"])
    optimize("rmsprop_centered", lambda p: rmsprop(p, lr=0.01, centered=True), ["square_avg", "grad_avg"])
    optimize("rmsprop_all", lambda p: rmsprop(p, lr=0.01, alpha=0.95, centered=True, momentum=0.8, weight_decay=0.05),
             ["square_avg", "grad_avg", "momentum_buffer"])
    by_formula("adam_uncorrected", adam_uncorrected)
    by_formula("adamax_uncorrected", adamax_uncorrected)
    by_formula("rmsprop_tf", rmsprop_tf(0.0, False))
    by_formula("rmsprop_tf_momentum", rmsprop_tf(0.9, False))
    by_formula("rmsprop_tf_all", rmsprop_tf(0.8, True))
    by_formula("lamb", lamb(0.9, 0.999, 1e-8, 0.01, 65500.0))
    by_formula("lamb_bounded", lamb(0.8, 0.95, 1e-3, 0.1, 0.5))
    adagrad, adadelta = torch.optim.Adagrad, torch.optim.Adadelta
    optimize("adagrad", lambda p: adagrad(p, lr=0.02), ["sum"])
    optimize("adagrad_decay", lambda p: adagrad(p, lr=0.02, eps=1e-3, weight_decay=0.1), ["sum"])
    changes = ["square_avg", "acc_delta"]
    optimize("adadelta", lambda p: adadelta(p, lr=1.0), changes)
    optimize("adadelta_decay", lambda p: adadelta(p, lr=0.5, rho=0.8, eps=1e-3, weight_decay=0.1), changes)
    by_formula("sgd_combined", sgd_combined(0.9, 0.3, 3.0, False))
    by_formula("sgd_combined_nesterov", sgd_combined(0.9, 0.0, 0.7, True))


print(f"# made by tests/oracle/ops_b.py with PyTorch {torch.__version__}")
linear()
elementwise()
conversions()
reductions()
shapes()
optimizers()
sys.stdout.flush()
