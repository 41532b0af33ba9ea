"""The fixed experiment of the search lab: strategies side by side on 13 problems, judged by the proven optimum.

    python -m benchmarks.search_strategies --journals DIR [--seeds 10] [--evaluations 5000] [--fewer bayesian=1000]
    python -m benchmarks.search_strategies --journals DIR --report docs/search-lab.md --images docs/images

The first makes the runs, one after the other in this process: the first seed of everything, then the second, and so
on, so that a stop leaves as many seeds of everything. Each run is kept in a journal as soon as it is finished; the same
command goes on. The second makes no runs: it writes tables of what the journals hold between the marks of a page, and
plots.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from copy import copy
from pathlib import Path
from typing import Any

from benchmarks.search_problems import CONVOLUTIONS, MTTKRP, SHIPPED, question
from benchmarks.search_tables import write_report

from einmap.search.experiment import Question, Run
from einmap.search.journal import Journal, open_journal
from einmap.search.problem import SearchProblem
from einmap.search.run import search
from einmap.search.strategy import Budget

FEWER = "evolutionary=1000,bayesian=1000,tree=1000"
"""Strategies with fewer evaluations: samplers of Optuna take longer with each, a beam predicts 200 mappings for one."""
STRATEGIES = "exhaustive,random,random-pruned,annealing,mcmc,evolutionary,bayesian,learned,tree"


class Experiment:
    """Problems, and the journals of their runs in a folder."""

    def __init__(self, folder: Path, names: list[str], evaluations: int, fewer: dict[str, int]) -> None:
        self.folder, self.evaluations, self.fewer = folder, evaluations, fewer
        folder.mkdir(parents=True, exist_ok=True)
        self.questions = {name: question(name) for name in names}
        self.problems: dict[str, SearchProblem] = {}

    def problem(self, name: str) -> SearchProblem:
        """A problem, which keeps what it has recorded of its formulas."""
        if name not in self.problems:
            self.problems[name] = self.questions[name].problem()
        return self.problems[name]

    def budget(self, strategy: str) -> int:
        """Evaluations of a run."""
        return self.fewer.get(strategy, self.evaluations)

    def journal(self, name: str, strategy: str) -> Journal:
        """The runs of a strategy on a problem so far."""
        asks, n = self.questions[name], self.budget(strategy)
        return open_journal(self.path(name, strategy), {**_plain(asks), "evaluations": n})

    def path(self, name: str, strategy: str) -> Path:
        """The file of a journal."""
        asks = self.questions[name]
        return self.folder / f"{asks.spec.content_hash}-{asks.einsum}-{strategy}-{self.budget(strategy)}.journal"

    def runs(self, name: str, strategy: str) -> list[Run]:
        """Finished runs by seed, each seed once."""
        found = {run.seed: run for run in self.journal(name, strategy).runs if run.strategy == strategy}
        return [found[seed] for seed in sorted(found)]

    def whole_runs(self, name: str, strategy: str) -> list[Run]:
        """Finished runs with all evaluations, also of a strategy of which most seeds have fewer."""
        whole = copy(self)
        whole.fewer = {**self.fewer, strategy: self.evaluations}
        return whole.runs(name, strategy) if whole.path(name, strategy).exists() else []

    def run(self, name: str, strategy: str, seed: int) -> None:
        """Make a run unless it is in the journal."""
        journal = self.journal(name, strategy)
        if any((run.strategy, run.seed) == (strategy, seed) for run in journal.runs):
            return
        begin = time.process_time()
        result = search(self.problem(name), strategy, Budget(self.budget(strategy)), seed=seed)
        run = Run.of(strategy, seed, result)
        journal.append(run)
        print(f"{name}, {strategy}, seed {seed}: {run.best:.5g} J*s, {time.process_time() - begin:.1f} s", flush=True)

    def optimum(self, name: str) -> dict[str, Any]:
        """`value` (J*s), whether it is `proven`, `seconds` of the search, and the `size` of the mapspace; kept."""
        path = self.folder / "optima.json"
        kept = json.loads(path.read_text()) if path.exists() else {}
        key = f"{self.questions[name].spec.content_hash}-{self.questions[name].einsum}"
        if not kept.get(key, {}).get("proven"):
            found = self.problem(name).optimum()
            size = self.problem(name).space.size
            kept[key] = {"value": found.value, "proven": found.proven, "seconds": found.seconds, "size": size}
            path.with_suffix(".new").write_text(json.dumps(kept, indent=1))
            path.with_suffix(".new").replace(path)
            print(f"{name}: optimum {found.value:.5g} J*s, proven: {found.proven}, {found.seconds:.1f} s", flush=True)
        optimum: dict[str, Any] = kept[key]
        return optimum


def _plain(asks: Question) -> dict[str, Any]:
    return {
        "specification": asks.spec.content_hash,
        "einsum": asks.einsum,
        "objective": asks.objective,
        "semantics": asks.semantics,
    }


def main() -> None:
    """Make the runs, or the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--journals", type=Path, required=True)
    parser.add_argument("--problems", default=",".join([*SHIPPED, *CONVOLUTIONS, *MTTKRP]))
    parser.add_argument("--strategies", default=STRATEGIES)
    parser.add_argument("--evaluations", type=int, default=5000)
    parser.add_argument("--fewer", default=FEWER, help="evaluations of strategies that get others")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--report", type=Path, default=None)
    parser.add_argument("--images", type=Path, default=None)
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    names, strategies = asked.problems.split(","), asked.strategies.split(",")
    fewer = {name: int(n) for name, _, n in (part.partition("=") for part in asked.fewer.split(","))}
    experiment = Experiment(asked.journals, names, asked.evaluations, fewer)
    if asked.report is not None:
        write_report(experiment, names, strategies, asked.report, asked.images)
        return
    for seed in range(asked.seeds):
        for name in names:
            for strategy in strategies:
                experiment.run(name, strategy, seed)
    for name in names:
        experiment.optimum(name)


if __name__ == "__main__":
    main()
