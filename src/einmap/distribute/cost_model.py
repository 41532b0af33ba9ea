"""What moves and local Einsums cost: the parameter of every search for a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from einmap.distribute.cluster import Cluster, flat_cluster
from einmap.distribute.collectives import Kind, sent
from einmap.distribute.hops.hop import Hop
from einmap.distribute.mesh import AxisName, Mesh
from einmap.einsum.einsum import Einsum
from einmap.einsum.operation import Apply, MapExpression

type PlanMetric = Literal["time", "bytes", "energy", "memory"]
PLAN_METRICS: tuple[PlanMetric, ...] = get_args(PlanMetric.__value__)

PER_MOVE = 1e-12
"""Added for each move, so that of equal plans the one with fewer moves is taken."""


class CostModel(Protocol):
    """Costs in one unit, at least 0. Implementations compare by value and can be hashed."""

    def __hash__(self) -> int: ...

    def move(
        self, kind: Kind, mesh: Mesh, axes: tuple[AxisName, ...], operand: float, result: float, senders: float = 1.0
    ) -> float:
        """Of one collective; bits that one PE puts in and gets out, and which part of the PEs sends."""

    def compute(self, mesh: Mesh, operations: float, moved: float, bits: float, mean: float) -> float:
        """Of one Einsum on every PE: operations of the busiest, bits that one reads and writes, bits of the widest
        values, operations of a PE on average.
        """


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
        sent_bits = float(sent(kind, mesh.parts(axes), 1, 1)) * (result if kind == "all_gather" else operand)
        match self.metric:
            case "bytes":
                return sent_bits * senders / 8 + PER_MOVE
            case "energy":
                link = self.cluster.link(axes)
                return sent_bits * senders * link.energy_per_bit * mesh.n_devices + PER_MOVE
            case "time" | "memory":
                return self.cluster.seconds(kind, mesh, axes, operand / 8, result / 8) + PER_MOVE

    def compute(self, mesh: Mesh, operations: float, moved: float, bits: float, mean: float) -> float:
        """Of one Einsum on every PE: operations of the busiest, bits that one reads and writes, bits of the widest
        values, operations of a PE on average.
        """
        pe = self.cluster.pe
        match self.metric:
            case "bytes":
                return operations * 1e-6
            case "energy":
                return (mean * pe.energy_per_operation + moved * pe.energy_per_bit) * mesh.n_devices
            case "time" | "memory":
                return pe.seconds(operations, moved / 8, bits)


def hop_cost(model: CostModel, mesh: Mesh, hop: Hop, bits: float) -> float:
    """What a move of a tensor costs whose values have so many bits; slices cost nothing."""
    if hop.kind == "slice":
        return 0.0
    return model.move(hop.kind, mesh, hop.axes, hop.operand * bits, hop.result * bits, hop.senders)


def traffic_first(mesh: Mesh) -> ClusterCost:
    """Time on equal links of 100 GB/s without latency, and PEs of 100 Tera-operations/s: a byte is worth 1,000
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
