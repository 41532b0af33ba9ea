"""`einmap sweep`: map or evaluate every point of a grid of architectures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from einmap.cli.html_report import Figures, Html, ReportFiles
from einmap.cli.inputs import EFFORT, OUTPUT, AsJson, Root
from einmap.cli.output import print_hint, print_json, print_report
from einmap.cli.progress_bar import searching
from einmap.cli.table_files import Csv, Parquet, TableFiles, TableName
from einmap.cli.target import Force, Target
from einmap.errors import SpecError, did_you_mean
from einmap.frontends.files import exists

if TYPE_CHECKING:
    from einmap.report.html.parts import Page
    from einmap.sweep.result import PointResult
    from einmap.sweep.settings import RunSettings
    from einmap.sweep.store.store import KeptSweep, Store

INTERRUPTED = 130
"""Exit status when the sweep was interrupted."""
KIND = "einmap.sweep.result.PointResult"
ACTIONS = ("status", "show", "export")
"""First words that are not sweeps: they ask a store."""
STORE = "Store"
"""A panel of the help."""
Words = Annotated[
    list[str],
    typer.Argument(
        metavar="SWEEP | status | show POINT | export",
        help="A sweep file or shipped sweep to run; or what to tell of a store.",
        show_default=False,
    ),
]
StoreFile = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="FILE",
        help="SQLite file that keeps every finished point.",
        show_default="SWEEP.sqlite here",
        rich_help_panel=STORE,
    ),
]
SweepName = Annotated[
    str | None,
    typer.Option(
        "--sweep",
        metavar="NAME",
        help="Which sweep of a store.",
        show_default="the last one",
        rich_help_panel=STORE,
    ),
]
Workload = Annotated[
    str | None,
    typer.Option(
        "--workload",
        metavar="NAME",
        help="Which workload `show -o` writes.",
        show_default="the first one",
        rich_help_panel=STORE,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        help="Processes; 0: none beside this one.",
        show_default="one for each processor",
        rich_help_panel=EFFORT,
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="A Dask cluster in the place of processes: tcp://host:8786, tls://..., or local.",
        show_default=False,
        rich_help_panel=EFFORT,
    ),
]
Sample = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="Only N points, a Latin hypercube.", show_default=False, rich_help_panel=EFFORT
    ),
]
Optimise = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Only N points, proposed by Optuna from what earlier ones cost.",
        show_default=False,
        rich_help_panel=EFFORT,
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the sample or of Optuna.", rich_help_panel=EFFORT)]
Bounds = Annotated[
    bool,
    typer.Option("--bounds", help="Rule out points that a bound keeps off the front.", rich_help_panel=EFFORT),
]
Retry = Annotated[
    bool,
    typer.Option("--retry", help="Try again what crashed, took too long or too much memory.", rich_help_panel=EFFORT),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="With `show`: write the specification with its mapping, as YAML.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]


def sweep_command(
    ctx: typer.Context,
    words: Words,
    *,
    store: StoreFile = None,
    sweep: SweepName = None,
    workload: Workload = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    sample: Sample = None,
    optimise: Optimise = None,
    seed: Seed = 0,
    bounds: Bounds = False,
    retry: Retry = False,
    output: Output = None,
    csv: Csv = None,
    parquet: Parquet = None,
    table: TableName = None,
    html: Html = None,
    figures: Figures = None,
    force: Force = False,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Map or evaluate every point of a grid of architectures, and show which are best.

    Every finished point is kept in the store at once; the same call again computes what is missing. Ctrl-C finishes the
    points under way; a second Ctrl-C ends at once.

    Example: einmap sweep eyeriss_buffer --workers 2 --html buffer.html

    Example: einmap sweep show 3 --store eyeriss_buffer.sqlite -o point.yaml
    """
    action, rest = _action(words)
    inputs = [] if action != "run" else words
    report = ReportFiles.of(ctx, html, figures, force, inputs)
    tables = TableFiles.of(KIND, csv, parquet, table, force=force, inputs=inputs)
    if action == "export" and tables.csv is None and tables.parquet is None:
        raise typer.BadParameter("say where to: --csv FILE or --parquet FILE", param_hint="export")
    if action == "run":
        from einmap.sweep.settings import RunSettings

        path = store or Path(f"{Path(words[0]).stem}.sqlite")
        settings = RunSettings.of(
            path, workers, sample, seed, bounds=bounds, retry=retry, scheduler=scheduler, optimise=optimise
        )
        opened, kept, interrupted = _run(words[0], root or (), settings, report, tables)
    else:
        opened, kept = _opened(store, sweep)
        interrupted = False
    try:
        if action == "status":
            _status(opened, as_json)
        elif action == "show":
            _show(opened, kept, rest, workload, Target.of(output, force), as_json)
        else:
            _tell(opened, kept, tables, report, as_json=as_json, is_quiet=action == "export")
    finally:
        opened.close()
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _action(words: list[str]) -> tuple[str, list[str]]:
    """What is asked for, and its arguments. A usage error for a wrong number of them."""
    first, rest = words[0], words[1:]
    action = first if first in ACTIONS and not exists(first) else "run"
    if action == "show" and (len(rest) != 1 or not rest[0].isdecimal()):
        raise typer.BadParameter("write the number of one point: show 3", param_hint="show")
    if action != "show" and rest:
        raise typer.BadParameter(f"{rest[0]!r} is too much: one sweep at a time", param_hint="SWEEP")
    return action, rest


def _run(
    source: str, root: Sequence[Path], settings: RunSettings, report: ReportFiles, tables: TableFiles
) -> tuple[Store, KeptSweep, bool]:
    """Work the sweep off; gives the store, still open, the sweep in it, and whether the user interrupted it."""
    from einmap.sweep.definition.read import read_sweep
    from einmap.sweep.run import Run
    from einmap.sweep.store.checksums import told

    definition = read_sweep(source, root)
    with searching(maps=definition.asked.action == "map") as search:
        run = Run.of(definition, settings, search.progress)
        if run.store.damaged:
            print_hint(f"{told(run.store.damaged)}; computed again")
        report.spared([Path(file) for file in run.read])
        for target in tables.targets:
            if target is not None:
                target.spare(Path(file) for file in run.read)
        try:
            for _ in run.results():
                pass
        except BaseException:
            run.store.close()
            raise
    print_hint(f"{run.finished:,} of {run.proposals.total:,} points are finished; kept in {settings.store}")
    return run.store, run.kept, search.interrupted and run.finished < run.proposals.total


def _opened(path: Path | None, name: str | None) -> tuple[Store, KeptSweep]:
    from einmap.sweep.store.checksums import told
    from einmap.sweep.store.store import Store

    if path is None:
        raise typer.BadParameter("name the store", param_hint="--store")
    store = Store.opened(path, create=False)
    if store.damaged:
        print_hint(f"{told(store.damaged)}; the same sweep computes it again")
    try:
        return store, store.sweep(name)
    except BaseException:
        store.close()
        raise


def _status(store: Store, as_json: bool) -> None:
    """Every sweep of the store: how many specifications have each status."""
    from rich.text import Text

    from einmap.report.sweeps.documents import SCHEMA, status_document
    from einmap.report.text.layout import new_table

    rows = [(kept, store.counts(kept)) for kept in store.sweeps()]
    if as_json:
        print_json({"schema": SCHEMA, "sweeps": [{**status_document(kept), "counts": counts} for kept, counts in rows]})
        return
    table = new_table("sweep", "points", "workloads", "specifications", left=(0, 3))
    for kept, counts in rows:
        texts = ", ".join(f"{count:,} {status}" for status, count in sorted(counts.items()))
        table.add_row(Text(kept.outline.name), f"{kept.total:,}", str(len(kept.outline.weights)), texts)
    print_report(table)


def _show(
    store: Store, kept: KeptSweep, rest: list[str], workload: str | None, target: Target | None, as_json: bool
) -> None:
    """One point, and its specification with the mapping as a file."""
    from einmap.frontends.yaml.spec import dump
    from einmap.report.sweeps.documents import SCHEMA, point_document
    from einmap.report.sweeps.terminal import point_report
    from einmap.sweep.store.replay import replayed

    number, names = int(rest[0]), kept.outline.workloads
    point = next(store.results(kept, number, whole=True), None)
    if point is None:
        hint = f"it has {kept.total:,} points; --csv lists their numbers"
        raise SpecError(f"the sweep {kept.outline.name!r} has no point {number} that was begun", hint=hint)
    if workload is not None and workload not in names:
        hint = did_you_mean(workload, names, listing="workloads")
        raise SpecError(f"the sweep has no workload {workload!r}", hint=hint)
    if as_json:
        print_json({"schema": SCHEMA, **point_document(point)})
    else:
        print_report(point_report(point))
    if target is not None:
        reader = "run" if kept.outline.action == "plan" else "explain"
        target.write(dump(replayed(store, kept, number, workload or names[0])))
        print_hint(f"wrote the specification to {target.path}; try einmap {reader} {target.path}")


def _tell(
    store: Store, kept: KeptSweep, tables: TableFiles, report: ReportFiles, *, as_json: bool, is_quiet: bool
) -> None:
    """Print what there is of a sweep, and write its files."""
    from einmap.report.sweeps.documents import sweep_document
    from einmap.report.sweeps.terminal import sweep_report

    is_whole = as_json or tables.table is not None or report.page is not None or report.folder is not None
    points: list[PointResult] = list(store.results(kept, whole=is_whole))
    if as_json:
        print_json(sweep_document(kept, points))
    elif not is_quiet:
        print_report(sweep_report(kept, points))
    if not points:
        print_hint("no point is finished: there is nothing to write")
        return
    tables.write(points)
    report.write(lambda: _page(kept, points))


def _page(kept: KeptSweep, points: list[PointResult]) -> Page:
    from einmap.report.html.pages.sweep_page import sweep_page

    return sweep_page(kept, points)
