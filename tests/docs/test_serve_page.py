"""The page on the service: its Python runs, against a service in this process."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest
from tests.serve.conftest import serving

import heavytail as ht
from heavytail.serve import model
from heavytail.serve.handlers import ROUTES

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "serve.md"
ARMS = 0.9 * np.eye(3)
PAYS = [1.0, 2.0, 4.0]


def blocks(heading: str) -> list[str]:
    """The Python under a heading, block by block."""
    part = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", part, re.DOTALL)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_the_page_names_every_route(route):
    written = route.path.replace("{number}", "N").replace("{name}", "NAME")
    short = written.replace("/v1/models/NAME/", ".../")
    assert written in PAGE.read_text() or short in PAGE.read_text(), (
        f"add {route.method} {short} to the table of calls in docs/howto/serve.md"
    )


def traffic(shop, rng, count=150):
    made = [shop.decide(ARMS) for _ in range(count)]
    shop.learn(made, [PAYS[one.arm] * rng.pareto(2.5) for one in made])


def test_a_shadow_is_compared_by_what_came_after(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = ht.Client
    rng = np.random.default_rng(0)
    # A log of chance may hold too few of the other arm to compare by.
    monkeypatch.setattr(model.secrets, "randbelow", random.Random(1).randrange)
    with serving(tmp_path / "store") as http:
        monkeypatch.setattr(ht, "Client", lambda url: plain("http://127.0.0.1:8080", http=http))
        names: dict = {}
        (first,) = blocks("From Python")
        exec(first, names)
        assert ht.load("policy.npz").rounds == ht.evaluate("log.parquet", ht.Uniform(3)).rows == 1
        shop = names["shop"]
        fork, keep, compare = blocks("Compare a shadow")
        traffic(shop, rng)
        exec(fork, names)
        traffic(shop, rng)
        assert names["shadow"].describe()["rounds"] == shop.describe()["rounds"] == 301
        exec(keep, names)
        traffic(shop, rng)
        exec(compare, names)
        heir = names["shadow"].fork("shop-c")  # it takes over
        traffic(heir, rng, 3)
        assert heir.describe()["rounds"] == 454
    found = names["found"]
    assert names["later"].height == 150  # of 451, those that neither has learned
    assert found.a.rows == found.b.rows == 150
    assert np.isfinite(found.value)
