"""All levels at once: the plan of least time among all choices of all levels, proven.

The time of a block depends on what is chosen below through the times of its parts alone, and grows with each of them.
So the best choices below a block depend on its size only, and are found once for each size (dynamic programming). Where
a dimension does not divide, blocks of several sizes share the choices below; then all choices are kept that no other one
beats for every size (a Pareto set). Lower bounds cut what cannot become the best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product as combinations

import numpy as np

from einmap.matmul.algorithms import Choice, Stage, block_seconds, pieces
from einmap.matmul.estimates import Bounds, least_seconds
from einmap.matmul.machine import Sizes
from einmap.matmul.space import options_of
from einmap.progress import Progress

type Axes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""The sizes that blocks of one level have in m, k and n; the first of each is that of a full block."""


@dataclass(frozen=True, slots=True)
class Found:
    """Choices from one level inwards, and the seconds of a block of each size of the level above."""

    seconds: tuple[float, ...]
    choices: tuple[Choice, ...]


@dataclass
class JointSearch:
    """The search over `stages` for a product of `size`; `compute`: seconds of a block in the innermost memory.

    After `run`, `proven` says whether it came to its end, `tried` how many choices were costed, `states` for how many
    sizes of blocks.
    """

    stages: tuple[Stage, ...]
    size: Sizes
    compute: Callable[[Sizes], float]
    flop_seconds: float
    progress: Progress
    proven: bool = True
    tried: int = 0
    _known: dict[tuple[int, Axes], tuple[Found, ...]] = field(default_factory=dict)

    @property
    def states(self) -> int:
        """Sizes of blocks for which choices were searched."""
        return len(self._known)

    def run(self) -> tuple[Choice, ...]:
        """The best choices, outermost level first; the best so far when the user stops the search."""
        self._bounds = Bounds(self.stages, self.flop_seconds)
        m, k, n = self.size
        (found,) = self._front(0, ((m,), (k,), (n,)))
        return found.choices

    def _front(self, position: int, axes: Axes) -> tuple[Found, ...]:
        """For blocks of these sizes above `stages[position]` all choices that no other one beats for every size."""
        key = (position, axes)
        if key not in self._known:
            self._known[key] = self._inmost(axes) if position == len(self.stages) else self._searched(position, axes)
        return self._known[key]

    def _inmost(self, axes: Axes) -> tuple[Found, ...]:
        return (Found(tuple(self.compute(size) for size in combinations(*axes)), ()),)

    def _searched(self, position: int, axes: Axes) -> tuple[Found, ...]:
        sizes = tuple(combinations(*axes))
        options = options_of(self.stages[position], sizes[0])
        least = np.stack(
            [least_seconds(self.stages, self._bounds, position, options, size) for size in sizes], axis=1
        )
        order = np.argsort(least.sum(axis=1), kind="stable")
        least = least[order]
        alive = np.ones(len(order), np.bool_)
        front: list[Found] = []
        for rank, row in enumerate(order):
            if not alive[rank]:
                continue
            for found in self._with(position, options.choice(int(row)), axes, sizes):
                if _joins(front, found):
                    alive &= ~(least >= np.array(found.seconds)).all(axis=1)
            if self.progress.stopped and front:
                self.proven = False
                break
            if not alive[rank + 1 :].any():
                break
        return tuple(front)

    def _with(self, position: int, choice: Choice, axes: Axes, sizes: tuple[Sizes, ...]) -> list[Found]:
        """All that may be chosen below `choice`."""
        below = parts_of(axes, choice)
        inner = tuple(combinations(*below))
        self.tried += 1
        if self.tried % 64 == 0:
            self.progress.report(f"joint plan: level {self.stages[position].level.name}", self.tried)
        found = []
        for part in self._front(position + 1, below):
            seconds = dict(zip(inner, part.seconds, strict=True))
            times = tuple(block_seconds(self.stages[position], choice, size, seconds.__getitem__) for size in sizes)
            found.append(Found(times, (choice, *part.choices)))
        return found


def parts_of(axes: Axes, choice: Choice) -> Axes:
    """The sizes of the parts of blocks: full ones, and the last ones where a dimension does not divide."""
    m, k, n = (
        tuple(sorted({part for size in sizes for part, _ in pieces(size, block)}, reverse=True))
        for sizes, block in zip(axes, choice.block, strict=True)
    )
    return m, k, n


def _joins(front: list[Found], found: Found) -> bool:
    """Add `found` to the front unless one of it is as good for every size; those that it beats leave."""
    if any(all(a <= b for a, b in zip(other.seconds, found.seconds, strict=True)) for other in front):
        return False
    front[:] = [
        other for other in front if not all(a <= b for a, b in zip(found.seconds, other.seconds, strict=True))
    ]
    front.append(found)
    return True


