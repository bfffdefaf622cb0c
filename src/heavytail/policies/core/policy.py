"""What every policy is: it selects, it learns, and it can be saved, copied and resumed.

No policy of ours inherits from another. ``Policy`` holds what is common to all,
:class:`heavytail.policies.core.base.PackedPolicy` what is common to those whose state is packed.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from heavytail._storage import Saved, Stored
from heavytail._turns import alone
from heavytail._typing import FloatArray
from heavytail._validate import Check, as_rows, shown
from heavytail.encoding import Encoder
from heavytail.policies.core.decisions import PREFIX as PENDING
from heavytail.policies.core.decisions import Deciding
from heavytail.policies.core.diagnostics import Diagnostics
from heavytail.policies.core.info import Info
from heavytail.tails import MomentBound

__all__ = ["Policy"]


class Policy(Deciding, Stored, ABC):
    """A rule that picks an arm, sees its reward, and learns.

    A subclass gives ``name`` and ``info``, ``select`` and ``update``, and its state as named
    arrays. Its constructor's arguments are remembered as given, so ``repr``, ``clone`` and
    ``save`` need no help.
    """

    noun = "policy"
    name: ClassVar[str]
    info: ClassVar[Info]

    dim: int
    tail: MomentBound | None = None
    horizon: int | None = None
    _encoder: Encoder | None = None

    def __repr__(self) -> str:
        default = {p.name: p.default for p in inspect.signature(type(self)).parameters.values()}
        given = [
            f"{key}={value!r}"
            for key, value in self._arguments.items()
            if key not in default or type(value) is not type(default[key]) or value != default[key]
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    @classmethod
    def taken(cls, problem: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """What of a ``problem`` (horizon, tail, arms) the constructor is to be handed beside its
        own ``options``: whatever it has an argument for, unless a subclass knows better.
        """
        accepted = inspect.signature(cls).parameters
        return {key: value for key, value in problem.items() if key in accepted}

    @abstractmethod
    def select(self, arms: ArrayLike) -> int:
        """The index of the arm to play among ``arms``, shape (n, dim).

        Ties go to the first; a policy of linear indices takes those equal to ten digits for one.
        """

    @abstractmethod
    def update(self, x: ArrayLike, reward: float, *, scale: float | None = None) -> None:
        """Learn that features ``x`` paid ``reward``; ``scale`` is nu_t, where it is known."""

    def reward_problem(self, reward: float, scale: float | None = None) -> str:
        """Why a finite reward may not be learned, whatever its features and the state, in a
        sentence; "" where nothing speaks against it.
        """
        return ""

    @property
    @abstractmethod
    def theta(self) -> FloatArray:
        """The current estimate, a copy."""

    @property
    @abstractmethod
    def radius(self) -> float:
        """beta_t: the radius of the confidence set that the next selection uses."""

    @property
    @abstractmethod
    def rounds(self) -> int:
        """Rewards learned so far."""

    @property
    def state_bytes(self) -> int:
        """Bytes of everything the policy remembers, pending decisions too."""
        return sum(array.nbytes for array in self.saved_arrays().values())

    @abstractmethod
    def state_arrays(self) -> dict[str, FloatArray]:
        """What the policy remembers, by name: enough to resume to the bit."""

    @abstractmethod
    def restore(self, arrays: dict[str, FloatArray]) -> None:
        """Take over what ``state_arrays`` gave; refuse what does not fit, unchanged."""

    @alone
    def saved_arrays(self) -> dict[str, FloatArray]:
        """``state_arrays``, and the decisions that wait for their reward."""
        return {**self.state_arrays(), **self._pending_arrays()}

    def resume(self, arrays: dict[str, FloatArray]) -> None:
        """Take over what ``saved_arrays`` gave; refuse what does not fit, unchanged."""
        ledger, key = self._check_pending(arrays)
        self.restore({k: a for k, a in arrays.items() if not k.startswith(PENDING)})
        self._ledger, self._key = ledger, key

    @property
    def encoder(self) -> Encoder | None:
        """What makes the vectors that the policy learns; saved, loaded and cloned with it.

        Setting it takes a copy that learns no more (:meth:`heavytail.Encoder.fixed`): vectors that
        changed their meaning would make nonsense of theta. None takes it away.
        """
        return self._encoder

    @encoder.setter
    def encoder(self, encoder: Encoder | None) -> None:
        where = f"{type(self).__name__}.encoder"
        if encoder is not None:
            if not isinstance(encoder, Encoder):
                raise TypeError(f"{where} must be an Encoder or None; got {shown(encoder)}.")
            encoder = encoder.fixed()
            self._check_encoder(encoder)
        self._encoder = encoder

    def _check_encoder(self, encoder: Encoder) -> None:
        if encoder.dim != self.dim:
            raise ValueError(
                f"{type(self).__name__}.encoder must give {self.dim} features, as the policy has; "
                f"it gives {encoder.dim}. Build the policy with dim=encoder.dim."
            )

    def carried(self) -> dict[str, Saved]:
        if self._encoder is None:
            return {}
        self._check_encoder(self._encoder)  # whoever has it may have set other arguments since
        return {"encoder": self._encoder}

    def carry(self, others: Mapping[str, Any]) -> None:
        if set(others) - {"encoder"}:
            raise ValueError(f"{type(self).__name__} carries no {shown(sorted(others))}.")
        self.encoder = others.get("encoder")

    def reseed(self, seed: int) -> None:
        """Start anew the policy's own randomness, and the draws of ``decide`` that explore."""
        self._key = Check(type(self)).seed(seed)

    @alone
    def reset(self) -> None:
        """Forget all that was learned, a start from an earlier estimate too: the policy is as it
        was built. Decisions that wait for their reward still do, and the encoder stays.
        """
        self.restore(type(self)(**self._arguments).state_arrays())

    def diagnostics(self) -> Diagnostics:
        """How the policy is doing, in numbers for a dashboard."""
        return Diagnostics(rounds=self.rounds, pending=len(self.pending), radius=self.radius)

    def update_many(
        self, X: ArrayLike, rewards: ArrayLike, *, scale: ArrayLike | None = None
    ) -> None:
        """Learn the rows of ``X`` (b, dim) and ``rewards`` (b,) in order, as ``update`` would.

        ``scale`` is one number or one per row. Where any row is refused, none is learned.
        """
        features, paid = self._rows_and_rewards(X, rewards)
        scales = np.broadcast_to(np.asarray(scale, dtype=object), paid.shape)
        before = {key: array.copy() for key, array in self.state_arrays().items()}
        try:
            for x, reward, nu in zip(features, paid, scales, strict=True):
                self.update(x, float(reward), scale=nu)
        except BaseException:  # an interrupt too: all rows are learned, or none
            self.restore(before)
            raise

    def _rows_and_rewards(self, X: ArrayLike, rewards: ArrayLike) -> tuple[FloatArray, FloatArray]:
        where = f"{type(self).__name__}.update_many"
        features = as_rows(X, (None, self.dim), f"{where}: X").copy()  # no thread writes to it
        return features, as_rows(rewards, (len(features),), f"{where}: rewards").copy()

    def _start(
        self, dim: int, tail: MomentBound | None, horizon: int | None, *, scale_known: bool = True
    ) -> Check:
        """Check and keep what nearly every policy is told; the checker for the rest.

        Whether tail and horizon must be given is what ``info`` says; without ``scale_known`` the
        policy finds the scale itself.
        """
        check = Check(type(self))
        self.dim = check.count("dim", dim)
        needed = scale_known and self.info.moment in ("central", "raw")
        if not isinstance(tail, MomentBound) and (needed or tail is not None):
            raise TypeError(
                f"{check.owner}.tail must be a MomentBound(order, scale); got {shown(tail)}."
            )
        self.tail = tail
        if horizon is not None or self.info.horizon:
            self.horizon = check.count("horizon", horizon)
        return check
