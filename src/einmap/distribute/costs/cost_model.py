"""Costs of moves and local Einsums: the parameter of every search for a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

from einmap.distribute.costs.cluster import ArchGoal, Cluster, PeArch, flat_cluster
from einmap.distribute.hops.hop import Hop
from einmap.distribute.placements.mesh import AxisName, Mesh
from einmap.distribute.plans.collectives import Kind, sent
from einmap.distribute.plans.plan import LocalLoop
from einmap.distribute.plans.points import PointCount
from einmap.einsum.einsum import Einsum
from einmap.einsum.operation import Apply, MapExpression
from einmap.errors import EinmapError
from einmap.progress import Progress

type PlanMetric = Literal["time", "bytes", "energy", "memory"]
PLAN_METRICS: tuple[PlanMetric, ...] = get_args(PlanMetric.__value__)

PER_MOVE = 1e-12
"""Added for each move, so that of equal plans the one with fewer moves is taken."""


@dataclass(frozen=True, slots=True)
class LocalWork:
    """Work of each PE for an Einsum. `extents`: of its rank variables on the PE, in its order; `operations` of the
    busiest PE, and their `mean` over the PEs; `moved`: bits of all that one reads and writes, each once; `bits`: of its
    widest values; `mean_moved`: as `moved`, on average over the PEs and without padding, None: there is none.
    """

    extents: tuple[int, ...]
    operations: float
    mean: float
    moved: float
    bits: float
    mean_moved: float | None = None

    @staticmethod
    def of(
        einsum: Einsum, loops: Sequence[LocalLoop], points: PointCount, moved: tuple[float, float], bits: float
    ) -> LocalWork:
        """The work of loops, in the order of the Einsum, with so many points; `moved`, and its mean without padding."""
        each = operations_per_point(einsum)
        extents = tuple(loop.block for loop in loops)
        return LocalWork(extents, points.busiest * each, points.mean * each, moved[0], bits, moved[1])


class EinsumCost(Protocol):
    """Cost of one Einsum by the work of a PE. Equal, and with equal hashes, where the same work costs the same."""

    def __hash__(self) -> int: ...

    def compute(self, mesh: Mesh, work: LocalWork) -> float:
        """The cost of the Einsum on every PE, at least 0; inf where a PE cannot do it."""


@runtime_checkable
class SlowEinsumCost(EinsumCost, Protocol):
    """A cost that takes long to find out: the search asks for lower bounds, and for the cost of what it would choose
    by them.
    """

    @property
    def proven(self) -> bool:
        """Whether all costs so far are certain; where one may still be found to be less, no plan is proven best."""

    def compute(self, mesh: Mesh, work: LocalWork, progress: Progress | None = None) -> float:
        """The cost; `progress` may end what takes long, which then gives the best so far."""

    def least(self, mesh: Mesh, work: LocalWork) -> float:
        """A lower bound of `compute`, found quickly."""

    def known(self, mesh: Mesh, work: LocalWork) -> float | None:
        """The result of `compute`, where that is found quickly."""

    def why_not(self, work: LocalWork) -> EinmapError | None:
        """Why a PE cannot do the work; None where it can."""


class CostModel(Protocol):
    """Costs in one unit, at least 0. Implementations compare by value and can be hashed."""

    def __hash__(self) -> int: ...

    def move(
        self, kind: Kind, mesh: Mesh, axes: tuple[AxisName, ...], operand: float, result: float, senders: float = 1.0
    ) -> float:
        """Of one collective; bits that one PE puts in and gets out, and which part of the PEs sends."""

    def of(self, einsum: Einsum) -> EinsumCost:
        """Cost of an Einsum by the work of a PE."""


@dataclass(frozen=True, slots=True)
class ClusterCost:
    """Costs on a cluster: `time` in s, or s of the slowest PE; `bytes` that one PE sends, on average; `energy` in J of
    all PEs.

    For `bytes` a computed operation counts 1e-6, so that of plans with equal traffic the one with less work is taken.
    """

    cluster: Cluster
    metric: PlanMetric = "time"

    def move(
        self, kind: Kind, mesh: Mesh, axes: tuple[AxisName, ...], operand: float, result: float, senders: float = 1.0
    ) -> float:
        """Of one collective; bits that one PE puts in and gets out, and which part of the PEs sends."""
        whole = result if kind == "all_gather" else operand
        match self.metric:
            case "bytes":
                return float(sent(kind, mesh.parts(axes), 1, 1)) * whole * senders / 8 + PER_MOVE
            case "energy":
                return self.cluster.energy(kind, mesh, axes, whole * senders) + PER_MOVE
            case "time" | "memory":
                return self.cluster.seconds(kind, mesh, axes, operand / 8, result / 8) + PER_MOVE

    def of_hop(self, mesh: Mesh, hop: Hop, bits: float) -> float:
        """Of one move of a tensor whose values have so many bits: time as padding is sent, too, energy without it."""
        operand, result = hop.operand * bits, hop.result * bits
        if hop.routes is not None and self.metric in ("time", "memory"):
            return self.cluster.routed_seconds(mesh, hop.axes, hop.routes, operand / 8) + PER_MOVE
        if hop.routes is not None and self.metric == "energy":
            return self.cluster.routed_energy(mesh, hop.axes, hop.routes, operand) + PER_MOVE
        if self.metric == "energy":
            operand, result = operand * hop.filled, result * hop.filled
        return self.move(hop.kind, mesh, hop.axes, operand, result, hop.senders)

    def of(self, einsum: Einsum) -> EinsumCost:
        """Cost of an Einsum: by its operations and what it moves, or by the architecture of the PE."""
        arch = self.cluster.pe.arch
        if arch is None or self.metric == "bytes":
            return self
        return MappedCost(arch, arch.like(einsum), "energy" if self.metric == "energy" else "latency")

    def compute(self, mesh: Mesh, work: LocalWork) -> float:
        """The cost of an Einsum on every PE, by its operations and what it moves."""
        pe = self.cluster.pe
        match self.metric:
            case "bytes":
                return work.operations * 1e-6
            case "energy":
                moved = work.moved if work.mean_moved is None else work.mean_moved
                joules = work.mean * pe.energy_per_operation + moved * pe.energy_per_bit
                return joules * mesh.n_devices
            case "time" | "memory":
                return pe.seconds(work.operations, work.moved / 8, work.bits)


@dataclass(frozen=True, slots=True)
class MappedCost:
    """Costs of Einsums that are like `einsum` on PEs with an architecture: s of one PE, or J of all of them."""

    arch: PeArch
    einsum: Einsum
    goal: ArchGoal

    @property
    def proven(self) -> bool:
        """Whether all costs so far are proven to be those of the best mappings."""
        return self.arch.proven

    def compute(self, mesh: Mesh, work: LocalWork, progress: Progress | None = None) -> float:
        """The cost of the best mapping; inf where there is none."""
        return self._of_all(mesh, self.arch.cost(self.einsum, work.extents, self.goal, progress))

    def least(self, mesh: Mesh, work: LocalWork) -> float:
        """A lower bound of `compute`, found quickly."""
        return self._of_all(mesh, self.arch.least(self.einsum, work.extents, self.goal))

    def known(self, mesh: Mesh, work: LocalWork) -> float | None:
        """The result of `compute`, where the mapper has been asked before."""
        cost = self.arch.known(self.einsum, work.extents, self.goal)
        return None if cost is None else self._of_all(mesh, cost)

    def why_not(self, work: LocalWork) -> EinmapError | None:
        """Why there is no mapping; None where there is one."""
        return self.arch.why_not(self.einsum, work.extents)

    def _of_all(self, mesh: Mesh, cost: float) -> float:
        return cost * mesh.n_devices if self.goal == "energy" else cost


def hop_cost(model: CostModel, mesh: Mesh, hop: Hop, bits: float) -> float:
    """Cost of a move of a tensor whose values have so many bits; slices cost nothing."""
    if hop.kind == "slice":
        return 0.0
    if isinstance(model, ClusterCost):
        return model.of_hop(mesh, hop, bits)
    return model.move(hop.kind, mesh, hop.axes, hop.operand * bits, hop.result * bits, hop.senders)


def traffic_first(mesh: Mesh) -> ClusterCost:
    """Time on equal rings of 100 GB/s without latency, and PEs of 100 Tera-operations/s: a byte is worth 1,000
    operations.
    """
    return ClusterCost(flat_cluster(mesh, 100e9, 0.0, 100e12))


def operations_per_point(einsum: Einsum) -> int:
    """Operations at a point of the iteration space: functions of its map, and one for a reduction; at least 1."""
    reduces = any(
        variable not in access.variables
        for access in einsum.accesses
        if access.output
        for variable in einsum.rank_variables
    )
    return max(1, _functions(einsum.operation.map) + reduces)


def _functions(expression: MapExpression | None) -> int:
    if not isinstance(expression, Apply):
        return 0
    return 1 + sum(_functions(argument) for argument in expression.arguments)
