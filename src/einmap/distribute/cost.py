"""What a plan sends and how long it takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from einmap.distribute.collectives import Traffic, rounds, sent
from einmap.distribute.placement import local_shape
from einmap.distribute.plan import BYTES, Combine, Local, Move, Plan, PlanStep, Repeat


@dataclass(frozen=True, slots=True)
class MeshMachine:
    """A mesh of equal PEs. `link_bandwidth`: bytes/s that one PE sends; `link_latency`: seconds of one message;
    `throughput`: points of an Einsum that one PE evaluates in a second.
    """

    link_bandwidth: float = 100e9
    link_latency: float = 1e-6
    throughput: float = 100e12


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


def plan_cost(plan: Plan, machine: MeshMachine | None = None) -> PlanCost:
    """Bytes, points and seconds of a plan on `machine`, for each PE."""
    machine = machine or MeshMachine()
    moving, computing, together = _seconds(plan, plan.steps, machine)
    return PlanCost(
        sent_bytes=sum(traffic.total_sent_bytes for traffic in communication(plan)),
        points=_points(plan.steps),
        buffer_bytes=sum(math.prod(buffer.shape) for buffer in plan.buffers) * BYTES[plan.dtype],
        communication_seconds=moving,
        computation_seconds=computing,
        latency=together,
    )


def _seconds(plan: Plan, steps: Sequence[PlanStep], machine: MeshMachine) -> tuple[float, float, float]:
    """Seconds of moving, of computing, and of both as they follow one another."""
    moving = computing = together = 0.0
    for step in steps:
        match step:
            case Move():
                taken = _move_seconds(plan, step, machine)
                moving, together = moving + taken, together + taken
            case Local():
                taken = _local_points(step) / machine.throughput
                computing, together = computing + taken, together + taken
            case Repeat():
                move, compute, _ = _seconds(plan, step.steps, machine)
                moving, computing = moving + step.count * move, computing + step.count * compute
                # what a turn sends does not depend on what it computes
                together += step.count * max(move, compute)
            case Combine():
                pass
    return moving, computing, together


def _move_seconds(plan: Plan, move: Move, machine: MeshMachine) -> float:
    traffic = traffic_of(plan, move)
    messages = rounds(move.kind, plan.mesh.parts(move.axes))
    return traffic.sent_bytes / machine.link_bandwidth + messages * machine.link_latency


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
