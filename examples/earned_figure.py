"""What a shop loses while it learns which offer to show.

python examples/earned_figure.py [earned.png [RUNS]]

Two kinds of visitors, four offers; most visits buy nothing. What a sale pays follows a Pareto law
with infinite variance, so that one sale can be larger than thousands of others together.
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import heavytail as ht

VISITS, SEED, TAIL = 20_000, 2026, 1.7
RUNS = int(sys.argv[2]) if len(sys.argv) > 2 else 20
SEGMENTS, SHARES = ("new", "returning"), (0.6, 0.4)
OFFERS = ["none", "voucher", "warranty", "bundle"]
CHANCE = np.array([[0.04, 0.10, 0.06, 0.02], [0.06, 0.12, 0.05, 0.03]])  # of a sale, by segment
LEAST = np.array([5.0, 3.0, 8.0, 30.0])  # that a sale of each offer pays
MEAN = CHANCE * LEAST * TAIL / (TAIL - 1.0)  # of what a visit pays
LOST = MEAN.max(axis=1, keepdims=True) - MEAN  # by showing this offer to this segment


class Decider:
    """The library, as it comes."""

    def __init__(self, rng):
        self.shop = ht.Decider(OFFERS, context=["segment"], seed=int(rng.integers(2**31)))

    def choose(self, segment):
        self.choice = self.shop.decide({"segment": SEGMENTS[segment]})
        return OFFERS.index(self.choice.id)

    def learn(self, segment, offer, paid):
        self.shop.reward(self.choice.token, paid)


class Random:
    """Any offer; the others keep the average of each offer in each segment."""

    def __init__(self, rng):
        self.rng = rng
        self.count, self.mean, self.square = np.zeros((3, *CHANCE.shape))

    def choose(self, segment):
        return int(self.rng.integers(len(OFFERS)))

    def learn(self, segment, offer, paid):
        self.count[segment, offer] += 1
        self.mean[segment, offer] += (paid - self.mean[segment, offer]) / self.count[segment, offer]
        self.square[segment, offer] += paid**2


class Greedy(Random):
    """The best average so far, and any offer in a tenth of the visits."""

    def choose(self, segment):
        if self.rng.random() < 0.1 or not self.count[segment].all():
            return super().choose(segment)
        return int(self.mean[segment].argmax())


class Test(Random):
    """Any offer in the first fifth of the visits, then the one with the best average."""

    def choose(self, segment):
        if self.count.sum() < VISITS / 5:
            return super().choose(segment)
        self.best = getattr(self, "best", self.mean.argmax(axis=1))
        return int(self.best[segment])


class Thompson(Random):
    """Draws from a normal law around each average; the spread of a visit is that of all visits."""

    def choose(self, segment):
        if not self.count[segment].all():
            return super().choose(segment)
        variance = self.square.sum() / self.count.sum()
        draws = self.rng.normal(self.mean[segment], np.sqrt(variance / self.count[segment]))
        return int(draws.argmax())


def lost(player, rng):
    """The revenue lost by a player, added up over the visits."""
    segments = rng.choice(len(SEGMENTS), VISITS, p=SHARES)
    luck, sizes = rng.random(VISITS), 1.0 + rng.pareto(TAIL, VISITS)
    steps = np.empty(VISITS)
    for i, segment in enumerate(segments):
        offer = player.choose(segment)
        sold = luck[i] < CHANCE[segment, offer]
        player.learn(segment, offer, float(LEAST[offer] * sizes[i]) if sold else 0.0)
        steps[i] = LOST[segment, offer]
    return steps.cumsum()


PLAYERS = {  # colours of Okabe and Ito, lines, and how many points a label is moved up by
    "random": (Random, "#777777", ":", 0),
    "Thompson sampling": (Thompson, "#cc79a7", (0, (6, 2, 1, 2, 1, 2)), -13),
    "epsilon-greedy": (Greedy, "#d55e00", "-.", 0),
    "A/B test, then the winner": (Test, "#0072b2", "--", 13),
    "heavytail": (Decider, "#009e73", "-", 0),
}
best = VISITS * float(np.dot(SHARES, MEAN.max(axis=1)))  # that somebody who knows all earns
figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
for name, (kind, colour, line, up) in PLAYERS.items():
    paths = np.array(
        [
            lost(kind(np.random.default_rng([SEED, 1, k])), np.random.default_rng([SEED, 0, k]))
            for k in range(RUNS)
        ]
    )
    mean, last = paths.mean(axis=0), paths[:, -1]
    error = last.std(ddof=1) / RUNS**0.5
    print(f"{name}: lost {last.mean():,.0f}, standard error {error:,.0f}, worst {last.max():,.0f}")
    axes.plot(mean / best, color=colour, ls=line, lw=2)
    axes.annotate(
        f"{name}: {last.mean() / best:.0%} lost",
        (VISITS, mean[-1] / best),
        xytext=(6, up),
        textcoords="offset points",
        va="center",
        color=colour,
    )
axes.set(xlabel="visits", xlim=(0, VISITS), ylim=(0, None))
axes.set_ylabel("revenue lost, of all that the best\noffers earn in 20,000 visits")
axes.set_title(f"A shop with four offers, mean of {RUNS} runs", fontsize=10)
axes.xaxis.set_major_formatter("{x:,.0f}")
axes.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0, decimals=0))
axes.spines[["top", "right"]].set_visible(False)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "earned.png", dpi=150, bbox_inches="tight")
