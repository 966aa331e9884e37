#!/usr/bin/env python3
"""Makes gpt.txt: PyTorch's loss and gradient norm of each of 12 weight updates of a small GPT-2, written out in torch,
and the weights after them.

    python3 tests/oracle/gpt.py > tests/oracle/gpt.txt

Weights and tokens come from formulas, which tests/models/test_gpt.c also uses. The run has AdamW 0.01 with epsilon
1e-6, decay 0.1 only of matrices, gradients clipped to a norm of 1, batches of 4 sequences, and some ignored labels, in
float64. The weights are those of a second run with the rate 0.001: for a gradient of nearly zero, Adam turns a rounding
error into a step as large as the rate.
"""
import math

import torch
import torch.nn.functional as F

UPDATES, SAMPLES, LENGTH, LAYERS, HIDDEN, HEADS, POSITIONS, VOCABULARY = 12, 4, 6, 2, 8, 2, 7, 17
torch.set_default_dtype(torch.float64)


def make_weights():
    shapes = [("wte.weight", (VOCABULARY, HIDDEN)), ("wpe.weight", (POSITIONS, HIDDEN))]
    for layer in range(LAYERS):
        for name, shape in [("ln_1.weight", (HIDDEN,)), ("ln_1.bias", (HIDDEN,)),
                            ("attn.c_attn.weight", (HIDDEN, 3 * HIDDEN)), ("attn.c_attn.bias", (3 * HIDDEN,)),
                            ("attn.c_proj.weight", (HIDDEN, HIDDEN)), ("attn.c_proj.bias", (HIDDEN,)),
                            ("ln_2.weight", (HIDDEN,)), ("ln_2.bias", (HIDDEN,)),
                            ("mlp.c_fc.weight", (HIDDEN, 4 * HIDDEN)), ("mlp.c_fc.bias", (4 * HIDDEN,)),
                            ("mlp.c_proj.weight", (4 * HIDDEN, HIDDEN)), ("mlp.c_proj.bias", (HIDDEN,))]:
            shapes.append((f"h.{layer}.{name}", shape))
    shapes += [("ln_f.weight", (HIDDEN,)), ("ln_f.bias", (HIDDEN,))]
    weights = {}
    for k, (name, shape) in enumerate(shapes):
        base = 1.0 if ".weight" in name and "ln_" in name else 0.0
        count = math.prod(shape)
        values = torch.tensor([base + 0.3 * math.sin(1.37 * e + k) for e in range(count)]).float().double()
        weights[name] = values.reshape(shape).requires_grad_()
    return weights


def run(w, tokens, labels):
    x = w["wte.weight"][tokens] + w["wpe.weight"][:LENGTH]
    for layer in range(LAYERS):
        def p(name):
            return w[f"h.{layer}.{name}.weight"], w[f"h.{layer}.{name}.bias"]

        def product(y, name):
            return y @ p(name)[0] + p(name)[1]

        y = product(F.layer_norm(x, (HIDDEN,), *p("ln_1"), eps=1e-5), "attn.c_attn")
        q, k, v = (t.reshape(SAMPLES, LENGTH, HEADS, -1).transpose(1, 2) for t in y.split(HIDDEN, dim=-1))
        scores = q @ k.transpose(2, 3) / math.sqrt(HIDDEN // HEADS)
        scores = scores.masked_fill(torch.ones(LENGTH, LENGTH).triu(1).bool(), float("-inf"))
        y = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(SAMPLES, LENGTH, HIDDEN)
        x = x + product(y, "attn.c_proj")
        y = F.layer_norm(x, (HIDDEN,), *p("ln_2"), eps=1e-5)
        x = x + product(F.gelu(product(y, "mlp.c_fc"), approximate="tanh"), "mlp.c_proj")
    x = F.layer_norm(x, (HIDDEN,), w["ln_f.weight"], w["ln_f.bias"], eps=1e-5)
    return F.cross_entropy((x @ w["wte.weight"].T).reshape(-1, VOCABULARY), labels.reshape(-1))


def train(rate):
    w = make_weights()
    optimizer = torch.optim.AdamW([{"params": [t for t in w.values() if t.dim() >= 2], "weight_decay": 0.1},
                                   {"params": [t for t in w.values() if t.dim() < 2], "weight_decay": 0.0}],
                                  lr=rate, eps=1e-6)
    losses, norms = [], []
    for update in range(UPDATES):
        first = update * SAMPLES * (LENGTH + 1)
        tokens = torch.tensor([(7 * i * i + 3 * i + i // 5) % VOCABULARY
                               for i in range(first, first + SAMPLES * (LENGTH + 1))]).reshape(SAMPLES, LENGTH + 1)
        labels = tokens[:, 1:].clone()
        labels[labels == 3] = -100
        optimizer.zero_grad()
        loss = run(w, tokens[:, :-1], labels)
        loss.backward()
        norm = math.sqrt(sum(float((t.grad ** 2).sum()) for t in w.values()))
        for t in w.values():
            t.grad *= 1.0 / max(norm, 1.0)
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm)
    return losses, norms, w


def main():
    losses, norms, _ = train(0.01)
    print(f"# made by tests/oracle/gpt.py with PyTorch {torch.__version__}")
    for name, values in (("loss", losses), ("norm", norms)):
        print("gpt", name, f"[{len(values)}]", *(f"{v:.9g}" for v in values))
    for name, tensor in train(0.001)[2].items():
        values = tensor.detach().reshape(-1).tolist()
        print("trained", f"transformer.{name}", f"[{len(values)}]", *(f"{v:.9g}" for v in values))


main()
