"""An Einsum by libraries that are installed, each as a function that computes into an array of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from einmap.bench.compiler import aligned
from einmap.bench.values import Array, by_numpy, mapped, view
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.emit.fast.fused import FusedMap
from einmap.optional import require


@dataclass(frozen=True, slots=True)
class Contender:
    """A library: `run` computes the Einsum, `result` gives the values that it computed last."""

    name: str
    run: Callable[[], object]
    result: Callable[[], Array]


def libraries(
    einsum: Einsum, inputs: Mapping[str, Array], shape: tuple[int, ...], fused: FusedMap | None = None
) -> list[Contender]:
    """NumPy, and PyTorch where it is installed. `shape`: of the output. With a map of the values NumPy alone."""
    if fused is not None:
        return [_unfused(fused, inputs, _numpy(einsum, inputs, shape))]
    return [_numpy(einsum, inputs, shape), *(_torch(einsum, inputs) if find_spec("torch") is not None else [])]


@contextmanager
def of_threads(count: int) -> Iterator[None]:
    """Libraries use so many threads meanwhile. Raises SpecError without threadpoolctl."""
    limits = require("threadpoolctl", "cpu").threadpool_limits
    with limits(count):
        if find_spec("torch") is not None:
            import_module("torch").set_num_threads(count)
        yield


def _numpy(einsum: Einsum, inputs: Mapping[str, Array], shape: tuple[int, ...]) -> Contender:
    """`numpy.matmul`, which is BLAS, for a plain matrix product; else `numpy.einsum`, which brings most to BLAS."""
    dtype = next(iter(inputs.values())).dtype
    out = aligned(shape, dtype)
    if (product := _matrices(einsum)) is not None:
        left, right = (inputs[t] for t in product)
        return Contender("NumPy's BLAS", lambda: np.matmul(left, right, out=out), lambda: out)
    return Contender("numpy.einsum", lambda: by_numpy(einsum, inputs, out), lambda: out)


def _unfused(fused: FusedMap, inputs: Mapping[str, Array], product: Contender) -> Contender:
    """A product, and then the map of its values, in the memory of the sums where NumPy can."""
    operands = {t: inputs[t] for t in fused.operands}
    kept: list[Array] = []

    def run() -> None:
        product.run()
        kept[:] = [mapped(fused, product.result(), operands, in_place=True)]

    return Contender(f"{product.name}, then the map", run, lambda: kept[0])


def _matrices(einsum: Einsum) -> tuple[str, str] | None:
    """A and B where the Einsum is Z[m, n] = A[m, k] * B[k, n], under any names; else None."""
    (output,) = (a for a in einsum.accesses if a.output)
    inputs = [a for a in einsum.accesses if not a.output]
    if len(inputs) != 2 or not all(_is_plain(a) and len(a.projection) == 2 for a in einsum.accesses):
        return None
    at = {a.tensor: tuple(index.terms[0][0] for _, index in a.projection) for a in einsum.accesses}
    m, n = at[output.tensor]
    for left, right in (inputs, inputs[::-1]):
        if at[left.tensor][0] == m and at[right.tensor][1] == n and at[left.tensor][1] == at[right.tensor][0]:
            return left.tensor, right.tensor
    return None


def _is_plain(access: TensorAccess) -> bool:
    return all(len(index.terms) == 1 and index.terms[0][1] == 1 for _, index in access.projection)


def _torch(einsum: Einsum, inputs: Mapping[str, Array]) -> list[Contender]:
    """PyTorch: `matmul` for a plain matrix product, else `einsum` on views."""
    torch: Any = import_module("torch")
    tensors = {name: torch.from_numpy(values) for name, values in inputs.items()}
    kept: list[Any] = []

    def contender(name: str, compute: Callable[[], Any]) -> Contender:
        def run() -> None:
            with torch.no_grad():
                kept[:] = [compute()]

        return Contender(name, run, lambda: np.asarray(kept[0].contiguous()))

    if (product := _matrices(einsum)) is not None:
        left, right = (tensors[t] for t in product)
        return [contender("PyTorch matmul", lambda: torch.matmul(left, right))]
    extents, letters = dict(einsum.bounds), {v: n for n, (v, _) in enumerate(einsum.bounds)}
    operands: list[Any] = []
    for access in einsum.accesses:
        values = inputs.get(access.tensor)
        if values is not None:
            seen, variables = view(access, values, extents)
            strides = [step // values.itemsize for step in seen.strides]
            operands += [torch.as_strided(tensors[access.tensor], seen.shape, strides), [letters[v] for v in variables]]
    (output,) = (a for a in einsum.accesses if a.output)
    order = [letters[index.terms[0][0]] for _, index in output.projection]
    return [contender("PyTorch einsum", lambda: torch.einsum(*operands, order))]
