"""`einmap sweep`: map or evaluate every point of a grid of architectures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from einmap.cli.inputs import Templates
from einmap.cli.options import EFFORT, Without, argument, flag, group, option, output_option
from einmap.cli.output import print_hint, print_json, print_report
from einmap.cli.progress_bar import searching
from einmap.cli.writing.results import INTERRUPTED, Output, ResultFiles
from einmap.cli.writing.target import Target
from einmap.errors import SpecError, did_you_mean
from einmap.frontends.files import exists

if TYPE_CHECKING:
    from einmap.sweep.result import PointResult
    from einmap.sweep.settings import RunSettings
    from einmap.sweep.store.store import KeptSweep, Store

KIND = "einmap.sweep.result.PointResult"
ACTIONS = ("status", "show", "export")
"""First words that are not sweeps: they ask a store."""
STORE = "Store"
"""A panel of the help."""


@group
class Options:
    """Which sweep, where it is kept, and how it is worked off."""

    words: list[str] = argument(
        "SWEEP | status | show POINT | export", "A sweep file or shipped sweep to run; or what to tell of a store."
    )
    store: Path | None = option(
        "FILE", "SQLite file that keeps every finished point.", shown="SWEEP.sqlite here", panel=STORE
    )
    sweep: str | None = option("NAME", "Which sweep of a store.", shown="the last one", panel=STORE)
    workload: str | None = option("NAME", "Which workload `show -o` writes.", shown="the first one", panel=STORE)
    workers: int | None = option(
        "N", "Processes; 0: none beside this one.", shown="one for each processor", min=0, panel=EFFORT
    )
    scheduler: str | None = option(
        "ADDRESS", "A Dask cluster in the place of processes: tcp://host:8786, tls://..., or local.", panel=EFFORT
    )
    sample: int | None = option("N", "Only N points, a Latin hypercube.", min=1, panel=EFFORT)
    optimise: int | None = option(
        "N", "Only N points, proposed by Optuna from what earlier ones cost.", min=1, panel=EFFORT
    )
    seed: int = option("N", "Seed of the sample or of Optuna.", default=0, min=0, panel=EFFORT)
    bounds: bool = flag("Rule out points that a bound keeps off the front.", panel=EFFORT)
    retry: bool = flag("Try again what crashed, took too long or too much memory.", panel=EFFORT)
    output: Path | None = output_option("With `show`: write the specification with its mapping, as YAML.")

    def settings(self) -> RunSettings:
        """How the sweep is run. Raises SpecError for values that do not go together."""
        from einmap.sweep.settings import RunSettings

        return RunSettings.of(
            self.store or Path(f"{Path(self.words[0]).stem}.sqlite"),
            self.workers,
            self.sample,
            self.seed,
            bounds=self.bounds,
            retry=self.retry,
            scheduler=self.scheduler,
            optimise=self.optimise,
        )


def sweep_command(
    options: Options, output: Output, templates: Annotated[Templates, Without({"define", "allow_code", "top_key"})]
) -> None:
    """Map or evaluate every point of a grid of architectures, and show which are best.

    Every finished point is kept in the store at once; the same call again computes what is missing. Ctrl-C finishes the
    points under way; a second Ctrl-C ends at once.

    Example: einmap sweep eyeriss_buffer --workers 2 --html buffer.html

    Example: einmap sweep show 3 --store eyeriss_buffer.sqlite -o point.yaml
    """
    action, rest = _action(options.words)
    files = output.files(KIND, options.words if action == "run" else [])
    if action == "export" and output.csv is None and output.parquet is None:
        raise typer.BadParameter("say where to: --csv FILE or --parquet FILE", param_hint="export")
    interrupted = False
    if action == "run":
        opened, kept, interrupted = _run(options.words[0], templates.root, options.settings(), files)
    else:
        opened, kept = _opened(options.store, options.sweep)
    try:
        if action == "status":
            _status(opened, output.as_json)
        elif action == "show":
            _show(opened, kept, int(rest[0]), options, output)
        else:
            _tell(opened, kept, files, output, is_quiet=action == "export")
    finally:
        opened.close()
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _action(words: list[str]) -> tuple[str, list[str]]:
    """The action, and its arguments. A usage error for a wrong number of them."""
    first, rest = words[0], words[1:]
    action = first if first in ACTIONS and not exists(first) else "run"
    if action == "show" and (len(rest) != 1 or not rest[0].isdecimal()):
        raise typer.BadParameter("write the number of one point: show 3", param_hint="show")
    if action != "show" and rest:
        raise typer.BadParameter(f"{rest[0]!r} is too much: one sweep at a time", param_hint="SWEEP")
    return action, rest


def _run(source: str, root: Sequence[Path], settings: RunSettings, files: ResultFiles) -> tuple[Store, KeptSweep, bool]:
    """Work the sweep off; gives the store, still open, the sweep in it, and whether the user interrupted it."""
    from einmap.sweep.definition.read import read_sweep
    from einmap.sweep.run import Run
    from einmap.sweep.store.checksums import told

    definition = read_sweep(source, root)
    with searching(maps=definition.asked.action == "map") as search:
        run = Run.of(definition, settings, search.progress)
        if run.store.damaged:
            print_hint(f"{told(run.store.damaged)}; computed again")
        files.spare([Path(file) for file in run.read])
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
    from einmap.report.sweeps.documents import SCHEMA, status_document
    from einmap.report.text.layout import Table, laid_out

    rows = [(kept, store.counts(kept)) for kept in store.sweeps()]
    if as_json:
        print_json({"schema": SCHEMA, "sweeps": [{**status_document(kept), "counts": counts} for kept, counts in rows]})
        return
    texts = [
        (kept.outline.name, f"{kept.total:,}", str(len(kept.outline.weights)),
         ", ".join(f"{count:,} {status}" for status, count in sorted(counts.items())))
        for kept, counts in rows
    ]  # fmt: skip
    print_report(laid_out(Table(("sweep", "points", "workloads", "specifications"), texts, left=(0, 3))))


def _show(store: Store, kept: KeptSweep, number: int, options: Options, output: Output) -> None:
    """One point, and its specification with the mapping as a file."""
    from einmap.frontends.yaml.spec import dump
    from einmap.report.sweeps.documents import SCHEMA, point_document
    from einmap.report.sweeps.terminal import point_report
    from einmap.sweep.store.replay import replayed

    target = Target.of(options.output, output.force)
    workload, names = options.workload, kept.outline.workloads
    point = next(store.results(kept, number, whole=True), None)
    if point is None:
        hint = f"it has {kept.total:,} points; --csv lists their numbers"
        raise SpecError(f"the sweep {kept.outline.name!r} has no point {number} that was begun", hint=hint)
    if workload is not None and workload not in names:
        hint = did_you_mean(workload, names, listing="workloads")
        raise SpecError(f"the sweep has no workload {workload!r}", hint=hint)
    output.show(lambda: {"schema": SCHEMA, **point_document(point)}, lambda: point_report(point))
    if target is not None:
        reader = "run" if kept.outline.action == "plan" else "explain"
        target.write(dump(replayed(store, kept, number, workload or names[0])))
        print_hint(f"wrote the specification to {target.path}; try einmap {reader} {target.path}")


def _tell(store: Store, kept: KeptSweep, files: ResultFiles, output: Output, *, is_quiet: bool) -> None:
    """Print what there is of a sweep, and write its files."""
    from einmap.report.sweeps.documents import sweep_document
    from einmap.report.sweeps.terminal import sweep_report

    is_whole = output.as_json or output.table is not None or output.has_page
    points: list[PointResult] = list(store.results(kept, whole=is_whole))
    if output.as_json or not is_quiet:
        output.show(lambda: sweep_document(kept, points), lambda: sweep_report(kept, points))
    if not points:
        print_hint("no point is finished: there is nothing to write")
        return
    files.write(points, "einmap.report.html.pages.sweep_page.sweep_page", kept, points)
