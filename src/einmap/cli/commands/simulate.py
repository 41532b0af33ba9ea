"""`einmap simulate`: run a mapping on real tensors, and hold the model against what happened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from einmap.arch.component import Compute, Network
from einmap.cli.inputs import OUTPUT, AllowCode, AsJson, Define, Files, Root, TopKey, load_spec, reading_inputs
from einmap.cli.output import console, print_hint, print_json, print_notes, print_report
from einmap.cli.table_files import Csv, Parquet, TableFiles, TableName
from einmap.cli.target import Target
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

Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the random values of the input tensors.")]
Plot = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.png",
        help="Draw the occupancy of memories over time.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write the events of components to a .csv or .parquet file.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
Perfetto = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.json",
        help="Write what happens when, as a trace for ui.perfetto.dev.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
ComponentNames = Annotated[
    list[str] | None,
    typer.Option(
        "--component",
        metavar="NAME",
        help="A component of which --trace writes the events; repeatable.",
        show_default="all memories and tolls",
        rich_help_panel=OUTPUT,
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace files that exist; run also what may take very long or much memory.",
        rich_help_panel=OUTPUT,
    ),
]


def simulate_command(
    files: Files,
    *,
    define: Define = None,
    allow_code: AllowCode = None,
    root: Root = None,
    top_key: TopKey = None,
    seed: Seed = 0,
    plot: Plot = None,
    trace: Trace = None,
    component: ComponentNames = None,
    perfetto: Perfetto = None,
    csv: Csv = None,
    parquet: Parquet = None,
    table: TableName = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Run a mapping on real tensors through explicit buffers, and compare outputs, counts and usage with the model.

    The model counts as its preset `exact` does. Exit status 1: an output is wrong, or a number differs.

    Example: einmap simulate simple matmul simple_matmul -D M=32 --perfetto trace.json
    """
    _check_options(plot, trace, component)
    inputs = [*files, *(allow_code or ())]
    picture, events, tracks = (Target.of(path, force, inputs) for path in (plot, trace, perfetto))
    kind = "einmap.report.executions.comparison.Comparison"
    tables = TableFiles.of(kind, csv, parquet, table, force=force, inputs=inputs)
    with reading_inputs(define, picture, events, tracks, *tables.targets):
        spec = load_spec(files, define, allow_code, root, top_key)
    traced = traced_components(spec, component) if trace is not None else ()
    cost = evaluate(spec, semantics="exact")
    timeline = MOST if tracks is not None else 0
    execution = _execute(spec, seed=seed, trace=traced, timeline=timeline, force=force)
    comparison = compare(spec, cost, execution)
    failures: list[EinmapError] = []
    if picture is not None:
        failures += _failure(lambda: picture.write(plotted_occupancy(execution, spec)))
    if events is not None:
        failures += _failure(lambda: events.write(written_events(execution.events, events.path)))
    if tracks is not None:
        failures += _failure(lambda: tracks.write_pieces(perfetto_trace(spec, cost, execution)))
    if as_json:
        print_json({**comparison.to_dict(), "notes": [str(note) for note in cost.notes]})
    else:
        print_report(simulation_report(comparison, execution, spec, console().width))
    warnings = [note for note in cost.notes if note.kind == "warning"]  # not the advice on the mapping
    print_notes(warnings)
    failures += _failure(lambda: tables.write(comparison))
    raise_all(failures)
    for path in (plot, trace, perfetto):
        if path is not None:
            print_hint(f"wrote {path}")
    if not comparison.agrees:
        raise typer.Exit(DIFFERENT)


def traced_components(spec: Spec, names: list[str] | None) -> tuple[str, ...]:
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


def _check_options(plot: Path | None, trace: Path | None, component: list[str] | None) -> None:
    """Find out before the run, not after it, that a file cannot be written in the format that its name says."""
    if component and trace is None:
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
