"""All levels at once: the plan of least time among all choices of all levels, proven.

The time of a block depends on what is chosen below through the times of its parts alone, and grows with each of them.
So the best choices below a block depend on its size only, and are found once for each size (dynamic programming).
Where a dimension does not divide, blocks of several sizes share the choices below; then all choices are kept that no
other one beats for every size (a Pareto set). Two cuts leave out what cannot become the best: `LowerBounds`, and a
price for the time of each size of block, at which everything that costs 1 or more cannot beat the best plan so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import product as combinations

import numpy as np

from einmap.arrays import Floats
from einmap.matmul.algorithms import Choice, Stage, block_seconds, pieces, plan_seconds
from einmap.matmul.blocks.estimates import estimate
from einmap.matmul.blocks.innermost import ComputeMany, innermost_seconds
from einmap.matmul.blocks.lower_bounds import SLACK, LowerBounds
from einmap.matmul.blocks.space import Options, options_of
from einmap.matmul.machine.machine import Sizes
from einmap.pareto import nondominated
from einmap.progress import Progress
from einmap.units import format_si

type Axes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""The sizes that blocks of one level have in m, k and n; the first of each is that of a full block."""


@dataclass(frozen=True, slots=True)
class Front:
    """Choices from one level inwards, none better than another: `seconds` of blocks of each size of the level above,
    one row for each of `choices`.
    """

    seconds: Floats
    choices: tuple[tuple[Choice, ...], ...]

    @staticmethod
    def joined(parts: list[Front], n_sizes: int, prices: Floats) -> Front:
        """The `parts` that cost less than 1 at `prices` and that no other part beats."""
        seconds = np.concatenate([np.empty((0, n_sizes)), *(part.seconds for part in parts)])
        choices = [choice for part in parts for choice in part.choices]
        kept = _worthwhile(seconds, prices)
        return Front(seconds[kept], tuple(choices[row] for row in kept))


@dataclass(frozen=True, slots=True)
class Searched:
    """The choices kept for blocks of some sizes: those whose times cost less than 1 at `prices`."""

    prices: Floats
    front: Front


@dataclass
class JointSearch:
    """The search over `stages` for a product of `size`, starting from the plan `start`.

    `compute`: seconds of blocks in the innermost memory. After `run`, `proven` says whether it came to its end, `tried`
    how many choices were costed.
    """

    stages: tuple[Stage, ...]
    size: Sizes
    compute: ComputeMany
    start: tuple[Choice, ...]
    progress: Progress
    proven: bool = True
    tried: int = 0
    _known: dict[tuple[int, Axes], Searched] = field(default_factory=dict)
    _options: dict[tuple[int, Sizes], Options] = field(default_factory=dict)

    @cached_property
    def _bounds(self) -> LowerBounds:
        return LowerBounds.of(self.stages, self.size, self.compute)

    def run(self) -> tuple[Choice, ...]:
        """The best choices, outermost level first; the best so far when the user stops the search."""
        seconds, _ = plan_seconds(self.stages, self.start, self.size, lambda b: float(self.compute(np.array([b]))[0]))
        if seconds == 0:
            return self.start  # boundless bandwidths and compute: nothing takes less
        m, k, n = self.size
        front = self._searched(0, ((m,), (k,), (n,)), np.array([1 / seconds]))
        return front.choices[0] if front.choices else self.start

    def _front(self, position: int, axes: Axes, prices: Floats) -> Front:
        """For blocks of these sizes above `stages[position]` the choices that no other one beats for every size."""
        if self._exceeds_cutoff(position, axes, prices):
            return Front.joined([], len(prices), prices)
        searched = self._known.get((position, axes))
        if searched is None or (prices < searched.prices).any():
            # choices that were pruned at higher prices may be of use now
            prices = prices if searched is None else np.minimum(prices, searched.prices)
            searched = self._known[position, axes] = Searched(prices, self._searched(position, axes, prices))
        return searched.front

    def _searched(self, position: int, axes: Axes, prices: Floats) -> Front:
        sizes = tuple(combinations(*axes))
        options, least, alone = self._below_cutoff(position, sizes, prices)
        if position == len(self.stages) - 1:
            return self._innermost(options, least, sizes, prices)
        cost, asked = least @ prices, prices
        front = Front.joined([], len(sizes), prices)
        for row in np.argsort(cost, kind="stable"):
            if cost[row] >= 1 or self._stops():
                break
            if (front.seconds <= least[row]).all(axis=1).any():
                continue
            fixed = float(alone[row] @ prices)
            below = self._with(position, options.choice(int(row)), axes, prices, fixed)
            front = Front.joined([front, below], len(sizes), asked)
            if position == 0 and front.choices:
                # from here on only what beats this plan counts
                best = float(front.seconds[0, 0])
                cost, prices = cost / (prices[0] * best), np.array([1 / best])
                self.progress.report("joint plan", self.tried, best=format_si(best, "s"))
        return front

    def _below_cutoff(self, position: int, sizes: tuple[Sizes, ...], prices: Floats) -> tuple[Options, Floats, Floats]:
        """The choices that may cost less than 1, and for blocks of each size their estimates, one column each."""
        options = self._options_of(position, sizes[0])
        blocks = np.array(sizes, np.int64)
        # until a size is estimated choice by choice, it costs at least what its bound says
        rest = prices * self._bounds.pace(position, blocks) * blocks.astype(float).prod(axis=1) * SLACK
        columns: list[tuple[Floats, Floats]] = []
        for index, size in enumerate(sizes):
            estimated = estimate(self.stages, self._bounds, position, options, size)
            columns.append((estimated.least, estimated.alone))
            least = np.stack([column for column, _ in columns], axis=1)
            kept = least @ prices[: index + 1] + rest[index + 1 :].sum() < 1
            options, columns = options.take(kept), [(a[kept], b[kept]) for a, b in columns]
        least, alone = (np.stack([column[i] for column in columns], axis=1) for i in range(2))
        return options, least, alone

    def _innermost(self, options: Options, least: Floats, sizes: tuple[Sizes, ...], prices: Floats) -> Front:
        """The choices of the innermost level that may still be worth it, all at once, size by size."""
        self.tried += len(options)
        times = least.copy()
        for index, size in enumerate(sizes):
            times[:, index] = innermost_seconds(self.stages[-1], options, size, self.compute)
            kept = times @ prices < 1
            options, times = options.take(kept), times[kept]
        rows = _worthwhile(times, prices)
        return Front(times[rows], tuple((options.choice(row),) for row in rows))

    def _exceeds_cutoff(self, position: int, axes: Axes, prices: Floats) -> bool:
        """Whether blocks of these sizes cost 1 or more, whatever is chosen."""
        blocks = np.array(tuple(combinations(*axes)), np.int64)
        least = self._bounds.pace(position, blocks) * blocks.astype(float).prod(axis=1)
        return bool(least @ prices * SLACK >= 1)

    def _options_of(self, position: int, parent: Sizes) -> Options:
        key = (position, parent)
        if key not in self._options:
            self._options[key] = options_of(self.stages[position], parent)
        return self._options[key]

    def _stops(self) -> bool:
        if self.progress.stopped:
            self.proven = False
        return not self.proven

    def _with(self, position: int, choice: Choice, axes: Axes, prices: Floats, fixed: float) -> Front:
        """The front of the choices below `choice`, whose own transfers cost `fixed` at `prices`."""
        sizes, below = tuple(combinations(*axes)), parts_of(axes, choice)
        parts = tuple(combinations(*below))
        nothing = Front.joined([], len(sizes), prices)
        if fixed >= 1:
            return nothing
        inner = _prices_of_parts(choice, sizes, parts, prices) / (1 - fixed)
        self.tried += 1
        self.progress.report("joint plan", self.tried)
        front = self._front(position + 1, below, inner)
        if not front.choices:
            return nothing
        seconds = dict(zip(parts, front.seconds.T, strict=True))
        times = [block_seconds(self.stages[position], choice, size, seconds.__getitem__) for size in sizes]
        return Front(np.stack(times, axis=1), tuple((choice, *inner_choices) for inner_choices in front.choices))


def _worthwhile(times: Floats, prices: Floats) -> list[int]:
    """Rows that cost less than 1 and that no other row beats, cheapest first; of equal ones the first."""
    cost = times @ prices
    order = np.argsort(cost, kind="stable")
    return [int(row) for row in nondominated(times, order[cost[order] < 1])]


def parts_of(axes: Axes, choice: Choice) -> Axes:
    """The sizes of the parts of blocks: full ones, and the last ones where a dimension does not divide."""
    m, k, n = (
        tuple(sorted({part for size in sizes for part, _ in pieces(size, block)}, reverse=True))
        for sizes, block in zip(axes, choice.block, strict=True)
    )
    return m, k, n


def _prices_of_parts(choice: Choice, sizes: tuple[Sizes, ...], parts: tuple[Sizes, ...], prices: Floats) -> Floats:
    """The price of each part's time: those of the blocks that it is in, as often as it is there, of the worker that has
    most. The time of a block is never less than that of its parts in sum.
    """
    position = {part: index for index, part in enumerate(parts)}
    part_prices = np.zeros(len(parts))
    for size, price in zip(sizes, prices, strict=True):
        cut = list(size)
        cut[choice.algorithm.inner] = min(choice.chunk, size[choice.algorithm.inner])
        m, k, n = (pieces(extent, block) for extent, block in zip(cut, choice.block, strict=True))
        for rows, n_rows in m:
            for inner, n_inner in k:
                for columns, n_columns in n:
                    part_prices[position[rows, inner, columns]] += price * n_rows * n_inner * n_columns
    return part_prices
