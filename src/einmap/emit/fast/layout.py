"""The order of the values of a packed tile: that in which the loops inside it read them, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True)
class Block:
    """A loop inside a packed tile over one of its rank variables: `count` blocks of `tile` values.

    `index`: its variable, `start`: what it begins from; both are C.
    """

    variable: str
    count: int
    tile: int
    index: str
    start: str


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the values of a packed tile lie, block by block as the loops inside reach them.

    `blocks` with their strides, then `steps`: the sums inside the register tile, then `tile`: the register tile, the
    axis of the vectors last; each as rank variable, size and stride in values. `size`: values in all.
    """

    blocks: tuple[tuple[Block, int], ...]
    steps: tuple[tuple[str, int, int], ...]
    tile: tuple[tuple[str, int, int], ...]
    size: int

    def __str__(self) -> str:
        parts = [f"{b.count} blocks of {b.variable}" for b, _ in self.blocks]
        parts += [f"{size} {variable}" for variable, size, _ in (*self.steps, *self.tile)]
        return " x ".join(parts)

    def first(self) -> str:
        """Where the values of a register tile begin, as C."""
        parts = [distance_times(block.index, block.start, block.tile, stride) for block, stride in self.blocks]
        return " + ".join(parts) or "0"


def layout_of(blocks: Sequence[Block], steps: Sequence[tuple[str, int]], tile: Sequence[tuple[str, int]]) -> Layout:
    """The layout with the last rank variable the fastest.

    A of 96 x 32 (m, k) in blocks of 6 of m: 16 blocks, of 32 k, of 6 m; strides 192, 6 and 1.
    """
    sizes = [b.count for b in blocks] + [n for _, n in steps] + [n for _, n in tile]
    strides = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    n, m = len(blocks), len(blocks) + len(steps)
    return Layout(
        tuple(zip(blocks, strides[:n], strict=True)),
        tuple((v, size, stride) for (v, size), stride in zip(steps, strides[n:m], strict=True)),
        tuple((v, size, stride) for (v, size), stride in zip(tile, strides[m:], strict=True)),
        prod(sizes),
    )


def times(value: str, stride: int) -> str:
    """A product as C; a factor of 1 is left out."""
    return value if stride == 1 else f"{value} * {stride}"


def distance_times(index: str, start: str, tile: int, stride: int) -> str:
    """The number of a block of `tile` values from `start` on, times the stride of a block, as C."""
    distance = index if start == "0" else f"({index} - {start})"
    return times(f"{distance} / {tile}", stride) if stride % tile else times(distance, stride // tile)
