"""A training step as data: which Einsums each stage does in each action, and which tensors it sends to other stages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise

from einmap.distribute.pipelines.schedule import Kind, PipelineSchedule
from einmap.distribute.pipelines.shipped import pipeline_schedule
from einmap.distribute.placements.mesh import MAX_DEVICES
from einmap.distribute.training.model import Ranks, variables_of
from einmap.distribute.training.plan import TrainingPlan
from einmap.einsum.einsum import Einsum, TensorName
from einmap.einsum.gradients.gradient import Gradient, gradient
from einmap.einsum.gradients.paths import leading_to
from einmap.einsum.numeric import graph_inputs, rank_sizes, shapes
from einmap.einsum.operation import Apply, MapExpression, Operand
from einmap.einsum.rewrites.edit import box, rebuilt
from einmap.einsum.spaces.projection import Rank, RankVar
from einmap.einsum.spaces.recurrence import refuse_recurrences
from einmap.einsum.workload import Workload
from einmap.errors import NotSupportedError, SpecError, did_you_mean
from einmap.visible import brief

type Place = tuple[int, Kind]
"""A stage and a kind of action: `F`, `I` or `W`; `B` is `I` and `W`."""


@dataclass(frozen=True)
class TrainingProgram:
    """A training step by a plan: data parallel groups of devices, each of which has the same stages and schedule.

    `whole`: the step of all samples, unpartitioned; `parts`: for each stage that of a micro-batch on one of its groups;
    `stages`: the forward Einsums of each stage, in order; `cut`: for each graph input that has samples the axis that
    micro-batches are cut from; `ranks`: of samples, positions and experts; `samples`: of the step; `loss`: its loss.
    """

    __repr__ = brief

    whole: Gradient
    parts: tuple[Gradient, ...]
    stages: tuple[tuple[str, ...], ...]
    schedule: PipelineSchedule
    plan: TrainingPlan
    cut: Mapping[TensorName, int]
    ranks: Ranks
    samples: int
    loss: TensorName

    @property
    def part(self) -> Gradient:
        """The step of a micro-batch on a group of the first stage: in others tensors may have more or fewer samples."""
        return self.parts[0]

    def plan_of(self, stage: int) -> TrainingPlan:
        """The plan as the devices of a stage have it."""
        return self.plan.on(self.schedule.device_of[stage])

    def groups(self, stage: int) -> int:
        """Data parallel groups of a stage."""
        return self.plan_of(stage).dp

    def together(self, stage: int) -> int:
        """Samples of a micro-batch on one group of a stage."""
        own = self.plan_of(stage)
        return own.micro_batch * own.ep

    @cached_property
    def sizes(self) -> tuple[Mapping[TensorName, tuple[tuple[Rank, int], ...]], ...]:
        """For each stage the size of each rank of each tensor of a micro-batch on one of its groups."""
        together = [self.together(stage) for stage in range(len(self.parts))]
        found = {n: rank_sizes(part.workload) for n, part in dict(zip(together, self.parts, strict=True)).items()}
        return tuple({t: tuple(sizes.items()) for t, sizes in found[n].items()} for n in together)

    def axis(self, tensor: TensorName, stage: int, other: int) -> int | None:
        """The axis of a tensor along which two stages with other groups have other samples; None: it has none."""
        pairs = zip(self.sizes[stage][tensor], self.sizes[other][tensor], strict=True)
        return next((axis for axis, (mine, its) in enumerate(pairs) if mine != its), None)

    @cached_property
    def work(self) -> Mapping[Place, tuple[str, ...]]:
        """The Einsums of each stage in each kind of action, in order; those of the end of the step are not there."""
        stage_of = {name: stage for stage, names in enumerate(self.stages) for name in names}
        found: dict[Place, list[str]] = {(stage, k): [] for stage in range(len(self.stages)) for k in ("F", "I", "W")}
        stages = self._stages_of_backward(stage_of)
        for einsum in self.part.workload.einsums:
            if einsum.part == "forward":
                found[stage_of[einsum.name], "F"].append(einsum.name)
            elif einsum.name in stages:
                found[stages[einsum.name], "I" if einsum.part == "input" else "W"].append(einsum.name)
        return {place: tuple(names) for place, names in found.items()}

    def _stages_of_backward(self, stage_of: Mapping[str, int]) -> dict[str, int]:
        """The stage of each backward Einsum: that of its forward Einsum, or of the first reader of a copy."""
        einsums = [e for e in self.part.workload.einsums if e.part in ("input", "weight") and e.name not in self.totals]
        stages = {e.name: stage_of[self.part.origins[e.name]] for e in einsums}
        for einsum in (e for e in reversed(einsums) if e.name in self.part.copies):
            # the last stage is the first one of a backward pass
            stages[einsum.name] = max(stages[reader.name] for reader in einsums if reader.inputs & einsum.outputs)
        of_tensor = {tensor: stages[einsum.name] for einsum in einsums for tensor in einsum.outputs}
        for einsum in (einsum for einsum in einsums if len(einsum.inputs) > 1 and _only_adds(einsum.operation.map)):
            # a gradient whose addends all come from one stage is added there: one tensor is sent for all of them
            found = {of_tensor.get(tensor, -1) for tensor in einsum.inputs}
            if len(found) == 1 and einsum.name not in self.part.copies and min(found) >= 0:
                stages[einsum.name] = min(found)
                of_tensor |= dict.fromkeys(einsum.outputs, min(found))
        return stages

    @cached_property
    def totals(self) -> tuple[str, ...]:
        """Einsums that add parts of the gradient by a weight: they are done once, at the end of the step."""
        producers = {t: e for e in self.part.workload.einsums for t in e.outputs}
        ends = [producers[found] for found in self.part.gradients.values()]
        return tuple(e.name for e in ends if len(e.inputs) > 1 and _only_adds(e.operation.map))

    @cached_property
    def summed(self) -> tuple[TensorName, ...]:
        """Gradients, or parts of them, that are summed over micro-batches and groups."""
        by_name = self.part.workload.by_name
        producers = self.part.workload.producers
        return tuple(
            part
            for found in self.part.gradients.values()
            for part in (sorted(by_name[producers[found]].inputs) if producers[found] in self.totals else (found,))
        )

    @cached_property
    def stage_of(self) -> Mapping[TensorName, int]:
        """The stage that writes each tensor of a micro-batch."""
        by_name = self.part.workload.by_name
        return {t: stage for (stage, _), names in self.work.items() for name in names for t in by_name[name].outputs}

    def reads(self, place: Place) -> frozenset[TensorName]:
        """Tensors that a stage reads in a kind of action and does not write itself."""
        einsums = [self.part.workload.by_name[name] for name in self.work[place]]
        read = frozenset(t for einsum in einsums for t in einsum.inputs)
        return frozenset(t for t in read if self.stage_of.get(t) != place[0])

    def sends(self, place: Place) -> tuple[TensorName, ...]:
        """Tensors that a stage writes in a kind of action and another stage reads."""
        written = [t for name in self.work[place] for t in sorted(self.part.workload.by_name[name].outputs)]
        return tuple(t for t in written if self.receivers(t))

    def receivers(self, tensor: TensorName) -> tuple[int, ...]:
        """The other stages that read a tensor."""
        places = [place for place in self.work if tensor in self._read[place]]
        return tuple(sorted({stage for stage, _ in places} - {self.stage_of.get(tensor, -1)}))

    @cached_property
    def _read(self) -> Mapping[Place, frozenset[TensorName]]:
        return {place: self.reads(place) for place in self.work}

    def needs(self, stage: int, kind: Kind) -> frozenset[TensorName]:
        """Tensors of other stages that an action waits for."""
        kinds: tuple[Kind, ...] = ("I", "W") if kind == "B" else (kind,)
        return frozenset(t for one in kinds for t in self._read[stage, one] if t in self.stage_of)


def training_program(
    workload: Workload,
    of: TensorName,
    by: Sequence[TensorName],
    plan: TrainingPlan,
    *,
    batch: Rank | Ranks = "B",
    constant: Collection[TensorName] = (),
    optimizer: str | None = None,
) -> TrainingProgram:
    """The training step of a workload by a plan, whose stages count Einsums in place of layers.

    `of`: the loss, a sum over samples; `by`: weights; `batch`: the rank of samples, of which the workload has those of
    the whole step; as `Ranks` with those of positions and experts. What passes from stage to stage is not computed
    again. Raises SpecError for what does not fit, NotSupportedError for recurrences, and for Einsums in which samples
    meet before the loss.
    """
    refuse_recurrences(workload.recurrences, "a pipelined training step")
    ranks = batch if isinstance(batch, Ranks) else Ranks(batch, None)
    _check_plan(plan, ranks, optimizer)
    for rank in (ranks.sequence, ranks.expert):
        if rank is not None and rank not in workload.rank_sizes:
            hint = did_you_mean(rank, workload.rank_sizes, listing="ranks")
            raise SpecError(f"the workload has no rank {rank!r}", hint=hint)
    needed = leading_to(workload, of)
    forward = replace(workload, einsums=tuple(e for e in workload.einsums if e.name in needed))
    whole = gradient(workload, of, by, constant=constant, optimizer=optimizer)
    variables = variables_of(forward, ranks.batch)
    samples = {e.extents[v] for e in forward.einsums for v in variables if v in e.extents}
    if len(samples) != 1:
        known = sorted(forward.rank_sizes)
        raise SpecError(
            f"the workload has no rank {ranks.batch!r} of samples",
            hint=did_you_mean(ranks.batch, known, listing="ranks"),
        )
    (size,) = samples
    _check_samples(forward, of, variables)
    if plan.pp * plan.chunks > len(forward.einsum_names):
        text = f"{len(forward.einsum_names)} Einsums cannot be cut into {plan.pp:,} x {plan.chunks:,} stages"
        raise SpecError(text, hint="each stage has an Einsum or more")
    schedule = pipeline_schedule(plan.schedule, plan.pp, plan.micro_batches(size), chunks=plan.chunks)
    stages = _stages(forward.einsum_names, plan, schedule.stages)
    again = [t for t in _again(forward, plan, ranks) if t not in _passed(forward, stages) and t != of]
    made: dict[int, Gradient] = {}
    own = [plan.on(device) for device in schedule.device_of]
    together = [one.micro_batch * one.ep for one in own]
    for n in dict.fromkeys(together):
        small = replace(workload, einsums=tuple(_shrunk(e, variables, n) for e in workload.einsums))
        made[n] = gradient(small, of, by, constant=constant, optimizer=optimizer, recompute=again)
    cut = _cut(whole.workload, made[min(made)].workload)
    for tensor in by:
        if tensor in cut or tensor in forward.producers:
            raise SpecError(f"{tensor!r} is not a weight: it has samples, or an Einsum writes it", hint="leave it out")
    program = TrainingProgram(whole, tuple(made[n] for n in together), stages, schedule, plan, cut, ranks, size, of)
    _check_passed(program)
    return program


def _cut(whole: Workload, part: Workload) -> dict[TensorName, int]:
    """The axis of each graph input along which a part has fewer samples."""
    before, after = shapes(whole), shapes(part)
    return {
        t: axis
        for t in graph_inputs(part)
        for axis, (n, m) in enumerate(zip(before[t], after[t], strict=True))
        if n != m
    }


def _check_passed(program: TrainingProgram) -> None:
    """Raise NotSupportedError for what passes to a stage with more or fewer groups and has no samples."""
    for place in program.work:
        for tensor in program.sends(place):
            for other in program.receivers(tensor):
                counts = program.groups(place[0]), program.groups(other)
                if len({*counts}) > 1 and program.axis(tensor, place[0], other) is None:
                    raise NotSupportedError(
                        f"{tensor} passes from stage {place[0]} with dp {counts[0]} to stage {other} with dp "
                        f"{counts[1]}, and has no samples that could be grouped anew",
                        hint="give both stages the same dp, or cut stages elsewhere",
                    )


def _check_plan(plan: TrainingPlan, ranks: Ranks, optimizer: str | None) -> None:
    if plan.devices > MAX_DEVICES:
        raise SpecError(f"the plan has {plan.devices:,} devices; at most {MAX_DEVICES:,} are run")
    if plan.zero and optimizer is None:
        raise SpecError(
            f"ZeRO {plan.zero} spreads the state of an optimiser, and none is chosen", hint="choose sgd or adam"
        )
    for what, needs in (("cp", plan.cp > 1), ("selective recomputation", plan.recompute == "selective")):
        if needs and ranks.sequence is None:
            raise SpecError(f"{what} needs a rank of positions", hint="name it behind that of samples: B,M")


def _again(forward: Workload, plan: TrainingPlan, ranks: Ranks) -> list[TensorName]:
    """Tensors that the backward pass computes again, as far as they do not pass between stages."""
    positions = variables_of(forward, ranks.sequence) if plan.recompute == "selective" else frozenset()
    found = {t: forward.by_name[name].by_tensor[t].variables for t, name in forward.producers.items()}
    least = {"none": None, "selective": 2, "full": 0}[plan.recompute]
    return [t for t, variables in found.items() if least is not None and len(variables & positions) >= least]


def _check_samples(forward: Workload, of: TensorName, variables: Collection[RankVar]) -> None:
    """Samples may meet in a sum that is the loss, and nowhere else."""
    for einsum in forward.einsums:
        own = {v for v in einsum.rank_variables if v in variables}
        for access in (access for access in einsum.accesses if access.output):
            if access.tensor == of:
                if einsum.operation.reduction != "sum" or not own:
                    text = f"Einsum {einsum.name!r} writes the loss {of!r}, which is not a sum over samples"
                    raise NotSupportedError(text)
            elif own - access.variables:
                text = (
                    f"in Einsum {einsum.name!r} samples meet before the loss: {access.tensor} has no sample of its own"
                )
                raise NotSupportedError(text, hint="micro-batches and groups of devices know their own samples only")


def _shrunk(einsum: Einsum, variables: Collection[RankVar], samples: int) -> Einsum:
    """The Einsum for so many samples."""
    own = [v for v in einsum.rank_variables if v in variables]
    if not own:
        return einsum
    others = [v for v in einsum.rank_variables if v not in own]
    return rebuilt(
        einsum, einsum.accesses, [*box(einsum, others), *(f"0 <= {v} < {samples}" for v in own), *einsum.cuts]
    )


def _stages(names: Sequence[str], plan: TrainingPlan, count: int) -> tuple[tuple[str, ...], ...]:
    lengths = plan.stages or tuple(len(names) // count + (i < len(names) % count) for i in range(count))
    if sum(lengths) != len(names) or 0 in lengths or len(lengths) != count:
        raise SpecError(
            f"stages of {', '.join(map(str, lengths))} Einsums are not a cut of {len(names)} into {count} stages",
            hint="each stage has an Einsum or more, and all of them together those that the loss needs",
        )
    return tuple(tuple(names[a:b]) for a, b in pairwise((0, *accumulate(lengths))))


def _passed(forward: Workload, stages: Sequence[Sequence[str]]) -> set[TensorName]:
    """Intermediates that another stage reads."""
    stage_of = {name: stage for stage, names in enumerate(stages) for name in names}
    return {
        t for t, name in forward.producers.items()
        if any(stage_of[user] != stage_of[name] for user in forward.consumers[t])
    }  # fmt: skip


def _only_adds(expression: MapExpression | None) -> bool:
    match expression:
        case Operand():
            return True
        case Apply("add", arguments):
            return all(_only_adds(argument) for argument in arguments)
        case _:
            return False
