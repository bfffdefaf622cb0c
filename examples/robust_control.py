"""Steer an aircraft whose gusts have outliers, learning its dynamics on the way."""

import numpy as np

import heavytail as ht

plane = ht.control.boeing_747(ht.noise.StudentT(2.1))
fallback = plane.gain_for(np.eye(4), 10.0 * np.eye(2))  # safe, but not the best
gusts = plane.sample(np.random.default_rng(0), 3000)

for identifier in (ht.control.RidgeIdentifier(4, 2), ht.control.SystemIdentifier(4, 2)):
    controller = ht.control.CertaintyEquivalence(
        identifier, Q=plane.Q, R=plane.R, fallback=fallback
    )
    x, cost = np.zeros(4), 0.0
    for w in gusts:
        u = controller.act(x)
        cost += x @ plane.Q @ x + u @ plane.R @ u
        x_next = plane.A @ x + plane.B @ u + w
        controller.update(x, u, x_next)
        x = x_next
    error = controller.identifier.error(plane.theta)
    print(
        f"{identifier.name:15} error {error:.3f}, cost a step {cost / len(gusts):7.1f}, "
        f"divergences caught {controller.fallbacks}"
    )
