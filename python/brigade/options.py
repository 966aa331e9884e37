"""Options of plans and sessions, and optimizers."""
import ctypes

from . import _abi
from ._library import CONSTANTS, Owner, call, create, encode, guard, library, text
from .graph import choice, fill


class Options(Owner):
    """Options with the names of docs/options.md: Options(strategy="pipelined", gradient_accumulation=4).

    `progress` is a function (part, done, total) that is called while plans and sessions with these options are made or
    measured. It may return True to cancel. None removes the function."""

    _destroy = "bg_run_options_destroy"

    def __init__(self, **options):
        super().__init__(create("bg_run_options_create", None))
        for name, value in options.items():
            self[name] = value

    def __setitem__(self, name, value):
        if name == "progress":
            self._set_progress(value)
            return
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        elif isinstance(value, bool):
            value = "true" if value else "false"
        call("bg_run_options_set", self, name.encode(), str(value).encode())

    def __getitem__(self, name):
        found = _abi.bg_config_value()
        call("bg_run_options_get", self, name.encode(), ctypes.byref(found))
        return _read(found)

    def _set_progress(self, function):
        hears = _abi.bg_progress_function(
            0 if function is None else lambda _, part, done, total: guard(function, part.decode(), done, total))
        library.bg_run_options_view(self).contents.reporting.progress = hears
        self._hears = getattr(self, "_hears", ()) + (hears,)  # plans may still use an earlier function

    def set(self, **options):
        for name, value in options.items():
            self[name] = value
        return self

    def load(self, path):
        """Sets options from a file, which has one option on each line or is JSON."""
        call("bg_run_options_load", self, encode(path))
        return self

    def __str__(self):
        return text("bg_options_print", library.bg_run_options_view(self))


def _read(value):
    kind = {number: name for name, number in CONSTANTS.items() if name.startswith("BG_CONFIG_")}[value.kind]
    return {
        "BG_CONFIG_NULL": lambda: None, "BG_CONFIG_BOOL": lambda: value.boolean, "BG_CONFIG_INTEGER": lambda: value.integer,
        "BG_CONFIG_REAL": lambda: value.real, "BG_CONFIG_INTEGERS": lambda: value.integers[:value.count],
        "BG_CONFIG_REALS": lambda: value.reals[:value.count],
    }.get(kind, lambda: value.text.decode())()


def view(options):
    """Returns the C struct of Options; None for None."""
    return None if options is None else library.bg_run_options_view(options)


class Optimizer:
    """An optimizer: optimizer("adamw", 1e-3, weight_decay=0.1). The fields of bg_optimizer are its attributes."""

    def __init__(self, kind, learning_rate, **settings):
        self.__dict__["_struct"] = _abi.bg_optimizer()
        library.bg_optimizer_init(ctypes.byref(self._struct), ctypes.sizeof(self._struct), choice("bg_optimizer_kind", kind),
                                  learning_rate)
        fill(self._struct, settings)
        call("bg_optimizer_validate", ctypes.byref(self._struct))

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._struct, name)

    def __setattr__(self, name, value):
        fill(self._struct, {name: value})


def optimizer(kind, learning_rate, **settings):
    return Optimizer(kind, learning_rate, **settings)


def sgd(learning_rate, **settings):
    return Optimizer("sgd", learning_rate, **settings)


def adam(learning_rate, **settings):
    return Optimizer("adam", learning_rate, **settings)


def adamw(learning_rate, **settings):
    return Optimizer("adamw", learning_rate, **settings)


def adamax(learning_rate, **settings):
    return Optimizer("adamax", learning_rate, **settings)


def rmsprop(learning_rate, **settings):
    return Optimizer("rmsprop", learning_rate, **settings)


def lamb(learning_rate, **settings):
    return Optimizer("lamb", learning_rate, **settings)


def adagrad(learning_rate=0.01, **settings):
    return Optimizer("adagrad", learning_rate, **settings)


def adadelta(learning_rate=1.0, **settings):
    return Optimizer("adadelta", learning_rate, **settings)
