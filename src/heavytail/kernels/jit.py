"""How a kernel is compiled: once, cached on disk, and never stale.

A kernel is a module-level function of scalars and preallocated arrays. It allocates nothing and
calls only other kernels and :mod:`math`, so the same source runs as plain Python
(``NUMBA_DISABLE_JIT=1``), compiled for the CPU, and compiled for a GPU.

numba validates a cached kernel against its own file only, so a caller would keep an old inlined
callee after the callee changed. Every kernel is therefore stamped with a hash of its file, of the
stamps of the kernels it calls, and of the constants it reads.
"""

from __future__ import annotations

import functools
import hashlib
import os
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

__all__ = ["compiled", "jit", "specialise"]

F = TypeVar("F", bound=Callable[..., Any])

_STAMPS: dict[
    int, str
] = {}  # id of a compiled kernel (kernels live as long as the process) -> its stamp


def compiled() -> bool:
    """Whether kernels are compiled, rather than run as plain Python."""
    return not numba.config.DISABLE_JIT


def jit(function: F) -> F:
    """Compile a kernel for the CPU, without the GIL, cached under its stamp."""
    # numpy's error model: x / 0 is inf, as on the GPU, instead of an exception that costs a branch.
    kernel: Any = numba.njit(nogil=True, error_model="numpy")(function)
    if not compiled():
        return function
    stamp = _stamp(function)
    _STAMPS[id(kernel)] = stamp
    try:
        kernel.enable_caching()
    except RuntimeError:  # no writable place for a cache: compile afresh in every process
        return kernel
    kernel._cache._cache_file._source_stamp = stamp
    return kernel


def specialise(template: Callable[..., Any], name: str, **bindings: Any) -> Callable[..., Any]:
    """Compile a copy of ``template`` in which the globals ``bindings`` stand, under a name of its
    own.

    An episode is the same loop for every policy; only the kernels it calls differ. Binding them as
    globals (rather than arguments or a closure) lets the compiler inline them and the cache find
    them again.
    """
    function = types.FunctionType(
        template.__code__, {**template.__globals__, **bindings}, name, template.__defaults__
    )
    function.__qualname__ = name
    function.__module__ = template.__module__
    return jit(function)


def _stamp(function: Callable[..., Any]) -> str:
    digest = hashlib.blake2b(_source(function.__code__.co_filename))
    digest.update(numba.__version__.encode())
    for name in _names(function.__code__):
        if name not in function.__globals__:
            continue
        value = function.__globals__[name]
        if isinstance(value, types.ModuleType):
            continue
        digest.update(f"{name}={_STAMPS.get(id(value)) or repr(value)};".encode())
    return digest.hexdigest()


def _names(code: types.CodeType) -> list[str]:
    return sorted(code.co_names)


@functools.cache
def _source(filename: str) -> bytes:
    path = Path(filename)
    return path.read_bytes() if os.path.exists(filename) else filename.encode()
