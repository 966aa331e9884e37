#!/usr/bin/env python3
"""Makes the models and data of train/, and train.txt, the results of training them with PyTorch.

    python3 tests/oracle/train.py tests/oracle/train > tests/oracle/train.txt

tests/cli/test_train*.sh use them. `net` reads images of bytes, and its last batch is smaller; `table` computes a number
from three; `share` computes a probability; `inside` has its loss in the graph; onnx.npz has the data of onnx.txt.
refused.onnx cannot be built, and quantized.onnx cannot be trained; masked.onnx has an input of bools. Lines are "CASE
NAME NUMBER...": losses of updates in the files' order, `validation` the loss after each epoch, `logits` the outputs of
the trained model.
"""
import gzip
import json
import os
import struct
import sys
import zlib

sys.path.pop(0)  # the file onnx.py in this folder is not the module

import numpy as np
import onnx
from onnx import numpy_helper
import torch
from torch import nn
from torch.nn import functional as F

folder = sys.argv[1]
SAMPLES, TEST, BATCH, EPOCHS, CLASSES = 45, 13, 8, 3, 4
MEAN, DEVIATION = 0.4, 0.3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.hidden = nn.Linear(36, 16)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2).flatten(1)
        return self.head(self.norm(F.gelu(self.hidden(x))))


class Table(nn.Module):
    def __init__(self, is_share):
        super().__init__()
        self.first = nn.Linear(3, 6)
        self.second = nn.Linear(6, 1)
        self.is_share = is_share

    def forward(self, x):
        y = self.second(torch.tanh(self.first(x)))
        return torch.sigmoid(y) if self.is_share else y


class Inside(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 6)
        self.second = nn.Linear(6, CLASSES)

    def forward(self, x, labels):
        logits = self.second(torch.tanh(self.first(x)))
        return F.cross_entropy(logits, labels), logits


def emit(case, name, values):
    print(case, name, " ".join("%.9g" % v for v in values))


def export(model, inputs, name, names, outputs, fixed=False):
    axes = None if fixed else {n: {0: "batch"} for n in names + [o for o in outputs if o != "loss"]}
    torch.onnx.export(model, inputs, f"{folder}/{name}.onnx", opset_version=13, input_names=names, output_names=outputs,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, dynamic_axes=axes)


def train(model, inputs, labels, loss_of, optimizer, epochs, batch, after=None):
    losses = []
    for _ in range(epochs):
        for first in range(0, len(labels), batch):
            loss = loss_of(model, inputs[first:first + batch], labels[first:first + batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if after:
            after()
    return losses


def make_net(generator):
    labels = torch.randint(0, CLASSES, (SAMPLES + TEST,), generator=generator)
    images = torch.randint(0, 120, (SAMPLES + TEST, 8, 8), generator=generator)
    for i, label in enumerate(labels):  # the bright quarter is the class
        row, column = 4 * (label // 2), 4 * (label % 2)
        images[i, row:row + 4, column:column + 4] += 80
    images = images.to(torch.uint8)
    np.save(f"{folder}/images.npy", images[:SAMPLES].numpy())
    np.save(f"{folder}/labels.npy", labels[:SAMPLES].numpy())
    np.savez(f"{folder}/test.npz", images=images[SAMPLES:].numpy(), labels=labels[SAMPLES:].numpy())
    x = ((images.float() / 255 - MEAN) / DEVIATION).unsqueeze(1)
    model = Net()
    export(model, x[:BATCH], "net", ["x"], ["logits"])
    export(model, x[:BATCH], "net_fixed", ["x"], ["logits"], fixed=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    validation, accuracy, f1 = [], [], []

    def validate():
        with torch.no_grad():
            logits = model(x[SAMPLES:])
        validation.append(F.cross_entropy(logits, labels[SAMPLES:]).item())
        accuracy.append(100.0 * (logits.argmax(1) == labels[SAMPLES:]).float().mean().item())
        found, wanted = (F.one_hot(v, CLASSES).float() for v in (logits.argmax(1), labels[SAMPLES:]))
        f1.append((2 * (found * wanted).sum(0) / (found.sum(0) + wanted.sum(0))).nanmean().item())

    emit("net", "losses", train(model, x[:SAMPLES], labels[:SAMPLES], lambda m, a, b: F.cross_entropy(m(a), b), optimizer,
                                EPOCHS, BATCH, validate))
    emit("net", "validation", validation)
    emit("net", "accuracy", accuracy)
    emit("net", "f1", f1)
    with torch.no_grad():
        emit("net", "logits", model(x[SAMPLES:]).flatten().tolist())


def write_png(path, pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows, columns = pixels.shape
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0))
                   + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b""))


def make_forms():
    """Writes the same images and labels in every format; photos have those of each class in turn."""
    images, labels = np.load(f"{folder}/images.npy"), np.load(f"{folder}/labels.npy")
    with open(f"{folder}/images-idx3-ubyte.gz", "wb") as file:
        file.write(gzip.compress(struct.pack(">IIII", 0x803, *images.shape) + images.tobytes(), mtime=0))
    with open(f"{folder}/labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">II", 0x801, len(labels)) + labels.astype(np.uint8).tobytes())
    tensors = {"images": ("U8", images), "labels": ("I64", labels)}
    header, at = {}, 0
    for name, (kind, array) in sorted(tensors.items(), reverse=True):  # larger elements first
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{folder}/data.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + labels.tobytes() + images.tobytes())
    photos = []
    for label in range(CLASSES):
        os.makedirs(f"{folder}/photos/class{label}", exist_ok=True)
        for i, image in enumerate(images[labels == label][:2]):
            write_png(f"{folder}/photos/class{label}/{i}.png", image)
            photos.append((image, label))
    np.savez(f"{folder}/photos.npz", images=np.stack([p[0] for p in photos]), labels=np.array([p[1] for p in photos]))


def copy_onnx_data():
    """Copies the data of onnx.txt, in the shapes given there, for the models in the same folder."""
    arrays = {}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "onnx.txt")) as file:
        for line in file:
            if line.startswith("data "):
                _, name, dims, *numbers = line.split()
                array = np.array([float(n) for n in numbers]).reshape([int(d) for d in dims[1:-1].split(",")])
                is_float = name in ("images", "rows6", "rows3", "signals")
                arrays[name] = array.astype(np.float32 if is_float else np.int64)
    np.savez_compressed(f"{folder}/onnx.npz", **arrays)


def make_refused():
    """Makes an unsupported model and a quantized model."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    x = helper.make_tensor_value_info("x", kind, ["batch", 3])
    y = helper.make_tensor_value_info("y", kind, None)
    opset = [helper.make_opsetid("", 13)]
    nodes = [helper.make_node("NonZero", ["x"], ["places"], name="/find"),
             helper.make_node("Cast", ["places"], ["z"], name="/cast", to=kind),
             helper.make_node("Unheard", ["z"], ["y"], name="/odd", domain="com.example")]
    graph = helper.make_graph(nodes, "refused", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=opset + [helper.make_opsetid("com.example", 1)]),
              f"{folder}/refused.onnx")
    scale = helper.make_tensor("scale", kind, [], [0.1])
    zero = helper.make_tensor("zero", onnx.TensorProto.UINT8, [], [128])
    weight = helper.make_tensor("weight", kind, [3, 2], [1, 2, 3, 4, 5, 6])
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], name="/quantize"),
             helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"], name="/dequantize"),
             helper.make_node("MatMul", ["d", "weight"], ["y"], name="/product")]
    graph = helper.make_graph(nodes, "quantized", [x], [helper.make_tensor_value_info("y", kind, ["batch", 2])],
                              [scale, zero, weight])
    onnx.save(helper.make_model(graph, opset_imports=opset), f"{folder}/quantized.onnx")


def make_masked():
    """Makes a model with an input of bools, which sets numbers to zero."""
    helper, kind = onnx.helper, onnx.TensorProto
    x = helper.make_tensor_value_info("x", kind.FLOAT, ["batch", 3])
    keep = helper.make_tensor_value_info("keep", kind.BOOL, ["batch", 3])
    y = helper.make_tensor_value_info("y", kind.FLOAT, ["batch", 2])
    weights = [helper.make_tensor("zero", kind.FLOAT, [], [0]),
               helper.make_tensor("weight", kind.FLOAT, [3, 2], [1, 2, 3, 4, 5, 6])]
    nodes = [helper.make_node("Where", ["keep", "x", "zero"], ["kept"], name="/where"),
             helper.make_node("MatMul", ["kept", "weight"], ["y"], name="/product")]
    graph = helper.make_graph(nodes, "masked", [x, keep], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), f"{folder}/masked.onnx")


def make_scikit(rows):
    """Imitates skl2onnx's output for a classifier (multilayer perceptron), and for a scaler before a linear model."""
    helper, kind, numbers = onnx.helper, onnx.TensorProto, np.random.default_rng(3)
    node, ml = helper.make_node, "ai.onnx.ml"
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(ml, 1)]
    first, second = (numbers.normal(size=s).astype(np.float32) for s in ((3, 5), (5, 3)))
    labels = np.array([7, 8, 9], np.int64)
    x = helper.make_tensor_value_info("X", kind.FLOAT, [None, 3])
    label = helper.make_tensor_value_info("output_label", kind.INT64, [None])
    maps = onnx.TypeProto()  # a sequence of maps from classes to numbers
    maps.sequence_type.elem_type.map_type.key_type = kind.INT64
    maps.sequence_type.elem_type.map_type.value_type.CopyFrom(helper.make_tensor_type_proto(kind.FLOAT, []))
    probabilities = helper.make_value_info("output_probability", maps)

    def save(name, nodes, outputs, weights):
        graph = helper.make_graph(nodes, name, [x], outputs, [numpy_helper.from_array(v, k) for k, v in weights.items()])
        onnx.save(helper.make_model(graph, producer_name="imitation of skl2onnx", opset_imports=opsets), f"{folder}/{name}.onnx")

    save("scikit_perceptron", [
        node("MatMul", ["X", "coefficient"], ["mul_result"]), node("Relu", ["mul_result"], ["next_activations"]),
        node("MatMul", ["next_activations", "coefficient1"], ["mul_result1"]),
        node("Softmax", ["mul_result1"], ["out_activations_result"], axis=1),
        node("ArgMax", ["out_activations_result"], ["argmax_output"], axis=1),
        node("ArrayFeatureExtractor", ["classes", "argmax_output"], ["array_feature_extractor_result"], domain=ml),
        node("Reshape", ["array_feature_extractor_result", "shape_tensor"], ["output_label"]),
        node("ZipMap", ["out_activations_result"], ["output_probability"], domain=ml, classlabels_int64s=labels)],
        [label, probabilities], {"coefficient": first, "coefficient1": second, "classes": labels,
                                 "shape_tensor": np.array([-1], np.int64)})
    scores = np.maximum(rows @ first, 0) @ second
    emit_classes("scikit_perceptron", scores, labels)
    offset, scale, weight, bias = (numbers.normal(size=s).astype(np.float32) for s in (3, 3, (3, 3), 3))
    save("scikit_linear", [
        node("Scaler", ["X"], ["variable"], domain=ml, offset=offset, scale=scale),
        node("LinearClassifier", ["variable"], ["output_label", "raw"], domain=ml, classlabels_ints=labels, multi_class=1,
             coefficients=weight.flatten(), intercepts=bias, post_transform="SOFTMAX"),
        node("Normalizer", ["raw"], ["probabilities"], domain=ml, norm="L1"),
        node("ZipMap", ["probabilities"], ["output_probability"], domain=ml, classlabels_int64s=labels)],
        [label, probabilities], {})
    emit_classes("scikit_linear", (rows - offset) * scale @ weight.T + bias, labels)
    save("scikit_regressor", [
        node("Scaler", ["X"], ["variable"], domain=ml, offset=offset, scale=scale),
        node("LinearRegressor", ["variable"], ["y"], domain=ml, coefficients=weight[0], intercepts=bias[:1], targets=1)],
        [helper.make_tensor_value_info("y", kind.FLOAT, [None, 1])], {})
    emit("scikit_regressor", "y", (rows - offset) * scale @ weight[0] + bias[0])


def emit_classes(case, scores, labels):
    scores = np.exp(scores)
    emit(case, "label", labels[scores.argmax(1)])
    emit(case, "probability", (scores / scores.sum(1, keepdims=True)).flatten())


def make_type(source, name, kind, numpy_kind):
    """Makes a model with floats of another type."""
    model = onnx.load(f"{folder}/{source}.onnx")
    tensors = list(model.graph.initializer) + [a.t for n in model.graph.node for a in n.attribute if a.name == "value"]
    for tensor in tensors:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(numpy_kind), tensor.name))
    for value in list(model.graph.input) + list(model.graph.output):
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            value.type.tensor_type.elem_type = kind
    onnx.save(model, f"{folder}/{name}.onnx")


def make_tables(generator):
    rows = torch.randint(-8, 9, (SAMPLES, 3), generator=generator) / 8.0
    prices = rows[:, :1] * rows[:, 1:2] - rows[:, 2:]
    with open(f"{folder}/table.csv", "w") as file:
        file.write("area,rooms,age,price,sold\n")
        for row, price in zip(rows.tolist(), prices[:, 0].tolist()):
            file.write(",".join("%g" % v for v in row + [price, float(price > 0)]) + "\n")
    make_scikit(rows.numpy())
    for is_share, name in ((False, "table"), (True, "share")):
        model = Table(is_share)
        export(model, rows[:BATCH], name, ["x"], ["y"])
        start = {k: v.clone() for k, v in model.state_dict().items()}
        losses = {"bce": F.binary_cross_entropy} if is_share else {
            "mse": F.mse_loss, "l1": F.l1_loss, "smooth-l1": F.smooth_l1_loss, "huber": F.huber_loss,
            "bce-logits": F.binary_cross_entropy_with_logits}
        for loss_name, function in losses.items():
            model.load_state_dict(start)
            targets = (prices > 0).float() if loss_name.startswith("bce") else prices
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
            sides = []

            def loss_of(m, a, b):
                y = m(a)
                sides.append(100.0 * ((y > (0.5 if is_share else 0.0)) == (b > 0.5)).float().mean().item())
                return function(y, b)

            emit(loss_name, "losses", train(model, rows, targets, loss_of, optimizer, 2, BATCH))
            if loss_name.startswith("bce"):
                emit(loss_name, "accuracy", sides)


def make_inside(generator):
    rows = torch.randint(-8, 9, (SAMPLES, 3), generator=generator) / 8.0
    labels = torch.randint(0, CLASSES, (SAMPLES,), generator=generator)
    np.savez(f"{folder}/inside.npz", rows=rows.numpy(), labels=labels.numpy())
    model = Inside()
    export(model, (rows[:BATCH], labels[:BATCH]), "inside", ["x", "labels"], ["loss", "logits"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    emit("inside", "losses", train(model, rows, labels, lambda m, a, b: m(a, b)[0], optimizer, 2, BATCH))


def main():
    print(f"# made by tests/oracle/train.py with PyTorch {torch.__version__}.")
    torch.manual_seed(11)
    generator = torch.Generator().manual_seed(5)
    make_net(generator)
    make_tables(generator)
    make_inside(generator)
    make_type("table", "table64", onnx.TensorProto.DOUBLE, np.float64)
    make_type("inside", "inside16", onnx.TensorProto.FLOAT16, np.float16)
    make_forms()
    copy_onnx_data()
    make_refused()
    make_masked()


main()
