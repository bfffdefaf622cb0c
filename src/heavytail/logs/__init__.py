"""Learning from logs: what a policy would have earned, from the decisions of another.

Row i of a log: an action a, its reward r and its propensity p, the probability with which the
policy that wrote the log played it. A target policy plays it with probability pi; w = pi / p is the
row's weight, X = w r its weighted reward, and V = E X the target's value. Neither r nor w need be
bounded here. Estimators and bounds are values: ``ht.evaluate(log, policy, estimator=DR(model))``.
"""

from __future__ import annotations

from heavytail._lazy import lazy, stub

_WHERE = stub(__file__)

__all__ = sorted(_WHERE)
__getattr__ = lazy(__name__, {**_WHERE, "reading": "."})  # what reads logs is a package of its own


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
