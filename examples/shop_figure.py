"""Regret in two shops where 95 of 100 visits buy nothing and baskets are log-normal.

python examples/shop_figure.py [shop.png]
"""

import sys
import warnings

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import heavytail as ht

ROUNDS, TRIALS, SEED = 20_000, 60, 5
SHOPS = {"amounts": "The better offer sells for more", "dear": "It sells for more, but less often"}
STYLES = {  # Okabe and Ito: told apart by everyone; and by the line too
    "uniform": ("#777777", (0, (1, 1))),
    'target="typical"': ("#cc79a7", (0, (1, 3))),
    "OFUL": ("#d55e00", "-."),
    "LinTS": ("#e69f00", (0, (6, 2, 1, 2, 1, 2))),
    "Twin-UCB": ("#009e73", "-"),
}

figure, panels = plt.subplots(1, 2, figsize=(6.4, 3.9), sharey=True, layout="constrained")
for axes, (skew, title) in zip(panels, SHOPS.items(), strict=True):
    world = ht.SkewedBandit(3, arms=10, skew=skew)
    scale = world.tail(2.0).scale  # OFUL and LinTS must be told how large the noise is
    policies = {
        "uniform": ht.Uniform(3),
        'target="typical"': ht.TwinUCB(3, target="typical"),
        "OFUL": ht.OFUL(3, noise_scale=scale),
        "LinTS": ht.LinTS(3, noise_scale=scale),
        "Twin-UCB": ht.TwinUCB(3),
    }
    with warnings.catch_warnings():  # OFUL and LinTS assume light tails
        warnings.simplefilter("ignore")
        results = ht.simulate(policies, world, rounds=ROUNDS, trials=TRIALS, seed=SEED, record=200)
    print(f"{title}\n{results.table()}\n")
    for name, run in results.items():
        colour, line = STYLES[name]
        axes.plot(results.rounds, run.regret.mean(axis=0), ls=line, color=colour, lw=2, label=name)
    axes.set_title(title, fontsize=10)
    axes.set(xlabel="round", xlim=(0, ROUNDS), ylim=(0, None))
    axes.xaxis.set_major_locator(plt.MultipleLocator(10_000))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
panels[0].set_ylabel(f"cumulative regret, mean of {TRIALS} trials")
handles, labels = panels[0].get_legend_handles_labels()
figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, handlelength=3.5)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "shop.png", dpi=150, bbox_inches="tight")
