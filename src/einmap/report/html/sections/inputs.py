"""Inputs of a report: the specification as it was merged, and where the costs of components come from."""

from __future__ import annotations

from dataclasses import replace

from einmap.frontends.yaml.spec import dump
from einmap.report.frames.kinds import frame_of
from einmap.report.frames.shown import shown
from einmap.report.html.parts import Code, Folded, Part, Section
from einmap.spec.cost_sources import cost_sources_of_all
from einmap.spec.spec import Spec

_LEAD = "The files of the specification merged into one; saved as a file it is loaded again as the same specification."

_CAPTION = "One instance of each component, one action; what was done to the number of the source gives the value."
_COLUMNS = {
    "component": "component", "action": "action", "quantity": "quantity", "value": "value", "source": "source",
    "scaling": "done by the model", "before": "before factors", "factors": "factors", "einsums": "for Einsums only",
}  # fmt: skip


def inputs_section(spec: Spec, *more: Part) -> Section:
    """The specification, and the sources of costs; then `more`."""
    sources = cost_sources_of_all(spec)
    parts: list[Part] = [Folded("specification", (Code(dump(spec)),))]
    if sources:
        table = replace(shown(frame_of(sources), None, _COLUMNS), caption=_CAPTION)
        parts.append(Folded("where costs come from", (table,)))
    return Section("inputs", "Inputs", (*parts, *more), _LEAD)
