"""How `einmap explain` begins: what limits the latency, where the energy goes, what moves most, what would help.

At most some forty lines for any mapping; the sections of `explanation` hold the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from einmap.model.explanation.values import Bottleneck, Change, Derivation, Explanation, Fullest, Piece
from einmap.report.costs.pipelines import pipelines_section
from einmap.report.explanations.explanation import (
    LEAST_CHANGE,
    NO_CHANGE,
    changes_part,
    energy_section,
    head_line,
    number,
    purpose,
)
from einmap.report.explanations.savings import savings_section
from einmap.report.text.formatting import NONE, percent
from einmap.report.text.layout import Table, indented, more, section, stacked
from einmap.units import format_bits, format_si

MOST_EINSUMS = 4
MOST_ENERGY = 4
MOST_MEMORIES = 4
MOST_CHANGES = 3
MOST_SAVINGS = 6
"""Rows of each section; what is left out is said."""
MORE = "Everything: --all. What is about some of it: --einsum, --tensor, --component NAME. As data: --json, --csv FILE."


def explanation_summary(explanation: Explanation, width: int = 80) -> RenderableType:
    """Summary of an explanation, in some forty lines."""
    return stacked(
        [
            head_line(explanation), _latency(explanation.bottlenecks, explanation.cost.latency),
            pipelines_section(explanation.cost), energy_section(explanation.energy, MOST_ENERGY), _traffic(explanation),
            savings_section(explanation.savings, MOST_SAVINGS), _changes(explanation.changes, width),
            Text(MORE, style="dim"),
        ]
    )  # fmt: skip


def _latency(rows: Sequence[Bottleneck], whole: float) -> RenderableType | None:
    """The Einsums that take longest, and what sets their time."""
    slowest = sorted((row for row in rows if row.latency), key=lambda row: -row.latency)
    if not slowest:
        return None
    texts = [
        (row.einsum, format_si(row.latency, "s"), percent(row.latency / whole) if whole else NONE, _limited(row))
        for row in slowest[:MOST_EINSUMS]
    ]
    table = Table(("", "", "", ""), texts, left=(0, 3), whole=(1, 2))
    rest = slowest[MOST_EINSUMS:]
    what = f" Einsum{'' if len(rest) == 1 else 's'}, {format_si(sum(row.latency for row in rest), 's')}"
    return section("What limits the latency", table, *more(len(rest), what))


def _limited(row: Bottleneck) -> str:
    """`limited by MAC, 2.7 x ahead of GlobalBuffer`."""
    if row.latency > row.busy[0][1]:
        return f"limited by {' and '.join(row.limited_by)}"
    text = f"limited by {row.busy[0][0]}"
    if row.margin is None:
        return text
    ahead = " and" if row.margin == 1 else f", {row.margin:,.2g} x ahead of"
    return f"{text}{ahead} {row.busy[1][0]}"


def _traffic(explanation: Explanation) -> RenderableType | None:
    """For each memory how much moves, the tensor that moves most and why; the fullest moment."""
    by_memory: dict[str, list[Derivation]] = {}
    for row in explanation.derivations:
        if row.bits is not None:
            by_memory.setdefault(row.component, []).append(row)
    # those first whose traffic costs most energy
    costs = {name: (sum(row.energy for row in rows), sum(map(_moved, rows))) for name, rows in by_memory.items()}
    memories = sorted(by_memory, key=lambda name: costs[name], reverse=True)
    if not memories:
        return None
    fullest = {row.memory: row for row in explanation.fullest}
    parts: list[RenderableType] = []
    for name in memories[:MOST_MEMORIES]:
        head, reason = _memory_lines(name, by_memory[name], fullest.get(name), explanation)
        parts += [indented(head, style="cyan"), indented(reason, 4)]
    return section("What moves most in each memory, and why", *parts, *more(len(memories) - MOST_MEMORIES))


def _memory_lines(
    name: str, rows: Sequence[Derivation], fullest: Fullest | None, explanation: Explanation
) -> tuple[str, str]:
    """`GlobalBuffer: 1.3 MiB, 9 KiB of 64 KiB full`, and `reads of T0 by T1, 17%: 4,096 values down to MAC, ...`."""
    whole = sum(map(_moved, rows))
    most = max(rows, key=_moved)
    held = ""
    if fullest is not None and fullest.capacity != float("inf"):
        held = f"; {format_bits(fullest.bits)} of {format_bits(fullest.capacity)} in use at most"
    piece = max(most.pieces, key=lambda piece: piece.values)
    several = f" by {most.einsum}" if len(explanation.order) > 1 else ""
    share = percent(_moved(most) / whole) if whole else NONE
    what = f"{most.action} {most.tensor}{several} {share}: {_reason(piece, most, explanation)}"
    return f"{name}: {format_bits(whole)} moved{held}", what


def _moved(row: Derivation) -> float:
    """Bits, all instances."""
    return row.values * (row.bits or 0.0) * row.instances


def _reason(piece: Piece, row: Derivation, explanation: Explanation) -> str:
    """`4,096 values down to GlobalBuffer, each chunk fetched 4 x`."""
    if piece.way == "copy":
        return f"{piece.values:,} values copied, each once"
    text = f"{piece.values:,} values {purpose(piece, row)}"
    wanted = row.einsum, row.tensor, piece.child_address
    node = next((case for case in explanation.cases if (case.einsum, case.tensor, case.address) == wanted), None)
    if node is not None and node.fetches > 1:
        loops = ", ".join(f"{use.variable} {use.iterations:,}" for use in node.above if use.kind == "irrelevant")
        since = f" since {loops} {'stand' if ',' in loops else 'stands'} above" if loops else ""
        return f"{text}, each chunk {node.fetches:,} x{since}"
    if piece.child_address == () and piece.multicast != 1:
        return f"{text}, one for {number(piece.multicast)} lanes"
    return text if piece.child_address else f"{text}, one at a time"


def _changes(changes: Sequence[Change], width: int) -> RenderableType | None:
    """The changes that help most."""
    helpful = [c for c in changes if min(c.energy_change, c.latency_change) <= -LEAST_CHANGE]
    shown = changes_part(helpful[:MOST_CHANGES], width) if helpful else Text(f"  {NO_CHANGE}")
    return section("What one change would help most", shown, *more(len(helpful) - MOST_CHANGES))
