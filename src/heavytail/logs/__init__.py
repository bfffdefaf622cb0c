"""Learning from logs: what a policy would have earned, from the decisions of another.

Row i of a log: an action a, its reward r and its propensity p, the probability with which the
policy that wrote the log played it. A target policy plays it with probability pi; w = pi / p is the
row's weight, X = w r its weighted reward, and V = E X the target's value. Neither r nor w need be
bounded here.
"""

from __future__ import annotations

from heavytail.logs.comparing import compare
from heavytail.logs.evaluating import evaluate
from heavytail.logs.learning import LogPolicy
from heavytail.logs.replaying import Replay, replay
from heavytail.logs.results import Comparison, Evaluation, Selection
from heavytail.logs.selecting import select
from heavytail.logs.target import greedy

__all__ = [
    "Comparison",
    "Evaluation",
    "LogPolicy",
    "Replay",
    "Selection",
    "compare",
    "evaluate",
    "greedy",
    "replay",
    "select",
]
