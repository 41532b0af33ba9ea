"""Expected values, operations and bits of metadata: done, gated, skipped, by instance of a component.

All are sums over visits of products: how often a visit is there, what it moves, and how likely each condition is. Each
factor is an array over a few rank variables, so that sums are contractions of arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from einmap.arch.component import Memory
from einmap.arrays import Floats, Ints
from einmap.errors import NotSupportedError
from einmap.model.counting.path import EinsumPath, Station
from einmap.model.sparsity.conditions import Condition, innermost, likely, node_of, of_exchange, of_operations
from einmap.model.sparsity.tiles import largest
from einmap.model.sparsity.visits import Around, Boxes, Spans, Table, boxes_of
from einmap.model.traffic.tensor_traffic import Exchange, TensorTraffic
from einmap.sparse.densities import Density, Known, Structured
from einmap.sparse.formats import Format
from einmap.sparse.savings import Sparsity

FEW = 2000
"""Products that are added one by one: more are contracted in a good order, which takes time to find."""
MOST_TILES = 20_000
"""Tiles of different shapes or places that are looked at for their metadata, at most."""


@dataclass(frozen=True)
class Split:
    """Expected amounts by state, for each instance of a component: arrays of one shape."""

    actual: Floats
    gated: Floats
    skipped: Floats

    @property
    def states(self) -> tuple[Floats, Floats, Floats]:
        """In the order of `savings.STATES`."""
        return self.actual, self.gated, self.skipped


class Visits:
    """All visits of a node, with the conditions of what happens in them; rows that are alike are one."""

    def __init__(
        self,
        path: EinsumPath,
        sparsity: Sparsity,
        node: Around,
        conditions: Sequence[Condition],
        tensor: TensorTraffic | None = None,
    ) -> None:
        """`tensor`: whose tiles are moved, None for operations."""
        self.path, self.sparsity, self.node = path, sparsity, node
        self.variables = path.einsum.rank_variables
        self.tables = {v: Table(path, v, node) for v in self.variables}
        self.done = innermost(conditions)
        self.timed = innermost(c for c in conditions if c.skips)
        for v, table in self.tables.items():
            if table.rows > 1:
                table.join(list(self._told(v, table, tensor)))
        self.own = {v: table.spans(node) for v, table in self.tables.items()}
        self._chances: dict[Condition, Floats] = {}
        self._weights: dict[tuple[tuple[int, ...], frozenset[int]], dict[str, Floats]] = {}

    def _told(self, v: str, table: Table, tensor: TensorTraffic | None) -> Iterator[Ints]:
        """Columns that tell rows apart: lanes, sizes, places where these matter, first iterations of outputs."""
        loops = self.path.loops
        for i, values in table.index.items():
            if loops[i].is_spatial:
                yield values
            elif tensor is not None and tensor.access.output:
                yield (values == 0).astype(np.int64)
        looked_at = [(tensor.access.tensor, self.node)] if tensor is not None else []
        looked_at += [(c.leader, c.node) for c in {*self.done.values(), *self.timed.values()}]
        yield table.spans(self.node).size
        for name, node in looked_at:
            spans, density = table.spans(node), self.sparsity.densities.get(name)
            yield spans.size
            if density is not None and density.is_positional:
                yield from self._places(v, name, density, spans)

    def _places(self, v: str, name: str, density: Density, spans: Spans) -> Iterator[Ints]:
        """Where intervals begin, as far as it matters: inside of one block of a structured density it does not."""
        access = self.path.einsum.by_tensor[name]
        if v not in access.variables:
            return
        if isinstance(density, Structured):
            index = dict(access.projection)[self.sparsity.ranks[name][density.rank]]
            if v not in dict(index.terms):
                return
            if index.terms == ((v, 1),) and not index.constant and v not in dict(self.path.einsum.first_values):
                place = spans.start % density.m
                yield np.where(place + spans.size <= density.m, 0, 1 + place)
                return
        yield spans.start

    def sums(self, content: Floats, weights: Mapping[str, Any]) -> Split:
        """Sums by lane of `content` (an axis for each variable) times weights of the rows (rows, lanes)."""
        whole = self.met({}, content, weights)
        timed = self.met(self.timed, content, weights) if self.timed else whole
        actual = timed if self.done == self.timed else self.met(self.done, content, weights)
        return Split(actual, timed - actual, whole - timed)

    def met(self, conditions: Mapping[str, Condition], content: Floats, weights: Mapping[str, Any]) -> Floats:
        """The sums of what is done where all of some conditions are met."""
        axes = list(range(len(self.variables)))
        out = [len(axes) + i for i in axes]
        factors: list[Any] = []
        for i, v in enumerate(self.variables):
            factors += [weights[v], [i, out[i]]]
        factors += [*_squeezed(content, axes)]
        for condition in conditions.values():
            factors += [*_squeezed(self.chance(condition), axes)]
        return _contract(factors, out)

    def weights(self, lanes: Sequence[int], zero: frozenset[int]) -> dict[str, Floats]:
        """How often each row is there for each lane, of those that are at the first iteration of some loops."""
        key = tuple(lanes), zero
        if key in self._weights:
            return self._weights[key]
        found = self._weights[key] = {}
        for v, table in self.tables.items():
            counted = self.own[v].size > 0
            for i in zero & table.index.keys():
                counted = counted & (table.index[i] == 0)
            found[v] = table.lanes(lanes, counted)
        return found

    def chance(self, condition: Condition) -> Floats:
        """Probability that a condition is met, by row."""
        if condition not in self._chances:
            spans = {v: table.spans(condition.node) for v, table in self.tables.items()}
            self._chances[condition] = likely(self.path, self.sparsity, condition, spans)
        return self._chances[condition]


def _squeezed(content: Floats, axes: list[int]) -> tuple[Floats, list[int]]:
    """An array without its axes of length 1, and the names of the others."""
    kept = [axis for axis in axes if content.shape[axis] > 1]
    return content.reshape([content.shape[axis] for axis in kept]), kept


def _rows[T: Floats | Ints](values: T, n: int) -> T:
    """The first of the merged lanes, which a tensor's own boxes do not tell apart."""
    place: Any = (..., *([0] * n))
    first: T = values[place]
    return first


def _contract(factors: list[Any], out: list[int]) -> Floats:
    """The sum of products, by lane of each variable."""
    lengths = {
        axis: n
        for a, axes in zip(factors[::2], factors[1::2], strict=True)
        for axis, n in zip(axes, a.shape, strict=True)
    }
    found: Floats = np.einsum(*factors, out, optimize="greedy" if prod(lengths.values()) > FEW else False)
    return found


def lane_loops(path: EinsumPath, level: int) -> list[int]:
    """Loops that make the instances of a component at a level."""
    return [i for i in path.spatial_loops if (path.loops[i].level or 0) <= level and not path.loops[i].absent]


@dataclass(frozen=True)
class Passed:
    """Values and bits of metadata of a tensor that a station reads or writes, by state and instance.

    `way`: "down", to the holder further in, or "up", back from it.
    """

    station: Station
    tensor: str
    action: str
    way: str
    values: Split
    metadata: Split | None


class TensorZeros:
    """The exchanges of one tensor, with its zeros."""

    def __init__(self, sparsity: Sparsity, tensor: TensorTraffic) -> None:
        self.sparsity, self.tensor = sparsity, tensor
        self.path, self.name = tensor.path, tensor.access.tensor

    def passed(self) -> Iterator[Passed]:
        """All that passes at memories and tolls."""
        for exchange in self.tensor.exchanges:
            if exchange.child.position in self.tensor.slides:
                yield from self.slid(exchange)
                continue
            visits, boxes = self.visits(exchange)
            for station, action, way in self.places(exchange):
                yield self.at(exchange, station, visits, boxes, action, way)

    def places(self, exchange: Exchange) -> Iterator[tuple[Station, str, str]]:
        """Memories and tolls of an exchange with the actions that they do and the ways that values go."""
        for station in exchange.chain:
            if station is not self.path.compute:
                yield from ((station, action, way) for action, way in self.ways(exchange, station))

    def visits(self, exchange: Exchange) -> tuple[Visits, Boxes]:
        """The visits of the child of an exchange, and the boxes of the tensor that they move."""
        conditions = of_exchange(self.sparsity, self.tensor, exchange)
        visits = Visits(self.path, self.sparsity, node_of(self.tensor, exchange), conditions, self.tensor)
        ranks = self.sparsity.ranks.get(self.name) or tuple(rank for rank, _ in self.tensor.access.projection)
        return visits, boxes_of(self.path, self.tensor.access, ranks, visits.own)

    def slid(self, exchange: Exchange) -> Iterator[Passed]:
        """Values that pass where visits in a row keep what both need: dense counts times densities, alike in all lanes.

        Raises NotSupportedError where zeros decide about visits, or are told apart by their places.
        """
        path, density = self.path, self.sparsity.densities.get(self.name)
        why = ""
        if of_exchange(self.sparsity, self.tensor, exchange):
            why = "a saving of"
        for station in exchange.chain:
            has_format = (station.component.name, self.name) in self.sparsity.formats
            if has_format and (isinstance(density, Known) or not self.sparsity.shares_metadata):
                why = "a format, without metadata: share or with zeros that are known by place, of"
            if station is path.compute or why:
                continue
            lanes = lane_loops(path, station.level)
            shape = [prod(path.loops[i].iterations for i in lanes if path.loops[i].variable == v)
                     for v in path.einsum.rank_variables]  # fmt: skip
            even = np.ones(shape) / prod(shape)
            moved = float(self.tensor.flow(exchange, station).live) * even
            yield self._evenly(exchange, station, moved)
        if why:
            raise NotSupportedError(
                f"{why} {self.name!r}, of which {exchange.child.component.name!r} keeps windows, is not supported yet",
                hint="leave out sliding_window there",
            )

    def _evenly(self, exchange: Exchange, station: Station, moved: Floats) -> Passed:
        form = station if isinstance(station.component, Memory) else exchange.parent
        none = np.zeros_like(moved)
        metadata, part = None, 1.0
        if self.sparsity.compresses(form.component.name, self.name):
            part = self.sparsity.densities[self.name].part
        fmt = self.sparsity.formats.get((form.component.name, self.name)) if form is station else None
        if fmt is not None:
            metadata = Split(moved * self._share(fmt, form), none, none)
        action = "write" if station is exchange.child else "read"
        return Passed(station, self.name, action, "down", Split(moved * part, none, none), metadata)

    def ways(self, exchange: Exchange, station: Station) -> list[tuple[str, str]]:
        """The actions of a station in an exchange, each with the way that its values go."""
        output = self.tensor.access.output
        if not isinstance(station.component, Memory):
            direction = station.component.directions[self.name]  # type: ignore[union-attr]
            found = [("read", "down")] if direction != "up" else []
            return [*found, *([("read", "up")] if output and direction != "down" else [])]
        if station is exchange.child:
            return [("write", "down"), *([("read", "up")] if output else [])]
        return [("read", "down"), *([("write", "up")] if output else [])]

    def at(self, exchange: Exchange, station: Station, visits: Visits, boxes: Boxes, action: str, way: str) -> Passed:
        """Values and metadata that a station reads or writes in one way of an exchange."""
        form = self.form(exchange, station, way)
        content = self.content(form, boxes)
        lanes, sets = lane_loops(self.path, station.level), self.sets(exchange, station, visits, way)
        values = self._sum(visits, lanes, content, sets)
        metadata = None
        fmt = self.sparsity.formats.get((form.component.name, self.name)) if form is station else None
        if fmt is not None:
            bits = self._shared_bits(fmt, form, boxes) if self.sparsity.shares_metadata else self._bits(fmt, boxes)
            metadata = self._sum(visits, lanes, bits, sets)
        return Passed(station, self.name, action, way, values, metadata)

    def form(self, exchange: Exchange, station: Station, way: str) -> Station:
        """The memory whose format says what passes a station: itself, or of a toll the sender."""
        if isinstance(station.component, Memory):
            return station
        return exchange.parent if way == "down" else exchange.child

    def sets(
        self, exchange: Exchange, station: Station, visits: Visits, way: str
    ) -> list[tuple[float, frozenset[int]]]:
        """Which visits a station pays for: signed sets of loops that are at their first iteration."""
        output_down = self.tensor.access.output and way == "down"
        once = visits.node.merged if output_down else self._merged_at(visits.node, station)
        found: list[tuple[float, frozenset[int]]] = [(1.0, once)]
        if output_down and not self.tensor.pays_initial(exchange, station):
            found += [(-sign, once | zero) for sign, zero in self._initial(exchange)]
        return found

    def _merged_at(self, node: Around, station: Station) -> frozenset[int]:
        return frozenset(i for i in node.merged if (self.path.loops[i].level or 0) > station.level)

    def _sum(
        self, visits: Visits, lanes: list[int], content: Floats, sets: list[tuple[float, frozenset[int]]]
    ) -> Split:
        """The sum over terms, each of the visits in which some loops are at their first iteration."""
        total: Split | None = None
        for sign, zero in sets:
            weights = visits.weights(lanes, zero)
            part = visits.sums(content, weights)
            if total is None:
                total = part
            else:
                pairs = zip(total.states, part.states, strict=True)
                total = Split(*(whole + sign * more for whole, more in pairs))
        assert total is not None
        return total

    def _initial(self, exchange: Exchange) -> list[tuple[float, frozenset[int]]]:
        """Fills that bring no result yet: signed sets of loops that are at their first iteration.

        The parent's copy is fresh where it is the first visit, or in lanes that are merged further out and are not the
        first one (`TensorTraffic.fresh`).
        """
        own = node_of(self.tensor, exchange)
        outward = self.tensor.exchanges[self.tensor.exchanges.index(exchange) + 1 :]
        terms: list[tuple[float, frozenset[int]]] = []
        node = own
        zero: frozenset[int] = frozenset()
        for further in outward:
            outer = node_of(self.tensor, further)
            zero |= self._irrelevant(node.told - outer.applied)
            terms += [(1.0, zero), (-1.0, zero | outer.merged)] if outer.merged else []
            zero |= outer.merged
            node = Around(outer.told, frozenset())
        return [*terms, (1.0, zero | self._irrelevant(node.told))]

    def _irrelevant(self, loops: frozenset[int]) -> frozenset[int]:
        indexed = self.tensor.access.variables
        return frozenset(i for i in loops if self.path.loops[i].variable not in indexed)

    def content(self, form: Station, boxes: Boxes) -> Floats:
        """Values of each tile, as a memory stores them."""
        density = self.sparsity.densities.get(self.name)
        if density is not None and self.sparsity.compresses(form.component.name, self.name):
            return _rows(density.expected(boxes.low, boxes.size), len(self.path.einsum.rank_variables))
        return self.positions(boxes)

    def positions(self, boxes: Boxes) -> Floats:
        """Values of each tile, zeros as well."""
        n = len(self.path.einsum.rank_variables)
        return _rows(prod(boxes.size, start=np.ones([1] * (2 * n))).astype(np.float64), n)

    def _shared_bits(self, fmt: Format, form: Station, boxes: Boxes) -> Floats:
        """Bits of metadata of each tile as its part of those of the largest tile that a memory holds."""
        return self.positions(boxes) * self._share(fmt, form)

    def _share(self, fmt: Format, form: Station) -> float:
        """Bits of metadata for each position of the largest tile that a memory holds."""
        density = self.sparsity.densities[self.name]
        size = largest(self.path, self.tensor.counts, form, self.sparsity.ranks[self.name])
        whole = fmt.stored(size, lambda ranks: density.parts([0] * len(size), size, ranks)).metadata
        return whole / max(1, prod(size))

    def _bits(self, fmt: Format, boxes: Boxes) -> Floats:
        """Bits of metadata of each tile."""
        n = len(self.path.einsum.rank_variables)
        density = self.sparsity.densities[self.name]
        columns: list[Ints] = [_rows(a, n) for a in (*boxes.low, *boxes.size)]
        shape = np.broadcast_shapes(*(a.shape for a in columns)) if columns else (1,) * n
        flat = np.stack([np.broadcast_to(a, shape).ravel() for a in columns], axis=1) if columns else np.zeros((1, 0))
        ranks = len(boxes.low)
        if (flat[:, ranks:] == 1).all():
            one = fmt.stored([1] * ranks, lambda _: 1.0).metadata
            zero = fmt.stored([1] * ranks, lambda _: 0.0).metadata
            return zero + (one - zero) * _rows(density.expected(boxes.low, boxes.size), n)
        if not density.is_positional:
            flat[:, :ranks] = 0
        different, places = np.unique(flat, axis=0, return_inverse=True)
        if len(different) > MOST_TILES:
            raise NotSupportedError(
                f"{len(different):,} different tiles of {self.name!r} are too many to look at their metadata",
                hint="give its density as a number",
            )
        bits = []
        for row in different:
            low, size = [int(x) for x in row[:ranks]], [int(x) for x in row[ranks:]]
            stored = fmt.stored(size, lambda kept, low=low, size=size: density.parts(low, size, kept))  # type: ignore[misc]
            bits.append(stored.metadata if min(size, default=1) else 0.0)
        return np.array(bits)[places.ravel()].reshape(shape)


def operations(sparsity: Sparsity, path: EinsumPath, tensors: Sequence[TensorTraffic]) -> Split:
    """Expected operations by instance of the compute."""
    visits, content = operation_visits(sparsity, path, tensors)
    return visits.sums(content, visits.weights(lane_loops(path, path.compute.level), frozenset()))


def operation_visits(sparsity: Sparsity, path: EinsumPath, tensors: Sequence[TensorTraffic]) -> tuple[Visits, Floats]:
    """The visits of the compute, and the operations of each."""
    node = Around(frozenset(i for i, loop in enumerate(path.loops) if not loop.absent), frozenset())
    visits = Visits(path, sparsity, node, of_operations(sparsity, path, tensors))
    n = len(path.einsum.rank_variables)
    sizes: list[Spans] = [visits.own[v] for v in visits.variables]
    content = np.ones([1] * n)
    for i, spans in enumerate(sizes):
        if (spans.size[:, 0] != 1).any():  # factors of 1 are left out: what is left may be far smaller
            content = content * spans.size[:, 0].reshape([-1 if k == i else 1 for k in range(n)])
    return visits, content
