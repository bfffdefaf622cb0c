"""A policy that threads share where several of its calls belong together."""

from __future__ import annotations

import functools
import inspect
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar

from heavytail._turns import deserted
from heavytail._validate import shown
from heavytail.policies.core.policy import Policy

__all__ = ["Shared"]

P = TypeVar("P", bound=Policy)

OWN = ("_policy", "_lock")  # what is the wrapper's and not the policy's
PAIRED = ("select", "update")  # where a policy plays an arm several times


class Shared(Generic[P]):
    """A policy under a lock: each call is whole, and so are several where one thread holds it.

    It has whatever is public of the policy, under the same names: methods run, properties are
    read and set one after another, so that the state is that of some order of the calls. The
    policies of this library serve threads one call at a time by themselves; the lock is for
    policies of your own, and for calls that belong together:

    >>> import heavytail as ht
    >>> shared = ht.Shared(ht.TwinUCB(2))
    >>> decision = shared.decide([[1.0, 0.0], [0.0, 1.0]])  # in any thread
    >>> shared.learn(decision, reward=3.0)  # in another
    >>> with shared as policy:  # nobody else decides or learns until the end
    ...     if policy.rounds < 1000:
    ...         policy.update_many([[0.6, 0.1], [0.2, 0.7]], [1.0, 0.0])
    >>> shared.rounds
    3

    A policy that plays an arm several times (``info.repeats``) counts a reward for the arm that it
    means, so an ``update`` must follow its own ``select``. Outside of ``with`` both are refused
    then; ``decide`` and ``learn`` are not.

    ``save`` writes the policy and ``clone`` gives a plain copy of it. Wrap a policy once, and use
    it by its wrapper alone.

    Args:
        policy: of any class.
    """

    _policy: P
    _lock: Any

    def __init__(self, policy: P) -> None:
        if not isinstance(policy, Policy):
            raise TypeError(f"Shared: policy must be a Policy; got {shown(policy)}.")
        self._policy = policy
        self._lock = threading.RLock()
        _LIVING.add(self)

    def __enter__(self) -> P:
        """The policy itself, to be used until the end of the ``with``."""
        self._lock.__enter__()
        return self._policy

    def __exit__(self, *error: object) -> None:
        self._lock.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"Shared has no {name!r}. Use the policy in a with.", name=name)
        with self._lock:
            attribute = getattr(self._policy, name)
        if not (inspect.ismethod(attribute) and attribute.__self__ is self._policy):
            return attribute
        call = self._refusing if name in PAIRED and self._policy.info.repeats else self._whole
        # found at once then
        object.__setattr__(self, name, functools.wraps(attribute)(call(attribute)))
        return vars(self)[name]

    def _whole(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def whole(*args: object, **kwargs: object) -> object:
            with self._lock:
                return method(*args, **kwargs)

        return whole

    def _refusing(self, method: Callable[..., Any]) -> Callable[..., NoReturn]:
        def refuse(*args: object, **kwargs: object) -> NoReturn:
            raise ValueError(
                f"Shared.{method.__name__}: {type(self._policy).__name__} plays an arm several "
                "times, and another thread could come between select and update. Hold it for both "
                "(with shared as policy: ...), or call decide and learn."
            )

        return refuse

    def __setattr__(self, name: str, value: object) -> None:
        if name in OWN:
            object.__setattr__(self, name, value)
        elif not isinstance(getattr(type(self._policy), name, None), property):
            raise AttributeError(
                f"Shared: {type(self._policy).__name__} has no property {name!r} to set.", name=name
            )
        else:
            with self._lock:
                setattr(self._policy, name, value)

    def __dir__(self) -> list[str]:
        names = (name for name in dir(self._policy) if not name.startswith("_"))
        return sorted({*names, *object.__dir__(self)})

    def __repr__(self) -> str:
        with self._lock:
            return f"Shared({self._policy!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Shared, (self.clone(),)  # a lock stays in its process


class _Deserted:
    """The lock that a thread held which is not in this process: nobody ever has it."""

    def __enter__(self) -> None:
        raise deserted("Shared")

    def __exit__(self, *error: object) -> None:
        """Never reached."""

    def acquire(self, *, blocking: bool) -> bool:
        return False


_LIVING: weakref.WeakSet[Shared[Any]] = weakref.WeakSet()


def _look_at_locks() -> None:
    """In a process that was just forked, which has one thread: it can have every lock, but for
    those that the others held.
    """
    for shared in _LIVING:
        if shared._lock.acquire(blocking=False):
            shared._lock.release()
        else:
            shared._lock = _Deserted()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_look_at_locks)
