"""Copy Einsums: each value is read once at the source and written once at every destination elsewhere.

Holders between source and destination pass it on; a copy inside one memory moves nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from einmap.arch.component import Memory, Toll
from einmap.execute.leaf import Leaf, Tiles
from einmap.execute.recorder import Recorder
from einmap.execute.tiles.buffers import Heap, Tile
from einmap.schedule.routes import Clock, Hold, Instance
from einmap.schedule.spaces import space_mask


class CopyLeaf(Leaf):
    """The inner part of a copy Einsum."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._passed: dict[tuple[str, object, str], set[int]] = {}

    def run(self, clock: Clock, _tiles: Tiles, _heap: Heap, recorder: Recorder) -> None:
        """Copy the values of one visit, lane by lane."""
        for lane in self.lanes:
            points = self._points(clock, lane)
            if points is None:
                continue
            (source,) = self.inputs
            begin = self.route.holds[source.tensor][0]
            from_tile = self._tile(begin, lane)
            value, there = self._read(from_tile, self._index(source.tensor, points))
            for target in self.outputs:
                end = self.route.holds[target.tensor][0]
                to_index = self._index(target.tensor, points)
                self._write(self._tile(end, lane), to_index, value, there, points)
                if end.component.name != begin.component.name:
                    self._charge(recorder, lane, begin, end, source.tensor, target.tensor, points)

    def _points(self, clock: Clock, lane: Instance) -> list[Any] | None:
        """For each rank variable the values that this lane goes through, shaped to broadcast."""
        part, width = self.lane_part
        row = self.lanes.index(lane)
        points = []
        for v, variable in enumerate(self.variables):
            table = self.table(variable, clock).reshape(-1, width[v])[:, part[row, v]]
            values = np.unique(table[table >= 0])
            if not len(values):
                return None
            shape = [1] * len(self.variables)
            shape[v] = len(values)
            points.append(values.reshape(shape))
        return points

    def _index(self, tensor: str, points: list[Any]) -> list[Any]:
        first = dict(self.route.einsum.first_values)
        indices = []
        for index in self.route.indices[tensor]:
            total: Any = np.int64(index.constant)
            for v, a in index.terms:
                total = total + a * (points[self.variables.index(v)] + first.get(v, 0))
            indices.append(total)
        return list(np.broadcast_arrays(*indices))

    def _tile(self, hold: Hold, lane: Instance) -> Tile:
        assert self.visits is not None
        visit = self.visits.of(hold.address, hold.tensor)
        return visit.tiles[self.route.outward(lane, self.route.unit_level, hold.level)]

    def _read(self, tile: Tile, index: list[Any]) -> tuple[Any, Any]:
        at = tuple(i - low for i, (low, _) in zip(index, tile.box, strict=True))
        return tile.values(tile.box)[at], tile.present(tile.box)[at]

    def _write(self, tile: Tile, index: list[Any], value: Any, there: Any, points: list[Any]) -> None:
        at = tuple(i - low for i, (low, _) in zip(index, tile.box, strict=True))
        inside = space_mask(self.route.einsum)
        if inside is not None:
            inside = inside[tuple(p if n > 1 else 0 * p for p, n in zip(points, inside.shape, strict=True))]
        shape = np.broadcast_shapes(np.shape(value), *(i.shape for i in at), () if inside is None else inside.shape)
        at = tuple(np.broadcast_to(i, shape) for i in at)
        tile.live(tile.box)[at] = 1
        value, there = np.broadcast_to(value, shape), np.broadcast_to(there, shape)
        if inside is not None:
            inside = np.broadcast_to(inside, shape)
            at, value, there = tuple(i[inside] for i in at), value[inside], there[inside]
        tile.values(tile.box)[at] = value
        tile.present(tile.box)[at] = there

    def _charge(
        self, recorder: Recorder, lane: Instance, begin: Hold, end: Hold, source: str, target: str, points: list[Any]
    ) -> None:
        self._once(recorder, lane, begin, "read", points)
        self._once(recorder, lane, end, "write", points)
        low, high = sorted((begin.level, end.level))
        way = "down" if end.level > begin.level else "up"
        passed: set[str] = set()
        for tensor in (source, target):
            for hold in self.route.holds[tensor]:
                if not low < hold.level < high or hold.component.name in passed:
                    continue
                passed.add(hold.component.name)
                match hold.component:
                    case Memory():
                        self._once(recorder, lane, hold, "write", points)
                        self._once(recorder, lane, hold, "read", points)
                    case Toll() as toll:
                        if toll.directions[tensor] in (way, "up_and_down"):
                            self._once(recorder, lane, hold, "read", points)

    def _once(self, recorder: Recorder, lane: Instance, hold: Hold, action: str, points: list[Any]) -> None:
        """Count the values of the indexing variables that have not passed this station before.

        An element that several of them index, as in A[p + q], passes once for each: nothing keeps it on the way.
        """
        seen = self._passed.setdefault((hold.tensor, hold.address, action), set())
        relevant = self.route.einsum.by_tensor[hold.tensor].variables
        total: Any = np.zeros((1,) * len(self.variables), dtype=np.int64)
        for v, variable in enumerate(self.variables):
            if variable in relevant:
                total = total * self.route.einsum.extents[variable] + points[v]
        passing = set(np.unique(total).tolist()) - seen
        seen |= passing
        at = self.route.outward(lane, self.route.unit_level, hold.level)
        recorder.count((self.route.einsum.name, hold.component.name, hold.tensor, action), at, len(passing))
