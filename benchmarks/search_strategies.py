"""Search strategies side by side, for docs/search-lab.md: median gaps with intervals, evaluations to 10, 1 and 0 %.

    python -m benchmarks.search_strategies --evaluations 5000 --seeds 10 --journals DIR

Journals make it go on after a stop. `--problems` and `--strategies` name some of them, joined by commas; `bayesian`
has --bayesian evaluations, since it slows down with each.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.search_problems import CONVOLUTIONS, MTTKRP, PUBLISHED, SHIPPED, question, unreachable_minimum

from einmap.report.search.strategies import gap_text
from einmap.search.experiment import Question, Run, runs_of
from einmap.search.journal import open_journal
from einmap.search.strategy import Budget
from einmap.search.summary import StrategySummary, summarised

STRATEGIES = "optimal,random,random-pruned,mcmc,annealing,evolutionary,bayesian,learned,tree"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default=",".join([*SHIPPED, *CONVOLUTIONS, *MTTKRP]))
    parser.add_argument("--strategies", default=STRATEGIES)
    parser.add_argument("--evaluations", type=int, default=5000)
    parser.add_argument("--bayesian", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--journals", type=Path, required=True)
    asked = parser.parse_args()
    asked.journals.mkdir(exist_ok=True)
    for name in asked.problems.split(","):
        asks = question(name)
        problem = asks.problem()
        optimum = problem.optimum()
        print(f"\n**{name}**: {problem.space.size:.3g} mappings, optimum {optimum.value:.4g} J*s", end="")
        print(f" in {optimum.seconds * 1000:.0f} ms, proven: {optimum.proven}", end="")
        if name in PUBLISHED:
            minimum = unreachable_minimum(asks.spec)
            print(f"; {optimum.value / minimum:.4f} x the minimum (published after 5,000 steps:", end="")
            print(f" Mind Mappings {PUBLISHED[name][0]}, annealing {PUBLISHED[name][1]})", end="")
        print("\n\n| strategy | evaluations | gap, median [95 %] | quartiles | valid | to 10 % | to 1 % | to 0 % | s |")
        print("|---|---|---|---|---|---|---|---|---|")
        for strategy in asked.strategies.split(","):
            n = asked.bayesian if strategy == "bayesian" else asked.evaluations
            runs = _runs(asks, strategy, n, asked)
            (summary,) = summarised(runs, optimum.value, n)
            print(_row(summary, n), flush=True)


def _runs(asks: Question, strategy: str, n: int, asked: argparse.Namespace) -> list[Run]:
    experiment = {
        "specification": asks.spec.content_hash,
        "einsum": asks.einsum,
        "objective": asks.objective,
        "semantics": asks.semantics,
        "evaluations": n,
    }
    path = asked.journals / f"{asks.spec.content_hash}-{asks.einsum}-{strategy}-{n}.journal"
    journal = open_journal(path, experiment)
    known = {(run.strategy, run.seed): run for run in journal.runs}
    tasks = [(strategy, seed) for seed in range(1 if strategy == "optimal" else asked.seeds)]
    for run in runs_of(asks, [t for t in tasks if t not in known], Budget(n), workers=asked.workers):
        known[run.strategy, run.seed] = run
        journal.append(run)
    return [known[task] for task in tasks]


def _row(summary: StrategySummary, n: int) -> str:
    low, high = summary.interval
    final = f"{gap_text(summary.final.median)} [{gap_text(low)}, {gap_text(high)}]"
    quartiles = f"{gap_text(summary.final.low)}, {gap_text(summary.final.high)}"
    soon = [
        f"{r.evaluations.median:.0f}" if r.evaluations.median < float("inf") else f"- ({r.seeds} of {summary.seeds})"
        for r in summary.reached
    ]
    cells = (summary.strategy, str(n), final, quartiles, f"{100 * summary.valid:.0f} %", *soon)
    return f"| {' | '.join(cells)} | {summary.seconds.median:.1f} |"


if __name__ == "__main__":
    main()
