"""A machine that stalls tile by tile, beside the one on which its costs are bounded."""

from __future__ import annotations

from dataclasses import dataclass

from einmap.arch.component import Leaf
from einmap.arch.tree import Architecture
from einmap.model.timing.stalls import stalling


@dataclass(eq=False)
class StallingMachine:
    """The architecture as it is, with the name and the level of the memory that stalls on one path.

    `has_more_orders`: of some mapping not all orders of its loops were tried.
    """

    arch: Architecture
    memory: str
    level: int
    has_more_orders: bool = False

    @staticmethod
    def of(arch: Architecture, leaves: tuple[Leaf, ...]) -> StallingMachine | None:
        """The machine of a path, None where nothing stalls tile by tile."""
        levels = stalling(leaves)
        return StallingMachine(arch, leaves[levels[0]].name, levels[0]) if levels else None
