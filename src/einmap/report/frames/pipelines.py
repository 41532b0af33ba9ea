"""Tables of schedules of a pipeline, as they run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from einmap.report.frames.frame import Row, Table

if TYPE_CHECKING:
    from einmap.distribute.pipelines.timeline import Timeline
    from einmap.distribute.training_run.run import TrainingRun


def _schedules(timelines: Sequence[Timeline]) -> Iterable[Row]:
    for timeline in timelines:
        schedule = timeline.schedule
        sizes = schedule.devices, schedule.stages, schedule.micro_batches
        yield (schedule.name, *sizes, timeline.makespan, max(timeline.spans), timeline.bubble, max(timeline.peaks))


def _devices(timelines: Sequence[Timeline]) -> Iterable[Row]:
    for timeline in timelines:
        for device, (busy, span, peak) in enumerate(zip(timeline.busy, timeline.spans, timeline.peaks, strict=True)):
            yield timeline.schedule.name, device, busy, span, timeline.makespan - busy, peak


def _actions(timelines: Sequence[Timeline]) -> Iterable[Row]:
    for timeline in timelines:
        for device, steps in enumerate(timeline.schedule.steps):
            for action in (action for step in steps for action in step):
                times = timeline.begins[action], timeline.ends[action]
                yield timeline.schedule.name, device, action.stage, action.kind, action.micro_batch, *times


def _results(run: TrainingRun) -> Iterable[Row]:
    for tensor, apart in run.apart.items():
        yield tensor, run.results[tensor].size, apart


def _trained(run: TrainingRun) -> Iterable[Row]:
    schedule, plan = run.program.schedule, run.program.plan
    for device, held in enumerate(run.most_held):
        stages = [stage for stage, other in enumerate(schedule.device_of) if other == device]
        names = ", ".join(name for stage in stages for name in run.program.stages[stage])
        pes = plan.devices // schedule.devices
        yield device, pes, ", ".join(map(str, stages)), names, sum(map(len, schedule.steps[device])), held


def _moves(run: TrainingRun) -> Iterable[Row]:
    return run.moves


TABLES: dict[str, tuple[Table, ...]] = {
    "Timeline": (
        Table.written(
            "schedules",
            "text schedule; integer devices | stages | micro-batches; number makespan [s] | longest span [s] | bubble; "
            "number peak activations",
            _schedules,
        ),
        Table.written(
            "devices",
            "text schedule; integer device; number busy [s] | span [s] | idle [s] | peak activations",
            _devices,
        ),
        Table.written(
            "actions",
            "text schedule; integer device | stage; text kind; integer micro-batch; number begin [s] | end [s]",
            _actions,
        ),
    ),
    "TrainingRun": (
        Table.written(
            "devices",
            "integer device | PEs; text stages | Einsums; integer actions | most micro-batches",
            _trained,
        ),
        Table.written("results", "text tensor; integer values; number difference", _results),
        Table.written("moves", "integer device; text what; number sent [bytes] | predicted [bytes]", _moves),
    ),
}
