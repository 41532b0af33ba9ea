"""The files that `einmap plan` writes beside its report: the plan, pictures, a trace, a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from einmap.cli.html_report import ReportFiles, names_of
from einmap.cli.inputs import OUTPUT
from einmap.cli.output import print_hint
from einmap.cli.target import Target
from einmap.distribute.planner.document import distribution_text
from einmap.distribute.planner.planner import Planned
from einmap.errors import SpecError
from einmap.report.mesh.pictures.holders import holders_svg
from einmap.report.mesh.pictures.lanes import lanes_svg
from einmap.report.mesh.planned import steps_of
from einmap.report.mesh.trace import plan_trace
from einmap.spec.spec import Spec

Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write the plan there, for `einmap run`.", rich_help_panel=OUTPUT
    ),
]
Svg = Annotated[
    Path | None,
    typer.Option(
        "--svg",
        metavar="FILE.svg",
        help="Draw who holds what, and what moves when.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
TimelineSvg = Annotated[
    Path | None,
    typer.Option(
        "--timeline",
        metavar="FILE.svg",
        help="Draw when each step runs, Einsums and moves along each axis.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE.json",
        help="Write that as a trace for ui.perfetto.dev and chrome://tracing.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]


@dataclass(frozen=True, slots=True)
class PlanFiles:
    """Where the files are wanted; None: nowhere."""

    plan: Target | None
    svg: Target | None
    timeline: Target | None
    trace: Target | None

    @staticmethod
    def of(paths: Sequence[Path | None], force: bool, inputs: Sequence[str]) -> PlanFiles:
        """Plan, pictures and trace, checked before anything is read. Raises SpecError for what is in the way."""
        seen: set[Path] = set()
        for path in paths:
            if path is not None and path.absolute() in seen:
                raise SpecError(f"two outputs name the same file {str(path)!r}", hint="give each a name of its own")
            seen |= {path.absolute()} if path is not None else set()
        plan, svg, timeline, trace = (Target.of(path, force, inputs) for path in paths)
        return PlanFiles(plan, svg, timeline, trace)

    @property
    def targets(self) -> tuple[Target | None, ...]:
        """Where all files are wanted."""
        return self.plan, self.svg, self.timeline, self.trace

    def write(self, planned: Planned) -> None:
        """Write what is wanted. Raises SpecError for what is in the way."""
        mesh, bits = planned.best.plan.mesh, planned.best.bits
        if self.plan is not None:
            _written(self.plan, distribution_text(planned.best))
        if self.svg is None and self.timeline is None and self.trace is None:
            return
        steps = steps_of(planned)
        if self.svg is not None:
            _written(self.svg, holders_svg(mesh, steps, bits))
        if self.timeline is not None:
            _written(self.timeline, lanes_svg(mesh, steps))
        if self.trace is not None:
            self.trace.write_pieces(plan_trace(planned.best.plan, steps, bits))
            print_hint(f"wrote {self.trace.path}")


def _written(target: Target, content: str | bytes) -> None:
    target.write(content)
    print_hint(f"wrote {target.path}")


def write_page(report: ReportFiles, planned: Planned, spec: Spec, files: Sequence[str]) -> None:
    """The page and its figures, where they are wanted."""
    from einmap.report.html.pages.plan_page import plan_page

    report.write(lambda: plan_page(planned, spec, names_of(files)))
