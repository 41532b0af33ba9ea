"""What a mapping fuses, and what that saves."""

from __future__ import annotations

from einmap.mapper.fusion_saving import Saving
from einmap.mapping.mapping import Mapping
from einmap.model.fusion import fusion_of
from einmap.report.costs.fusion import kept_texts, saving_texts, saving_title
from einmap.report.html.parts import Folded, Paragraph, Part, Section, Table
from einmap.spec.spec import Spec

_MOST = 40


def fusion_section(mapping: Mapping, spec: Spec, saving: Saving | None = None) -> Section | None:
    """The section, or None where the workload has no intermediate tensor."""
    if not spec.workload.intermediates:
        return None
    fusion = fusion_of(mapping, spec)
    if not fusion.fused:
        memories = " and ".join(dict.fromkeys(kept.memory for kept in fusion.tensors))
        text = f"Nothing is fused: every intermediate tensor goes through {memories}."
        return Section("fusion", "Fusion", (Paragraph(text),))
    head = ("tensor", "kept in", "tile", "size", "used by", "below the loops")
    rows = tuple((kept.tensor, *kept_texts(kept)) for kept in fusion.tensors)
    strong = tuple(number for number, kept in enumerate(fusion.tensors) if kept.fused)
    table = Table(head, rows, left=(1, 2, 4, 5), strong=strong if len(strong) < len(rows) else ())
    nests: list[Part] = [Paragraph(f"In one nest: {', '.join(nest)}.") for nest in fusion.nests[:_MOST]]
    parts: list[Part] = [
        table if len(rows) <= _MOST else Folded(f"{len(rows):,} intermediate tensors", (table,)),
        *nests,
    ]
    if len(fusion.nests) > _MOST:
        parts.append(Paragraph(f"... and {len(fusion.nests) - _MOST:,} more nests."))
    if saving is not None:
        compared = ("", "best", "unfused", "change")
        parts.append(Table(compared, tuple(saving_texts(saving)), caption=saving_title(saving)))
    return Section(
        "fusion", "Fusion", tuple(parts), "Where intermediate tensors are kept, and which Einsums run together."
    )
