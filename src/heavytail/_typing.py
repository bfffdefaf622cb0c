"""Array types of the kernels, for annotations: a kernel is compiled for the arrays it meets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
State = tuple[NDArray[Any], ...]
