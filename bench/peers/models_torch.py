#!/usr/bin/env python3
"""Times bench/models.c's models in PyTorch, for bench/models.sh: prints a line `step SECONDS` for each step.

usage: models_torch.py unet|lstm|bert|llama|vit|gpt BATCH THREADS STEPS
"""
import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

network = sys.argv[1]
batch, threads, steps = (int(a) for a in sys.argv[2:5])
torch.set_num_threads(threads)
torch.manual_seed(1)


class Pair(nn.Module):
    def __init__(self, before, channels):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(before, channels, 3, 1, 1), nn.Conv2d(channels, channels, 3, 1, 1)
        self.norm1, self.norm2 = nn.GroupNorm(channels // 4, channels), nn.GroupNorm(channels // 4, channels)

    def forward(self, x):
        return F.silu(self.norm2(self.conv2(F.silu(self.norm1(self.conv1(x))))))


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.bottom = Pair(1, 32), Pair(32, 64), Pair(64, 128)
        self.wider2, self.up2 = nn.ConvTranspose2d(128, 64, 2, 2), Pair(128, 64)
        self.wider1, self.up1 = nn.ConvTranspose2d(64, 32, 2, 2), Pair(64, 32)
        self.out = nn.Conv2d(32, 1, 1)

    def forward(self, images, wanted):
        first = self.down1(images)
        second = self.down2(F.max_pool2d(first, 2))
        x = self.up2(torch.cat([second, self.wider2(self.bottom(F.max_pool2d(second, 2)))], 1))
        x = self.up1(torch.cat([first, self.wider1(x)], 1))
        return F.binary_cross_entropy_with_logits(self.out(x), wanted)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(64, 256, 2, batch_first=True), nn.Linear(256, 10)

    def forward(self, x, labels):
        return F.cross_entropy(self.out(self.lstm(x)[0][:, -1]), labels)


def attend(q, k, v, mask, heads):
    q, k, v = (x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3]) + mask
    return (torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2)


class BertLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x, mask):
        x = self.norm1(x + self.out(attend(self.query(x), self.key(x), self.value(x), mask, 4)))
        return self.norm2(x + self.fc2(F.gelu(self.fc1(x))))


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(30522, 256), nn.Embedding(128, 256)
        nn.init.normal_(self.words.weight, std=0.02)
        self.norm, self.head = nn.LayerNorm(256), nn.Linear(256, 256)
        self.layers = nn.ModuleList(BertLayer(256) for _ in range(4))

    def forward(self, tokens, mask, labels):
        hidden = torch.zeros(mask.shape).masked_fill(mask == 0, -math.inf)[:, None, None, :]
        x = self.norm(self.words(tokens) + self.places.weight)
        for layer in self.layers:
            x = layer(x, hidden)
        logits = F.linear(F.gelu(self.head(x)), self.words.weight)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight


class LlamaLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.ffn_norm = RmsNorm(768), RmsNorm(768)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(768, 768, bias=False) for _ in range(4))
        self.w1, self.w3 = nn.Linear(768, 2048, bias=False), nn.Linear(768, 2048, bias=False)
        self.w2 = nn.Linear(2048, 768, bias=False)

    @staticmethod
    def turn(x, cos, sin):
        a, b = x.view(*x.shape[:2], 12, 64).chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).flatten(2)

    def forward(self, x, cos, sin, mask):
        y = self.attention_norm(x)
        q, k = self.turn(self.wq(y), cos, sin), self.turn(self.wk(y), cos, sin)
        x = x + self.wo(attend(q, k, self.wv(y), mask, 12))
        y = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings, self.norm = nn.Embedding(32000, 768), RmsNorm(768)
        nn.init.normal_(self.tok_embeddings.weight, std=0.02)
        self.layers = nn.ModuleList(LlamaLayer() for _ in range(12))
        angles = torch.arange(256)[:, None] * 10000.0 ** (-torch.arange(32) / 32)
        self.cos, self.sin = angles.cos()[:, None, :], angles.sin()[:, None, :]
        self.mask = torch.full((256, 256), -math.inf).triu(1)

    def forward(self, tokens, following):
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin, self.mask)
        return F.cross_entropy(F.linear(self.norm(x), self.tok_embeddings.weight).flatten(0, 1), following.flatten())


class Layer(nn.Module):
    """A pre-norm layer of attention and two linear layers, for Vit and Gpt."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        x = x + self.out(attend(*self.qkv(self.norm1(x)).chunk(3, -1), mask, self.heads))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.head = nn.Conv2d(3, 384, 16, 16), nn.Linear(384, 1000)
        self.token, self.places = nn.Parameter(torch.randn(1, 1, 384)), nn.Parameter(torch.randn(1, 197, 384))
        self.layers, self.norm = nn.ModuleList(Layer(384, 6) for _ in range(12)), nn.LayerNorm(384)

    def forward(self, images, labels):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        for layer in self.layers:
            x = layer(x, 0.0)
        return F.cross_entropy(self.head(self.norm(x)[:, 0]), labels)


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(256, 128), nn.Embedding(64, 128)
        nn.init.normal_(self.words.weight, std=0.02)
        self.layers, self.norm = nn.ModuleList(Layer(128, 4) for _ in range(4)), nn.LayerNorm(128)
        self.mask = torch.full((64, 64), -math.inf).triu(1)

    def forward(self, tokens, following):
        x = self.words(tokens) + self.places.weight
        for layer in self.layers:
            x = layer(x, self.mask)
        return F.cross_entropy(F.linear(self.norm(x), self.words.weight).flatten(0, 1), following.flatten())


if network == "unet":
    model, data = Unet(), (torch.randn(batch, 1, 64, 64), torch.randint(2, (batch, 1, 64, 64)).float())
elif network == "lstm":
    model, data = Lstm(), (torch.randn(batch, 256, 64), torch.randint(10, (batch,)))
elif network == "bert":
    lengths = 32 + torch.arange(batch) * 29 % 97
    mask = torch.arange(128)[None, :] < lengths[:, None]
    words = torch.randint(30522, (batch, 128))
    labels = words.masked_fill((torch.arange(batch * 128).view(batch, 128) % 7 != 0) | ~mask, -100)
    model, data = Bert(), (words, mask, labels)
elif network == "vit":
    model, data = Vit(), (torch.randn(batch, 3, 224, 224), torch.randint(1000, (batch,)))
elif network == "gpt":
    words = torch.randint(256, (batch, 65))
    model, data = Gpt(), (words[:, :-1], words[:, 1:].contiguous())
else:
    words = torch.randint(32000, (batch, 257))
    model, data = Llama(), (words[:, :-1], words[:, 1:].contiguous())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(-2, steps):  # the first two steps do not count
    begin = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    model(*data).backward()
    optimizer.step()
    if step >= 0:
        print(f"step {time.perf_counter() - begin:.6f}", flush=True)
