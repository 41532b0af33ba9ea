"""Bytes that a plan sends, and how long it takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush

from einmap.distribute.costs.cluster import Cluster, default_cluster
from einmap.distribute.costs.cost_model import ClusterCost, LocalWork
from einmap.distribute.hops.hop import Hop
from einmap.distribute.hops.pairs import fetched_by, rounds_of
from einmap.distribute.hops.routes import Routes
from einmap.distribute.placements.placement import local_shape
from einmap.distribute.plans.collectives import Traffic, sent
from einmap.distribute.plans.plan import (
    BYTES,
    BufferName,
    Combine,
    Fill,
    Local,
    Move,
    Plan,
    PlanStep,
    Put,
    Repeat,
    buffers_read,
    buffers_written,
)
from einmap.distribute.plans.points import PointCount, points_of, turns_of
from einmap.einsum.einsum import TensorName

COMPUTE = "compute"
"""The lane of Einsums; those of moves are called by the axes of the mesh, `axis x`."""


@dataclass(frozen=True, slots=True)
class Span:
    """When a step of a plan runs. `step`: its position in the plan; `lanes`: what it occupies; seconds."""

    step: int
    lanes: tuple[str, ...]
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """Steps that run as soon as they may. `spans`: in the order of the plan; `critical`: positions of steps that follow
    one another without a gap and end last, first to last.
    """

    spans: tuple[Span, ...]
    critical: tuple[int, ...]

    @property
    def makespan(self) -> float:
        """Seconds from the first start to the last end."""
        return max((span.end for span in self.spans), default=0.0)


@dataclass(frozen=True, slots=True)
class PlanCost:
    """Per PE: `sent_bytes`; `points` of local Einsums, on the busiest PE, and `mean_points`; `buffer_bytes` of all
    buffers together; seconds.

    `latency`: steps follow one another; in a loop each turn takes what its own `timeline` does: of what it sends and
    computes the longer, where neither waits for the other. `overlapped_latency`: steps run as soon as they may
    (`timeline`), at most `latency`.
    """

    sent_bytes: float
    points: int
    mean_points: float
    buffer_bytes: int
    communication_seconds: float
    computation_seconds: float
    latency: float
    overlapped_latency: float


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
            case Local() | Combine() | Fill() | Put():
                pass


def traffic_of(plan: Plan, move: Move, count: int = 1) -> Traffic:
    """Values of one collective that go in, come out and are sent, padding included."""
    source, target = plan.by_name[move.source], plan.by_name[move.target]
    parts, width = plan.mesh.parts(move.axes), BYTES[plan.dtype]
    sizes = dict(source.sizes)
    shape = local_shape(sizes, source.placement)
    if move.scatter is not None and move.kind != "slice":
        # what is scattered is padded to whole blocks
        shape[move.scatter] = parts * local_shape(sizes, target.placement)[move.scatter]
    if move.kind == "halo" and move.gather is not None:
        _, shape[move.gather] = fetched_by(plan, move)
    operand = math.prod(shape.values())
    result = {"all_gather": operand * parts, "reduce_scatter": operand // parts}.get(move.kind, operand)
    rounds = rounds_of(plan, move)
    senders = Fraction(sum(map(len, rounds)), parts * len(rounds)) if rounds else 1
    return Traffic(
        kind=move.kind,
        tensor=source.tensor,
        axes=move.axes,
        groups=plan.mesh.groups(move.axes),
        count=count,
        operand_bytes=operand * width,
        result_bytes=result * width,
        sent_bytes=float(sent(move.kind, parts, operand, result) * senders * width),
        rounds=rounds,
    )


def plan_cost(plan: Plan, cluster: Cluster | None = None, bits: Mapping[TensorName, float] | None = None) -> PlanCost:
    """Bytes, points and seconds of a plan for each PE.

    `cluster`: without it links of 100 GB/s and 1 us along every axis, and PEs of 100 Tera-operations/s; `bits`: of a
    value of each tensor, for the seconds; without, all are as wide as `plan.dtype`. Raises SpecError where the mesh of
    the plan does not fit the cluster.
    """
    cluster = cluster or default_cluster(plan.mesh)
    cluster.check(plan.mesh)
    timed = _Timed(plan, cluster, bits or {})
    moving, computing, together = _seconds(timed, plan.steps)
    counted = list(_points(plan, plan.steps))
    return PlanCost(
        sent_bytes=sum(traffic.total_sent_bytes for traffic in communication(plan)),
        points=sum(points.busiest for points in counted),
        mean_points=sum(points.mean for points in counted),
        buffer_bytes=sum(math.prod(buffer.shape) for buffer in plan.buffers) * BYTES[plan.dtype],
        communication_seconds=moving,
        computation_seconds=computing,
        latency=together,
        overlapped_latency=_scheduled(timed, plan.steps).makespan,
    )


def step_costs(plan: Plan, model: ClusterCost, bits: Mapping[TensorName, float]) -> tuple[float, ...]:
    """Costs of the steps of a plan by `model`, those of a loop all turns together: seconds as in `plan_cost`, bytes
    and joules as the search counts them, padding included.
    """
    if model.metric in ("time", "memory"):
        timed = _Timed(plan, model.cluster, bits)
        return tuple(_seconds(timed, (step,))[2] for step in plan.steps)
    return tuple(_summed(plan, model, bits, step, (0,)) for step in plan.steps)


def timeline(plan: Plan, cluster: Cluster, bits: Mapping[TensorName, float] | None = None) -> Timeline:
    """The steps of a plan by list scheduling, in the order of the plan or those with the longest way to the end first,
    whichever ends sooner: not proven least.

    Einsums run one after another, and so do moves along each axis; a loop occupies all that its steps do. A step waits
    for those that write what it reads, and that read or write what it writes. It may need more memory than
    `peak_memory` says, which takes steps one by one. `bits`: as in `plan_cost`. Raises SpecError where the mesh of the
    plan does not fit the cluster.
    """
    cluster.check(plan.mesh)
    return _scheduled(_Timed(plan, cluster, bits or {}), plan.steps)


def _scheduled(timed: _Timed, steps: Sequence[PlanStep]) -> Timeline:
    """Steps of a plan, or of one turn of a loop, whose turns follow one another."""
    seconds = [_seconds(timed, (step,))[2] for step in steps]
    lanes = [tuple(sorted(_lanes(step))) for step in steps]
    before = _waits_for(steps)
    after: list[list[int]] = [[] for _ in steps]
    for step, others in enumerate(before):
        for other in others:
            after[other].append(step)
    rest = list(seconds)
    for step in reversed(range(len(steps))):
        rest[step] += max((rest[follower] for follower in after[step]), default=0.0)

    orders = ([float(step) for step in range(len(steps))], [-one for one in rest])
    listed = [_listed(seconds, lanes, before, after, order) for order in orders]
    spans = min(listed, key=lambda spans: max((span.end for span in spans), default=0.0))
    return Timeline(spans, _critical(spans, before))


def _listed(
    seconds: Sequence[float],
    lanes: Sequence[tuple[str, ...]],
    before: Sequence[set[int]],
    after: Sequence[Sequence[int]],
    order: Sequence[float],
) -> tuple[Span, ...]:
    """Whenever a lane is free, the first by `order` of the steps that need wait no more takes it."""
    waiting = [len(others) for others in before]
    ready = [(order[step], step) for step in range(len(seconds)) if not waiting[step]]
    running: list[tuple[float, int]] = []
    spans: dict[int, Span] = {}
    busy: set[str] = set()
    now = 0.0
    while ready or running:
        for entry in sorted(ready):
            step = entry[1]
            if busy.isdisjoint(lanes[step]):
                ready.remove(entry)
                busy.update(lanes[step])
                spans[step] = Span(step, lanes[step], now, now + seconds[step])
                heappush(running, (spans[step].end, step))
        now, done = heappop(running)
        busy.difference_update(lanes[done])
        for follower in after[done]:
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append((order[follower], follower))
    return tuple(spans[step] for step in range(len(seconds)))


def _waits_for(steps: Sequence[PlanStep]) -> list[set[int]]:
    """For each step the earlier ones that it waits for."""
    writer: dict[BufferName, int] = {}
    readers: dict[BufferName, set[int]] = {}
    before: list[set[int]] = []
    for position, step in enumerate(steps):
        reads, writes = buffers_read(step), buffers_written(step)
        waits = {writer[name] for name in (*reads, *writes) if name in writer}
        for name in writes:
            waits |= readers.pop(name, set())
            writer[name] = position
        for name in reads - writes:
            readers.setdefault(name, set()).add(position)
        before.append(waits)
    return before


def _lanes(step: PlanStep) -> set[str]:
    match step:
        case Local():
            return {COMPUTE}
        case Move(kind=kind, along=axes):
            return set() if kind == "slice" else {f"axis {axis}" for axis in axes}
        case Combine() | Fill() | Put():
            return set()
        case Repeat(steps=steps):
            return {lane for one in steps for lane in _lanes(one)}


def _critical(spans: Sequence[Span], before: Sequence[set[int]]) -> tuple[int, ...]:
    """From the step that ends last back to the start, by what it waited for: data rather than a lane."""
    if not spans:
        return ()
    at = max(spans, key=lambda span: span.end)
    path = [at.step]
    while at.start > 0:
        ended = [span for span in spans if span.end == at.start and span.step not in path]
        data = [span for span in ended if span.step in before[at.step]]
        lane = [span for span in ended if not set(span.lanes).isdisjoint(at.lanes)]
        if not (data or lane):
            break
        at = (data or lane)[0]
        path.append(at.step)
    return tuple(reversed(path))


@dataclass(frozen=True, slots=True)
class _Timed:
    """Seconds of single steps of a plan on a cluster."""

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
        operand, result = traffic.operand_bytes * scale, traffic.result_bytes * scale
        mesh = self.plan.mesh
        if traffic.rounds:
            routes = Routes(tuple(mesh.size(axis) for axis in move.axes), traffic.rounds)
            return self.cluster.routed_seconds(mesh, move.axes, routes, operand)
        return self.cluster.seconds(move.kind, mesh, move.along, operand, result)

    def local(self, local: Local) -> float:
        """Seconds of an Einsum, in a loop of its longest turn: the longer of its operations, and of reading and writing
        its tensors once; or what the mapper says of the architecture of the PE.
        """
        einsum = self.plan.einsum(local.einsum)
        counts = [points_of(einsum, local.loops, self.plan.mesh, turn) for turn in turns_of(local.loops)]
        longest = max(counts, key=lambda points: points.busiest)
        work = _work(self.plan, local, longest, self.bits)
        return ClusterCost(self.cluster, "time").of(einsum).compute(self.plan.mesh, work)


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
                together += step.count * _scheduled(timed, step.steps).makespan
            case Combine() | Fill() | Put():
                pass
    return moving, computing, together


def _summed(
    plan: Plan, model: ClusterCost, bits: Mapping[TensorName, float], step: PlanStep, turns: Sequence[int]
) -> float:
    """Bytes or joules of a step in these turns of the loop around it."""
    width = 8 * BYTES[plan.dtype]
    match step:
        case Move(kind=kind) if kind != "slice":
            traffic = traffic_of(plan, step)
            scale = 8 * bits.get(traffic.tensor, width) / width
            routed = Routes(tuple(plan.mesh.size(axis) for axis in step.axes), traffic.rounds)
            hop = Hop(
                kind,
                step.axes,
                plan.by_name[step.target].placement,
                traffic.operand_bytes,
                traffic.result_bytes,
                int(traffic.sent_bytes * plan.mesh.n_devices),
                senders=sum(map(len, traffic.rounds)) / plan.mesh.parts(step.axes) if traffic.rounds else 1.0,
                routes=routed if traffic.rounds else None,
            )
            return len(turns) * model.of_hop(plan.mesh, hop, scale)
        case Local(loops=loops):
            einsum = plan.einsum(step.einsum)
            counts = [points_of(einsum, loops, plan.mesh, turn) for turn in turns]
            return sum(model.of(einsum).compute(plan.mesh, _work(plan, step, one, bits)) for one in counts)
        case Repeat(steps=steps, count=count):
            return len(turns) * sum(_summed(plan, model, bits, one, range(count)) for one in steps)
        case _:
            return 0.0


def _work(plan: Plan, local: Local, points: PointCount, bits: Mapping[TensorName, float]) -> LocalWork:
    """Work of a PE for a local Einsum with so many points."""
    touched = [plan.by_name[name] for _, name in (*local.operands, *local.results)]
    widths = [bits.get(buffer.tensor, 8 * BYTES[plan.dtype]) for buffer in touched]
    moved = sum(math.prod(buffer.shape) * width for buffer, width in zip(touched, widths, strict=True))
    return LocalWork.of(plan.einsum(local.einsum), local.loops, points, (moved, moved), max(widths))


def _points(plan: Plan, steps: Sequence[PlanStep], turns: Sequence[int] = (0,)) -> Iterator[PointCount]:
    """The points of each local Einsum, each time that it runs."""
    for step in steps:
        match step:
            case Local():
                einsum = plan.einsum(step.einsum)
                each = turns if turns_of(step.loops) != (0,) else turns[:1]
                for turn in each:
                    points = points_of(einsum, step.loops, plan.mesh, turn)
                    repeated = len(turns) // len(each)
                    yield PointCount(points.busiest * repeated, points.mean * repeated)
            case Repeat():
                for one in _points(plan, step.steps, range(step.count)):
                    yield PointCount(one.busiest * len(turns), one.mean * len(turns))
            case Move() | Combine() | Fill() | Put():
                pass
