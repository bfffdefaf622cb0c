"""From dicts and frames to bounded feature vectors. Nothing but NumPy and numba is needed."""

from __future__ import annotations

from heavytail.encoding.arms import Arms
from heavytail.encoding.catalogue import Catalogue
from heavytail.encoding.curves import Spline
from heavytail.encoding.encoder import Encoder
from heavytail.encoding.fit import Misfit, lack_of_fit
from heavytail.encoding.maps import Fourier, Leaves, Transformed

__all__ = [
    "Arms",
    "Catalogue",
    "Encoder",
    "Fourier",
    "Leaves",
    "Misfit",
    "Spline",
    "Transformed",
    "lack_of_fit",
]
