"""The mapping fits workload and architecture, or a MappingError says where and why not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from functools import cached_property, partial

from einmap.arch.component import Compute as ComputeUnit
from einmap.arch.component import Leaf, Memory
from einmap.arch.component import Toll as TollUnit
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.einsum.workload import Workload
from einmap.errors import At, EinmapError, FanoutError, MappingError, did_you_mean, raise_all
from einmap.mapping.mapping import Mapping, PlacedNode
from einmap.mapping.met_loops import MetLoop, loops_met
from einmap.mapping.nodes import Address, Compute, Spatial, Split, Storage, Temporal, Toll
from einmap.mapping.pipelines import PipelineCheck
from einmap.mapping.recurrences import check_recurrences

type Where = Callable[[Address], At]


def validate(
    mapping: Mapping,
    workload: Workload,
    archs: MappingOf[str, Architecture],
    where: Where,
    einsums: Iterable[str],
    checked: Collection[str] | None = None,
) -> None:
    """Check structure, names, tile shapes, fanouts and hierarchy of every path; capacity is the model's.

    `archs`: the architecture bound for each Einsum. `einsums`: those that must be mapped. `checked`: those whose paths
    are looked at, None for all; others see the same as one of them.
    Raises MappingError (several together).
    """
    problems: list[EinmapError] = []
    _check_leaves(mapping, workload, where, set(einsums), problems)
    raise_all(problems)
    _check_shared_loops(mapping, workload, where, problems)
    raise_all(problems)
    for path in mapping.paths:
        leaf = path[-1].node
        assert isinstance(leaf, Compute)
        if checked is not None and leaf.einsum not in checked:
            continue
        einsum = workload.by_name[leaf.einsum]
        _PathCheck(path, einsum, archs[einsum.name], workload, where, problems).run()
    raise_all(problems)
    check_recurrences(mapping, workload, where, problems)
    raise_all(problems)
    if mapping.is_pipelined:
        PipelineCheck(mapping, workload, archs, where, problems).run()
        raise_all(problems)


def check_tree(mapping: Mapping, workload: Workload, where: Where) -> None:
    """The part of `validate` that needs no architecture: leaves, and what loops say of the Einsums below them.

    Raises MappingError (several together).
    """
    problems: list[EinmapError] = []
    _check_leaves(mapping, workload, where, set(), problems)
    raise_all(problems)
    for name, path in mapping.path_of.items():
        extents = workload.by_name[name].extents
        for placed in path:
            node = placed.node
            if not isinstance(node, Temporal | Spatial):
                continue
            variable = node.rank_variable.of(name)
            if variable not in extents or node.tile_shape.of(name) is None:
                missing = "tile shape" if variable in extents else "rank variable of it"
                text = f"Einsum {name!r}: the loop names no {missing}"
                problems.append(MappingError(text, at=where(placed.address)))
    raise_all(problems)
    _check_shared_loops(mapping, workload, where, problems)
    raise_all(problems)
    check_recurrences(mapping, workload, where, problems)
    raise_all(problems)


def _check_leaves(
    mapping: Mapping, workload: Workload, where: Where, einsums: set[str], problems: list[EinmapError]
) -> None:
    seen: dict[str, Address] = {}
    order: list[str] = []
    for path in mapping.paths:
        last = path[-1]
        if not isinstance(last.node, Compute):
            problems.append(MappingError("every branch must end in a Compute node", at=where(last.address)))
            continue
        name = last.node.einsum
        if name not in workload.by_name:
            hint = partial(did_you_mean, name, workload.by_name, listing="Einsums")  # only the first are shown
            problems.append(MappingError(f"the workload has no Einsum {name!r}", at=where(last.address), hint=hint))
        elif name in seen:
            problems.append(MappingError(f"Einsum {name!r} is mapped twice", at=where(last.address)))
        seen[name] = last.address
        order.append(name)
    for name in sorted(einsums - seen.keys()):
        problems.append(MappingError(f"Einsum {name!r} is not mapped: no Compute node names it", at=where(())))
    if problems:
        return
    position = {name: i for i, name in enumerate(order)}
    for tensor, producer in workload.producers.items():
        recurrence = workload.states.get(tensor)
        for user in workload.users[tensor]:
            if recurrence is not None and user in recurrence.einsums:
                continue  # it reads what an earlier step has written
            if user != producer and user in seen and producer in seen and position[user] < position[producer]:
                text = f"branch of Einsum {user!r} reads {tensor!r} before the branch of {producer!r} writes it"
                problems.append(MappingError(text, at=where(seen[user]), hint="change the order of the branches"))


def _check_shared_loops(mapping: Mapping, workload: Workload, where: Where, problems: list[EinmapError]) -> None:
    """A loop above a split iterates equally often for every Einsum below it."""
    counts: dict[Address, dict[str, int]] = {}
    for name, path in mapping.path_of.items():
        splits = [i for i, placed in enumerate(path) if isinstance(placed.node, Split)]
        extents = dict(workload.by_name[name].bounds)
        for placed in path[: splits[-1]] if splits else ():
            node = placed.node
            if not isinstance(node, Temporal | Spatial):
                continue
            variable, shape = node.rank_variable.of(name), node.tile_shape.of(name)
            if variable not in extents or shape is None:
                continue  # said elsewhere, with a hint
            initial = node.initial_tile_shape.of(name) if isinstance(node, Temporal) else None
            bound = MetLoop(placed, node, variable, shape, initial, extents[variable])
            counts.setdefault(placed.address, {})[name] = bound.iterations
            extents[variable] = bound.largest
    for address, iterations in counts.items():
        if len(set(iterations.values())) > 1:
            shown = ", ".join(f"{n} for {name!r}" for name, n in iterations.items())
            text = f"a loop above a split must have as many iterations for every Einsum below it; it has {shown}"
            problems.append(MappingError(text, at=where(address), hint="move it into the branch that needs it"))


@dataclass
class _PathCheck:
    """Checks of one Einsum's path; problems are added to `problems`."""

    path: tuple[PlacedNode, ...]
    einsum: Einsum
    arch: Architecture
    workload: Workload
    where: Where
    problems: list[EinmapError]

    @cached_property
    def by_name(self) -> dict[str, Leaf]:
        """Components of the path to the compute, from the outside in."""
        last = self.path[-1].node
        assert isinstance(last, Compute)
        return {leaf.name: leaf for leaf in self.arch.path(last.component)}

    @cached_property
    def levels(self) -> dict[str, int]:
        """Place of each component on the path."""
        return {name: i for i, name in enumerate(self.by_name)}

    def complain(self, text: str, placed: PlacedNode, hint: str | None = None) -> None:
        text = f"Einsum {self.einsum.name!r}: {text}"
        if not any(p.message == text for p in self.problems):
            self.problems.append(MappingError(text, at=self.where(placed.address), hint=hint))

    def run(self) -> None:
        if not self.has_compute():
            return
        before = len(self.problems)
        for placed in self.path:
            self.node(placed)
        if len(self.problems) > before:
            return
        self.tile_shapes()
        self.tensors_held()
        self.persistence()
        self.hierarchy()
        self.copy_nodes()
        if len(self.problems) == before:
            self.crossing_loops()

    def has_compute(self) -> bool:
        """Whether the path ends at a Compute of the architecture."""
        last = self.path[-1]
        assert isinstance(last.node, Compute)
        unit = self.arch.leaves.get(last.node.component)
        if unit is None:
            hint = did_you_mean(last.node.component, (c.name for c in self.arch.computes), listing="computes")
            self.complain(f"the architecture has no component {last.node.component!r}", last, hint)
            return False
        if not isinstance(unit, ComputeUnit):
            self.complain(f"{unit.name!r} is a {type(unit).__name__}, a Compute node needs a Compute", last)
            return False
        return True

    def node(self, placed: PlacedNode) -> None:
        match placed.node:
            case Temporal() | Spatial():
                self.loop(placed, placed.node)
            case Storage():
                self.holder(placed, placed.node, Memory, "Storage")
            case Toll():
                self.holder(placed, placed.node, TollUnit, "Toll")
            case Compute() | Split():
                pass

    def holder(self, placed: PlacedNode, node: Storage | Toll, kind: type, word: str) -> None:
        for tensor in node.tensors if not self.workload.users.keys() >= placed.held else ():
            if tensor not in self.workload.users:
                hint = did_you_mean(tensor, self.workload.users, listing="tensors")
                self.complain(f"the workload has no tensor {tensor!r}", placed, hint)
        used = placed.held & self.einsum.tensors
        leaf = self.by_name.get(node.component)
        if leaf is None:
            if used or node.component not in self.arch.leaves:
                candidates = [n for n, unit in self.by_name.items() if isinstance(unit, kind)]
                off_path = " on the path to its Compute" if node.component in self.arch.leaves else ""
                text = f"the architecture has no component {node.component!r}{off_path}"
                self.complain(text, placed, did_you_mean(node.component, candidates, listing="components"))
            return
        if not isinstance(leaf, kind):
            text = f"a {word} node needs a {kind.__name__}, {node.component!r} is a {type(leaf).__name__}"
            self.complain(text, placed)

    def loop(self, placed: PlacedNode, node: Temporal | Spatial) -> None:
        variable = node.rank_variable.of(self.einsum.name)
        if variable is None or variable not in self.einsum.extents:
            shown = f"{variable!r} is" if variable else "the loop names no rank variable; it needs"
            hint = did_you_mean(variable or "", self.einsum.extents, listing="its rank variables")
            if len(placed.address) < len(self.path[-1].address):
                hint += "; a loop above a split must be on a variable of every Einsum below it"
            self.complain(f"{shown} not a rank variable of it" if variable else f"{shown} one of it", placed, hint)
        if node.tile_shape.of(self.einsum.name) is None:
            self.complain("the loop has no tile_shape for it", placed)
        if isinstance(node, Spatial):
            leaf = self.by_name.get(node.component)
            if leaf is None:
                hint = did_you_mean(node.component, self.by_name, listing="components")
                self.complain(f"the architecture has no component {node.component!r} on its path", placed, hint)
            elif node.name not in {d.name for d in leaf.spatial}:
                hint = did_you_mean(node.name, (d.name for d in leaf.spatial), listing="its dimensions")
                self.complain(f"{node.component!r} has no fanout dimension {node.name!r}", placed, hint)

    @cached_property
    def loops(self) -> list[MetLoop]:
        return loops_met(self.path, self.einsum)

    def tile_shapes(self) -> None:
        left = dict(self.einsum.bounds)
        used: dict[tuple[str, str], int] = {}
        for bound in self.loops:
            variable, extent = bound.variable, bound.extent
            for shape in (bound.shape, bound.initial or 1):
                if shape > extent:
                    what = "exceeds the extent" if extent == self.einsum.extents[variable] else "grows inward from"
                    self.complain(f"tile shape {shape} of {variable!r} {what} {extent} at this point", bound.placed)
            left[variable] = bound.largest
            if isinstance(bound.node, Spatial):
                key = (bound.node.component, bound.node.name)
                used[key] = used.get(key, 1) * bound.iterations
                self.fanout(bound.placed, bound.node, used[key])
        for variable, extent in left.items():
            if extent > 1:
                text = f"rank variable {variable!r} is not iterated down to tile shape 1 (innermost tile {extent})"
                self.complain(text, self.path[-1], f"add a loop over {variable} with tile_shape: 1")

    def fanout(self, placed: PlacedNode, node: Spatial, used: int) -> None:
        dimension = next(d for d in self.by_name[node.component].spatial if d.name == node.name)
        if used > dimension.fanout:
            self.problems.append(
                FanoutError(
                    f"Einsum {self.einsum.name!r}: {used} instances used on {node.component}.{node.name}, "
                    f"its fanout is {dimension.fanout}",
                    at=self.where(placed.address),
                )
            )

    def tensors_held(self) -> None:
        for access in self.einsum.accesses:
            holders = [
                (placed, placed.node)
                for placed in self.path
                if isinstance(placed.node, Storage | Toll) and access.tensor in placed.held
            ]
            if not any(isinstance(node, Storage) for _, node in holders):
                self.complain(f"no memory holds tensor {access.tensor!r} on its path", self.path[-1])
                continue
            if isinstance(holders[0][1], Toll):
                text = f"a Toll cannot be the outermost holder of {access.tensor!r}"
                self.complain(text, holders[0][0], "put a Storage node in a Memory above it")
            seen: set[str] = set()
            for placed, node in holders:
                if node.component in seen:
                    self.complain(f"tensor {access.tensor!r} is held twice in {node.component!r}", placed)
                seen.add(node.component)
                if len(node.tensors) > len(placed.held) and node.tensors.count(access.tensor) > 1:
                    self.complain(f"tensor {access.tensor!r} is listed twice", placed)

    def copy_nodes(self) -> None:
        """A copy moves each value once, so that one memory has one tile of it: its nodes there stand together."""
        turning = {bound.placed.address: bound.variable for bound in self.loops if bound.iterations > 1}
        loops: list[str] = []
        met: dict[str, int] = {}
        for placed in self.path if self.einsum.is_copy else ():
            if placed.address in turning:
                loops.append(turning[placed.address])
            elif isinstance(placed.node, Storage) and placed.held & self.einsum.tensors:
                before = loops[met.setdefault(placed.node.component, len(loops)) :]
                if before:
                    text = f"the loop over {before[0]!r} separates nodes of this copy in {placed.node.component!r}"
                    self.complain(text, placed, "put the nodes of one memory together, above the loop or below it")

    def persistence(self) -> None:
        """Tensors that stay for the whole run are not replaced by the next iteration of a loop."""
        for placed in self.path:
            if not (isinstance(placed.node, Storage) and placed.node.persistent):
                continue
            if not placed.held & self.einsum.tensors:
                continue
            for bound in self.loops:
                is_above = bound.placed.address < placed.address
                if is_above and isinstance(bound.node, Temporal) and bound.iterations > 1:
                    text = (
                        f"persistent storage in {placed.node.component!r} stands below the loop over {bound.variable!r}"
                    )
                    self.complain(text, placed, "move it above all temporal loops, or leave out persistent")
                    break

    def hierarchy(self) -> None:
        for access in self.einsum.accesses:
            outer: str | None = None
            for placed in self.path:
                node = placed.node
                if not isinstance(node, Storage | Toll) or access.tensor not in placed.held:
                    continue
                if outer is not None and self.levels[node.component] < self.levels[outer]:
                    text = f"{access.tensor!r} is held in {node.component!r} below {outer!r}, against the hierarchy"
                    self.complain(text, placed)
                outer = node.component

    def crossing_loops(self) -> None:
        """A spatial loop acts where its component stands; it must not cross a loop on the same relevant variable."""
        # loops of one iteration count as absent
        order = [(bound.placed, bound.node) for bound in self.loops if bound.iterations > 1]
        for access in self.einsum.accesses:
            for placed in self.path:
                node = placed.node
                # a toll holds no tile: its place among the loops does not matter
                if isinstance(node, Storage) and access.tensor in placed.held:
                    self.crossing(placed, node, access.variables, order)

    def crossing(
        self,
        holder: PlacedNode,
        node: Storage,
        relevant: frozenset[str],
        order: list[tuple[PlacedNode, Temporal | Spatial]],
    ) -> None:
        skipped: dict[str, PlacedNode] = {}
        for placed, loop in order:
            variable = loop.rank_variable.of(self.einsum.name)
            assert variable is not None
            applies = (
                placed.address < holder.address
                if isinstance(loop, Temporal)
                else self.levels[loop.component] <= self.levels[node.component]
            )
            if not applies:
                skipped.setdefault(variable, placed)
            elif variable in skipped and variable in relevant:
                text = (
                    f"at the tile of {', '.join(node.tensors)} in {node.component!r}, a loop over {variable!r} applies "
                    "inside another one that does not: a spatial loop would cross a loop of the same variable"
                )
                self.complain(text, placed, "write spatial loops next to the storage that they spread")
