"""Output of `einmap search`: a report, or one JSON document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from einmap.cli.writing.results import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from einmap.cli.commands.lab.remeasuring import Executed
    from einmap.search.experiment import Run
    from einmap.search.problem import Optimum, SearchProblem
    from einmap.search.summary import StrategySummary


@dataclass(frozen=True)
class SearchReport:
    """Everything that is shown: a problem, its optimum, runs, what they come to, and what was executed."""

    problem: SearchProblem
    optimum: Optimum
    evaluations: int
    runs: Sequence[Run]
    summaries: Sequence[StrategySummary]
    executed: Executed | None

    def report(self) -> RenderableType:
        """The report for the terminal."""
        from einmap.report.search.strategies import executed_report, search_report

        report = search_report(self.problem, self.optimum, self.summaries, self.evaluations)
        if self.executed is None:
            return report
        executed = self.executed
        return Group(report, executed_report(self.problem, executed.by, executed.reference, executed.strategies))

    def document(self) -> dict[str, Any]:
        """The JSON document."""
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "einsum": self.problem.name,
            "objective": self.problem.objective,
            "mapspace_size": self.problem.space.size,
            "mapspace_size_is_exact": self.problem.space.size_is_exact,
            "optimum": self.optimum.value,
            "optimum_is_proven": self.optimum.proven,
            "optimum_seconds": self.optimum.seconds,
            "strategies": [summary.to_dict() for summary in self.summaries],
            "runs": [run.to_dict() for run in self.runs],
        }
        return document if self.executed is None else document | {"executed": self.executed.to_dict()}

    def rows(self) -> Any:
        """Rows of executed mappings for the HTML report; None without any."""
        from einmap.report.search.strategies import executed_rows

        if self.executed is None:
            return None
        executed = self.executed
        return executed_rows(self.problem, executed.by, executed.reference, executed.strategies)
