"""A nest that is run and compared: the tensors of a nest, what is to come out, the libraries beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from einmap.bench.cascades import contenders, fractions_of, one_by_one
from einmap.bench.compiler import aligned
from einmap.bench.libraries import Contender, libraries
from einmap.bench.values import Array, by_numpy, inputs_of, mapped, operands_of
from einmap.einsum.einsum import Einsum
from einmap.einsum.workload import Workload
from einmap.emit.fast.cascade import Cascade
from einmap.emit.fast.check_cascade import flops_of
from einmap.emit.fast.fused import is_exact
from einmap.emit.fast.narrow import type_of_all, types_of
from einmap.emit.fast.nest import BYTES, Loop, Narrow, Nest
from einmap.errors import SpecError

MOST_BYTES = 2**34
"""Bytes of all tensors together."""


@dataclass(frozen=True, slots=True)
class Job:
    """`arrays`: what `nest` is called with, inputs first, then outputs; `results`: the outputs of what was compared.

    `expected`: makes the values that are to come out of the first output. `exact`: they must be equal, else nearly so.
    """

    einsums: tuple[Einsum, ...]
    loops: tuple[Loop, ...]
    flops: float
    exact: bool
    arrays: tuple[Array, ...]
    result: Array
    others: Callable[[], list[Contender]]
    expected: Callable[[], Array]


def bytes_of(nest: Nest | Cascade) -> int:
    """Bytes of all tensors; of a cascade those of intermediates in double precision, too."""
    size = BYTES[nest.real]
    values = {tensor: prod(shape) for tensor, shape in nest.shapes.items()}
    inner = sum(values[t] for t in nest.kept) if isinstance(nest, Cascade) else 0
    return size * sum(values.values()) + 8 * inner


def check_bytes(needed: float) -> None:
    """Raise SpecError for more bytes than are held."""
    if needed > MOST_BYTES:
        text = f"the tensors take {needed:,.0f} bytes, at most {MOST_BYTES:,} are held"
        raise SpecError(text, hint="make it smaller")


def check_workload(workload: Workload) -> None:
    """Refuse what no mapping of a workload would make fit to be run.

    Raises SpecError for tensors that are too large, NotSupportedError for widths of values that fast code has not.
    """
    if len(workload.einsums) == 1:
        types_of(workload.einsums[0])
    else:
        type_of_all(workload.einsums)
    check_bytes(sum(workload.tensor_bits(tensor) for tensor in workload.tensors) / 8)


def job_of(nest: Nest | Cascade) -> Job:
    """The job of a nest."""
    dtype = np.dtype({"float": np.float32, "double": np.float64, "int": np.int32}[nest.real])
    return _of_cascade(nest, dtype) if isinstance(nest, Cascade) else _of_product(nest, dtype)


def _of_product(nest: Nest, dtype: np.dtype[Any]) -> Job:
    inputs = inputs_of(nest.einsum, nest.shapes, np.dtype(np.int8) if nest.real == "int" else dtype)
    if nest.fused is not None:
        inputs |= operands_of(nest.fused, dtype)
    out = aligned(nest.shapes[nest.written], dtype)
    given = {t: as_stored(a, nest.narrow) if t in nest.inputs else a for t, a in inputs.items()}
    wide = {t: a.astype(np.float32) for t, a in inputs.items()} if nest.narrow else inputs
    return Job(
        (nest.einsum, *(() if nest.fused is None else (nest.fused.einsum,))),
        nest.loops,
        float(len(nest.inputs)) * prod(n for _, n in nest.einsum.bounds),
        nest.fused is None or is_exact(nest.fused.expression),
        (*(given[t] for t in (*nest.inputs, *nest.operands)), out),
        out,
        lambda: beside(nest, wide),
        lambda: expected_of(nest, inputs),
    )


def beside(nest: Nest, inputs: Mapping[str, Array]) -> list[Contender]:
    """Libraries; for narrow inputs in float32, as their names say."""
    found = libraries(nest.einsum, inputs, nest.shapes[nest.written], nest.fused)
    return [replace(other, name=f"{other.name}, float32") for other in found] if nest.narrow else found


def as_stored(values: Array, narrow: Narrow) -> Array:
    """An input as the code reads it: bfloat16 as the upper half of a float32; else as it is."""
    if narrow != "unsigned short":
        return values
    halves = aligned(values.shape, np.dtype(np.uint16))
    halves[...] = values.view(np.uint32) >> 16
    return halves


def expected_of(nest: Nest, inputs: Mapping[str, Array]) -> Array:
    """The values that are to come out; a map, and sums of whole numbers of 8 bits, are computed in double precision."""
    if nest.real == "int":
        return by_numpy(nest.einsum, {t: a.astype(np.float64) for t, a in inputs.items()}).astype(np.int32)
    sums = by_numpy(nest.einsum, inputs)
    if nest.fused is None:
        return sums
    operands = {t: inputs[t].astype(np.float64) for t in nest.operands}
    return mapped(nest.fused, sums.astype(np.float64), operands)


def _of_cascade(cascade: Cascade, dtype: np.dtype[Any]) -> Job:
    inputs = fractions_of(cascade, dtype)
    outputs = [aligned(cascade.shapes[t], dtype) for t in cascade.outputs]
    spread = [loop for loop in cascade.loops.values() if loop.lanes]
    spread += [loop for n in cascade.nests.values() for loop in n.loops if loop.lanes and loop not in spread]

    def expected() -> Array:
        return one_by_one(cascade, {t: a.astype(np.float64) for t, a in inputs.items()})[cascade.outputs[0]]

    return Job(
        cascade.einsums,
        tuple(spread),
        flops_of(cascade),
        False,
        (*(inputs[t] for t in cascade.inputs), *outputs),
        outputs[0],
        lambda: list(contenders(cascade, inputs)),
        expected,
    )
