"""Whole numbers as inputs, whose sums are exact in any order, and the values that are to come out."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.bench.compiler import aligned
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.spaces.projection import Affine

type Array = NDArray[Any]
EXACT = {4: 2**24, 8: 2**53}
"""The least whole number behind which not all are values, by bytes of a value."""


def inputs_of(einsum: Einsum, shapes: Mapping[str, tuple[int, ...]], dtype: np.dtype[Any]) -> dict[str, Array]:
    """Inputs of whole numbers from -span to span, deterministic: 3 where all sums are exact then, else 1.

    Every sum is below 3^inputs x its terms. With a span of 1 sums of random signs stay far below what is exact.
    """
    inputs = [a.tensor for a in einsum.accesses if not a.output]
    (output,) = (a for a in einsum.accesses if a.output)
    terms = prod(n for v, n in einsum.bounds if v not in output.variables)
    span = 3 if 3 ** len(inputs) * terms < EXACT[dtype.itemsize] else 1
    rng = np.random.default_rng(0)
    made = {}
    for tensor in inputs:
        made[tensor] = aligned(shapes[tensor], dtype)
        made[tensor][...] = rng.integers(-span, span + 1, shapes[tensor], np.int8)
    return made


def view(access: TensorAccess, values: Array, extents: Mapping[str, int]) -> tuple[Array, list[str]]:
    """A view of a tensor with one axis for each rank variable of its indices, and these.

    `I[2*p + r]` of 7 values is a view of 3 x 3 (p, r), in which values appear several times.
    """
    variables: dict[str, int] = {}
    for stride, (_, index) in zip(values.strides, access.projection, strict=True):
        for variable, factor in index.terms:
            variables[variable] = variables.get(variable, 0) + factor * stride
    shape = [extents[v] for v in variables]
    seen = np.lib.stride_tricks.as_strided(values, shape, list(variables.values()), writeable=False)
    return seen, list(variables)


def by_numpy(einsum: Einsum, inputs: Mapping[str, Array], out: Array | None = None) -> Array:
    """The Einsum by `numpy.einsum`, which leaves what it can to BLAS; sums in indices are views (`im2col`)."""
    extents, letters = dict(einsum.bounds), {v: n for n, (v, _) in enumerate(einsum.bounds)}
    operands: list[Any] = []
    for access in einsum.accesses:
        if not access.output:
            seen, variables = view(access, inputs[access.tensor], extents)
            operands += [seen, [letters[v] for v in variables]]
    (output,) = (a for a in einsum.accesses if a.output)
    result: Array = np.einsum(*operands, [letters[v] for v in _simple(output)], optimize=True, out=out)
    return result


def _simple(access: TensorAccess) -> list[str]:
    """The rank variable of each rank."""
    return [_one(index) for _, index in access.projection]


def _one(index: Affine) -> str:
    ((variable, _),) = index.terms
    return variable
