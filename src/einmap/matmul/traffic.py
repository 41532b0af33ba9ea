"""Traffic of a plan between a level and the one above: exact, value for value."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from einmap.matmul.algorithms import Choice, Stage, pieces
from einmap.matmul.machine.machine import DIMENSIONS_OF, TENSORS, Sizes


@dataclass(frozen=True, slots=True)
class Moves:
    """Values of one operand that cross a link, all workers together: down, up, and up to be added to those there.

    An accumulated value is read and written at the level above; here it was a zero first.
    """

    loads: int = 0
    stores: int = 0
    accumulates: int = 0

    @property
    def values(self) -> int:
        """Values that cross, in both directions."""
        return self.loads + self.stores + self.accumulates


@dataclass(frozen=True, slots=True)
class LevelTraffic:
    """The link between a level and the one above it: `moves` and bits of a value of A, B, C."""

    moves: tuple[Moves, Moves, Moves]
    bits_of: Sizes

    @property
    def bits(self) -> int:
        """Bits of all operands that cross, in both directions."""
        return sum(move.values * bits for move, bits in zip(self.moves, self.bits_of, strict=True))

    def of(self, tensor: str) -> Moves:
        """The moves of one operand."""
        return self.moves[TENSORS.index(tensor)]


def traffic_of(stages: tuple[Stage, ...], choices: tuple[Choice, ...], size: Sizes) -> tuple[LevelTraffic, ...]:
    """Traffic of the link above each level, outermost first.

    A matrix is moved once for each block of the dimension that it lacks; where that is the innermost loop, once for
    each worker's part of it. Last blocks that are smaller need no special case: the parts of a dimension are its whole.
    """
    parents: tuple[Counter[int], ...] = tuple(Counter({s: 1}) for s in size)
    levels = []
    for stage, choice in zip(stages, choices, strict=True):
        chunks = sum(n * -(-s // choice.chunk) for s, n in parents[choice.algorithm.inner].items())
        blocks = tuple(_cut(parent, block) for parent, block in zip(parents, choice.block, strict=True))
        moves = []
        for position, tensor in enumerate(TENSORS):
            rows, columns = DIMENSIONS_OF[tensor]
            (other,) = {0, 1, 2} - {rows, columns}
            trips = chunks if other == choice.algorithm.inner else blocks[other].total()
            values = size[rows] * size[columns] * trips if stage.moved[position] else 0
            moves.append(_moves(tensor, values, stage.shares_sums(choice)))
        a, b, c = moves
        levels.append(LevelTraffic((a, b, c), stage.bits))
        parents = blocks
    return tuple(levels)


def _moves(tensor: str, values: int, shared: bool) -> Moves:
    if tensor != "C":
        return Moves(loads=values)
    return Moves(accumulates=values) if shared else Moves(loads=values, stores=values)


def _cut(parents: Counter[int], block: int) -> Counter[int]:
    parts: Counter[int] = Counter()
    for size, count in parents.items():
        for part, times in pieces(size, block):
            parts[part] += times * count
    return parts
