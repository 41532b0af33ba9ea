"""The cheapest way from one placement of a tensor to another: shortest paths over all of its placements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.hops.every import every_hop
from einmap.distribute.hops.hop import Hop
from einmap.distribute.placements.mesh import AxisName, Mesh
from einmap.distribute.placements.placement import MeshPart, Placement, Split, actual_values, values_of
from einmap.einsum.operation import Reduction
from einmap.einsum.spaces.projection import Rank
from einmap.progress import checkpoint

type HopCost = Callable[[Hop], float]
type Distances = NDArray[np.float64]

MAX_PLACEMENTS = 3000
"""Placements of one tensor that are told apart."""


@dataclass(frozen=True, slots=True)
class Route:
    """Hops from `start`, in order."""

    start: Placement
    hops: tuple[Hop, ...]

    @property
    def sent_values(self) -> int:
        """Values that all PEs together send."""
        return sum(hop.sent_values for hop in self.hops)


@dataclass(frozen=True)
class TensorPlaces:
    """All placements that a tensor may have on a mesh.

    `splits`: those of its ranks, closed under leaving out the last axes. `partial`: axes over which it may be an addend
    of the sum (or a candidate of the maximum or minimum, see `reduction`); `on`: parts of the mesh that may hold it
    alone, closed under leaving out axes. Raises ValueError where there are more than
    MAX_PLACEMENTS placements.
    """

    mesh: Mesh
    sizes: tuple[tuple[Rank, int], ...]
    splits: tuple[Split, ...]
    partial: tuple[AxisName, ...] = ()
    reduction: Reduction = "sum"
    on: tuple[MeshPart, ...] = ()

    @cached_property
    def placements(self) -> tuple[Placement, ...]:
        """Every combination of splits and of axes over which it is partial, the replicated one first."""
        ranks = [rank for rank, _ in self.sizes]
        made: list[Placement] = []
        for splits in self._combined(ranks, frozenset()):
            checkpoint()
            used = {axis for split in splits for axis in split.axes}
            free = [axis for axis in self.mesh.names if axis in self.partial and axis not in used]
            for length in range(len(free) + 1):
                for some in combinations(free, length):
                    made.append(Placement(splits, some, self.reduction))
                    made += [replace(made[-1], on=on) for on in self.on if not made[-1].used & {axis for axis, _ in on}]
            if len(made) > MAX_PLACEMENTS:
                raise ValueError(f"more than {MAX_PLACEMENTS:,} placements")
        return tuple(made)

    def _combined(self, ranks: Sequence[Rank], used: frozenset[AxisName]) -> Iterator[tuple[Split, ...]]:
        if not ranks:
            yield ()
            return
        first, *rest = ranks
        yield from self._combined(rest, used)
        for split in self.splits:
            if split.rank == first and not used & set(split.axes):
                for others in self._combined(rest, used | set(split.axes)):
                    yield (split, *others)

    @cached_property
    def bare(self) -> TensorPlaces:
        """These placements with the positions of ranks in the place of their names; placements keep their order."""
        names = {rank: str(position) for position, (rank, _) in enumerate(self.sizes)}
        sizes = tuple((names[rank], size) for rank, size in self.sizes)
        splits = tuple(replace(split, rank=names[split.rank]) for split in self.splits)
        return replace(self, sizes=sizes, splits=splits)

    @cached_property
    def number(self) -> Mapping[Placement, int]:
        """The position of each placement."""
        return {placement: position for position, placement in enumerate(self.placements)}

    @cached_property
    def values(self) -> NDArray[np.int64]:
        """Values of the buffer of one PE, for each placement."""
        sizes = dict(self.sizes)
        return np.array([values_of(sizes, placement) for placement in self.placements], dtype=np.int64)

    @cached_property
    def actual(self) -> Distances:
        """As `values`, without padding, on average over the PEs."""
        sizes = dict(self.sizes)
        return np.array([actual_values(self.mesh, sizes, placement) for placement in self.placements])

    @cached_property
    def hops(self) -> tuple[tuple[int, int, Hop], ...]:
        """All moves between them: from, to, and the move; slices send nothing."""
        made = []
        for here, hop in every_hop(self.mesh, dict(self.sizes), self.splits, self.placements):
            checkpoint()
            if hop.after in self.number:
                made.append((self.number[here], self.number[hop.after], hop))
        return tuple(made)


@dataclass(frozen=True, eq=False)
class Paths:
    """Shortest paths between all placements of a tensor. `distances[i, j]`: cost from placement i to j, inf: none.

    `moves`: the cheapest move between two placements and its cost, for each pair that one joins. `alike`: paths of a
    tensor that differs in the names of its ranks only; `moves` are its moves.
    """

    places: TensorPlaces
    distances: Distances
    moves: Mapping[tuple[int, int], tuple[Hop, float]]
    alike: Paths | None = None

    def renamed(self, places: TensorPlaces) -> Paths:
        """The paths of a tensor whose `places` differ in the names of its ranks only."""
        return Paths(places, self.distances, self.moves, self.alike or self)

    @cached_property
    def _after(self) -> tuple[NDArray[np.intp], ...]:
        """Where one move leads from each placement, those with the smallest buffers first."""
        after: list[list[int]] = [[] for _ in self.places.placements]
        for here, there in self.moves:
            after[here].append(there)
        values = self.places.values
        return tuple(np.array(sorted(some, key=lambda place: int(values[place])), dtype=np.intp) for some in after)

    def _through(self, here: int) -> NDArray[np.float64]:
        """The costs of the moves from `here`, in the order of `_after`."""
        return np.array([self.moves[here, int(there)][1] for there in self._after[here]])

    def route(self, start: int, end: int) -> Route:
        """The moves of the shortest path; of equal ones that with the smallest buffers after the first move. Raises
        ValueError where there is none.
        """
        if not np.isfinite(self.distances[start, end]):
            raise ValueError("there is no such path")
        hops = []
        here = start
        while here != end:
            best = (self._through(here) + self.distances[self._after[here], end]).argmin()
            after = int(self._after[here][best])
            hops.append(self._named(self.moves[here, after][0], after))
            here = after
        return Route(self.places.placements[start], tuple(hops))

    def _named(self, hop: Hop, after: int) -> Hop:
        """A move with the names of this tensor's ranks."""
        if self.alike is None:
            return hop
        names = {None: None} | dict(zip(_ranks(self.alike.places), _ranks(self.places), strict=True))
        return replace(hop, after=self.places.placements[after], gather=names[hop.gather], scatter=names[hop.scatter])

    @cached_property
    def following(self) -> NDArray[np.int32]:
        """The placement after `i` on the way to `j`, as `route` takes it."""
        if self.alike is not None:
            return self.alike.following
        count = len(self.distances)
        following = np.tile(np.arange(count, dtype=np.int32), (count, 1))
        for here, after in enumerate(self._after):
            if len(after):
                through = self._through(here)[:, None] + self.distances[after]
                following[here] = after[through.argmin(axis=0)]
        return following

    @cached_property
    def _incoming(self) -> _Arcs:
        return _Arcs.of((there, here, cost) for (here, there), (_, cost) in self.moves.items())

    @cached_property
    def _outgoing(self) -> _Arcs:
        return _Arcs.of((here, there, cost) for (here, there), (_, cost) in self.moves.items())

    def nearest_before(self, costs: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each placement j the least `costs[i] + distances[i, j]`, of an array over placements."""
        return (self.alike or self)._incoming.relaxed(costs)

    def nearest_after(self, costs: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each placement i the least `distances[i, j] + costs[j]`, of an array over placements."""
        return (self.alike or self)._outgoing.relaxed(costs)

    def temporary(self, start: NDArray[np.intp], end: NDArray[np.intp]) -> NDArray[np.int64]:
        """Values of the buffers of one PE while a tensor is moved between placements, pair by pair (the arrays are
        broadcast): most of what a move reads and writes. What lies at the start is not counted, it is there anyway.
        """
        return self._most(start, end, np.zeros_like(self.places.values))

    def held_while_moving(self, start: NDArray[np.intp], end: NDArray[np.intp]) -> NDArray[np.int64]:
        """As `temporary`, what lies at the start counted until the first move is done."""
        most = self._most(start, end, self.places.values)
        return np.where(start == end, self.places.values[start], most)

    def _most(self, start: NDArray[np.intp], end: NDArray[np.intp], first: NDArray[np.int64]) -> NDArray[np.int64]:
        """`first`: values that are held at the start, by placement. 0 where no way leads to the end."""
        starts, ends = np.broadcast_arrays(start, end)
        here, goal = starts.ravel(), ends.ravel()
        held, most = first[here], np.zeros(here.shape, dtype=np.int64)
        moving = np.nonzero((here != goal) & np.isfinite(self.distances[here, goal]))[0]
        here, goal, held = here[moving], goal[moving], held[moving]
        while len(moving):
            here = self.following[here, goal].astype(np.intp)
            after = self.places.values[here]
            most[moving] = np.maximum(most[moving], held + after)
            left = here != goal
            moving, here, goal, held = moving[left], here[left], goal[left], after[left]
        return most.reshape(starts.shape)


@dataclass(frozen=True, eq=False)
class _Arcs:
    """Moves by one of their ends. `ends`: placements with a move, ascending; `starts`: where the moves of each begin;
    `others`, `costs`: the other end and the cost of each move.
    """

    ends: NDArray[np.intp]
    starts: NDArray[np.intp]
    others: NDArray[np.intp]
    costs: NDArray[np.float64]

    @classmethod
    def of(cls, moves: Iterable[tuple[int, int, float]]) -> _Arcs:
        """Of moves as end, other end, cost."""
        ordered = sorted(moves)
        ends, starts = np.unique(np.array([end for end, _, _ in ordered], dtype=np.intp), return_index=True)
        others = np.array([other for _, other, _ in ordered], dtype=np.intp)
        return cls(ends, starts, others, np.array([cost for _, _, cost in ordered], dtype=float))

    def relaxed(self, costs: NDArray[np.float64]) -> NDArray[np.float64]:
        """The least costs with any number of moves (Bellman and Ford, from all placements at once)."""
        if not len(self.ends):
            return costs
        least = costs.copy()
        while True:
            found = np.minimum.reduceat(least[self.others] + self.costs, self.starts)
            before = least[self.ends]
            if not (found < before).any():
                return least
            least[self.ends] = np.minimum(before, found)


def _ranks(places: TensorPlaces) -> tuple[Rank, ...]:
    return tuple(rank for rank, _ in places.sizes)


def shortest_paths(places: TensorPlaces, cost: HopCost) -> Paths:
    """All shortest paths where a move costs `cost` (at least 0).

    Bellman and Ford from all placements at once: few moves lead from a placement, and few follow one another.
    """
    moves: dict[tuple[int, int], tuple[Hop, float]] = {}
    for here, there, hop in places.hops:
        checkpoint()
        taken = cost(hop)
        if (here, there) not in moves or taken < moves[here, there][1]:
            moves[here, there] = hop, taken
    return Paths(places, _distances(len(places.placements), {pair: taken for pair, (_, taken) in moves.items()}), moves)


def _distances(count: int, moves: Mapping[tuple[int, int], float]) -> Distances:
    """The cost of the cheapest sequence of moves between any two of `count` places; inf where there is none."""
    # row j: from everywhere to j, so that a move adds to a whole row
    to: Distances = np.full((count, count), np.inf)
    np.fill_diagonal(to, 0.0)
    into: list[list[int]] = [[] for _ in range(count)]
    for here, there in moves:
        into[there].append(here)
    before = [np.array(some, dtype=np.intp) for some in into]
    costs = [np.array([moves[here, there] for here in some])[:, None] for there, some in enumerate(into)]
    changed = np.ones(count, dtype=bool)
    while changed.any():
        last, changed = changed, np.zeros(count, dtype=bool)
        for there in range(count):
            checkpoint()
            fresh = last[before[there]] | changed[before[there]]
            if fresh.any():
                row = (to[before[there][fresh]] + costs[there][fresh]).min(axis=0)
                if (row < to[there]).any():
                    np.minimum(to[there], row, out=to[there])
                    changed[there] = True
    return np.ascontiguousarray(to.T)
