"""Tests the Python package: its layout of structs (compared with the C compiler's), its calls and its errors. Prints
each failure, then a count. Arguments: a folder for files, and the C compiler's layout (tools/make_bindings.py
layout)."""
import ctypes
import gc
import pathlib
import sys
import threading

import brigade as bg
import numpy as np
from brigade import _abi

folder, layout = pathlib.Path(sys.argv[1]), sys.argv[2]
counts = {"passed": 0, "failed": 0}


def expect(holds, what):
    counts["passed" if holds else "failed"] += 1
    if not holds:
        print("FAILED:", what)


def expect_error(function, kind, words, what):
    try:
        function()
    except kind as error:
        expect(words in str(error), f"{what}: {error}")
        return error
    expect(False, what + ": no error")


# ---- sizes, offsets and constants, compared with those of the C compiler ----

wrong = []
for line in open(layout):
    name, _, number = line.rpartition(" ")
    struct, _, field = name.partition(".")
    if field:
        found = getattr(_abi.STRUCTS[struct], field).offset
    else:
        found = ctypes.sizeof(_abi.STRUCTS[name]) if name in _abi.STRUCTS else _abi.CONSTANTS[name]
    if found != int(number) % 2**64 and found != int(number):
        wrong.append(f"{name} is {number}, not {found}")
expect(not wrong, "; ".join(wrong))
expect(all(bg.library.bg_struct_bytes(name.encode()) for name in _abi.STRUCTS), "the library knows every struct")


# ---- graphs ----

X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
Y = np.array([[0, 0], [1, 0], [1, 0], [0, 1]], np.float32)


def build():
    graph = bg.Graph()
    x, y = graph.input("x", "float32", (4, 2)), graph.input("y", np.float32, (4, 2))
    hidden = graph.tanh(graph.linear_layer("fc1", x, 8, True))
    graph.block("second")
    guess = graph.linear_layer(name="fc2", x=hidden, out_features=2, bias=True)
    loss = graph.mse_loss("mse", guess, y, "mean")
    graph.output("loss", loss)
    graph.output("guess", guess)
    return graph, loss


graph, loss = build()
expect(loss.shape == () and "fc1" in str(graph), "a graph has types and prints")
with graph.scope("outer"), graph.scope("inner"):
    graph.parameter("w", "float32", (3, 2), ("uniform", -1.0, 1.0))
expect(graph.find_variable("outer.inner.w").shape == (3, 2), "scopes begin and end")

images = bg.Graph()
picture = images.input("picture", "float32", (1, 3, 8, 8))
conv = images.conv2d_layer("conv", picture, 16, 3, 3, bias=True, options={"padding": [1, 1], "stride": 2})
expect(conv.shape == (1, 16, 4, 4), "options of an op as a mapping")
pooled = images.max_pool2d(None, conv, {"kernel_size": 2})
expect(pooled.shape == (1, 16, 2, 2), "options that begin with a number")
expect(images.reshape(None, pooled, [16, 4]).shape == (16, 4), "a shape as a list")
expect(images.reduce(None, "mean", pooled, [2, 3], True).shape == (1, 16, 1, 1), "axes as a list")
both = images.concat(None, [pooled, pooled], axis=1)
expect(both.shape == (1, 32, 2, 2), "a list of values")
expect("x" in images.softmax.__doc__ and "options" in bg.Graph.signature("conv2d_layer"), "a method says its parameters")
text = bg.Graph()
steps = text.input("steps", "float32", (5, 2, 3))
states, last = text.gru_layer("gru", steps, 7, options={"layers": 2})
expect(states.shape == (5, 2, 7) and last.shape == (2, 2, 7), "results beside the first")

expect_error(lambda: images.conv2d_layer("again", picture, 16, 3, 3, True, {"strides": 2}), bg.Error, "has no `strides`",
             "an option that is misspelled")
expect_error(lambda: images.linear_layer("l", picture), TypeError, "lacks `out_features`", "a missing argument")
expect_error(lambda: images.linear_layer("l", 3, 4), TypeError, "must be a value", "an argument that is no value")
expect_error(lambda: images.linear_layer("l", picture, 4, width=3), TypeError, "no argument `width`", "an unknown argument")
expect_error(lambda: images.no_such_op(picture), AttributeError, "bg_no_such_op", "an unknown op")
expect_error(lambda: images.input("z", "float33", (1,)), bg.Error, "float33", "an unknown type")
expect_error(lambda: images.input("z", "float32", [1] * 7), bg.Error, "7 dimensions", "too many dimensions")
expect_error(lambda: images.mse_loss("m", conv, conv, "average"), bg.Error, "BG_LOSS_MEAN", "a word that is none")
images.add(conv, picture)
failure = expect_error(images.check, bg.Error, "do not broadcast", "shapes that do not fit")
expect(failure.status == bg.CONSTANTS["BG_ERROR_SHAPE"] and failure.name == "shape", "an error has its status")

# ---- options and optimizers ----

options = bg.Options(strategy="single", gradient_accumulation=2, max_gradient_norm=1.5)
options["device_mapping"] = [0]
expect((options["strategy"], options["gradient_accumulation"], options["max_gradient_norm"], options["strict"],
        options["device_mapping"]) == ("single", 2, 1.5, False, [0]), "options by name")
expect_error(lambda: bg.Options(stratgy="single"), bg.Error, "strategy", "an option that is misspelled")
expect_error(lambda: bg.Options(strategy="fast"), bg.Error, "fast", "a value that is none")
adam = bg.adamw(0.01, weight_decay=0.2)
adam.beta1 = 0.5
expect((adam.learning_rate, adam.weight_decay, adam.beta1, adam.beta2) == (0.01, 0.2, 0.5, 0.999), "an optimizer's numbers")
expect_error(lambda: bg.sgd(0.1, momentun=0.9), bg.Error, "has no `momentun`", "a setting that is misspelled")
expect_error(lambda: bg.sgd(-1), bg.Error, "learning", "a number out of range")
expect_error(lambda: bg.optimizer("sgdd", 1), bg.Error, "sgdd", "an unknown optimizer")

# ---- sessions ----

session = bg.Session.training(graph, loss, bg.adam(0.05), bg.Options(strategy="pipelined"))
expect(session.inputs == {"x": ("float32", (4, 2)), "y": ("float32", (4, 2))}, "a session's inputs")
first = session.run(x=X, y=Y)["loss"]
for _ in range(60):
    results = session.run({"x": X.tolist()}, ["loss"], y=Y)
expect(set(results) == {"loss"} and results["loss"] < first / 4 and session.step == 61, "it learns")
expect(not np.shares_memory(session.run(x=X, y=Y)["guess"], session.run(x=X, y=Y)["guess"]), "results are arrays of their own")
strided = np.repeat(X, 2, axis=1)[:, ::2]
before = session.run(x=X, y=Y)["loss"]
expect(not strided.flags["C_CONTIGUOUS"], "a strided array")
expect_error(lambda: session.run(x=X), bg.Error, "lacks input `y`", "a missing input")
expect_error(lambda: session.run(x=X, y=Y, z=X), bg.Error, "no input `z`", "an unknown input")
expect_error(lambda: session.run({"x": X, "y": Y}, ["none"]), bg.Error, "no output `none`", "an unknown output")
expect_error(lambda: session.run(x=X[:3], y=Y), bg.Error, "a run takes float32[4,2]", "a shape that does not fit")
expect_error(lambda: session.run(x=X.T, y=Y), bg.Error, "a run takes float32[4,2]", "the same elements in another shape")
expect_error(lambda: session.run(x=X.astype(np.float64), y=Y), bg.Error, "must be float32", "another element type")
session.set_learning_rate(0.0)
weights = session.weights
expect((session.run(x=strided, y=Y)["guess"] == session.run(x=X, y=Y)["guess"]).all(), "strides do not matter")
expect(sorted(weights.parameters()) == ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"], "names of parameters")

# ---- weights ----

path = folder / "w.safetensors"
weights.save(path)
loaded = bg.Weights()
expect(set(loaded.load(path).values()) == {"loaded"} and set(loaded) == set(weights.parameters()), "weights leave and come back")
expect(all((loaded[name] == weights[name]).all() for name in loaded), "with the same values")
guess = session.run(x=X, y=Y)["guess"]
inference = bg.Session.inference(graph, loaded, bg.Options(strategy="single"))
expect((inference.run(x=X, y=Y)["guess"] == guess).all(), "inference has the same results")
weights.save(folder / "w.npz", prefix="model.", renames={"dense.*": "fc1.*"})
with np.load(folder / "w.npz") as arrays:
    expect(sorted(arrays) == ["model.dense.bias", "model.dense.weight", "model.fc2.bias", "model.fc2.weight"], "names by pattern")
other = bg.Weights()
expect(other.load(folder / "w.npz", prefix="model.", renames={"dense.*": "fc1.*"})["fc1.bias"] == "loaded", "and back")
np.savez(folder / "part.npz", **{"fc1.weight": loaded["fc1.weight"], "more": np.zeros(3, np.float32)})
plan = bg.Plan.inference(graph)
expect_error(lambda: bg.Weights().load(folder / "part.npz", plan=plan), bg.Error, "missing", "a file that lacks weights")
expect(bg.Weights().load(folder / "part.npz", plan=plan, strict=False) ==
       {"fc1.weight": "loaded", "fc1.bias": "missing", "fc2.weight": "missing", "fc2.bias": "missing", "more": "unexpected"},
       "the report")
expect_error(lambda: bg.Session.inference(graph, bg.Weights()), bg.Error, "fc1.weight",
             "inference without weights")
expect_error(lambda: loaded["fc3"], KeyError, "fc3", "a weight that is not there")
expect_error(lambda: loaded.__setitem__("fc1.bias", np.arange(8)), bg.Error, "must be float32", "another type")
loaded["fc1.bias"] = list(range(8))
expect_error(lambda: loaded.__setitem__("fc1.bias", np.zeros(9, np.float32)), bg.Error, "fc1.bias", "another shape")
expect((inference.run(x=X, y=Y)["guess"] != guess).any() and loaded["fc1.bias"].dtype == np.float32, "a weight that was set")
half = bg.Weights()
half["h"] = np.array([1.5], np.float16)
expect(half["h"].dtype == np.float16 and len(half) == 1, "types of weights")
expect((bg.bfloat16_to_float32(bg.float32_to_bfloat16(np.float32([1, 1 + 2**-8, 1 + 3 * 2**-8, -2]))) ==
        np.float32([1, 1, 1 + 2**-6, -2])).all(), "bfloat16 is rounded to even")

# ---- readers in threads, beside a training ----

trained = bg.Session.training(graph, loss, bg.sgd(0.1), bg.Options(strategy="single"))
plan = bg.Plan.inference(graph, bg.Options(strategy="single"))
trained.weights.publish()
readers = [bg.Session.reader(plan, trained.weights) for _ in range(2)]
old = [reader.run(x=X, y=Y)["guess"] for reader in readers]
seen = [None, None]


def serve(i):
    for _ in range(50):
        seen[i] = readers[i].run(x=X, y=Y)["guess"]


threads = [threading.Thread(target=serve, args=(i,)) for i in range(2)]
for thread in threads:
    thread.start()
for _ in range(20):
    trained.run(x=X, y=Y)
for thread in threads:
    thread.join()
expect((seen[0] == old[0]).all() and (seen[1] == old[0]).all(), "readers keep to what was published")
expect(trained.weights.publish() == 2 and (readers[0].run(x=X, y=Y)["guess"] != old[0]).any(), "and see the next version")
expect(plan.summary["stage_count"] == 1 and "transient" in plan.memory(), "a plan says what it is")

# ---- data sets, loaders, and the trainer against a loop of one's own ----

ROWS = np.arange(40, dtype=np.float32).reshape(20, 2) / 40
samples = bg.Dataset(x=ROWS, y=ROWS[:, ::-1])
expect(len(samples) == 20 and samples.names == ("x", "y") and len(samples.take(5)) == 5 and len(samples.shard(1, 3)) == 7,
       "a data set of arrays")
loader = bg.Loader(samples, batch_size=4, shuffle=True, seed=3, worker_count=2)
epochs = [[batch["x"] for batch in loader] for _ in range(2)]
expect(len(loader) == 5 and [each.shape for each in epochs[0]] == [(4, 2)] * 5 and loader.statistics["batch_count"] == 10,
       "batches of an epoch")
expect(all((np.sort(np.concatenate(epoch), axis=0) == ROWS).all() for epoch in epochs) and
       (np.concatenate(epochs[0]) != np.concatenate(epochs[1])).any(), "each sample once an epoch, in another order")
expect(all((a == b["x"]).all() for a, b in zip(epochs[1][2:], loader.epoch(1, 2))), "an epoch from the middle")
squares = bg.Dataset.from_function(6, {"n": ("int32", (1,))}, lambda epoch, index: {"n": np.array([index * index + epoch], np.int32)})
expect([list(batch["n"].ravel()) for batch in bg.Loader(squares, batch_size=3, mode="sync").epoch(1)] == [[1, 2, 5], [10, 17, 26]],
       "samples of a function")
broken = bg.Dataset.from_function(2, {"n": ("int32", (1,))}, lambda epoch, index: {"n": np.zeros(2, np.int32)})
expect_error(lambda: list(bg.Loader(broken)), bg.Error, "must be [1]", "a sample of another shape")
expect_error(lambda: bg.Dataset(x=ROWS, y=ROWS[:5]), bg.Error, "", "arrays of different lengths")
expect_error(lambda: bg.Loader(samples, batch_sise=2), bg.Error, "has no `batch_sise`", "a loader's option that is misspelled")

seen = []


def network(graph, task, micro_batch):
    seen.append((task, micro_batch))
    x = graph.input("x", "float32", (micro_batch, 2))
    guess = graph.linear_layer("fc2", graph.tanh(graph.linear_layer("fc1", x, 8, bias=True)), 2, bias=True)
    graph.output("guess", guess)
    if task != "predict":
        loss = graph.mse_loss("mse", guess, graph.input("y", "float32", (micro_batch, 2)), "mean")
        graph.output("loss", loss)
        return loss


events = []
trainer = bg.Trainer(network, bg.adam(0.05), micro_batch=4, max_epochs=3, seed=5, callbacks=[events.append])
trainer.fit({"x": ROWS, "y": ROWS[:, ::-1]}, samples.take(8))
expect(seen[:2] == [("fit", 4), ("validate", 4)] and trainer.step == 15 and trainer.epoch == 3, "a trainer fits")
kinds = [event.kind for event in events]
expect(kinds.count("on_batch_end") == 15 + 6 and kinds[0] == "on_fit_start" and kinds[-1] == "on_fit_end" and
       events[0].trainer is trainer, "callbacks get the events")
own = bg.Graph()
loss = network(own, "fit", 4)
loop = bg.Session.training(own, loss, bg.adam(0.05), bg.Options(strategy="single", seed=5))
for _ in range(3):
    for at in range(0, 20, 4):
        loop.run(x=ROWS[at:at + 4], y=ROWS[at:at + 4, ::-1])
expect(all((loop.weights[name] == trainer.weights[name]).all() for name in loop.weights.parameters()),
       "the bits of a loop of one's own")
tested, predicted = trainer.test(samples), trainer.predict(samples)
expect(0 < tested["loss"] < 1 and tested == trainer.metrics("test") and trainer.metrics("validate")["loss"] > 0, "metrics")
expect(set(predicted) == {"guess"} and predicted["guess"].shape == (20, 2) and
       abs(((predicted["guess"] - ROWS[:, ::-1]) ** 2).mean() - tested["loss"]) < 1e-6, "predictions")
expect(trainer.session("fit").step == 15, "a task's session")
outputs, rates = [], []


def watch(event):
    if event.kind == "on_call_end":
        outputs.append(float(event.outputs["loss"].ravel()[0]))
    if event.kind == "on_batch_end" and event.batch == 2:
        event.stop()


watched = bg.Trainer(network, bg.sgd(0.1), callbacks=[watch], micro_batch={"fit": 2}, max_epochs=5, batch_limits={"validate": 0},
                     learning_rate=lambda step: rates.append(step) or 0.1)
watched.fit(bg.Loader(samples, batch_size=2))
expect(len(outputs) == 2 and watched.was_stopped and rates[:2] == [0, 1] and outputs[0] > 0, "a callback stops the fit, and sees outputs")


class Stop(Exception):
    pass


def refuse(*_):
    raise Stop("no")


expect_error(lambda: bg.Trainer(refuse).fit(samples), Stop, "no", "an exception of the model")
expect_error(lambda: bg.Trainer(network, micro_batch=4, callbacks=[refuse]).fit(samples), Stop, "no", "an exception of a callback")
expect_error(lambda: bg.Trainer(network, micro_batch=4, learning_rate=refuse).fit(samples), Stop, "no", "an exception of the learning rate")
expect_error(lambda: bg.Trainer(network, max_epoch=3), bg.Error, "has no `max_epoch`", "a trainer's option that is misspelled")
expect_error(lambda: bg.Trainer(network, micro_batch=4).test(samples), bg.Error, "fc1.weight", "a test without weights")

# ---- a generator ----

gpt = dict(layers=1, hidden=16, heads=2, sequence_length=4, positions=16, vocabulary=257)
letters = bg.Tokenizer()
expect(letters.encode("ab") == [97, 98] and letters.decode([104, 105]) == "hi" and letters.vocabulary == 257 and
       letters.end_of_text == 256, "a tokenizer of bytes")
expect_error(lambda: bg.Generator(bg.Weights(), **gpt), bg.Error, "wte.weight", "a generator without weights")
generator = bg.Generator(bg.Weights(), bg.Options(initialize_missing=True), sequences=2, **gpt)
prompts = [[1, 2, 3], [4, 5, 6, 7, 8], [9]]
both = generator.run(prompts, max_tokens=5, sampling={"seed": 7})
alone = [generator.run([prompt], max_tokens=5, seeds=[7 + i])[0] for i, prompt in enumerate(prompts)]
expect([list(each.tokens) for each in both] == [list(each.tokens) for each in alone] and
       all(len(each.tokens) == 5 and each.end == "length" and each.text is None for each in both),
       "prompts beside each other and alone")
heard = []
spoken = generator.run(["ab", "c"], letters, max_tokens=4, on_token=heard.append, sampling={"temperature": 0.0})
expect([token.place for token in heard if token.prompt == 0] == [0, 1, 2, 3] and heard[-1].is_last and
       "".join(token.text for token in heard if token.prompt == 0) == spoken[0].text, "a callback for each token")
ended = generator.run([[1]], max_tokens=9, on_token=lambda token: token.place < 2)
expect(len(ended[0].tokens) == 3 and ended[0].end == "callback", "the callback ends a prompt")
first = int(spoken[0].tokens[0])
expect(generator.run(["ab"], letters, stop_tokens=[first], sampling={"temperature": 0.0})[0].end == "stop_token", "a stop token")
beams = generator.run([[1, 2]], max_tokens=3, beams=2, returned_beams=2)
expect(len(beams[0]) == 2 and beams[0][0].score >= beams[0][1].score, "beams, the best first")
generator.feed([97, 98])
expect(len(generator) == 2 or generator.reset() is None, "a generator counts its tokens")
generator.reset()
generator.feed([97, 98])
expect(len(generator) == 2 and generator.logits.shape == (257,) and generator.sample(temperature=0.0) == first ==
       int(generator.logits.argmax()), "by hand")
expect_error(lambda: generator.run([[1]], on_token=refuse), Stop, "no", "an exception of on_token")
expect_error(lambda: generator.run(["a"]), bg.Error, "no tokenizer", "a text without a tokenizer")
expect_error(lambda: generator.run([[300]]), bg.Error, "300", "a token outside the vocabulary")

# ---- progress ----

steps = []
loaded.save(folder / "p.safetensors", progress=lambda *where: steps.append(where))
expect([where[1] for where in steps] == sorted({where[1] for where in steps}) and steps[-1][2] == 4 * (16 + 8 + 16 + 2) and len(steps) == 4,
       "saving says how far it is")
expect_error(lambda: bg.Weights().load(folder / "p.safetensors", progress=lambda *_: True), bg.Error, "canceled", "a load that is canceled")
expect_error(lambda: loaded.save(folder / "q.safetensors", progress=refuse), Stop, "no", "an exception of progress")
expect(not (folder / "q.safetensors").exists(), "a save that is canceled leaves no file")

steps = []
watched = bg.Options(progress=lambda *where: steps.append(where))
plan = bg.Plan.training(*build(), bg.sgd(0.1), watched)
passes = len(steps)
del watched
bg.Session(plan)
expect(passes > 10 and steps[passes][:2] == ("memory of device 0", 0) and steps[-1][0] in loaded and steps[-1][1] < steps[-1][2],
       "planning and the creation of a session say how far they are")
expect_error(lambda: bg.Plan.training(*build(), bg.sgd(0.1), bg.Options(progress=lambda part, *_: part == steps[5][0])), bg.Error,
             steps[5][0], "a plan that is canceled")
expect_error(lambda: bg.Session.training(*build(), bg.sgd(0.1), bg.Options(progress=lambda part, *_: "memory" in part and refuse())),
             Stop, "no", "an exception of progress while a session is created")
silent = bg.Options(progress=refuse)
silent["progress"] = None
expect(bg.Session.training(*build(), bg.sgd(0.1), silent) is not None, "progress that was removed")

# ---- lifetimes: an object keeps what it borrows ----

made = bg.Session(bg.Plan.training(*build(), bg.sgd(0.1)))
gc.collect()
expect(made.run(x=X, y=Y)["loss"] > 0, "a session keeps its plan")
names = made.weights
del made
gc.collect()
expect(len(names) > 0 and names["fc1.bias"].shape == (8,), "weights keep their session")
with bg.Graph() as closed:
    pass
expect_error(lambda: closed.check(), bg.Error, "graph", "a graph that is closed")
with bg.Weights() as closed:
    pass
expect_error(lambda: closed.__setitem__("w", [1.0]), bg.Error, "bg_weights_find", "weights that cannot be searched get no new one")

print(f"{counts['passed']} passed, {counts['failed']} failed")
sys.exit(counts["failed"] > 0)
