#!/usr/bin/env python3
"""Measures PyTorch for bench/ops.sh: forward and backward of single ops.

Reads lines `THREADS MILLISECONDS op dim...` as `build/bench/ops --list` prints them. For each line it prints the
microseconds of the best run within that time, or `-` for ops that PyTorch does not have. Gradients come from
torch.autograd.grad with a given gradient of the result, so that only the op itself is timed.
"""
import sys
import time

import torch
import torch.nn.functional as F


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def with_gradient(op, *inputs):
    """Returns a run: `op` of the inputs, then the gradients of inputs that need one."""
    wanted = [x for x in inputs if x.requires_grad]
    dy = torch.randn_like(op(*inputs))

    def run():
        torch.autograd.grad(op(*inputs), wanted, dy)

    return run


def conv(n, c, h, w, o, k, s, p, g):
    x = torch.randn(n, c, h, w, requires_grad=c != 3)
    return with_gradient(lambda x, w: F.conv2d(x, w, None, s, p, 1, g), x, leaf(o, c // g, k, k))


def conv_bfloat16(n, c, h, w, o, k, s, p, g):
    x, f = (torch.randn(*shape).bfloat16().to(memory_format=torch.channels_last).requires_grad_()
            for shape in ((n, c, h, w), (o, c // g, k, k)))
    return with_gradient(lambda x, f: F.conv2d(x, f, None, s, p, 1, g), x, f)


def conv_transpose(n, c, h, w, o, k, s, p, g):
    return with_gradient(lambda x, w: F.conv_transpose2d(x, w, None, s, p, 0, g), leaf(n, c, h, w), leaf(c, o // g, k, k))


def interpolate(n, c, h, w, oh, ow, mode, *_):
    mode = ("nearest", "bilinear", "bicubic", "area")[mode]
    return with_gradient(lambda x: F.interpolate(x, (oh, ow), mode=mode), leaf(n, c, h, w))


def batch_norm(n, c, h, w, *_):
    mean, variance = torch.zeros(c), torch.ones(c)
    return with_gradient(lambda x, a, b: F.batch_norm(x, mean, variance, a, b, True, 0.1, 1e-5), leaf(n, c, h, w), leaf(c), leaf(c))


def cross_entropy(rows, classes, *_):
    labels = torch.randint(0, classes, (rows,))
    return with_gradient(lambda x: F.cross_entropy(x, labels), leaf(rows, classes))


def smooth_loss(rows, classes, *_):
    labels = torch.randint(0, classes, (rows,))
    return with_gradient(lambda x: F.cross_entropy(x, labels, label_smoothing=0.1), leaf(rows, classes))


def nll_loss(rows, classes, *_):
    labels = torch.randint(0, classes, (rows,))
    return with_gradient(lambda x: F.nll_loss(x, labels), leaf(rows, classes))


def embedding(rows, columns, ids, *_):
    ids = torch.randint(0, rows, (ids,))
    return with_gradient(lambda table: F.embedding(ids, table), leaf(rows, columns))


def transpose(a, b, c, first, d, *_):
    dims = (1, 0, 2, 3) if first == 0 else (0, 2, 1, 3)
    back = torch.randn(a, b, c, d).permute(dims).contiguous()
    x = torch.randn(a, b, c, d)

    def run():  # the gradient is the same copy; autograd would return a view
        x.permute(dims).contiguous()
        back.permute(dims).contiguous()

    return run


def causal_attention(n, length, heads, width, dtype):
    mask = torch.ones(length, length, dtype=torch.bool).triu(1)

    def op(qkv):
        q, k, v = (t.view(n, length, heads, width).transpose(1, 2) for t in qkv.split(heads * width, 2))
        scores = (q @ k.transpose(2, 3) * 0.125).masked_fill(mask, float("-inf"))
        return (scores.softmax(3) @ v).transpose(1, 2).reshape(n, length, heads * width)

    return with_gradient(op, leaf(n, length, 3 * heads * width).detach().to(dtype).requires_grad_())


def attention(n, length, heads, width, *_):
    return causal_attention(n, length, heads, width, torch.float32)


def attention_bfloat16(n, length, heads, width, *_):
    return causal_attention(n, length, heads, width, torch.bfloat16)


def dot_product_attention(n, queries, keys, heads, key_heads, width, kind, *_):
    bias = torch.randn(1, heads, queries, keys, requires_grad=True)
    away = torch.arange(queries).unsqueeze(1) - torch.arange(keys)
    unseen = {1: (torch.arange(keys) >= keys - 4 * torch.arange(n).unsqueeze(1)).view(n, 1, 1, keys), 3: away < 0,
              4: (away < 0) | (away >= 64)}.get(kind)

    def op(q, k, v, *biases):
        q = q.view(n, queries, heads, width).transpose(1, 2)
        k, v = (t.view(n, keys, key_heads, width).transpose(1, 2) for t in (k, v))
        if heads != key_heads:
            k, v = (t.repeat_interleave(heads // key_heads, 1) for t in (k, v))
        scores = q @ k.transpose(2, 3) * 0.125
        if biases:
            scores = scores + biases[0]
        if unseen is not None:
            scores = scores.masked_fill(unseen, float("-inf"))
        return (scores.softmax(3) @ v).transpose(1, 2).reshape(n, queries, heads * width)

    return with_gradient(op, leaf(n, queries, heads * width), leaf(n, keys, key_heads * width), leaf(n, keys, key_heads * width),
                         *([bias] if kind == 2 else []))


def rotary(n, length, heads, width, *_):
    angles = torch.arange(length).unsqueeze(1) * 10000.0 ** (-torch.arange(0, width, 2) / width)
    cosine, sine = (torch.cat((t, t), 1).view(length, 1, width) for t in (angles.cos(), angles.sin()))

    def op(x):
        x = x.view(n, length, heads, width)
        a, b = x.chunk(2, -1)
        return (x * cosine + torch.cat((-b, a), -1) * sine).view(n, length, heads * width)

    return with_gradient(op, leaf(n, length, heads * width))


def recurrent(kind, steps, samples, features, width, *_):
    module = kind(features, width)
    return with_gradient(lambda x, *weights: module(x)[0], leaf(steps, samples, features), *module.parameters())


def rms_norm(rows, columns, *_):
    def op(x, gamma):
        return x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-6) * gamma

    return with_gradient(op, leaf(rows, columns), leaf(columns))


def bce_loss(count, *_):
    target = torch.randint(0, 2, (count,)).float()
    return with_gradient(lambda x: F.binary_cross_entropy_with_logits(x, target), leaf(count))


def mse_loss(count, *_):
    target = torch.randn(count)
    return with_gradient(lambda x: F.mse_loss(x, target), leaf(count))


def where(count, *_):
    condition = torch.randint(0, 2, (count,)).bool()
    return with_gradient(lambda a, b: torch.where(condition, a, b), leaf(count), leaf(count))


def gather(rows, columns, ids, *_):
    ids = torch.randint(0, rows, (ids,))
    return with_gradient(lambda x: x.index_select(0, ids), leaf(rows, columns))


def ctc(samples, steps, classes, targets, *_):
    x = torch.randn(steps, samples, classes).log_softmax(2).requires_grad_()
    labels = torch.randint(1, classes, (samples, targets))
    lengths, label_lengths = torch.full((samples,), steps), torch.full((samples,), targets)
    return with_gradient(lambda x: F.ctc_loss(x, labels, lengths, label_lengths, reduction="none"), x)


def function(op, is_positive=False):
    """An elementwise function, with numbers 0.1 .. 1.1 if it needs positive ones."""
    return lambda n, *_: with_gradient(op, (torch.rand(n) + 0.1).requires_grad_() if is_positive else leaf(n))


def without_gradient(op, *inputs):
    return lambda: op(*inputs)


def block(op, count=1):
    """Makes a case of tensors with three dims."""
    return lambda a, b, c, *_: with_gradient(op, *(leaf(a, b, c) for _ in range(count)))


def slice_of(a, b, c, *_):
    x, dy = torch.randn(a, b, c), torch.randn(a, b - b // 4, c)

    def run():  # the gradient is zeros and a copy
        x[:, b // 4:].contiguous()
        dx = torch.zeros(a, b, c)
        dx[:, b // 4:] = dy

    return run


def broadcast(a, b, c, *_):
    x, dy = torch.randn(a, 1, c), torch.randn(a, b, c)

    def run():
        x.expand(a, b, c).contiguous()
        dy.sum(1, keepdim=True)

    return run


def pads(mode):
    return lambda n, c, h, w, p, *_: with_gradient(lambda x: F.pad(x, (p, p, p, p), mode), leaf(n, c, h, w))


def scatter_add(rows, columns, count, *_):
    ids = torch.randint(0, rows, (count,))
    return with_gradient(lambda x, u: x.index_add(0, ids, u), leaf(rows, columns), leaf(count, columns))


def gather_elements(rows, columns, count, *_):
    ids = torch.randint(0, columns, (rows, count))
    return with_gradient(lambda x: x.gather(1, ids), leaf(rows, columns))


def scatter_elements_add(rows, columns, count, *_):
    ids = torch.randint(0, columns, (rows, count))
    return with_gradient(lambda x, u: x.scatter_add(1, ids, u), leaf(rows, columns), leaf(rows, count))


def group_norm(n, c, edge, groups, *_):
    return with_gradient(lambda x, a, b: F.group_norm(x, groups, a, b), leaf(n, c, edge, edge), leaf(c), leaf(c))


def einsum(n, heads, length, width, *_):
    return with_gradient(lambda a, b: torch.einsum("bhqd,bhkd->bhqk", a, b), leaf(n, heads, length, width),
                         leaf(n, heads, length, width))


def attention_cached(n, length, heads, key_heads, width, *_):
    q, k, v = torch.randn(n, 1, heads, width), torch.randn(n, 1, key_heads, width), torch.randn(n, 1, key_heads, width)
    keys, values = torch.randn(n, length, key_heads, width), torch.randn(n, length, key_heads, width)

    @torch.no_grad()
    def run():
        keys[:, -1:], values[:, -1:] = k, v
        k_all, v_all = keys.transpose(1, 2), values.transpose(1, 2)
        if heads != key_heads:
            k_all, v_all = (t.repeat_interleave(heads // key_heads, 1) for t in (k_all, v_all))
        scores = q.transpose(1, 2) @ k_all.transpose(2, 3) * width**-0.5
        (scores.softmax(3) @ v_all).transpose(1, 2).reshape(n, 1, heads * width)

    return run


def pointwise(loss, is_positive=False):
    def make(count, *_):
        target = torch.rand(count) + 0.1 if is_positive else torch.randn(count)
        return with_gradient(lambda x: loss(x, target), leaf(count))

    return make


def bce(count, *_):
    target = torch.rand(count)
    return with_gradient(lambda x: F.binary_cross_entropy(x.clamp(0.05, 0.95), target), leaf(count))


def cosine_embedding_loss(rows, columns, *_):
    signs = torch.randint(0, 2, (rows,)) * 2 - 1
    return with_gradient(lambda a, b: F.cosine_embedding_loss(a, b, signs), leaf(rows, columns), leaf(rows, columns))


def weighted_loss(rows, classes, *_):
    labels, weights = torch.randint(0, classes, (rows,)), torch.rand(classes) + 0.1
    return with_gradient(lambda x: F.cross_entropy(x, labels, weights), leaf(rows, classes))


def total(a, b, c, *_):
    x, dy, dx = torch.randn(a, b, c), torch.randn(a, 1, c), torch.empty(a, b, c)

    def run():  # the gradient is copied, as in Brigade; autograd would return a view
        x.sum(1, keepdim=True)
        dx.copy_(dy.expand(a, b, c))

    return run


def update(make, count):
    weights = leaf(count)
    weights.grad = torch.randn(count)
    return make([weights]).step


OPS = {
    "avg_pool": lambda n, c, h, w, k, s, p, *_: with_gradient(lambda x: F.avg_pool2d(x, k, s, p), leaf(n, c, h, w)),
    "max_pool": lambda n, c, h, w, k, s, p, *_: with_gradient(lambda x: F.max_pool2d(x, k, s, p), leaf(n, c, h, w)),
    "batch_norm": batch_norm,
    "conv": conv,
    "conv_transpose": conv_transpose,
    "interpolate": interpolate,
    "smooth_loss": smooth_loss,
    "nll_loss": nll_loss,
    "relu": lambda n, *_: with_gradient(F.relu, leaf(n)),
    "gelu": lambda n, *_: with_gradient(F.gelu, leaf(n)),
    "tanh": lambda n, *_: with_gradient(torch.tanh, leaf(n)),
    "sigmoid": lambda n, *_: with_gradient(torch.sigmoid, leaf(n)),
    "exp": lambda n, *_: with_gradient(torch.exp, leaf(n)),
    "add": lambda n, *_: with_gradient(torch.add, leaf(n), leaf(n)),
    "mul": lambda n, *_: with_gradient(torch.mul, leaf(n), leaf(n)),
    "maximum": lambda n, *_: with_gradient(torch.maximum, leaf(n), leaf(n)),
    "dropout": lambda n, *_: with_gradient(lambda x: F.dropout(x, 0.1), leaf(n)),
    "bias": lambda r, c, *_: with_gradient(torch.add, leaf(r, c), leaf(c)),
    "layer_norm": lambda r, c, *_: with_gradient(lambda x, a, b: F.layer_norm(x, (c,), a, b), leaf(r, c), leaf(c), leaf(c)),
    "softmax": lambda r, c, *_: with_gradient(lambda x: F.softmax(x, 1), leaf(r, c)),
    "log_softmax": lambda r, c, *_: with_gradient(lambda x: F.log_softmax(x, 1), leaf(r, c)),
    "cross_entropy": cross_entropy,
    "sum": total,
    "mean": lambda a, b, c, *_: with_gradient(lambda x: x.mean(1, keepdim=True), leaf(a, b, c)),
    "max": lambda a, b, c, *_: with_gradient(lambda x: x.max(1, keepdim=True)[0], leaf(a, b, c)),
    "transpose": transpose,
    "embedding": embedding,
    "linear": lambda r, i, o, *_: with_gradient(F.linear, leaf(r, i), leaf(o, i), leaf(o)),
    "matmul": lambda b, m, k, n, *_: with_gradient(torch.matmul, leaf(b, m, k), leaf(b, k, n)),
    "attention": attention,
    "attention_bfloat16": attention_bfloat16,
    "conv_bfloat16": conv_bfloat16,
    "dot_product_attention": dot_product_attention,
    "rotary": rotary,
    "lstm": lambda *dims: recurrent(torch.nn.LSTM, *dims),
    "gru": lambda *dims: recurrent(torch.nn.GRU, *dims),
    "rnn": lambda *dims: recurrent(torch.nn.RNN, *dims),
    "rms_norm": rms_norm,
    "cumulative_sum": lambda r, c, *_: with_gradient(lambda x: x.cumsum(1), leaf(r, c)),
    "mse_loss": mse_loss,
    "bce_loss": bce_loss,
    "where": where,
    "gather": gather,
    "pad": lambda n, c, h, w, p, *_: with_gradient(lambda x: F.pad(x, (p, p, p, p), "reflect"), leaf(n, c, h, w)),
    "ctc": ctc,
    "silu": function(F.silu),
    "gelu_tanh": function(lambda x: F.gelu(x, approximate="tanh")),
    "mish": function(F.mish),
    "softsign": function(F.softsign),
    "softplus": function(F.softplus),
    "log_sigmoid": function(F.logsigmoid),
    "elu": function(F.elu),
    "leaky_relu": function(F.leaky_relu),
    "hard_sigmoid": function(F.hardsigmoid),
    "hard_swish": function(F.hardswish),
    "clamp": function(lambda x: x.clamp(0.0, 1.0)),
    "expm1": function(torch.expm1),
    "log": function(torch.log, True),
    "log1p": function(torch.log1p, True),
    "sqrt": function(torch.sqrt, True),
    "rsqrt": function(torch.rsqrt, True),
    "square": function(torch.square),
    "reciprocal": function(torch.reciprocal, True),
    "negate": function(torch.neg),
    "abs": function(torch.abs),
    "sign": function(torch.sign),
    "round": function(torch.round),
    "floor": function(torch.floor),
    "ceil": function(torch.ceil),
    "trunc": function(torch.trunc),
    "erf": function(torch.erf),
    "sin": function(torch.sin),
    "cos": function(torch.cos),
    "pow": function(lambda x: x.pow(3.0)),
    "subtract": lambda n, *_: with_gradient(torch.sub, leaf(n), leaf(n)),
    "divide": lambda n, *_: with_gradient(torch.div, leaf(n), leaf(n)),
    "minimum": lambda n, *_: with_gradient(torch.minimum, leaf(n), leaf(n)),
    "scale": function(lambda x: x * 1.5 + 0.25),
    "cast": function(lambda x: x.to(torch.bfloat16)),
    "compare": lambda n, *_: without_gradient(torch.lt, torch.randn(n), torch.randn(n)),
    "logical_and": lambda n, *_: without_gradient(torch.logical_and, torch.rand(n) < 0.5, torch.rand(n) < 0.5),
    "prelu": lambda a, b, c, *_: with_gradient(F.prelu, leaf(a, b, c), leaf(b)),
    "triangle": block(torch.tril),
    "slice": slice_of,
    "concat": block(lambda a, b: torch.cat((a, b), 1), 2),
    "stack": block(lambda a, b: torch.stack((a, b), 1), 2),
    "tile": block(lambda x: x.tile((1, 4, 1))),
    "roll": lambda a, b, c, *_: with_gradient(lambda x: x.roll(b // 3, 1), leaf(a, b, c)),
    "flip": block(lambda x: x.flip(1)),
    "broadcast": broadcast,
    "conv1d": lambda n, c, l, o, k, *_: with_gradient(lambda x, w: F.conv1d(x, w, None, 1, k // 2), leaf(n, c, l), leaf(o, c, k)),
    "conv3d": lambda n, c, e, o, k, *_: with_gradient(lambda x, w: F.conv3d(x, w, None, 1, k // 2), leaf(n, c, e, e, e),
                                                      leaf(o, c, k, k, k)),
    "max_pool1d": lambda n, c, l, k, *_: with_gradient(lambda x: F.max_pool1d(x, k), leaf(n, c, l)),
    "max_pool3d": lambda n, c, e, k, *_: with_gradient(lambda x: F.max_pool3d(x, k), leaf(n, c, e, e, e)),
    "adaptive_avg_pool": lambda n, c, e, o, *_: with_gradient(lambda x: F.adaptive_avg_pool2d(x, o), leaf(n, c, e, e)),
    "adaptive_max_pool": lambda n, c, e, o, *_: with_gradient(lambda x: F.adaptive_max_pool2d(x, o), leaf(n, c, e, e)),
    "pad_constant": pads("constant"),
    "pad_replicate": pads("replicate"),
    "scatter_add": scatter_add,
    "gather_elements": gather_elements,
    "scatter_elements_add": scatter_elements_add,
    "one_hot": lambda n, c, *_: without_gradient(F.one_hot, torch.randint(0, c, (n,)), c),
    "top_k": lambda r, c, k, *_: with_gradient(lambda x: x.topk(k)[0], leaf(r, c)),
    "argmax": lambda r, c, *_: without_gradient(lambda x: x.argmax(1), torch.randn(r, c)),
    "group_norm": group_norm,
    "einsum": einsum,
    "attention_cached": attention_cached,
    "l1_loss": pointwise(F.l1_loss),
    "smooth_l1_loss": pointwise(F.smooth_l1_loss),
    "huber_loss": pointwise(F.huber_loss),
    "bce": bce,
    "kl_div": pointwise(lambda x, t: F.kl_div(x, t, reduction="mean"), True),
    "cosine_similarity": lambda r, c, *_: with_gradient(lambda a, b: F.cosine_similarity(a, b, 1), leaf(r, c), leaf(r, c)),
    "cosine_embedding_loss": cosine_embedding_loss,
    "weighted_loss": weighted_loss,
    "adamw": lambda n, *_: update(lambda w: torch.optim.AdamW(w, lr=1e-3), n),
    "sgd": lambda n, *_: update(lambda w: torch.optim.SGD(w, lr=1e-3, momentum=0.9), n),
}


def best(run, milliseconds):
    for _ in range(2):
        run()
    end, least = time.perf_counter() + milliseconds * 1e-3, float("inf")
    while True:
        start = time.perf_counter()
        run()
        now = time.perf_counter()
        least = min(least, now - start)
        if now > end:
            return least * 1e6


def main():
    torch.manual_seed(0)
    made = {}
    for line in sys.stdin:
        threads, milliseconds, op, *dims = line.split()
        torch.set_num_threads(int(threads))
        key = (op, *dims)
        if key not in made:
            made.clear()  # only one case at a time is in memory
            made[key] = OPS[op](*(int(d) for d in dims)) if op in OPS else None
        print("-" if made[key] is None else f"{best(made[key], float(milliseconds)):.3f}", flush=True)


if __name__ == "__main__":
    main()
