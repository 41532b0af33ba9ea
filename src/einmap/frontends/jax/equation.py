"""One equation of a jaxpr while it is imported."""

from __future__ import annotations

import re
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
    """Bits of a number of a type of JAX: `int4` has 4, though NumPy stores it in a byte."""
    said = re.match(r"[a-z]+(\d+)", np.dtype(kind).name)
    return int(said.group(1)) if said else 8 * int(np.dtype(kind).itemsize)
