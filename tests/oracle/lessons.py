#!/usr/bin/env python3
"""Makes lessons.txt: PyTorch's losses of 200 updates of the lessons in examples (examples/lesson.h), in float32, on the
same data and from the same initial weights, which each lesson writes before training.

    make examples && python3 tests/oracle/lessons.py build > tests/oracle/lessons.txt

A loss is the mean of the micro-batches' losses; gradients are those of the mean over all counted labels or samples of
an update.
"""
import math
import subprocess
import sys
import tempfile

import numpy
import torch
import torch.nn.functional as F
from torch import nn

UPDATES = 200
torch.set_num_threads(1)


# ---- data: lesson_hash and lesson_number of examples/lesson.h, over arrays of indices ----

def hashes(stream, index):
    x = (numpy.uint32(stream * 0x9E3779B9 & 0xFFFFFFFF) ^ numpy.asarray(index).astype(numpy.uint32)).astype(numpy.uint64)
    x = ((x ^ x >> 16) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ x >> 15) * 0x846CA68B) & 0xFFFFFFFF
    return x ^ x >> 16


def hash1(stream, index):
    return int(hashes(stream, [index])[0])


def numbers(stream, count):
    return (hashes(stream, numpy.arange(count)) >> numpy.uint64(8)).astype(numpy.float64) / 8388608.0 - 1.0


def single(values):
    return numpy.asarray(values, dtype=numpy.float64).astype(numpy.float32)


# ---- mlp ----

class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(8, 32), nn.Linear(32, 32), nn.Linear(32, 1)

    def forward(self, x, y):
        return F.mse_loss(self.fc3(torch.tanh(self.fc2(torch.tanh(self.fc1(x))))), y)


def draw_mlp(number):
    x = single(numbers(number, 8))
    x64 = x.astype(numpy.float64)
    return x, single([x64[0] * x64[1] + (x64[2] - x64[3]) / 2])


# ---- resnet18: torchvision's names ----

class Block(nn.Module):
    def __init__(self, before, channels, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels)
        self.conv2, self.bn2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels)
        self.downsample = None
        if before != channels:
            self.downsample = nn.Sequential(nn.Conv2d(before, channels, 1, stride, bias=False),
                                            nn.BatchNorm2d(channels))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Resnet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 4, 3, 1, 1, bias=False), nn.BatchNorm2d(4)
        before = 4
        for stage in range(4):
            channels = 4 << stage
            setattr(self, f"layer{stage + 1}",
                    nn.Sequential(Block(before, channels, 2 if stage else 1), Block(channels, channels, 1)))
            before = channels
        self.fc = nn.Linear(32, 10)

    def forward(self, images, labels):
        x = F.relu(self.bn1(self.conv1(images)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return F.cross_entropy(self.fc(x.mean((2, 3))), labels)


def draw_images(size, share):
    def draw(number):
        count = 3 * size * size
        image = numbers(1000 + number % 10, count) * share + numbers(number, count)
        return single(image).reshape(3, size, size), numpy.int64(number % 10)
    return draw


# ---- bert, llama, vit ----

def split(x, heads):
    n, s, width = x.shape
    return x.view(n, s, heads, width // heads).transpose(1, 2)


def attend(q, k, v, mask=None):
    """Computes attention over [N, heads, S, D]; `mask` is added to the scores."""
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
    y = torch.softmax(scores if mask is None else scores + mask, -1) @ v
    return y.transpose(1, 2).flatten(2)


class BertLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x, mask):
        y = attend(split(self.query(x), self.heads), split(self.key(x), self.heads), split(self.value(x), self.heads),
                   mask)
        x = self.norm1(x + self.out(y))
        return self.norm2(x + self.fc2(F.gelu(self.fc1(x))))


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(64, 32), nn.Embedding(16, 32), nn.LayerNorm(32)
        self.layers = nn.ModuleList(BertLayer(32, 4) for _ in range(2))
        self.head = nn.Linear(32, 32)

    def forward(self, tokens, mask, labels):
        hidden = torch.zeros(mask.shape).masked_fill(mask == 0, -math.inf)[:, None, None, :]
        x = self.norm(self.words(tokens) + self.places.weight)
        for layer in self.layers:
            x = layer(x, hidden)
        logits = F.gelu(self.head(x)) @ self.words.weight.T
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def draw_bert(number):
    length, start, step = 6 + hash1(number, 100) % 11, hash1(number, 101) % 62, 1 + hash1(number, 102) % 3
    i = numpy.arange(16)
    words = 2 + (start + step * i) % 62
    hidden = (i == 0) | (hashes(number, i) % 4 == 0)
    tokens = numpy.where(i >= length, 0, numpy.where(hidden, 1, words))
    return tokens.astype(numpy.int64), (i < length).astype(numpy.int64), numpy.where((i < length) & hidden, words, -100)


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight


class LlamaLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.ffn_norm = RmsNorm(32), RmsNorm(32)
        self.wq, self.wk = nn.Linear(32, 32, bias=False), nn.Linear(32, 16, bias=False)
        self.wv, self.wo = nn.Linear(32, 16, bias=False), nn.Linear(32, 32, bias=False)
        self.w1, self.w3 = nn.Linear(32, 64, bias=False), nn.Linear(32, 64, bias=False)
        self.w2 = nn.Linear(64, 32, bias=False)

    @staticmethod
    def turn(x):
        half = x.shape[3] // 2
        angles = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        cos, sin = angles.cos().float(), angles.sin().float()
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, x):
        y = self.attention_norm(x)
        q, k, v = self.turn(split(self.wq(y), 4)), self.turn(split(self.wk(y), 2)), split(self.wv(y), 2)
        later = torch.full((x.shape[1], x.shape[1]), -math.inf).triu(1)
        x = x + self.wo(attend(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), later))
        y = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(64, 32)
        self.layers = nn.ModuleList(LlamaLayer() for _ in range(2))
        self.norm, self.output = RmsNorm(32), nn.Linear(32, 64, bias=False)

    def forward(self, tokens, following):
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.output(self.norm(x)).flatten(0, 1), following.flatten())


def draw_llama(number):
    start, step = hash1(number, 101) % 64, 1 + hash1(number, 102) % 3
    i = numpy.arange(17)
    words = (start + step * i) % 64
    return words[:-1], words[1:]


class VitLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(24), nn.LayerNorm(24)
        self.qkv, self.out = nn.Linear(24, 72), nn.Linear(24, 24)
        self.fc1, self.fc2 = nn.Linear(24, 48), nn.Linear(48, 24)

    def forward(self, x):
        q, k, v = (split(part, 3) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(attend(q, k, v))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 24, 4, 4)
        self.class_token, self.places = nn.Parameter(torch.zeros(1, 1, 24)), nn.Parameter(torch.zeros(1, 10, 24))
        self.layers = nn.ModuleList(VitLayer() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(24), nn.Linear(24, 10)

    def forward(self, images, labels):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], 1) + self.places
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(self.norm(x)[:, 0]), labels)


# ---- recurrent ----

class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 12, 2, batch_first=True, bidirectional=True)
        self.gru, self.out = nn.GRU(24, 12, batch_first=True), nn.Linear(12, 4)

    def forward(self, x, labels):
        return F.cross_entropy(self.out(self.gru(self.lstm(x)[0])[1][0]), labels)


def draw_recurrent(number):
    x = single(numbers(number, 48)).reshape(12, 4)
    sums = numpy.zeros(4)
    for row in x.astype(numpy.float64):
        sums += row
    return x, numpy.int64(sums.argmax())


# ---- unet ----

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
        self.down1, self.down2, self.bottom = Pair(1, 8), Pair(8, 16), Pair(16, 32)
        self.wider2, self.up2 = nn.ConvTranspose2d(32, 16, 2, 2), Pair(32, 16)
        self.wider1, self.up1 = nn.ConvTranspose2d(16, 8, 2, 2), Pair(16, 8)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, images, wanted):
        first = self.down1(images)
        second = self.down2(F.max_pool2d(first, 2))
        x = self.bottom(F.max_pool2d(second, 2))
        x = self.up2(torch.cat([second, self.wider2(x)], 1))
        x = self.up1(torch.cat([first, self.wider1(x)], 1))
        return F.binary_cross_entropy_with_logits(self.out(x), wanted)


def draw_unet(number):
    row, column, radius = 4 + hash1(number, 1001) % 8, 4 + hash1(number, 1002) % 8, 2 + hash1(number, 1003) % 3
    p = numpy.arange(256)
    wanted = ((p // 16 - row) ** 2 + (p % 16 - column) ** 2 <= radius ** 2).astype(numpy.float64)
    return (single(wanted + numbers(number, 256)).reshape(1, 16, 16), single(wanted).reshape(1, 16, 16))


# ---- custom_op ----

class CustomOp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(1, 16), nn.Linear(16, 16), nn.Linear(16, 1)
        self.a1, self.a2 = nn.Parameter(torch.ones(16)), nn.Parameter(torch.ones(16))

    @staticmethod
    def snake(x, a):
        return x + torch.sin(a * x).square() / a

    def forward(self, x, y):
        x = self.snake(self.fc2(self.snake(self.fc1(x), self.a1)), self.a2)
        return F.mse_loss(self.fc3(x), y)


def draw_custom_op(number):
    x = single(3 * numbers(number, 1))
    half = x.astype(numpy.float64) / 2
    return x, single(4 * numpy.abs(half - numpy.floor(half + 0.5)) - 1)


# ---- custom_optimizer ----

class Rings(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(2, 32), nn.Linear(32, 32), nn.Linear(32, 2)

    def forward(self, x, labels):
        return F.cross_entropy(self.fc3(torch.tanh(self.fc2(torch.tanh(self.fc1(x))))), labels)


def draw_rings(number):
    x = single(2 * numbers(number, 2))
    x64 = x.astype(numpy.float64)
    return x, numpy.int64(int(math.floor((x64[0] * x64[0] + x64[1] * x64[1]) / 2)) % 2)


class AdaBelief(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {"lr": 0.02, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (beta1, beta2), epsilon, rate = group["betas"], group["eps"], group["lr"]
            for w in group["params"]:
                state = self.state[w]
                if not state:
                    state.update(t=0, mean=torch.zeros_like(w), variance=torch.zeros_like(w))
                state["t"] += 1
                mean, variance = state["mean"], state["variance"]
                mean.mul_(beta1).add_(w.grad, alpha=1 - beta1)
                variance.mul_(beta2).add_((w.grad - mean).square(), alpha=1 - beta2).add_(epsilon)
                w.mul_(1 - rate * group["weight_decay"])
                w.sub_(rate * (mean / (1 - beta1 ** state["t"])) /
                       ((variance / (1 - beta2 ** state["t"])).sqrt() + epsilon))


# ---- the loop ----

def adam(rate):
    return lambda p: torch.optim.Adam(p, rate)


def adamw(rate):
    return lambda p: torch.optim.AdamW(p, rate)


def sgd(rate, decay):
    return lambda p: torch.optim.SGD(p, rate, momentum=0.9, weight_decay=decay)


LESSONS = {  # model, data, samples, micro-batch, micro-batches, optimizer
    "mlp": (Mlp, draw_mlp, 256, 16, 4, sgd(0.1, 0)),
    "resnet18": (Resnet18, draw_images(16, 0.5), 160, 8, 2, adamw(0.0005)),
    "bert": (Bert, draw_bert, 256, 4, 4, adamw(0.002)),
    "llama": (Llama, draw_llama, 256, 4, 4, adamw(0.002)),
    "recurrent": (Recurrent, draw_recurrent, 256, 8, 4, adam(0.001)),
    "vit": (Vit, draw_images(12, 0.5), 320, 8, 4, adamw(0.001)),
    "unet": (Unet, draw_unet, 128, 2, 4, adam(0.001)),
    "custom_op": (CustomOp, draw_custom_op, 256, 16, 4, adam(0.005)),
    "custom_optimizer": (Rings, draw_rings, 256, 16, 4, AdaBelief),
}


def load(model, build, name):
    """Reads the lesson's initial weights."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/start.npz"
        subprocess.run([f"{build}/examples/{name}", "single", "--updates", "0", "--start", path], check=True,
                       stdout=subprocess.DEVNULL)
        weights = {key: torch.from_numpy(value) for key, value in numpy.load(path).items()}
    lacks = model.load_state_dict(weights, strict=False)
    assert not lacks.unexpected_keys and all(k.endswith("num_batches_tracked") for k in lacks.missing_keys), lacks


def train(model, draw, samples, micro_batch, micro_batches, make_optimizer):
    data = [torch.from_numpy(numpy.stack(column)) for column in zip(*(draw(s) for s in range(samples)))]
    optimizer = make_optimizer(model.parameters())
    losses = []
    for update in range(UPDATES):
        first = update * micro_batch * micro_batches % samples
        parts = [[d[first + m * micro_batch:first + (m + 1) * micro_batch] for d in data] for m in range(micro_batches)]
        # The weight of each micro-batch in the update: its share of labels that are not ignored, or of samples.
        counts = [int((part[-1] != -100).sum()) for part in parts]
        optimizer.zero_grad()
        total = 0.0
        for part, count in zip(parts, counts):
            loss = model(*part)
            (loss * (count / sum(counts))).backward()
            total += loss.item() / micro_batches
        optimizer.step()
        losses.append(total)
    return losses


print(f"# made by tests/oracle/lessons.py with PyTorch {torch.__version__}")
for lesson, (make_model, *rest) in LESSONS.items():
    if len(sys.argv) > 2 and lesson not in sys.argv[2:]:
        continue
    net = make_model()
    load(net, sys.argv[1], lesson)
    print(lesson, "losses", f"[{UPDATES}]", " ".join("%.7g" % v for v in train(net, *rest)), flush=True)
