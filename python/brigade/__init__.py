"""Brigade from Python: builds, trains and runs networks with NumPy arrays. The package calls libbrigade.so through ctypes,
so nothing is compiled.

    import numpy as np
    import brigade as bg

    graph = bg.Graph()
    x, y = graph.input("x", "float32", (4, 2)), graph.input("y", "float32", (4, 2))
    hidden = graph.tanh(graph.linear_layer("fc1", x, 8, bias=True))
    graph.block("second")
    guess = graph.linear_layer("fc2", hidden, 2, bias=True)
    loss = graph.mse_loss("mse", guess, y, "mean")
    graph.output("loss", loss)

    session = bg.Session.training(graph, loss, bg.adam(0.05), bg.Options(strategy="pipelined"))
    outputs = session.run(x=..., y=...)
    outputs["loss"]
    session.weights["fc1.weight"]

Trainer trains over epochs of a Dataset or a Loader, and Generator continues texts with a GPT. Every op and layer of the C
headers is a method of Graph, with the C function's name and parameters. If a function of the library fails, brigade.Error is
raised with the library's message.
"""
from ._library import CONSTANTS, Error, call, library, version
from .data import Dataset, Loader
from .generate import Generation, Generator, Token, Tokenizer
from .graph import Graph, Value
from .options import Optimizer, Options, adadelta, adagrad, adam, adamax, adamw, lamb, optimizer, rmsprop, sgd
from .session import Plan, Session, Weights
from .trainer import Event, Trainer
from .types import bfloat16_to_float32, float32_to_bfloat16

__version__ = version()
__all__ = ["CONSTANTS", "Dataset", "Error", "Event", "Generation", "Generator", "Graph", "Loader", "Optimizer", "Options", "Plan",
           "Session", "Token", "Tokenizer", "Trainer", "Value", "Weights", "adadelta", "adagrad", "adam", "adamax", "adamw",
           "bfloat16_to_float32", "call", "float32_to_bfloat16", "lamb", "library", "optimizer", "rmsprop", "sgd", "version"]
