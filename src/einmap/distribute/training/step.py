"""A training step by a plan: seconds with what they are spent on, bytes that each device holds and sends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from einmap.distribute.costs.cluster import Cluster
from einmap.distribute.pipelines.problem import ROUNDING
from einmap.distribute.pipelines.quick import Ordered, ends_and_peaks, ordered
from einmap.distribute.pipelines.shipped import pipeline_schedule
from einmap.distribute.pipelines.timeline import StageCosts, Timeline, run_pipeline
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.training.held import DataMove, Held, data_moves, held_by_weights, layer_moves
from einmap.distribute.training.layer import Collective, LayerCost, Phase, Weights, layer_cost
from einmap.distribute.training.machine import Machine, machine_for
from einmap.distribute.training.model import Layer, TrainingModel
from einmap.distribute.training.plan import Dim, Recompute, TrainingPlan
from einmap.errors import SpecError
from einmap.visible import brief


@dataclass(frozen=True, slots=True)
class StepPart:
    """Seconds of the device that is done last, spent on one thing. `hidden`: seconds of it that run meanwhile; `sent`:
    bytes that the device sends.
    """

    what: str
    seconds: float
    hidden: float = 0.0
    sent: float = 0.0


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
class Stage:
    """Layers of one stage on one device, for one micro-batch. `passes`: seconds of forward, backward for inputs and for
    weights with everything that is not hidden; `saved`: bytes that wait; `tail`: seconds after its last backward pass
    for gradients.
    """

    passes: tuple[float, float, float]
    saved: float
    held: Held
    weights: tuple[Weights, ...]
    parts: Mapping[str, StepPart]
    once: tuple[StepPart, ...]


@dataclass(frozen=True)
class TrainingCosts:
    """Costs of plans of one model on one cluster; layers that are spread in the same way are planned once.

    `laid`: devices along each axis of the cluster, None: its axes are filled in the order of their bandwidth.
    """

    model: TrainingModel
    cluster: Cluster
    laid: Mesh | None = None
    _layers: dict[object, LayerCost] = field(default_factory=dict, repr=False, compare=False)
    _machines: dict[object, Machine] = field(default_factory=dict, repr=False, compare=False)

    def layer(self, layer: Layer, plan: TrainingPlan) -> LayerCost:
        """Costs of a layer for one micro-batch."""
        sizes = plan.tp, plan.cp, plan.ep
        key = layer.name, sizes, plan.micro_batch, plan.sequence_parallel or plan.tp == 1
        if key not in self._layers:
            # other ways to divide devices lie outside of these, and change nothing
            machine = self.machine(plan)
            self._layers[key] = layer_cost(layer, machine, plan.micro_batch * plan.ep, plan.sequence_parallel)
        return self._layers[key]

    def machine(self, plan: TrainingPlan) -> Machine:
        """The devices of a plan. Raises SpecError where they do not fit."""
        sizes = plan.tp, plan.cp, plan.ep, plan.dp, plan.pp
        if sizes not in self._machines:
            self._machines[sizes] = machine_for(self.cluster, plan, self.laid)
        return self._machines[sizes]

    def step(self, plan: TrainingPlan, is_short: bool = False) -> TrainingStep:
        """The step by a plan. `is_short`: a pipeline of very many micro-batches is run for some of them; it goes on as
        it does then. Raises SpecError where plan, model and cluster do not fit one another.
        """
        return self._laid(plan, is_short).step()

    def sent(self, plan: TrainingPlan) -> tuple[Mapping[str, float], ...]:
        """Bytes that each device of a pipeline sends in a step, by the names of parts. Raises SpecError as `step`."""
        laid = self._laid(plan, is_short=False)
        return tuple(
            {part.what: part.sent for part in laid.spent(device, 0.0) if part.sent} for device in range(plan.pp)
        )

    def _laid(self, plan: TrainingPlan, is_short: bool) -> _Step:
        batches = plan.micro_batches(self.model.batch)
        counts = stages_of(self.model, plan)
        stages = self.stages(plan, counts)
        run = _run_at_least(plan, batches) if is_short else batches
        device_of, _ = _ordered(plan.schedule, plan.pp, run, plan.chunks)
        if len(device_of) != len(stages):
            raise SpecError(
                f"{plan.schedule} has {len(device_of)} stages, the plan {len(stages)}",
                hint=f"take chunks of {len(device_of) // plan.pp}",
            )
        return _Step(self, plan, stages, counts, device_of, batches, run)

    def stages(self, plan: TrainingPlan, counts: Sequence[int]) -> list[Stage]:
        """The stages with so many layers each."""
        made, first = [], 0
        for number, count in enumerate(counts):
            layers = Counter((layer, plan.recompute) for layer in self.model.units[first : first + count])
            first += count
            if count and first == len(self.model.units):
                # the backward pass of the last layer follows at once
                last = self.model.units[-1]
                layers -= Counter([(last, plan.recompute)])
                layers[last, "none"] += 1
            made.append(self.stage(plan, layers, is_first=number == 0))
        return made

    def stage(self, plan: TrainingPlan, layers: Mapping[tuple[Layer, Recompute], int], is_first: bool) -> Stage:
        """A stage with so many of each layer, of which that is computed again."""
        machine = self.machine(plan)
        costs = [(self.layer(layer, plan), recompute, count) for (layer, recompute), count in layers.items()]
        copies: tuple[Dim, ...] = ("cp", "ep", "dp")
        table = Weights(self.model.table / plan.tp, self.table_bits, copies, copies)
        tables = (table,) if is_first and self.model.table else ()
        return _stage(plan, self.model, machine, costs, tables)

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
        raise SpecError(f"the stages have {sum(plan.stages)} layers, the model has {units}")
    return plan.stages


_PHASES: tuple[Phase, ...] = ("forward", "input", "weight")


def _stage(
    plan: TrainingPlan,
    model: TrainingModel,
    machine: Machine,
    costs: Sequence[tuple[LayerCost, Recompute, int]],
    tables: tuple[Weights, ...],
) -> Stage:
    hides, parts = _Hides(plan), _Parts()
    passes = dict.fromkeys(_PHASES, 0.0)
    saved, once = 0.0, list[StepPart]()
    held, working, every = Held(), 0.0, list[Weights]()
    for cost, recompute, count in costs:
        moves = list(layer_moves(cost, model, machine, plan.zero))
        for phase, seconds in hides.of_layer(cost, recompute, moves, count, parts).items():
            passes[phase] += seconds
        saved += cost.saved[recompute] * count
        every += [replace(w, values=w.values * count) for w in cost.weights]
        again = cost.saved["none"] - cost.saved[recompute] if recompute != "none" else 0.0
        whole = 2 * sum(weights.bytes for weights in cost.weights) if plan.zero == 3 else 0.0
        working = max(working, cost.working + max(again, 0.0) + whole)
        once += [
            StepPart(f"{move.what} {move.kind}", move.seconds * count, sent=move.sent * count)
            for move in moves
            if move.often in ("step", "update")
        ]
    every += tables
    once += [
        StepPart(f"{move.what} {move.kind}", move.seconds, sent=move.sent)
        for move in data_moves(tables, model, machine, min(plan.zero, 1))
    ]
    held = held_by_weights(every, model, machine, plan.zero) + Held(working=working)
    spent = (passes["forward"], passes["input"], passes["weight"])
    return Stage(spent, saved, held, tuple(every), parts.made, tuple(once))


class _Parts:
    """Parts of the time of a micro-batch, by what they are."""

    def __init__(self) -> None:
        self.made: dict[str, StepPart] = {}

    def add(self, what: str, seconds: float, hidden: float = 0.0, sent: float = 0.0) -> None:
        """Add to a part."""
        old = self.made.get(what, StepPart(what, 0.0))
        self.made[what] = StepPart(what, old.seconds + seconds, old.hidden + hidden, old.sent + sent)


@dataclass(frozen=True, slots=True)
class _Hides:
    """Communication of a layer that runs while the layer computes."""

    plan: TrainingPlan

    def of_layer(
        self, cost: LayerCost, recompute: Recompute, moves: Sequence[DataMove], count: int, parts: _Parts
    ) -> dict[Phase, float]:
        """Seconds of the passes of `count` layers."""
        spent: dict[Phase, float] = {}
        for phase in _PHASES:
            computing = cost.compute[phase]
            parts.add("computing", computing * count)
            again, repeated = self._again(cost, recompute) if phase == "input" else (0.0, [])
            if again:
                parts.add("computing again", again * count)
            free = computing + again if "tensor" in self.plan.overlap else 0.0
            moving = 0.0
            for one in (*(c for c in cost.collectives if c.phase == phase), *repeated):
                hidden = min(free, one.seconds)
                free -= hidden
                moving += one.seconds - hidden
                parts.add(f"activations {one.kind}", (one.seconds - hidden) * count, hidden * count, one.sent * count)
            spent[phase] = computing + again + moving
        for phase, often in (("forward", "forward"), ("weight", "backward")):
            free = 0.0
            if "data" in self.plan.overlap:
                free = spent["forward"] if phase == "forward" else spent["input"] + spent["weight"]
            for move in moves:
                if move.often == often:
                    hidden = min(free, move.seconds)
                    free -= hidden
                    shown = move.seconds - hidden
                    parts.add(f"{move.what} {move.kind}", shown * count, hidden * count, move.sent * count)
                    spent["forward" if phase == "forward" else "weight"] += shown
        return {phase: seconds * count for phase, seconds in spent.items()}

    def _again(self, cost: LayerCost, recompute: Recompute) -> tuple[float, list[Collective]]:
        """Seconds of computing again in the backward pass, and the collectives that run again."""
        forward = [one for one in cost.collectives if one.phase == "forward"]
        match recompute:
            case "full":
                return cost.compute["forward"], forward
            case "selective":
                return cost.attention, [one for one in forward if one.again]
            case _:
                return 0.0, []


MOST_RUN = 6_000
"""Actions of a pipeline that is run as a whole where many are compared."""


@lru_cache(maxsize=500)
def _ordered(name: str, devices: int, batches: int, chunks: int) -> tuple[tuple[int, ...], Ordered | None]:
    """The device of each stage of a schedule, and its arrays; None where actions overlap."""
    schedule = pipeline_schedule(name, devices, batches, chunks=chunks)
    has_steps = any(len(step) > 1 for steps in schedule.steps for step in steps)
    return schedule.device_of, None if has_steps else ordered(schedule)


def _run_at_least(plan: TrainingPlan, batches: int) -> int:
    """Micro-batches after which a pipeline repeats itself, with the same rest by the number of devices; all of them
    where they are not many.
    """
    if 3 * plan.pp * plan.chunks * batches <= MOST_RUN:
        return batches
    return min(batches, 5 * plan.pp + batches % plan.pp)


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

    def _ends_and_peaks(self, batches: int) -> tuple[list[float], list[float]]:
        """When each device is done with so many micro-batches, and the most bytes of activations that it holds."""
        plan, costs = self.plan, self._stage_costs
        _, arrays = _ordered(plan.schedule, plan.pp, batches, plan.chunks)
        if arrays is not None:
            return ends_and_peaks(arrays, costs)
        timeline = run_pipeline(pipeline_schedule(plan.schedule, plan.pp, batches, chunks=plan.chunks), costs)
        ends = [timeline.ends[steps[-1][-1]] for steps in timeline.schedule.steps]
        return ends, list(timeline.peaks)

    def _operations(self) -> float:
        """A backward pass does twice the products of a forward pass."""
        model, plan = self.costs.model, self.plan
        each = sum(self.costs.layer(layer, plan).operations * layer.count for layer in model.layers)
        return 3 * each * model.batch / (plan.micro_batch * plan.ep)

    @cached_property
    def _stage_costs(self) -> StageCosts:
        forward, inputs, weights = zip(*(stage.passes for stage in self.stages), strict=True)
        saved = tuple(stage.saved for stage in self.stages)
        return StageCosts(forward, inputs, weights, self._transfer[0], saved)

    @cached_property
    def _transfer(self) -> tuple[float, float]:
        """Seconds for what a device passes on to the next stage for a micro-batch, and the bytes that it sends there.

        Where tensor parallel devices have the same data, each may send a part, and their next ones gather it (as in
        Narayanan et al., "Efficient large-scale language model training on GPU clusters", SC 2021).
        """
        if self.plan.pp == 1:
            return 0.0, 0.0
        layers, machine = self.costs.model.layers, self.costs.machine(self.plan)
        most = max((self.costs.layer(one, self.plan) for one in layers[:-1] or layers), key=lambda one: one.passing)
        part = most.passing / machine.parts(most.passing_copies)
        gathering = machine.seconds("all_gather", most.passing_copies, most.passing)
        ways = ((most.passing, 0.0), (part, gathering))
        return min((machine.seconds("shift", ("pp",), sent) + more, sent) for sent, more in ways)

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
        parts = _Parts()
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
        parts.add("update", self._update(device))
        return list(parts.made.values())

    def _sent_on(self, device: int) -> float:
        """Bytes to other devices, forward and backward."""
        device_of, total = self.device_of, 0.0
        for stage, at in enumerate(device_of):
            for other in (stage + 1, stage - 1):
                if at == device and 0 <= other < len(device_of) and device_of[other] != device:
                    total += self._transfer[1] * self.batches
        return total

    def _once(self, device: int, parts: _Parts) -> None:
        """Collectives of gradients once a step, hidden behind the last backward pass but for that of the last layer,
        and of weights after the update, behind the next forward pass but for that of the first layer.
        """
        for number, stage in enumerate(self.stages):
            if self.device_of[number] != device:
                continue
            layers = max(1, self.counts[number])
            for part in stage.once:
                hidden = 0.0
                if "data" in self.plan.overlap:
                    is_gradient = part.what.startswith("gradients")
                    room = stage.passes[1] + stage.passes[2] if is_gradient else stage.passes[0]
                    hidden = min(part.seconds, room) * (layers - 1) / layers
                parts.add(part.what, part.seconds - hidden, hidden, part.sent)

    def _update(self, device: int) -> float:
        """Seconds of the update: gradients are read, state and weights read and written as the optimiser says."""
        model, machine = self.costs.model, self.costs.machine(self.plan)
        moved = 0.0
        for stage in self._on(device):
            for some in stage.weights:
                parts = machine.parts(some.copies) if self.plan.zero else 1
                moved += some.values * (model.updated(some.bits).moved + model.gradient_bytes) / parts
        return moved / self.costs.cluster.pe.memory_bandwidth
