"""Array types of the kernels, for annotations: a kernel is compiled for the arrays it meets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Matrices = np.ndarray[tuple[int, int, int], np.dtype[np.float64]]  # of matrices
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
State = tuple[NDArray[Any], ...]
