"""The trainer: epochs, validation, metrics and callbacks."""
import ctypes
import weakref

from . import _abi
from ._library import CONSTANTS, Error, Owner, call, create, library
from .data import Loader, as_dataset
from .graph import Graph, choice, fill, make_struct
from .options import view
from .session import Session, Weights, stream_shape
from .types import array_of

_TASKS = ("fit", "validate", "test", "predict")


class Event:
    """An event, which a callback gets. It has `kind` ("on_batch_end"), `task`, `epoch`, `batch`, `batch_count` and `trainer`; during
    the callback also `outputs` and stop(), which ends the fit or the pass after the current batch."""

    def __init__(self, struct, trainer):
        self._struct, self.trainer = struct, trainer
        self.kind = library.bg_trainer_event_name(struct.kind).decode()
        self.task = library.bg_trainer_task_name(struct.task).decode()
        self.epoch, self.batch, self.batch_count = struct.epoch, struct.batch, struct.batch_count

    def stop(self):
        self._struct.stop = True

    @property
    def outputs(self):
        """The outputs of the event's call, {name: array}; empty for events without a call, and after the callback."""
        found, made = self._struct and self._struct.call, {}
        if not found:
            return made
        session = found.contents.session
        for index in range(library.bg_session_output_count(session)):
            stream = _abi.bg_stream()
            call("bg_session_output", session, index, ctypes.byref(stream))
            address = library.bg_trainer_call_output(found, stream.name, ctypes.byref(stream))
            if address:
                made[stream.name.decode()] = array_of(stream_shape(stream), address)
        return made


class _State:
    """The Python functions that the library calls, and the exception that one of them raised."""

    def __init__(self, model, callbacks):
        self.model, self.callbacks, self.thrown, self.trainer = model, callbacks, None, lambda: None

    def add_model(self, _, graph, task, micro_batch, out_loss):
        borrowed = Graph._borrow(graph)
        try:
            loss = self.model(borrowed, _TASKS[task], micro_batch)
            if loss is not None:
                out_loss[0] = loss._handle
        except BaseException as reason:  # an exception must not cross the C code
            self.thrown = reason
            library.bg_graph_fail(graph, CONSTANTS["BG_ERROR_CANCELED"], b"%s", ctypes.c_char_p(b"the model's function raised an exception"))
        finally:
            borrowed.close()

    def on_event(self, _, event, error):
        try:
            for function in self.callbacks:
                made = Event(event.contents, self.trainer())
                try:
                    function(made)
                finally:
                    made._struct = None
            return 0
        except BaseException as reason:
            self.thrown = reason
            return library.bg_error_set(error, CONSTANTS["BG_ERROR_CANCELED"], b"%s", ctypes.c_char_p(b"a callback raised an exception"))

    def of_step(self, function, step):
        try:
            return float(function(step))
        except BaseException as reason:
            self.thrown = reason
            return float("nan")  # the trainer refuses NaN


def _arguments(given):
    """Returns the C array for a mapping {input: number, or "batch", "epoch", "step"}."""
    made = (_abi.bg_trainer_argument * max(len(given), 1))()
    for place, (name, value) in zip(made, given.items()):
        kind = "value" if isinstance(value, (int, float)) else value
        place.input, place.kind = name.encode(), choice("bg_trainer_argument_kind", kind)
        place.value = value if kind == "value" else 0.0
    return made


def _scores(given):
    made = (_abi.bg_score * max(len(given), 1))()
    for place, (name, score) in zip(made, given.items()):
        words = {"kind": "bg_score_kind", "average": "bg_score_average"}
        fill(place, {key: choice(words[key], value) if key in words else value for key, value in {**score, "name": name}.items()})
    return made


def _per_task(value, default):
    """Returns the values of all tasks as a list from {task: number}; one number is returned unchanged."""
    return [value.get(task, default) for task in _TASKS] if isinstance(value, dict) else value


class Trainer(Owner):
    """Trains, validates, tests and predicts.

        def model(graph, task, micro_batch):
            x = graph.input("x", "float32", (micro_batch, 2))
            ...
            return loss

        trainer = bg.Trainer(model, bg.adam(0.01), micro_batch=4, max_epochs=10, callbacks=[print])
        trainer.fit({"x": inputs, "y": targets})
        trainer.metrics("fit")["loss"]

    Further arguments are the fields of bg_trainer_options. `strategy` is a mapping of the fields of bg_ipu_strategy, whose
    training_options and inference_options are Options. `scores` is {name: {"output": ..., "kind": "f1"}}, and `arguments` is
    {input: number, "batch", "epoch" or "step"}. If a function that is passed here raises an exception, the trainer's method ends and
    raises the exception again. Data are a Dataset, a Loader, or a mapping of arrays by the names of inputs.
    """

    _destroy = "bg_trainer_destroy"

    def __init__(self, model, optimizer=None, weights=None, callbacks=(), **options):
        state = _State(model, list(callbacks))
        made = _abi.bg_trainer_options()
        library.bg_trainer_options_init(ctypes.byref(made), ctypes.sizeof(made))
        fields, keep = dict(made._fields_), [state, weights]
        if optimizer is not None:
            made.optimizer = optimizer._struct
        made.add_model = fields["add_model"](state.add_model)
        keep.append(made.add_model)
        if state.callbacks:
            hears = (_abi.bg_trainer_callback * 1)()
            hears[0].function = dict(_abi.bg_trainer_callback._fields_)["function"](state.on_event)
            made.callbacks, made.callback_count = hears, 1
            keep.append(hears)
        self._take_options(made, state, options, keep)
        self._state = state
        self._names = {}
        super().__init__(create("bg_trainer_create", ctypes.byref(made), weights), made, *keep)
        state.trainer = weakref.ref(self)

    @staticmethod
    def _take_options(made, state, options, keep):
        fields, options = dict(made._fields_), dict(options)
        strategy = dict(options.pop("strategy", {}))
        for name in ("training_options", "inference_options"):
            if name in strategy:
                given = strategy.pop(name)
                keep.append(given)
                setattr(made.strategy, name, view(given))
        fill(made.strategy, strategy)
        rate = options.pop("learning_rate", None)
        if rate is not None:
            made.learning_rate = fields["learning_rate"](lambda _, step: state.of_step(rate, step))
        log = options.pop("log", None)
        if log is not None:
            made.log = fields["log"](lambda _, level, message: log(level, message.decode(errors="replace")))
        for name, make in (("arguments", _arguments), ("scores", _scores)):
            if name in options:
                given = options.pop(name)
                array = make(given)
                keep.append(array)
                setattr(made, name, array)
                setattr(made, name[:-1] + "_count", len(given))
        for name, default in (("micro_batch", 0), ("batch_limits", CONSTANTS["BG_ALL_BATCHES"]), ("batch_shares", 1.0)):
            if name in options:
                options[name] = _per_task(options[name], default)
        if isinstance(options.get("micro_batch"), int):
            options["micro_batch"] = [options["micro_batch"], 0, 0, 0]
        fill(made, options)

    def _data(self, given):
        made, keep = _abi.bg_trainer_data(), [given]
        if isinstance(given, Loader):
            made.loader, names = given._as_parameter_, given.dataset.names
        else:
            dataset = as_dataset(given)
            made.dataset, names = dataset._as_parameter_, dataset.names
            keep.append(dataset)
        words = (ctypes.c_char_p * max(len(names), 1))(*(name.encode() for name in names))
        made.names = words
        keep.append(words)
        return made, keep

    def _run(self, name, *arguments):
        self._state.thrown = None
        try:
            call(name, self, *arguments)
        except Error:
            if self._state.thrown is not None:
                raise self._state.thrown from None
            raise

    def fit(self, training, validation=None):
        first, _keep = self._data(training)
        second, _kept = self._data(validation) if validation is not None else (None, None)
        self._run("bg_trainer_fit", ctypes.byref(first), ctypes.byref(second) if second is not None else None)

    def validate(self, data):
        made, _keep = self._data(data)
        self._run("bg_trainer_validate", ctypes.byref(made))
        return self.metrics("validate")

    def test(self, data):
        made, _keep = self._data(data)
        self._run("bg_trainer_test", ctypes.byref(made))
        return self.metrics("test")

    def predict(self, data):
        """Returns the outputs for all samples, {output: array}."""
        task = CONSTANTS["BG_TRAINER_PREDICT"]
        made, _keep = self._data(data)
        self._run("bg_trainer_prepare", task)
        session = library.bg_trainer_session(self, task)
        names = []
        for index in range(library.bg_session_output_count(session)):
            stream = _abi.bg_stream()
            call("bg_session_output", session, index, ctypes.byref(stream))
            names.append(stream.name.decode())
        arrays = (_abi.bg_array * max(len(names), 1))()
        try:
            self._run("bg_trainer_predict", ctypes.byref(made), arrays)
            return {name: array_of(array.type, array.data) for name, array in zip(names, arrays)}
        finally:
            for array in arrays:
                library.bg_array_clear(ctypes.byref(array))

    def metrics(self, task):
        """Returns the metrics of a task's newest pass, {name: mean}; for a count, the share of counted samples instead of the mean."""
        number, made = choice("bg_trainer_task", task), {}
        for index in range(library.bg_trainer_metric_count(self, number)):
            found = _abi.bg_trainer_metric()
            call("bg_trainer_metric_at", self, number, index, ctypes.byref(found))
            share = found.sum / found.samples if found.is_count and found.samples else found.mean
            made[found.name.decode()] = share
        return made

    def session(self, task):
        """Returns the task's session, which the trainer owns; None before the task is compiled."""
        pointer = library.bg_trainer_session(self, choice("bg_trainer_task", task))
        return Session._borrow(ctypes.c_void_p(pointer), self) if pointer else None

    @property
    def weights(self):
        return Weights(ctypes.c_void_p(library.bg_trainer_weights(self)), self)

    @property
    def step(self):
        """The number of weight updates done."""
        return library.bg_trainer_step(self)

    @property
    def epoch(self):
        """The number of epochs done."""
        return library.bg_trainer_epoch(self)

    def stop(self):
        library.bg_trainer_stop(self)

    @property
    def was_stopped(self):
        return library.bg_trainer_was_stopped(self)

    def resume(self, epoch, batch, step):
        """Lets the next fit continue at this batch of this epoch, after `step` updates."""
        library.bg_trainer_resume(self, epoch, batch, step)

    def set_optimizer(self, optimizer):
        call("bg_trainer_set_optimizer", self, ctypes.byref(optimizer._struct))

    def samples_per_call(self, task="fit"):
        """Returns the number of samples in a call of a task, which is the batch size for a loader."""
        return library.bg_trainer_samples_per_call(self, choice("bg_trainer_task", task))
