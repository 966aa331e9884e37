"""Graphs, whose methods are the ops, layers and losses of the C headers."""
import ctypes
import functools
import re

import numpy as np

from . import _abi
from ._library import CONSTANTS, Error, Owner, create, call, library, text
from .types import as_elements, describe, dtype_number, make_type, shape_of


class Value:
    """A value of a graph."""

    def __init__(self, graph, handle):
        self.graph, self._handle = graph, handle

    @property
    def type(self):
        made = _abi.bg_type()
        library.bg_graph_read_type(self.graph, self._handle, ctypes.byref(made))
        return made

    @property
    def shape(self):
        return shape_of(self.type)

    @property
    def name(self):
        return library.bg_graph_name(self.graph, self._handle).decode()

    def __repr__(self):
        return f"<Value {describe(self.type)} {self.name}>" if self._handle.id else "<Value of a graph with an error>"


def choice(enum, given):
    """Returns the number of an enumeration's constant from its short name: "mean" is BG_LOSS_MEAN of bg_loss_reduction."""
    if isinstance(given, int):
        return int(given)
    word = str(given).upper()
    names = _abi.ENUMS[enum]
    found = [name for name in names if name == word or name.endswith("_" + word)]
    shortest = sorted(found, key=len)[:1]
    if not shortest:
        raise Error(CONSTANTS["BG_ERROR_INVALID"], f"{given!r} is not a {enum}; use one of {', '.join(names)}")
    return CONSTANTS[shortest[0]]


def fill(struct, values):
    """Sets members of a struct from a mapping. Lists fill arrays, and names of element types become numbers."""
    fields = dict(struct._fields_)
    for name, value in values.items():
        if name not in fields:
            raise Error(CONSTANTS["BG_ERROR_INVALID"], f"{type(struct).__name__} has no `{name}`; it has "
                        + ", ".join(field for field in fields if field != "struct_bytes"))
        if issubclass(fields[name], ctypes.Array):
            value = [value] * fields[name]._length_ if isinstance(value, (int, float)) else list(value)
            getattr(struct, name)[:len(value)] = value
        elif isinstance(value, str) and fields[name] is ctypes.c_int:
            setattr(struct, name, dtype_number(value))
        elif isinstance(value, str):
            setattr(struct, name, value.encode())
        else:
            setattr(struct, name, value)
    return struct


def make_struct(struct, given, *more):
    """Makes a struct of options from the library's defaults and the members that a mapping changes."""
    if isinstance(given, struct):
        return given
    made = struct()
    begin = getattr(library, struct.__name__ + "_init", None) or \
        getattr(library, struct.__name__.replace("_options", "_defaults_init"), None)
    given = dict(given)
    if begin is not None and struct.__name__ + "_init" in _abi.FUNCTIONS:
        extra = [given.pop(name) for name, *_ in _abi.FUNCTIONS[struct.__name__ + "_init"][1][2:]]
        begin(ctypes.byref(made), ctypes.sizeof(made), *extra)
    return fill(made, given)


class _Method:
    """Calls a C function whose first parameter is the graph with arguments from Python."""

    def __init__(self, name):
        self.name = name
        self.result, parameters, self.is_variable = _abi.FUNCTIONS[name]
        self.parameters = parameters[1:]
        self.function = getattr(library, name)
        names = {parameter[0] for parameter in self.parameters}
        # A count that is next to a list is the length of the list: `axes, axis_count` and `rank, dims`.
        self.counts = {}
        for first, second in zip(self.parameters, self.parameters[1:]):
            if self.is_list(first) and second[2].startswith("uint32_t ") and second[0].endswith("count"):
                self.counts[second[0]] = first[0]
            elif self.is_list(second) and first[2] == "uint32_t rank":
                self.counts[first[0]] = second[0]
        self.inputs = [p for p in self.parameters if not self.is_output(p) and p[0] not in self.counts]
        self.names = names

    @staticmethod
    def is_list(parameter):
        return re.match(r"const (bg_value|u?int\d+_t) \*", parameter[2]) is not None

    @staticmethod
    def is_output(parameter):
        name, _, declared = parameter
        return declared.startswith("bg_value *") and name.startswith("out")

    def bind(self, positional, named):
        """Returns the arguments by name."""
        if len(positional) > len(self.inputs):
            raise TypeError(f"{self.name} takes at most {len(self.inputs)} arguments: {self.describe()}")
        given = dict(zip((p[0] for p in self.inputs), positional))
        for name, value in named.items():
            if name in given or name not in {p[0] for p in self.inputs}:
                raise TypeError(f"{self.name} has no argument `{name}`, or has it twice: {self.describe()}")
            given[name] = value
        return given

    def describe(self):
        return ", ".join(p[2] for p in self.inputs)

    def convert(self, parameter, given, keep):
        name, made, declared = parameter
        is_missing = name not in given
        value = given.get(name)

        if made is _abi.bg_value:
            if is_missing and name not in ("bias", "h0", "c0", "mask", "weight"):
                raise TypeError(f"{self.name} lacks `{name}`: {self.describe()}")
            if value is None:
                return _abi.bg_value()
            if not isinstance(value, Value):
                raise TypeError(f"{self.name}: `{name}` is {type(value).__name__} but must be a value of the graph")
            return value._handle
        if made is ctypes.c_char_p:
            return None if value is None else str(value).encode()
        if made is ctypes.c_bool:
            return bool(value)
        if made is ctypes.c_double and not is_missing:
            return float(value)
        if hasattr(made, "_type_") and isinstance(made._type_, type) and not isinstance(made._type_, str):
            return None if value is None else self.convert_pointer(made._type_, value, given, keep)
        if is_missing:
            raise TypeError(f"{self.name} lacks `{name}`: {self.describe()}")
        if made is ctypes.c_int:
            enum = declared.split()[0]
            return dtype_number(value) if enum == "bg_dtype" else choice(enum, value) if enum in _abi.ENUMS else int(value)
        return value

    @staticmethod
    def convert_pointer(to, value, given, keep):
        if to is _abi.bg_value:
            made = (to * max(len(value), 1))(*(each._handle for each in value))
        elif to is _abi.bg_type:
            made = value if isinstance(value, to) else make_type(*value)
        elif issubclass(to, ctypes.Structure):
            if to is _abi.bg_initializer and isinstance(value, (tuple, list)):
                made = to(choice("bg_initializer_kind", value[0]), *value[1:])
            else:
                made = make_struct(to, value)
        else:
            made = (to * len(value))(*value)
        keep.append(made)
        return made if isinstance(made, ctypes.Array) else ctypes.pointer(made)

    def __call__(self, graph, *positional, **named):
        given = self.bind(positional, named)
        keep, arguments, outputs = [], [], []
        for parameter in self.parameters:
            if self.is_output(parameter):
                outputs.append(_abi.bg_value())
                arguments.append(ctypes.byref(outputs[-1]))
            elif parameter[0] in self.counts:
                arguments.append(len(given.get(self.counts[parameter[0]]) or ()))
            else:
                arguments.append(self.convert(parameter, given, keep))
        result = self.function(graph, *arguments)
        if self.result is not _abi.bg_value:
            return result
        if not result.id and self.name.startswith("bg_graph_find"):
            return None
        first = Value(graph, result)
        return (first, *(Value(graph, each) for each in outputs)) if outputs else first


def _takes_graph(name):
    parameters = _abi.FUNCTIONS[name][1]
    return bool(parameters) and parameters[0][2] in ("bg_graph *graph", "const bg_graph *graph") and \
        _abi.FUNCTIONS[name][0] in (_abi.bg_value, None, ctypes.c_uint32)


_METHODS = {name[3:].replace("graph_", "", 1) if name.startswith("bg_graph_") else name[3:]: name
            for name in _abi.FUNCTIONS
            if _takes_graph(name) and not _abi.FUNCTIONS[name][2] and name not in ("bg_graph_destroy", "bg_graph_add")}


@functools.lru_cache(maxsize=None)
def _method(name):
    return _Method(name)


class Graph(Owner):
    """A model. Errors are sticky: check() and making a plan of the graph raise the first error.

    In addition to the methods below, each function of the C headers whose first parameter is a graph is a method:
    graph.conv2d_layer("conv1", x, 16, 3, 3, bias=True, options={"padding": [1, 1]}) calls bg_conv2d_layer. Give enumerations as
    short names ("mean"), structs of options as mappings, and types as (type, shape). Missing options have their defaults.
    Graph.signature(name) returns the C parameters.
    """

    _destroy = "bg_graph_destroy"

    def __init__(self):
        super().__init__(create("bg_graph_create"))

    @classmethod
    def _borrow(cls, pointer):
        """Wraps a graph of the library while a function adds a model to it."""
        made = cls.__new__(cls)
        Owner.__init__(made, ctypes.c_void_p(pointer))
        made._is_borrowed = True
        return made

    def close(self):
        if self.__dict__.get("_is_borrowed"):
            self._as_parameter_ = None
        super().close()

    def __getattr__(self, name):
        if name.startswith("_") or name not in _METHODS:
            raise AttributeError(f"Graph has no `{name}`: no function of the C headers is called bg_{name}")
        method = functools.partial(_method(_METHODS[name]), self)
        method.__doc__ = Graph.signature(name)
        return method

    def __dir__(self):
        return sorted({*super().__dir__(), *_METHODS})

    @staticmethod
    def signature(name):
        """Returns the C parameters of a method."""
        method = _method(_METHODS[name])
        return f"{method.name}({method.describe()})"

    def input(self, name, dtype, shape):
        """Adds an input. `shape` is that of a micro-batch, whose first dimension counts samples."""
        made = make_type(dtype, shape)
        return Value(self, library.bg_graph_input(self, name.encode(), ctypes.byref(made)))

    def constant(self, name, values, dtype=None):
        array = np.asarray(values)
        number = dtype_number(array.dtype if dtype is None else dtype)
        array = as_elements(values, number, f"constant `{name}`")
        made = make_type(number, array.shape)
        return Value(self, library.bg_graph_constant(self, name.encode(), ctypes.byref(made), array.ctypes.data))

    def parameter(self, name, dtype, shape, initializer=("constant", 0.0)):
        """Adds a parameter. `initializer` is a kind ("constant", "uniform", "normal", ...), followed by its numbers a and b."""
        made = make_type(dtype, shape)
        first = _abi.bg_initializer(choice("bg_initializer_kind", initializer[0]), *initializer[1:])
        return Value(self, library.bg_graph_parameter(self, name.encode(), ctypes.byref(made), ctypes.byref(first)))

    def block(self, name=None, device=None):
        """Begins a block, which is a separate stage of a pipeline unless the options assign blocks to stages."""
        library.bg_block_start(self, None if name is None else name.encode(),
                               CONSTANTS["BG_DEVICE_NONE"] if device is None else device)

    def scope(self, name):
        """Returns a context manager. Names that are added within it get `name` and a dot as prefix."""
        return _Scope(self, name)

    def check(self):
        call("bg_graph_check", self)

    def __str__(self):
        return text("bg_graph_print", self)


class _Scope:
    def __init__(self, graph, name):
        self.graph, self.name = graph, name

    def __enter__(self):
        library.bg_scope_begin(self.graph, b"%s", ctypes.c_char_p(self.name.encode()))

    def __exit__(self, *_):
        library.bg_scope_end(self.graph)
