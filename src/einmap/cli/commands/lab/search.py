"""`einmap search`: search strategies side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from einmap.cli.commands.lab.learning import ModelFile, SaveModel, check_new_runs, write_model
from einmap.cli.commands.lab.remeasuring import Remeasure, RemeasureBy, Remeasuring
from einmap.cli.commands.lab.search_report import SearchReport
from einmap.cli.html_report import Figures, Html, ReportFiles
from einmap.cli.inputs import (
    EFFORT,
    OUTPUT,
    AllowCode,
    AsJson,
    Define,
    Files,
    Root,
    SemanticsName,
    TopKey,
    load_spec,
    reading_inputs,
)
from einmap.cli.output import print_hint
from einmap.cli.progress_bar import searching
from einmap.cli.table_files import Csv, Parquet, TableFiles, TableName
from einmap.cli.target import Force, Target
from einmap.errors import EinmapError, did_you_mean

if TYPE_CHECKING:
    from einmap.search.experiment import Run, Terms
    from einmap.search.problem import SearchProblem

INTERRUPTED = 130
"""Exit status when the comparison was interrupted before a run was finished."""
DEFAULT = "optimal,random,mcmc,annealing"
"""Strategies that need no extra."""

Strategies = Annotated[
    str,
    typer.Option(
        "--strategy",
        metavar="NAMES",
        help="Names, joined by commas; evolutionary, bayesian, learned and tree need the extra search.",
    ),
]
Einsum = Annotated[
    str | None,
    typer.Option("--einsum", metavar="NAME", help="The Einsum, where the workload has several.", show_default=False),
]
Objective = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="METRIC",
        help="What is minimised: edp, energy or latency.",
        show_default="mapper.metrics of the specification, else edp",
    ),
]
Evaluations = Annotated[
    int, typer.Option(metavar="N", min=1, help="Mappings that a run may evaluate.", rich_help_panel=EFFORT)
]
Seconds = Annotated[
    float | None,
    typer.Option(metavar="S", help="Seconds that a run may take.", show_default="no limit", rich_help_panel=EFFORT),
]
Seeds = Annotated[
    int, typer.Option(metavar="N", min=1, help="Runs of each strategy, with seeds 0 to N - 1.", rich_help_panel=EFFORT)
]
Workers = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Processes.", show_default="one for each processor", rich_help_panel=EFFORT),
]
JournalFile = Annotated[
    Path | None,
    typer.Option(
        "--journal",
        "-o",
        metavar="FILE",
        help="Keep finished runs there; the same command goes on from it.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]


def search_command(
    ctx: typer.Context,
    files: Files,
    *,
    strategy: Strategies = DEFAULT,
    einsum: Einsum = None,
    metrics: Objective = None,
    semantics: SemanticsName = None,
    evaluations: Evaluations = 1000,
    seconds: Seconds = None,
    seeds: Seeds = 5,
    workers: Workers = None,
    model: ModelFile = None,
    remeasure: Remeasure = None,
    remeasure_by: RemeasureBy = None,
    journal: JournalFile = None,
    save_model: SaveModel = None,
    csv: Csv = None,
    parquet: Parquet = None,
    table: TableName = None,
    html: Html = None,
    figures: Figures = None,
    force: Force = False,
    define: Define = None,
    allow_code: AllowCode = None,
    root: Root = None,
    top_key: TopKey = None,
    as_json: AsJson = False,
) -> None:
    """Compare search strategies on the mapspace of one Einsum, judged against the proven optimum.

    Each strategy runs with several seeds. Ctrl-C ends the comparison with the runs that are finished.

    Example: einmap search nvdla conv --strategy random,mcmc,learned --evaluations 5000 --seeds 10 -o runs.journal
    """
    # Here, not above: other commands do not need it.
    from einmap.search.cost_model.model_file import load_cost_model
    from einmap.search.experiment import Terms
    from einmap.search.problem import problem_of
    from einmap.search.run import check_budget
    from einmap.search.strategy import Budget
    from einmap.search.summary import summarised

    names = strategies_of(strategy)
    budget = Budget(evaluations, seconds if seconds is not None else float("inf"))
    check_budget(budget)
    asked = Remeasuring.of(remeasure, remeasure_by)
    inputs = [*files, *(allow_code or ()), *([model] if model is not None else ())]
    tables = TableFiles.of("einmap.search.summary.StrategySummary", csv, parquet, table, force=force, inputs=inputs)
    report = ReportFiles.of(ctx, html, figures, force, inputs)
    saved = Target.of(save_model, force, inputs)
    with reading_inputs(define, *tables.targets, saved) as read:
        spec = load_spec(files, define, allow_code, root, top_key)
    report = report.spared(read.files)
    problem = problem_of(spec, einsum=einsum, metrics=metrics, semantics=semantics)
    tasks = [(name, seed) for seed in range(seeds) for name in names if name != "optimal" or seed == 0]
    learned = load_cost_model(model, problem=problem) if model is not None else None
    optimum = problem.optimum()
    reference = asked.reference(problem, optimum) if asked is not None else None
    terms = Terms(budget, learned, save_model is not None)
    depends_on = _experiment(problem, terms, allow_code or ())
    runs, interrupted = _runs(problem, tasks, terms, workers, journal, depends_on, saved)
    if not runs:
        raise typer.Exit(INTERRUPTED)
    summaries = summarised(runs, optimum.value, evaluations)
    executed = asked.of_runs(problem, reference, runs) if asked is not None and reference is not None else None
    shown = SearchReport(problem, optimum, evaluations, runs, summaries, executed)
    (shown.show_json if as_json else shown.show)()
    tables.write(summaries)
    report.write(lambda: shown.page(files))
    if saved is not None:
        write_model(saved, learned, problem, runs)
    if interrupted:
        print_hint(f"{len(runs)} of {len(tasks)} runs were finished")


def strategies_of(text: str) -> list[str]:
    """`random,mcmc` as names. A usage error for unknown ones."""
    from einmap.search.strategy import strategy_names

    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if name not in strategy_names():
            hint = did_you_mean(name, strategy_names(), listing="strategies")
            raise typer.BadParameter(f"unknown strategy {name!r}; {hint}", param_hint="--strategy")
    if not names:
        raise typer.BadParameter("names no strategy", param_hint="--strategy")
    return names


def _runs(
    problem: SearchProblem,
    tasks: list[tuple[str, int]],
    terms: Terms,
    workers: int | None,
    path: Path | None,
    depends_on: Mapping[str, Any],
    saved: Target | None,
) -> tuple[list[Run], bool]:
    """The runs in the order of the tasks, as far as they are finished, and whether the user has stopped them."""
    from einmap.search.experiment import Question, runs_of
    from einmap.search.journal import open_journal

    question = Question(problem.spec, problem.name, problem.objective, problem.semantics.name)
    kept = None
    finished: dict[tuple[str, int], Run] = {}
    if path is not None:
        kept = open_journal(path, depends_on)
        finished = {(run.strategy, run.seed): run for run in kept.runs}
        if kept.set_aside is not None:
            print_hint(
                f"a part of the journal cannot be read: it is kept as {kept.set_aside}, and {len(kept.runs)} runs go on"
            )
    missing = [task for task in tasks if task not in finished]
    check_new_runs(saved, len(missing))
    with searching(maps=True) as search:
        try:
            for run in runs_of(question, missing, terms, workers=workers, progress=search.progress):
                finished[run.strategy, run.seed] = run
                if kept is not None:
                    kept.append(run)
        except EinmapError:
            if not search.interrupted:
                raise
    return [finished[task] for task in tasks if task in finished], search.interrupted


def _experiment(problem: SearchProblem, terms: Terms, code: Sequence[Path]) -> dict[str, Any]:
    """What runs depend on, as plain values. `code`: files with functions or models of the user."""
    import hashlib

    from einmap.search.cost_model.model_file import model_bytes

    budget, model = terms.budget, terms.model
    digest = hashlib.sha256(model_bytes(model)).hexdigest()[:16] if model is not None else None
    # what costs are made of beside the specification, where there is anything
    others = [file.read_bytes() for file in code]
    if problem.spec.models.classes:
        others.append(str(problem.spec.models.fingerprint).encode())
    costs = {"costs": hashlib.sha256(b"\0".join(others)).hexdigest()[:16]} if others else {}
    return {
        "specification": problem.spec.content_hash,
        "einsum": problem.name,
        "objective": problem.objective,
        "semantics": problem.semantics.name,
        "evaluations": budget.evaluations,
        "seconds": budget.seconds if budget.seconds != float("inf") else None,
        "model": digest,
        **costs,
    }
