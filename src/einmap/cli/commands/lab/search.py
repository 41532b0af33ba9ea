"""`einmap search`: search strategies side by side."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from einmap.cli.commands.lab.learning import check_new_runs, write_model
from einmap.cli.commands.lab.remeasuring import Remeasuring
from einmap.cli.commands.lab.search_report import SearchReport
from einmap.cli.inputs import Source, semantics_option
from einmap.cli.options import EFFORT, OUTPUT, group, option
from einmap.cli.output import print_hint
from einmap.cli.progress_bar import searching
from einmap.cli.writing.results import INTERRUPTED, Output
from einmap.cli.writing.target import Target
from einmap.errors import EinmapError, did_you_mean

if TYPE_CHECKING:
    from einmap.search.experiment import Run, Terms
    from einmap.search.problem import SearchProblem

DEFAULT = "optimal,random,mcmc,annealing"
"""Strategies that need no extra."""


def einsum_option() -> Any:
    """The field `einsum` of a group: whose mapspace."""
    return option("NAME", "The Einsum, where the workload has several.")


def objective_option() -> Any:
    """The field `metrics` of a group: one metric."""
    text = "What is minimised: edp, energy or latency."
    return option("METRIC", text, shown="mapper.metrics of the specification, else edp")


def processes_option() -> Any:
    """The field `workers` of a group."""
    return option("N", "Processes.", shown="one for each processor", min=1, panel=EFFORT)


@group
class Options:
    """Strategies to compare, for how long, and results to keep."""

    strategy: str = option(
        "NAMES",
        "Names, joined by commas; evolutionary, bayesian, learned and tree need the extra search.",
        default=DEFAULT,
    )
    einsum: str | None = einsum_option()
    metrics: str | None = objective_option()
    semantics: str | None = semantics_option()
    evaluations: int = option("N", "Mappings that a run may evaluate.", default=1000, min=1, panel=EFFORT)
    seconds: float | None = option("S", "Seconds that a run may take.", shown="no limit", panel=EFFORT)
    seeds: int = option("N", "Runs of each strategy, with seeds 0 to N - 1.", default=5, min=1, panel=EFFORT)
    workers: int | None = processes_option()
    model: Path | None = option("FILE", "A saved cost model that learned and tree begin with.", panel=EFFORT)
    remeasure: int | None = option(
        "N",
        "Execute the N best mappings of each strategy afterwards, and put them in the order of what is measured.",
        shown="none",
        min=1,
        max=32,
        panel=EFFORT,
    )
    remeasure_by: str | None = option(
        "simulator|c",
        "simulator (the objective from what a run on random data counts) or c (seconds of compiled C here).",
        shown="simulator",
        panel=EFFORT,
    )
    journal: Path | None = option(
        "FILE", "Keep finished runs there; the same command goes on from it.", "--journal", "-o", panel=OUTPUT
    )
    save_model: Path | None = option(
        "FILE",
        "Save a cost model of what all runs evaluated, and of --model: for other workloads on this architecture.",
        panel=OUTPUT,
    )


def search_command(options: Options, output: Output, source: Source) -> None:
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

    names = strategies_of(options.strategy)
    seconds, evaluations, model = options.seconds, options.evaluations, options.model
    budget = Budget(evaluations, seconds if seconds is not None else float("inf"))
    check_budget(budget)
    asked = Remeasuring.of(options.remeasure, options.remeasure_by)
    inputs = [*source.words, *([model] if model is not None else ())]
    files = output.files("einmap.search.summary.StrategySummary", inputs)
    saved = Target.of(options.save_model, output.force, inputs)
    spec = source.load(files, saved)
    problem = problem_of(spec, einsum=options.einsum, metrics=options.metrics, semantics=options.semantics)
    tasks = [(name, seed) for seed in range(options.seeds) for name in names if name != "optimal" or seed == 0]
    learned = load_cost_model(model, problem=problem) if model is not None else None
    with searching(maps=True) as search:
        optimum = problem.optimum(search.progress)
    reference = asked.reference(problem, optimum) if asked is not None else None
    terms = Terms(budget, learned, saved is not None)
    depends_on = _experiment(problem, terms, source.allow_code)
    runs, interrupted = _runs(problem, tasks, terms, options, depends_on, saved)
    if not runs:
        raise typer.Exit(INTERRUPTED)
    summaries = summarised(runs, optimum.value, evaluations)
    executed = asked.of_runs(problem, reference, runs) if asked is not None and reference is not None else None
    shown = SearchReport(problem, optimum, evaluations, runs, summaries, executed)
    output.show(shown.document, shown.report)
    rows = shown.rows() if output.has_page else None
    files.write(
        summaries,
        "einmap.report.html.pages.search_pages.search_page",
        problem,
        optimum,
        summaries,
        " ".join(source.names),
        rows,
    )
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
    options: Options,
    depends_on: Mapping[str, Any],
    saved: Target | None,
) -> tuple[list[Run], bool]:
    """The runs in the order of the tasks, as far as they are finished, and whether the user has stopped them."""
    from einmap.search.experiment import Question, runs_of
    from einmap.search.journal import open_journal

    question = Question(problem.spec, problem.name, problem.objective, problem.semantics.name)
    kept = None
    finished: dict[tuple[str, int], Run] = {}
    if options.journal is not None:
        kept = open_journal(options.journal, depends_on)
        finished = {(run.strategy, run.seed): run for run in kept.runs}
        if kept.set_aside is not None:
            print_hint(
                f"a part of the journal cannot be read: it is kept as {kept.set_aside}, and {len(kept.runs)} runs go on"
            )
    missing = [task for task in tasks if task not in finished]
    check_new_runs(saved, len(missing))
    with searching(maps=True) as search:
        try:
            for run in runs_of(question, missing, terms, workers=options.workers, progress=search.progress):
                finished[run.strategy, run.seed] = run
                if kept is not None:
                    kept.append(run)
        except EinmapError:
            if not search.interrupted:
                raise
    return [finished[task] for task in tasks if task in finished], search.interrupted


def _experiment(problem: SearchProblem, terms: Terms, code: Sequence[Path]) -> dict[str, Any]:
    """Inputs of runs, as plain values. `code`: files with functions or models of the user."""
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
