"""Constraints of the architecture that a hand-written mapping may violate: notes, or errors on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from einmap.arch.component import Container, Memory, SpatialDimension, Toll
from einmap.arch.constraint import Names, Placement
from einmap.einsum.spaces.projection import Relevance
from einmap.einsum.workload import Workload
from einmap.errors import At, MappingError, Note
from einmap.mapping.nodes import Address
from einmap.model.checks.reachable_usage import reachable_usage
from einmap.model.counting.path import EinsumPath, Loop, Station, loops_above
from einmap.model.counting.spatial import lanes_used, spatial_usage

type Where = Callable[[Address], At]


def held_by(path: EinsumPath) -> dict[str, Names]:
    """Tensors that each memory and toll of the path holds."""
    held: dict[str, set[str]] = {leaf.name: set() for leaf in path.leaves if isinstance(leaf, Memory | Toll)}
    for tensor, stations in path.stations.items():
        for station in stations:
            held[station.component.name].add(tensor)
    return {name: frozenset(tensors) for name, tensors in held.items()}


def constraint_notes(path: EinsumPath, workload: Workload, where: Where) -> list[Note]:
    """Constraints that this Einsum's path violates, one note each.

    Raises MappingError when a graph input would appear from nowhere.
    """
    checks = _Checks(path, workload, where)
    checks.inputs_come_from_outside()
    return [Note(f"Einsum {path.einsum.name!r}: {text}", where(address)) for text, address in checks.violations()]


class _Checks:
    def __init__(self, path: EinsumPath, workload: Workload, where: Where) -> None:
        self.path = path
        self.workload = workload
        self.where = where
        self.held = held_by(path)

    def placements(self) -> Iterator[tuple[Memory | Toll, Placement, dict[str, Names]]]:
        above: dict[str, Names] = {}
        for leaf in self.path.leaves:
            if isinstance(leaf, Memory | Toll):
                assert leaf.placement is not None
                yield leaf, leaf.placement, dict(above)
                above[leaf.name] = self.held[leaf.name]

    def inputs_come_from_outside(self) -> None:
        source = self.outermost_that_may_keep
        for access in self.path.einsum.accesses:
            backing = self.path.stations[access.tensor][0]
            graph_input = not access.output and access.tensor not in self.workload.producers
            outer = source.get(access.tensor)
            if graph_input and outer is not None and backing.component.name != outer:
                raise MappingError(
                    f"Einsum {self.path.einsum.name!r}: the input {access.tensor!r} is first held in "
                    f"{backing.component.name!r}, so it would appear from nowhere",
                    at=self.where(backing.address),
                    hint=f"hold it in {outer} first",
                )

    @cached_property
    def outermost_that_may_keep(self) -> dict[str, str]:
        """For each tensor the outermost memory of the path that may keep it."""
        outermost: dict[str, str] = {}
        for leaf, placement, above in self.placements():
            if isinstance(leaf, Memory) and leaf.enabled:
                must, may = placement.choices(above)
                for tensor in sorted(must | may):
                    outermost.setdefault(tensor, leaf.name)
        return outermost

    def violations(self) -> Iterator[tuple[str, Address]]:
        yield from self.outputs_leave()
        yield from self.kept_tensors()
        yield from self.tile_shapes()
        yield from self.refetches()
        yield from self.orders()
        yield from self.fanouts()
        unit = self.path.compute.component
        for leaf in (*self.path.leaves,):
            used = leaf is unit or bool(self.held.get(leaf.name))
            if not isinstance(leaf, Container) and not leaf.enabled and used:
                yield f"{leaf.name} is not enabled for this Einsum", self.path.compute.address

    def outputs_leave(self) -> Iterator[tuple[str, Address]]:
        outermost = self.outermost_that_may_keep
        for access in self.path.einsum.accesses:
            backing = self.path.stations[access.tensor][0]
            final = access.output and access.tensor not in self.workload.intermediates
            outer = outermost.get(access.tensor)
            if final and outer is not None and backing.component.name != outer:
                yield (
                    f"the result {access.tensor!r} stays in {backing.component.name}, it never reaches {outer}",
                    backing.address,
                )

    def first(self, component: str, tensor: str) -> Station:
        return next(s for s in self.path.stations[tensor] if s.component.name == component)

    def kept_tensors(self) -> Iterator[tuple[str, Address]]:
        tensors = self.path.einsum.tensors
        memories = {leaf.name for leaf in self.path.leaves if isinstance(leaf, Memory)}
        for leaf, placement, above in self.placements():
            must, may = placement.choices(above)
            if not leaf.enabled:
                # it keeps nothing; that it does is said by itself
                continue
            if isinstance(leaf, Toll):
                # nothing passes that no memory above holds
                must &= frozenset().union(*(held for name, held in above.items() if name in memories))
            # those of a copy are kept where they are backed, and nowhere below
            elsewhere = frozenset().union(*above.values()) if self.path.einsum.is_copy else frozenset()
            for tensor in sorted((must & tensors) - self.held[leaf.name] - elsewhere):
                yield f"{leaf.name} must keep {tensor!r}", self.path.compute.address
            for tensor in sorted(self.held[leaf.name] - must - may):
                yield f"{leaf.name} may not keep {tensor!r}", self.first(leaf.name, tensor).address
            for tensor in sorted(placement.back.given(above) & self.held[leaf.name]):
                if self.path.stations[tensor][0].component.name != leaf.name:
                    yield (
                        f"{leaf.name} must be the outermost holder of {tensor!r}",
                        self.first(leaf.name, tensor).address,
                    )

    def tile_shapes(self) -> Iterator[tuple[str, Address]]:
        for leaf, placement, _ in self.placements():
            stations = [self.first(leaf.name, t) for t in sorted(self.held[leaf.name])]
            if not placement.tile_shape or not stations:
                continue
            top = min(stations, key=lambda s: s.position)
            extents = dict(self.path.einsum.extents)
            for loop in loops_above(self.path, top):
                extents[loop.variable] = loop.shape
            for limit in placement.tile_shape:
                if not limit.holds(extents):
                    shown = ", ".join(f"{v} {extents[v]}" for v in sorted(limit.variables) if v in extents)
                    yield (
                        f"the tile held in {leaf.name} breaks tile_shape {limit.text} ({shown})",
                        top.address,
                    )

    def refetches(self) -> Iterator[tuple[str, Address]]:
        for leaf, placement, above in self.placements():
            for tensor in sorted(placement.no_refetch_from_above.given(above) & self.held[leaf.name]):
                here = self.first(leaf.name, tensor)
                for loop in self.temporal_between(tensor, self.path.stations[tensor][0], here):
                    yield (
                        f"{tensor!r} is fetched again into {leaf.name} by the loop over {loop.variable}",
                        loop.address,
                    )
            for tensor in sorted(placement.no_resend_to_below.given(above) & self.held[leaf.name]):
                stations = (*self.path.stations[tensor], self.path.compute)
                here = self.first(leaf.name, tensor)
                for loop in self.temporal_between(tensor, here, stations[stations.index(here) + 1]):
                    yield (
                        f"{tensor!r} is sent again below {leaf.name} by the loop over {loop.variable}",
                        loop.address,
                    )

    def temporal_between(self, tensor: str, outer: Station, inner: Station) -> Iterator[Loop]:
        access = self.path.einsum.by_tensor[tensor]
        for loop in loops_above(self.path, inner):
            inside = outer.position < loop.position < inner.position
            if inside and not loop.is_spatial and access.relevance(loop.variable) is not Relevance.FULL:
                yield loop

    def orders(self) -> Iterator[tuple[str, Address]]:
        stations = sorted({s for group in self.path.stations.values() for s in group}, key=lambda s: s.position)
        above: list[Station] = []
        for station in stations:
            placement = station.component.placement if isinstance(station.component, Memory | Toll) else None
            if placement is None or isinstance(station.component, Toll) or station.persistent:
                continue
            lower = [s for s in above if s.level > station.level and not self.is_beside(s, station)]
            if lower and placement.force_hierarchy_order:
                deepest = max(lower, key=lambda s: s.level)
                yield (
                    f"storage in {station.component.name} stands below storage in {deepest.component.name}, "
                    "against the hierarchy",
                    station.address,
                )
            above.append(station)
        for leaf, placement, held in self.placements():
            places = {t: self.first(leaf.name, t) for t in sorted(self.held[leaf.name])}
            tensors = sorted(places, key=lambda t: (places[t].position, t))
            if tensors and not self.order_allowed(placement, places, held):
                yield (
                    f"the order {', '.join(tensors)} in {leaf.name} fits no tensor_order_options",
                    places[tensors[0]].address,
                )

    def order_allowed(self, placement: Placement, places: Mapping[str, Station], held: dict[str, Names]) -> bool:
        """Whether the order of a memory's nodes fits, with those above a split where they stand or below its others."""
        position = {t: station.position for t, station in places.items()}
        beside = [t for t, a in places.items() if any(self.is_beside(a, b) for b in places.values())]
        lowest = max(position.values()) + 1
        return any(placement.order_allows({**position, **dict.fromkeys(moved, lowest)}, held) for moved in ((), beside))

    def is_beside(self, upper: Station, lower: Station) -> bool:
        """Whether two nodes stand at one place: no loop parts them, and the upper one is above a split.

        What several Einsums share stands above the split, wherever it stands among what each of them has there.
        """
        shared = upper.position < lower.position and len(upper.address) < len(self.path.compute.address)
        between = (loop for loop in self.path.loops if upper.position < loop.position < lower.position)
        return shared and all(loop.absent for loop in between)

    def fanouts(self) -> Iterator[tuple[str, Address]]:
        used = lanes_used(self.path)
        usage = spatial_usage(self.path, used)
        for leaf in self.path.leaves:
            for dimension in leaf.spatial:
                loops = [
                    lp
                    for lp in loops_above(self.path, self.path.compute)
                    if lp.dimension is dimension and lp.level is not None and self.path.leaves[lp.level] is leaf
                ]
                yield from self.dimension(leaf.name, dimension, loops, usage[leaf.name, dimension.name])

    def dimension(
        self, name: str, dimension: SpatialDimension, loops: list[Loop], usage: float
    ) -> Iterator[tuple[str, Address]]:
        address = loops[0].address if loops else self.path.compute.address
        label = f"{name}.{dimension.name}"
        least, is_copy = dimension.min_usage * (1 - 1e-12), self.path.einsum.is_copy
        if usage < least and not is_copy and usage < reachable_usage(self.path, dimension) * (1 - 1e-12):
            yield f"{label} is used to {usage:.3g}, min_usage is {dimension.min_usage:g}", address
        if usage > 1:
            yield f"{label}: usage {usage:.3g} (usage_scale {dimension.usage_scale:g}) exceeds 1", address
        counts: dict[str, float] = {}
        extents = dict(self.path.einsum.extents)
        for loop in loops_above(self.path, self.path.compute):
            extent = extents[loop.variable]
            extents[loop.variable] = loop.shape
            if loop in loops:
                counts[loop.variable] = counts.get(loop.variable, 1) * -(-extent // loop.shape)
        for limit in dimension.loop_bounds:
            if not limit.holds(counts):
                yield f"{label} breaks loop_bounds {limit.text}", address
        if dimension.vector:
            yield from self.vector(label, loops, counts)
        for tensor in sorted(dimension.reuse & self.path.einsum.tensors):
            for loop in loops:
                if self.path.einsum.by_tensor[tensor].relevance(loop.variable) is not Relevance.NONE:
                    yield (
                        f"{label} must reuse {tensor!r}, the loop over {loop.variable} indexes it",
                        loop.address,
                    )

    def vector(self, label: str, loops: list[Loop], counts: Mapping[str, float]) -> Iterator[tuple[str, Address]]:
        """A vector runs over neighbouring values of one rank variable."""
        used = [loop for loop in loops if not loop.absent]
        along = [v for v, count in counts.items() if count > 1]
        if len(along) > 1:
            yield f"{label} is a vector along one rank variable, not along {', '.join(along)}", used[0].address
        for loop in used:
            if loop.shape != 1:
                yield (
                    f"{label} is a vector of neighbouring values, the loop over {loop.variable} has tile_shape "
                    f"{loop.shape} instead of 1",
                    loop.address,
                )
