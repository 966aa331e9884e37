"""Times GPT-2's training step in PyTorch, for bench/gpt.sh: prints a line `step SECONDS` for each step. The model, the loss and
the optimizer are those of bench/gpt.c: no dropout, AdamW, tied embedding.

usage: gpt_torch.py THREADS STEPS LAYERS VOCABULARY [bfloat16]
"""
import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

threads, steps, layers, vocabulary = (int(a) for a in sys.argv[1:5])
autocast = len(sys.argv) > 5 and sys.argv[5] == "bfloat16"
hidden, heads, batch, length = 768, 12, 4, 256
torch.set_num_threads(threads)
torch.manual_seed(1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.c_attn, self.c_proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.c_fc, self.c_out = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.register_buffer("mask", torch.ones(length, length, dtype=torch.bool).triu(1))

    def forward(self, x):
        q, k, v = (t.view(batch, length, heads, -1).transpose(1, 2) for t in self.c_attn(self.ln_1(x)).split(hidden, 2))
        scores = (q @ k.transpose(2, 3)) / math.sqrt(hidden // heads)
        y = scores.masked_fill(self.mask, -math.inf).softmax(3) @ v
        x = x + self.c_proj(y.transpose(1, 2).reshape(batch, length, hidden))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, hidden), nn.Embedding(1024, hidden)
        self.layers = nn.Sequential(*(Layer() for _ in range(layers)))
        self.ln_f, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, vocabulary, bias=False)
        self.head.weight = self.wte.weight
        nn.init.normal_(self.wte.weight, std=0.02)

    def forward(self, tokens, labels):
        x = self.wte(tokens) + self.wpe(torch.arange(length))
        return F.cross_entropy(self.head(self.ln_f(self.layers(x))).view(-1, vocabulary), labels.view(-1))


model = Gpt()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
tokens = torch.randint(vocabulary, (batch, length + 1))
for step in range(steps + 1):  # the first step does not count
    begin = time.perf_counter()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        loss = model(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step > 0:
        print(f"step {time.perf_counter() - begin:.6f}", flush=True)
