"""`einmap pipeline`: schedules of a pipeline over devices, compared, searched, drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from einmap.cli.options import EFFORT, OUTPUT, group, option, output_option
from einmap.cli.output import print_hint
from einmap.cli.progress_bar import searching
from einmap.cli.writing.results import Tables
from einmap.cli.writing.target import Target
from einmap.errors import SpecError
from einmap.frontends.files import read_text_file

if TYPE_CHECKING:
    from einmap.distribute.pipelines.problem import PipelineProblem
    from einmap.distribute.pipelines.schedule import PipelineSchedule
    from einmap.distribute.pipelines.timeline import StageCosts

BEST = "best"
"""The schedule that is searched."""
OVERLAPPING = "dual-pipe-v"
"""The schedule in which a forward and a backward pass overlap."""
DEVICES, MICRO_BATCHES, STAGES = 4, 8, 2
"""Devices, micro-batches, and stages of a device, where not said."""
MOST_SEARCHED = 20_000
"""Actions of a searched pipeline: 64 devices with 100 micro-batches."""


@group
class Options:
    """Devices and costs of the pipeline, and its schedule."""

    schedule: str | None = option(
        "NAME|FILE.csv|best",
        "A schedule by name, a file of PyTorch's form, or the best one.",
        shown="all that have names",
    )
    devices: int | None = option("N", "Devices in a row, each with an equal part of the model.", shown="4", min=1)
    micro_batches: int | None = option("N", "Parts of the batch that follow one another.", shown="8", min=1)
    times: str = option(
        "F,I,W",
        "Seconds of a device for a micro-batch: forward, backward for inputs, backward for weights.",
        default="1,1,1",
    )
    transfer: float = option("S", "Seconds of a transfer between devices.", default=0.0, min=0)
    overlapped: float | None = option(
        "X", "Part of both times that a forward and a backward pass take which overlap.", shown="1", min=0, max=1
    )
    chunks: int | None = option(
        "N", "Stages of a device, of interleaved and, beside 1, of best (as a V).", shown="2", min=1
    )
    memory: float | None = option(
        "N",
        "Micro-batches of which a device holds the activations at most, for best.",
        shown="as many as devices",
        min=0,
    )
    runs: int | None = option("N", "Orders that are run for best, at most.", shown="500,000", min=0, panel=EFFORT)
    output: Path | None = output_option("Write the schedule as CSV.", "FILE.csv")
    svg: Path | None = option("FILE.svg", "Draw when each action runs.", panel=OUTPUT)
    trace: Path | None = option(
        "FILE.json", "Write that as a trace for ui.perfetto.dev and chrome://tracing.", panel=OUTPUT
    )


def pipeline_command(options: Options, output: Tables) -> None:
    """Compare schedules of a pipeline over devices, or find the best one for given costs and memory.

    Without --schedule all that have names are compared.

    Example: einmap pipeline --devices 4 --micro-batches 8 --times 10,12,8

    Example: einmap pipeline --schedule best --times 10,12,8 --transfer 1 --memory 8 --svg timeline.svg
    """
    # Here, not above: other commands do not need them
    from einmap.distribute.pipelines.search import RUNS, BestPipeline, best_pipeline
    from einmap.distribute.pipelines.table import schedule_csv
    from einmap.distribute.pipelines.timeline import run_pipeline
    from einmap.report.mesh.pictures.pipeline import pipeline_svg
    from einmap.report.mesh.pipeline_trace import pipeline_trace
    from einmap.report.mesh.pipelines import compared_report, pipeline_document, timeline_report

    given = [options.schedule] if options.schedule else []
    paths = (options.output, options.svg, options.trace, output.csv, output.parquet)
    written, drawn, traced, *_ = Target.several(paths, output.force, given)
    files = output.files("einmap.distribute.pipelines.timeline.Timeline", given)
    if options.schedule is None and (written or drawn or traced):
        raise typer.BadParameter("says which schedule is written or drawn", param_hint="--schedule")
    _check_named(options)
    if options.schedule != BEST:
        _check_alone(options)
    best: BestPipeline | None = None
    if options.schedule == BEST:
        problem = problem_of(options)
        with searching() as running:
            runs = RUNS if options.runs is None else options.runs
            best = best_pipeline(problem, runs=runs, progress=running.progress)
        timelines = [best.timeline]
    else:
        timelines = [run_pipeline(each, costs_of(options, each.device_of)) for each in schedules_of(options)]
    first = timelines[0]
    output.show(
        lambda: pipeline_document(timelines, best),
        lambda: compared_report(timelines) if options.schedule is None else timeline_report(first, best),
    )
    if written is not None:
        written.write(schedule_csv(first.schedule))
        print_hint(f"wrote {written.path}")
    if drawn is not None:
        drawn.write(pipeline_svg(first))
        print_hint(f"wrote {drawn.path}")
    if traced is not None:
        traced.write_pieces(pipeline_trace(first))
        print_hint(f"wrote {traced.path}")
    files.write(timelines)


def _check_named(options: Options) -> None:
    """Raise usage errors for options that a schedule by name would not look at."""
    from einmap.distribute.pipelines.shipped import SCHEDULES

    name = options.schedule
    if name is not None and name.endswith(".csv"):
        for field in ("devices", "micro_batches", "chunks"):
            if getattr(options, field) is not None:
                flag = f"--{field.replace('_', '-')}"
                raise typer.BadParameter("the file has all actions of all devices", param_hint=flag)
    if name is None or (name not in SCHEDULES and name != BEST):
        return
    if options.chunks is not None and name != BEST and not SCHEDULES[name].takes_chunks:
        raise typer.BadParameter(f"{name} has its own number of stages a device", param_hint="--chunks")
    if options.overlapped is not None and name != OVERLAPPING:
        raise typer.BadParameter(f"only passes of {OVERLAPPING} overlap", param_hint="--overlapped")


def _check_alone(options: Options) -> None:
    """Raise usage errors for options that only the best schedule has."""
    for name in ("memory", "runs"):
        if getattr(options, name) is not None:
            raise typer.BadParameter("only --schedule best has it", param_hint=f"--{name}")


def sizes_of(options: Options) -> tuple[int, int, int]:
    """Devices, micro-batches, and stages of a device."""
    return options.devices or DEVICES, options.micro_batches or MICRO_BATCHES, options.chunks or STAGES


def schedules_of(options: Options) -> list[PipelineSchedule]:
    """The schedules that are asked for; of all those that have names the ones that can be made."""
    from einmap.distribute.pipelines.shipped import SCHEDULES, pipeline_schedule
    from einmap.distribute.pipelines.table import MOST_ACTIONS, schedule_from_csv

    if options.schedule is not None and options.schedule.endswith(".csv"):
        path = Path(options.schedule)
        schedule = schedule_from_csv(read_text_file(path), options.schedule)
        if options.overlapped is not None and all(len(step) == 1 for row in schedule.steps for step in row):
            raise typer.BadParameter("no actions of the file overlap", param_hint="--overlapped")
        return [schedule]
    devices, batches, chunks = sizes_of(options)
    if 3 * devices * chunks * batches > MOST_ACTIONS:
        raise SpecError(f"the pipeline has more than {MOST_ACTIONS:,} actions", hint="fewer micro-batches or devices")
    if options.schedule is not None:
        return [pipeline_schedule(options.schedule, devices, batches, chunks=chunks)]
    found: list[PipelineSchedule] = []
    for name in SCHEDULES:
        try:
            found.append(pipeline_schedule(name, devices, batches, chunks=chunks))
        except SpecError as error:
            print_hint(f"left out: {error.message}")
    return found


def problem_of(options: Options) -> PipelineProblem:
    """The problem of the best schedule: one stage a device, two in the form of a V, or more that go round."""
    from einmap.distribute.pipelines.problem import PipelineProblem
    from einmap.distribute.pipelines.schedule import folded, looped

    devices, batches, chunks = sizes_of(options)
    if 3 * devices * chunks * batches > MOST_SEARCHED:
        raise SpecError(
            f"a best pipeline of more than {MOST_SEARCHED:,} actions is not searched",
            hint="fewer micro-batches: what happens in the middle repeats itself",
        )
    device_of = folded(devices) if chunks == 2 else looped(devices, chunks)
    most = float(devices if options.memory is None else options.memory) * chunks
    return PipelineProblem(device_of, batches, costs_of(options, device_of), (most,) * devices)


def costs_of(options: Options, device_of: Sequence[int]) -> StageCosts:
    """Costs of stages from those of a device, of which each of its stages takes an equal part."""
    from einmap.distribute.pipelines.timeline import StageCosts

    try:
        forward, inputs, weights = (float(part) for part in options.times.split(","))
    except ValueError:
        raise typer.BadParameter("three numbers, joined by commas: 10,12,8", param_hint="--times") from None
    per_device = Counter(device_of)
    rows = [tuple(value / per_device[device] for device in device_of) for value in (forward, inputs, weights)]
    return StageCosts(
        rows[0],
        rows[1],
        rows[2],
        options.transfer,
        overlapped=1.0 if options.overlapped is None else options.overlapped,
    )
