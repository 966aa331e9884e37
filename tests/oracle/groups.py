#!/usr/bin/env python3
"""Makes groups.txt: a small network that trains with PyTorch's parameter groups, which have separate rates and decays
or are frozen, and with gradients clipped by value.

    python3 tests/oracle/groups.py > tests/oracle/groups.txt
"""
import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(20)


def emit(case, name, tensor):
    dims = ",".join(str(d) for d in tensor.shape)
    print(f"{case} {name} [{dims}] " + " ".join("%.12g" % v for v in tensor.detach().flatten().tolist()))


print(f"# made by tests/oracle/groups.py with PyTorch {torch.__version__}")
x = torch.randn(8, 3).float().double()
layers = [torch.nn.Linear(3, 5), torch.nn.Linear(5, 5), torch.nn.Linear(5, 1)]
start = [(layer.weight.detach().float().double(), layer.bias.detach().float().double()) for layer in layers]
emit("start", "x", x)
for i, (w, b) in enumerate(start):
    emit("start", f"fc{i + 1}.weight", w)
    emit("start", f"fc{i + 1}.bias", b)
for case, make in (("clipped", lambda groups: torch.optim.SGD([{"params": g["params"], "lr": g.get("lr", 0.1)} for g in groups], lr=0.1)),
                   ("sgd", lambda groups: torch.optim.SGD(groups, lr=0.1, weight_decay=0.05, momentum=0.9)),
                   ("adamw", lambda groups: torch.optim.AdamW(groups, lr=0.02, weight_decay=0.1))):
    with torch.no_grad():
        for layer, (w, b) in zip(layers, start):
            layer.weight.copy_(w)
            layer.bias.copy_(b)
    rate, decay = (0.02, 0.1) if case == "adamw" else (0.1, 0.05)
    o = make([{"params": [layers[0].bias, layers[2].bias], "weight_decay": 0.0},
              {"params": [layers[1].weight], "lr": 0.5 * rate, "weight_decay": 2.0 * decay},
              {"params": [layers[2].weight]}])
    for _ in range(4):
        o.zero_grad()
        h = torch.tanh(layers[1](torch.tanh(layers[0](x))))
        (layers[2](h) - 1).square().mean().backward()
        if case == "clipped":
            torch.nn.utils.clip_grad_value_([p for layer in layers for p in layer.parameters()], 0.01)
        o.step()
    for i, layer in enumerate(layers):
        emit(case, f"fc{i + 1}.weight", layer.weight)
        emit(case, f"fc{i + 1}.bias", layer.bias)
