#!/usr/bin/env python3
"""Makes recurrent.txt: results and gradients of PyTorch's LSTM, GRU and RNN modules, and the training of a small model.

    python3 tests/oracle/recurrent.py > tests/oracle/recurrent.txt

Each line has a tensor: case, tensor, [dims], values. Operands x, h0, c0 and the modules' parameters by name -> y, h, c;
seeds dy, dh, dc -> gradients: d and the operand's name. Operands are float32 values; results are computed in float64.
"""
import torch

torch.manual_seed(19)


def emit(case, name, tensor):
    dims = ",".join(str(d) for d in tensor.shape)
    values = " ".join("%.10g" % v for v in tensor.detach().to(torch.float64).flatten().tolist())
    print(f"{case} {name} [{dims}] {values}")


def draw(*dims):
    return torch.randn(*dims).to(torch.float32).to(torch.float64).requires_grad_()


def recur(case, kind, steps, samples, features, width, given=True, lengths=None, **options):
    module = kind(features, width, **options).double()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(p.to(torch.float32))
    states = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    x = draw(*((samples, steps) if options.get("batch_first") else (steps, samples)), features)
    first = {name: draw(states, samples, width) for name in (("h0", "c0") if kind is torch.nn.LSTM else ("h0",))}
    hx = tuple(first.values()) if len(first) == 2 else first["h0"]
    packed = x
    if lengths is not None:
        emit(case, "lengths", torch.tensor(lengths))
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), options.get("batch_first", False),
                                                         enforce_sorted=False)
    y, last = module(packed, hx) if given else module(packed)
    if lengths is not None:
        y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, options.get("batch_first", False), total_length=steps)
    results = dict(zip(("y", "h", "c"), (y, *last) if kind is torch.nn.LSTM else (y, last)))
    seeds = {name: draw(*t.shape).detach() for name, t in results.items()}
    sum((results[name] * seeds[name]).sum() for name in results).backward()
    operands = {"x": x, **(first if given else {}), **dict(module.named_parameters())}
    for name, t in operands.items():
        emit(case, name, t)
        emit(case, "d" + name, t.grad)
    for name, t in results.items():
        emit(case, name, t)
        emit(case, "d" + name, seeds[name])


print(f"# made by tests/oracle/recurrent.py with PyTorch {torch.__version__}")
for kind in (torch.nn.LSTM, torch.nn.GRU):
    name = kind.__name__.lower()
    recur(f"{name}_plain", kind, 4, 3, 5, 2)
    recur(f"{name}_zeros", kind, 3, 2, 3, 4, given=False, bias=False)
    recur(f"{name}_one_step", kind, 1, 2, 3, 2, batch_first=True)
    recur(f"{name}_deep", kind, 3, 2, 3, 2, num_layers=2, bidirectional=True)
    recur(f"{name}_batch", kind, 3, 2, 3, 2, num_layers=2, bidirectional=True, batch_first=True)
recur("rnn_plain", torch.nn.RNN, 4, 3, 5, 2)
recur("rnn_zeros", torch.nn.RNN, 3, 2, 3, 4, given=False, bias=False, nonlinearity="relu")
recur("rnn_deep", torch.nn.RNN, 3, 2, 3, 2, num_layers=2, bidirectional=True)
recur("rnn_batch", torch.nn.RNN, 3, 2, 3, 2, num_layers=2, bidirectional=True, batch_first=True, nonlinearity="relu")
lengths = [3, 5, 1, 4]
recur("lstm_lengths", torch.nn.LSTM, 6, 4, 3, 2, lengths=lengths, num_layers=2, bidirectional=True)
recur("lstm_lengths_batch", torch.nn.LSTM, 5, 4, 3, 2, lengths=lengths, bidirectional=True, batch_first=True)
recur("gru_lengths", torch.nn.GRU, 5, 4, 3, 2, given=False, lengths=lengths, num_layers=2, bidirectional=True)
recur("rnn_lengths", torch.nn.RNN, 5, 4, 3, 2, lengths=lengths, bidirectional=True, batch_first=True)
