"""Lower bounds of plans: seconds and bytes without running the pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.pipelines.problem import ROUNDING
from einmap.distribute.training.cuts import Unit, Width
from einmap.distribute.training.held import held_by_weights
from einmap.distribute.training.layer import Weights
from einmap.distribute.training.plan import SPLIT, TrainingPlan
from einmap.distribute.training.stage import Stage, shown_once
from einmap.distribute.training.step import TrainingCosts, ordered_for, run_at_least

SHORT = 1e-6
"""Bytes of a message that takes as long as any does at least."""


def in_flight(plan: TrainingPlan, batches: int, stage: int) -> float:
    """Micro-batches whose activations a stage holds at its peak: exact for `1f1b`, about so many for others."""
    pp, device = plan.pp, stage % plan.pp
    match plan.schedule:
        case "fill-drain":
            most = float(batches)
        case "interleaved":
            most = (2 * (pp - 1 - device) + (plan.chunks - 1) * pp + 1) / plan.chunks
        case "zb-1p" | "zb-v" | "dual-pipe-v":
            most = pp
        case "zb-2p":
            most = 2 * pp
        case _:
            most = pp - device
    return min(batches, most)


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over the first layers of a model, for one micro-batch. `passes`: float (layers + 1, 3), seconds without
    collectives that may hide; `moving`: float (layers + 1, 2), seconds of these in the forward and in the backward
    pass, which takes at least as long; `saved`, `fixed`: float (layers + 1), bytes that wait and that are there all
    the time; `working`: bytes of the least and of the largest layer while it runs; `part`: least part of the seconds of
    a layer that its forward pass takes; `stages`: different layers as stages of their own, `kinds`: int (layers,),
    which of them each layer is.
    """

    passes: NDArray[np.float64]
    moving: NDArray[np.float64]
    saved: NDArray[np.float64]
    fixed: NDArray[np.float64]
    working: tuple[float, float]
    part: float
    stages: tuple[Stage, ...]
    kinds: NDArray[np.intp]

    @property
    def total(self) -> float:
        """Seconds of all layers at least."""
        return float(self.between(np.array([0, -1])).sum())

    @cached_property
    def layers(self) -> NDArray[np.float64]:
        """Seconds of each layer at least, float (layers,)."""
        whole: NDArray[np.float64] = self.between(np.arange(len(self.passes))).sum(axis=1)
        return whole

    def between(self, ends: NDArray[np.intp]) -> NDArray[np.float64]:
        """Seconds at least of the passes of stages that end there, float (stages, 3): with what cannot hide."""
        passes, moving = np.diff(self.passes[ends], axis=0), np.diff(self.moving[ends], axis=0)
        passes[:, 0] = np.maximum(passes[:, 0], moving[:, 0])
        passes[:, 2] = np.maximum(passes[:, 2], moving[:, 1] - passes[:, 1])
        return passes


class Bounds:
    """Bounds of the plans of one model on one cluster; what plans share is found once."""

    def __init__(self, costs: TrainingCosts) -> None:
        self.costs = costs
        self._sums: dict[object, Sums] = {}
        self._tables: dict[object, float] = {}

    def sums(self, plan: TrainingPlan) -> Sums:
        """Sums over layers by a plan, on its first sub-mesh, whatever its stages and its schedule."""
        sizes = plan.tp, plan.cp, plan.ep, plan.dp, plan.devices
        key = sizes, plan.micro_batch, plan.sequence_parallel, plan.zero, plan.recompute, plan.overlap
        if key not in self._sums:
            model = self.costs.model
            kinds = [(layer, plan.recompute) for layer in model.units[:-1]]
            kinds.append((model.units[-1], "none"))  # its backward pass follows at once
            made: dict[tuple[str, str], Stage] = {}
            for layer, again in kinds:
                if (layer.name, again) not in made:
                    made[layer.name, again] = self.costs.stage(plan, [(layer, again, 1)], is_first=False)
            stages = [made[layer.name, again] for layer, again in kinds]
            passes = np.array([stage.alone for stage in stages])
            moving = np.array([stage.moving for stage in stages])
            zero, working = np.zeros(1), [stage.held.working for stage in stages]
            whole = passes.sum(axis=1)
            self._sums[key] = Sums(
                np.vstack([np.zeros((1, 3)), np.cumsum(passes, axis=0)]),
                np.vstack([np.zeros((1, 2)), np.cumsum(moving, axis=0)]),
                np.concatenate([zero, np.cumsum([stage.saved for stage in stages])]),
                np.concatenate([zero, np.cumsum([stage.held.total - stage.held.working for stage in stages])]),
                (min(working), max(working)),
                float(min(passes[whole > 0, 0] / whole[whole > 0], default=0.0)),
                tuple(made.values()),
                np.array([[*made].index((layer.name, again)) for layer, again in kinds]),
            )
        return self._sums[key]

    def units(self, plan: TrainingPlan) -> list[Unit]:
        """All layers in order."""
        sums = self.sums(plan)
        seconds = sums.layers.tolist()
        return [Unit(*row) for row in zip(seconds, np.diff(sums.saved), np.diff(sums.fixed), strict=True)]

    def table(self, plan: TrainingPlan) -> float:
        """Bytes of the table that the first stage looks up."""
        key = plan.tp, plan.cp, plan.ep, plan.dp, plan.devices, plan.zero
        if key not in self._tables:
            weights = Weights(self.costs.model.table / plan.tp, self.costs.table_bits, ("cp", "ep", "dp"), ())
            held = held_by_weights((weights,), self.costs.model, self.costs.machine(plan), plan.zero)
            self._tables[key] = held.total
        return self._tables[key]

    def room(self, plan: TrainingPlan, memory: float) -> float:
        """Bytes of a stage for weights and activations, where a device has `memory`."""
        return (memory - self.sums(plan).working[1]) / plan.chunks

    def least_memory(self, plan: TrainingPlan) -> float:
        """Bytes that the fullest device needs at least: an equal part of all weights, with one micro-batch, and a
        layer to work on.
        """
        sums = self.sums(plan)
        return float(sums.fixed[-1] + sums.saved[-1] + self.table(plan)) / plan.pp + self._working(plan)

    def of_any_cut(self, plan: TrainingPlan) -> float:
        """Seconds that a plan takes at least, whatever its stages: the work of the busiest device, and the way of a
        micro-batch through all stages.

        With one stage a device, stage s begins after the forward passes of the stages before it, and ends before their
        backward passes: a part r of their time t, of all passes in one part, else of the forward pass. So a step of B
        seconds with m micro-batches has t[s] at most (B - r (t[0] + ... + t[s - 1])) / m, and all p stages have
        B / r (1 - (1 - r / m) ** p) at most.
        """
        sums, batches = self.sums(plan), plan.micro_batches(self.costs.model.batch)
        is_split = plan.schedule in SPLIT
        alone = float(sums.passes[-1, : 2 if is_split else 3].sum())
        bound = max(batches * sums.total / plan.pp, batches * float(sums.layers.max()), alone)
        part = sums.part if is_split else 1.0
        if plan.chunks == 1 and plan.pp > 1 and part:
            whole = float(sums.passes[-1].sum()) if is_split else sums.total
            bound = max(bound, part * whole / (1 - (1 - part / batches) ** plan.pp))
        return bound

    def alone(self, plan: TrainingPlan, memory: float) -> NDArray[np.float64]:
        """Seconds of each layer for a micro-batch without collectives for gradients and weights, float (layers,);
        infinite where what waits and what it works on exceed the memory.
        """
        sums = self.sums(plan)
        needed = np.array([one.saved + one.held.working for one in sums.stages])[sums.kinds]
        return np.where(needed > memory * (1 + ROUNDING), np.inf, np.diff(sums.passes, axis=0).sum(axis=1))

    def width(self, plan: TrainingPlan, batches: int) -> Width:
        """The first sub-mesh of a plan, for stages of any layers."""
        sums, is_split = self.sums(plan), plan.schedule in SPLIT
        passes, moving = (rows[None] - rows[:, None] for rows in (sums.passes, sums.moving))
        forward = np.maximum(passes[..., 0], moving[..., 0])
        weights = np.maximum(passes[..., 2], moving[..., 1] - passes[..., 1])
        whole = forward + passes[..., 1] + weights
        # of the collectives once a step those of the first layer show
        shown = [sum(shown_once(plan, one.runs, often) for often in ("step", "update")) for one in sums.stages]
        updates = np.array([one.update for one in sums.stages])[sums.kinds]
        update = np.concatenate([np.zeros(1), np.cumsum(updates)])
        work = batches * whole + (update[None] - update[:, None]) + np.append(np.array(shown)[sums.kinds], 0.0)[:, None]
        # a message to the next stage, and one back
        lag = self.costs.machine(plan).seconds("shift", ("pp",), SHORT)
        ahead = forward + lag if is_split else whole + 2 * lag
        least = (batches * np.diff(sums.passes, axis=0).sum(axis=1) + updates) * plan.stage_devices
        return Width(
            (plan.dp, plan.tp), plan.stage_devices, work, ahead, sums.fixed, sums.saved, least, self.table(plan)
        )

    def held_with(self, plan: TrainingPlan) -> float:
        """Bytes that the fullest device of a plan with its stages needs at least."""
        assert plan.stages is not None
        sums, batches = self.sums(plan), plan.micro_batches(self.costs.model.batch)
        ends = np.concatenate([[0], np.cumsum(plan.stages)]).astype(np.intp)
        device_of, arrays = ordered_for(plan, run_at_least(plan, batches))
        saved, fixed = np.diff(sums.saved[ends]), np.diff(sums.fixed[ends])
        fixed[0] += self.table(plan)
        # a device with several stages holds the first micro-batch in all of them
        waiting = np.bincount(device_of, saved) if arrays is None else arrays.peaks(saved)
        return float((waiting + np.bincount(device_of, fixed)).max()) + self._working(plan)

    def _working(self, plan: TrainingPlan) -> float:
        """Bytes of each device at least while a layer runs."""
        return 0.0 if 0 in (plan.stages or ()) else self.sums(plan).working[0]
