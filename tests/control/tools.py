"""What the tests of control share: systems, a safe gain, a loop."""

from __future__ import annotations

import numpy as np

import heavytail as ht
from heavytail import control

SYSTEMS = (control.laplacian, control.double_integrator, control.boeing_747)
IDENTIFIERS = (control.SystemIdentifier, control.RidgeIdentifier, control.BatchHuberIdentifier)
CONTROLLERS = (control.CertaintyEquivalence, control.OFULQ, control.ThompsonLQ)
T15, T21, NORMAL = ht.noise.StudentT(1.5), ht.noise.StudentT(2.1), ht.noise.Gaussian()


def cautious(system):
    """A gain that stabilises, other than the optimal one."""
    return system.gain_for(np.eye(system.n), 10.0 * np.eye(system.d))


def controller(kind, system, identifier=control.SystemIdentifier, **options):
    return kind(
        identifier(system.n, system.d),
        Q=system.Q,
        R=system.R,
        fallback=cautious(system),
        **options,
    )


def drive(system, steps, seed=0):
    """(x, u, x_next) of a loop under the cautious gain with unit excitation."""
    rng = np.random.default_rng(seed)
    K, x = cautious(system), np.zeros(system.n)
    for w in system.sample(rng, steps):
        u = K @ x + rng.standard_normal(system.d)
        y = system.A @ x + system.B @ u + w
        yield x, u, y
        x = y
