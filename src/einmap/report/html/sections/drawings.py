"""Drawings of `report.drawing` as parts of a page: LoopTree, workload, architecture with what is used of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from einmap.einsum.workload import Workload
from einmap.mapping.mapping import Mapping
from einmap.mapping.pretty import pretty
from einmap.model.cost import Cost
from einmap.report.costs import rows as report_rows
from einmap.report.drawing.arch import arch_picture
from einmap.report.drawing.looptree import looptree_svg
from einmap.report.drawing.svg import to_svg
from einmap.report.drawing.theme import Theme
from einmap.report.drawing.workload import workload_picture
from einmap.report.html.parts import Code, Drawing, Folded, Part, Section
from einmap.report.text.formatting import percent
from einmap.report.text.loop_tree import loop_tree_lines
from einmap.spec.spec import Spec
from einmap.units import counted

_LOOPS = "Loops, tiles and where they are held"
_MOST_NAMES = 12
_WIDTH = 110
"""Characters of a line of the loop nest."""


def loop_tree_section(mapping: Mapping, spec: Spec, cost: Cost) -> Section:
    """The mapping as a picture, and as a loop nest in text."""
    return Section("looptree", "LoopTree", loop_tree_parts(mapping, spec, cost))


def loop_tree_parts(mapping: Mapping, spec: Spec, cost: Cost, name: str = "looptree") -> tuple[Part, ...]:
    """The parts of that section; `name` is that of the picture's files."""
    title = short_title("LoopTree", list(mapping.path_of))
    drawing = Drawing(name, _LOOPS, lambda theme: looptree_svg(mapping, spec, cost, title=title, theme=theme))
    return drawing, Folded("as text", (Code("\n".join(loop_tree_lines(mapping, spec, _WIDTH))),))


def short_title(what: str, einsums: Sequence[str]) -> str:
    """`LoopTree of QK, AV`, or `LoopTree of 288 Einsums` where they are many."""
    return f"{what} of {', '.join(einsums) if len(einsums) <= _MOST_NAMES else f'{len(einsums):,} Einsums'}"


def plain_loop_tree(mapping: Mapping) -> tuple[Part, ...]:
    """The picture and the text of a mapping of which no cost is known."""
    drawing = Drawing("looptree", _LOOPS, lambda theme: looptree_svg(mapping, theme=theme))
    return drawing, Folded("as text", (Code(pretty(mapping)),))


def workload_section(workload: Workload) -> Section:
    """The Einsums and what flows between them."""
    values = sum(math.prod(size for _, size in e.bounds) for e in workload.einsums)
    count = f"{counted(len(workload.einsums), 'Einsum')}, {len(workload.users):,} tensors"
    title = short_title("Workload", list(workload.by_name))

    def draw(theme: Theme) -> str:
        return to_svg(workload_picture(workload, title=title, theme=theme))

    lead = f"{count}, {values:,} points of all iteration spaces."
    return Section("workload", "Workload", (Drawing("workload", "Einsums and tensors", draw),), lead)


def architecture_section(spec: Spec, cost: Cost) -> Section:
    """The tree of components; in each its part of energy and time, how full it is, and the lanes in use."""
    notes: dict[str, list[str]] = {}
    said = [(m.component, f"at most {percent(m.usage)} full") for m in report_rows.memory_rows(cost) if m.usage]
    for busy in report_rows.busy_rows(cost):
        said.append((busy.component, f"works {percent(busy.share)} of the time{', limits' if busy.limits else ''}"))
    said += [(e.component, f"{percent(e.share)} of energy") for e in report_rows.energy_rows(cost) if e.total]
    said += [(f"{f.component}.{f.dimension}", f"{percent(f.mean)} in use") for f in report_rows.spatial_rows(cost)]
    for name, text in said:
        notes.setdefault(name, []).append(text)
    # copies use little of an architecture: it is drawn as another Einsum sees it
    einsum = next((e.name for e in spec.workload.einsums if not e.is_copy), None)

    def draw(theme: Theme) -> str:
        return to_svg(arch_picture(spec, einsum=einsum, theme=theme, notes=notes))

    drawing = Drawing("architecture", "Components and what is used of them", draw)
    return Section("architecture", "Architecture", (drawing,))
