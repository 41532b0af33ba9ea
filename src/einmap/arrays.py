"""Names for arrays by the type of their elements."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]
type Bools = NDArray[np.bool_]
type Amounts = Floats | float
"""Amounts of several things, or one that holds for all of them."""
type Wholes = Ints | int
"""Whole numbers of several things, or one that holds for all of them."""
