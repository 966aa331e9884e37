"""Element types and shapes, and arrays of them."""
import ctypes

import numpy as np

from . import _abi
from ._library import CONSTANTS, Error, library

_NUMPY = {
    CONSTANTS["BG_FLOAT32"]: np.dtype(np.float32), CONSTANTS["BG_FLOAT64"]: np.dtype(np.float64),
    CONSTANTS["BG_FLOAT16"]: np.dtype(np.float16), CONSTANTS["BG_INT32"]: np.dtype(np.int32),
    CONSTANTS["BG_INT64"]: np.dtype(np.int64), CONSTANTS["BG_UINT8"]: np.dtype(np.uint8),
    # NumPy has no bfloat16. Its bits are the upper half of a float32.
    CONSTANTS["BG_BFLOAT16"]: np.dtype(np.uint16),
}
_BRIGADE = {made: number for number, made in _NUMPY.items() if number != CONSTANTS["BG_BFLOAT16"]}


def dtype_number(dtype):
    """Returns the number of an element type from its name ("float32", "bfloat16"), a NumPy type, or the number itself."""
    if isinstance(dtype, int):
        return dtype
    if isinstance(dtype, str):
        found = library.bg_dtype_find(dtype.encode())
        if found:
            return found
    try:
        return _BRIGADE[np.dtype(dtype)]
    except (KeyError, TypeError):
        raise Error(CONSTANTS["BG_ERROR_INVALID"], f"{dtype!r} is not an element type; use one of "
                    + ", ".join(dtype_name(number) for number in sorted(_NUMPY))) from None


def dtype_name(number):
    return library.bg_dtype_name(number).decode()


def numpy_dtype(number):
    return _NUMPY[number]


def make_type(dtype, shape):
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if len(shape) > CONSTANTS["BG_MAX_RANK"]:
        raise Error(CONSTANTS["BG_ERROR_SHAPE"],
                    f"the shape has {len(shape)} dimensions but may have at most {CONSTANTS['BG_MAX_RANK']}")
    made = _abi.bg_type(dtype=dtype_number(dtype), rank=len(shape))
    made.dims[:len(shape)] = [int(size) for size in shape]
    return made


def shape_of(made):
    return tuple(made.dims[:made.rank])


def describe(made):
    return dtype_name(made.dtype) + str(list(shape_of(made))).replace(" ", "")


def array_of(made, address):
    """Returns a copy of the array of this type at an address."""
    result = np.empty(shape_of(made), _NUMPY[made.dtype])
    ctypes.memmove(result.ctypes.data, address, result.nbytes)
    return result


def as_elements(values, number, what):
    """Returns `values` as a contiguous array of an element type. Values are converted only if they do not change."""
    array = np.asarray(values)
    wanted = _NUMPY[number]
    if array.dtype != wanted:
        plain = not isinstance(values, np.ndarray)  # NumPy gives Python's numbers the widest type
        converted = array.astype(wanted)
        if not (np.can_cast(array.dtype, wanted, "safe") or plain and np.all((converted == array) | (wanted.kind == "f"))) \
                or number == CONSTANTS["BG_BFLOAT16"]:
            raise Error(CONSTANTS["BG_ERROR_SHAPE"], f"{what} is {array.dtype} but must be {dtype_name(number)}"
                        + (" as uint16 (float32_to_bfloat16)" if number == CONSTANTS["BG_BFLOAT16"] else ""))
        array = converted
    return np.ascontiguousarray(array).reshape(array.shape)


def bfloat16_to_float32(bits):
    """Converts bfloat16 values, given as uint16, to float32."""
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)


def float32_to_bfloat16(values):
    """Rounds values to the nearest bfloat16 (ties to even), and returns the bits as uint16."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), ((bits >> 16) | 0x40).astype(np.uint16), rounded)
