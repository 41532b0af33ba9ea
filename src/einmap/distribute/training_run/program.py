"""A training step as data: which Einsums each stage does in each action, and which tensors it sends to other stages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise

from einmap.distribute.pipelines.schedule import Kind, PipelineSchedule
from einmap.distribute.pipelines.shipped import pipeline_schedule
from einmap.distribute.training.model import variables_of
from einmap.distribute.training.plan import TrainingPlan
from einmap.einsum.einsum import Einsum, TensorName
from einmap.einsum.gradients.gradient import Gradient, gradient
from einmap.einsum.gradients.paths import leading_to
from einmap.einsum.numeric import graph_inputs, shapes
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
    """A training step of `groups` data-parallel groups of devices, each of which has the same stages and schedule.

    `whole`: the step of all samples, unpartitioned; `part`: that of one micro-batch; `stages`: the forward Einsums of
    each stage, in order; `cut`: for each graph input that has samples the axis that micro-batches are cut from.
    """

    __repr__ = brief

    whole: Gradient
    part: Gradient
    stages: tuple[tuple[str, ...], ...]
    schedule: PipelineSchedule
    groups: int
    cut: Mapping[TensorName, int]

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
    batch: Rank = "B",
    constant: Collection[TensorName] = (),
    optimizer: str | None = None,
) -> TrainingProgram:
    """The training step of a workload by a plan, whose stages count Einsums in place of layers.

    `of`: the loss, a sum over samples; `by`: weights; `batch`: the rank of samples, of which the workload has those of
    the whole step. Full recomputation computes again what does not pass from stage to stage. Raises SpecError for what
    does not fit, NotSupportedError for recurrences, other parallelism than data and pipeline, and for Einsums in which
    samples meet before the loss.
    """
    refuse_recurrences(workload.recurrences, "a pipelined training step")
    _check_plan(plan)
    needed = leading_to(workload, of)
    forward = replace(workload, einsums=tuple(e for e in workload.einsums if e.name in needed))
    whole = gradient(workload, of, by, constant=constant, optimizer=optimizer)
    variables = variables_of(forward, batch)
    samples = {e.extents[v] for e in forward.einsums for v in variables if v in e.extents}
    if len(samples) != 1:
        known = sorted(forward.rank_sizes)
        raise SpecError(
            f"the workload has no rank {batch!r} of samples", hint=did_you_mean(batch, known, listing="ranks")
        )
    (size,) = samples
    _check_samples(forward, of, variables)
    if plan.pp * plan.chunks > len(forward.einsum_names):
        text = f"{len(forward.einsum_names)} Einsums cannot be cut into {plan.pp:,} x {plan.chunks:,} stages"
        raise SpecError(text, hint="each stage has an Einsum or more")
    schedule = pipeline_schedule(plan.schedule, plan.pp, plan.micro_batches(size), chunks=plan.chunks)
    small = replace(workload, einsums=tuple(_shrunk(e, variables, plan.micro_batch) for e in workload.einsums))
    stages = _stages(forward.einsum_names, plan, schedule.stages)
    kept = _passed(forward, stages)
    again = [t for t in forward.producers if t not in kept and t != of] if plan.recompute == "full" else []
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
    return TrainingProgram(whole, part, stages, schedule, plan.dp, cut)


def _check_plan(plan: TrainingPlan) -> None:
    for name in ("tp", "cp", "ep"):
        if getattr(plan, name) > 1:
            raise NotSupportedError(f"a training step is run with dp and pp, not with {name} yet")
    if plan.zero or plan.recompute == "selective":
        raise NotSupportedError("a training step is run without ZeRO, and with full recomputation or none")


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
