"""Choices have the probabilities that they say, in slates too."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from tests.decider.tools import OFFERS, shop, snap, visit

import heavytail as ht

HERE = {"segment": "new", "basket": 1.0}
DIGEST = """
import hashlib
import numpy as np
import heavytail as ht
from tests.decider.tools import log, shop
rng = np.random.default_rng(0)
n, made = 3000, ht.Decider([{"sku": i} for i in range(4)], ids="sku", context=list("abcdef"))
x = rng.normal(size=(n, 6))
given = {name: x[:, k] for k, name in enumerate("abcdef")}
given |= {"sku": rng.integers(4, size=n), "reward": x[:, 0] * x[:, 1] + rng.standard_t(2.1, n)}
made.learn({k: v[:-300] for k, v in given.items()}, progress=False)
for i in range(300):
    made.observe({name: x[-i, k] for k, name in enumerate("abcdef")}, i % 4, float(x[-i, 0]))
arrays = made.state_arrays()
print(hashlib.sha256(b"".join(arrays[k].tobytes() for k in sorted(arrays))).hexdigest())
"""


def test_probabilities_are_those_of_twenty_thousand_draws():
    made = shop(40)
    best = made.select(HERE, explore=0.0).id
    counts = Counter(made.select(HERE, explore=0.3, draw=7919 * i).id for i in range(20_000))
    says = {made.select(HERE, explore=0.3, draw=i).id: made.select(HERE, explore=0.3, draw=i)
            .probability for i in range(60)}  # fmt: skip
    assert says == pytest.approx({o["sku"]: 0.1 + 0.7 * (o["sku"] == best) for o in OFFERS})
    for offer, chance in says.items():
        assert counts[offer] / 20_000 == pytest.approx(chance, abs=0.015)


def test_probabilities_of_a_slate_multiply_to_those_of_its_order():
    made, n = shop(40), 6000
    orders: Counter[tuple[str, ...]] = Counter()
    chances: dict[tuple[str, ...], float] = {}
    for _ in range(n):
        slate = made.decide(HERE, k=3, explore=0.6)
        order = tuple(choice.id for choice in slate)
        assert len({*order}) == 3
        orders[order] += 1
        chances[order] = float(np.prod([choice.probability for choice in slate]))
    assert sum(chances.values()) == pytest.approx(1.0)
    for order, chance in chances.items():
        assert orders[order] / n == pytest.approx(chance, abs=0.03)


def test_one_offer_has_probability_1_and_no_share_explores():
    made = shop(40)
    assert made.decide(HERE, only=["tea"], explore=1.0).probability == 1.0
    assert {made.decide(HERE, explore=0.0).probability for _ in range(20)} == {1.0}
    assert {made.decide(HERE, explore=1.0).probability for _ in range(20)} == {1 / 3}
    assert [c.probability for c in made.decide(HERE, k=9, explore=1.0)] == [1 / 3, 1 / 2, 1.0]
    assert len(made.decide(HERE, k=10**15)) == 3


@pytest.mark.slow
def test_kept_rows_tell_without_bias_what_another_rule_earns():
    """Inverse propensities of the rows that are kept, in a world that is known."""
    means = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 1.0]])
    estimates = []
    for seed in range(12):
        made, rng = shop(explore=0.4, seed=seed), np.random.default_rng(seed)
        for _ in range(400):
            kind = int(rng.integers(2))
            choice = made.decide({"segment": "ab"[kind], "basket": 0.0})
            made.reward(choice.token, means[kind, choice.place] + rng.normal())
        rows = made._history.rows()
        always = rows.offers == 1  # the rule: always the loan, 1.5 on average
        estimates.append(float(np.mean(always / rows.probabilities * rows.rewards)))
    assert np.mean(estimates) == pytest.approx(1.5, abs=4 * np.std(estimates) / np.sqrt(12))
    assert np.std(estimates) / np.sqrt(12) < 0.15


def test_the_same_visits_and_rewards_give_the_same_bits():
    made, twin = shop(150), shop(150)
    arrays, others = snap(made), snap(twin)
    assert {k for k in arrays if arrays[k] != others[k]} == {"told"}  # the names of the runs


@pytest.mark.slow
def test_bits_do_not_depend_on_the_number_of_threads():
    digests = set()
    for threads in ("1", "2"):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        given = {**os.environ, **dict.fromkeys(names, threads)}
        done = subprocess.run([sys.executable, "-c", DIGEST], env=given, capture_output=True,
                              text=True, check=True)  # fmt: skip
        digests.add(done.stdout.strip())
    assert len(digests) == 1


@pytest.mark.parametrize("columns", [150, 300])
def test_many_columns_have_a_bounded_number_of_features(columns):
    names = [f"c{i}" for i in range(columns)]
    offers = [{"sku": i} for i in range(12)]
    rng = np.random.default_rng(0)
    for texts in (False, True):
        made = ht.Decider(offers, ids="sku", context=names)
        values = rng.integers(40, size=(columns, 90))
        given = {n: [f"t{v}" for v in row] if texts else row * 1.0
                 for n, row in zip(names, values, strict=True)}  # fmt: skip
        made.learn({**given, "sku": np.arange(90) % 12, "reward": np.ones(90)}, progress=False)
        assert made.encoder is not None
        assert columns <= made.encoder.dim <= 1100
        assert made.decide({n: given[n][0] for n in names}).probability > 0


def test_a_short_memory_is_as_long_as_many_features_need():
    names = [f"c{i}" for i in range(30)]
    rng = np.random.default_rng(0)
    made = ht.Decider([{"sku": i} for i in range(3)], ids="sku", context=names, forget=0.9)
    for _ in range(70):
        choice = made.decide(dict(zip(names, rng.normal(size=30), strict=True)))
        made.reward(choice.token, float(rng.normal()))
    made.add([{"sku": f"new {i}"} for i in range(30)])
    assert made.policy.constructor_arguments()["forget"] > 0.98
    assert snap(made.clone()) == snap(made)


@pytest.mark.parametrize("size", [1e308, 1e200, 1e-60])
@pytest.mark.filterwarnings("error")
def test_rewards_of_any_size_are_learned_and_shaped(size):
    rng, n = np.random.default_rng(0), 300
    x = rng.normal(size=n)
    rewards = np.where(x > 0, 0.4, -0.4) * size * (1 + 0.1 * rng.random(n))
    made = shop(context=["basket"])
    given = {"sku": ["card", "loan", "tea"] * 100, "basket": x, "reward": rewards}
    made.learn(given, progress=False)
    assert made._model.shape.curves == ("basket",)
    made.reward(made.decide({"basket": 1.0}).token, size)
    assert snap(made.clone()) == snap(made)


def test_visits_explore_by_the_seed_and_the_number_of_the_decision():
    rng = np.random.default_rng(0)
    visits = [visit(rng) for _ in range(30)]
    runs = []
    for seed in (3, 3, 4):
        made = shop(seed=1, explore=1.0)
        made._seed = seed
        runs.append([made.decide(each).id for each in visits])
    assert runs[0] == runs[1] != runs[2]
