"""The HTML of specifications and results, from the drawings and tables of the other reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any

from einmap.errors import EinmapError
from einmap.report.costs.cost_report import quality
from einmap.report.drawing.draw import WHAT, What, draw
from einmap.report.drawing.looptree import looptree_svg
from einmap.report.frames.frame import Frame
from einmap.report.frames.kinds import frame_of, frames_of
from einmap.report.notebook.html import block, facts, folded, line, picture, table, whole
from einmap.report.text.formatting import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from einmap.distribute.plans.plan import Plan
    from einmap.mapper.result.result import Found, MapResult
    from einmap.mapping.mapping import Mapping
    from einmap.matmul.result import MatmulPlan
    from einmap.model.cost import Cost
    from einmap.spec.spec import Spec

_TITLES: dict[What, str] = {"mapping": "Mapping", "workload": "Workload", "arch": "Architecture"}
MOST_FRONT = 20
"""Mappings of a front whose trees are drawn."""


def _safe[V](display: Callable[[V], Iterable[str]]) -> Callable[[V], str]:
    """One piece of HTML; a value that is in error says so in words, as files in error do, without a traceback."""

    @wraps(display)
    def displayed(value: V) -> str:
        try:
            return whole(display(value))
        except EinmapError as error:
            return whole([line(type(value).__name__, bold=True), block(f"error: {error}")])

    return displayed


@_safe
def spec_html(spec: Spec) -> Iterator[str]:
    """What a specification holds, each part as a drawing: the mapping, the workload, the architecture."""
    held = [what for what in WHAT if spec.raw.get(what) is not None]
    if not held:
        yield line("a specification without architecture, workload and mapping")
    for what in held:
        yield folded(_TITLES[what], picture(draw(spec, what)), is_open=what == held[0])
    if spec.load_notes:
        yield folded("Notes", block("\n".join(map(str, spec.load_notes))))


@_safe
def mapping_html(mapping: Mapping) -> Iterator[str]:
    """The LoopTree."""
    yield picture(looptree_svg(mapping))


@_safe
def cost_html(cost: Cost) -> Iterator[str]:
    """The totals, and every table of a cost."""
    yield facts(frame_of(cost, "totals"))
    yield from _tables(frame for frame in frames_of(cost) if frame.name != "totals")


@_safe
def map_result_html(result: MapResult) -> Iterator[str]:
    """How good the result is, the front where there are several mappings, and each mapping with its costs."""
    yield line(quality(result), bold=True)
    if len(result.front) > 1:
        yield table(frame_of(result, "front"))
    for number, solution in enumerate(result.front[:MOST_FRONT]):
        title = "Mapping" if len(result.front) == 1 else f"Mapping {number}"
        yield folded(title, _drawn(solution), is_open=len(result.front) == 1)
    if len(result.front) > MOST_FRONT:
        yield line(f"... and {len(result.front) - MOST_FRONT:,} more mappings")
    if len(result.front) == 1:
        yield facts(frame_of(result.cost, "totals"))
    yield folded("Search", facts(frame_of(result, "search")))
    yield from _tables(frame for frame in frames_of(result) if frame.name not in ("front", "search"))


@_safe
def solution_html(solution: Found) -> Iterator[str]:
    """A mapping of a search: its totals, and its LoopTree with costs."""
    yield facts(frame_of(solution.cost, "totals"))
    yield _drawn(solution)


@_safe
def plan_html(plan: Plan) -> Iterator[str]:
    """What each processing element does, step by step, and what they exchange."""
    from einmap.distribute.steps.notation import lines

    yield line(f"mesh {plan.mesh}: {counted(plan.mesh.n_devices, 'PE')}, {plan.dtype}", bold=True)
    yield block(
        "\n".join(f"{'  ' * row.depth}{row.what:<16} {row.einsum}   {row.where}".rstrip() for row in lines(plan))
    )
    yield from _tables(frames_of(plan), first_open=True)


@_safe
def matmul_html(plan: MatmulPlan) -> Iterator[str]:
    """The totals of a plan of one matrix product, and its levels."""
    yield facts(frame_of(plan, "totals"))
    yield from _tables((frame for frame in frames_of(plan) if frame.name != "totals"), first_open=True)


@_safe
def result_html(result: Any) -> Iterator[str]:
    """Any other result: its tables."""
    yield from _tables(frames_of(result), first_open=True)


@_safe
def frame_html(frame: Frame) -> Iterator[str]:
    """A table by itself."""
    yield table(frame)


def _drawn(solution: Found) -> str:
    return picture(looptree_svg(solution.mapping, solution.spec, solution.cost))


def _tables(frames: Iterable[Frame], *, first_open: bool = False) -> Iterator[str]:
    for number, frame in enumerate(frame for frame in frames if frame.rows):
        title = f"{frame.name.capitalize()} ({len(frame.rows):,})"
        yield folded(title, table(frame), is_open=first_open and not number)
