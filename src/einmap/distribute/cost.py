"""What a plan sends and how long it takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from einmap.distribute.cluster import Cluster, flat_cluster
from einmap.distribute.collectives import Traffic, sent
from einmap.distribute.cost_model import operations_per_point
from einmap.distribute.placement import local_shape
from einmap.distribute.plan import BYTES, Combine, Local, Move, Plan, PlanStep, Repeat
from einmap.einsum.einsum import TensorName


@dataclass(frozen=True, slots=True)
class PlanCost:
    """Per PE: `sent_bytes`; `points` of local Einsums; `buffer_bytes` of all buffers together; seconds.

    `latency` is the sum of communication and computation; where both overlap (a ring in chunks) each turn takes the
    longer of the two.
    """

    sent_bytes: float
    points: int
    buffer_bytes: int
    communication_seconds: float
    computation_seconds: float
    latency: float


def communication(plan: Plan) -> tuple[Traffic, ...]:
    """The collectives of a plan, in order; those of a loop once, with how often they run. Slices are none."""
    return tuple(traffic_of(plan, move, count) for move, count in _moves(plan.steps, 1) if move.kind != "slice")


def _moves(steps: Sequence[PlanStep], count: int) -> Iterator[tuple[Move, int]]:
    for step in steps:
        match step:
            case Move():
                yield step, count
            case Repeat():
                yield from _moves(step.steps, count * step.count)
            case Local() | Combine():
                pass


def traffic_of(plan: Plan, move: Move, count: int = 1) -> Traffic:
    """What one collective puts in and gets out, padding included, and what it sends."""
    source, target = plan.by_name[move.source], plan.by_name[move.target]
    parts, width = plan.mesh.parts(move.axes), BYTES[plan.dtype]
    sizes = dict(source.sizes)
    shape = local_shape(sizes, source.placement)
    if move.scatter is not None and move.kind != "slice":
        # what is scattered is padded to whole blocks
        shape[move.scatter] = parts * local_shape(sizes, target.placement)[move.scatter]
    operand = math.prod(shape.values())
    result = {"all_gather": operand * parts, "reduce_scatter": operand // parts}.get(move.kind, operand)
    return Traffic(
        kind=move.kind,
        tensor=source.tensor,
        axes=move.axes,
        groups=plan.mesh.groups(move.axes),
        count=count,
        operand_bytes=operand * width,
        result_bytes=result * width,
        sent_bytes=float(sent(move.kind, parts, operand, result) * width),
    )


def plan_cost(plan: Plan, cluster: Cluster | None = None, bits: Mapping[TensorName, float] | None = None) -> PlanCost:
    """Bytes, points and seconds of a plan for each PE.

    `cluster`: without it links of 100 GB/s and 1 us along every axis, and PEs of 100 Tera-operations/s; `bits`: of a
    value of each tensor, for the seconds; without, all are as wide as `plan.dtype`. Raises SpecError where the mesh of
    the plan does not fit the cluster.
    """
    cluster = cluster or flat_cluster(plan.mesh, 100e9, 1e-6, 100e12)
    cluster.check(plan.mesh)
    moving, computing, together = _seconds(_Timed(plan, cluster, bits or {}), plan.steps)
    return PlanCost(
        sent_bytes=sum(traffic.total_sent_bytes for traffic in communication(plan)),
        points=_points(plan.steps),
        buffer_bytes=sum(math.prod(buffer.shape) for buffer in plan.buffers) * BYTES[plan.dtype],
        communication_seconds=moving,
        computation_seconds=computing,
        latency=together,
    )


@dataclass(frozen=True, slots=True)
class _Timed:
    """What single steps of a plan take on a cluster."""

    plan: Plan
    cluster: Cluster
    bits: Mapping[TensorName, float]

    def width(self, tensor: TensorName) -> float:
        """Bits of a value."""
        return self.bits.get(tensor, 8 * BYTES[self.plan.dtype])

    def move(self, move: Move) -> float:
        """Seconds of a collective."""
        if move.kind == "slice":
            return 0.0
        traffic = traffic_of(self.plan, move)
        scale = self.width(traffic.tensor) / (8 * BYTES[self.plan.dtype])
        sizes = traffic.operand_bytes * scale, traffic.result_bytes * scale
        return self.cluster.seconds(move.kind, self.plan.mesh, move.axes, *sizes)

    def local(self, local: Local) -> float:
        """Seconds of an Einsum: the longer of its operations, and of reading and writing its tensors once."""
        operations = _local_points(local) * operations_per_point(self.plan.workload.find(local.einsum))
        touched = (*local.operands, *local.results)
        moved = sum(math.prod(self.plan.by_name[name].shape) * self.width(tensor) / 8 for tensor, name in touched)
        return self.cluster.pe.seconds(operations, moved, max(self.width(tensor) for tensor, _ in touched))


def _seconds(timed: _Timed, steps: Sequence[PlanStep]) -> tuple[float, float, float]:
    """Seconds of moving, of computing, and of both as they follow one another."""
    moving = computing = together = 0.0
    for step in steps:
        match step:
            case Move():
                taken = timed.move(step)
                moving, together = moving + taken, together + taken
            case Local():
                taken = timed.local(step)
                computing, together = computing + taken, together + taken
            case Repeat():
                move, compute, _ = _seconds(timed, step.steps)
                moving, computing = moving + step.count * move, computing + step.count * compute
                # what a turn sends does not depend on what it computes
                together += step.count * max(move, compute)
            case Combine():
                pass
    return moving, computing, together


def _points(steps: Sequence[PlanStep]) -> int:
    total = 0
    for step in steps:
        match step:
            case Local():
                total += _local_points(step)
            case Repeat():
                total += step.count * _points(step.steps)
            case Move() | Combine():
                pass
    return total


def _local_points(step: Local) -> int:
    return math.prod(loop.block for loop in step.loops)
