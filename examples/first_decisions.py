"""Ten lines: decide, learn, save, resume."""

import numpy as np

import heavytail as ht

rng = np.random.default_rng(0)
arms = rng.uniform(-0.7, 0.7, (20, 2))
truth = np.array([0.6, -0.8])
policy = ht.TwinUCB(2)  # nothing to tune, in any unit
for _ in range(2000):
    arm = policy.select(arms)
    policy.update(arms[arm], reward=float(arms[arm] @ truth + rng.standard_t(1.7)))
policy.save("policy.npz")
policy = ht.load("policy.npz")
values = arms @ truth
print(f"the best arm pays {values.max():.3f}, the chosen one {values[policy.select(arms)]:.3f}")
