"""Report of zeros: what is done, gated and skipped of each action, and what tiles take in their formats."""

from __future__ import annotations

from rich.console import RenderableType

from einmap.model.cost import Cost
from einmap.report.text.formatting import NONE, percent
from einmap.report.text.layout import Table, laid_out, section
from einmap.units import format_bits, format_count

_WAYS = ("", "gated_", "skipped_", "metadata_")


def zeros_table(cost: Cost) -> Table | None:
    """Actions by component and tensor: done, gated, skipped, of metadata; None where nothing is told of zeros."""
    counts: dict[tuple[str, str, str], dict[str, float]] = {}
    for row in cost.actions:
        way = next((way for way in _WAYS[1:] if row.action.startswith(way)), "")
        if row.count is not None:
            ways = counts.setdefault((row.component, row.tensor or NONE, row.action.removeprefix(way)), {})
            ways[way] = ways.get(way, 0.0) + row.count
    if not any(way for ways in counts.values() for way in ways):
        return None
    texts = []
    for key, ways in counts.items():
        whole = sum(ways.get(way, 0.0) for way in _WAYS[:3])
        numbers = [format_count(ways[way]) if ways.get(way) else NONE for way in _WAYS]
        texts.append((*key, *numbers, percent(ways.get("", 0.0) / whole) if whole else NONE))
    columns = ("component", "tensor", "action", "done", "gated", "skipped", "metadata", "part done")
    return Table(columns, texts, left=(0, 1, 2))


def zeros_section(cost: Cost) -> RenderableType | None:
    """Expected actions, and room of tiles; None where all tensors are dense."""
    table = zeros_table(cost)
    if table is None and not cost.tiles:
        return None
    tiles = [
        (row.component, row.tensor, *(format_bits(bits) for bits in (row.dense, row.expected, row.worst)))
        for row in cost.tiles
    ]
    room = Table(("component", "tensor", "dense tile", "on average", "at most"), tiles, left=(0, 1))
    parts = [laid_out(part) for part in (table, room if tiles else None) if part is not None]
    return section("Zeros: what is done of all actions, and room in formats", *parts)
