#!/usr/bin/env python3
"""Makes dot_product_attention.txt: PyTorch's attention with masks, biases, windows, shared keys and slopes, and rotary
positions, with gradients, written with matmul, softmax, sin and cos.

    python3 tests/oracle/dot_product_attention.py > tests/oracle/dot_product_attention.txt

Each line has a tensor: case, tensor, [dims], values. Operands in0, in1, ... -> result y; seed dy -> gradients d0, d1, ...
Operands are float32 values; results are computed in float64.
"""
import math

import torch

torch.manual_seed(18)


def emit(case, name, tensor):
    dims = ",".join(str(d) for d in tensor.shape)
    values = " ".join("%.10g" % v for v in tensor.detach().to(torch.float64).flatten().tolist())
    print(f"{case} {name} [{dims}] {values}")


def draw(*dims):
    return torch.randn(*dims).to(torch.float32)


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
        emit(case, f"d{i}", o.grad)


def slopes(heads, most):
    """Returns the slopes of the paper's code, for any number of heads."""
    def powers(n):
        return [2 ** (-most * (i + 1) / n) for i in range(n)]
    if math.log2(heads).is_integer():
        return powers(heads)
    nearest = 2 ** math.floor(math.log2(heads))
    return powers(nearest) + powers(2 * nearest)[0::2][:heads - nearest]


def attention(case, samples, queries, keys, heads, key_heads, depth, causal=False, window=0, offset=0, scale=0.0,
              alibi=0.0, bias=None, mask=None):
    def apply(q, k, v, *biases):
        q = q.reshape(samples, queries, heads, depth).transpose(1, 2)
        k, v = (t.reshape(samples, keys, key_heads, depth).transpose(1, 2).repeat_interleave(heads // key_heads, 1)
                for t in (k, v))
        scores = q @ k.transpose(2, 3) * (scale or 1 / math.sqrt(depth))
        away = torch.arange(queries).unsqueeze(1) + offset - torch.arange(keys)
        if alibi:
            scores = scores - torch.tensor(slopes(heads, alibi), dtype=torch.float64).reshape(heads, 1, 1) * away.abs()
        for b in biases:
            scores = scores + b
        seen = torch.ones(samples, 1, queries, keys, dtype=torch.bool)
        if causal:
            seen &= away >= 0
        if window:
            seen &= away.abs() < window
        if mask is not None:
            seen &= mask
        is_any = seen.any(-1, keepdim=True)
        scores = scores.masked_fill(~seen & is_any, float("-inf"))
        shares = torch.where(is_any, scores.softmax(-1), torch.zeros_like(scores))
        return (shares @ v).transpose(1, 2).reshape(samples, queries, heads * depth)

    operands = [draw(samples, queries, heads * depth)] + [draw(samples, keys, key_heads * depth) for _ in range(2)]
    differentiate(case, apply, *operands, *([] if bias is None else [draw(*bias)]))


def padding(samples, keys, fewer):
    """Makes a mask in which sample n lacks the last `fewer` * n keys."""
    return torch.stack([torch.arange(keys) < keys - fewer * n for n in range(samples)]).reshape(samples, 1, 1, keys)


# Frequencies of rotary positions and the factor of rotated features, written from the papers; transformers computes the
# same in modeling_rope_utils.py and its models.
def dynamic_ntk(frequencies, features, base, s, trained, length):
    base = base * (s * max(length, trained) / trained - (s - 1)) ** (features / (features - 2))
    return base ** (-torch.arange(0, features, 2, dtype=torch.float64) / features), 1.0


def yarn(frequencies, features, base, s, trained, fast=32, slow=1):
    def find_dim(turns):
        return features * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(find_dim(fast)), 0), min(math.ceil(find_dim(slow)), features - 1)
    ramp = (torch.arange(features // 2, dtype=torch.float64) - low) / (high - low if high != low else 0.001)
    ramp = ramp.clamp(0, 1)
    return frequencies / s * ramp + frequencies * (1 - ramp), 0.1 * math.log(s) + 1


def llama3(frequencies, features, base, s, trained, low=1, high=4):
    def scale(f):
        length = 2 * math.pi / f
        if length < trained / high:
            return f
        if length > trained / low:
            return f / s
        smooth = (trained / length - low) / (high - low)
        return (1 - smooth) * f / s + smooth * f

    return torch.tensor([scale(f) for f in frequencies.tolist()], dtype=torch.float64), 1.0


def rotary(case, dims, heads, features, positions, interleaved=False, base=10000.0, scaling=1.0, stretch=None):
    def apply(x):
        depth = dims[-1] // heads
        x = x.reshape(*dims[:-1], heads, depth)
        frequencies, magnitude = base ** (-torch.arange(0, features, 2, dtype=torch.float64) / features), 1.0
        if stretch is not None:
            frequencies, magnitude = stretch(frequencies, features, base)
        angles = (positions.to(torch.float64) / scaling).unsqueeze(-1) * frequencies
        cosine, sine = magnitude * angles.cos().unsqueeze(-2), magnitude * angles.sin().unsqueeze(-2)
        turned, rest = x[..., :features], x[..., features:]
        a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
        pairs = a * cosine - b * sine, b * cosine + a * sine
        turned = torch.stack(pairs, -1).flatten(-2) if interleaved else torch.cat(pairs, -1)
        return torch.cat((turned, rest), -1).reshape(dims)

    differentiate(case, apply, draw(*dims))


print(f"# made by tests/oracle/dot_product_attention.py with PyTorch {torch.__version__}")
attention("cross", 2, 3, 5, 2, 2, 3)
attention("grouped", 2, 5, 5, 4, 2, 2, causal=True)
attention("one_key_head", 1, 4, 6, 3, 1, 4, scale=0.25)
attention("window", 1, 7, 7, 2, 2, 2, causal=True, window=3)
attention("window_both", 1, 7, 6, 2, 1, 2, window=2)
attention("last_queries", 2, 2, 6, 1, 1, 4, causal=True, offset=4)
attention("before_all", 1, 5, 4, 1, 1, 2, causal=True, offset=-2)
attention("slopes", 1, 5, 5, 3, 3, 2, causal=True, alibi=8.0)
attention("slopes_both", 1, 4, 5, 4, 2, 2, alibi=4.0, offset=1)
attention("padding", 3, 4, 6, 2, 2, 2, mask=padding(3, 6, 2))
attention("nothing_seen", 3, 4, 6, 2, 2, 2, mask=padding(3, 6, 3))
attention("bias", 2, 3, 4, 2, 2, 2, bias=(2, 2, 3, 4))
attention("bias_of_heads", 2, 3, 4, 2, 1, 2, bias=(1, 2, 3, 4), causal=True)
attention("bias_of_samples", 2, 3, 4, 2, 2, 2, bias=(2, 1, 3, 4), alibi=8.0)
attention("bias_of_keys", 2, 3, 4, 2, 2, 2, bias=(4,))
attention("deep", 1, 2, 3, 1, 1, 70)
rotary("halves", (2, 5, 12), 2, 6, torch.arange(5))
rotary("interleaved", (2, 5, 12), 2, 6, torch.arange(5), interleaved=True)
rotary("partly", (4, 16), 2, 4, torch.arange(4), base=500000.0)
rotary("placed", (5, 6), 1, 6, torch.tensor([3, 0, 700, 2, 5]), scaling=2.5)
rotary("placed_apart", (2, 3, 4), 1, 4, torch.tensor([[3, 0, 70], [2, 5, -1]]), interleaved=True)
far = torch.tensor([0, 1, 30, 500])
rotary("ntk", (4, 8), 1, 8, far, stretch=lambda f, n, b: ((b * 4 ** (n / (n - 2))) ** (-torch.arange(0, n, 2, dtype=torch.float64) / n), 1.0))
rotary("dynamic_ntk", (4, 8), 1, 8, far, stretch=lambda f, n, b: dynamic_ntk(f, n, b, 2, 128, 500))
rotary("yarn", (4, 32), 2, 16, far, stretch=lambda f, n, b: yarn(f, n, b, 8, 512))
rotary("yarn_interleaved", (4, 32), 2, 16, far, True, stretch=lambda f, n, b: yarn(f, n, b, 4, 256, 16, 2))
rotary("llama3", (4, 32), 1, 32, far, base=500000.0, stretch=lambda f, n, b: llama3(f, n, b, 8, 512))
rotary("llama3_interleaved", (4, 32), 1, 32, far, True, stretch=lambda f, n, b: llama3(f, n, b, 4, 128, 2, 6))
