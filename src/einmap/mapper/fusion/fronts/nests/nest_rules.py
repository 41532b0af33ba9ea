"""Rules of the outer nests of one search: how many loops there may be, and the space that nodes take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from einmap.arch.component import Memory
from einmap.arrays import Floats
from einmap.mapper.branch_and_bound.path_search import PathSearch, TemplateTables
from einmap.mapper.fusion.fronts.nests.loops import TEMPORAL, Loop, orders_of, rank_cut
from einmap.mapper.fusion.fronts.nests.turns import NestNode
from einmap.mapper.given.order import is_like
from einmap.mapper.given.pattern import GivenLoop
from einmap.mapper.mapspace.tile_lattice import rank_of
from einmap.mapper.problem.request import Steps, Waiting
from einmap.mapper.templates.chain_template import Held

TOKEN = ""
"""In place of the memory that has the token of a recurrence."""


class Reservation(NamedTuple):
    """Space that a node of an outer nest takes: `bits` in a memory (by its number), below `depth` loops."""

    memory: int
    bits: float
    depth: int


@dataclass(frozen=True, eq=False)
class NestRules:
    """Rules of the outer nests of one search, whose tables are filled.

    `most`, `most_per_axis`: fused loops, beside that over the steps of a recurrence. `joint`, `wider`, `waiting`,
    `steps`, `made`, `awaited`: see Request. `apart`: each tile shape of a fused loop is at least so many times the next
    smaller one, and the loops of a gap stand in one order alone; at 1 all are looked at.
    """

    search: PathSearch
    shared: frozenset[str]
    most: float
    most_per_axis: float
    joint: frozenset[str]
    wider: Mapping[str, Fraction]
    waiting: Waiting
    steps: Steps | None = None
    made: frozenset[str] = frozenset()
    awaited: frozenset[tuple[str, str]] = frozenset()
    apart: int = 1
    costs: dict[tuple[int, int, int], Floats] = field(default_factory=dict, init=False)
    """Costs of nodes that were asked for, by row of coefficients, tensor and point."""
    _placed: dict[tuple[int, int, int, int], Reservation] = field(default_factory=dict, init=False)
    _steps: dict[tuple[int, int, int], int | None] = field(default_factory=dict, init=False)
    """For an axis, a position and a factor how far away the point is whose tile shape is divided by the factor."""

    def orders(
        self, compiled: TemplateTables, i: int, above: Sequence[Loop], loops: tuple[Loop, ...]
    ) -> Iterator[tuple[Loop, ...]]:
        """The loops of the gap that ends at a level, below those `above`, in every order, or as they are given."""
        if compiled.plan.steps[0].given is None:
            yield from orders_of(loops) if self.apart == 1 else (loops,)
            return
        slot = compiled.plan.steps[sum(level.last for level in compiled.levels[:i])].given
        assert slot is not None
        shapes = {variable: bound for axis in self.search.lattice.axes for variable, bound in axis.members}
        shapes |= {loop.variable: loop.inner for loop in above}
        for order in orders_of(loops):
            given = [GivenLoop(lp.variable, lp.inner, None if lp.kind == TEMPORAL else lp.kind) for lp in order]
            if is_like(slot.tokens, given, shapes):
                yield order

    @cached_property
    def bits(self) -> dict[tuple[int, int], tuple[int, float]]:
        """For a memory (by its level) and a tensor: the memory's number, and bits for each value."""
        bits = {}
        for number, level in enumerate(self.search.memories):
            memory = self.search.leaves[level]
            assert isinstance(memory, Memory)
            for t, tensor in enumerate(self.search.tensors):
                bits[level, t] = number, memory.bits[tensor]
        return bits

    @cached_property
    def positions(self) -> list[dict[int, int]]:
        """For each axis the position of each tile shape."""
        return [{size: i for i, size in enumerate(axis.sizes)} for axis in self.search.lattice.axes]

    @cached_property
    def _strides(self) -> list[tuple[int, int]]:
        """For each axis how far points are apart that differ by one position, and how many positions there are."""
        lattice = self.search.lattice
        return list(zip(lattice.strides.tolist(), map(int, lattice.radices), strict=True))

    def lowered(self, axis: int, point: int, factor: int) -> int:
        """The point at which the tile shape of an axis is divided by `factor`; -1 where a coarser choice has none."""
        stride, radix = self._strides[axis]
        here = point // stride % radix
        key = axis, here, factor
        if key not in self._steps:
            position = self.positions[axis].get(self.search.lattice.axes[axis].sizes[here] // factor)
            self._steps[key] = None if position is None else (position - here) * stride
        step = self._steps[key]
        return -1 if step is None else point + step

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each tensor."""
        return {tensor: t for t, tensor in enumerate(self.search.tensors)}

    @cached_property
    def below(self) -> dict[int, frozenset[str]]:
        """For each shared tensor the rank variables whose loops in time stand below its outermost node alone."""
        awaited = {tensor for tensor, _ in self.awaited}
        return {
            t: frozenset(v for v in access.by_rank if (access.tensor, rank_of(access, v)) in self.awaited)
            for t, access in enumerate(self.search.einsum.accesses)
            if access.tensor in awaited
        }

    @cached_property
    def ranks(self) -> dict[tuple[int, str], str]:
        """For each tensor and rank variable the rank that loops over the variable cut."""
        einsum = self.search.einsum
        return {(t, v): rank_cut(access, v) for v in einsum.rank_variables for t, access in enumerate(einsum.accesses)}

    def placed(self, t: int, level: int, point: int, depth: int) -> Reservation:
        """The space of a tensor's tile in a memory, below some loops."""
        key = t, level, point, depth
        if key not in self._placed:
            number, bits = self.bits[level, t]
            self._placed[key] = Reservation(number, float(self.search.values[t, point]) * bits, depth)
        return self._placed[key]

    def whole(self, t: int, level: int) -> Reservation:
        """The space of a whole tensor in the outermost memory."""
        number, bits = self.bits[level, t]
        values = float(self.search.values[t, self.search.lattice.top])
        return Reservation(number, self.search.stored(self.search.tensors[t], values) * bits, 0)

    def common(self, t: int, level: int, point: int, loops: Sequence[Loop]) -> Reservation:
        """The space of a shared tensor's outermost node below some loops, with what its other users need there."""
        space, tensor = self.placed(t, level, point, len(loops)), self.search.tensors[t]
        handed_on = self.steps is not None and tensor in self.steps.states and self.has_steps(loops)
        factor = self.steps.states[tensor] if self.steps is not None and handed_on else self.wider.get(tensor)
        return space if factor is None else space._replace(bits=float(Fraction(space.bits) * factor))

    def has_steps(self, loops: Sequence[Loop]) -> bool:
        """Whether the loop over the steps of a recurrence is among some."""
        return self.steps is not None and any(loop.variable == self.steps.variable for loop in loops)

    def hands_on(self, t: int, loops: Sequence[Loop]) -> bool:
        """Whether nothing stands between the loop over steps and the outermost node of a tensor, if that is a state."""
        is_state = self.steps is not None and self.search.tensors[t] in self.steps.states
        return not is_state or not self.has_steps(loops) or self.has_steps(loops[-1:])

    def memory_of(self, t: int, level: int) -> str:
        """The memory of an outermost node as other Einsums see it: which one it is matters of no token."""
        is_token = self.steps is not None and self.search.tensors[t] == self.steps.token
        return TOKEN if is_token else self.search.leaves[level].name

    def fetches_too_early(self, nodes: Iterable[NestNode], fused: int) -> bool:
        """Whether rows of a table are held above fused loops, below which another Einsum may make their indices."""
        seen: set[str] = set()
        for node in nodes:
            if node.tensor in seen and node.depth < fused and node.tensor in self._waits_for_indices:
                return True
            seen.add(node.tensor)
        return False

    @cached_property
    def _waits_for_indices(self) -> frozenset[str]:
        """Tables of which rows are looked up in tensors that other Einsums make."""
        gathers = self.search.einsum.gathers
        return frozenset(a.tensor for a in gathers if any(i.tensor in self.made for i in a.lookups.values()))

    def backs(self, node: Held | None) -> bool:
        """Whether a node is the outermost one of a shared tensor."""
        return node is not None and node.backing and node.tensor in self.shared
