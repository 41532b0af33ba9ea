"""Fusion of a mapping, and its saving."""

from __future__ import annotations

from dataclasses import replace

from einmap.mapper.fusion_saving import Saving
from einmap.mapping.mapping import Mapping
from einmap.model.fusion import fusion_of
from einmap.report.costs.fusion import kept_table, nothing_fused, saving_table, saving_title
from einmap.report.html.parts import Folded, Paragraph, Part, Section
from einmap.spec.spec import Spec

_MOST = 40


def fusion_section(mapping: Mapping, spec: Spec, saving: Saving | None = None) -> Section | None:
    """The section, or None where the workload has no intermediate tensor."""
    if not spec.workload.intermediates:
        return None
    fusion = fusion_of(mapping, spec)
    if not fusion.fused:
        return Section("fusion", "Fusion", (Paragraph(f"Nothing is fused: {nothing_fused(fusion)}."),))
    table, count = kept_table(fusion), len(fusion.tensors)
    parts: list[Part] = [table if count <= _MOST else Folded(f"{count:,} intermediate tensors", (table,))]
    parts += [Paragraph(f"In one nest: {', '.join(nest)}.") for nest in fusion.nests[:_MOST]]
    if len(fusion.nests) > _MOST:
        parts.append(Paragraph(f"... and {len(fusion.nests) - _MOST:,} more nests."))
    if saving is not None:
        parts.append(replace(saving_table(saving), caption=saving_title(saving)))
    lead = "Where intermediate tensors are kept, and which Einsums run together."
    return Section("fusion", "Fusion", tuple(parts), lead)
