"""Placements of arguments: JAX's `PartitionSpec`s as the section `distribution` of a specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from einmap.errors import SpecError, did_you_mean
from einmap.frontends.cascade.imported import Imported
from einmap.frontends.cascade.program import Stored


def distributed(imported: Imported, names: Sequence[str], leaves: Sequence[Any], mesh: Mapping[str, int]) -> Imported:
    """The import with a distribution: `leaves` are `PartitionSpec`s or None, in the order of `names`.

    Raises SpecError for axes that the mesh does not have, and for what einmap splits otherwise.
    """
    specs = dict(zip(names, leaves, strict=True))
    placements: dict[str, Any] = {}
    for tensor in imported.inputs.values():
        spec = specs.get(tensor.source) if isinstance(tensor.source, str) else None
        axes = [_named(entry) for entry in (() if spec is None else tuple(spec))]
        placement = _placed(imported, tensor, axes, mesh)
        if placement:
            placements[tensor.name] = placement
    sections = imported.spec.to_dict()
    distribution = {"mesh": dict(mesh), "placements": placements}
    spec = type(imported.spec).from_dict({**sections, "distribution": distribution})
    return replace(imported, spec=spec)


def specs_by_leaf(jax: Any, placements: Any, example_args: tuple[Any, ...]) -> list[Any]:
    """A `PartitionSpec` or None for each leaf of the arguments; one for a whole argument holds for all its leaves."""
    given = (placements,) if isinstance(placements, jax.sharding.PartitionSpec) else tuple(placements)
    if len(given) != len(example_args):
        raise SpecError(f"placements of {len(given)} arguments are given, the function has {len(example_args)}")

    def is_spec(value: Any) -> bool:
        return value is None or isinstance(value, jax.sharding.PartitionSpec)

    leaves: list[Any] = []
    for spec, argument in zip(given, example_args, strict=True):
        n_leaves = len(jax.tree_util.tree_leaves(argument))
        found = [spec] * n_leaves if is_spec(spec) else jax.tree_util.tree_leaves(spec, is_leaf=is_spec)
        if len(found) != n_leaves or not all(map(is_spec, found)):
            raise SpecError("placements of an argument are PartitionSpecs in the nest of the argument")
        leaves += found
    return leaves


def sizes_of(mesh: Any) -> dict[str, int]:
    """Axes and their sizes, of a mesh of JAX or of a dictionary."""
    return {str(name): int(size) for name, size in dict(getattr(mesh, "shape", mesh)).items()}


def _named(entry: Any) -> list[str]:
    return [] if entry is None else [entry] if isinstance(entry, str) else [str(name) for name in entry]


def _placed(
    imported: Imported, tensor: Stored, axes: Sequence[list[str]], mesh: Mapping[str, int]
) -> dict[str, list[str]]:
    """The ranks of a tensor that are split, with the axes of the mesh; of an axis of several ranks it is the first."""
    access = next(a for e in imported.spec.workload.einsums for a in e.accesses if a.tensor == tensor.name)
    ranks = [rank for rank, _ in access.projection]
    split: dict[str, list[str]] = {}
    place = 0
    if len(axes) > len(tensor.shape):
        raise SpecError(f"{tensor.source!r} has {len(tensor.shape)} axes, its PartitionSpec has {len(axes)}")
    for axis, size in enumerate(tensor.shape):
        first = place
        while prod(tensor.sizes[first:place]) < size:
            place += 1
        over = axes[axis] if axis < len(axes) else []
        for name in over:
            if name not in mesh:
                raise SpecError(f"the mesh has no axis {name!r}", hint=did_you_mean(name, mesh, listing="axes"))
        if not over:
            continue
        parts = prod(mesh[name] for name in over)
        if place == first or tensor.sizes[first] % parts or any(map(any, imported.margins.get(tensor.name, ()))):
            raise SpecError(
                f"axis {axis} of {tensor.source!r}, of {size}, cannot be split in {parts}: it is stored as "
                f"{' x '.join(map(str, tensor.sizes[first:place])) or 'no rank'}, or with padding"
            )
        split[ranks[first]] = over
    return split
