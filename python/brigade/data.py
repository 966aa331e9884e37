"""Data sets and loaders."""
import ctypes

import numpy as np

from . import _abi
from ._library import CONSTANTS, Error, Owner, call, create, library
from .graph import choice, make_struct
from .types import array_of, as_elements, dtype_number, make_type, numpy_dtype, shape_of


class Dataset(Owner):
    """Samples that are read by index. The samples of Dataset(x=images, y=labels) are the rows of the arrays, which must not
    change; contiguous arrays are not copied. The names are those of a graph's inputs. Give bfloat16 as a tuple (array of uint16, "bfloat16")."""

    _destroy = "bg_dataset_destroy"

    def __init__(self, arrays=None, **named):
        given = {**(arrays or {}), **named}
        kept = {name: _typed(name, value) for name, value in given.items()}
        made = (_abi.bg_array * max(len(kept), 1))()
        for place, (array, number) in zip(made, kept.values()):
            place.type, place.data = make_type(number, array.shape), array.ctypes.data
        super().__init__(create("bg_dataset_create_arrays", made, len(kept)), kept)
        self.names = tuple(kept)

    @classmethod
    def _of(cls, pointer, names, *keep):
        made = cls.__new__(cls)
        Owner.__init__(made, pointer, *keep)
        made.names = tuple(names)
        return made

    @classmethod
    def from_function(cls, count, types, function):
        """Makes a data set whose samples are returned by function(epoch, index) as mappings. `types` is {name: (type, shape)}. A
        loader with several workers calls the function in its threads, one at a time because of Python's lock."""
        names, made = tuple(types), (_abi.bg_type * max(len(types), 1))(*(make_type(*each) for each in types.values()))

        def get(_, epoch, index, outputs, error):
            try:
                values = function(epoch, index)
                for name, wanted, place in zip(names, made, outputs):
                    array = as_elements(values[name], wanted.dtype, f"`{name}` of sample {index}")
                    if array.shape != shape_of(wanted):
                        raise Error(CONSTANTS["BG_ERROR_SHAPE"], f"`{name}` of sample {index} is {list(array.shape)} " f"but must be {list(shape_of(wanted))}")
                    ctypes.memmove(place, array.ctypes.data, array.nbytes)
                return 0
            except BaseException as reason:  # an exception must not cross the C code
                status = reason.status if isinstance(reason, Error) else CONSTANTS["BG_ERROR_CANCELED"]
                return library.bg_error_set(error, status, b"%s", ctypes.c_char_p(f"{type(reason).__name__}: {reason}".encode()))

        options = _abi.bg_dataset_options(sample_count=count, tensor_count=len(names), sample_types=made)
        options.get = dict(_abi.bg_dataset_options._fields_)["get"](get)
        return cls._of(create("bg_dataset_create", ctypes.byref(options)), names, options, made)

    def __len__(self):
        return library.bg_dataset_sample_count(self)

    def take(self, count):
        """Returns a data set of the first `count` samples."""
        return Dataset._of(create("bg_dataset_take", self, count), self.names, self)

    def skip(self, count):
        """Returns a data set without the first `count` samples."""
        return Dataset._of(create("bg_dataset_skip", self, count), self.names, self)

    def shuffle(self, seed=0, buffer=0):
        """Returns a data set whose order differs from epoch to epoch."""
        return Dataset._of(create("bg_dataset_shuffle", self, buffer, seed), self.names, self)

    def shard(self, index, count):
        """Returns a data set of every `count`-th sample, from sample `index` on."""
        return Dataset._of(create("bg_dataset_shard", self, index, count), self.names, self)


def _typed(name, value):
    array, dtype = value if isinstance(value, tuple) else (value, None)
    array = np.asarray(array)
    number = dtype_number(array.dtype if dtype is None else dtype)
    if number == CONSTANTS["BG_BFLOAT16"] and array.dtype == numpy_dtype(number):
        return np.ascontiguousarray(array), number
    return as_elements(array, number, f"`{name}`"), number


def as_dataset(data):
    return data if isinstance(data, Dataset) else Dataset(data)


class Loader(Owner):
    """Makes batches of a data set: Loader(dataset, batch_size=32, shuffle=True, worker_count=2). Options are those of
    bg_loader_options. Each iteration over the loader yields the batches of the next epoch as {name: array}."""

    _destroy = "bg_loader_destroy"

    def __init__(self, dataset, **options):
        self.dataset = as_dataset(dataset)
        if isinstance(options.get("mode"), str):
            options["mode"] = choice("bg_loader_mode", options["mode"])
        made = make_struct(_abi.bg_loader_options, options)
        super().__init__(create("bg_loader_create", self.dataset, ctypes.byref(made)), self.dataset, options)
        self._epoch = 0

    def __len__(self):
        return library.bg_loader_batch_count(self)

    def __iter__(self):
        epoch, self._epoch = self._epoch, self._epoch + 1
        return self.epoch(epoch)

    def epoch(self, number, position=0):
        """Yields the batches of epoch `number`, from batch `position` on."""
        call("bg_loader_begin_at", self, number, position)
        count = ctypes.c_uint32()
        types = library.bg_loader_sample_types(self, ctypes.byref(count))
        while True:
            batch = _abi.bg_batch()
            call("bg_loader_next", self, ctypes.byref(batch))
            if batch.sample_count == 0:
                return
            yield {name: array_of(make_type(types[i].dtype, (batch.sample_count, *shape_of(types[i]))), batch.tensors[i])
                   for i, name in zip(range(count.value), self.dataset.names)}

    @property
    def statistics(self):
        """The fields of bg_loader_statistics as a mapping."""
        found = _abi.bg_loader_statistics()
        library.bg_loader_read_statistics(self, ctypes.byref(found))
        return {name: getattr(found, name) for name, _ in found._fields_}
