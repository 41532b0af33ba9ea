"""The chains of one Einsum: by what other Einsums see of them, and for each such outline the best ones.

First the heads of all dataplacements are listed, with bounds from the tables: enough to see which outlines can be a
part of anything good. Only their heads are then completed, by branch and bound, to fronts of cost and space.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from einmap.arch.component import Memory
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.mapper import kernels
from einmap.mapper.archive import Archive
from einmap.mapper.cascade import nondominated
from einmap.mapper.decode import nodes_of
from einmap.mapper.fusion.effort import Effort
from einmap.mapper.fusion.groups import FAR, Groups, TableStore
from einmap.mapper.fusion.heads import Family, Head, Heads, Outline
from einmap.mapper.fusion.left_out import LeftOut
from einmap.mapper.fusion.loops import loop_nodes
from einmap.mapper.optimal import Descent, PathSearch
from einmap.mapper.request import Others, Request
from einmap.mapper.search_path import Group, Path
from einmap.mapper.steps import Plan
from einmap.mapping import nodes as tree

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

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


@dataclass
class Growing:
    """The front of an outline while it is searched."""

    outline: Outline
    archive: Archive


@dataclass
class Chains:
    """All chains of one Einsum. `request`: its goals are what is added up over Einsums."""

    einsum: Einsum
    arch: Architecture
    request: Request
    most: float
    most_per_axis: float
    effort: Effort
    lender: Chains | None = None
    """Chains whose tables these use, and whose names of tensors and rank variables; see borrowing.py."""
    crossed: frozenset[str] = frozenset()
    """Memories that may keep the whole of a shared tensor while the Einsum runs that does not use it."""
    complete: bool = True
    census: float = 0.0
    listed: dict[Family, dict[Outline, list[tuple[PathSearch, Head]]]] = field(default_factory=dict)
    """The heads of each family, as far as they were asked for."""
    found: list[tuple[PathSearch, Head]] = field(default_factory=list)
    """Heads that chains of fronts have."""
    families: dict[Family, Floats] = field(default_factory=dict)
    """What the chains of each family cost at least: in all, none of them is below each of these rows."""
    space: Space = field(default_factory=Space)
    """The memories of the columns of fronts, once they are known."""
    _by_plan: dict[int, Family] = field(default_factory=dict)
    """Families of the dataplacements (by id)."""
    _left_out: dict[Family, LeftOut] = field(default_factory=dict)
    _whole: dict[int, dict[str, float]] = field(default_factory=dict)
    _head_rows: dict[Outline, Floats] = field(default_factory=dict)

    def prepare(self) -> None:
        """List the dataplacements of all paths."""
        self.paths: list[Path] = []
        for unit in self.arch.computes:
            if unit.enabled:
                path = Path(self.einsum, self.arch, self.arch.path(unit.name), self.request)
                path.make_plans(self.effort.progress)
                self.paths.append(path)

    def sort(self) -> None:
        """Sort the dataplacements by the uses of the fanouts that they admit."""
        self.by_lanes: list[tuple[Path, Group]] = []
        for path in self.paths:
            self.complete &= path.all_plans and not path.is_coarse
            self.by_lanes += [(path, group) for group in path.groups()]
        self.census = sum(group.census.total() for _, group in self.by_lanes)

    def begin(self, room: float) -> None:
        """Bound what the dataplacements cost without tables; lenders first. `room`: bytes of tables to keep."""
        self._by_plan = {id(plan): self._family(plan) for path in self.paths for plan in path.plans}
        if self.lender is not None:
            self.groups: Groups = self.lender.groups
            return
        self.groups = Groups(self.effort, self.request.memory, TableStore(room))
        for path, group in self.by_lanes:
            self.groups.add(path, group)

    def least(self, weights: Floats) -> Floats:
        """For each row of weights what every chain costs at least."""
        if not self.families:
            self._bound_families()
        if not self.families:
            return np.full(len(weights), np.inf)
        own = np.stack([(rows @ weights.T).min(axis=0) for rows in self.families.values()])
        found: Floats = own.min(axis=0)
        return found

    def _bound_families(self) -> None:
        """What the chains of each family cost at least."""
        rows: dict[Family, list[Floats]] = {}
        for plan, own in self.groups.bounds:
            if id(plan) in self._by_plan:
                rows.setdefault(self._by_plan[id(plan)], []).append(own)
        every = {family: np.concatenate(own) for family, own in rows.items()}
        few = len(self.request.goals) <= 2
        self.families = {f: own[nondominated(own)] if few else own for f, own in every.items() if len(own)}

    def _family(self, plan: Plan) -> Family:
        """The memories in which a dataplacement backs shared tensors."""
        backing: dict[str, str] = {}
        for memory, tensor in plan.placement.nodes:
            backing.setdefault(tensor, memory)
        accesses = enumerate(self.einsum.accesses)
        return tuple((t, backing[a.tensor]) for t, a in accesses if a.tensor in self.request.shared)

    def begin_again(self, most: float) -> None:
        """Forget what is listed, and look at chains with so many fused loops from here on."""
        self.most = most
        self.listed = {}
        self._left_out = {}
        self._head_rows = {}
        self.found = []

    def survey(self, limits: Mapping[Family, Others | None]) -> set[Family]:
        """List the heads of some families, all that can be a part of something good; those that had to be listed anew.

        Raises StoppedError.
        """
        anew = {f: o for f, o in limits.items() if f not in self._left_out or not self._left_out[f].stays_out(o)}
        for family in anew:
            for outline in self.listed.get(family, ()):
                self._head_rows.pop(outline, None)
            self.listed[family] = {}
            self._left_out.pop(family, None)
        left_out = {family: LeftOut(len(self.request.goals)) for family in anew}
        plans = [(plan, family) for plan, family in self._by_plan.items() if family in anew]
        wanted, without = {plan: anew[f] for plan, f in plans}, {plan: left_out[f] for plan, f in plans}
        for search in self.groups.searches(wanted, without) if plans else ():
            self._list(search, anew, left_out)
        self._left_out |= left_out
        return set(anew)

    def _list(
        self, search: PathSearch, limits: Mapping[Family, Others | None], left_out: Mapping[Family, LeftOut]
    ) -> None:
        """List the heads of one search."""
        maker = Heads(search, self.request.shared, self.most, self.most_per_axis, None, self.request.joint)
        maker.wider = self.request.wider
        found: dict[Outline, list[Head]] = {}
        for compiled in search.compiled:
            family = self._by_plan.get(id(compiled.plan))
            if family is None or family not in limits:
                continue
            maker.others, maker.left_out = limits[family], left_out[family]
            for head in maker.of(compiled):
                self.effort.listed += 1
                self.effort.go_on()
                if not np.isfinite(head.least).all():
                    continue
                if hopeless(head, maker.others):
                    maker.left_out.add(head.least[None])
                else:
                    found.setdefault(head.outline, []).append(head)
        for outline, heads in found.items():
            own = self.listed[outline.family].setdefault(outline, [])
            own.extend((search, head) for head in self._distinct(heads))

    def complete_heads(self, wanted: Mapping[Outline, Others | None]) -> dict[Outline, Front]:
        """The fronts of some outlines, as far as their chains can be a part of something good."""
        self.growing: dict[Outline, Growing] = {}
        by_search: dict[int, dict[int, list[tuple[PathSearch, Head]]]] = {}
        for outline, others in wanted.items():
            for search, head in self.listed[outline.family][outline]:
                if not hopeless(head, others):
                    by_search.setdefault(id(search), {}).setdefault(id(head.compiled), []).append((search, head))
        for of_search in by_search.values():
            plans = sorted((sorted(own, key=_promise) for own in of_search.values()), key=lambda own: _promise(own[0]))
            if not plans[0][0][0].has_tables:
                plans = _with_few_tables(plans)
            self.groups.tables.fill(plans[0][0][0])
            for own in plans:
                walk = self._walk(*own[0])
                for search, head in own:
                    if not self.effort.stopped:
                        others = wanted[head.outline]
                        search.others = others or Others(np.zeros((0, len(search.goal_codes))), math.inf)
                        self._complete(search, head, self._grown(head.outline), walk)
        self.groups.release()
        return {outline: self._front(growing) for outline, growing in self.growing.items() if growing.archive.n}

    def _grown(self, outline: Outline) -> Growing:
        """The front of an outline so far."""
        if outline not in self.growing:
            kept = len(self.space.memories) * len(outline.loops)
            width = len(self.request.goals) + len(self._counted(outline)) + kept
            self.growing[outline] = Growing(outline, Archive(width, ROOM))
        return self.growing[outline]

    def _counted(self, outline: Outline) -> list[int]:
        """Memories of the space, by number, where it matters how much an Einsum itself needs.

        Something else may be kept there at the same time: below fused loops, or the whole of a tensor.
        """
        return [m for m, name in enumerate(self.space.memories) if outline.loops or name in self.crossed]

    def _distinct(self, heads: list[Head]) -> Iterator[Head]:
        """Heads that go on alike, and one of which is no worse in anything, are one."""
        groups: dict[object, list[Head]] = {}
        for head in heads:
            blocks = head.compiled.blocks[len(head.points) - 1] if head.points else id(head.compiled)
            where = head.points[-1] if head.points else 0
            groups.setdefault((blocks, where, head.prefix), []).append(head)
        for group in groups.values():
            if len(group) == 1:
                yield group[0]
                continue
            rows = np.stack([np.concatenate([head.acc, head.occupied, self._kept(head)]) for head in group])
            for i, own in enumerate(rows):
                better = (rows <= own).all(axis=1)
                better[i] = False
                if not (better[:i].any() or (rows[better] < own).any()):
                    yield group[i]

    def _kept(self, head: Head) -> Floats:
        """What the nodes of a head keep, for each number of loops above them: less is better, and so is deeper."""
        n = len(head.outline.loops)
        found = np.zeros((len(head.occupied), n + 1))
        for placed in head.kept:
            found[placed.memory, min(placed.depth, n) :] += placed.bits
        return found.ravel()

    def _front(self, growing: Growing) -> Front:
        """The front with columns for what the Einsum needs, also where that does not matter."""
        archive, n = growing.archive, len(self.request.goals)
        values = archive.values[: archive.n].copy()
        counted = self._counted(growing.outline)
        own = np.zeros((len(values), len(self.space.memories)))
        own[:, counted] = values[:, n : n + len(counted)]
        values = np.concatenate([values[:, :n], own, values[:, n + len(counted) :]], axis=1)
        return Front(values, archive.paths[: archive.n].copy())

    @property
    def outlines(self) -> list[Outline]:
        """What other Einsums may see of the chains."""
        return [outline for own in self.listed.values() for outline in own]

    @property
    def heads(self) -> int:
        """Heads that are listed."""
        return sum(len(heads) for own in self.listed.values() for heads in own.values())

    def bounds(self, outline: Outline) -> Floats:
        """Costs that no chain of an outline is below, a row for each head."""
        return self.head_rows(outline)[:, : len(self.request.goals)].copy()

    def backed(self, outline: Outline) -> dict[int, tuple[str, float]]:
        """For each shared tensor (by its position) the memory that backs it, and the bits that its tile takes there."""
        search, head = self.listed[outline.family][outline][0]
        return {t: (search.leaves[search.memories[p.memory]].name, p.bits) for t, p in head.backed}

    def sizes(self) -> dict[str, float]:
        """Bits of each memory that is not boundless."""
        memories = [leaf for path in self.paths for leaf in path.leaves if isinstance(leaf, Memory)]
        return {memory.name: memory.size_bits for memory in memories if math.isfinite(memory.size_bits)}

    def whole(self, t: int) -> dict[str, float]:
        """Bits that the whole of a tensor (by its position) takes in each memory."""
        if t not in self._whole:
            tensor, found = self.einsum.accesses[t].tensor, self._whole.setdefault(t, {})
            for path in self.paths:
                values = float(path.lattice.values(self.einsum, tensor)[path.lattice.top])
                found |= {leaf.name: values * leaf.bits[tensor] for leaf in path.leaves if isinstance(leaf, Memory)}
        return self._whole[t]

    def backs_in(self) -> set[str]:
        """Memories that may back shared tensors."""
        return {
            memory
            for path in self.paths
            for plan in path.plans
            for memory, tensor in plan.placement.nodes
            if tensor in self.request.shared
        }

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

    def head_rows(self, outline: Outline) -> Floats:
        """Rows as of a front that every chain of an outline has one of: none of them is below its head's."""
        if outline not in self._head_rows:
            heads = self.listed[outline.family][outline]
            n, m = len(self.request.goals), len(self.space.memories)
            rows = self._head_rows[outline] = np.zeros((len(heads), n + m * (1 + len(outline.loops))))
            for row, (search, head) in zip(rows, heads, strict=True):
                numbers = self._numbers(search)
                row[:n] = head.least
                for i, memory in enumerate(numbers):
                    if memory < len(head.occupied):
                        row[n + i] = head.occupied[memory]
                row[n + m :] = self._staying(head, numbers)
        return self._head_rows[outline]

    def _numbers(self, search: PathSearch) -> list[int]:
        """For each memory of the space its number in a search, one that is none where it is not on the path."""
        names = [search.leaves[level].name for level in search.memories]
        return [names.index(m) if m in names else len(names) for m in self.space.memories]

    def _complete(self, search: PathSearch, head: Head, growing: Growing, walk: Descent) -> None:
        """Search the completions of one head."""
        numbers = self._numbers(search)
        kept = self._staying(head, numbers)
        used = [kernels.BITS + numbers[m] for m in self._counted(head.outline)]
        wanted = [*search.goal_codes, *used, *(kernels.KEPT + i for i in range(kept.size))]
        search.wanted = np.array(wanted, dtype=np.int64)
        depth = len(head.points)
        growing.archive.widen(len(head.compiled.levels))
        walk.kept = kept
        walk.state[:] = depth
        walk.acc[depth], walk.occupied[depth] = head.acc, head.occupied
        walk.point_at[0] = search.lattice.top
        walk.point_at[1 : depth + 1] = head.points
        walk.prefix_at[depth] = head.prefix
        walk.cand_n[:] = -1
        nodes = walk.nodes
        self.found.append((search, head))
        ended = None
        while ended != kernels.DONE:
            before, left = walk.work, self.effort.left
            budget = WORK if left > WORK else -int(left)
            ended = search.step(head.compiled, len(self.found) - 1, walk, growing.archive, TIE, budget)
            self.effort.work += walk.work - before
            if self.effort.stopped:
                break
        self.effort.nodes += walk.nodes - nodes

    def _staying(self, head: Head, numbers: Sequence[int]) -> Floats:
        """Bits of each memory that stay while other Einsums run below the first, the first two, ... fused loops."""
        fused = len(head.outline.loops)
        alive = head.outline.alive(self.space.by_tree)[:, 1:]
        kept = np.zeros((len(numbers), fused))
        for m, memory in enumerate(numbers):
            for placed in head.kept:
                if placed.memory == memory:
                    kept[m] += placed.bits * alive[min(placed.depth, fused)]
        return kept.ravel()

    def _walk(self, search: PathSearch, head: Head) -> Descent:
        n, widest = len(head.compiled.levels), max(search.lattice.size, len(search.children) + 1)
        return Descent(n, search.columns, len(search.capacity), widest)

    def nodes_of(self, outline: Outline, front: Front, row: int) -> tuple[list[tree.Node], int]:
        """A chain from the outside in, each storage node with one tensor; how many are in the outermost memory."""
        del outline
        number, prefix = (int(x) for x in front.paths[row, :2])
        search, head = self.found[number]
        compiled = head.compiled
        points = [int(x) for x in front.paths[row, 2 : 2 + len(compiled.levels)]]
        loops = {level: loop_nodes(order) for level, order in head.gaps}
        return list(nodes_of(search, compiled, prefix, points, loops)), len(compiled.plan.outer)


def _with_few_tables(plans: list[list[tuple[PathSearch, Head]]]) -> list[list[tuple[PathSearch, Head]]]:
    """Heads of one search, by dataplacement, in a search that has only these."""
    search = plans[0][0][0].again()
    search.take([own[0][1].compiled.plan for own in plans], FAR)
    return [
        [(search, replace(head, compiled=compiled)) for _, head in own]
        for own, compiled in zip(plans, search.compiled, strict=True)
    ]


def _promise(pair: tuple[PathSearch, Head]) -> float:
    return float(pair[1].least[0])


def hopeless(head: Head, others: Others | None) -> bool:
    """Whether no completion of a head can be a part of something good."""
    return others is not None and bool(others.hopeless(head.least[None, :])[0])
