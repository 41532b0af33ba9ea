"""Given loops of one gap, as conditions on the tile shapes before and after it.

The order of the loops of a gap does not matter for costs, so that a gap is described by its loops alone: which rank
variables may have one, and which tile shapes they must pass. Where space is reserved below the loops that follow a
node, it matters at which given loop that ends: then a gap has a variant for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import TypeGuard

from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.given.alignment import Gap, GapToken
from einmap.mapper.given.lane_rule import GivenLanes, LaneRule, Row
from einmap.mapper.given.pattern import Free, GivenLoop
from einmap.mapper.mapspace.tile_lattice import Lattice

type Positions = tuple[tuple[int, tuple[int, ...]], ...]
"""Axes with the positions that are allowed on them; axes that are not listed are free."""

NOT_PASSED, BEST, PASSED, FIXED = 0, 1, 2, 3
"""How far a loop lowers the space of the node above: not, the best one of these, to its end, to position - FIXED."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One gap: `tokens` in order; `axes` that may have temporal loops; what is allowed `before` its loops, `after` the
    temporal ones and, by `lanes`, below all; `passed`: for each axis how far it lowers the space of the node above.
    """

    tokens: Gap
    axes: tuple[int, ...]
    before: Positions
    after: Positions
    lanes: LaneRule
    passed: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Slots:
    """Makes the slots of gaps. `numbers`: position of each dimension in the table of lanes."""

    lattice: Lattice
    numbers: dict[tuple[str, str], int]

    def of(
        self,
        gap: Gap,
        axes: Sequence[int],
        dimensions: tuple[tuple[int, int], ...],
        lowered: Sequence[Relevance] | None,
    ) -> Iterator[Slot]:
        """The variants of a gap in which `axes` may have loops; none where what is given cannot be.

        `dimensions`: those of the lanes that stand there, with levels; `lowered`: relevance of each axis to the node
        above where its space is reserved below the loops.
        """
        for split in (split for used in _with_lanes(gap) for split in self.splits(used, bool(dimensions))):
            if lowered is None:
                slot = self.slot(split, axes, dimensions, None, 0)
                if slot is not None:
                    yield slot
                continue
            for end in self.ends(split, lowered):
                slot = self.slot(end.tokens, axes, dimensions, lowered, end.stop)
                if slot is not None:
                    yield replace(slot, before=(*slot.before, *end.before), passed=end.passed)

    def splits(self, gap: Gap, lanes: bool) -> Iterator[Gap]:
        """The gap with the last temporal loops of each variable as they are, or of one iteration below its lanes."""
        temporal: dict[str, list[int]] = {}
        spatial = {t.variable: i for i, t in reversed([*enumerate(gap)]) if isinstance(t, GivenLoop) and t.dimension}
        for i, token in enumerate(gap):
            if isinstance(token, GivenLoop) and token.dimension is None:
                temporal.setdefault(token.variable, []).append(i)
        if not lanes and not spatial:
            yield gap
            return
        for kept in product(*(range(len(places) + 1) for places in temporal.values())):
            absent = [i for places, n in zip(temporal.values(), kept, strict=True) for i in places[n:]]
            if all(i in absent or i < spatial.get(v, len(gap)) for v, places in temporal.items() for i in places):
                yield tuple(_absent(t) if i in absent else t for i, t in enumerate(gap))

    def axis(self, token: GapToken) -> int | None:
        """The axis of a given loop."""
        return self.lattice.axis_of[token.variable] if isinstance(token, GivenLoop) else None

    def slot(
        self,
        gap: Gap,
        axes: Sequence[int],
        dimensions: tuple[tuple[int, int], ...],
        lowered: Sequence[Relevance] | None,
        stop: int,
    ) -> Slot | None:
        """The gap as conditions; None where the given tile shapes do not stand inside each other."""
        open_axes, before, after = [], [], []
        rows: list[tuple[int, Row]] = []
        for a, axis in enumerate(self.lattice.axes):
            temporal, spatial = self.parts(gap, a, lowered, stop)
            if temporal and a in axes:
                open_axes.append(a)
            shapes = [t.shape for t in temporal if isinstance(t, GivenLoop) and t.shape is not None]
            if shapes:
                if any(outer % inner for outer, inner in pairwise(shapes)):
                    return None
                before.append((a, _where(axis.sizes, lambda s, first=shapes[0]: s % first == 0)))
                last, token = shapes[-1], temporal[-1]
                exact = isinstance(token, GivenLoop) and token.shape is not None
                after.append((a, _where(axis.sizes, lambda s, e=exact, x=last: s == x if e else x % s == 0)))
            if spatial != (None,):
                rows.append((a, spatial))
        return Slot(gap, tuple(open_axes), tuple(before), tuple(after), LaneRule(dimensions, tuple(rows)))

    def parts(self, gap: Gap, axis: int, lowered: Sequence[Relevance] | None, stop: int) -> tuple[list[GapToken], Row]:
        """Given temporal loops of one axis, and for its lanes, which stand below them.

        No lanes are inserted before `stop`.
        """
        of_axis = [i for i, t in enumerate(gap) if self.axis(t) == axis]
        end = min((i for i in of_axis if not _is_temporal(gap[i])), default=len(gap))
        begin = max((i for i in of_axis if _is_temporal(gap[i])), default=-1)
        above: list[GapToken] = []
        row: list[GivenLanes | None] = []
        for i, token in enumerate(gap):
            if isinstance(token, Free):
                full = not token.full_only or (lowered and lowered[axis] is Relevance.FULL)
                if i < end and token.temporal and full:
                    above.append(token)
                # one free place is as good as several next to each other
                if i > begin and i >= stop and (not row or row[-1] is not None):
                    row.append(None)
            elif i in of_axis and token.dimension is None:
                above.append(token)
            elif i in of_axis and token.dimension is not None:
                row.append(GivenLanes(self.numbers.get(token.dimension, -1), token.shape))
        return above, tuple(row)

    # where space is reserved below loops

    def ends(self, gap: Gap, relevance: Sequence[Relevance]) -> Iterator[_End]:
        """The places where lowering may end: at a free place, at a given loop that it does not pass, or not at all.

        Loops that it passes by without lowering must have one iteration, so they are left out.
        """
        tokens: list[GapToken] = list(gap)
        passed = [NOT_PASSED] * len(relevance)
        equal: list[tuple[int, tuple[int, ...]]] = []
        for i, token in enumerate(gap):
            stop = len(_left(tokens[:i]))
            if isinstance(token, Free) and not token.temporal:
                # only lanes may end it here
                yield _End(_left(tokens), tuple(equal), tuple(passed), stop)
                continue
            if isinstance(token, Free):
                for a, kind in enumerate(relevance):
                    if kind is Relevance.FULL:
                        passed[a] = self.reached(gap[i + 1 :], a)
                best = [kind is Relevance.PARTIAL and self.reached(gap[i + 1 :], a) == PASSED
                        for a, kind in enumerate(relevance)]  # fmt: skip
                ends = [BEST if best[a] else to for a, to in enumerate(passed)]
                yield _End(_left(tokens), tuple(equal), tuple(ends), stop)
                tokens[i] = Free(full_only=True)
                continue
            if token.dimension is not None:
                if token.dimension == _NOWHERE:
                    continue
                yield _End(_left(tokens), tuple(equal), tuple(passed), stop)
                return
            axis = self.lattice.axis_of[token.variable]
            ends = list(passed)
            if relevance[axis] is not Relevance.NONE:
                ends[axis] = self.reached(gap[i:], axis)
            if relevance[axis] is Relevance.FULL:
                passed = ends
                continue
            yield _End(_left(tokens), tuple(equal), tuple(ends), stop + 1)
            tokens[i] = _LEFT_OUT
            if token.shape is not None:
                equal.append((axis, (self.lattice.axes[axis].sizes.index(token.shape),)))
        if not gap or not isinstance(gap[-1], Free):
            # a last free place has been an end already, where more is allowed
            yield _End(_left(tokens), tuple(equal), tuple(passed), len(_left(tokens)))

    def reached(self, rest: Sequence[GapToken], axis: int) -> int:
        """How far the loops of an axis may go before the rest of the gap: to the next tile shape that is given."""
        for token in rest:
            given = isinstance(token, GivenLoop) and token.dimension is None and self.axis(token) == axis
            if given and isinstance(token, GivenLoop) and token.shape is not None:
                return FIXED + self.lattice.axes[axis].sizes.index(token.shape)
        return PASSED


@dataclass(frozen=True, slots=True)
class _End:
    """A gap with the end of lowering: tile shapes needed `before`, what is `passed`, no lanes before token `stop`."""

    tokens: Gap
    before: Positions
    passed: tuple[int, ...]
    stop: int


_NOWHERE = ("", "")
"""The dimension of loops of one iteration below the lanes of their variable."""


def _absent(token: GapToken) -> GapToken:
    assert isinstance(token, GivenLoop)
    return replace(token, dimension=_NOWHERE)


_LEFT_OUT = GivenLoop("", None)


def _with_lanes(gap: Gap) -> Iterator[Gap]:
    """The gap with and without each open loop over lanes below which temporal loops may stand: it may be absent."""
    for i, token in enumerate(gap):
        if isinstance(token, GivenLoop) and token.dimension is not None and token.shape is None:
            rest = gap[i + 1 :]
            free = any(isinstance(t, Free) and t.temporal for t in rest)
            if free or any(_is_temporal(t) and t.variable == token.variable for t in rest):
                yield from (gap[:i] + other for other in _with_lanes(rest))
            yield from ((*gap[: i + 1], *other) for other in _with_lanes(rest))
            return
    yield gap


def _left(tokens: Sequence[GapToken]) -> Gap:
    return tuple(t for t in tokens if t is not _LEFT_OUT)


def _is_temporal(token: GapToken) -> TypeGuard[GivenLoop]:
    return isinstance(token, GivenLoop) and token.dimension is None


def _where(sizes: Sequence[int], holds: object) -> tuple[int, ...]:
    assert callable(holds)
    return tuple(i for i, s in enumerate(sizes) if holds(s))
