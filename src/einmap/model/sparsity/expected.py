"""Expected values, operations and bits of metadata: done, gated, skipped, by instance of a component.

All are sums over visits (`sums`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from einmap.arch.component import Memory
from einmap.arrays import Amounts
from einmap.errors import NotSupportedError
from einmap.model.counting.path import Station, applies
from einmap.model.sparsity.conditions import Condition, everything, node_of, of_exchanges, of_operations
from einmap.model.sparsity.laid import Laid
from einmap.model.sparsity.split import Split
from einmap.model.sparsity.sums import WHOLE, Nest, Sets, Visits
from einmap.model.sparsity.tiles import largest, mean_and_most
from einmap.model.sparsity.visits import Around, Boxes, boxes_of, by_row
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.model.traffic.tensor_traffic import Exchange, TensorTraffic
from einmap.sparse.blocks import stored
from einmap.sparse.formats import Format, Stored
from einmap.sparse.known import Known
from einmap.sparse.savings import Sparsity


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

    def __init__(self, nest: Nest, tensor: TensorTraffic) -> None:
        self.nest, self.tensor = nest, tensor
        self.path, self.sparsity, self.name = nest.path, nest.sparsity, tensor.access.tensor
        self.n = len(self.path.einsum.rank_variables)
        nodes = [node_of(tensor, exchange) for exchange in tensor.exchanges]
        children = [exchange.child.position for exchange in tensor.exchanges]
        self._nodes = dict(zip(children, nodes, strict=True))
        self._conditions = dict(zip(children, of_exchanges(self.sparsity, tensor, nodes), strict=True))

    def node(self, exchange: Exchange) -> Around:
        """The loops around the child of an exchange."""
        return self._nodes[exchange.child.position]

    def conditions(self, exchange: Exchange) -> list[Condition]:
        """The conditions of an exchange, those of the exchanges further out included."""
        return self._conditions[exchange.child.position]

    def passed(self) -> Iterator[Passed]:
        """All that passes at memories and tolls."""
        for exchange in self.tensor.exchanges:
            if exchange.child.position in self.tensor.slides:
                yield from self.slid(exchange)
                continue
            visits = self.visits(exchange)
            for station, action, way in self.places(exchange):
                yield self.at(exchange, station, visits, action, way)

    def places(self, exchange: Exchange) -> Iterator[tuple[Station, str, str]]:
        """Memories and tolls of an exchange with the actions that they do and the ways that values go."""
        for station in exchange.chain:
            if station is not self.path.compute:
                yield from ((station, action, way) for action, way in self.ways(exchange, station))

    def visits(self, exchange: Exchange) -> Visits:
        """The visits of the child of an exchange."""
        parted = [
            (fmt, self._around(exchange, form))
            for form in (exchange.parent, exchange.child)
            if (fmt := self._format(form)) is not None and not fmt.is_plain
        ]
        return Visits(self.nest, self.node(exchange), self.conditions(exchange), self.tensor.access, parted)

    def _format(self, form: Station) -> Format | None:
        """The format in which a memory stores the tensor."""
        return self.sparsity.formats.get((form.component.name, self.name))

    def _around(self, exchange: Exchange, form: Station) -> Around:
        """The loops around the tile of a memory, of which an exchange moves a part."""
        if form is exchange.child:
            return self.node(exchange)
        return Around(frozenset([i for i, loop in enumerate(self.path.loops) if applies(loop, form)]), frozenset())

    def slid(self, exchange: Exchange) -> Iterator[Passed]:
        """Values that pass where visits in a row keep what both need: dense counts times densities, alike in all lanes.

        Raises NotSupportedError where zeros decide about visits, or are told apart by their places.
        """
        path, density = self.path, self.sparsity.densities.get(self.name)
        why = ""
        if self.conditions(exchange):
            why = "a saving of"
        for station in exchange.chain:
            fmt = self._format(station)
            if fmt is not None and (isinstance(density, Known) or not self.sparsity.shares_metadata):
                why = "a format, without metadata: share or with zeros that are known by place, of"
            elif fmt is not None and not fmt.is_plain:
                why = "a format with blocks or padding of"
            if station is path.compute or why:
                continue
            instances = prod(path.loops[i].iterations for i in self.nest.lanes(station.level))
            moved = float(self.tensor.flow(exchange, station).live) / instances
            yield self._evenly(exchange, station, moved, instances)
        if why:
            raise NotSupportedError(
                f"{why} {self.name!r}, of which {exchange.child.component.name!r} keeps windows, is not supported yet",
                hint="leave out sliding_window there",
            )

    def _evenly(self, exchange: Exchange, station: Station, moved: float, instances: int) -> Passed:
        """`moved`: positions that each instance of a station passes."""
        form = station if isinstance(station.component, Memory) else exchange.parent
        metadata, part = None, 1.0
        if self.sparsity.compresses(form.component.name, self.name):
            part = self.sparsity.densities[self.name].part
        fmt = self.sparsity.formats.get((form.component.name, self.name)) if form is station else None
        if fmt is not None:
            metadata = Split(moved * self._share(form), 0.0, 0.0, instances)
        action = "write" if station is exchange.child else "read"
        return Passed(station, self.name, action, "down", Split(moved * part, 0.0, 0.0, instances), metadata)

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

    def at(self, exchange: Exchange, station: Station, visits: Visits, action: str, way: str) -> Passed:
        """Values and metadata that a station reads or writes in one way of an exchange."""
        form = self.form(exchange, station, way)
        lanes, sets = self.nest.lanes(station.level), self.sets(exchange, station, visits, way)
        fmt = self._format(form)
        # in plain formats a tile takes the same wherever it is stored
        place = (form.component.name, form is exchange.child) if fmt is not None and not fmt.is_plain else ()
        what = "positions" if fmt is None or not fmt.is_compressed else ("values", *place)
        laid = self._laid(fmt)
        values = visits.sums(
            what, lambda: self.content(exchange, form, visits), lanes, sets, laid.values if laid else None
        )
        metadata = None
        if fmt is not None and form is station and self.sparsity.shares_metadata:
            share = self._share(form)
            metadata = visits.sums(("share", share), lambda: self.positions(visits.boxes) * share, lanes, sets)
        elif fmt is not None and form is station:
            bits = partial(self._stored, fmt, exchange, form, visits)
            metadata = visits.sums(
                ("metadata", fmt, *place), lambda: bits().metadata, lanes, sets, laid.metadata if laid else None
            )
        return Passed(station, self.name, action, way, values, metadata)

    def _laid(self, fmt: Format | None) -> Laid | None:
        """Amounts of all tiles of the tensor together, None where it is not known."""
        density = self.sparsity.densities.get(self.name)
        if fmt is None or not (fmt.is_plain and fmt.is_compressed and isinstance(density, Known)):
            return None
        return Laid(fmt, density)

    def form(self, exchange: Exchange, station: Station, way: str) -> Station:
        """The memory whose format says what passes a station: itself, or of a toll the sender."""
        if isinstance(station.component, Memory):
            return station
        return exchange.parent if way == "down" else exchange.child

    def sets(self, exchange: Exchange, station: Station, visits: Visits, way: str) -> Sets:
        """Which visits a station pays for."""
        output_down = self.tensor.access.output and way == "down"
        once = visits.node.merged if output_down else self._merged_at(visits.node, station)
        if output_down and self.sparsity.fills != "live":
            return self._filled(exchange, station, once)
        if output_down and not self.tensor.pays_initial(exchange, station):
            return ((1.0, once), *[(-sign, once | zero) for sign, zero in self._initial(exchange)])
        return ((1.0, once),)

    def _filled(self, exchange: Exchange, station: Station, once: frozenset[int]) -> Sets:
        """Visits of an output that a station pays for on the way down where all lanes are filled.

        What a lane has not touched before is new in it; lanes that begin again are not, whoever adds up their sums.
        """
        counts = exchange.child is station
        once = frozenset() if counts else once
        if self.tensor.pays_initial(exchange, station) or (counts and self.sparsity.fills == "all"):
            return ((1.0, once),)
        node, first = self.node(exchange), frozenset[int]()
        for further in self.tensor.exchanges[self.tensor.exchanges.index(exchange) + 1 :]:
            outer = self.node(further)
            first |= self._irrelevant(node.told - outer.applied)
            node = Around(outer.told, frozenset())
        return (1.0, once), (-1.0, once | first | self._irrelevant(node.told))

    def _merged_at(self, node: Around, station: Station) -> frozenset[int]:
        return frozenset([i for i in node.merged if (self.path.loops[i].level or 0) > station.level])

    def _initial(self, exchange: Exchange) -> list[tuple[float, frozenset[int]]]:
        """Fills that bring no result yet: signed sets of loops that are at their first iteration.

        The parent's copy is fresh where it is the first visit, or in lanes that are merged further out and are not the
        first one (`TensorTraffic.fresh`).
        """
        outward = self.tensor.exchanges[self.tensor.exchanges.index(exchange) + 1 :]
        terms: list[tuple[float, frozenset[int]]] = []
        node = self.node(exchange)
        zero: frozenset[int] = frozenset()
        for further in outward:
            outer = self.node(further)
            zero |= self._irrelevant(node.told - outer.applied)
            terms += [(1.0, zero), (-1.0, zero | outer.merged)] if outer.merged else []
            zero |= outer.merged
            node = Around(outer.told, frozenset())
        return [*terms, (1.0, zero | self._irrelevant(node.told))]

    def _irrelevant(self, loops: frozenset[int]) -> frozenset[int]:
        indexed = self.tensor.access.variables
        return frozenset(i for i in loops if self.path.loops[i].variable not in indexed)

    def content(self, exchange: Exchange, form: Station, visits: Visits) -> Amounts:
        """Values of each tile, as a memory stores them."""
        boxes, fmt = visits.boxes, self._format(form)
        if fmt is not None and not fmt.is_plain:
            return self._stored(fmt, exchange, form, visits).values
        if self.name in self.sparsity.densities and self.sparsity.compresses(form.component.name, self.name):
            density = self.sparsity.densities[self.name]
            tiles = boxes.first(self.n)
            found: Amounts = density.expected(tiles.low, tiles.size)
            return found
        return self.positions(boxes)

    def positions(self, boxes: Boxes) -> Amounts:
        """Values of each tile, zeros as well."""
        found: Amounts = by_row(boxes.positions, self.n)
        return found

    def _share(self, form: Station) -> Any:
        """Bits of metadata for each position of the largest tiles that a memory holds: the mean over them."""
        size = largest(self.path, self.tensor.counts, form, self.sparsity.ranks[self.name])
        mean, _ = mean_and_most(self.sparsity, form.component.name, self.name, size)
        return mean.metadata / max(1, prod(size))

    def _stored(self, fmt: Format, exchange: Exchange, form: Station, visits: Visits) -> Stored:
        """Values and bits of metadata of each tile as a memory stores it; none where there is none."""
        density = self.sparsity.densities[self.name]
        tiles, held = visits.boxes.first(self.n), None
        if not fmt.is_plain and form is not exchange.child:
            at = self._around(exchange, form)
            spans = {v: rows.spans(at) for v, rows in visits.rows.items()}
            whole = boxes_of(self.path, self.tensor.access, self.sparsity.ranks[self.name], spans).first(self.n)
            held = whole.low, whole.size
        found = stored(fmt, density, tiles.low, tiles.size, held)
        there = tiles.positions > 0
        if isinstance(there, bool):
            return found
        return Stored(*(np.where(there, a, 0.0) if np.ndim(a) else a for a in (found.values, found.metadata)))


class EinsumZeros:
    """One Einsum with zeros: the exchanges of its tensors, and its operations."""

    def __init__(self, sparsity: Sparsity, traffic: EinsumTraffic) -> None:
        self.path, self.sparsity = traffic.path, sparsity
        self.nest = Nest(traffic.path, sparsity)
        self.tensors = [TensorZeros(self.nest, tensor) for tensor in traffic.tensors]

    def passed(self) -> Iterator[Passed]:
        """All that passes at memories and tolls."""
        for tensor in self.tensors:
            yield from tensor.passed()

    def conditions(self) -> list[Condition]:
        """The conditions of operations: what they look at, and what their inputs are saved by."""
        found = of_operations(self.sparsity, self.path)
        for one in self.tensors:
            if not one.tensor.access.output:
                found += one.conditions(one.tensor.exchanges[0])
        return found

    def operations(self) -> Split:
        """Expected operations by instance of the compute."""
        visits = self.operation_visits()
        lanes = self.nest.lanes(self.path.compute.level)
        return visits.sums("operations", lambda: operations_of(visits), lanes, WHOLE)

    def operation_visits(self) -> Visits:
        """The visits of the compute."""
        return Visits(self.nest, everything(self.path), self.conditions())


def operations_of(visits: Visits) -> Amounts:
    """The operations of each visit of the compute."""
    n = len(visits.variables)
    found: Any = 1.0
    for i, spans in enumerate(visits.own.values()):
        if isinstance(spans.size, int):
            found = found * spans.size
        elif (spans.size[:, 0] != 1).any():  # factors of 1 are left out: what is left may be far smaller
            found = found * spans.size[:, 0].reshape([-1 if k == i else 1 for k in range(n)])
    content: Amounts = found
    return content
