"""The figure of the README: regret under Student's t noise whose scale changes from round to round.

python examples/regret_figure.py [regret.png]
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import heavytail as ht

ROUNDS, TRIALS = 18_000, 20
noise = ht.noise.Scaled(ht.noise.StudentT(1.7), 1.5)
world = ht.LinearBandit(2, arms=50, noise=noise)
policies = {
    "Uniform": ht.Uniform(2),
    "OFUL, textbook radius": ht.OFUL(2, noise_scale=1.0, horizon=ROUNDS, radius_scale=1.0),
    "Hvt-UCB, untuned": ht.HvtUCB(2),
    "Twin-UCB, untuned (ours)": ht.TwinUCB(2),
}
styles = [  # Okabe and Ito: told apart by everyone; and by the line too
    ("#777777", ":", 0),
    ("#d55e00", "-.", 0),
    ("#0072b2", "--", 7),  # points that the label is moved up by
    ("#009e73", "-", -7),
]
results = ht.simulate(policies, world, rounds=ROUNDS, trials=TRIALS, seed=11, record=300)
print(results.table())

figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
for (name, run), (colour, line, up) in zip(results.items(), styles, strict=True):
    mean, spread = run.regret.mean(axis=0), run.regret.std(axis=0)
    axes.plot(results.rounds, mean, line, color=colour, lw=2)
    axes.fill_between(results.rounds, mean - spread, mean + spread, color=colour, alpha=0.15, lw=0)
    axes.annotate(
        name,
        (results.rounds[-1], mean[-1]),
        xytext=(6, up),
        textcoords="offset points",
        va="center",
        color=colour,
    )
axes.set(xlabel="round", ylabel="cumulative regret", xlim=(0, ROUNDS), ylim=(0, None))
axes.set_title(
    "Student's t(1.7) noise times 10^U(0, 1.5), 20 trials, mean ± one deviation", fontsize=10
)
axes.xaxis.set_major_locator(plt.MultipleLocator(3000))
axes.xaxis.set_major_formatter("{x:,.0f}")
axes.yaxis.set_major_formatter("{x:,.0f}")
axes.spines[["top", "right"]].set_visible(False)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "regret.png", dpi=150, bbox_inches="tight")
