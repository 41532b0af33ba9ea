"""A program of PyTorch as plain values: operators of ATen in order, shapes and types of all that they give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from einmap.errors import At
from einmap.frontends.cascade.program import Array

type Size = int | str
"""A dimension; of one that is open an expression of symbols, as `s77 + 1`."""

FLOAT, INT64, BOOL = 1, 7, 9
KINDS = {
    "uint8": 2, "int8": 3, "int16": 5, "int32": 6, "int64": INT64, "float16": 10, "float32": FLOAT, "float64": 11,
    "complex32": 14, "complex64": 14, "complex128": 15, "bool": BOOL, "bfloat16": 16, "uint16": 4,
    "float8_e4m3fn": 17, "float8_e5m2": 19, "float8_e4m3fnuz": 18, "float8_e5m2fnuz": 20, "float8_e8m0fnu": 24,
    "uint32": 12, "uint64": 13,
}  # fmt: skip
"""Types of PyTorch as those of ONNX (`TensorProto.DataType`)."""


@dataclass(frozen=True, slots=True)
class Ref:
    """An argument that is a value of the program: a tensor, or a size that is computed."""

    name: str


@dataclass(frozen=True, slots=True)
class Kind:
    """An argument that is a type of numbers, as ONNX numbers them."""

    number: int


@dataclass(frozen=True, slots=True)
class Facts:
    """Shape of a tensor, and the type of its numbers."""

    shape: tuple[Size, ...]
    kind: int


@dataclass(frozen=True, slots=True)
class Operation:
    """One operator: `target` as `aten.add.Tensor`; arguments by the names of its schema; names of its results, empty
    where nothing reads one.
    """

    target: str
    name: str
    arguments: Mapping[str, Any]
    outputs: tuple[str, ...]
    at: At


@dataclass(frozen=True, slots=True)
class Graph:
    """Operators in order. `sizes`: what each computed size is; `results`: what it gives, in order."""

    inputs: tuple[str, ...]
    operations: tuple[Operation, ...]
    results: tuple[Any, ...]
    facts: Mapping[str, Facts]
    sizes: Mapping[str, Size]


@dataclass(frozen=True, slots=True)
class Given:
    """An input of the graph. `source`: what users call it, for a parameter its place in the module; `array`: its
    numbers, of small constants.
    """

    name: str
    source: str
    is_weight: bool
    array: Array | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """A graph with names for what goes in and out. `outputs`: what users call a result, and the value.

    `ranges`: the smallest and the largest size of a symbol; `aliases`: further names for symbols.
    """

    file: str
    graph: Graph
    inputs: tuple[Given, ...]
    outputs: tuple[tuple[str, Any], ...]
    ranges: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)


def named_outputs(results: list[tuple[str | None, Any]]) -> tuple[tuple[str, Any], ...]:
    """Names of results: `out`, or `out[0]`, ... of several; a state that the program changes is `STATE_new`."""
    many = sum(state is None for state, _ in results) > 1
    found, n = [], 0
    for state, value in results:
        found.append((f"{state}_new" if state else f"out[{n}]" if many else "out", value))
        n += state is None
    return tuple(found)
