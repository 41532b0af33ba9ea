"""One equation of a jaxpr while it is imported."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from einmap.errors import Note
from einmap.frontends.cascade.parts import Parts
from einmap.frontends.cascade.program import in_numpy
from einmap.frontends.cascade.step import Step
from einmap.frontends.cascade.values import Value, known


@dataclass(frozen=True, slots=True)
class Equation(Step):
    """A primitive with its operands and parameters. `kind`: of the numbers of its result; `shape`: of the result.

    `notes`: what the user should know of all equations; `parts`: what tensors are joined of, by name.
    """

    primitive: str
    operands: tuple[Value, ...]
    params: Mapping[str, Any]
    shape: tuple[int, ...]
    kind: np.dtype[Any]
    notes: dict[str, Note]
    parts: dict[str, Parts]

    def say(self, text: str) -> None:
        """Tell the user once."""
        self.notes.setdefault(text, Note(f"{self.primitive} of JAX: {text}"))

    @property
    def bits(self) -> int:
        """Bits of a number of the result."""
        return bits_of(self.kind)


def constant(value: Any) -> Value:
    """Numbers that a function holds; keys of random numbers as JAX has them."""
    if is_key(value.dtype):
        return Value(tuple(value.shape), bits_of(value.dtype), array=value)
    array = np.asarray(value)
    return known(in_numpy(array), bits_of(array.dtype))


def is_key(kind: Any) -> bool:
    """Whether a type is that of keys of random numbers."""
    return not isinstance(kind, np.dtype) and str(kind).startswith("key<")


def bits_of(kind: Any) -> int:
    """Bits of a number of a type of JAX: `int4` has 4, though NumPy stores it in a byte."""
    if is_key(kind):
        return 8 * int(kind.itemsize)
    said = re.match(r"[a-z]+(\d+)", np.dtype(kind).name)
    return int(said.group(1)) if said else 8 * int(np.dtype(kind).itemsize)
