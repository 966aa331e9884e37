"""Plans, sessions and weights."""
import collections.abc
import ctypes

import numpy as np

from . import _abi
from ._library import CONSTANTS, Error, Owner, call, create, encode, guard, library, text
from .graph import make_struct
from .options import Options, view
from .types import array_of, as_elements, describe, dtype_number, make_type, numpy_dtype, shape_of


def _options(options):
    """Returns the C struct of options, and the object that must outlive the struct."""
    used = options if options is not None else Options()
    return view(used), used


class Plan(Owner):
    """A graph that is compiled for a strategy. The graph is copied."""

    _destroy = "bg_plan_destroy"

    @classmethod
    def training(cls, graph, loss, optimizer, options=None):
        struct, keep = _options(options)
        return cls(create("bg_plan_create_training", graph, loss._handle, ctypes.byref(optimizer._struct), struct), keep)

    @classmethod
    def inference(cls, graph, options=None):
        struct, keep = _options(options)
        return cls(create("bg_plan_create_inference", graph, struct), keep)

    @property
    def summary(self):
        """The fields of bg_plan_summary as a mapping."""
        found = _abi.bg_plan_summary()
        library.bg_plan_read_summary(self, ctypes.byref(found))
        return {name: getattr(found, name) for name, _ in found._fields_}

    def memory(self):
        return text("bg_plan_print_memory", self)

    def placement(self):
        return text("bg_plan_print_placement", self)

    def timetable(self):
        return text("bg_plan_print_timetable", self)


class Weights(Owner, collections.abc.MutableMapping):
    """Named tensors that sessions share. weights["fc.weight"] is a copy of the newest value. Set values only between runs. Values of
    bfloat16 are uint16."""

    _destroy = "bg_weights_destroy"

    def __init__(self, pointer=None, owner=None):
        super().__init__(create("bg_weights_create") if pointer is None else pointer, owner)
        self._is_borrowed = owner is not None

    def close(self):
        if getattr(self, "_is_borrowed", False):
            self._as_parameter_, self._keep = None, ()
        super().close()

    def __len__(self):
        return library.bg_weights_count(self)

    def _at(self, index):
        found = _abi.bg_weight()
        call("bg_weights_at", self, index, ctypes.byref(found))
        return found

    def __iter__(self):
        return iter([self._at(i).name.decode() for i in range(len(self))])

    def _find(self, name):
        found = _abi.bg_weight()
        try:
            call("bg_weights_find", self, name.encode(), ctypes.byref(found))
        except Error as error:
            if error.status == CONSTANTS["BG_ERROR_NOT_FOUND"]:
                raise KeyError(error.message) from None
            raise
        return found

    def __getitem__(self, name):
        found = self._find(name)
        return array_of(found.type, found.data)

    def __setitem__(self, name, values):
        try:
            number = self._find(name).type.dtype
        except KeyError:
            array = np.ascontiguousarray(values)
            number = dtype_number(array.dtype)
        else:
            array = as_elements(values, number, f"weight `{name}`")
        made = make_type(number, array.shape)
        call("bg_weights_set", self, name.encode(), ctypes.byref(made), array.ctypes.data)

    def __delitem__(self, name):
        raise TypeError("weights cannot be removed; make new Weights with the others")

    def parameters(self):
        """Returns the names of the trained tensors, without running statistics and optimizer state."""
        role = CONSTANTS["BG_ROLE_PARAMETER"]
        return [found.name.decode() for found in map(self._at, range(len(self))) if found.role == role]

    def load(self, path, **options):
        """Reads a .safetensors or .npz file, or a folder. Options are those of bg_weights_load_options; `renames` maps names in the
        file to names in the model. progress(name, done_bytes, total_bytes) may return True to cancel. Returns the result for each tensor:
        {name: "loaded", "missing", ...}."""
        struct, _keep = _file_options(_abi.bg_weights_load_options, options)
        report = _abi.bg_weights_report()
        call("bg_weights_load", self, encode(path), ctypes.byref(struct), ctypes.byref(report))
        try:
            return {found.name.decode(): library.bg_weights_outcome_name(found.outcome).decode()
                    for found in (report.results[i] for i in range(report.result_count))}
        finally:
            library.bg_weights_report_clear(ctypes.byref(report))

    def save(self, path, **options):
        """Writes a .safetensors or .npz file, or a folder. Options are those of bg_weights_save_options."""
        struct, _keep = _file_options(_abi.bg_weights_save_options, options)
        call("bg_weights_save", self, encode(path), ctypes.byref(struct))

    def publish(self):
        """Publishes the newest values for readers, and returns their version."""
        number = ctypes.c_uint64()
        call("bg_weights_publish", self, ctypes.byref(number))
        return number.value


def stream_shape(stream):
    """Returns the type of a stream's values in one run, with all micro-batches along the first dimension."""
    made = _abi.bg_type()
    call("bg_stream_shape", ctypes.byref(stream), CONSTANTS["BG_STREAM_FLAT"], ctypes.byref(made))
    return made


def _file_options(struct, options):
    options = dict(options)
    renames = options.pop("renames", {})
    plan = options.pop("plan", None)
    progress = options.pop("progress", None)
    made = make_struct(struct, options)
    if progress is not None:
        made.progress = _abi.bg_progress_function(lambda _, name, *where: guard(progress, name.decode(), *where))
    pairs = (_abi.bg_weights_rename * max(len(renames), 1))(*((a.encode(), b.encode()) for a, b in renames.items()))
    if renames:
        made.renames, made.rename_count = pairs, len(renames)
    if plan is not None:
        made.plan = plan._as_parameter_
    return made, (pairs, options)


class Session(Owner):
    """A plan that runs. run(x=array, y=array) returns {output: array}.

    One thread at a time may use a session. To infer in several threads at the same time, make one reader for each.
    """

    _destroy = "bg_session_destroy"

    def __init__(self, plan, weights=None):
        super().__init__(create("bg_session_create", plan, weights), plan, weights)

    @classmethod
    def _make(cls, pointer, *keep):
        made = cls.__new__(cls)
        Owner.__init__(made, pointer, *keep)
        return made

    @classmethod
    def _borrow(cls, pointer, owner):
        """Wraps a session that another object destroys."""
        made = cls._make(pointer, owner)
        made._is_borrowed = True
        return made

    def close(self):
        if getattr(self, "_is_borrowed", False):
            self._as_parameter_ = None
        super().close()

    @classmethod
    def training(cls, graph, loss, optimizer, options=None, weights=None):
        struct, keep = _options(options)
        return cls._make(create("bg_session_create_training", graph, loss._handle, ctypes.byref(optimizer._struct), struct, weights),
                         weights, keep)

    @classmethod
    def inference(cls, graph, weights=None, options=None):
        struct, keep = _options(options)
        return cls._make(create("bg_session_create_inference", graph, struct, weights), weights, keep)

    @classmethod
    def reader(cls, plan, weights):
        """Makes a session for inference in one thread, which reads the weights that were published last (Weights.publish), concurrently
        with other sessions."""
        return cls._make(create("bg_session_create_reader", plan, weights), plan, weights)

    @property
    def weights(self):
        return Weights(ctypes.c_void_p(library.bg_session_weights(self)), self)

    @property
    def step(self):
        """The number of weight updates over the life of the weights."""
        return library.bg_session_step(self)

    def set_optimizer(self, optimizer):
        call("bg_session_set_optimizer", self, ctypes.byref(optimizer._struct))

    def set_learning_rate(self, learning_rate):
        call("bg_session_set_learning_rate", self, learning_rate)

    def _streams(self, kind):
        for index in range(getattr(library, f"bg_session_{kind}_count")(self)):
            found = _abi.bg_stream()
            call(f"bg_session_{kind}", self, index, ctypes.byref(found))
            yield found

    @property
    def inputs(self):
        """The inputs of a run: {name: (type, shape)}."""
        return {found.name.decode(): _describe(stream_shape(found)) for found in self._streams("input")}

    @property
    def outputs(self):
        return {found.name.decode(): _describe(stream_shape(found)) for found in self._streams("output")}

    def run(self, inputs=None, outputs=None, **named):
        """Runs the session once. `inputs` is a mapping of arrays by name, which may also be named arguments; each has the micro-batches
        along the first dimension. `outputs` are the names of the outputs to return; None: all."""
        given = {**(inputs or {}), **named}
        arrays, results = [], {}
        for stream in self._streams("input"):
            name = stream.name.decode()
            if name not in given:
                raise Error(CONSTANTS["BG_ERROR_INVALID"], f"the run lacks input `{name}`")
            wanted = stream_shape(stream)
            array = as_elements(given.pop(name), wanted.dtype, f"input `{name}`")
            if array.nbytes != stream.size_bytes or array.shape[1:] != shape_of(wanted)[1:]:
                raise Error(CONSTANTS["BG_ERROR_SHAPE"], f"input `{name}` is {array.dtype}{list(array.shape)} but a run takes "
                            f"{describe(wanted)}, {stream.count} micro-batches of {describe(stream.micro_batch_type)}")
            arrays.append(array)
        if given:
            raise Error(CONSTANTS["BG_ERROR_NOT_FOUND"], f"the session has no input `{next(iter(given))}`")
        places = []
        known = list(self._streams("output"))
        unknown = set(outputs or ()) - {stream.name.decode() for stream in known}
        if unknown:
            raise Error(CONSTANTS["BG_ERROR_NOT_FOUND"], f"the session has no output `{min(unknown)}`")
        for stream in known:
            name = stream.name.decode()
            if outputs is not None and name not in outputs:
                places.append(None)
                continue
            made = stream_shape(stream)
            results[name] = np.empty(shape_of(made), numpy_dtype(made.dtype))
            places.append(results[name].ctypes.data)
        call("bg_session_run", self, (ctypes.c_void_p * max(len(arrays), 1))(*(array.ctypes.data for array in arrays)),
             (ctypes.c_void_p * max(len(places), 1))(*places))
        return results


def _describe(made):
    return describe(made).split("[")[0], shape_of(made)
