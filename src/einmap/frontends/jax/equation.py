"""One equation of a jaxpr while it is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from einmap.frontends.cascade.step import Step
from einmap.frontends.cascade.values import Value


@dataclass(frozen=True, slots=True)
class Equation(Step):
    """A primitive with its operands and parameters. `kind`: of the numbers of its result; `shape`: of the result."""

    primitive: str
    operands: tuple[Value, ...]
    params: Mapping[str, Any]
    shape: tuple[int, ...]
    kind: np.dtype[Any]

    @property
    def bits(self) -> int:
        """Bits of a number of the result."""
        return bits_of(self.kind)


def bits_of(kind: Any) -> int:
    """Bits of a number of a type of JAX."""
    return 8 * int(np.dtype(kind).itemsize)
