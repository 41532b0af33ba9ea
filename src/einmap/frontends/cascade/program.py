"""The Einsums and stored tensors that are collected while a program is read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.einsum.operation import MapExpression, Reduction
from einmap.einsum.spaces.projection import Affine
from einmap.expressions.evaluator.functions import BUILT_IN
from einmap.spec.names import RESERVED, is_name

type Array = NDArray[Any]

LONGEST_NAME = 60
ROLES = ("input", "weight", "output")
"""Names of tensors in the renames of each Einsum; no tensor may have one of them."""
_TAKEN = frozenset({*RESERVED, *BUILT_IN, *ROLES, "mod", "Total"})
_WORDS = ("true", "false")
"""Words that expressions of a specification may read as something else."""


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A tensor of the cascade. `sizes`: of its ranks, without padding.

    `source`: for a graph input, the name of the value of the program that it is, or its numbers where the program has
    them; None for a tensor that an Einsum writes. `shape`: that of the value, with axes
    of one index, which have no rank. `weight`: whether it is a parameter of the model.
    `array`: numbers of it that the program knows. `packed`: bits of each value where they come as bytes that
    hold several, the lowest bits first.
    """

    name: str
    sizes: tuple[int, ...]
    bits: int
    source: str | Array | None = None
    shape: tuple[int, ...] = ()
    weight: bool = False
    array: Array | None = None
    packed: int = 0


@dataclass(frozen=True, slots=True)
class Access:
    """A tensor, and an affine index for each of its ranks; an index outside of 0 to size - 1 is in the padding.

    `looked_up`: ranks whose index is a value of another input of the Einsum, by the place of that; `index` is 0 there.
    """

    tensor: Stored
    index: tuple[Affine, ...]
    looked_up: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class CascadeEinsum:
    """One Einsum. The expression calls input i `Operand(str(i))`; `extents` are those of its rank variables.

    `hints`: what rank variables should be called. `weight`: the place of the input that plays the weight in a
    contraction; None where nothing is contracted. `cuts`: indices that must be from 0 to below a size. `instances`: how
    often it is there, with tensors of its own each time.
    """

    output: Access
    inputs: tuple[Access, ...]
    expression: MapExpression
    reduction: Reduction
    extents: dict[str, int]
    hints: dict[str, str]
    weight: int | None = None
    is_copy: bool = False
    cuts: tuple[tuple[Affine, int], ...] = ()
    instances: int = 1

    @property
    def name(self) -> str:
        """The Einsum has the name of what it writes."""
        return self.output.tensor.name


@dataclass(slots=True)
class Program:
    """Einsums collected so far.

    `margins`: zeros stored before and after each rank of a tensor, by its name; `recurrences`: Einsums that run step by
    step together, by name.
    """

    einsums: list[CascadeEinsum] = field(default_factory=list)
    margins: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    recurrences: list[tuple[str, ...]] = field(default_factory=list)

    def free_name(self, wanted: str) -> str:
        """A name for a tensor that nothing else has, as near to `wanted` as names of tensors may be."""
        plain = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_")[-LONGEST_NAME:].strip("_") or "T"
        plain = plain if not plain[0].isdigit() else f"T{plain}"
        name, number = plain, 2
        while name in self.names or name in _TAKEN or name.lower() in _WORDS or not is_name(name):
            name, number = f"{plain}_{number}", number + 1
        self.names.add(name)
        return name

    def copied(self) -> Program:
        """A copy of the state, for going back to it."""
        margins = {name: [*ranks] for name, ranks in self.margins.items()}
        return Program([*self.einsums], margins, {*self.names}, [*self.recurrences])

    def margin(self, tensor: Stored, rank: int) -> tuple[int, int]:
        """Zeros before and after the indices of a rank."""
        return self.margins[tensor.name][rank] if tensor.name in self.margins else (0, 0)

    def pad(self, tensor: Stored, rank: int, low: int, high: int) -> None:
        """Let a rank have at least so many zeros before and after it."""
        margins = self.margins.setdefault(tensor.name, [(0, 0)] * len(tensor.sizes))
        before, after = margins[rank]
        margins[rank] = max(before, low), max(after, high)

    def rewrite(self, old: Stored, new: Stored) -> None:
        """Let the Einsum that writes a tensor write another one of the same ranks; no Einsum may read the old one."""
        for place, einsum in enumerate(self.einsums):
            if einsum.name == old.name:
                self.einsums[place] = replace(einsum, output=replace(einsum.output, tensor=new))
        if old.name in self.margins:
            self.margins[new.name] = self.margins.pop(old.name)

    def needed(self, kept: set[str]) -> list[CascadeEinsum]:
        """The Einsums without which a tensor of `kept` would not be there, in order."""
        writers = {einsum.name: einsum for einsum in self.einsums}
        wanted: set[str] = set()
        waiting = [name for name in kept if name in writers]
        while waiting:
            name = waiting.pop()
            if name not in wanted:
                wanted.add(name)
                waiting += [access.tensor.name for access in writers[name].inputs if access.tensor.name in writers]
        return [einsum for einsum in self.einsums if einsum.name in wanted]


def in_numpy(values: Array) -> Array:
    """Numbers in a type of NumPy's own: `bfloat16`, `int4` and the like, which others add, in one that holds them."""
    if values.dtype.isbuiltin == 1:
        return values
    return values.astype(np.int8 if "int" in values.dtype.name else np.float32)


def quiet(values: Array) -> Array:
    """Numbers of a file, where what is not a number is one that arithmetic passes on without a warning."""
    if values.dtype.kind != "f" or not np.isnan(values).any():
        return values
    return np.where(np.isnan(values), values.dtype.type(np.nan), values)


def uniform(values: Array) -> float | None:
    """The number that all elements are, None where they differ or it is not finite."""
    if not values.size or values.dtype.kind not in "biuf":
        return None
    # along an axis of a broadcast all are the same: those need not be looked at
    values = values[tuple(slice(1) if stride == 0 else slice(None) for stride in values.strides)]
    first = values.flat[0]
    return float(first) if bool((values == first).all()) and bool(np.isfinite(first)) else None
