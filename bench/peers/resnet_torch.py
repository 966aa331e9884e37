#!/usr/bin/env python3
"""Times bench/resnet.c's networks in PyTorch, for bench/resnet.sh: prints a line `step SECONDS` for each step.

usage: resnet_torch.py resnet8|resnet18|mobilenet BATCH THREADS STEPS training|inference [bfloat16]
       bfloat16   autocast, with channels last, PyTorch's fastest layout for it
       resnet_torch.py NETWORK BATCH THREADS STEPS export PATH   writes PATH.train.onnx and PATH.eval.onnx, for bench/onnx.sh
"""
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

network = sys.argv[1]
batch, threads, steps = (int(a) for a in sys.argv[2:5])
trains = sys.argv[5] == "training"
torch.set_num_threads(threads)
torch.manual_seed(1)


class Conv(nn.Module):
    def __init__(self, channels, out, window, stride, groups=1):
        super().__init__()
        self.conv = nn.Conv2d(channels, out, window, stride, window // 2, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(out)

    def forward(self, x):
        return self.norm(self.conv(x))


class Block(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1, self.conv2 = Conv(channels, out, 3, stride), Conv(out, out, 3, 1)
        self.shortcut = Conv(channels, out, 1, stride) if channels != out else nn.Identity()

    def forward(self, x):
        return F.relu(self.conv2(F.relu(self.conv1(x))) + self.shortcut(x))


class Separable(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.depthwise, self.pointwise = Conv(channels, channels, 3, stride, channels), Conv(channels, out, 1, 1)

    def forward(self, x):
        return F.relu(self.pointwise(F.relu(self.depthwise(x))))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        first, stages, blocks = {"resnet8": (16, 3, 1), "resnet18": (64, 4, 2), "mobilenet": (32, 0, 0)}[network]
        self.stem = Conv(3, first, 3, 1)
        widths = [first * 2**stage for stage in range(stages)]
        self.blocks = nn.Sequential(*(
            Block(width // 2 if stage > 0 and block == 0 else width, width, 2 if stage > 0 and block == 0 else 1)
            for stage, width in enumerate(widths) for block in range(blocks)))
        if network == "mobilenet":
            widths = [64, 128, 128, 256, 256, 512, 512, 512]
            self.blocks = nn.Sequential(*(Separable(channels, out, stride) for channels, out, stride in
                                          zip([32] + widths, widths, [1, 2, 1, 2, 1, 2, 1, 1])))
        self.out = nn.Linear(widths[-1], 10)

    def forward(self, x):
        x = self.blocks(F.relu(self.stem(x)))
        return self.out(torch.flatten(F.avg_pool2d(x, int(x.shape[2])), 1))


model = Network()
if sys.argv[5] == "export":
    with torch.no_grad():  # the exporter would join equal tensors by Identity nodes, which OpenCV 4.6 cannot read
        for tensor in list(model.parameters()) + [b for n, b in model.named_buffers() if "running" in n]:
            tensor.add_(0.01 * torch.rand(tensor.shape))
    for trains in (True, False):
        model.train(trains)
        torch.onnx.export(model, torch.zeros(batch, 3, 32, 32), f"{sys.argv[6]}.{'train' if trains else 'eval'}.onnx",
                          opset_version=13, input_names=["images"], output_names=["logits"], do_constant_folding=not trains,
                          training=torch.onnx.TrainingMode.TRAINING if trains else torch.onnx.TrainingMode.EVAL)
    sys.exit()
images, labels = torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,))
if trains:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
else:
    model.eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
narrow = len(sys.argv) > 6 and sys.argv[6] == "bfloat16"
if narrow:
    model, images = model.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)


def infer():
    with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
        return model(images)


for step in range(-2, steps):  # the first two steps do not count
    begin = time.perf_counter()
    if trains:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(infer().float(), labels).backward()
        optimizer.step()
    else:
        infer()
    if step >= 0:
        print(f"step {time.perf_counter() - begin:.6f}", flush=True)
