"""What a report was made from: the specification as it was merged, and where the costs of components come from."""

from __future__ import annotations

from collections.abc import Sequence

from einmap.frontends.yaml.spec import dump
from einmap.report.html.parts import Code, Folded, Part, Section
from einmap.report.text.formatting import NONE, quantity
from einmap.report.text.layout import Table
from einmap.spec.cost_sources import CostSource, cost_sources_of_all
from einmap.spec.spec import Spec

_LEAD = "The files of the specification merged into one; saved as a file it is loaded again as the same specification."


def inputs_section(spec: Spec, *more: Part) -> Section:
    """The specification, and the sources of costs; then `more`."""
    sources = cost_sources_of_all(spec)
    parts: list[Part] = [Folded("specification", (Code(dump(spec)),))]
    if sources:
        parts.append(Folded("where costs come from", (_sources(sources),)))
    return Section("inputs", "Inputs", (*parts, *more), _LEAD)


def _sources(sources: Sequence[CostSource]) -> Table:
    several = any(row.einsums for row in sources)
    head = ("component", "action", "quantity", "value", "source", "what was done", "for Einsums")
    rows = [
        (
            row.component, row.action or NONE, row.quantity.replace("_", " "), quantity(row.value, row.quantity),
            row.source, "; ".join(row.steps) or NONE, ", ".join(row.einsums) or "all",
        )
        for row in sources
    ]  # fmt: skip
    caption = "One instance of each component, one action; what was done to the number of the source gives the value."
    last = 7 if several else 6
    return Table(head[:last], [row[:last] for row in rows], left=(0, 1, 2, 4, 5, 6), caption=caption)
