"""export.py: writes a small convolutional network as model.onnx, ready to be trained. Chapter 8 of the tutorial."""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(8 * 6 * 6, 32), nn.ReLU(), nn.Linear(32, 10))

torch.onnx.export(
    model, torch.zeros(1, 1, 28, 28), "model.onnx",
    input_names=["image"], output_names=["scores"],
    dynamic_axes={"image": {0: "batch"}, "scores": {0: "batch"}},
    training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
