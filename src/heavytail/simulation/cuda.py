"""The GPU engine: one thread a trial, from the very same kernel functions, in float64.

A kernel's Python source is compiled once more, for the device, with the kernels it calls replaced
by their device versions; nothing is written twice. A thread holds its policy's state in its own
memory and its arms in the block's shared memory where they fit.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail.kernels import index
from heavytail.policies import PackedPolicy
from heavytail.simulation.counter import Setting, copy_state, play_trial

__all__ = ["available", "explain", "run_trials"]

THREADS = 32  # a block is one warp: its arms must fit into shared memory
SHARED_BYTES = 48 * 1024  # a block may have this much without asking for more
BATCH = 1 << 20  # trials a launch, where their arms fit into shared memory
GLOBAL_BYTES = 4 * 1024**3  # arms that do not fit there: this much at a time


TINY = 1e-290  # stands for a squared width of 0, whose reciprocal root is infinite


def available() -> bool:
    """Whether a GPU, or numba's simulator of one, can be used."""
    return explain() == ""


def explain() -> str:
    """What is missing for engine="cuda", in words; empty where nothing is."""
    try:
        cuda = _numba_cuda()
    except ImportError as error:
        return (
            f'engine="cuda" needs numba-cuda, which cannot be imported ({error}). '
            "Install heavytail[cuda]."
        )
    if not cuda.is_available():
        return (
            'engine="cuda" needs an NVIDIA GPU with its driver, and numba finds none here. '
            'Use engine="compiled", or set NUMBA_ENABLE_CUDASIM=1 to try it on a simulator.'
        )
    return ""


def run_trials(
    policy: PackedPolicy,
    setting: Setting,
    *,
    seed: int,
    trials: int,
    kept: IntArray,
    advance: Callable[[int], None] = lambda steps: None,
) -> FloatArray:
    """Regret (checkpoints, trials) of ``trials`` trials, each from the policy's present state."""
    problem = explain()
    if problem:
        raise RuntimeError(problem)
    cuda = _numba_cuda()
    s, M = policy.packed
    shared = setting.arms * setting.dim * THREADS * 8 <= SHARED_BYTES
    kernel = _kernel(type(policy), setting, s.shape[0], M.shape[0], M.shape[1], shared)
    batch = min(trials, BATCH)
    if not shared:
        batch = min(batch, max(GLOBAL_BYTES // (8 * setting.arms * setting.dim), THREADS))
    room = cuda.device_array((1, 1, 1) if shared else (setting.arms, setting.dim, batch))
    states = cuda.to_device(s), cuda.to_device(M)
    marks = cuda.to_device(kept)
    out = np.empty((kept.shape[0], trials))
    for first in range(0, trials, batch):
        count = min(batch, trials - first)
        regret = cuda.device_array((kept.shape[0], count))
        blocks = (count + THREADS - 1) // THREADS
        kernel[blocks, THREADS](*states, room, seed, first, marks, regret, *setting.numbers)
        if count == trials:
            regret.copy_to_host(out)
        else:
            out[:, first : first + count] = regret.copy_to_host()
        advance(count)
    return out


def _numba_cuda() -> Any:
    """numba.cuda; numba-cuda 0.30 asks at import for a name that NumPy 2.5 no longer has."""
    gone = not hasattr(np, "row_stack")
    if gone:
        setattr(np, "row_stack", np.vstack)  # noqa: B010
    try:
        from numba import cuda
    finally:
        if gone:
            delattr(np, "row_stack")
    return cuda


def _device(kernel: Any, known: dict[int, Any]) -> Any:
    """``kernel`` compiled for the device, with all that it calls."""
    if id(kernel) in known:
        return known[id(kernel)]
    source = getattr(kernel, "py_func", kernel)
    function = _rebind(source, source.__name__, {}, known)
    known[id(kernel)] = _numba_cuda().jit(device=True)(function)
    return known[id(kernel)]


def _substitutes(cuda: Any) -> dict[int, Any]:
    """Device versions that differ from their kernels in how they compute, never in what.

    Threads of a warp wait for each other, so a branch around a root saves nothing; the root itself
    is the reciprocal root's approximation and one step of Newton's, without the branch that the
    library's has. The arms of a trial were drawn within their bound.
    """
    libdevice: Any = getattr(cuda, "libdevice", None)

    def always(mean: float, squared: float, widened: float, best: float) -> bool:
        return True

    def drawn(arms: FloatArray, limit: float) -> bool:
        return True

    def index_of(mean: float, squared: float, radius: float) -> float:
        q = max(squared, TINY)
        inverse = libdevice.rsqrt(q)
        root = q * inverse
        return mean + radius * (root + 0.5 * inverse * (q - root * root))

    found = {id(index.may_win): always, id(index.usable): drawn}
    if libdevice is not None:  # numba's simulator has none
        found[id(index.index_of)] = index_of
    return {key: cuda.jit(device=True)(function) for key, function in found.items()}


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


def _is_kernel(value: Any) -> bool:
    """A compiled kernel, or with the compiler off the plain function it is then."""
    if hasattr(value, "py_func"):
        return True
    plain = isinstance(value, types.FunctionType)
    return plain and value.__module__.startswith("heavytail")


@functools.cache
def _kernel(
    kind: type[PackedPolicy], setting: Setting, slots: int, rows: int, size: int, shared: bool
) -> Any:
    """The launchable kernel for one policy, one noise and one size: sizes are constants to it."""
    cuda = _numba_cuda()
    known: dict[int, Any] = {}
    known.update(_substitutes(cuda))
    bound = {
        "select": kind.select_kernel,
        "update": kind.update_kernel,
        "draw": setting.draw,
        "KEY_SLOT": kind.key_slot,
    }
    play = _rebind(play_trial, "play_trial", bound, known)
    constants = {
        "cuda": cuda,
        "SLOTS": slots,
        "ROWS": rows,
        "SIZE": size,
        "DIM": setting.dim,
        "ARMS": setting.arms,
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


def play(*_: Any) -> None:
    """Stands for the trial in the templates below."""
    raise NotImplementedError


def copy(*_: Any) -> None:
    """Stands for :func:`heavytail.simulation.counter.copy_state` in the templates below."""
    raise NotImplementedError


# fmt: off
def _thread_shared(  # type: ignore[no-untyped-def]
    s0, M0, room, seed, first, kept, regret,
    theta_bound, arm_bound, together, nu, a, b, spread,
):
    """Template: one thread's trial, its arms in shared memory."""
    pool = cuda.shared.array((ARMS, DIM, THREADS), np.float64)
    k = cuda.grid(1)
    s = cuda.local.array(SLOTS, np.float64)
    M = cuda.local.array((ROWS, SIZE), np.float64)
    theta = cuda.local.array(DIM, np.float64)
    x = cuda.local.array(DIM, np.float64)
    if k < regret.shape[1]:
        copy(s0, M0, s, M)
        play(s, M, pool[:, :, cuda.threadIdx.x], theta, x, seed, first + k, kept, regret, k,
             theta_bound, arm_bound, together, nu, a, b, spread)


def _thread_global(  # type: ignore[no-untyped-def]
    s0, M0, room, seed, first, kept, regret,
    theta_bound, arm_bound, together, nu, a, b, spread,
):
    """Template: one thread's trial, its arms in the device's memory."""
    k = cuda.grid(1)
    s = cuda.local.array(SLOTS, np.float64)
    M = cuda.local.array((ROWS, SIZE), np.float64)
    theta = cuda.local.array(DIM, np.float64)
    x = cuda.local.array(DIM, np.float64)
    if k < regret.shape[1]:
        copy(s0, M0, s, M)
        play(s, M, room[:, :, k], theta, x, seed, first + k, kept, regret, k,
             theta_bound, arm_bound, together, nu, a, b, spread)
# fmt: on
