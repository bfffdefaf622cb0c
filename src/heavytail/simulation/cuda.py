"""The GPU engine: one thread per trial, from the very same kernel functions, in float64.

A kernel's Python source is compiled once more, for the device, with the kernels it calls replaced
by their device versions; nothing is written twice. A thread holds its policy's state in its own
memory and its arms in the block's shared memory where they fit.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import types
import warnings
from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail.policies import PackedPolicy
from heavytail.simulation.counter import CounterWorld, copy_state, kernels_of, play_trial
from heavytail.simulation.device import substitutes

__all__ = ["available", "device_name", "explain", "run_trials"]

THREADS = 32  # a block is one warp: its arms must fit into shared memory
SHARED_BYTES = 48 * 1024  # a block may have this much without asking for more
BATCH = 1 << 20  # trials per launch, where their arms fit into shared memory
GLOBAL_BYTES = 4 * 1024**3  # arms that do not fit there: this much at a time


def available() -> bool:
    """Tell whether a GPU, or numba's simulator of one, can be used."""
    return explain() == ""


def explain() -> str:
    """Name what engine="cuda" lacks here, in words; empty if it lacks nothing."""
    try:
        cuda = _numba_cuda()
    except ImportError as error:
        return (
            f'engine="cuda" needs numba-cuda, which cannot be imported ({error}). '
            "pip install 'heavytail[cuda]'."
        )
    if not cuda.is_available():
        return (
            'engine="cuda" needs an NVIDIA GPU with its driver, and numba finds none here. '
            'Use engine="compiled", or set NUMBA_ENABLE_CUDASIM=1 to try it on a simulator.'
        )
    if not _simulated() and importlib.util.find_spec("numba_cuda") is None:
        return (  # numba's own part for GPUs is older, and does not compile these kernels
            'engine="cuda" needs numba-cuda, and only numba is here. '
            "pip install 'heavytail[cuda]'."
        )
    return ""


def device_name() -> str:
    """The GPU's name for itself."""
    cuda = _numba_cuda()
    if not hasattr(cuda, "get_current_device"):
        return "a simulated GPU"
    name = cuda.get_current_device().name
    return name.decode() if isinstance(name, bytes) else str(name)


def run_trials(
    policy: PackedPolicy,
    state: tuple[FloatArray, FloatArray],
    setting: CounterWorld,
    seed: int,
    trials: int,
    kept: IntArray,
    cover: bool = False,
    advance: Callable[[int], None] = lambda steps: None,
) -> FloatArray:
    """Regret (checkpoints, trials) of ``trials`` trials from one state; with ``cover`` a last row
    more, as :func:`heavytail.simulation.counter.play_trial` says.
    """
    problem = explain()
    if problem:
        raise RuntimeError(problem)
    cuda = _numba_cuda()
    s, M = state
    shared = setting.arms * setting.dim * THREADS * 8 <= SHARED_BYTES
    bound = tuple(kernels_of(policy, setting, cover).items())
    kernel = _kernel(bound, setting.dim, setting.arms, len(s), *M.shape, shared)
    batch = min(trials, BATCH)
    if not shared:
        batch = min(batch, max(GLOBAL_BYTES // (8 * setting.arms * setting.dim), THREADS))
    room = cuda.device_array((1, 1, 1) if shared else (setting.arms, setting.dim, batch))
    states = cuda.to_device(s), cuda.to_device(M)
    marks = cuda.to_device(kept)
    out = np.empty((len(kept) + cover, trials))
    for first in range(0, trials, batch):
        count = min(batch, trials - first)
        block = cuda.device_array((len(out), count))
        blocks = (count + THREADS - 1) // THREADS
        with warnings.catch_warnings():  # few trials do not fill a GPU: that is no one's mistake
            warnings.filterwarnings("ignore", ".*Grid size", Warning)
            kernel[blocks, THREADS](*states, room, seed, first, marks, block, *setting.numbers)
        if count == trials:
            block.copy_to_host(out)
        else:
            out[:, first : first + count] = block.copy_to_host()
        advance(count)
    return out


def _numba_cuda() -> types.ModuleType:
    """numba.cuda, with all that it would import at the first compilation.

    numba-cuda 0.30 asks NumPy there for a name that NumPy 2.5 no longer has.
    """
    gone = not hasattr(np, "row_stack")
    if gone:
        setattr(np, "row_stack", np.vstack)  # noqa: B010
    try:
        from numba import cuda

        if gone and not _simulated():
            importlib.import_module("numba.cuda.cudaimpl")
    finally:
        if gone:
            delattr(np, "row_stack")
    return cuda


def _simulated() -> bool:
    return os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"


def _device(kernel: Callable[..., object], known: dict[int, Any]) -> Any:
    """``kernel`` compiled for the device, with all that it calls."""
    if id(kernel) in known:
        return known[id(kernel)]
    source = getattr(kernel, "py_func", kernel)
    function = _rebind(source, source.__name__, {}, known)
    known[id(kernel)] = _numba_cuda().jit(device=True)(function)
    return known[id(kernel)]


def _rebind(
    source: Any, name: str, bindings: dict[str, Any], known: dict[int, Any]
) -> types.FunctionType:
    """A copy of ``source`` with ``bindings`` for globals, and device kernels for kernels."""
    names = {**source.__globals__, **bindings}
    for key in source.__code__.co_names:
        value = names.get(key)
        if _is_kernel(value):
            names[key] = _device(value, known)
    twin = types.FunctionType(source.__code__, names, name, source.__defaults__)
    twin.__qualname__, twin.__module__ = name, source.__module__
    return twin


def _is_kernel(value: object) -> TypeGuard[Callable[..., object]]:
    """A compiled kernel, or with the compiler off the plain function it is then."""
    if hasattr(value, "py_func"):
        return True
    plain = isinstance(value, types.FunctionType)
    return plain and value.__module__.startswith("heavytail")


@functools.cache
def _kernel(
    bound: tuple[tuple[str, Any], ...],
    dim: int,
    arms: int,
    slots: int,
    rows: int,
    size: int,
    shared: bool,
) -> Any:
    """The launchable kernel for one policy, one law and one size: sizes are constants to it."""
    cuda = _numba_cuda()
    known: dict[int, Any] = {}
    known.update(substitutes(cuda, lambda kernel: _device(kernel, known)))
    play = _rebind(play_trial, "play_trial", dict(bound), known)
    constants = {
        "cuda": cuda,
        "SLOTS": slots,
        "ROWS": rows,
        "SIZE": size,
        "DIM": dim,
        "ARMS": arms,
        "play": cuda.jit(device=True)(play),
        "copy": _device(copy_state, known),
    }
    template = _thread_shared if shared else _thread_global
    function = types.FunctionType(
        template.__code__, {**template.__globals__, **constants}, template.__name__
    )
    return cuda.jit(function)


cuda: Any = None
SLOTS = ROWS = SIZE = DIM = ARMS = 0


def play(*_: object) -> None:
    """Stands for the trial in the templates below."""
    raise NotImplementedError


def copy(*_: object) -> None:
    """Stands for :func:`heavytail.simulation.counter.copy_state` in the templates below."""
    raise NotImplementedError


# fmt: off
def _thread_shared(  # type: ignore[no-untyped-def]
    s0, M0, room, seed, first, kept, regret,
    theta_bound, arm_bound, together, nu, a, b, spread, c, d, skew, law,
):
    """Template: one thread's trial, its arms in shared memory."""
    pool = cuda.shared.array((ARMS, DIM, THREADS), np.float64)
    k = cuda.grid(1)
    s = cuda.local.array(SLOTS, np.float64)
    M = cuda.local.array((ROWS, SIZE), np.float64)
    theta = cuda.local.array(DIM, np.float64)
    x = cuda.local.array(DIM, np.float64)
    across = cuda.local.array(DIM, np.float64)
    if k < regret.shape[1]:
        copy(s0, M0, s, M)
        play(s, M, pool[:, :, cuda.threadIdx.x], theta, x, across, seed, first + k, kept, regret, k,
             theta_bound, arm_bound, together, nu, a, b, spread, c, d, skew, law)


def _thread_global(  # type: ignore[no-untyped-def]
    s0, M0, room, seed, first, kept, regret,
    theta_bound, arm_bound, together, nu, a, b, spread, c, d, skew, law,
):
    """Template: one thread's trial, its arms in the device's memory."""
    k = cuda.grid(1)
    s = cuda.local.array(SLOTS, np.float64)
    M = cuda.local.array((ROWS, SIZE), np.float64)
    theta = cuda.local.array(DIM, np.float64)
    x = cuda.local.array(DIM, np.float64)
    across = cuda.local.array(DIM, np.float64)
    if k < regret.shape[1]:
        copy(s0, M0, s, M)
        play(s, M, room[:, :, k], theta, x, across, seed, first + k, kept, regret, k,
             theta_bound, arm_bound, together, nu, a, b, spread, c, d, skew, law)
# fmt: on
