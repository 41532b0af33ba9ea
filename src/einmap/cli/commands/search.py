"""`einmap search`: search strategies side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from einmap.cli.html_report import Figures, Html, ReportFiles, names_of
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
from einmap.cli.output import print_hint, print_json, print_report
from einmap.cli.progress_bar import searching
from einmap.cli.table_files import Csv, Parquet, TableFiles, TableName
from einmap.cli.target import Force
from einmap.errors import EinmapError, did_you_mean

if TYPE_CHECKING:
    from einmap.report.html.parts import Page
    from einmap.search.cost_model import CostModel
    from einmap.search.experiment import Run
    from einmap.search.problem import Optimum, SearchProblem
    from einmap.search.strategy import Budget
    from einmap.search.summary import StrategySummary

SCHEMA = 1
"""Version of the JSON document."""
INTERRUPTED = 130
"""Exit status when the comparison was interrupted before a run was finished."""
DEFAULT = "optimal,random,mcmc,annealing"
"""Strategies that need no extra."""

Strategies = Annotated[
    str,
    typer.Option(
        "--strategy",
        metavar="NAMES",
        help="Names, joined by commas; evolutionary, cma-es, bayesian, learned and tree need the extra search.",
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
ModelFile = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="FILE",
        help="A cost model that learned and tree begin with (docs/search.md).",
        show_default=False,
        rich_help_panel=EFFORT,
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
    journal: JournalFile = None,
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
    from einmap.search.cost_model import load_cost_model
    from einmap.search.problem import problem_of
    from einmap.search.run import check_budget
    from einmap.search.strategy import Budget
    from einmap.search.summary import summarised

    names = strategies_of(strategy)
    budget = Budget(evaluations, seconds if seconds is not None else float("inf"))
    check_budget(budget)
    tables = TableFiles.of(
        "einmap.search.summary.StrategySummary", csv, parquet, table, force=force, inputs=[*files, *(allow_code or ())]
    )
    report = ReportFiles.of(ctx, html, figures, force, [*files, *(allow_code or ())])
    with reading_inputs(define, *tables.targets) as read:
        spec = load_spec(files, define, allow_code, root, top_key)
    report = report.spared(read.files)
    problem = problem_of(spec, einsum=einsum, metrics=metrics, semantics=semantics)
    tasks = [(name, seed) for seed in range(seeds) for name in names if name != "optimal" or seed == 0]
    learned = load_cost_model(model) if model is not None else None
    optimum = problem.optimum()
    runs, interrupted = _runs(problem, tasks, budget, workers, learned, journal)
    if not runs:
        raise typer.Exit(INTERRUPTED)
    summaries = summarised(runs, optimum.value, evaluations)
    _show(problem, optimum, runs, summaries, evaluations, as_json)
    tables.write(summaries)
    report.write(lambda: _page(problem, optimum, summaries, files))
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
    budget: Budget,
    workers: int | None,
    model: CostModel | None,
    path: Path | None,
) -> tuple[list[Run], bool]:
    """The runs in the order of the tasks, as far as they are finished, and whether the user has stopped them."""
    from einmap.search.experiment import Question, runs_of
    from einmap.search.journal import open_journal

    question = Question(problem.spec, problem.name, problem.objective, problem.semantics.name)
    kept = None
    finished: dict[tuple[str, int], Run] = {}
    if path is not None:
        kept = open_journal(path, _experiment(problem, budget, model))
        finished = {(run.strategy, run.seed): run for run in kept.runs}
        if kept.set_aside is not None:
            print_hint(
                f"a part of the journal cannot be read: it is kept as {kept.set_aside}, and {len(kept.runs)} runs go on"
            )
    missing = [task for task in tasks if task not in finished]
    with searching() as search:
        try:
            for run in runs_of(question, missing, budget, workers=workers, model=model, progress=search.progress):
                finished[run.strategy, run.seed] = run
                if kept is not None:
                    kept.append(run)
        except EinmapError:
            if not search.interrupted:
                raise
    return [finished[task] for task in tasks if task in finished], search.interrupted


def _experiment(problem: SearchProblem, budget: Budget, model: CostModel | None) -> dict[str, Any]:
    """What runs depend on, as plain values."""
    import hashlib

    digest = hashlib.sha256(model.to_bytes()).hexdigest()[:16] if model is not None else None
    return {
        "specification": problem.spec.content_hash,
        "einsum": problem.name,
        "objective": problem.objective,
        "semantics": problem.semantics.name,
        "evaluations": budget.evaluations,
        "seconds": budget.seconds if budget.seconds != float("inf") else None,
        "model": digest,
    }


def _page(problem: SearchProblem, optimum: Optimum, summaries: list[StrategySummary], files: list[str]) -> Page:
    from einmap.report.html.search_pages import search_page

    return search_page(problem, optimum, summaries, " ".join(names_of(files)))


def _show(
    problem: SearchProblem,
    optimum: Optimum,
    runs: list[Run],
    summaries: list[StrategySummary],
    budget: int,
    as_json: bool,
) -> None:
    from einmap.report.search.strategies import search_report

    if as_json:
        print_json(
            {
                "schema": SCHEMA,
                "einsum": problem.name,
                "objective": problem.objective,
                "mapspace_size": problem.space.size,
                "mapspace_size_is_exact": problem.space.size_is_exact,
                "optimum": optimum.value,
                "optimum_is_proven": optimum.proven,
                "optimum_seconds": optimum.seconds,
                "strategies": [summary.to_dict() for summary in summaries],
                "runs": [run.to_dict() for run in runs],
            }
        )
    else:
        print_report(search_report(problem, optimum, summaries, budget))
