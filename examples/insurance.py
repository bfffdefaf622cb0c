"""Heavy-tailed claims: how heavy are they, and what would each year alone say a contract costs?

python examples/insurance.py [insurance.png]
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import heavytail as ht

YEARS, CONTRACTS, CLASSES = 30, 3_000, ["city", "suburb", "country"]
TRUTH = np.array([900.0, 600.0, 450.0])  # the mean claims of a contract, in euros
member = np.eye(len(CLASSES))

rng = np.random.default_rng(0)
group = rng.integers(len(CLASSES), size=(YEARS, CONTRACTS))
claims = TRUTH[group] * 0.5 * rng.pareto(1.5, size=group.shape)  # mean 2; infinite variance

report = ht.tails.diagnose(claims.ravel())
print(report)

average, robust = np.empty((YEARS, 3)), np.empty((3, YEARS, 3))
for year in range(YEARS):  # each year's price from its own contracts
    X, y = member[group[year]], claims[year]
    average[year] = ht.OnlineRidge(fit_intercept=False).fit(X, y).coef_
    model = ht.OnePassHuberRegressor(fit_intercept=False).fit(X, y)
    robust[:, year] = model.predict(member, return_interval=True)
mean, low, high = robust

print(f"\nprices of {YEARS} years and {len(CLASSES)} classes, against the truth")
for name, found in {"average": average, "one-pass Huber": mean}.items():
    error = found / TRUTH - 1.0
    print(f"{name:<15} off by {np.abs(error).mean():.0%} on average", end="")
    print(f", between {error.min():+.0%} and {error.max():+.0%}")
nearer, held = np.abs(average - TRUTH) < np.abs(mean - TRUTH), (low < TRUTH) & (TRUTH < high)
print(f"the average is the nearer of the two in {nearer.mean():.0%}", end="")
print(f"; the other's 95 % intervals hold the truth in {held.mean():.0%}")

figure = Figure(figsize=(6.4, 3.6), layout="constrained")
left, right = figure.subplots(1, 2, width_ratios=[2, 3])
report.plot(left)
left.set(xlabel="claims less their median, euros", ylabel="share of contracts beyond")
left.set_title(f"The tail: index {report.index:.2f}", fontsize=10)
at, spread = np.arange(1, YEARS + 1), [(mean - low)[:, 0], (high - mean)[:, 0]]
right.errorbar(at, mean[:, 0], spread, fmt="o", color="#0072b2", ms=4, lw=1, label="one-pass Huber")
right.plot(at, average[:, 0], "s", color="#d55e00", ms=4, label="average")
right.axhline(TRUTH[0], ls=":", color="black", label="truth")
right.set(xlabel="year", ylim=(0, 2_000))
right.set_title("A city contract, euros, 95 % intervals", fontsize=10)
right.legend(loc="lower left", ncols=2)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "insurance.png", dpi=120)
