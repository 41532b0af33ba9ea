"""Fusion of a mapping, and its saving."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from einmap.mapper.fusion_saving import Saving
from einmap.model.fusion import FusedLoop, Fusion
from einmap.report.text.formatting import changed, quantity, shape_text, title
from einmap.report.text.layout import Table, section, stacked
from einmap.units import format_bits, format_count
from einmap.visible import listed

MOST_IN_NEST = 20
"""Einsums of one nest that are named."""


def fusion_section(fusion: Fusion, saving: Saving | None = None) -> RenderableType:
    """Where intermediate tensors are kept, and the Einsums that run in one nest; then what was saved."""
    if not fusion.fused:
        return section("Fusion", Text(f"  none: {nothing_fused(fusion)}"))
    nests = [Text(f"  in one nest: {listed(nest, most=MOST_IN_NEST)}") for nest in fusion.nests]
    kept = section("Fusion: where intermediate tensors are kept", kept_table(fusion), *nests)
    return stacked([kept, section(saving_title(saving), saving_table(saving)) if saving is not None else None])


def nothing_fused(fusion: Fusion) -> str:
    """`every intermediate tensor goes through DRAM`."""
    memories = dict.fromkeys(kept.memory for kept in fusion.tensors)
    return f"every intermediate tensor goes through {' and '.join(memories)}"


def kept_table(fusion: Fusion) -> Table:
    """Memory, tile, its size, users, and the loops above each intermediate; those that are not fused are pale."""
    texts = []
    for kept in fusion.tensors:
        loops = ", ".join(_loop(loop) for loop in kept.loops) or ("none: whole" if kept.fused else "")
        size = shape_text(kept.shape), format_bits(kept.bits)
        texts.append((kept.tensor, kept.memory, *size, ", ".join(kept.einsums), loops))
    head = ("", "kept in", "tile", "bits", "used by", "below the loops")
    pale = [number for number, kept in enumerate(fusion.tensors) if not kept.fused]
    return Table(head, texts, left=(0, 1, 2, 4, 5), tones=dict.fromkeys(pale, "dim"))


def saving_title(saving: Saving) -> str:
    """Title of a saving: whether the mapping that fuses nothing is proven best."""
    doubt = "" if saving.unfused.optimal else " (not proven optimal)"
    return f"Against the best mapping that fuses nothing{doubt}"


def saving_table(saving: Saving) -> Table:
    """For each quantity the best, the best unfused, and the difference."""
    texts = []
    for row in saving.rows:
        name, *memories = row.name
        label = f"{' + '.join(memories)} traffic" if memories else title(name)
        texts.append((label, quantity(row.after, name), quantity(row.before, name), changed(row.ratio)))
    return Table(("", "best", "unfused", ""), texts)


def _loop(loop: FusedLoop) -> str:
    where = f" on {loop.lanes[0]}.{loop.lanes[1]}" if loop.lanes else ""
    return f"{loop.name} by {loop.tile_shape} ({format_count(loop.iterations)} x){where}"
