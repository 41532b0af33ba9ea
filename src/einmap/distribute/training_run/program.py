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

    `whole`: the step of all samples, unpartitioned; `part`: that of one micro-batch; `stages`: the forward Einsums of
    each stage, in order; `cut`: for each graph input that has samples the axis that micro-batches are cut from;
    `ranks`: of samples, positions and experts; `samples`: of the step; `loss`: its loss.
    """

    __repr__ = brief

    whole: Gradient
    part: Gradient
    stages: tuple[tuple[str, ...], ...]
    schedule: PipelineSchedule
    plan: TrainingPlan
    cut: Mapping[TensorName, int]
    ranks: Ranks
    samples: int
    loss: TensorName

    @property
    def groups(self) -> int:
        """Data parallel groups."""
        return self.plan.dp

    @cached_property
    def sizes(self) -> Mapping[TensorName, tuple[tuple[Rank, int], ...]]:
        """The size of each rank of each tensor of a micro-batch."""
        return {tensor: tuple(sizes.items()) for tensor, sizes in rank_sizes(self.part.workload).items()}

    @property
    def pieces(self) -> int:
        """Micro-batches of all groups."""
        return self.groups * self.schedule.micro_batches

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
    together = plan.micro_batch * plan.ep
    small = replace(workload, einsums=tuple(_shrunk(e, variables, together) for e in workload.einsums))
    stages = _stages(forward.einsum_names, plan, schedule.stages)
    again = [t for t in _again(forward, plan, ranks) if t not in _passed(forward, stages) and t != of]
    part = gradient(small, of, by, constant=constant, optimizer=optimizer, recompute=again)
    before, after = shapes(whole.workload), shapes(part.workload)
    cut = {
        t: axis
        for t in graph_inputs(part.workload)
        for axis, (n, m) in enumerate(zip(before[t], after[t], strict=True))
        if n != m
    }
    for tensor in by:
        if tensor in cut or tensor in forward.producers:
            raise SpecError(f"{tensor!r} is not a weight: it has samples, or an Einsum writes it", hint="leave it out")
    return TrainingProgram(whole, part, stages, schedule, plan, cut, ranks, size, of)


def _check_plan(plan: TrainingPlan, ranks: Ranks, optimizer: str | None) -> None:
    if plan.devices > MAX_DEVICES:
        raise SpecError(f"the plan has {plan.devices:,} devices; at most {MAX_DEVICES:,} are run")
    for stage, (dp, _) in enumerate(plan.meshes or ()):
        if dp != plan.dp:
            raise NotSupportedError(
                f"meshes: stage {stage} has dp {dp}, stage 0 has dp {plan.dp}: samples that are grouped anew between "
                "stages are planned, and not run",
                hint="give all stages the same dp, and a tp of their own",
            )
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
