"""The same kernels with the compiler switched off: the reference all engines are held to."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import heavytail as ht
from heavytail.policies import ALL

SCRIPT = """
import json, sys, numpy as np, heavytail as ht
from heavytail.kernels.jit import compiled
names, rounds = json.loads(sys.argv[1]), int(sys.argv[2])
noise = ht.noise.StudentT(2.1)
world = ht.LinearBandit(3, 8, noise)
tail = noise.tail(2.0)
policies = {n: ht.make_policy(n, dim=3, horizon=2000, tail=tail, arms=8) for n in names}
results = ht.simulate(policies, world, rounds=rounds, trials=1, seed=4, jobs=1)
print(json.dumps({"compiled": compiled(), **{n: results[n].regret[0].tolist() for n in names}}))
"""


def run(names, rounds, off):
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1" if off else "0"}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, json.dumps(names), str(rounds)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.compiled
def test_compiled_and_plain_python_choose_the_same_arms():
    names = [kind.name for kind in ALL if kind.info.rewards == "any"]
    plain, fast = run(names, 60, off=True), run(names, 60, off=False)
    assert plain.pop("compiled") is False
    assert fast.pop("compiled") is True
    for name in names:
        assert np.allclose(plain[name], fast[name], atol=1e-9), name


def test_a_kernel_is_an_ordinary_function_underneath():
    from heavytail.kernels.huber import score

    assert getattr(score, "py_func", score)(5.0, 2.0) == 2.0
    assert ht.MomentBound(2.0, 3.0).power == 9.0
