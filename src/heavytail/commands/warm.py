"""``heavytail warm``: compile the kernels in advance, for an image or before the first decision."""

from __future__ import annotations

import argparse
import contextlib
import time

__all__ = ["add_arguments", "run"]

HORIZON = 10_000  # of policies that want one
DECIDER = "Decider"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "policies",
        nargs="*",
        metavar="POLICY",
        default=["TwinUCB"],
        help="names as in `heavytail policies`, Decider, or `all` (TwinUCB)",
    )


def run(args: argparse.Namespace) -> int:
    """Play a few rounds of each policy, so that the kernels it calls are cached on disk."""
    from heavytail.kernels.jit import compiled
    from heavytail.policies import ALL

    if not compiled():
        raise ValueError("NUMBA_DISABLE_JIT is set: nothing is compiled. Unset it.")
    every = [*(policy.name for policy in ALL), DECIDER]
    for name in every if args.policies == ["all"] else args.policies:
        started = time.perf_counter()
        _play_decider() if name == DECIDER else _play(name)
        print(f"{name}: {time.perf_counter() - started:.1f} s", flush=True)
    return 0


def _play(name: str) -> None:
    """Decide and learn in every way that has its own kernels."""
    import numpy as np

    from heavytail.policies import make_policy
    from heavytail.tails import MomentBound

    arms, tail = np.eye(3), MomentBound(order=2.0, scale=1.0)
    policy = make_policy(name, dim=3, horizon=HORIZON, tail=tail, arms=len(arms))
    for _ in range(8):
        policy.update(arms[policy.select(arms)], 1.0)
    if not policy.info.repeats:
        policy.learn(policy.decide(arms), 1.0)
        policy.update_many(arms, np.ones(len(arms)))
        for question, asked in (("select_many", arms[None]), ("predict", arms), ("explain", arms)):
            with contextlib.suppress(ValueError):  # some policies cannot answer it
                getattr(policy, question)(asked)
        policy.diagnostics()


def _play_decider() -> None:
    """Decide among offers and among prices, learn rewards and a log, and forget."""
    from heavytail.decider import Decider, Grid

    rows = [{"segment": "ab"[i % 2], "basket": float(i % 7)} for i in range(40)]
    log = [{**row, "offer": "01"[i % 3 % 2], "reward": float(i % 5)} for i, row in enumerate(rows)]
    for forget in (None, 0.99):
        decider = Decider([{}, {}], context=["segment", "basket"], forget=forget)
        for row in rows:
            decider.reward(decider.decide(row).token, 1.0)
        decider.learn(log, progress=False)
        decider.expected(rows[0])
        decider.clone()
    prices = Decider(prices=Grid(1, 9, 5), context=["segment", "basket"])
    for row in rows:
        prices.reward(prices.decide(row).token, 1.0)
