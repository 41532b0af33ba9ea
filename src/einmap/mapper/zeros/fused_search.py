"""The search of fused mappings whose tensors have zeros: the search of cascades, with chains by their expected costs.

What an Einsum costs depends on its own chain alone, also with zeros. So the search of cascades is as it is, with other
chains: outer nests and tables have the least expected costs of each node, nothing is left out that is never better
without zeros, and of two chains with one signature the one that is no better in its real costs and space goes.
Formats take the least room that they may wherever other Einsums ask for it: what is found has to be evaluated.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.errors import CapacityError, MappingError, NotSupportedError
from einmap.mapper.branch_and_bound.decode import nodes_of
from einmap.mapper.branch_and_bound.path_search import Descent, PathSearch
from einmap.mapper.branch_and_bound.stalled import offer
from einmap.mapper.branch_and_bound.zeros_search import ZerosPathSearch
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.cost_bounds.zeros.path import Zeros, ZerosPath
from einmap.mapper.fusion.fronts.einsum_fronts import EinsumFronts
from einmap.mapper.fusion.fronts.nests.loops import loop_nodes
from einmap.mapper.fusion.fronts.nests.outer_nests import OuterNest
from einmap.mapper.fusion.fronts.planned_einsum import PlannedEinsum
from einmap.mapper.fusion.fronts.table_store import Groups, TableStore
from einmap.mapper.fusion.meter import Meter, StoppedError
from einmap.mapper.fusion.problem import MADE_WHOLE, OF_EACH, TABLES
from einmap.mapper.fusion.search import FusedSearch
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.mapspace.template import joined
from einmap.mapper.objective import objective_kernels
from einmap.mapper.objective.pareto_archive import Archive
from einmap.mapper.problem.request import Request
from einmap.mapper.problem.searchable import why_not_fused
from einmap.mapper.zeros.expected_cost import ExpectedCost
from einmap.model.batch.zero_tables import ZeroTables

MOST_JUDGED = 10_000
"""Chains of an Einsum that the model judges, 2 to 4 ms each: then the search is stopped."""


@dataclass(eq=False)
class ZerosGroups(Groups):
    """The groups of an Einsum with zeros."""

    def new_search(self, path: Path, lanes: LaneTable) -> PathSearch:
        """A search of a path with some uses of the fanouts, without dataplacements yet."""
        assert isinstance(path, ZerosPath)
        asked = path.request.goals, path.request.known_remainder, 1, path.of_tables, None
        return ZerosPathSearch(path.pricer, lanes, path.fanouts, *asked, zeros=path.zeros)

    def may_grow(self, path: Path) -> bool:
        """Whether tables of some dataplacements may be made before others: not with zeros."""
        del path
        return False


@dataclass(frozen=True, eq=False)
class ZerosPlanned(PlannedEinsum):
    """The dataplacements of an Einsum with zeros. `judged`: J and s of chains, as far as the model was asked.

    The order of loops between two nodes changes nothing.
    """

    has_floors: ClassVar[bool] = False
    judged: dict[Hashable, tuple[float, float] | None] = field(default_factory=dict)

    def tabled(self, meter: Meter, tables: TableStore) -> Groups:
        """The dataplacements with tables that are kept."""
        return self.added_to(ZerosGroups(meter, self.request.memory, tables))


@dataclass(eq=False)
class ZerosFronts(EinsumFronts):
    """The chains of an Einsum with zeros. `uncounted`: why the model does not know some of them."""

    uncounted: NotSupportedError | None = field(default=None, init=False)

    def offer(self, archive: Archive, search: PathSearch, outer_nest: OuterNest, walk: Descent) -> None:
        """Put the chain that a walk has come to into an archive, as the model judges it."""
        assert isinstance(search, ZerosPathSearch)
        compiled, n = outer_nest.compiled, len(outer_nest.compiled.levels)
        prefix, points = int(walk.prefix_at[n]), [int(x) for x in walk.point_at[1 : n + 1]]
        occupied = walk.occupied[n] + search.more_room(
            compiled, points, self.request.shared, outer_nest.nests.plan.depth
        )
        if (np.round(occupied, 6) > search.capacity).any():
            return
        costs, leak = walk.acc[n], float(search.leak[prefix])
        if not search.is_exact:
            judged = self._judged(search, outer_nest, prefix, points)
            if judged is None:
                return
            costs, leak = np.array(judged), 0.0
        values = np.empty(len(search.value_codes))
        objective_kernels.objectives(costs, leak, occupied, search.capacity, walk.kept, search.value_codes, values)
        offer(archive, values, walk, prefix, len(self.completed) - 1)

    def _judged(
        self, search: ZerosPathSearch, outer_nest: OuterNest, prefix: int, points: Sequence[int]
    ) -> tuple[float, float] | None:
        """J and s of a chain; None where it does not fit, or the model does not know it."""
        assert isinstance(self.planned, ZerosPlanned)
        compiled, known = outer_nest.compiled, self.planned.judged
        lanes = tuple(part.tobytes() for part in search.lanes_of(prefix))
        key = search.leaves[-1].name, compiled.plan, lanes, tuple(points)
        if key not in known:
            if len(known) >= MOST_JUDGED:
                self.meter.cut = True
                raise StoppedError
            loops = {level: loop_nodes(order) for level, order in outer_nest.gaps.items()}
            try:
                known[key] = search.zeros.cost(joined(nodes_of(search, compiled, prefix, points, loops)))
            except (CapacityError, MappingError):
                known[key] = None
            except NotSupportedError as error:
                self.uncounted, known[key] = error, None
        return known[key]

    def whole(self, t: int) -> dict[str, float]:
        """Least bits that the whole of a tensor (by its position) takes in each memory that may back it."""
        tensor, extents, bits = self.einsum.accesses[t].tensor, dict(self.einsum.bounds), super().whole(t)
        for path in self.paths:
            assert isinstance(path, ZerosPath)
            tables = path.zeros.tables
            for memory in [memory for memory in bits if (memory, tensor) in tables.sparsity.formats]:
                width = self.arch.components[memory].bits[tensor]  # type: ignore[union-attr]
                room = tables.room(memory, tensor, tables.extents(tensor, extents), width)
                bits[memory] = min(bits[memory], float(np.min(room)))
        return bits


@dataclass
class ZerosFusedSearch(FusedSearch):
    """The search of a whole cascade whose tensors have zeros."""

    @property
    def joint(self) -> frozenset[str]:
        """No inputs: the model does not know buffers with zeros that several Einsums fill."""
        return frozenset()

    @property
    def workers(self) -> int:
        """Threads: one, since the model is no kernel."""
        return 1

    def planned(self, einsum: Einsum, arch: Architecture, request: Request, position: int) -> ZerosPlanned:
        """The dataplacements of one Einsum. Raises NotSupportedError where tables do not know it."""
        del position
        why, progress, times = why_not_fused(einsum, arch, self.goals), self.meter.progress, self.times(einsum)
        sparsity = self.spec.sparsity[einsum.name]
        cost = ExpectedCost(einsum, arch, request.rules, sparsity, times)
        zeros = Zeros(ZeroTables(einsum, sparsity), lambda of: replace(cost, sparsity=of))
        paths = tuple(
            ZerosPath(einsum, arch, arch.path(unit.name), request, zeros=zeros)
            for unit in (arch.computes if why is None else ())
            if unit.enabled
        )
        for path in paths:
            path.make_plans(progress)
        if any(path.lanes_above() for path in paths):
            why = "lanes may stand above its outermost memory"
        if why is not None:
            raise NotSupportedError(f"Einsum {einsum.name!r} is searched mapping by mapping ({why})")
        return ZerosPlanned(einsum, arch, request, tuple(one for path in paths for one in path.windowed(progress)))

    def written(self, einsum: Einsum) -> tuple[int, tuple[str, ...]]:
        """Equal for no two Einsums: their zeros may differ."""
        return [one.name for one in self.workload.einsums].index(einsum.name), (einsum.name,)

    def unfit(self, planned: Mapping[str, PlannedEinsum]) -> None:
        """Nothing: whether dense tiles fit does not matter."""
        del planned

    def with_tables(self, planned: Sequence[PlannedEinsum]) -> dict[PlannedEinsum, EinsumFronts]:
        """The fronts of the Einsums."""
        most = self.options.most_fused, self.options.most_fused_per_variable
        each = min(max(MADE_WHOLE / len(planned), OF_EACH), self.options.memory / len(planned))
        tables = TableStore(min(TABLES, self.options.memory), each)
        return {part: ZerosFronts(part, *most, self.meter, tables) for part in planned}

    @property
    def unknown(self) -> tuple[str, ...]:
        """Mappings that the model does not know, in words."""
        found: dict[str, None] = {}
        for member in self.members:
            chains, name = member.chains, member.einsum.name
            assert isinstance(chains, ZerosFronts)
            found |= dict.fromkeys(chains.omissions)
            if any(isinstance(path, ZerosPath) and path.unknown for path in chains.paths):
                found[f"mappings of {name} whose lanes share zeros that the model does not know"] = None
            if chains.uncounted is not None:
                found[f"mappings of {name} that cannot be counted ({chains.uncounted.message})"] = None
        return tuple(found)
