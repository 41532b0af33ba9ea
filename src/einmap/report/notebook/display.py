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
from einmap.report.frames.shown import facts, shown
from einmap.report.html.page import fragment
from einmap.report.html.parts import Code, Drawing, Folded, Paragraph, Part

if TYPE_CHECKING:
    from collections.abc import Callable

    from einmap.distribute.plans.plan import Plan
    from einmap.mapper.result.result import Found, MapResult
    from einmap.mapping.mapping import Mapping
    from einmap.spec.spec import Spec

_TITLES: dict[What, str] = {"mapping": "Mapping", "workload": "Workload", "arch": "Architecture"}
MOST_FRONT = 20
"""Mappings of a front whose trees are drawn."""
MOST_ROWS = 100
"""Rows of a table that are shown; all of them are in `to_frame`."""


def _safe[V](display: Callable[[V], Iterable[Part]]) -> Callable[[V], str]:
    """One piece of HTML; a value that is in error says so in words, as files in error do, without a traceback."""

    @wraps(display)
    def displayed(value: V) -> str:
        try:
            return fragment(display(value))
        except EinmapError as error:
            return fragment([Paragraph(type(value).__name__, "strong"), Code(f"error: {error}")])

    return displayed


@_safe
def spec_html(spec: Spec) -> Iterator[Part]:
    """Parts of a specification as drawings: the mapping, the workload, the architecture."""
    held = [what for what in WHAT if spec.raw.get(what) is not None]
    if not held:
        yield Paragraph("a specification without architecture, workload and mapping")
    for what in held:
        yield Folded(_TITLES[what], (_picture(draw(spec, what)),), is_open=what == held[0])
    if spec.load_notes:
        yield Folded("Notes", (Code("\n".join(map(str, spec.load_notes))),))


@_safe
def mapping_html(mapping: Mapping) -> Iterator[Part]:
    """The LoopTree."""
    yield _picture(looptree_svg(mapping))


@_safe
def map_result_html(result: MapResult) -> Iterator[Part]:
    """How good the result is, the front where there are several mappings, and each mapping with its costs."""
    yield Paragraph(quality(result), "strong")
    is_one = len(result.front) == 1
    yield facts(frame_of(result.cost, "totals")) if is_one else shown(frame_of(result, "front"), MOST_ROWS)
    for number, solution in enumerate(result.front[:MOST_FRONT]):
        yield Folded("Mapping" if is_one else f"Mapping {number}", (_drawn(solution),), is_open=is_one)
    if len(result.front) > MOST_FRONT:
        yield Paragraph(f"... and {len(result.front) - MOST_FRONT:,} more mappings")
    yield from _tables(frame for frame in frames_of(result) if frame.name != "front")


@_safe
def solution_html(solution: Found) -> Iterator[Part]:
    """A mapping of a search: its totals, and its LoopTree with costs."""
    yield from (facts(frame_of(solution.cost, "totals")), _drawn(solution))


@_safe
def plan_html(plan: Plan) -> Iterator[Part]:
    """Steps of each processing element, and their exchanges."""
    from einmap.report.mesh.distribution import einsums_table, mesh_text

    yield Paragraph(f"{mesh_text(plan.mesh)}, {plan.dtype}", "strong")
    yield einsums_table(plan)
    yield from _tables(frames_of(plan))


@_safe
def result_html(result: Any) -> Iterator[Part]:
    """Any other result: its totals, and its tables."""
    return _tables(frames_of(result))


@_safe
def frame_html(frame: Frame) -> Iterator[Part]:
    """A table by itself."""
    yield shown(frame, MOST_ROWS)


def _picture(svg: str) -> Drawing:
    return Drawing("", "", lambda _: svg)


def _drawn(solution: Found) -> Drawing:
    return _picture(looptree_svg(solution.mapping, solution.spec, solution.cost))


def _tables(frames: Iterable[Frame]) -> Iterator[Part]:
    """A single row as names and values, then tables folded, the first of them open."""
    frames = [frame for frame in frames if frame.rows]
    totals = [frame for frame in frames if frame.name in ("totals", "search") and len(frame.rows) == 1]
    yield from map(facts, totals)
    for number, frame in enumerate(frame for frame in frames if frame not in totals):
        title = f"{frame.name.capitalize()} ({len(frame.rows):,})"
        yield Folded(title, (shown(frame, MOST_ROWS),), is_open=not number)
