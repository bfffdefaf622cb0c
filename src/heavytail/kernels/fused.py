"""Fused multiply-adds, where a kernel's time is arithmetic.

``fused`` lets the compiler make one instruction, with one rounding, of ``a * b + c`` where the
machine has it; it may reorder nothing and assume nothing about NaN or infinity. A sum meant for it
is written as a chain, one product a term, so that there is one way to fuse it. Kernels of fewer
than four coordinates are left as they are: their time is elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from heavytail.kernels.jit import compiled

__all__ = ["fused"]

F = TypeVar("F", bound=Callable[..., Any])


def fused(kernel: F) -> F:
    """Compile ``kernel``, a function that ``jit`` made, with fused multiply-adds."""
    if compiled():
        options: dict[str, Any] = kernel.targetoptions  # type: ignore[attr-defined]
        options["fastmath"] = {"contract"}
    return kernel
