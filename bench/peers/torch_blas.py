#!/usr/bin/env python3
"""Prints the version of PyTorch and of the BLAS that it uses, as one line for the benches' tables.

Exits with 1 and prints the remedy when the BLAS is the reference implementation, which is up to thirty times slower than an
optimized one.
"""
import ctypes
import re
import sys

import torch


def loaded_libraries():
    """Returns the paths of the shared libraries that are mapped after a product was computed."""
    a = torch.ones(64, 64)
    (a @ a).sum().item()
    with open("/proc/self/maps", encoding="utf-8") as file:
        return sorted({line.split()[-1] for line in file if re.search(r"/lib[^/]*(blas|mkl)[^/]*$", line.rstrip())})


def openblas_name(path):
    """Returns the version and core type of an OpenBLAS, or None for other libraries."""
    library = ctypes.CDLL(path)
    try:
        corename, config = library.openblas_get_corename, library.openblas_get_config
    except AttributeError:
        return None
    corename.restype = config.restype = ctypes.c_char_p
    version = re.search(r"OpenBLAS ([0-9.]+)", config().decode())
    return f"OpenBLAS {version[1] if version else ''} ({corename().decode()} kernels)"


def find_blas():
    libraries = loaded_libraries()
    for path in libraries:
        name = openblas_name(path)
        if name is not None:
            return name
    if "BLAS_INFO=mkl" in torch.__config__.show() or any("mkl" in path for path in libraries):
        return "MKL"
    return None


def main():
    blas = find_blas()
    if blas is None:
        print("PyTorch uses a BLAS that is not optimized; on Debian: apt-get install libopenblas0-pthread")
        sys.exit(1)
    print(f"torch {torch.__version__} with {blas}")


if __name__ == "__main__":
    main()
