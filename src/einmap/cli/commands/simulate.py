"""`einmap simulate`: run a mapping on real tensors, and hold the model against what happened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from einmap.arch.component import Compute, Network
from einmap.cli.inputs import Source
from einmap.cli.options import OUTPUT, Without, flag, group, option, several
from einmap.cli.output import console, print_hint, print_notes
from einmap.cli.writing.results import Output
from einmap.cli.writing.target import Target
from einmap.errors import EinmapError, SpecError, did_you_mean, raise_all
from einmap.execute.results.result import Execution
from einmap.model.evaluate import evaluate
from einmap.report.executions.comparison import compare
from einmap.report.executions.plots import check_plots, plotted_occupancy
from einmap.report.executions.simulation import simulation_report
from einmap.report.trace.events import check_format, written_events
from einmap.report.trace.perfetto import MOST, perfetto_trace
from einmap.spec.spec import Spec

DIFFERENT = 1
"""Exit status when outputs are wrong, or model and execution differ."""


@group
class Options:
    """Inputs of the simulation, and results to keep."""

    seed: int = option("N", "Seed of the random values of the input tensors.", default=0, min=0)
    plot: Path | None = option("FILE.png", "Draw the occupancy of memories over time.", panel=OUTPUT)
    trace: Path | None = option("FILE", "Write the events of components to a .csv or .parquet file.", panel=OUTPUT)
    component: list[str] = several(
        "NAME",
        "A component of which --trace writes the events; repeatable.",
        shown="all memories and tolls",
        panel=OUTPUT,
    )
    perfetto: Path | None = option(
        "FILE.json", "Write what happens when, as a trace for ui.perfetto.dev.", panel=OUTPUT
    )
    force: bool = flag("Replace files that exist; run also what may take very long or much memory.", panel=OUTPUT)


def simulate_command(
    source: Source, options: Options, output: Annotated[Output, Without({"html", "figures", "force"})]
) -> None:
    """Run a mapping on real tensors through explicit buffers, and compare outputs, counts and usage with the model.

    The model counts as its preset `exact` does. Exit status 1: an output is wrong, or a number differs.

    Example: einmap simulate simple matmul simple_matmul -D M=32 --perfetto trace.json
    """
    _check(options)
    wanted = (options.plot, options.trace, options.perfetto)
    picture, events, tracks = (Target.of(path, options.force, source.words) for path in wanted)
    files = output.files("einmap.report.executions.comparison.Comparison", source.words)
    spec = source.load(picture, events, tracks, files)
    traced = traced_components(spec, options.component) if events is not None else ()
    cost = evaluate(spec, semantics="exact")
    timeline = MOST if tracks is not None else 0
    execution = _execute(spec, seed=options.seed, trace=traced, timeline=timeline, force=options.force)
    comparison = compare(spec, cost, execution)
    failures: list[EinmapError] = []
    if picture is not None:
        failures += _failure(lambda: picture.write(plotted_occupancy(execution, spec)))
    if events is not None:
        failures += _failure(lambda: events.write(written_events(execution.events, events.path)))
    if tracks is not None:
        failures += _failure(lambda: tracks.write_pieces(perfetto_trace(spec, cost, execution)))
    output.show(
        lambda: {**comparison.to_dict(), "notes": [str(note) for note in cost.notes]},
        lambda: simulation_report(comparison, execution, spec, console().width),
    )
    warnings = [note for note in cost.notes if note.kind == "warning"]  # not the advice on the mapping
    print_notes(warnings)
    failures += _failure(lambda: files.write(comparison))
    raise_all(failures)
    for path in wanted:
        if path is not None:
            print_hint(f"wrote {path}")
    if not comparison.agrees:
        raise typer.Exit(DIFFERENT)


def traced_components(spec: Spec, names: list[str]) -> tuple[str, ...]:
    """The components named, or all that hold or pass tensors. Raises SpecError for unknown names."""
    components = spec.arch().components
    if not names:
        return tuple(name for name, unit in components.items() if not isinstance(unit, Compute | Network))
    raise_all(
        [
            SpecError(
                f"--component {name}: the architecture has no such component", hint=did_you_mean(name, components)
            )
            for name in names
            if name not in components
        ]
    )
    return tuple(dict.fromkeys(names))


def _check(options: Options) -> None:
    """Find out before the run, not after it, that a file cannot be written in the format that its name says."""
    plot, trace = options.plot, options.trace
    if options.component and trace is None:
        raise typer.BadParameter("it chooses the events that --trace FILE writes", param_hint="--component")
    if plot is not None:
        if plot.suffix.lower() != ".png":
            raise typer.BadParameter(f"{plot}: the picture is a PNG, name it {plot.stem}.png", param_hint="--plot")
        check_plots()
    if trace is not None:
        check_format(trace)


def _execute(spec: Spec, *, seed: int, trace: tuple[str, ...], timeline: int, force: bool) -> Execution:
    # Here, not above: compiled loops take long to import, and other commands do not need them.
    from einmap.execute.execute import execute

    return execute(spec, seed=seed, trace=trace, timeline=timeline, force=force)


def _failure(write: Callable[[], None]) -> list[EinmapError]:
    """Write, and return the error if that fails: the result must be printed all the same."""
    try:
        write()
    except EinmapError as error:
        return [error]
    return []
