"""Tables and plots of the experiment of the search lab (`search_strategies`), as docs/search-lab.md has them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.search_problems import PUBLISHED, SHIPPED, unreachable_minimum

from einmap.report.html.pages.search_pages import gap_ticks
from einmap.report.search.strategies import gap_text
from einmap.search.experiment import Run
from einmap.search.summary import Quartiles, checkpoints, gap

if TYPE_CHECKING:
    from benchmarks.search_strategies import Experiment

MARKS = re.compile(r"(<!-- strategies -->\n).*?(<!-- end -->\n)", re.DOTALL)
SMALLEST = 1e-4
"""Gaps below this stand at the lower end of a plot."""
COLOURS = {
    "random": "#7f7f7f", "random-pruned": "#bcbd22", "exhaustive": "#e377c2", "annealing": "#1f77b4", "mcmc": "#2ca02c",
    "evolutionary": "#9467bd", "bayesian": "#ff7f0e", "learned": "#d62728", "tree": "#8c564b",
}  # fmt: skip

type Cell = Callable[[str, str], str]
"""The text for a problem and a strategy."""


def write_report(
    experiment: Experiment, names: Sequence[str], strategies: Sequence[str], page: Path, images: Path | None
) -> None:
    """Write the tables between the marks of a page, and a plot for each group of problems into a folder."""
    runs = {(name, strategy): experiment.runs(name, strategy) for name in names for strategy in strategies}
    shown = [strategy for strategy in strategies if any(runs[name, strategy] for name in names)]
    optima = {name: experiment.optimum(name)["value"] for name in names}
    tables = _Tables(runs, optima, experiment)
    lines = [*tables.of_groups(names, shown), *_published(experiment, names, runs)]
    text = MARKS.sub(lambda found: found[1] + "\n".join(lines) + "\n" + found[2], page.read_text())
    written = page.with_suffix(".new")
    written.write_text(text)
    written.replace(page)
    if images is not None:
        for group, members in _groups(names):
            _plot(members, shown, runs, optima, images / f"search_{group}.svg")


def _groups(names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    yield "shipped", [name for name in names if name in SHIPPED]
    yield "mind_mappings", [name for name in names if name not in SHIPPED]


class _Tables:
    def __init__(
        self, runs: dict[tuple[str, str], list[Run]], optima: dict[str, float], experiment: Experiment
    ) -> None:
        self.runs, self.optima, self.experiment = runs, optima, experiment
        self.most_seeds = max(map(len, runs.values()), default=0)

    def of_groups(self, names: Sequence[str], strategies: Sequence[str]) -> Iterator[str]:
        """Gaps after 1,000 evaluations and at the end."""
        most = {strategy: self.experiment.budget(strategy) for strategy in strategies}
        for _, members in _groups(names):
            fewer = [s for s in strategies if most[s] < 1000]
            note = f" ({', '.join(f'`{s}`: {most[s]:,}' for s in fewer)})" if fewer else ""
            what = f"gap after 1,000, {max(most.values()):,} evaluations{note}"
            yield from _table(what, members, strategies, self._gaps)

    def _gaps(self, name: str, strategy: str) -> str:
        """`69.0%, 0`: the median gap after 1,000 evaluations, and after all where runs go so far."""
        texts = []
        for runs, evaluations in (
            (self.runs[name, strategy], 1000),
            (self.experiment.whole_runs(name, strategy), math.inf),
        ):
            gaps = [gap(run.best_after(evaluations), self.optima[name]) for run in runs]
            seeds = f" ({len(gaps)})" if len(gaps) < self.most_seeds else ""
            texts += [f"{_short(Quartiles.of(gaps).median)}{seeds}"] if gaps else []
        return ", ".join(texts) if texts else "not run"


def _short(gap: float) -> str:
    return gap_text(gap).replace(" ", "")


def _table(what: str, names: Sequence[str], strategies: Sequence[str], cell: Cell) -> Iterator[str]:
    yield f"| {what} | {' | '.join(names)} |"
    yield "|---" * (len(names) + 1) + "|"
    for strategy in strategies:
        yield f"| `{strategy}` | {' | '.join(cell(name, strategy) for name in names)} |"
    yield ""


def _published(experiment: Experiment, names: Sequence[str], runs: dict[tuple[str, str], list[Run]]) -> Iterator[str]:
    """The problems of Mind Mappings: everything over the minimum of the paper, which nothing reaches."""
    heads = ("optimum", "published: Mind Mappings, annealing", "`annealing` here")
    yield f"| over the unreachable minimum | {' | '.join(heads)} |"
    yield "|---|---|---|---|"
    for name in (name for name in names if name in PUBLISHED):
        minimum, found = unreachable_minimum(experiment.questions[name].spec), experiment.optimum(name)
        best = [run.best for run in runs.get((name, "annealing"), [])]
        here = f"{Quartiles.of(best).median / minimum:.2f}" if best else "not run"
        proof = "" if found["proven"] else " (not proven)"
        paper = ", ".join(map(str, PUBLISHED[name]))
        yield f"| {name} | {found['value'] / minimum:.3f}{proof} | {paper} | {here} |"


def _plot(
    names: Sequence[str],
    strategies: Sequence[str],
    runs: dict[tuple[str, str], list[Run]],
    optima: dict[str, float],
    file: Path,
) -> None:
    """A panel for each problem: the median gap by evaluations, quartiles as bands."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "einmap"
    from matplotlib import pyplot

    columns = 3
    rows = -(-(len(names) + 1) // columns)
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(3.3 * columns, 2.7 * rows), sharey=True, layout="constrained"
    )
    for panel, name in zip(axes.flat, names, strict=False):
        for strategy in strategies:
            of_one = runs[name, strategy]
            if not of_one:
                continue
            steps = checkpoints(max(run.evaluations for run in of_one))
            gaps = [Quartiles.of([gap(run.best_after(n), optima[name]) for run in of_one]) for n in steps]
            middle, low, high = (
                [min(max(value, SMALLEST), 1e6) for value in column]
                for column in ([q.median for q in gaps], [q.low for q in gaps], [q.high for q in gaps])
            )
            panel.plot(steps, middle, color=COLOURS[strategy], label=strategy, linewidth=1.4)
            panel.fill_between(steps, low, high, color=COLOURS[strategy], alpha=0.12, linewidth=0)
        panel.set(xscale="log", yscale="log", title=name, ylim=(SMALLEST, 1e4))
        ticks = gap_ticks(1e4)
        panel.set_yticks(ticks, [gap_text(tick) for tick in ticks])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    for panel in axes.flat[len(names) :]:
        panel.axis("off")
    for panel in axes[:, 0]:
        panel.set_ylabel("gap to the optimum")
    for panel in axes.flat[max(len(names) - columns, 0) : len(names)]:
        panel.set_xlabel("evaluations")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    axes.flat[-1].legend(handles, labels, loc="center", frameon=False)
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)
