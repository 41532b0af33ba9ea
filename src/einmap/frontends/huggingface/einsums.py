"""The cascade of one part of a model while it is written: tensors by name and rank variables, Einsums as text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

type Role = Literal["parameter", "linear", "expert", "cache", "activation", "index"]
"""Inputs: parameters that stay wide, weights of products, those of experts, rows of the cache, numbers between, and
indices.
"""
WEIGHTS: tuple[Role, ...] = ("parameter", "linear", "expert")
"""Inputs that are trained."""
INDEX_BITS = 32
_WORDS = re.compile(r"\w+")
"""Names in the text of an Einsum."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a model: `tokens` new positions of each of `batch` sequences, after `context` cached ones."""

    batch: int
    tokens: int
    context: int


@dataclass(frozen=True, slots=True)
class Widths:
    """Bits of a value: of weights of linear layers, of other parameters, of activations, of the cache, and of experts
    where they are not those of linear layers.
    """

    weights: int
    others: int
    activations: int
    cache: int
    experts: int | None = None

    def of(self, role: Role) -> int:
        """Bits of a value of an input, or of what an Einsum writes (`activation`, `cache`)."""
        bits = {"parameter": self.others, "linear": self.weights, "cache": self.cache, "index": INDEX_BITS}
        bits["expert"] = self.experts or self.weights
        return bits.get(role, self.activations)


def variable(letter: str, size: int) -> str:
    """A rank variable called by its size, `d4096`: its rank is `D4096`."""
    return f"{letter}{size}"


def letter_of(name: str) -> str:
    """The letter of a rank variable: `d` of `d4096`."""
    return name.rstrip("0123456789")


def extent(name: str) -> int:
    """The size of a rank variable: 4096 of `d4096`."""
    return int(name[len(letter_of(name)) :])


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor with the rank variables that its ranks are called by."""

    name: str
    variables: tuple[str, ...]

    def at(self, **indices: str) -> str:
        """The tensor indexed by its own rank variables, but by others where `indices` says so, by letter:
        `K.at(m="n8")` is `K[b1, M8: n8, h4]`.
        """
        parts = []
        for own in self.variables:
            index = indices.get(letter_of(own), own)
            parts.append(own if index == own else f"{own.upper()}: {index}")
        return f"{self.name}[{', '.join(parts)}]"

    def __str__(self) -> str:
        return self.at()

    @property
    def values(self) -> int:
        """How many values it has."""
        return prod(extent(v) for v in self.variables)


@dataclass(frozen=True, slots=True)
class Written:
    """An Einsum as a specification has it, and its multiply-accumulates, 0 where it does not contract."""

    entry: Mapping[str, Any]
    products: int


@dataclass(slots=True)
class Cascade:
    """Einsums of a part in order, its inputs with their roles; `suffix` ends the names of all tensors of the part."""

    step: Step
    widths: Widths
    suffix: str = ""
    einsums: list[Written] = field(default_factory=list)
    inputs: dict[str, tuple[Tensor, Role]] = field(default_factory=dict)
    active: dict[str, float] = field(default_factory=dict)
    bits: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    appended: list[Tensor] = field(default_factory=list)

    def size(self, letter: str, size: int) -> str:
        """A rank variable of this size."""
        name = variable(letter, size)
        self.sizes[name.upper()] = size
        return name

    def tensor(self, name: str, *variables: str) -> Tensor:
        """A tensor of this part."""
        for v in variables:
            self.sizes[v.upper()] = extent(v)
        return Tensor(name + self.suffix, variables)

    def input(self, name: str, role: Role, *variables: str, share: float = 1.0, shared: bool = False) -> Tensor:
        """An input. `share`: the part of a weight that one token uses; `shared`: other parts have the tensor, too."""
        made = self.tensor(name, *variables)
        made = Tensor(name, variables) if shared else made
        self.inputs[made.name] = made, role
        self.bits[made.name] = self.widths.of(role)
        self.active[made.name] = share
        return made

    def put(
        self,
        name: str,
        variables: Sequence[str],
        expression: str,
        *,
        weight: Tensor | None = None,
        reduction: str = "sum",
        where: Sequence[str] = (),
        out: Mapping[str, str] | None = None,
    ) -> Tensor:
        """An Einsum, and the tensor that it writes. `weight`: the operand that plays the part of a weight, where it
        contracts; `where`: bounds of its rank variables; `out`: indices of the tensor as `Tensor.at` takes them.
        """
        made = self.tensor(name, *variables)
        sets = ("Inputs", "Nothing") if weight is None else (f"Inputs - {weight.name}", weight.name)
        entry: dict[str, Any] = {"einsum": f"{made.at(**(out or {}))} = {expression}"}
        if reduction != "sum":
            entry["reduction"] = reduction
        if where:
            entry["iteration_space_shape"] = [*where]
        entry["renames"] = {"input": sets[0], "weight": sets[1], "output": "Outputs"}
        words = set(_WORDS.findall(entry["einsum"]))
        used = {v for v in (v.lower() for v in self.sizes) if v in words}
        self.einsums.append(Written(entry, prod(map(extent, used)) if weight is not None else 0))
        self.bits[made.name] = self.widths.activations
        return made

    def append(self, name: str, variables: Sequence[str], rows: str) -> None:
        """Copy new rows to the outermost memory, where they are added to the cache."""
        made = self.copied(name, variables, rows)
        self.bits[made.name] = self.widths.cache
        self.appended.append(made)

    def copied(
        self,
        name: str,
        variables: Sequence[str],
        rows: str,
        *,
        where: Sequence[str] = (),
        out: Mapping[str, str] | None = None,
    ) -> Tensor:
        """A copy of a tensor, with its values in places of their own (`where`, `out`: as `put` takes them)."""
        made = self.put(name, variables, rows, where=where, out=out)
        entry = {**self.einsums[-1].entry, "is_copy_operation": True}
        self.einsums[-1] = Written(entry, 0)
        return made

    @property
    def products(self) -> int:
        """Multiply-accumulates of all that contracts."""
        return sum(einsum.products for einsum in self.einsums)
