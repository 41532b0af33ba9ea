"""Sliding windows: buffers that keep, from one iteration of a loop to the next, what both need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from einmap.execute.tiles.buffers import Heap, Tile
from einmap.execute.tiles.visits import Visit
from einmap.mapping.nodes import Address
from einmap.schedule.boxes import Box
from einmap.schedule.place import NodeTensor
from einmap.schedule.routes import Instance


@dataclass
class Windows:
    """Tiles kept between visits. `loops`: for each buffer that slides the loop that it slides along."""

    loops: Mapping[NodeTensor, Address]
    heap: Heap
    waiting: dict[NodeTensor, dict[Instance, Tile]] = field(default_factory=dict)

    def along(self, loop: Address) -> list[NodeTensor]:
        """The buffers that slide along a loop."""
        return [key for key, slid in self.loops.items() if slid == loop]

    def take_over(self, key: NodeTensor, visit: Visit) -> None:
        """The visit begins with what the one before has left for it; it counts as live."""
        for lane, old in self.waiting.pop(key, {}).items():
            new, box = visit.tiles[lane], old.box
            new.values(box)[...] = old.values(box)
            new.present(box)[...] = old.present(box)
            new.live(box)[...] = 1
            visit.kept[lane] = box
            old.free()

    def leave(self, key: NodeTensor, visit: Visit, following: Mapping[Instance, Box]) -> None:
        """Set aside what the next visit, whose tiles are `following`, needs again; it leaves the tiles of this one."""
        for lane, box in following.items():
            common = overlap(visit.tiles[lane].box, box) if lane in visit.tiles else None
            if common is None:
                continue
            old, new = visit.tiles[lane], Tile(self.heap, common)
            new.values(common)[...] = old.values(common)
            new.present(common)[...] = old.present(common)
            old.present(common)[...] = 0
            old.live(common)[...] = 0
            visit.left[lane] = common
            self.waiting.setdefault(key, {})[lane] = new


def overlap(a: Box, b: Box) -> Box | None:
    """The indices in both boxes, None when there are none."""
    common = tuple((max(low, begin), min(high, end)) for (low, high), (begin, end) in zip(a, b, strict=True))
    return common if all(low < high for low, high in common) else None
