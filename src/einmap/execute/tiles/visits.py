"""Visits of storage nodes: the tiles that are there now."""

from __future__ import annotations

from dataclasses import dataclass, field

from einmap.execute.tiles.buffers import Mask, Tile
from einmap.mapping.nodes import Address
from einmap.schedule.boxes import Box
from einmap.schedule.place import NodeTensor
from einmap.schedule.routes import Instance


@dataclass
class Visit:
    """One visit of a storage node for one tensor: a tile for each instance of its memory.

    `boxes`: the part that each Einsum uses, by instance. `filled`: Einsums for which the fill is done. `produced`: a
    producer has started here.
    """

    tiles: dict[Instance, Tile]
    boxes: dict[str, dict[Instance, Box]]
    filled: set[str] = field(default_factory=set)
    produced: bool = False
    kept: dict[Instance, Box] = field(default_factory=dict)
    """Parts that the visit before has left in the buffer."""
    left: dict[Instance, Box] = field(default_factory=dict)
    """Parts that stay for the next visit."""
    copied: dict[Instance, Mask] = field(default_factory=dict)
    """Elements that consumers have fetched beside those that the producer makes here: the parent keeps them, too."""


@dataclass
class Visits:
    """The open visits, by node address and tensor."""

    open: dict[NodeTensor, Visit] = field(default_factory=dict)

    def of(self, address: Address, tensor: str) -> Visit:
        """The open visit of a tensor at a node."""
        return self.open[address, tensor]
