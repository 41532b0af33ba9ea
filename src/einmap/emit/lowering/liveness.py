"""When results are there: which exchanges of partial results happen, and which lanes take part.

An element of an output is *live* in a buffer once a result for it has come in. Where each index of the output is one
rank variable, tiles do not overlap, so that a whole tile is live or not: it is live from the second iteration of any
loop that does not index the output. Elsewhere the code keeps a flag for each element.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from einmap.arch.component import Memory
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.spaces.projection import Relevance
from einmap.einsum.spaces.space import parse_constraint
from einmap.emit.language.linear import Linear, named
from einmap.emit.language.program import ALWAYS, NEVER, All, Any, Condition, Is, Within
from einmap.emit.lowering.tile_boxes import memories
from einmap.mapping.nodes import Address
from einmap.schedule.routes import Hold, Route, Turn, chain_to_memory

_INNERMOST = 1 << 40


@dataclass(frozen=True)
class Link:
    """The way from a buffer (None: the Compute) to the next memory outward; lanes of `merged` share a copy."""

    inner: Hold | None
    outer: Hold
    merged: tuple[Turn, ...]


def link_of(route: Route, tensor: str, inner: Hold | None) -> Link:
    """The exchange partner of a buffer."""
    level = route.unit_level if inner is None else inner.level
    chain = chain_to_memory(route, tensor, inner)
    merged = route.merged_between(tensor, level, [h.level for h in chain])[-1]
    lanes = [t for t in route.lane_turns if t.level is not None and t.level <= level]
    return Link(inner, chain[-1], tuple(lanes[i] for i in merged))


@dataclass(frozen=True)
class Liveness:
    """Conditions of one Einsum, in terms of its loop indices."""

    route: Route
    index_of: Mapping[Address, str]

    def first_lane(self, link: Link) -> Condition:
        """The lane that takes part for its merged group."""
        return both(*(Is(named(self.index_of[t.address]), "zero") for t in link.merged))

    def at_start(self, tensor: str, link: Link) -> Condition:
        """Whether what `link.inner` takes from `link.outer` is live there; for an operation with `inner` None."""
        outer, inner = link.outer, link.inner
        position = _INNERMOST if inner is None else inner.position
        level = self.route.unit_level if inner is None else inner.level
        loops = []
        for turn in self.route.turns:
            if self.route.iterations[turn.address] == 1 or not self._is_irrelevant(tensor, turn):
                continue
            if turn.level is None:
                is_between = self._begins(tensor, outer) < turn.position < position
            else:
                is_between = outer.level < turn.level <= level and turn not in link.merged
            if is_between:
                loops.append(Is(named(self.index_of[turn.address]), "positive"))
        return either(*loops, self._filled(tensor, outer))

    def _begins(self, tensor: str, hold: Hold) -> int:
        """The outermost holder keeps results over the loops above it, too."""
        return -1 if hold == memories(self.route, tensor)[0] else hold.position

    def _filled(self, tensor: str, hold: Hold) -> Condition:
        """Whether the tile of a buffer was live when its visit began."""
        if hold == memories(self.route, tensor)[0]:
            return NEVER
        link = link_of(self.route, tensor, hold)
        return both(self.first_lane(link), self.at_start(tensor, link))

    def _is_irrelevant(self, tensor: str, turn: Turn) -> bool:
        return self.route.einsum.by_tensor[tensor].relevance(turn.variable) is Relevance.NONE

    def lanes_take_turns(self, tensor: str, link: Link) -> bool:
        """Whether several lanes of one parent hold the same elements without being merged."""
        level = self.route.unit_level if link.inner is None else link.inner.level
        return any(
            turn.level is not None
            and link.outer.level < turn.level <= level
            and turn not in link.merged
            and self.route.einsum.by_tensor[tensor].relevance(turn.variable) is not Relevance.FULL
            for turn in self.route.lane_turns
        )

    def skips(self, link: Link) -> bool:
        """Whether an exchange of elements without a result is not made."""
        inner = self.route.unit if link.inner is None else link.inner.component
        outer = link.outer.component
        assert isinstance(outer, Memory)
        return bool(getattr(inner, "skip_initial_output_write", True)) and outer.skip_initial_output_write


def tiles_overlap(access: TensorAccess) -> bool:
    """Whether tiles of different iterations may share elements."""
    return any(len(index.terms) > 1 for _, index in access.projection)


def covers_tiles(einsum: Einsum, access: TensorAccess) -> bool:
    """Whether every element of a tile's box is written."""
    if einsum.cuts:
        return False
    seen: set[str] = set()
    for _, index in access.projection:
        for variable, a in index.terms:
            if len(index.terms) > 1 or (abs(a) != 1 and einsum.extents[variable] > 1) or variable in seen:
                return False
            seen.add(variable)
    return True


def both(*conditions: Condition) -> Condition:
    """The condition that all of `conditions` hold, simplified."""
    parts: dict[Condition, None] = {}
    for condition in conditions:
        if condition == NEVER:
            return NEVER
        for part in condition.parts if isinstance(condition, All) else (condition,):
            parts[part] = None
    return next(iter(parts)) if len(parts) == 1 else All(tuple(parts))


def within(einsum: Einsum, values: Mapping[str, Linear]) -> Condition:
    """Whether a point, here of these values of the rank variables, is in the iteration space."""
    constraints = [parse_constraint(text) for text in einsum.cuts]
    return both(*(Within(one, tuple((v, values[v]) for v in sorted(one.names))) for one in constraints))


def either(*conditions: Condition) -> Condition:
    """The condition that one of `conditions` holds, simplified."""
    parts: dict[Condition, None] = {}
    for condition in conditions:
        if condition == ALWAYS:
            return ALWAYS
        for part in condition.parts if isinstance(condition, Any) else (condition,):
            parts[part] = None
    return next(iter(parts)) if len(parts) == 1 else Any(tuple(parts))
