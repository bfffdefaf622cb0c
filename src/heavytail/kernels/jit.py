"""Compile kernels: once, cached on disk, and never stale.

A kernel is a module-level function of scalars and preallocated arrays. It allocates nothing and
calls only other kernels and :mod:`math`, so the same source runs as plain Python
(``NUMBA_DISABLE_JIT=1``), compiled for the CPU, and compiled for a GPU.

numba validates a cached kernel against its own file only, so a caller would keep an old inlined
callee after the callee changed. Every kernel is therefore stamped with its module's name and a hash
of its file, or of its code where no file holds it, of the stamps of the kernels it calls, wherever
they are defined, and of the constants and modules it reads. A stamp is made when a kernel is first
looked for, since what it calls may be defined below it.

A kernel that other kernels call is a part of their machine code. numba would translate each part to
machine code of its own, which nobody calls, optimise it there and once more inside every caller;
here a part stays what LLVM reads, and is optimised once, with the kernel that Python calls. That
compiles Twin-UCB in less than half the time and makes its rounds no slower. Only what is called
from Python looks for files.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core import sigutils
from numba.core import typing as numba_typing
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    NullCache,
    UserProvidedCacheLocator,
)
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys
from numba.core.types.misc import unliteral

__all__ = ["compiled", "jit", "only_for", "specialise"]

F = TypeVar("F", bound=Callable[..., Any])
LONGEST_NAME = 160
OPTIONS = {
    "nopython": True,
    "nogil": True,
    "error_model": "numpy",  # x / 0 is inf, as on the GPU, not an exception that costs a branch
    "no_cfunc_wrapper": True,  # no kernel is called by C
}

# id of a compiled kernel (kernels live as long as the process) -> the function it was made of
_KERNELS: dict[int, Callable[..., Any]] = {}

if hasattr(os, "register_at_fork"):  # a child would wait for ever for what another thread compiles
    _free = global_compiler_lock.release
    os.register_at_fork(
        before=global_compiler_lock.acquire, after_in_parent=_free, after_in_child=_free
    )


def compiled() -> bool:
    """Tell whether kernels are compiled, rather than run as plain Python."""
    return not numba.config.DISABLE_JIT


def jit(function: F) -> F:
    """Compile a kernel for the CPU, without the GIL, cached under its stamp."""
    if not compiled():
        return function
    kernel: Any = _Kernel(function, targetoptions=dict(OPTIONS))
    _KERNELS[id(kernel)] = function
    kernel._cache = _Cache(function)
    return kernel


class _Kernel(CPUDispatcher):  # type: ignore[misc]  # numba has no types
    """A kernel: whole, with its files, where Python calls it; a part where a kernel does."""

    def get_call_template(self, args: Any, kws: Any) -> tuple[Any, Any, Any, Any]:
        """The type of a call from another kernel, for which the part is compiled."""
        pysig, args = self._compiler.fold_argument_types(args, kws)
        args = tuple(unliteral(kind) for kind in args)
        name = self.py_func.__name__
        template = numba_typing.make_concrete_template(name, name, [self._part(args)[1]])
        return template, pysig, args, {}

    def get_overload(self, sig: Any) -> object:
        """The key under which numba knows the part."""
        return self._part(tuple(sigutils.normalize_signature(sig)[0]))[0]

    @functools.cached_property
    def _parts(self) -> dict[Any, tuple[object, Any]]:
        return {}

    def _part(self, args: Any) -> tuple[object, Any]:
        """A key and the signature of the part for arguments of these types."""
        if args not in self._parts:
            with global_compiler_lock, self._compiling_counter:
                result = self._part_compiler.compile(args, None)
            key = object()
            _join(result.library)
            self.targetctx.insert_user_function(key, result.fndesc, [result.library])
            self._parts[args] = key, result.signature
        return self._parts[args]

    @functools.cached_property
    def _part_compiler(self) -> Any:
        whole = self._compiler
        return _PartCompiler(
            whole.py_func,
            whole.targetdescr,
            whole.targetoptions,
            whole.locals,
            whole.pipeline_class,
        )


class _PartCompiler(_FunctionCompiler):  # type: ignore[misc]
    """Compiles a kernel as far as LLVM's language, without wrappers and machine code."""

    def _customize_flags(self, flags: Any) -> Any:
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        return flags


def _join(library: Any) -> None:
    """Link what a part calls into it, so that a caller can link the part as it is."""
    for called in dict.fromkeys(library._linking_libraries):
        library._reload_init.update(called._reload_init)
        library._final_module.link_in(called._get_module_for_linking(), preserve=True)
    library._finalized = True


class _ReadOnly(UserProvidedCacheLocator):  # type: ignore[misc]
    """A folder of NUMBA_CACHE_DIR that can be read and not written, as in a container's image."""

    def ensure_cache_path(self) -> None:
        os.listdir(self.get_cache_path())


class _Places(CompileResultCacheImpl):  # type: ignore[misc]
    """Where files may be: numba's own places, and a folder that is read-only."""

    _locator_classes = (
        UserProvidedCacheLocator,
        _ReadOnly,
        *CompileResultCacheImpl._locator_classes,
    )


class _Files(FunctionCache):  # type: ignore[misc]
    """numba's files of one kernel."""

    _impl_class = _Places


class _Cache:
    """The machine code of one kernel on disk, in numba's files under our stamp."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @functools.cached_property
    def _files(self) -> Any:
        try:
            files = _Files(self._function)
        except RuntimeError:  # no place for a cache: compile afresh in every process
            return NullCache()
        files._cache_file._source_stamp = _examine(self._function)[0]
        return files

    @property
    def cache_path(self) -> str | None:
        return self._files.cache_path

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The machine code for ``signature``, or None.

        numba would first load all that its compiler knows: half a second, with scipy.linalg in it.
        Machine code needs the runtime alone, unless it calls what a module of the compiler brings
        along (the secret of hashes): no kernel of ours does, and one of a user's may.
        """
        if _examine(self._function)[1] and isinstance(self._files, _Files):
            rtsys.initialize(context)
            with self._files._guard_against_spurious_io_errors():
                return self._files._load_overload(signature, context)
        return self._files.load_overload(signature, context)

    def save_overload(self, signature: Any, data: Any) -> None:
        with contextlib.suppress(OSError):  # read-only or full: the next process compiles it again
            self._files.save_overload(signature, data)

    def flush(self) -> None:
        self._files.flush()


def only_for(kernel: F, signature: str) -> F:
    """Compile a kernel for one signature; arguments of any other type are a TypeError from now on.

    So a caller need not look at types the call looks at anyway. Neighbouring scalar operations are
    paired into vector ones, which numba leaves off unless told: it reorders no arithmetic.
    """
    if not compiled():
        return kernel
    dispatcher: Any = kernel
    if dispatcher._can_compile:
        before, numba.config.SLP_VECTORIZE = numba.config.SLP_VECTORIZE, 1
        try:
            dispatcher.compile(signature)
        finally:
            numba.config.SLP_VECTORIZE = before
        dispatcher.disable_compile()
    return kernel


def specialise(template: Callable[..., Any], name: str, **bindings: object) -> Callable[..., Any]:
    """Compile a copy of ``template`` with the globals ``bindings``, under its own ``name``.

    An episode is the same loop for every policy; only the kernels it calls differ. Binding them as
    globals (rather than arguments or a closure) lets the compiler inline them and the cache find
    them again.
    """
    if len(name) > LONGEST_NAME:  # the cache has it in the name of a file
        name = name[:LONGEST_NAME] + _digest(name.encode()).hex()[:16]
    function = types.FunctionType(
        template.__code__, {**template.__globals__, **bindings}, name, template.__defaults__
    )
    function.__qualname__ = name
    function.__module__ = template.__module__
    return jit(function)


@functools.cache
def _examine(function: Callable[..., Any]) -> tuple[str, bool]:
    """The stamp of a kernel, and whether all of it is heavytail's."""
    code, space = function.__code__, function.__globals__
    own_file = code.co_filename == space.get("__file__")
    digest = hashlib.blake2b(_source(space) if own_file else _digest(_text(code)))
    digest.update(f"{numba.__version__} {function.__module__};".encode())
    own = function.__module__.partition(".")[0] == __name__.partition(".")[0]
    for name in sorted(code.co_names):
        value = space.get(name)
        if name not in space or value is function:
            continue
        if isinstance(value, types.ModuleType):
            stamp, ours = _source(vars(value)).hex(), True
        elif id(value) in _KERNELS:
            stamp, ours = _examine(_KERNELS[id(value)])
        elif isinstance(value, np.ndarray):
            stamp, ours = f"{value.dtype}{value.shape}{_digest(value.tobytes()).hex()}", True
        else:
            stamp, ours = repr(value), not callable(value)
        digest.update(f"{name}={stamp};".encode())
        own = own and ours
    return digest.hexdigest(), own


def _text(code: types.CodeType) -> bytes:
    """All that a function without a file does, as bytes."""
    inner = [_text(item) if isinstance(item, types.CodeType) else item for item in code.co_consts]
    return repr((code.co_code, inner, code.co_names, code.co_varnames)).encode()


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content).digest()


_FILES: dict[str, bytes] = {}  # the hash of each file that was read


def _source(module: Mapping[str, Any]) -> bytes:
    """A hash of the module's file, as whatever loaded it reads that, from an archive too; of its
    name where it has none, or has one no longer.
    """
    file: Any = module.get("__file__")
    if file not in _FILES:
        try:
            content = module["__loader__"].get_data(file)
        except (AttributeError, KeyError, OSError, TypeError):  # it is part of the interpreter
            return _digest(str(module.get("__name__")).encode())
        _FILES[file] = _digest(content)
    return _FILES[file]
