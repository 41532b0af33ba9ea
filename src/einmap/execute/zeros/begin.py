"""Masks before a run, and features beside which zeros are not known."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from einmap.arch.component import Memory, is_carrying
from einmap.arrays import Bools
from einmap.errors import NotSupportedError
from einmap.execute.zeros.zeros import Zeros
from einmap.schedule.routes import Route
from einmap.sparse.densities import Density
from einmap.sparse.known import Known
from einmap.sparse.masks import check_size
from einmap.sparse.propagated import written_mask
from einmap.spec.spec import Spec


def zeros_of(
    spec: Spec, routes: Mapping[str, Route], data: Mapping[str, NDArray[np.float64]], seed: int
) -> Zeros | None:
    """Counter of zeros for a run; None where all tensors are dense.

    A mask is what the density knows, or else where `data` is not 0, or else drawn from the density with `seed` and the
    tensor's name; where a density is not given but follows from those of inputs, their masks say where values are.
    Raises NotSupportedError for features beside which zeros are not known.
    """
    if not spec.sparsity:
        return None
    for route in routes.values():
        _refuse(spec, route)
    if any(sparsity.shares_metadata and sparsity.formats for sparsity in spec.sparsity.values()):
        raise NotSupportedError(
            "metadata: share counts parts of the metadata of a tile, which no transfer moves",
            hint="simulate with metadata: own",
        )
    if any(sparsity.fills != "live" and sparsity.saves for sparsity in spec.sparsity.values()):
        raise NotSupportedError(
            "fills: lanes and fills: all count fills that bring no values", hint="simulate with fills: live"
        )
    densities: dict[str, Density] = {}
    order: dict[str, tuple[str, ...]] = {}
    for sparsity in spec.sparsity.values():
        densities |= sparsity.densities
        order |= sparsity.ranks
    written = {t for s in spec.sparsity.values() for t in s.propagated if not isinstance(densities[t], Known)}
    ranks = next(iter(routes.values())).ranks
    masks: dict[str, Bools] = {}
    for tensor, density in densities.items():
        if tensor in written:
            continue
        if tensor in data and not isinstance(density, Known):
            masks[tensor] = data[tensor] != 0
            continue
        check_size(density.shape)
        mask = density.draw(np.random.default_rng([seed, zlib.crc32(tensor.encode())]))
        masks[tensor] = mask.transpose([order[tensor].index(rank) for rank in ranks[tensor]])
    _write(spec, written, masks, ranks)
    return Zeros(spec.sparsity, masks)


def _write(spec: Spec, written: Collection[str], masks: dict[str, Bools], ranks: Mapping[str, tuple[str, ...]]) -> None:
    """Add the masks of tensors whose zeros follow from those of others: where one of their products has none."""
    sizes = spec.bindings.rank_sizes
    ordered = {tensor: {rank: sizes[tensor][rank] for rank in own} for tensor, own in ranks.items()}
    for einsum in spec.workload.einsums:
        for tensor in einsum.outputs & frozenset(written):
            masks[tensor] = written_mask(einsum, masks, ordered)


def _refuse(spec: Spec, route: Route) -> None:
    why = ""
    for leaf in route.arch.path(route.unit.name):
        if is_carrying(leaf):
            why = f"the network {leaf.name!r}"
        elif isinstance(leaf, Memory) and (leaf.is_spread or leaf.layout):
            why = f"units or lines of {leaf.name!r}"
    if route.einsum.is_copy or route.einsum.cuts:
        why = f"{route.einsum.name!r}, a copy or not a box of points,"
    if any(a.gathered or a.partial_bits is not None for a in route.einsum.accesses):
        why = f"{route.einsum.name!r}, which gathers or has wider partial sums,"
    if spec.model_options.sliding_window or spec.workload.recurrences:
        why = "sliding windows or a recurrence"
    if why:
        raise NotSupportedError(f"{why} beside sparsity is not supported yet", hint="leave out one of them")
