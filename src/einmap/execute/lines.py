"""Lines of a memory that a tile touches, found from the addresses of its values one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from einmap.arch.component import Memory
from einmap.arch.layout import Layout
from einmap.errors import NotSupportedError
from einmap.execute.recorder import Recorder
from einmap.execute.tiles.buffers import volume
from einmap.mapping.nodes import Address
from einmap.schedule.boxes import Box
from einmap.schedule.routes import Hold, Instance, Route


def moved(route: Route, hold: Hold, box: Box, amount: float) -> float:
    """Amount that a station moves for a tile of which `amount` values pass: these, or the lines that they touch.

    Raises NotSupportedError for a part of a tile.
    """
    return amount if layout_of(hold) is None or not amount else len(_whole(route, hold, box, amount))


def _whole(route: Route, hold: Hold, box: Box | None, amount: float) -> frozenset[tuple[int, ...]]:
    if box is None or volume(box) != amount:
        raise NotSupportedError(f"parts of lines of {hold.tensor!r} in {hold.component.name!r} are not supported yet")
    return lines_of(route, hold, box)


type _Key = tuple[str, str, Instance, Instance, Address, str]


@dataclass
class LineTransfers:
    """Lines of the tiles that move now, until `settle` counts them: lanes together touch a line once.

    By action, component of the child, instance, lanes that are not served together, node and tensor.
    """

    recorder: Recorder
    pending: dict[_Key, tuple[Route, Hold, set[tuple[int, ...]]]] = field(default_factory=dict)

    def touch(
        self, route: Route, hold: Hold, child: Hold, action: str, lane: Instance, box: Box | None, amount: float
    ) -> None:
        """A tile of `lane` of the child moves to or from a holder. Raises NotSupportedError for a part of a tile."""
        if not amount:
            return
        lines = _whole(route, hold, box, amount)
        at = route.outward(lane, child.level, hold.level)
        group = group_of(route, hold, lane, child.level)
        key = action, child.component.name, at, group, hold.address, hold.tensor
        self.pending.setdefault(key, (route, hold, set()))[2].update(lines)

    def settle(self) -> None:
        """Count what is pending: the exchange is over."""
        for (action, child, instance, *_), (route, hold, lines) in self.pending.items():
            key = route.einsum.name, hold.component.name, hold.tensor, action
            self.recorder.lines(key, instance, len(lines), rounds_of(route, hold, lines), child)
        self.pending.clear()


def group_of(route: Route, hold: Hold, lane: Instance, level: int) -> Instance:
    """The part of a lane of a child at a level in which those differ that a holder does not serve together."""
    layout = layout_of(hold)
    if layout is None or not layout.together:
        return lane
    turns = [turn for turn in route.lane_turns if (turn.level or 0) <= level]
    return tuple(
        at
        for at, turn in zip(lane, turns, strict=True)
        if (turn.level or 0) <= hold.level or turn.dimension is None or hold.tensor not in turn.dimension.may_reuse
    )


def layout_of(hold: Hold) -> Layout | None:
    """How a tensor lies where it is held; None where values are moved one by one."""
    return hold.component.layouts.get(hold.tensor) if isinstance(hold.component, Memory) else None


def lines_of(route: Route, hold: Hold, box: Box) -> frozenset[tuple[int, ...]]:
    """The lines in which the values of a box lie."""
    layout = layout_of(hold)
    assert layout is not None
    ranks = (rank for rank, _ in route.einsum.by_tensor[hold.tensor].projection)
    block_of = dict(zip(ranks, layout.block, strict=True))
    return _lines(box, tuple(block_of[rank] for rank in route.ranks[hold.tensor]))


def rounds_of(route: Route, hold: Hold, lines: Iterable[tuple[int, ...]]) -> int:
    """How many of some lines lie in the bank that has most of them; all of them without banks."""
    layout, every = layout_of(hold), list(lines)
    assert layout is not None
    if not layout.banks:
        return len(every)
    ranks = (rank for rank, _ in route.einsum.by_tensor[hold.tensor].projection)
    step_of = dict(zip(ranks, layout.steps, strict=True))
    steps = [step_of[rank] for rank in route.ranks[hold.tensor]]
    banks = Counter(sum(i * step for i, step in zip(line, steps, strict=True)) % layout.banks for line in every)
    return max(banks.values(), default=0)


@cache
def _lines(box: Box, block: tuple[int, ...]) -> frozenset[tuple[int, ...]]:
    """The lines in which the values of a box lie, by their number along each rank."""
    if not box:
        return frozenset({()})
    indices = np.stack(np.meshgrid(*(np.arange(low, high) for low, high in box), indexing="ij"), axis=-1)
    return frozenset(map(tuple, (indices.reshape(-1, len(box)) // np.array(block)).tolist()))
