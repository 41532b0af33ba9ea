"""Rules of the outer nests of one search: how many loops there may be, and the space that nodes take."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from einmap.arrays import Bools, Ints
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.branch_and_bound.path_search import PathSearch
from einmap.mapper.fusion.fronts.nests.gap_kernels import SIZES
from einmap.mapper.fusion.fronts.nests.loops import TEMPORAL, Kind, Loop, rank_cut, shapes_left
from einmap.mapper.fusion.fronts.nests.met_loops import MetLoops
from einmap.mapper.fusion.fronts.nests.signatures import SignatureStore
from einmap.mapper.mapspace.lanes.spatial_mappings import routed_components
from einmap.mapper.mapspace.tile_lattice import rank_of
from einmap.mapper.problem.request import Request, Steps
from einmap.mapper.templates.chain_template import Held

TOKEN = ""
"""In place of the memory that has the token of a recurrence."""
NO_LIMIT = 2**40
"""Loops, where there may be as many as there are."""
RELEVANCE = {Relevance.NONE: 0, Relevance.PARTIAL: 1, Relevance.FULL: 2}


class Reservation(NamedTuple):
    """Space that a node of an outer nest takes: `bits` in a memory (by its number), below `depth` loops."""

    memory: int
    bits: float
    depth: int


class LoopNames(NamedTuple):
    """Kinds of loops by number; axis, name and bound of variables."""

    kinds: list[Kind]
    variables: list[tuple[int, str, int]]

    def loop(self, kind: int, variable: int, outer: int, inner: int) -> Loop:
        """A loop, by the numbers that it has in kernels."""
        axis, name, _ = self.variables[variable]
        return Loop(self.kinds[kind], axis, name, outer, inner)


@dataclass(frozen=True, eq=False)
class NestRules:
    """Rules of the outer nests of one search, whose tables are filled.

    `most`, `most_per_axis`: fused loops, beside that over the steps of a recurrence. `apart`: each tile shape of a
    fused loop is at least so many times the next smaller one, and the loops of a gap stand in one order alone; at 1 all
    are looked at.
    """

    search: PathSearch
    request: Request
    most: float
    most_per_axis: float
    apart: int = 1
    signatures: SignatureStore = field(default_factory=SignatureStore)
    """Signatures that this search has so far, for whatever rules."""
    _met: dict[MetLoops, tuple[Any, ...]] = field(default_factory=dict, init=False)

    @property
    def shared(self) -> frozenset[str]:
        """Tensors that other Einsums use."""
        return self.request.shared

    @property
    def steps(self) -> Steps | None:
        """The steps of a recurrence; see Request."""
        return self.request.steps

    @cached_property
    def variables(self) -> list[tuple[int, str, int]]:
        """Rank variables that may have loops, by number: axis, name, bound."""
        axes = enumerate(self.search.lattice.axes)
        return [(a, variable, bound) for a, axis in axes for variable, bound in axis.members]

    @cached_property
    def kinds(self) -> list[Kind]:
        """Kinds of loops by number; temporal ones have the first."""
        lanes = ((fanned.component, fanned.dimension.name) for fanned in self.search.lanes.dimensions)
        return list(dict.fromkeys((TEMPORAL, *lanes)))

    @cached_property
    def ranks(self) -> list[list[str]]:
        """For each tensor and variable, by number, the rank that loops over the variable cut."""
        return [[rank_cut(access, v) for _, v, _ in self.variables] for access in self.search.einsum.accesses]

    @cached_property
    def rank_numbers(self) -> dict[str, int]:
        """Numbers of all ranks."""
        return {rank: n for n, rank in enumerate(dict.fromkeys(r for of in self.ranks for r in of))}

    @cached_property
    def of_variables(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """First variable of each axis, and the end; axis of each; rank by tensor; kinds; relevance by tensor and axis.

        Of kinds: whether they are of a network, and the number of the component's level.
        """
        search, numbers = self.search, self.rank_numbers
        begins = np.cumsum([0, *(len(axis.members) for axis in search.lattice.axes)])
        levels = {leaf.name: i for i, leaf in enumerate(search.leaves)}
        routed = routed_components(search.leaves)
        kinds = [(kind[0] in routed, levels.get(kind[0], -1)) for kind in self.kinds]
        relevance = [[RELEVANCE[r] for r in search.pricer.axis_relevance[t]] for t in search.tensors]
        ranks = [[numbers[rank] for rank in of] for of in self.ranks]
        axes, tensors = len(search.lattice.axes), len(search.tensors)
        return (
            _whole(begins), _whole([a for a, _, _ in self.variables]), _whole(ranks).reshape(tensors, -1),
            _whole(kinds), _whole(relevance).reshape(tensors, axes),
        )  # fmt: skip

    @cached_property
    def of_sizes(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Tile shapes that the variables may have: where those of each begin, all, and those that loops leave of each.

        The last two: where the list of each tile shape begins, and numbers of tile shapes.
        """
        starts, sizes, begins, below = [0], list[int](), [0], list[int]()
        for a, _, bound in self.variables:
            axis = self.search.lattice.axes[a]
            own = axis.sizes if len(axis.members) == 1 else sorted({*shapes_left(bound, 1), bound})
            number = {size: len(sizes) + n for n, size in enumerate(own)}
            for size in own:
                below += [number[shape] for shape in shapes_left(size, self.apart) if shape in number]
                begins.append(len(below))
            sizes += own
            starts.append(len(sizes))
        return _whole(starts), _whole(sizes), _whole(begins), _whole(below)

    @cached_property
    def lanes(self) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
        """Lanes as kernels know them: children of prefixes, how they divide tile shapes, and the loops of each prefix.

        A row for each loop over the lanes of the fanout that a prefix adds: kind, axis, lanes.
        """
        search, prefixes = self.search, self.search.prefixes
        numbers, counts, rows = {kind: n for n, kind in enumerate(self.kinds)}, [], []
        for r, table in enumerate(prefixes.tables):
            of_fanout = [d for d, of in enumerate(table.dimensions) if r and of.level == search.fanouts[r - 1]]
            kinds = _whole(
                [numbers[table.dimensions[d].component, table.dimensions[d].dimension.name] for d in of_fanout]
            )
            orders = table.orders[:, of_fanout]
            bounds = np.take_along_axis(table.bounds[:, of_fanout], orders, axis=2)
            use, d, _ = np.nonzero(bounds > 1)
            counts.append(np.bincount(use, minlength=len(table)))
            rows.append(np.stack([kinds[d], orders[bounds > 1], bounds[bounds > 1]], axis=1))
        starts = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
        return (
            search.child_start, search.children, search.divides, search.quotients, _whole(starts),
            _whole(np.concatenate(rows)).reshape(-1, 3),
        )  # fmt: skip

    @cached_property
    def limits(self) -> Ints:
        """Limits as `nest_kernels` has them."""
        steps = -1 if self.steps is None else self.numbers_of_variables[self.steps.variable]
        left = -1 if steps < 0 else int(self.of_sizes[0][steps])
        most = min(self.most + (self.steps is not None), NO_LIMIT)
        return _whole([most, min(self.most_per_axis, NO_LIMIT), steps, left, self.apart != 1])

    @cached_property
    def numbers_of_variables(self) -> dict[str, int]:
        """The number of each rank variable."""
        return {variable: n for n, (_, variable, _) in enumerate(self.variables)}

    @cached_property
    def outside(self) -> Bools:
        """Variables whose loops may stand above that over the steps of a recurrence."""
        outside = None if self.steps is None else self.steps.outside
        return np.array([outside is None or v in outside for _, v, _ in self.variables], dtype=bool)

    @cached_property
    def hidden(self) -> Bools:
        """For each tensor the variables whose loops in time stand below its outermost node alone."""
        awaited = self.request.awaited
        return np.array([
            [v in a.by_rank and (a.tensor, rank_of(a, v)) in awaited for _, v, _ in self.variables]
            for a in self.search.einsum.accesses
        ], dtype=bool).reshape(len(self.search.tensors), -1)  # fmt: skip

    def met(self, met: MetLoops) -> tuple[Any, ...]:
        """The keys that others can meet, as trees: see `nest_kernels.outer_nests`."""
        if met not in self._met:
            self._met[met] = self._trees(met)
        return self._met[met]

    def _trees(self, met: MetLoops) -> tuple[Any, ...]:
        kinds, ranks = {kind: n for n, kind in enumerate(self.kinds)}, self.rank_numbers
        edges, ends, roots = list[dict[int, int]](), list[bool](), list[int]()
        of_tensor = _whole([-1] * len(self.search.tensors))
        starts, sizes = self.of_sizes[:2]
        allowed = np.zeros((len(met.keys), len(sizes)), dtype=bool)
        for m, (t, keys) in enumerate(met.keys.items()):
            of_tensor[t] = m
            roots.append(len(edges))
            edges.append({})
            ends.append(False)
            for key in keys:
                node = roots[-1]
                for kind, rank, size in key:
                    # what this Einsum cannot have nothing of it meets
                    if kind not in kinds or rank not in ranks or size >= SIZES:
                        break
                    code = (kinds[kind] * len(ranks) + ranks[rank]) * SIZES + size
                    if code not in edges[node]:
                        edges[node][code] = len(edges)
                        edges.append({})
                        ends.append(False)
                    node = edges[node][code]
                else:
                    ends[node] = True
            cuts = met.cuts[t]
            for v, rank in enumerate(self.ranks[t]):
                of_rank = {size for kind, cut, size in cuts if kind == TEMPORAL and cut == rank}
                begin, end = starts[v], starts[v + 1]
                allowed[m, begin:end] = [size in of_rank for size in sizes[begin:end].tolist()]
        codes = [sorted(of.items()) for of in edges]
        flat = [edge for of in codes for edge in of]
        begins = np.cumsum([0, *map(len, codes)])
        return (
            of_tensor, _whole(begins), _whole([code for code, _ in flat]), _whole([child for _, child in flat]),
            np.array(ends, dtype=bool), _whole(roots), allowed, len(ranks),
        )  # fmt: skip

    @cached_property
    def bits(self) -> dict[tuple[int, int], tuple[int, float]]:
        """For a memory (by its level) and a tensor: the memory's number, and bits for each value."""
        bits = {}
        for number, level in enumerate(self.search.memories):
            for t, tensor in enumerate(self.search.tensors):
                bits[level, t] = number, self.search.bits_outside(level, tensor)
        return bits

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each tensor."""
        return {tensor: t for t, tensor in enumerate(self.search.tensors)}

    def whole(self, t: int, level: int) -> Reservation:
        """The space of a whole tensor in the outermost memory."""
        number, bits = self.bits[level, t]
        values = float(self.search.sizes[t])
        return Reservation(number, self.search.stored(self.search.tensors[t], values) * bits, 0)

    def common(self, t: int, level: int) -> Reservation:
        """The space of a shared tensor in the outermost memory, with what its other users need there."""
        number, bits = self.bits[level, t]
        times = self.wider(t)
        return Reservation(number, float(self.search.sizes[t]) * bits * times.numerator / times.denominator, 0)

    def wider(self, t: int, *, in_steps: bool = False) -> Fraction:
        """How much more room a shared tensor takes, with what others need; `in_steps`: below those of a recurrence."""
        tensor = self.search.tensors[t]
        if in_steps and self.steps is not None and tensor in self.steps.states:
            return self.steps.states[tensor]
        return self.request.wider.get(tensor, Fraction(1))

    def is_state(self, t: int) -> bool:
        """Whether a tensor is a state of a recurrence: nothing stands between the loop over steps and its node."""
        return self.steps is not None and self.search.tensors[t] in self.steps.states

    def memory_of(self, t: int, level: int) -> str:
        """The memory of an outermost node as other Einsums see it: which one it is matters of no token."""
        is_token = self.steps is not None and self.search.tensors[t] == self.steps.token
        return TOKEN if is_token else self.search.leaves[level].name

    @cached_property
    def waits_for_indices(self) -> frozenset[str]:
        """Tables of which rows are looked up in tensors that other Einsums make."""
        gathers, made = self.search.einsum.gathers, self.request.made
        return frozenset(a.tensor for a in gathers if any(i.tensor in made for i in a.lookups.values()))

    def backs(self, node: Held | None) -> bool:
        """Whether a node is the outermost one of a shared tensor."""
        return node is not None and node.backing and node.tensor in self.shared

    @cached_property
    def names(self) -> LoopNames:
        """Names of what loops have by number."""
        return LoopNames(self.kinds, self.variables)


def _whole(values: Any) -> Ints:
    """Integers as kernels take them."""
    return np.ascontiguousarray(values, dtype=np.int64)
