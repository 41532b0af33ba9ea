"""A training step by a plan: seconds with what they are spent on, bytes that each device holds and sends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import groupby

from einmap.distribute.costs.cluster import Cluster
from einmap.distribute.pipelines.problem import ROUNDING
from einmap.distribute.pipelines.quick import Ordered, ends, ordered
from einmap.distribute.pipelines.shipped import pipeline_schedule
from einmap.distribute.pipelines.timeline import StageCosts, Timeline, run_pipeline
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.training.held import DataMove, Held
from einmap.distribute.training.layer import LayerCost, Weights, layer_cost
from einmap.distribute.training.machine import Machine, check_meshes, machine_for
from einmap.distribute.training.model import Layer, TrainingModel
from einmap.distribute.training.plan import SPLIT, Dim, Recompute, TrainingPlan
from einmap.distribute.training.stage import Parts, Stage, StepPart, shown_once, stage_of
from einmap.errors import SpecError
from einmap.units import counted
from einmap.visible import brief


@dataclass(frozen=True)
class TrainingStep:
    """A step by a plan. `seconds` is the sum of `parts`; `held`: bytes on each of the devices of a pipeline at their
    peak; `costs`: of its stages; `operations`: of the model for a step, forward and backward, what is computed again
    left out.
    """

    __repr__ = brief

    plan: TrainingPlan
    seconds: float
    parts: tuple[StepPart, ...]
    held: tuple[Held, ...]
    costs: StageCosts
    micro_batches: int
    stages: tuple[int, ...]
    operations: float

    @cached_property
    def timeline(self) -> Timeline:
        """When each action of the pipeline runs, one device for each of `pp`."""
        plan = self.plan
        schedule = pipeline_schedule(plan.schedule, plan.pp, self.micro_batches, chunks=plan.chunks)
        return run_pipeline(schedule, self.costs)

    @cached_property
    def peak(self) -> Held:
        """Bytes on the device that holds most."""
        return max(self.held, key=lambda one: one.total)

    @property
    def sent_bytes(self) -> float:
        """Bytes that the device that is done last sends."""
        return sum(part.sent for part in self.parts)

    @property
    def rate(self) -> float:
        """Operations of the model a second on each device."""
        return self.operations / self.seconds / self.plan.devices if self.seconds else 0.0


@dataclass(frozen=True)
class TrainingCosts:
    """Costs of plans of one model on one cluster; layers that are spread in the same way are planned once.

    `laid`: devices along each axis of the cluster, None: its axes are filled in the order of their bandwidth.
    """

    model: TrainingModel
    cluster: Cluster
    laid: Mesh | None = None
    _layers: dict[object, LayerCost | SpecError] = field(default_factory=dict, repr=False, compare=False)
    _machines: dict[object, Machine] = field(default_factory=dict, repr=False, compare=False)
    _stages: dict[object, Stage] = field(default_factory=dict, repr=False, compare=False)

    def layer(self, layer: Layer, plan: TrainingPlan) -> LayerCost:
        """Costs of a layer for one micro-batch. Raises SpecError where it cannot be spread so."""
        sizes = plan.tp, plan.cp, plan.ep
        key = layer.name, sizes, self.machine(plan).inner, plan.micro_batch, plan.sequence_parallel or plan.tp == 1
        if key not in self._layers:
            # other ways to divide devices lie outside of these, and change nothing
            machine = self.machine(plan)
            try:
                self._layers[key] = layer_cost(layer, machine, plan.micro_batch * plan.ep, plan.sequence_parallel)
            except SpecError as problem:
                self._layers[key] = problem
        found = self._layers[key]
        if isinstance(found, SpecError):
            raise found
        return found

    def machine(self, plan: TrainingPlan) -> Machine:
        """The devices of a plan, of one with several sub-meshes those of the first. Raises SpecError where they do not
        fit.
        """
        sizes = plan.tp, plan.cp, plan.ep, plan.dp, plan.pp, plan.meshes
        if sizes not in self._machines:
            self._machines[sizes] = machine_for(self.cluster, plan, self.laid)
        return self._machines[sizes]

    def step(self, plan: TrainingPlan, is_short: bool = False) -> TrainingStep:
        """The step by a plan. `is_short`: a pipeline of very many micro-batches is run for some of them; it goes on as
        it does then. Raises SpecError where plan, model and cluster do not fit one another.
        """
        return self._laid(plan, is_short).step()

    def at_least(self, plan: TrainingPlan) -> float:
        """Seconds that a step by a plan takes at least, without running its pipeline. Raises SpecError as `step`."""
        return self._laid(plan, is_short=True).at_least()

    def sent(self, plan: TrainingPlan) -> tuple[Mapping[str, float], ...]:
        """Bytes that each device of a pipeline sends in a step, by the names of parts. Raises SpecError as `step`."""
        laid = self._laid(plan, is_short=False)
        return tuple(
            {part.what: part.sent for part in laid.spent(device, 0.0) if part.sent} for device in range(plan.pp)
        )

    def _laid(self, plan: TrainingPlan, is_short: bool) -> _Step:
        batches = plan.micro_batches(self.model.batch)
        check_meshes(self.cluster, plan, self.laid)
        counts = stages_of(self.model, plan)
        stages = self.stages(plan, counts)
        run = run_at_least(plan, batches) if is_short else batches
        device_of, _ = ordered_for(plan, run)
        if len(device_of) != len(stages):
            raise SpecError(
                f"{plan.schedule} has {counted(len(device_of), 'stage')}, the plan {len(stages)}",
                hint=f"take chunks of {len(device_of) // plan.pp}",
            )
        return _Step(self, plan, stages, counts, device_of, batches, run)

    def stages(self, plan: TrainingPlan, counts: Sequence[int]) -> list[Stage]:
        """The stages with so many layers each, in order."""
        made, first = [], 0
        for number, count in enumerate(counts):
            kinds = [(layer, plan.recompute) for layer in self.model.units[first : first + count]]
            first += count
            if count and first == len(self.model.units):
                # the backward pass of the last layer follows at once
                kinds[-1] = kinds[-1][0], "none"
            layers = [(*kind, len(list(alike))) for kind, alike in groupby(kinds)]
            own = plan.on(number)
            sizes = own.tp, own.cp, own.ep, own.dp, own.devices
            said = own.micro_batch, own.sequence_parallel, own.zero, own.overlap, own.schedule in SPLIT
            key = sizes, said, tuple((layer.name, *rest) for layer, *rest in layers), number == 0
            if key not in self._stages:
                self._stages[key] = self.stage(own, layers, is_first=number == 0)
            made.append(self._stages[key])
        return made

    def stage(self, plan: TrainingPlan, layers: Sequence[tuple[Layer, Recompute, int]], is_first: bool) -> Stage:
        """A stage with so many of each layer in a row, of which that is computed again."""
        costs = [(self.layer(layer, plan), recompute, count) for layer, recompute, count in layers]
        copies: tuple[Dim, ...] = ("cp", "ep", "dp")
        table = Weights(self.model.table / plan.tp, self.table_bits, copies, copies)
        return stage_of(plan, self.model, self.machine(plan), costs, (table,) if is_first and self.model.table else ())

    @cached_property
    def table_bits(self) -> float:
        """Bits of a value that is looked up: as wide as the activations that it becomes."""
        first = self.model.layers[0]
        tensor = (*first.arriving, *first.results)[0]
        return first.workload.tensor_bits(tensor) / first.workload.tensor_size(tensor)


def training_cost(model: TrainingModel, cluster: Cluster, plan: TrainingPlan, laid: Mesh | None = None) -> TrainingStep:
    """The training step of a model on a cluster by a plan.

    `laid`: devices along each axis of the cluster; without, each axis is filled up to its size, the fastest links
    first. Raises SpecError where plan, model and cluster do not fit one another; memory is reported, not limited.
    """
    return TrainingCosts(model, cluster, laid).step(plan)


def stages_of(model: TrainingModel, plan: TrainingPlan) -> tuple[int, ...]:
    """Layers of each stage: those of the plan, or as even as can be. Raises SpecError where they are not all layers."""
    stages, units = plan.pp * plan.chunks, len(model.units)
    if plan.stages is None:
        return tuple(units * (i + 1) // stages - units * i // stages for i in range(stages))
    if sum(plan.stages) != units:
        raise SpecError(f"the stages have {counted(sum(plan.stages), 'layer')}, the model has {units:,}")
    return plan.stages


MOST_RUN = 6_000
"""Actions of a pipeline that is run as a whole where many are compared."""


def ordered_for(plan: TrainingPlan, batches: int) -> tuple[tuple[int, ...], Ordered | None]:
    """The device of each stage of the schedule of a plan, and its arrays; None where actions overlap."""
    return _ordered(plan.schedule, plan.pp, batches, plan.chunks)


@lru_cache(maxsize=500)
def _ordered(name: str, devices: int, batches: int, chunks: int) -> tuple[tuple[int, ...], Ordered | None]:
    schedule = pipeline_schedule(name, devices, batches, chunks=chunks)
    has_steps = any(len(step) > 1 for steps in schedule.steps for step in steps)
    return schedule.device_of, None if has_steps else ordered(schedule)


def run_at_least(plan: TrainingPlan, batches: int) -> int:
    """Micro-batches after which a pipeline repeats itself, with the same rest by the number of devices; all of them
    where they are not many, or all are held.
    """
    if 3 * plan.pp * plan.chunks * batches <= MOST_RUN or plan.schedule == "fill-drain":
        return batches
    return min(batches, 5 * plan.pp + batches % plan.pp)


type _Passed = tuple[float, float]


@dataclass(frozen=True)
class _Step:
    """Stages and their schedule, put together. `batches`: micro-batches, of which `run` are run."""

    costs: TrainingCosts
    plan: TrainingPlan
    stages: Sequence[Stage]
    counts: tuple[int, ...]
    device_of: tuple[int, ...]
    batches: int
    run: int

    def step(self) -> TrainingStep:
        plan = self.plan
        ends, peaks = self._ends_and_peaks(self.run)
        if self.run < self.batches:
            # one round fewer, to see what a round takes
            before, _ = self._ends_and_peaks(self.run - plan.pp)
            rounds = (self.batches - self.run) / plan.pp
            ends = [end + rounds * (end - earlier) for end, earlier in zip(ends, before, strict=True)]
        spent = [self.spent(device, end) for device, end in enumerate(ends)]
        longest = max(spent, key=lambda parts: sum(part.seconds for part in parts))
        parts = tuple(part for part in longest if part.seconds or part.hidden or part.sent)
        held = tuple(self._held(device, peak) for device, peak in enumerate(peaks))
        seconds = sum(part.seconds for part in parts)
        return TrainingStep(
            plan, seconds, parts, held, self._stage_costs, self.batches, self.counts, self._operations()
        )

    def _ends_and_peaks(self, batches: int) -> tuple[list[float], Sequence[float]]:
        """When each device is done with so many micro-batches, and the most bytes of activations that it holds."""
        plan, costs = self.plan, self._stage_costs
        _, arrays = ordered_for(plan, batches)
        if arrays is not None:
            return ends(arrays, costs), arrays.peaks(costs.activations).tolist()
        timeline = run_pipeline(pipeline_schedule(plan.schedule, plan.pp, batches, chunks=plan.chunks), costs)
        return [timeline.ends[steps[-1][-1]] for steps in timeline.schedule.steps], timeline.peaks

    def at_least(self) -> float:
        """Seconds at least, whatever the order of actions: each device waits for the stages before its first one and
        does all its work; backward passes of the devices before it follow, after which these sum and update.
        """
        costs, is_split = self._stage_costs, self.plan.schedule in SPLIT
        found = head = tail = 0.0
        # of the devices before: what follows their last backward passes, less the passes from the last device to them
        least = -math.inf
        for device, lag in zip(range(self.plan.pp), (*costs.transfers, 0.0), strict=False):
            own = [stage for stage, at in enumerate(self.device_of) if at == device]
            forward, inputs, weights = (
                [row[stage] for stage in own] for row in (costs.forward, costs.backward_input, costs.backward_weight)
            )
            once, moving = self._waiting_once(device), head + self.batches * (sum(forward) + sum(inputs))
            work = self.batches * sum(weights)
            found = max(found, moving + work + once, moving + (0.0 if is_split else work) + tail + least)
            least = max(least, once - tail + (weights[0] if is_split else 0.0))
            head += forward[0] + lag
            tail += inputs[0] + lag + (0.0 if is_split else weights[0])
        return found

    def _operations(self) -> float:
        """A backward pass does twice the products of a forward pass."""
        model, plan = self.costs.model, self.plan
        each = sum(self.costs.layer(layer, plan).operations * layer.count for layer in model.layers)
        return 3 * each * model.batch / (plan.micro_batch * plan.ep)

    @cached_property
    def _stage_costs(self) -> StageCosts:
        forward, inputs, weights = zip(*(stage.passes for stage in self.stages), strict=True)
        saved = tuple(stage.saved for stage in self.stages)
        transfers = tuple(max(ahead[0], back[0]) for ahead, back in self._transfers)
        return StageCosts(forward, inputs, weights, transfers, saved)

    @cached_property
    def _transfers(self) -> tuple[tuple[_Passed, _Passed], ...]:
        """For each stage but the last one what passes to the next one and back for a micro-batch: seconds, and bytes
        that a device sends.
        """
        units, end = self.costs.model.units, 0
        found: dict[object, tuple[_Passed, _Passed]] = {}
        made = []
        for stage, count in enumerate(self.counts[:-1]):
            end += count
            layer = units[max(end, 1) - 1]
            key = (layer.name, stage) if self.plan.meshes else layer.name
            if key not in found:
                found[key] = self._passed(layer, stage, stage + 1), self._passed(layer, stage + 1, stage)
            made.append(found[key])
        return tuple(made)

    def _passed(self, layer: Layer, sender: int, receiver: int) -> _Passed:
        """Seconds for results of a layer, or their gradients, on the way from stage to stage, and bytes that a device
        of the sender sends.

        Where tensor parallel devices need the same data, each may get a part, and they gather it (as in Narayanan et
        al., "Efficient large-scale language model training on GPU clusters", SC 2021). Between sub-meshes of different
        sizes the devices of the smaller one send, or get, as much more.
        """
        if self.plan.pp == 1:
            return 0.0, 0.0
        plans = [self.plan.on(self.device_of[stage]) for stage in (sender, receiver)]
        ahead, behind = (self.costs.machine(plan) for plan in plans)
        cost = self.costs.layer(layer, plans[1])
        several = plans[1].stage_devices / plans[0].stage_devices
        part = cost.passing / behind.parts(cost.passing_copies)
        gathering = behind.seconds("all_gather", cost.passing_copies, cost.passing)
        ways = []
        for got, more in ((cost.passing, 0.0), (part, gathering)):
            most = got * max(1.0, several)
            shift = max(machine.seconds("shift", ("pp",), most) for machine in (ahead, behind))
            ways.append((shift + more, got * several))
        return min(ways)

    def _on(self, device: int) -> list[Stage]:
        return [stage for stage, at in zip(self.stages, self.device_of, strict=True) if at == device]

    def _held(self, device: int, activations: float) -> Held:
        stages = self._on(device)
        total = Held(activations=activations)
        for stage in stages:
            total += replace(stage.held, working=0.0)
        return total + Held(working=max((stage.held.working for stage in stages), default=0.0))

    def spent(self, device: int, end: float) -> list[StepPart]:
        """Seconds of a device by what they are spent on, from the begin of the step to its own end; `end`: of its last
        action.
        """
        parts = Parts()
        for stage in self._on(device):
            for part in stage.parts.values():
                times = self.batches
                parts.add(part.what, part.seconds * times, part.hidden * times, part.sent * times)
        busy = sum(part.seconds for part in parts.made.values())
        # below that it is what sums are wrong by
        parts.add("bubble", end - busy if end > busy * (1 + ROUNDING) else 0.0)
        if self.plan.pp > 1:
            parts.add("pipeline shift", 0.0, 0.0, self._sent_on(device))
        self._once(device, parts)
        parts.add("update", sum(stage.update for stage in self._on(device)))
        return list(parts.made.values())

    def _sent_on(self, device: int) -> float:
        """Bytes to other devices, forward and backward."""
        device_of, total = self.device_of, 0.0
        for stage, at in enumerate(device_of):
            for other in (stage + 1, stage - 1):
                if at == device and 0 <= other < len(device_of) and device_of[other] != device:
                    passed = self._transfers[min(stage, other)]
                    total += passed[0 if other > stage else 1][1] * self.batches
        return total

    def _once(self, device: int, parts: Parts) -> None:
        """Collectives of gradients once a step, behind what is left of the last backward passes of the device, and of
        weights after the update, behind its next forward passes.
        """
        for moves, shown in self._shown_once(device):
            parts.add_moves(moves, shown)

    def _waiting_once(self, device: int) -> float:
        """Seconds of a device after its last action."""
        waits = sum(shown for moves, shown in self._shown_once(device) if moves)
        return waits + sum(stage.update for stage in self._on(device))

    def _shown_once(self, device: int) -> Iterator[tuple[list[tuple[int, DataMove]], float]]:
        """Collectives once a step of a device, how many of each, and seconds that it waits for them."""
        runs = [run for stage in self._on(device) for run in stage.runs]
        for often in ("step", "update"):
            moves = [(run.count, move) for run in runs for move in run.moves if move.often == often]
            taken = sum(count * move.seconds for count, move in moves)
            yield moves, shown_once(self.plan, runs, often) if "data" in self.plan.overlap else taken
