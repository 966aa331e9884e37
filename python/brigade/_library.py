"""Finds and loads the library, and compares the sizes of its structs with those in this package."""
import ctypes
import os
import pathlib
import threading

from . import _abi

CONSTANTS = _abi.CONSTANTS
SONAME = "libbrigade.so.1"


class Error(Exception):
    """A failure of the library: `status` is its number, `name` its name ("shape", "not found", ...)."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status
        self.name = library.bg_status_name(status).decode()

    @property
    def message(self):
        return self.args[0]


def _places():
    """Returns the paths to try: only BRIGADE_LIBRARY if it is set; otherwise those beside the package, then the loader's paths."""
    given = os.environ.get("BRIGADE_LIBRARY")
    if given:
        return [given]
    folder = pathlib.Path(__file__).resolve().parent
    beside = [str(parent / SONAME) for parent in folder.parents[1:3] if (parent / SONAME).exists()]
    return beside + [SONAME]


def _load():
    reasons = []
    for place in _places():
        try:
            return ctypes.CDLL(place), place
        except OSError as reason:
            reasons.append(str(reason))
    raise ImportError("the Brigade library is not found (" + "; ".join(reasons) + "); install it, or set BRIGADE_LIBRARY to "
                      "the path of " + SONAME)


def _release(text):
    return text.split(".")[:2]


def _check(loaded, place):
    """Refuses a library of another release, or one whose structs have other sizes."""
    try:
        loaded.bg_version.restype = ctypes.c_char_p
        found = loaded.bg_version().decode()
        size_of = loaded.bg_struct_bytes
    except AttributeError as reason:
        raise ImportError(f"{place} is not a Brigade library that this package can use: {reason}") from None
    if _release(found) != _release(_abi.VERSION):
        raise ImportError(f"{place} is Brigade {found} but this package is for {_abi.VERSION}; install both from one release")
    size_of.restype, size_of.argtypes = ctypes.c_size_t, [ctypes.c_char_p]
    for name, struct in _abi.STRUCTS.items():
        size = size_of(name.encode())
        if size != ctypes.sizeof(struct):
            raise ImportError(f"{name} has {size} bytes in {place} (Brigade {found}) but {ctypes.sizeof(struct)} in this package "
                              f"({_abi.VERSION}); install both from one release")


def _bind(loaded, place):
    for name, (result, parameters, _) in _abi.FUNCTIONS.items():
        try:
            function = getattr(loaded, name)
        except AttributeError:
            raise ImportError(f"{place} has no {name}; install both from one release") from None
        function.restype, function.argtypes = result, [parameter[1] for parameter in parameters]


library, PLACE = _load()
_check(library, PLACE)
_bind(library, PLACE)


def version():
    """Returns the release of the loaded library."""
    return library.bg_version().decode()


def encode(text):
    """Encodes a str or a path for the library; None stays None."""
    return None if text is None else os.fspath(text).encode()


_thrown = threading.local()


def guard(function, *arguments):
    """Calls a callback, which returns True to cancel. An exception must not cross the C code: it cancels the work, and call() raises it again."""
    try:
        return bool(function(*arguments))
    except BaseException as reason:
        _thrown.reason = reason
        return True


def call(name, *arguments):
    """Calls a C function that returns a bg_status, with a bg_error as last argument. Raises Error, or the exception of a guarded callback."""
    error = _abi.bg_error()
    status = getattr(library, name)(*arguments, ctypes.byref(error))
    reason = _thrown.__dict__.pop("reason", None)
    if status != 0 and reason is not None:
        raise reason
    if status != 0:
        raise Error(status, error.message.decode(errors="replace"))


_free = ctypes.CDLL(None).free
_free.restype, _free.argtypes = None, [ctypes.c_void_p]


def text(name, *arguments):
    """Calls a C function that prints to *out_text, and returns the text."""
    made = ctypes.c_char_p()
    call(name, *arguments, ctypes.byref(made))
    try:
        return made.value.decode(errors="replace")
    finally:
        _free(ctypes.cast(made, ctypes.c_void_p))


class Owner:
    """Owns an object of the library, and destroys the object when it is collected. `_keep` refers to everything that the object borrows."""

    _destroy = None

    def __init__(self, pointer, *keep):
        self._as_parameter_ = pointer
        self._keep = keep

    def close(self):
        """Destroys the object now instead of when Python collects it."""
        pointer, self._as_parameter_ = getattr(self, "_as_parameter_", None), None
        if pointer:
            getattr(library, self._destroy)(pointer)
        self._keep = ()

    def __del__(self):
        self.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def create(name, *arguments):
    """Calls a C function that makes an object, and returns the pointer to the object."""
    made = ctypes.c_void_p()
    call(name, *arguments, ctypes.byref(made))
    return made
