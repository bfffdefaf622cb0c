"""Offers, and who may see which, how often."""

from __future__ import annotations

import numpy as np
import pytest
from tests.decider.tools import OFFERS, shop, snap

import heavytail as ht

DAY = 86400.0


def shown(made: ht.Decider, **context: object) -> set[str]:
    where = {"segment": None, "basket": None, **context}
    return {choice.id for choice in made.decide(where, k=9, explore=1.0, now=1.0)}


RULES = {
    "card": {"segment": ["new", "7"]},
    "loan": {"basket": (1.0, 2.0), "segment": ["new", None]},
    "tea": {"basket": (None, 5)},
    "any": {"basket": (None, None)},
}


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({"segment": "new", "basket": 1.0}, {"card", "loan", "tea", "any"}),
        ({"segment": "new", "basket": 2}, {"card", "loan", "tea", "any"}),
        ({"segment": "new", "basket": np.nextafter(2.0, 3.0)}, {"card", "tea", "any"}),
        ({"segment": "new", "basket": np.nextafter(1.0, 0.0)}, {"card", "tea", "any"}),
        ({"segment": "old", "basket": 1.5}, {"tea", "any"}),
        ({"segment": None, "basket": 1.5}, {"loan", "tea", "any"}),
        ({"segment": "None", "basket": 1.5}, {"tea", "any"}),
        ({"segment": 7, "basket": 5}, {"card", "tea", "any"}),
        ({"segment": 7.0, "basket": 5.001}, {"card", "any"}),
        ({"segment": "new", "basket": None}, {"card"}),
        ({"segment": None, "basket": float("nan")}, set()),
    ],
)
def test_rules_hold_to_the_letter(context, expected, loaded, tmp_path):
    offers = [*OFFERS, {"sku": "any", "price": 1.0}, {"sku": "free", "price": 0.0}]
    made = ht.Decider(offers, ids="sku", context=["segment", "basket"], rules=RULES)
    if loaded:
        made.save(tmp_path / "it.npz")
        made = ht.load(tmp_path / "it.npz")
    assert shown(made, **context) == expected | {"free"}
    assert made._contexts.kinds[1] == "number"  # a range tells it


def test_a_limit_is_never_passed_and_begins_anew_at_midnight():
    made = shop(limits={"tea": 3, "card": 0}, explore=1.0)
    context = {"segment": "new", "basket": 1.0}
    seen: dict[float, int] = {}
    for i in range(400):
        now = 10 * DAY + i * DAY / 100
        chosen = made.decide(context, now=now).id
        assert chosen != "card"
        seen[now // DAY] = seen.get(now // DAY, 0) + (chosen == "tea")
        if i % 50 == 0:
            made = made.clone()
    assert set(seen.values()) == {3}
    last = 14 * DAY - 1.0
    assert {made.decide(context, now=last - k * DAY).id for k in range(9)} == {"loan"}  # set back
    assert {choice.id for choice in made.decide(context, now=14 * DAY, k=2)} == {"loan", "tea"}


def test_a_limit_holds_within_a_slate_and_when_none_is_left():
    made = shop(limits={"tea": 1, "card": 1, "loan": 1})
    context = {"segment": "new", "basket": 1.0}
    assert len(made.decide(context, k=9, now=5.0)) == 3
    before = snap(made)
    with pytest.raises(ValueError, match="no offer may be shown"):
        made.decide(context, now=6.0)
    assert snap(made) == before
    assert made.decide(context, now=DAY)


def test_only_some_offers_may_be_asked_for():
    made = shop(40)
    context = {"segment": "new", "basket": 1.0}
    for only in (["tea"], {"tea"}, ("tea", "tea"), iter(["tea"]), np.array(["tea"])):
        choice = made.decide(context, only=only)
        assert (choice.id, choice.probability) == ("tea", 1.0)
    made.retire("tea")
    with pytest.raises(ValueError, match="no offer may be shown"):
        made.decide(context, only=["tea"])
    made.add({"sku": "tea", "price": 4.0})
    assert made.decide(context, only=["tea"]).id == "tea"


def test_ten_thousand_offers_are_read_and_decided_among():
    made = ht.Decider([{"sku": i, "brand": f"b{i}", "price": i % 7} for i in range(10_000)],
                      ids="sku", context=["segment"])  # fmt: skip
    for i in range(130):
        made.observe({"segment": "ab"[i % 2]}, i % 50, float(i % 3))
    assert made.encoder is not None
    assert made.encoder.dim <= 1024
    assert made.decide({"segment": "a"}).probability > 0
    assert snap(made.clone()) == snap(made)


def test_offers_may_be_a_list_of_ids() -> None:
    plain = ht.Decider(["card", 2], context=["segment"], seed=3)
    rows = ht.Decider([{"offer": "card"}, {"offer": 2}], ids="offer", context=["segment"], seed=3)
    for decider in (plain, rows):
        decider.add(["gift"])
    assert list(plain.offers) == list(rows.offers) == ["card", "2", "gift"]
    for segment in ("new", "old") * 30:
        choices = [decider.decide({"segment": segment}) for decider in (plain, rows)]
        assert choices[0].id == choices[1].id
        for decider, choice in zip((plain, rows), choices, strict=True):
            decider.reward(choice.token, 1.0 + (choice.id == "card"))


def test_a_list_that_mixes_ids_and_rows_is_refused() -> None:
    with pytest.raises(TypeError, match=r"row 0: must be a dict of values by column; got 'a'"):
        ht.Decider(["a", {"price": 1.0}])
    with pytest.raises(ValueError, match=r"offers have the columns \['price'\]; got \[\]"):
        ht.Decider([{"sku": "a", "price": 1.0}], ids="sku").add(["b"])
