"""The files that `einmap plan` writes beside its report: the plan, pictures, a trace, a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from einmap.cli.options import OUTPUT, group, option, output_option
from einmap.cli.output import print_hint
from einmap.cli.writing.target import Target
from einmap.distribute.planner.document import distribution_text
from einmap.distribute.planner.planner import Planned
from einmap.report.mesh.pictures.holders import holders_svg
from einmap.report.mesh.pictures.lanes import lanes_svg
from einmap.report.mesh.planned import steps_of
from einmap.report.mesh.trace import plan_trace


@group
class Pictures:
    """The files that are wanted beside the report."""

    output: Path | None = output_option("Write the plan there, for `einmap run`.")
    svg: Path | None = option("FILE.svg", "Draw who holds what, and what moves when.", panel=OUTPUT)
    timeline: Path | None = option(
        "FILE.svg", "Draw when each step runs, Einsums and moves along each axis.", panel=OUTPUT
    )
    trace: Path | None = option(
        "FILE.json", "Write that as a trace for ui.perfetto.dev and chrome://tracing.", panel=OUTPUT
    )


@dataclass(frozen=True, slots=True)
class PlanFiles:
    """Where the files are wanted; None: nowhere."""

    plan: Target | None
    svg: Target | None
    timeline: Target | None
    trace: Target | None

    @staticmethod
    def of(pictures: Pictures, force: bool, inputs: Sequence[str]) -> PlanFiles:
        """Plan, pictures and trace, checked before anything is read. Raises SpecError for what is in the way."""
        paths = (pictures.output, pictures.svg, pictures.timeline, pictures.trace)
        plan, svg, timeline, trace = Target.several(paths, force, inputs)
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
