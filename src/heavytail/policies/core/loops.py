"""Loops around a policy's kernels, compiled once for each set of kernels.

An observation is admitted here and nowhere else: a learning kernel may take it for granted that
features, reward and scale are finite and within their bounds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from heavytail._typing import FloatArray, IntArray, Matrix, State, Vector
from heavytail.kernels.jit import specialise
from heavytail.kernels.layout import OK
from heavytail.kernels.one_pass import admit

__all__ = ["around", "enter", "enter_history", "select_rows", "update_rows"]


def around(template: Callable[..., Any], **bindings: object) -> Callable[..., Any]:
    """``template`` compiled around the kernels, and other constants, that ``bindings`` name."""
    return _around(template, tuple(sorted(bindings.items())))


@functools.cache
def _around(
    template: Callable[..., Any], bindings: tuple[tuple[str, Any], ...]
) -> Callable[..., Any]:
    name = "_".join([template.__name__, *(_label(value) for _, value in bindings)])
    return specialise(template, name, **dict(bindings))


def _label(value: Any) -> str:
    if not callable(value):
        return str(value)
    module = value.__module__.removeprefix("heavytail.").removeprefix("policies.")
    return f"{module}_{value.__name__}".replace(".", "_")


def select(*_: object) -> int:
    """Stands for a policy's selection kernel in the templates below."""
    raise NotImplementedError


def update(*_: object) -> int:
    """Stands for a policy's learning kernel in the templates below."""
    raise NotImplementedError


def enter(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Template: learn one observation, or say what is wrong with it.

    Arrays that are arguments of their own cost a call from Python a third of a tuple's time.
    """
    own = x.copy()  # another thread may write into x once it is admitted
    code = admit(s, M, own, reward, nu)
    if code != OK:
        return code
    return update(s, M, own, reward, nu)


def enter_history(s: Vector, M: Matrix, H: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Template: the same for a policy that keeps its history."""
    own = x.copy()
    code = admit(s, M, own, reward, nu)
    if code != OK:
        return code
    return update(s, M, H, own, reward, nu)


def select_rows(state: State, arms: FloatArray, choices: IntArray) -> int:
    """Template: choose from every set; -1, or the first set that is refused."""
    for b in range(arms.shape[0]):
        choices[b] = select(*state, arms[b])
        if choices[b] < 0:
            return b
    return -1


def update_rows(state: State, X: FloatArray, rewards: FloatArray, nu: FloatArray) -> int:
    """Template: learn every row; -1, or the first row that is refused."""
    for b in range(X.shape[0]):
        if admit(state[0], state[1], X[b], rewards[b], nu[b]) != OK:
            return b
        if update(*state, X[b], rewards[b], nu[b]) < 0:
            return b
    return -1
