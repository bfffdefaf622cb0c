"""A shop shows one of four offers; 95 of 100 visits buy nothing, and baskets are heavy-tailed.

python examples/offers.py [offers.png]
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import heavytail as ht

VISITS = 20_000
OFFERS = {  # how often it sells, and the mean basket in euros
    "none": (0.05, 40.0),
    "free delivery": (0.07, 42.0),
    "10 % off": (0.08, 30.0),
    "buy 3 pay 2": (0.05, 90.0),
}
chance, basket = np.array(list(OFFERS.values())).T
worth = chance * basket  # euros a visit, on average; the policy is not told
arms = np.eye(len(OFFERS))  # one feature an offer

rng = np.random.default_rng(0)
sold = rng.random((VISITS, 1)) < chance
size = np.exp(rng.standard_normal((VISITS, 1)) - 0.5)  # log-normal, of mean 1
revenue = sold * size * basket  # what each visit would have spent under each offer

policy = ht.TwinUCB(len(arms))  # chance and amount apart; nothing to tune
shown = np.empty(VISITS, dtype=int)
for visit in range(VISITS):
    shown[visit] = policy.select(arms)
    policy.update(arms[shown[visit]], revenue[visit, shown[visit]])

for k, name in enumerate(OFFERS):
    print(f"{name:<14} {worth[k]:.2f} a visit in truth, shown in {np.mean(shown == k):4.0%}")
print(f"visits without a sale: {np.mean(~sold[np.arange(VISITS), shown]):.0%}")
print(f"a visit was worth {worth[shown].mean():.2f}; by chance {worth.mean():.2f}", end="")
print(f", always the best {worth.max():.2f}")

blocks = shown.reshape(-1, 500)
share = [(blocks == k).mean(axis=1) for k in range(len(OFFERS))]
figure = Figure(figsize=(6.4, 3.6), layout="constrained")
axes = figure.subplots()
colours = ["#bbbbbb", "#56b4e9", "#e69f00", "#009e73"]  # Okabe and Ito
axes.stackplot(500 * np.arange(1, len(blocks) + 1), share, colors=colours, labels=list(OFFERS))
axes.set(xlabel="visit", ylabel="share of the last 500 visits", xlim=(500, VISITS), ylim=(0, 1))
axes.set_title("Which offer is shown: the best sells no oftener, but for more", fontsize=10)
axes.xaxis.set_major_formatter("{x:,.0f}")
axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
axes.legend(loc="center right", reverse=True, framealpha=1)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "offers.png", dpi=120)
