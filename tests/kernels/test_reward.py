"""The one formula of a reward whose law depends on the arm."""

from __future__ import annotations

import numpy as np
import pytest

from heavytail.kernels.reward import Coefficients, earned, shape_of

SOME = Coefficients(
    slope=-0.3,
    tilt=0.2,
    across=0.5,
    rate=0.05,
    lift=0.4,
    dear=0.8,
    payment=30.0,
    payment_scale=10.0,
)


@pytest.mark.parametrize(("z", "w"), [(0.0, 0.0), (0.6, -0.7), (-1.0, 1.0)])
def test_a_shape_is_base_size_chance_and_amount(z: float, w: float) -> None:
    amount = 1 + 0.8 * z
    want = (-0.3 * z, 1 + 0.2 * z + 0.5 * w, 0.05 * (1 + 0.4 * z) / amount, amount)
    assert shape_of(z, w, SOME) == pytest.approx(want)


@pytest.mark.parametrize("kind", [tuple, np.array])
def test_a_payment_is_made_below_the_chance_and_not_at_it(kind) -> None:
    shape = kind((0.5, 2.0, 0.25, 3.0))
    assert earned(shape, -1.5, 0.2499, 10.0) == 0.5 - 3.0 + 30.0
    assert earned(shape, -1.5, 0.25, 10.0) == 0.5 - 3.0
