"""The chains of one Einsum: by what other Einsums see of them, and for each such outline the best ones.

First all heads are listed, with bounds from the cost-to-go tables: enough to see which outlines can be a part of
anything good. Only these are searched: their fronts of cost and space.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from einmap.arch.component import Memory
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.mapper import kernels
from einmap.mapper.archive import Archive
from einmap.mapper.decode import nodes_of
from einmap.mapper.fusion.heads import Head, Heads, Outline, loop_nodes
from einmap.mapper.lanes import LaneTable
from einmap.mapper.optimal import Descent, PathSearch
from einmap.mapper.quick_bounds import Bounds
from einmap.mapper.request import Others, Request
from einmap.mapper.search_path import Group, Path
from einmap.mapper.steps import Plan
from einmap.mapping import nodes as tree
from einmap.progress import Progress

type Floats = NDArray[np.float64]

WORK = 1_000_000
"""Choices that one call of the kernel looks at, about 20 ms."""
TIE = 1e-10
"""Costs that differ by less than this fraction count as equal."""
ROOM = 64
"""Points of a front that are made room for at first."""


@dataclass(frozen=True)
class Space:
    """Memories that are looked at when Einsums are put together; `by_tree`: what lives on is seen from the tree."""

    memories: tuple[str, ...] = ()
    by_tree: bool = True


@dataclass(frozen=True)
class Front:
    """The best chains of an outline. Columns of `values`: costs, then for each memory of the space the bits in use,
    then for each memory those that stay while other Einsums run below the first, the first two, ... fused loops.
    """

    values: Floats
    paths: NDArray[np.int64]


class StoppedError(Exception):
    """A step that is of no use unless it is done whole was stopped."""


@dataclass
class Effort:
    """How much of a search has been done, and whether it may go on. `most`: choices that may be looked at."""

    progress: Progress
    most: float = math.inf
    work: int = 0
    nodes: int = 0
    cut: bool = False

    @property
    def stopped(self) -> bool:
        """Whether time or budget is over; from then on the search is not complete."""
        if self.progress.stopped or self.work >= self.most:
            self.cut = True
        return self.cut

    def go_on(self) -> None:
        """Raises StoppedError when time or budget is over."""
        if self.stopped:
            raise StoppedError


@dataclass
class TableStore:
    """Searches whose tables are kept: as many as there is room for (bytes), the latest ones."""

    room: float
    held: list[PathSearch] = field(default_factory=list)

    def fill(self, search: PathSearch) -> None:
        """Make sure that a search has its tables."""
        if search.has_tables:
            return
        search.tables.fill(lambda: False)
        search.gather()
        self.held.append(search)
        while len(self.held) > 1 and sum(s.tables.bytes for s in self.held) > self.room:
            self.held.pop(0).tables.forget()


@dataclass(frozen=True, slots=True)
class HeadAt:
    """A head and the search that it belongs to."""

    search: int
    head: Head


@dataclass
class Chains:
    """All chains of one Einsum. `request`: its goals are what is added up over Einsums."""

    einsum: Einsum
    arch: Architecture
    request: Request
    most: float
    most_per_axis: float
    effort: Effort
    tables: TableStore
    searches: list[PathSearch] = field(default_factory=list)
    outlines: dict[Outline, list[HeadAt]] = field(default_factory=dict)
    complete: bool = True
    census: float = 0.0

    def prepare(self) -> None:
        """List the dataplacements of all paths."""
        self.paths: list[Path] = []
        for unit in self.arch.computes:
            if unit.enabled:
                path = Path(self.einsum, self.arch, self.arch.path(unit.name), self.request)
                path.make_plans(self.effort.progress)
                self.paths.append(path)

    def begin(self) -> None:
        """Bound what the dataplacements cost without tables."""
        self.groups: list[tuple[Path, Group, Bounds]] = []
        self.ready: dict[int, PathSearch] = {}
        for path in self.paths:
            self.complete &= path.all_plans and not path.is_coarse
            for group in path.groups():
                self.census += group.census.total()
                bounds = Bounds(path, group.plans, group.lanes, self.effort.progress, True)
                self.groups.append((path, group, bounds))

    def least(self, weights: Floats) -> Floats:
        """For each row of weights what every chain costs at least."""
        found = np.full(len(weights), np.inf)
        for number, (path, group, known) in enumerate(self.groups):
            rows = known.values.reshape(-1, len(self.request.goals))
            if not self.effort.stopped and len(group.lanes) <= path.lanes_with_room():
                search = path.search(group.lanes, 1)
                if search.take(group.plans, self.request.room) == len(group.plans):
                    self.tables.fill(search)
                    self.ready[number] = search
                    roots = [search.root_values(compiled) for compiled in search.compiled]
                    rows = np.concatenate(roots) if roots else rows[:0]
            if len(rows):
                found = np.minimum(found, (rows @ weights.T).min(axis=0))
        return found

    def survey(self, others: Others | None) -> None:
        """List the heads of all dataplacements on all paths that can be a part of something good.

        Raises StoppedError.
        """
        self.searches, self.outlines = [], {}
        for number, (path, group, known) in enumerate(self.groups):
            if number in self.ready:
                self._list_heads(self.ready[number], others)
                continue
            lanes = np.arange(len(group.lanes))
            if others is not None:
                lanes = lanes[~others.hopeless(known.of_lanes)]
            size = max(path.lanes_with_room(), 1)
            for begin in range(0, len(lanes), size):
                chunk = lanes[begin : begin + size]
                plans = group.plans
                if others is not None:
                    out = others.hopeless(known.of_plans(chunk))
                    plans = [plan for plan, hopeless in zip(plans, out, strict=True) if not hopeless]
                self._survey_lanes(path, plans, group.lanes.only(chunk), others)
        for outline, heads in self.outlines.items():
            self.outlines[outline] = list(self._distinct(heads))

    def _survey_lanes(self, path: Path, plans: Sequence[Plan], lanes: LaneTable, others: Others | None) -> None:
        waiting = list(plans)
        while waiting:
            self.effort.go_on()
            search = path.search(lanes, 1)
            taken = search.take(waiting, self.request.room)
            waiting = waiting[taken:]
            self.tables.fill(search)
            self._list_heads(search, others)

    def _list_heads(self, search: PathSearch, others: Others | None) -> None:
        self.tables.fill(search)
        heads = Heads(search, self.request.shared, self.most, self.most_per_axis, others)
        number = len(self.searches)
        self.searches.append(search)
        for compiled in search.compiled:
            for head in heads.of(compiled):
                self.effort.go_on()
                if np.isfinite(head.least).all() and not (others and others.hopeless(head.least[None, :])[0]):
                    self.outlines.setdefault(head.outline, []).append(HeadAt(number, head))

    def _distinct(self, heads: list[HeadAt]) -> Iterator[HeadAt]:
        """Heads that go on alike, and one of which is no worse in anything, are one."""
        groups: dict[object, list[HeadAt]] = {}
        for at in heads:
            head = at.head
            blocks = head.compiled.blocks[len(head.points) - 1] if head.points else id(head.compiled)
            where = head.points[-1] if head.points else 0
            groups.setdefault((at.search, blocks, where, head.prefix, len(head.kept) > 0), []).append(at)
        for group in groups.values():
            self.effort.go_on()
            rows = [np.concatenate([at.head.acc, at.head.occupied, self._kept(at)]) for at in group]
            for i, own in enumerate(rows):
                if not any(
                    (other <= own).all() and (j < i or (other < own).any()) for j, other in enumerate(rows) if j != i
                ):
                    yield group[i]

    def _kept(self, at: HeadAt) -> Floats:
        """What the nodes of a head keep, for each number of loops above them: less is better, and so is deeper."""
        head = at.head
        n = len(head.outline.loops)
        found = np.zeros((len(head.occupied), n + 1))
        for placed in head.kept:
            found[placed.memory, min(placed.depth, n) :] += placed.bits
        return found.ravel()

    def bounds(self, outline: Outline) -> Floats:
        """Costs that no chain of an outline is below, a row for each head."""
        return np.stack([at.head.least for at in self.outlines[outline]])

    def backed(self, outline: Outline) -> dict[int, tuple[str, float]]:
        """For each shared tensor (by its position) the memory that backs it, and the bits that its tile takes there."""
        at = self.outlines[outline][0]
        search = self.searches[at.search]
        return {t: (search.leaves[search.memories[p.memory]].name, p.bits) for t, p in at.head.backed}

    def sizes(self) -> dict[str, float]:
        """Bits of each memory that is not boundless."""
        memories = [leaf for path in self.paths for leaf in path.leaves if isinstance(leaf, Memory)]
        return {memory.name: memory.size_bits for memory in memories if math.isfinite(memory.size_bits)}

    def keeps_in(self) -> set[str]:
        """Memories in which something may stay while other Einsums run."""
        found = set()
        for outline, heads in self.outlines.items():
            for at in heads if outline.loops else ():
                search = self.searches[at.search]
                found |= {search.memories[p.memory] for p in at.head.kept if p.depth < len(outline.loops)}
        return {path.leaves[level].name for path in self.paths for level in found if level < len(path.leaves)}

    def persistent(self) -> dict[str, float]:
        """Bits of each memory that persistent tensors take (one instance)."""
        found: dict[str, float] = {}
        for path in self.paths[:1]:
            for plan in path.plans[:1]:
                for held in plan.outer:
                    memory = path.leaves[held.level]
                    assert isinstance(memory, Memory)
                    access = self.einsum.by_tensor[held.tensor]
                    if access.persistent and held.tensor not in self.request.shared:
                        values = path.lattice.values(self.einsum, held.tensor)[path.lattice.top]
                        found[memory.name] = found.get(memory.name, 0.0) + float(values) * memory.bits[held.tensor]
        return found

    def front(self, outline: Outline, space: Space, others: Others | None) -> Front:
        """The front of costs and space of an outline. `others`: see Request."""
        n = len(self.request.goals)
        alive = outline.alive(space.by_tree)
        width = n + len(space.memories) * (1 + len(outline.loops))
        archive = Archive(width, ROOM)
        heads = self.outlines[outline]
        order = np.argsort([float(at.head.least[0]) for at in heads], kind="stable")
        for i in order:
            at = heads[int(i)]
            if others is not None and others.hopeless(at.head.least[None, :])[0]:
                continue
            if self.effort.stopped:
                break
            self._complete(int(i), at, alive, space, others, archive)
        return Front(archive.values[: archive.n].copy(), archive.paths[: archive.n].copy())

    def _complete(
        self,
        number: int,
        at: HeadAt,
        alive: Sequence[Sequence[bool]],
        space: Space,
        others: Others | None,
        archive: Archive,
    ) -> None:
        """Search the completions of one head."""
        search, head = self.searches[at.search], at.head
        self.tables.fill(search)
        names = [search.leaves[level].name for level in search.memories]
        numbers = [names.index(m) if m in names else len(names) for m in space.memories]
        fused = len(head.outline.loops)
        kept = np.zeros((len(space.memories), fused))
        for m, memory in enumerate(numbers):
            for placed in head.kept:
                if placed.memory == memory:
                    depth = min(placed.depth, fused)
                    kept[m] += placed.bits * np.array(alive[depth][1:], dtype=np.float64)
        goals = search.goal_codes
        search.wanted = np.concatenate(
            [goals, np.array([kernels.BITS + m for m in numbers], dtype=np.int64), kernels.KEPT + np.arange(kept.size)]
        ).astype(np.int64)
        search.others = others or Others(np.zeros((0, len(goals))), math.inf)
        depth = len(head.points)
        walk = self._walk(search, head)
        archive.widen(len(head.compiled.levels))
        walk.kept = kept.ravel()
        walk.state[:] = depth
        walk.acc[depth], walk.occupied[depth] = head.acc, head.occupied
        walk.point_at[0] = search.lattice.top
        walk.point_at[1 : depth + 1] = head.points
        walk.prefix_at[depth] = head.prefix
        walk.cand_n[:] = -1
        before = walk.nodes, walk.work
        while search.step(head.compiled, number, walk, archive, TIE, WORK) != kernels.DONE:
            if self.effort.stopped:
                break
        self.effort.nodes += walk.nodes - before[0]
        self.effort.work += walk.work - before[1]

    def _walk(self, search: PathSearch, head: Head) -> Descent:
        key = ("walk", id(head.compiled))
        if key not in search.known:
            n = len(head.compiled.levels)
            search.known[key] = Descent(
                n, search.columns, len(search.capacity), max(search.lattice.size, len(search.children) + 1)
            )
        found: Descent = search.known[key]
        return found

    def nodes_of(self, outline: Outline, front: Front, row: int) -> tuple[list[tree.Node], int]:
        """A chain from the outside in, each storage node with one tensor; how many are in the outermost memory."""
        number, prefix = (int(x) for x in front.paths[row, :2])
        at = self.outlines[outline][number]
        compiled = at.head.compiled
        points = [int(x) for x in front.paths[row, 2 : 2 + len(compiled.levels)]]
        search = self.searches[at.search]
        loops = {level: loop_nodes(order) for level, order in at.head.gaps}
        return list(nodes_of(search, compiled, prefix, points, loops)), len(compiled.plan.outer)
