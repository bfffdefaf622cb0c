"""A stream of sensor readings with faults: learn the line that the sound readings follow.

python examples/sensors.py [sensors.png]
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import heavytail as ht

HOURS, BATCH = 20_000, 100
TRUTH = np.array([-0.8, 60.0])  # humidity falls by 0.8 points a degree, from 60 at 0 degrees

rng = np.random.default_rng(1)
temperature = rng.uniform(0.0, 40.0, (HOURS, 1))
humidity = TRUTH[0] * temperature[:, 0] + TRUTH[1] + rng.normal(0.0, 3.0, HOURS)
stuck = rng.random(HOURS) < 0.002 * temperature[:, 0]  # the hotter, the oftener it sticks
humidity[stuck] = 100.0
humidity[rng.random(HOURS) < 0.002] = -9999.0  # and sometimes the line is dead

models = {
    "least squares": ht.OnlineRidge(),
    "one-pass Huber, typical": ht.OnePassHuberRegressor(target="typical"),  # faults have no say
}
for start in range(0, HOURS, BATCH):  # nothing of an earlier batch is kept
    rows = slice(start, start + BATCH)
    for model in models.values():
        model.partial_fit(temperature[rows], humidity[rows])

print(f"faults: {np.mean(stuck | (humidity < 0)):.1%} of {HOURS:,} readings")
print(f"{'truth':<24} slope {TRUTH[0]:6.2f}, at 0 degrees {TRUTH[1]:5.1f}")
for name, model in models.items():
    print(f"{name:<24} slope {model.coef_[0]:6.2f}, at 0 degrees {model.intercept_:5.1f}")

figure = Figure(figsize=(6.4, 3.6), layout="constrained")
axes = figure.subplots()
axes.plot(temperature[::10, 0], humidity[::10], ".", ms=2, color="#999999", label="readings")
ends = np.array([[0.0], [40.0]])
lines = [("#d55e00", "-."), ("#0072b2", "-")]  # Okabe and Ito: told apart by everyone
for (name, model), (colour, line) in zip(models.items(), lines, strict=True):
    axes.plot(ends, model.predict(ends), line, color=colour, lw=2.5, label=name)
axes.plot(ends, TRUTH[0] * ends + TRUTH[1], ":", color="black", lw=2.5, label="truth")
axes.set(xlabel="temperature, degrees", ylabel="humidity, %", xlim=(0, 40), ylim=(0, 135))
axes.set_title("Readings stuck at 100, the oftener the hotter; -9999 lies outside", fontsize=10)
axes.set_yticks(range(0, 101, 20))
axes.legend(loc="upper center", ncols=2, markerscale=5)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "sensors.png", dpi=120)
