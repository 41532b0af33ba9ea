"""Memories and the dimensions of the array in one order, from the outside in.

ZigZag gives each memory the dimensions whose units share one instance of it; here a path has one order, in which a
fanout multiplies all that follows. A memory that units of a dimension share stands above that dimension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod

from einmap.frontends.zigzag.memories import ZigzagMemory


@dataclass(frozen=True, slots=True)
class Placed:
    """A memory on the path. `opened`: dimensions that begin right above it; `copies`: dimensions whose units share one
    instance in the file and have one each here."""

    memory: ZigzagMemory
    opened: tuple[str, ...]
    copies: tuple[str, ...]


def placed(memories: Sequence[ZigzagMemory], sizes: Mapping[str, int]) -> tuple[tuple[Placed, ...], tuple[str, ...]]:
    """The memories, the outermost first, and the dimensions that begin below all of them.

    `memories`: the innermost first; `sizes`: of the dimensions. Of all orders of dimensions the one is taken that needs
    the fewest copies of memories beyond those of the file.
    """
    alone = {memory.name: [d for d in sizes if d not in memory.shares] for memory in memories}
    relevant = [d for d in sizes if any(d in own for own in alone.values())]
    # stable: of equal orders the one nearest to the file's is taken
    best = min(permutations(relevant), key=lambda order: _copies(order, list(alone.values()), sizes))
    position = {dimension: number for number, dimension in enumerate(best)}
    depth = {name: 1 + max((position[d] for d in own), default=-1) for name, own in alone.items()}
    outermost_first = list(reversed(memories))
    ordered = sorted(outermost_first, key=lambda memory: depth[memory.name])
    result: list[Placed] = []
    opened = 0
    for memory in ordered:
        level = max(opened, depth[memory.name])
        above = best[:level]
        copies = tuple(d for d in above if d not in alone[memory.name] and sizes[d] > 1)
        result.append(Placed(memory, tuple(best[opened:level]), copies))
        opened = level
    rest = tuple(d for d in sizes if d not in best[:opened])
    return tuple(result), rest


def _copies(order: Sequence[str], alone: Sequence[Sequence[str]], sizes: Mapping[str, int]) -> int:
    """Instances of all memories beyond one for each combination of the dimensions that each has alone."""
    position = {dimension: number for number, dimension in enumerate(order)}
    total = 0
    for own in alone:
        above = order[: 1 + max((position[d] for d in own), default=-1)]
        total += prod(sizes[d] for d in above if d not in own) - 1
    return total
