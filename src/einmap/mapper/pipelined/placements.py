"""Which Computes and how many lanes each stage of a Pipeline has: hardware of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from einmap.arch.component import Leaf, Network, SpatialDimension
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.numbers import divisors

type Stages = Sequence[Sequence[Einsum]]
"""The Einsums of each stage."""


@dataclass(frozen=True)
class Placement:
    """Where the stages of a Pipeline stand. `units`: the Compute of each Einsum.

    `fanout`: component and dimension that they share, None where each stage has Computes of its own; `lanes`: for each
    Einsum the most that its stage may use of it, None where it does not pass it.
    """

    units: tuple[str, ...]
    fanout: tuple[str, str] | None
    lanes: tuple[int | None, ...]


def placements(stages: Stages, archs: Mapping[str, Architecture]) -> Iterator[Placement]:
    """All placements, of those that differ in lanes alone the ones that leave none to anybody.

    None with which stages cross a network on the way to what is their own: a network belongs to one stage.
    """
    einsums = [einsum for stage in stages for einsum in stage]
    stage_of = [number for number, stage in enumerate(stages) for _ in stage]
    choices = [[unit for unit in archs[einsum.name].computes if unit.enabled] for einsum in einsums]
    for units in product(*choices):
        names = tuple(unit.name for unit in units)
        paths = [archs[einsum.name].path(name) for einsum, name in zip(einsums, names, strict=True)]
        users: dict[str, set[int]] = {}
        for name, number in zip(names, stage_of, strict=True):
            users.setdefault(name, set()).add(number)
        if all(len(numbers) == 1 for numbers in users.values()):
            if not _cross_networks(paths, stage_of, None):
                yield Placement(names, None, (None,) * len(names))
            continue
        for component, dimension in _fanouts(paths):
            passing = [component in {leaf.name for leaf in path} for path in paths]
            if any(len(users[unit]) > 1 and not passes for unit, passes in zip(names, passing, strict=True)):
                continue
            if _cross_networks(paths, stage_of, component):
                continue
            counts: dict[int, set[int]] = {}
            for einsum, number, passes in zip(einsums, stage_of, passing, strict=True):
                if passes:
                    counts.setdefault(number, set()).update(lane_counts(einsum, dimension.fanout))
            for lanes in splits([sorted(of_stage) for of_stage in counts.values()], dimension.fanout):
                of_stage = dict(zip(counts, lanes, strict=True))
                of_einsum = (of_stage[n] if passes else None for n, passes in zip(stage_of, passing, strict=True))
                yield Placement(names, (component, dimension.name), tuple(of_einsum))


def _cross_networks(paths: Sequence[Sequence[Leaf]], stage_of: Sequence[int], component: str | None) -> bool:
    """Whether stages cross a network on the way to what is their own; `component`: whose fanout they share.

    `stage_of`: the stage of the Einsum of each path. A network below the component has an instance for each lane of it.
    """
    users: dict[str, set[int]] = {}
    for path, number in zip(paths, stage_of, strict=True):
        names = [leaf.name for leaf in path]
        for at, leaf in enumerate(path):
            if isinstance(leaf, Network) and component not in names[:at]:
                users.setdefault(leaf.name, set()).add(number)
    return any(component is not None or len(numbers) > 1 for numbers in users.values())


def _fanouts(paths: Sequence[Sequence[Leaf]]) -> Iterator[tuple[str, SpatialDimension]]:
    """Dimensions of more than one copy that a stage passes; what has to be used by a part at least is not shared."""
    seen: set[tuple[str, str]] = set()
    for path in paths:
        for leaf in path:
            for dimension in leaf.spatial:
                if (leaf.name, dimension.name) not in seen and dimension.fanout > 1 and shareable(dimension):
                    yield leaf.name, dimension
                seen.add((leaf.name, dimension.name))


def shareable(dimension: SpatialDimension) -> bool:
    """Whether stages may take parts of a dimension: nothing is said of how much of the whole is used."""
    return not dimension.min_usage and not dimension.vector and not dimension.loop_bounds


def lane_counts(einsum: Einsum, fanout: int) -> list[int]:
    """How many lanes an Einsum can use: products of divisors of its bounds, in order."""
    counts = {1}
    for _, bound in einsum.bounds:
        counts |= {n * d for n in counts for d in divisors(bound) if n * d <= fanout}
    return sorted(counts)


def splits(counts: Sequence[Sequence[int]], fanout: int) -> list[tuple[int, ...]]:
    """How many lanes each stage may have at most, so that nobody can have more."""
    found = [lanes for lanes in product(*counts) if sum(lanes) <= fanout]
    return [
        lanes
        for lanes in found
        if not any(other != lanes and all(a <= b for a, b in zip(lanes, other, strict=True)) for other in found)
    ]


def restricted(arch: Architecture, unit: str, fanout: tuple[str, str] | None, lanes: int | None) -> Architecture:
    """The architecture as one stage has it: one Compute, its part of the fanout, and nothing that leaks."""
    arch = arch.only(unit)
    if fanout is not None and lanes is not None:
        leaf = arch.find(fanout[0])
        dimensions = tuple(replace(d, fanout=lanes) if d.name == fanout[1] else d for d in leaf.spatial)
        arch = arch.with_leaf(replace(leaf, spatial=dimensions))
    for component in tuple(arch.components.values()):
        if component.powers:
            arch = arch.with_leaf(replace(component, powers=()))
    return arch
