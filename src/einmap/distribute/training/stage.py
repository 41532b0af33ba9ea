"""Layers of one stage on one device: its passes, and which collectives for gradients and weights hide behind computing.

A bucket is a layer. Collectives of a device run one after another, in the order in which they are asked for. A gradient
can be summed when the layer has made it, and hides behind what is left of the pass: the last one does not hide. Weights
are gathered one layer ahead, behind the layer before: those of the first layer do not hide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from einmap.distribute.training.held import DataMove, Held, data_moves, held_by_weights, layer_moves
from einmap.distribute.training.layer import Collective, LayerCost, Phase, Weights
from einmap.distribute.training.machine import Machine
from einmap.distribute.training.model import TrainingModel
from einmap.distribute.training.plan import SPLIT, Recompute, TrainingPlan


@dataclass(frozen=True, slots=True)
class StepPart:
    """Seconds of the device that is done last, spent on one thing. `hidden`: seconds of it that run meanwhile; `sent`:
    bytes that the device sends.
    """

    what: str
    seconds: float
    hidden: float = 0.0
    sent: float = 0.0


class Parts:
    """Parts of a time, by what they are."""

    def __init__(self) -> None:
        self.made: dict[str, StepPart] = {}

    def add(self, what: str, seconds: float, hidden: float = 0.0, sent: float = 0.0) -> None:
        """Add to a part."""
        old = self.made.get(what, StepPart(what, 0.0))
        self.made[what] = StepPart(what, old.seconds + seconds, old.hidden + hidden, old.sent + sent)

    def add_moves(self, moves: Sequence[tuple[int, DataMove]], shown: float) -> None:
        """Add so many of each collective; `shown`: seconds that are waited for all of them, for what runs before as
        well.
        """
        taken = sum(count * move.seconds for count, move in moves)
        part = shown / taken if taken else 0.0
        for count, move in moves:
            seconds = count * move.seconds
            self.add(f"{move.what} {move.kind}", seconds * part, seconds * max(0.0, 1 - part), count * move.sent)


@dataclass(frozen=True, slots=True)
class Run:
    """Equal layers in a row. Of each: seconds of its `passes` without `moves`, its collectives for gradients and
    weights.
    """

    count: int
    passes: Mapping[Phase, float]
    moves: tuple[DataMove, ...]

    def seconds(self, often: str, what: str = "") -> float:
        """Seconds of those of its collectives that run so often, for gradients, for weights or for both."""
        return sum(move.seconds for move in self.moves if move.often == often and what in ("", move.what))


@dataclass(frozen=True)
class Stage:
    """Layers of one stage on one device, for one micro-batch. `passes`: seconds of forward, backward for inputs and for
    weights with everything that is not hidden; `alone`: these without collectives that may hide, `moving`: seconds of
    those in the forward and in the backward pass; `saved`: bytes that wait; `update`: seconds of the update of its
    weights, once a step; `runs`: its layers in order; `parts`: what the passes are spent on.
    """

    passes: tuple[float, float, float]
    alone: tuple[float, float, float]
    moving: tuple[float, float]
    saved: float
    held: Held
    update: float
    runs: tuple[Run, ...]
    parts: Mapping[str, StepPart]


_PHASES: tuple[Phase, ...] = ("forward", "input", "weight")


def stage_of(
    plan: TrainingPlan,
    model: TrainingModel,
    machine: Machine,
    costs: Sequence[tuple[LayerCost, Recompute, int]],
    tables: tuple[Weights, ...],
) -> Stage:
    """The stage with so many of each layer in a row, and with tables that are looked up."""
    parts = Parts()
    saved, working = 0.0, 0.0
    every, runs = list[Weights](), list[Run]()
    if tables:
        moves = tuple(data_moves(tables, model, machine, min(plan.zero, 1)))
        runs.append(Run(1, dict.fromkeys(_PHASES, 0.0), moves))
    for cost, recompute, count in costs:
        passes = _passes(plan, cost, recompute, count, parts)
        runs.append(Run(count, passes, tuple(layer_moves(cost, model, machine, plan.zero))))
        saved += cost.saved[recompute] * count
        every += [replace(w, values=w.values * count) for w in cost.weights]
        again = cost.saved["none"] - cost.saved[recompute] if recompute != "none" else 0.0
        whole = 2 * sum(weights.bytes for weights in cost.weights) if plan.zero == 3 else 0.0
        working = max(working, cost.working + max(again, 0.0) + whole)
    every += tables
    held = held_by_weights(every, model, machine, plan.zero) + Held(working=working)
    forward, inputs, weight = (sum(run.count * run.passes[phase] for run in runs) for phase in _PHASES)
    ahead, behind, summed = _shown(plan, runs, parts)
    spent = forward + ahead, inputs + behind, weight + summed
    alone, moving = spent, (0.0, 0.0)
    if "data" in plan.overlap:
        alone = forward, inputs, weight
        moving = _seconds(runs, "forward"), _seconds(runs, "backward")
    update = _update(plan, every, model, machine)
    return Stage(spent, alone, moving, saved, held, update, tuple(runs), parts.made)


def _update(plan: TrainingPlan, weights: Iterable[Weights], model: TrainingModel, machine: Machine) -> float:
    """Seconds of the update: gradients are read, state and weights read and written as the optimiser says, of all
    weights at once, as kernels on master copies and moments of 32 bits do.
    """
    moved = 0.0
    for some in weights:
        parts = machine.parts(some.copies) if plan.zero else 1
        moved += some.values * (model.updated(some.bits).moved + model.gradient_bytes) / parts
    return moved / machine.cluster.pe.streamed(32)


def _seconds(runs: Iterable[Run], often: str, what: str = "") -> float:
    return sum(run.count * run.seconds(often, what) for run in runs)


def _passes(plan: TrainingPlan, cost: LayerCost, recompute: Recompute, count: int, parts: Parts) -> dict[Phase, float]:
    """Seconds of the passes of a layer, with collectives of activations that run while it computes."""
    spent: dict[Phase, float] = {}
    for phase in _PHASES:
        computing = cost.compute[phase]
        parts.add("computing", computing * count)
        again, repeated = _again(cost, recompute) if phase == "input" else (0.0, [])
        if again:
            parts.add("computing again", again * count)
        free = computing + again if "tensor" in plan.overlap else 0.0
        moving = 0.0
        for one in (*(c for c in cost.collectives if c.phase == phase), *repeated):
            hidden = min(free, one.seconds)
            free -= hidden
            moving += one.seconds - hidden
            parts.add(f"activations {one.kind}", (one.seconds - hidden) * count, hidden * count, one.sent * count)
        spent[phase] = computing + again + moving
    return spent


def _again(cost: LayerCost, recompute: Recompute) -> tuple[float, list[Collective]]:
    """Seconds of computing again in the backward pass, and the collectives that run again."""
    forward = [one for one in cost.collectives if one.phase == "forward"]
    match recompute:
        case "full":
            return cost.compute["forward"], forward
        case "selective":
            return cost.attention, [one for one in forward if one.again]
        case _:
            return 0.0, []


# what is hidden


@dataclass(frozen=True, slots=True)
class Bucket:
    """Equal layers in the order of a pass. Seconds of each: `computing`, `gather` of weights that it waits for, and
    `reduce` of gradients that it makes.
    """

    count: int
    computing: float
    gather: float = 0.0
    reduce: float = 0.0


def waits(buckets: Sequence[Bucket]) -> tuple[float, float]:
    """Seconds that a pass waits for gathers one layer ahead, and after its computing for sums of gradients."""
    layers = [bucket for bucket in buckets for _ in range(bucket.count)]
    if not any(layer.gather for layer in layers):
        return 0.0, waits_for_sums(buckets)
    # `free`: when no collective runs any more; `here`: when the weights of the layer are there
    end, free = 0.0, layers[0].gather
    here = free
    for layer, following in zip(layers, [*layers[1:], Bucket(1, 0.0)], strict=True):
        start = max(end, here)
        if following.gather:
            free = here = max(free, start) + following.gather
        end = start + layer.computing
        if layer.reduce:
            free = max(free, end) + layer.reduce
    return end - sum(layer.computing for layer in layers), max(0.0, free - end)


def waits_for_all(buckets: Iterable[Bucket]) -> float:
    """Seconds that a pass waits for gathers that are all asked for when it begins."""
    end = gathered = computing = 0.0
    for bucket in buckets:
        if bucket.count:
            own = bucket.count * bucket.computing
            every = gathered + bucket.count * bucket.gather
            # of equal layers the first one waits longest, or the last one
            end = max(end + own, gathered + bucket.gather + own, every + bucket.computing)
            gathered, computing = every, computing + own
    return end - computing


def waits_for_sums(buckets: Sequence[Bucket]) -> float:
    """Seconds from the end of a pass until all gradients are summed: the pass backwards in time waits for them."""
    return waits_for_all(Bucket(one.count, one.computing, one.reduce) for one in reversed(buckets))


def _waits_backward(plan: TrainingPlan, runs: Sequence[Run], often: str) -> tuple[float, float]:
    """Seconds that a backward pass waits for weights, and then for sums of gradients that run so often."""
    inputs = [Bucket(run.count, run.passes["input"], run.seconds(often, "weights")) for run in reversed(runs)]
    weights = [Bucket(run.count, run.passes["weight"], 0.0, run.seconds(often, "gradients")) for run in reversed(runs)]
    if plan.schedule in SPLIT:
        # gradients of weights are made in a pass of its own
        return waits(inputs)[0], waits_for_sums(weights)
    pairs = zip(inputs, weights, strict=True)
    return waits([Bucket(i.count, i.computing + w.computing, i.gather, w.reduce) for i, w in pairs])


def _shown(plan: TrainingPlan, runs: Sequence[Run], parts: Parts) -> tuple[float, float, float]:
    """Seconds that the forward pass waits for weights, the backward pass for weights and then for sums of gradients,
    in each micro-batch.
    """
    ahead, behind = _seconds(runs, "forward"), _seconds(runs, "backward", "weights")
    summing = _seconds(runs, "backward", "gradients")
    first, second, third = ahead, behind, summing
    if "data" in plan.overlap:
        first, _ = waits([Bucket(run.count, run.passes["forward"], run.seconds("forward")) for run in runs])
        second, third = _waits_backward(plan, runs, "backward")
    moves = [(run.count, move) for run in runs for move in run.moves if move.often in ("forward", "backward")]
    parts.add_moves([one for one in moves if one[1].what == "weights"], first + second)
    parts.add_moves([one for one in moves if one[1].what == "gradients"], third)
    return first, second, third


def shown_once(plan: TrainingPlan, runs: Sequence[Run], often: str) -> float:
    """Seconds that a device waits once a step: for sums of gradients behind its last backward passes (`step`), or for
    weights behind its next forward passes (`update`). `runs`: all layers of the device in order.
    """
    if often == "step":
        return sum(_waits_backward(plan, runs, often))
    return waits_for_all(Bucket(run.count, run.passes["forward"], run.seconds(often)) for run in runs)
