#!/usr/bin/env python3
"""Makes the models of onnx/ and onnx.txt: small networks that PyTorch exports (two imitate other exporters), and the
results of training them with PyTorch.

    python3 tests/oracle/onnx.py tests/oracle/onnx > tests/oracle/onnx.txt

Every model is exported with symbolic first dimensions, and trained for UPDATES updates, on BATCHES micro-batches in turn,
with SGD with momentum and with AdamW; labels are classes, or numbers for a model whose loss is the mean square. Cases are
MODEL, MODEL/sgd and MODEL/adamw. A model is exported for training, without dropout, because other programs cannot draw
the same random numbers. AdamW's epsilon is large, because gradients of biases before norms are only rounding errors.
Names that end in _eval are the same model exported for evaluation before its first update. Models of NEW have PyTorch's
initial values, with equal parameters, and are exported only for evaluation.
"""
import copy
import os
import sys

sys.path.remove(os.path.dirname(os.path.abspath(__file__)))  # the file onnx.py in this folder is not the module

import torch
from torch import nn
from torch.nn import functional as F

UPDATES, BATCH, BATCHES = 50, 4, 10
SAMPLES = BATCH * BATCHES
folder = sys.argv[1]


def emit(case, name, tensor):
    dims = ",".join(str(d) for d in tensor.shape)
    print(f"{case} {name} [{dims}] " + " ".join("%.9g" % v for v in tensor.detach().double().flatten().tolist()))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 8)
        self.fc2 = nn.Linear(8, 8)
        self.fc3 = nn.Linear(8, 3)

    def forward(self, x):
        return self.fc3(torch.tanh(self.fc2(F.gelu(self.fc1(x)))))


class Convnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 4, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 6, 3, stride=2)
        self.bn2 = nn.BatchNorm2d(6)
        self.fc = nn.Linear(6 * 3 * 3, 3)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = F.max_pool2d(x, 2, stride=1, padding=1)[:, :, :3, :3]
        return self.fc(x.flatten(1))


class Residual(nn.Module):
    class Block(nn.Module):
        def __init__(self, channels, out, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(out)
            self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(out)
            self.down = None
            if stride != 1 or channels != out:
                self.down = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

        def forward(self, x):
            y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
            return F.relu(y + (x if self.down is None else self.down(x)))

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 3, padding=1)
        self.layer1 = nn.Sequential(self.Block(4, 4, 1), self.Block(4, 6, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(6, 3)

    def forward(self, x):
        return self.fc(torch.flatten(self.pool(self.layer1(self.stem(x))), 1))


class Depthwise(nn.Module):
    def __init__(self):
        super().__init__()
        self.expand = nn.Conv2d(2, 6, 1)
        self.depth = nn.Conv2d(6, 6, 3, stride=2, padding=1, groups=6)
        self.squeeze = nn.Conv2d(6, 2, 1)
        self.excite = nn.Conv2d(2, 6, 1)
        self.project = nn.Conv2d(6, 4, 1)
        self.act = nn.Hardswish()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        x = self.act(self.depth(self.act(self.expand(x))))
        s = F.adaptive_avg_pool2d(x, 1)
        x = x * F.hardsigmoid(self.excite(F.relu6(self.squeeze(s))))
        return self.fc(self.project(x).mean([2, 3]))


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(2, 4, 3, padding=1)
        self.bottom = nn.Conv2d(4, 6, 3, padding=1)
        self.up = nn.ConvTranspose2d(6, 4, 2, stride=2)
        self.join = nn.Conv2d(8, 4, 3, padding=1)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = F.relu(self.down(x))
        b = F.relu(self.bottom(F.max_pool2d(a, 2)))
        c = F.relu(self.join(torch.cat([a, self.up(b)], 1)))
        d = F.interpolate(F.avg_pool2d(c, 2), scale_factor=2, mode="bilinear", align_corners=False)
        e = F.interpolate(F.avg_pool2d(a, 2), scale_factor=2, mode="nearest")
        return self.head(torch.cat([d + c, e], 1))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        return self.fc(self.encoder(self.embed(x)).mean(1))


class Decoder(nn.Module):
    """Causal self-attention written with basic ops, as in language models, with positions and a tied head."""

    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(11, 8)
        self.wpe = nn.Embedding(5, 8)
        self.ln1 = nn.LayerNorm(8)
        self.attn = nn.Linear(8, 24)
        self.proj = nn.Linear(8, 8)
        self.ln2 = nn.LayerNorm(8)
        self.fc = nn.Linear(8, 16)
        self.out = nn.Linear(16, 8)
        self.lnf = nn.LayerNorm(8)

    def forward(self, x):
        n, s = x.shape
        h = self.wte(x) + self.wpe(torch.arange(s))
        q, k, v = self.attn(self.ln1(h)).split(8, 2)
        q, k, v = (t.view(n, s, 2, 4).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-2, -1) / 4**0.5
        scores = scores.masked_fill(torch.ones(s, s).triu(1).bool(), float("-inf"))
        a = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, s, 8)
        h = h + self.proj(a)
        h = h + self.out(F.gelu(self.fc(self.ln2(h))))
        return (self.lnf(h) @ self.wte.weight.t()).transpose(1, 2)


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(2, 8, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.positions = nn.Parameter(torch.randn(1, 5, 8))
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.block(x))[:, 0])


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(6, 4), nn.SiLU(), nn.Linear(4, 2))
        self.decode = nn.Sequential(nn.Linear(2, 4), nn.LeakyReLU(0.1), nn.Linear(4, 6), nn.Sigmoid())

    def forward(self, x):
        return self.decode(self.encode(x))


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 5)
        self.b = nn.Linear(3, 5)
        self.gate = nn.Parameter(torch.tensor(0.5))
        self.prelu = nn.PReLU(5)
        self.fc = nn.Linear(10, 3)

    def forward(self, x, y):
        return self.fc(torch.cat([self.prelu(self.a(x)), F.elu(self.b(y)) * self.gate], 1))


class Shared(nn.Module):
    """Uses one layer twice."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.same = nn.Linear(8, 8)
        self.norm = nn.GroupNorm(2, 8)
        self.last = nn.Linear(8, 3)

    def forward(self, x):
        x = self.same(F.relu(self.first(x)))
        x = self.norm(self.same(F.softplus(x)).unsqueeze(2)).squeeze(2)
        return self.last(x)


class Sequences(nn.Module):
    """Has a convolution and a norm over one dimension."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 4, 3, padding=1, dilation=1)
        self.norm = nn.BatchNorm1d(4)
        self.fc = nn.Linear(4 * 4, 3)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        return self.fc(F.max_pool1d(x, 2).flatten(1))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(2, 5, batch_first=True)
        self.fc = nn.Linear(5, 3)

    def forward(self, x):
        y, _ = self.rnn(x.transpose(1, 2))
        return self.fc(y[:, -1])


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(2, 4, num_layers=2, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        y, h = self.rnn(x.transpose(1, 2))
        return self.fc(y.mean(1) + torch.cat([h[0], h[1]], 1))


class TfImitation(nn.Module):
    """Imitates tf2onnx's output for a Keras network: images with channels last between transposes, padding SAME,
    separate biases, matrices [in, out]. `write` makes the file; names are those of its initializers."""

    SHAPES = {"conv2d/Conv2D/ReadVariableOp:0": (4, 8, 3, 3), "conv2d/BiasAdd/ReadVariableOp:0": (4,),
              "bn/ReadVariableOp:0": (4,), "bn/ReadVariableOp_1:0": (4,),
              "dense/MatMul/ReadVariableOp:0": (16, 3), "dense/BiasAdd/ReadVariableOp:0": (3,)}
    PREFIX = "StatefulPartitionedCall/"

    def __init__(self):
        super().__init__()
        for name, shape in self.SHAPES.items():
            self.register_parameter(self.PREFIX + name, nn.Parameter(torch.randn(shape) * 0.4))
        self.register_buffer(self.PREFIX + "bn/FusedBatchNormV3/ReadVariableOp:0", torch.zeros(4))
        self.register_buffer(self.PREFIX + "bn/FusedBatchNormV3/ReadVariableOp_1:0", torch.ones(4))

    def get(self, name):
        return getattr(self, self.PREFIX + name)

    def forward(self, x):
        x = F.pad(x.permute(0, 3, 1, 2), (0, 1, 0, 1))
        x = F.conv2d(x, self.get("conv2d/Conv2D/ReadVariableOp:0"), self.get("conv2d/BiasAdd/ReadVariableOp:0"), stride=2)
        x = F.batch_norm(x, self.get("bn/FusedBatchNormV3/ReadVariableOp:0"), self.get("bn/FusedBatchNormV3/ReadVariableOp_1:0"),
                         self.get("bn/ReadVariableOp:0"), self.get("bn/ReadVariableOp_1:0"), self.training, 0.1, 1e-3)
        x = F.relu(x).permute(0, 2, 3, 1).reshape(-1, 16)
        return x @ self.get("dense/MatMul/ReadVariableOp:0") + self.get("dense/BiasAdd/ReadVariableOp:0")

    def write(self, path):
        from onnx import TensorProto, helper, numpy_helper, save
        p = self.PREFIX
        node = helper.make_node
        nodes = [node("Transpose", ["x"], [p + "conv2d/Conv2D__6:0"], name=p + "conv2d/Conv2D__6", perm=[0, 3, 1, 2]),
                 node("Conv", [p + "conv2d/Conv2D__6:0", p + "conv2d/Conv2D/ReadVariableOp:0", p + "conv2d/BiasAdd/ReadVariableOp:0"],
                      [p + "conv2d/BiasAdd:0"], name=p + "conv2d/BiasAdd", auto_pad="SAME_UPPER", strides=[2, 2], kernel_shape=[3, 3],
                      dilations=[1, 1], group=1),
                 node("BatchNormalization", [p + "conv2d/BiasAdd:0", p + "bn/ReadVariableOp:0", p + "bn/ReadVariableOp_1:0",
                                             p + "bn/FusedBatchNormV3/ReadVariableOp:0", p + "bn/FusedBatchNormV3/ReadVariableOp_1:0"],
                      [p + "bn/FusedBatchNormV3:0"], name=p + "bn/FusedBatchNormV3", epsilon=1e-3),
                 node("Relu", [p + "bn/FusedBatchNormV3:0"], [p + "re_lu/Relu:0"], name=p + "re_lu/Relu"),
                 node("Transpose", [p + "re_lu/Relu:0"], [p + "re_lu/Relu__9:0"], name=p + "re_lu/Relu__9", perm=[0, 2, 3, 1]),
                 node("Reshape", [p + "re_lu/Relu__9:0", "const_fold_opt__12"], [p + "flatten/Reshape:0"], name=p + "flatten/Reshape"),
                 node("MatMul", [p + "flatten/Reshape:0", p + "dense/MatMul/ReadVariableOp:0"], [p + "dense/MatMul:0"],
                      name=p + "dense/MatMul"),
                 node("Add", [p + "dense/MatMul:0", p + "dense/BiasAdd/ReadVariableOp:0"], ["dense"], name=p + "dense/BiasAdd")]
        weights = [numpy_helper.from_array(v.numpy(), k) for k, v in self.state_dict().items()]
        weights.append(helper.make_tensor("const_fold_opt__12", TensorProto.INT64, [2], [-1, 16]))
        graph = helper.make_graph(nodes, "tf2onnx", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["unk__14", 2, 8, 8])],
                                  [helper.make_tensor_value_info("dense", TensorProto.FLOAT, ["unk__15", 3])], weights)
        save(helper.make_model(graph, producer_name="imitation of tf2onnx", opset_imports=[helper.make_opsetid("", 13)]), path)


class ScikitImitation(nn.Module):
    """Imitates skl2onnx's output for a multilayer perceptron for regression."""

    def __init__(self):
        super().__init__()
        for name, shape in (("coefficient", (6, 8)), ("intercepts", (1, 8)), ("coefficient1", (8, 6)), ("intercepts1", (1, 6))):
            self.register_parameter(name, nn.Parameter(torch.randn(shape) * 0.4))

    def forward(self, x):
        return torch.relu(x @ self.coefficient + self.intercepts) @ self.coefficient1 + self.intercepts1

    def write(self, path):
        from onnx import TensorProto, helper, numpy_helper, save
        node = helper.make_node
        nodes = [node("Cast", ["x"], ["cast_input"], name="Cast", to=TensorProto.FLOAT),
                 node("MatMul", ["cast_input", "coefficient"], ["mul_result"], name="MatMul"),
                 node("Add", ["mul_result", "intercepts"], ["add_result"], name="Add"),
                 node("Relu", ["add_result"], ["next_activations"], name="Relu"),
                 node("MatMul", ["next_activations", "coefficient1"], ["mul_result1"], name="MatMul1"),
                 node("Add", ["mul_result1", "intercepts1"], ["add_result1"], name="Add1"),
                 node("Reshape", ["add_result1", "shape_tensor"], ["variable"], name="Reshape")]
        weights = [numpy_helper.from_array(v.numpy(), k) for k, v in self.state_dict().items()]
        weights.append(helper.make_tensor("shape_tensor", TensorProto.INT64, [2], [-1, 6]))
        graph = helper.make_graph(nodes, "skl", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 6])],
                                  [helper.make_tensor_value_info("variable", TensorProto.FLOAT, [None, 6])], weights)
        opsets = [helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.ml", 1)]
        save(helper.make_model(graph, producer_name="imitation of skl2onnx", opset_imports=opsets), path)


class Branches(nn.Module):
    """Is exported with an If (with a condition on shapes), a mask of infinities, and products of three operands."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.LocalResponseNorm(3)
        self.mix = nn.Parameter(torch.randn(4, 6) * 0.5)
        self.head = nn.Parameter(torch.randn(6, 3) * 0.5)
        self.register_buffer("mask", torch.full((8, 8), float("-inf")).triu(1))

    def forward(self, x):
        x = self.norm(torch.tanh(self.conv(x)))
        w = torch.softmax(x.mean(1) + self.mask, -1)
        y = torch.einsum("nhw,ncwv,ci->nhi", w, x, self.mix)
        return torch.einsum("...i,ij->...j", torch.relu(y), self.head).mean(1)


class Norms(nn.Module):
    """Has norms before convolutions, one of them used twice with one set of statistics. In an export for evaluation
    before training, weights and statistics are equal, so the exporter joins them."""

    def __init__(self):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(2)
        self.conv1 = nn.Conv2d(2, 4, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.bn3 = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        x = self.conv1(F.relu(self.bn1(x)))
        x = x + self.conv2(F.relu(self.bn2(x)))
        return self.fc((F.relu(self.bn3(x)) + torch.tanh(self.bn2(x))).mean([2, 3]))


class PartlyFrozen(Norms):
    """Has a norm that keeps its statistics while the others train."""

    def train(self, mode=True):
        super().train(mode)
        self.bn2.eval()
        return self


class Tied(nn.Module):
    """Has a table of positions, masks, layers that begin as copies of one layer, and a head with the embedding's table.
    An export for evaluation, with folded constants, does not show these."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(8)
            self.attn = nn.Linear(8, 24)
            self.proj = nn.Linear(8, 8)
            self.register_buffer("tril", torch.ones(6, 6).tril())

        def forward(self, x):
            s = x.shape[1]
            q, k, v = self.attn(self.norm(x)).split(8, 2)
            a = (q @ k.transpose(-2, -1)).masked_fill(self.tril[:s, :s] == 0, float("-inf")).softmax(-1)
            return x + self.proj((a * self.tril[:s, :s]) @ v)

    def __init__(self):
        super().__init__()
        angles = torch.arange(6.0).unsqueeze(1) * torch.tensor([1.0, 0.1, 0.01, 0.001])
        self.wte = nn.Embedding(11, 8)
        self.register_buffer("pe", torch.stack([angles.sin(), angles.cos()], 2).reshape(1, 6, 8))
        block = self.Block()
        self.layers = nn.ModuleList([copy.deepcopy(block) for _ in range(2)])
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, x):
        h = self.wte(x) + self.pe[:, :x.shape[1]]
        for layer in self.layers:
            h = layer(h)
        return self.head(h).transpose(1, 2)


def draw(seed, *dims):
    """Returns multiples of 1/8, which are short as text."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-8, 9, (SAMPLES, *dims), generator=generator) / 8.0


def choose(seed, count, *dims):
    return torch.randint(0, count, (SAMPLES, *dims), generator=torch.Generator().manual_seed(seed))


DATA = {
    "images": draw(1, 2, 8, 8),
    "rows6": draw(2, 6),
    "rows3": draw(3, 3),
    "signals": draw(4, 2, 8),
    "tokens": choose(5, 11, 5),
    "classes": choose(6, 3),
    "places": choose(7, 2, 8, 8),
    "next": choose(8, 11, 5),
}
# The model, its inputs, and its labels (None: the input).
MODELS = {
    "mlp": (Mlp, ["rows6"], "classes"),
    "convnet": (Convnet, ["images"], "classes"),
    "residual": (Residual, ["images"], "classes"),
    "depthwise": (Depthwise, ["images"], "classes"),
    "unet": (Unet, ["images"], "places"),
    "encoder": (Encoder, ["tokens"], "classes"),
    "decoder": (Decoder, ["tokens"], "next"),
    "vit": (Vit, ["images"], "classes"),
    "autoencoder": (Autoencoder, ["rows6"], None),
    "two_inputs": (TwoInputs, ["rows6", "rows3"], "classes"),
    "shared": (Shared, ["rows6"], "classes"),
    "sequences": (Sequences, ["signals"], "classes"),
    "lstm": (Lstm, ["signals"], "classes"),
    "gru": (Gru, ["signals"], "classes"),
    "branches": (Branches, ["images"], "classes"),
    "norms": (Norms, ["images"], "classes"),
    "partly": (PartlyFrozen, ["images"], "classes"),
    "tied": (Tied, ["tokens"], "next"),
    "imitation_tf": (TfImitation, ["images"], "classes"),
    "imitation_scikit": (ScikitImitation, ["rows6"], None),
}
OPSETS = {"mlp": 9, "convnet": 11, "decoder": 14, "vit": 17, "vit_eval": 17, "norms_eval": 11, "partly": 15}  # others: 13
EXPORTED_FOR_EVALUATION = ["mlp", "encoder", "vit", "depthwise", "lstm", "norms", "tied"]
NEW = ["norms", "tied"]  # new models, exported only for evaluation
PRESERVED = ["norms_eval"]  # keeps convolutions and norms separate


def export(model, inputs, name, training):
    names = "xy"[: len(inputs)]
    axes = {n: {0: "batch"} for n in names}
    axes["output"] = {0: "batch"}
    model.train(training)
    if hasattr(model, "write"):
        model.write(f"{folder}/{name}.onnx")
        return
    mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
    if name in PRESERVED:
        mode = torch.onnx.TrainingMode.PRESERVE
    torch.onnx.export(model, tuple(t[:BATCH] for t in inputs), f"{folder}/{name}.onnx", opset_version=OPSETS.get(name, 13),
                      training=mode,
                      do_constant_folding=not training, input_names=list(names), output_names=["output"],
                      dynamic_axes=axes)


def train(name, kind, start, inputs, labels, optimizer_of, suffix):
    model = kind()
    model.load_state_dict(start)
    model.train()
    optimizer = optimizer_of(model.parameters())
    losses = []
    for u in range(UPDATES):
        part = slice(u % BATCHES * BATCH, (u % BATCHES + 1) * BATCH)
        out = model(*(t[part] for t in inputs))
        loss = F.mse_loss(out, inputs[0][part]) if labels is None else F.cross_entropy(out, labels[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    emit(f"{name}/{suffix}", "loss", torch.tensor(losses, dtype=torch.float64))
    state = model.state_dict()
    for key in state:
        if not key.endswith("num_batches_tracked"):
            emit(f"{name}/{suffix}", key, state[key])
    model.eval()
    with torch.no_grad():
        emit(f"{name}/{suffix}", "evaluated", model(*(t[:BATCH] for t in inputs)))


def main():
    print(f"# made by tests/oracle/onnx.py with PyTorch {torch.__version__}.")
    for name, tensor in DATA.items():
        emit("data", name, tensor)
    for name, (kind, names, label_name) in MODELS.items():
        inputs = [DATA[n] for n in names]
        labels = DATA[label_name] if label_name else None
        torch.manual_seed(7)
        model = kind()
        with torch.no_grad():  # exports for evaluation join equal initializers
            for p in model.parameters():
                p.add_(torch.randn(p.shape) * (0.0 if name in NEW else 0.05))
        if name not in NEW:
            export(model, inputs, name, True)
        start = {k: v.clone() for k, v in model.state_dict().items()}  # tracing has updated running statistics
        if name in EXPORTED_FOR_EVALUATION:
            model = kind()
            model.load_state_dict(start)
            export(model, inputs, name + "_eval", False)
        train(name, kind, start, inputs, labels, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9), "sgd")
        train(name, kind, start, inputs, labels, lambda p: torch.optim.AdamW(p, lr=0.003, eps=1e-4), "adamw")


main()
