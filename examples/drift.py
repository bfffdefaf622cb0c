"""A stream whose law changes: a slope that jumps and then wanders, under noise with outliers.

python examples/drift.py [drift.png]
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import heavytail as ht

ROWS, BATCH = 20_000, 50
step = np.arange(ROWS)
slope = np.where(step < 6_000, 1.0, -0.5)  # a jump, then a wave
slope = np.where(step < 10_000, slope, -0.5 * np.cos((step - 10_000) / 2_000))

rng = np.random.default_rng(4)
X = rng.normal(size=(ROWS, 1))
y = slope * X[:, 0] + rng.standard_t(1.7, size=ROWS)  # noise of infinite variance

models = {
    "least squares, forget=0.998": ht.OnlineRidge(forget=0.998),
    "one-pass Huber, remembers all": ht.OnePassHuberRegressor(),
    "one-pass Huber, forget=0.998": ht.OnePassHuberRegressor(forget=0.998),  # some 500 rows count
}
found: dict[str, list[float]] = {name: [] for name in models}
for start in range(0, ROWS, BATCH):
    for name, model in models.items():
        model.partial_fit(X[start : start + BATCH], y[start : start + BATCH])
        found[name].append(model.coef_[0])

seen = np.arange(BATCH, ROWS + 1, BATCH)
for name, slopes in found.items():
    error = np.abs(np.array(slopes) - slope[seen - 1])
    jump = error[(seen > 6_000) & (seen <= 10_000)].mean()
    print(f"{name:<30} error of the slope {error.mean():.3f} on average, after the jump {jump:.3f}")

figure = Figure(figsize=(6.4, 3.6), layout="constrained")
axes = figure.subplots()
looks = [("#e69f00", "-", 1.2), ("#999999", "--", 2.0), ("#0072b2", "-", 2.0)]  # Okabe and Ito
for (name, slopes), (colour, line, width) in zip(found.items(), looks, strict=True):
    axes.plot(seen, slopes, line, color=colour, lw=width, label=name)
axes.plot(step, slope, ":", color="black", lw=2, label="truth")
axes.set(xlabel="row", ylabel="slope", xlim=(0, ROWS), ylim=(-1.5, 2.6))
axes.set_title("A slope that jumps and wanders; Student's t(1.7) noise", fontsize=10)
axes.xaxis.set_major_formatter("{x:,.0f}")
axes.legend(loc="upper right")
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "drift.png", dpi=120)
