"""What a mapping fuses, and what that saves, for a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from einmap.mapper.fusion_saving import Saving
from einmap.model.fusion import FusedLoop, Fusion, KeptTensor
from einmap.report.text.layout import new_table, section_title
from einmap.units import format_bits, format_count, format_si
from einmap.visible import listed

MOST_IN_NEST = 20
"""Einsums of one nest that are named."""
_TOTALS = {"energy": "J", "latency": "s", "edp": "J*s"}


def fusion_section(fusion: Fusion, saving: Saving | None = None) -> RenderableType:
    """Where intermediate tensors are kept, and the Einsums that run in one nest; then what was saved."""
    if not fusion.fused:
        memories = " and ".join(dict.fromkeys(kept.memory for kept in fusion.tensors))
        return Group(section_title("Fusion"), Text(f"  none: every intermediate tensor goes through {memories}"))
    rows = new_table("", "kept in", "tile", "bits", "used by", "below the loops", left=(0, 1, 2, 4, 5))
    for kept in fusion.tensors:
        rows.add_row(kept.tensor, *kept_texts(kept), style="" if kept.fused else "dim")
    parts: list[RenderableType] = [section_title("Fusion: where intermediate tensors are kept"), rows]
    parts += [Text(f"  in one nest: {listed(nest, most=MOST_IN_NEST)}") for nest in fusion.nests]
    if saving is not None:
        parts += [Text(""), *saving_lines(saving)]
    return Group(*parts)


def saving_lines(saving: Saving) -> list[RenderableType]:
    """Best against best unfused, with how far the latter can be trusted."""
    rows = new_table("", "best", "unfused", "", left=(0,))
    for texts in saving_texts(saving):
        rows.add_row(*texts)
    return [section_title(saving_title(saving)), rows]


def saving_title(saving: Saving) -> str:
    """What is compared, and whether the mapping that fuses nothing is proven best."""
    doubt = "" if saving.unfused.optimal else " (not proven optimal)"
    return f"Against the best mapping that fuses nothing{doubt}"


def saving_texts(saving: Saving) -> list[tuple[str, str, str, str]]:
    """For each quantity its name, the best, the best unfused, and the difference."""
    found = []
    for row in saving.rows:
        name, *memories = row.name
        before, after = (_shown(name, value) for value in (row.before, row.after))
        label = f"{' + '.join(memories)} traffic" if memories else name.replace("edp", "EDP")
        found.append((label, after, before, _change(row.ratio)))
    return found


def kept_texts(kept: KeptTensor) -> tuple[str, str, str, str, str]:
    """Memory, tile, its size, users, and the loops above an intermediate."""
    shape = "x".join(map(str, kept.shape)) or "1"
    loops = ", ".join(_loop(loop) for loop in kept.loops) or ("none: whole" if kept.fused else "")
    return kept.memory, shape, format_bits(kept.bits), ", ".join(kept.einsums), loops


def _loop(loop: FusedLoop) -> str:
    where = f" on {loop.lanes[0]}.{loop.lanes[1]}" if loop.lanes else ""
    return f"{loop.name} by {loop.tile_shape} ({format_count(loop.iterations)} x){where}"


def _shown(name: str, value: float) -> str:
    return format_si(value, _TOTALS[name]) if name in _TOTALS else format_bits(value)


def _change(ratio: float | None) -> str:
    """`-33%`; a factor where it is large."""
    if ratio is None:
        return ""
    if 0.9995 < ratio < 1.0005:
        return "equal"
    if ratio <= 0 or 0.02 < ratio <= 2:
        return f"{ratio - 1:+.0%}"
    return f"{ratio:.3g} x as much" if ratio > 1 else f"{1 / ratio:.3g} x less"
