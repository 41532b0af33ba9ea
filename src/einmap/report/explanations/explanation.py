"""The terminal report of `einmap explain`: the four cases, what stays, what counts are made of, what would help."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from einmap.mapping.nodes import format_address
from einmap.model.explanation.values import (
    Change,
    Derivation,
    EnergyShare,
    Explanation,
    Fullest,
    LoopUse,
    NodeCases,
    Piece,
)
from einmap.report.costs.pipelines import pipelines_section
from einmap.report.explanations.savings import savings_section
from einmap.report.frames.frame import Cell
from einmap.report.frames.kinds import frame_of
from einmap.report.frames.shown import shown
from einmap.report.text.formatting import NONE, Scale, exact, percent, shape_text
from einmap.report.text.layout import Table, filled, indented, laid_out, more, section, section_title, stacked
from einmap.units import format_bits, format_si

MOST_CHANGES = 12
"""Changes that are shown; all of them are in the JSON document."""
LEAST_CHANGE = 5e-4
"""Changes of less than this part of energy and latency are not shown."""
MOST_ENERGY = 10
"""Parts of the energy that are shown."""
NOTATION = "n 3: a loop over n of 3 iterations, n 3 lanes: one in space; outermost loop first"
NO_CHANGE = "no single change that was tried saves energy or time"
FIXED = (
    "Each change alone, evaluated anew. All else is held fixed: the other tile shapes and loops, and what a larger "
    "memory, a faster port or a wider fanout would cost unless the specification says so. `einmap rewrite --do` makes "
    "what stands in parentheses."
)

_STATIONARY = {
    "einsum": "Einsum", "loops": "loops of the level", "tensor": "stationary", "tile shape": "tiles",
    "iterations": "stays for iterations",
}  # fmt: skip
_LIVES = {
    "tensor": "", "component": "in", "size [bits]": "bits", "times": "times", "begins": "lives from",
    "ends": "to the end of", "einsums": "while", "persistent": "persistent", "copies": "at one time",
}  # fmt: skip
_ORDINARY: dict[str, Cell] = {"persistent": False, "copies": 1}
"""Columns of lives that say nothing where all cells are these."""
_FANOUTS = {"einsum": "Einsum", "component": "fanout", "dimension": "", "used": "lanes used", "available": "of"}


def explanation_report(explanation: Explanation, width: int = 80) -> RenderableType:
    """Everything about why a mapping costs what it does."""
    several = len(explanation.order) > 1
    held = "Occupancy: the most bits at one time while each Einsum runs"
    stays = "Stationary: what the innermost loops of each level leave in place"
    return stacked(
        [
            head_line(explanation),
            cases_section(explanation.cases, several=several),
            filled(stays, stationary_table(explanation)),
            counts_section(explanation.derivations),
            savings_section(explanation.savings),
            filled("Lives of the buffers", lives_table(explanation)),
            memories_section(explanation.fullest),
            filled(held, occupancy_table(explanation)) if several else None,
            filled("Bottlenecks", bottleneck_table(explanation)),
            pipelines_section(explanation.cost),
            energy_section(explanation.energy, MOST_ENERGY),
            filled("Fanouts", fanouts_table(explanation)),
            changes_section(explanation.changes, width),
        ]
    )


def head_line(explanation: Explanation) -> Text:
    """`energy 1.36 mJ, latency 5.02 ms, counted as exact`."""
    cost = explanation.cost
    return section_title(
        f"energy {format_si(cost.energy, 'J')}, latency {format_si(cost.latency, 's')}, counted as exact"
    )


# the four cases


def cases_section(cases: tuple[NodeCases, ...], *, several: bool) -> RenderableType | None:
    """One small table for each tensor at each storage node."""
    if not cases:
        return None
    parts: list[RenderableType] = [indented(NOTATION, style="dim")]
    for node in cases:
        who = f"{node.einsum}: " if several else ""
        role = ", its outermost holder" if node.backing else ""
        head = f"{who}{node.tensor} in {node.component}{role} ({format_address(node.address)})"
        table = Table(("", "loops above", "loops below"), case_rows(node), left=range(3), whole=(0,))
        parts += [indented(head, style="cyan"), Padding(laid_out(table), (0, 0, 0, 2))]
    return section("Storage nodes: what the loops above and below them do", *parts)


def case_rows(node: NodeCases) -> list[tuple[str, str, str]]:
    """Label, what loops above do, what loops below do; a third row where windows slide over the tensor."""
    partial = [use for use in (*node.above, *node.below) if use.kind == "partial"]
    rows = [
        (f"rank not in {node.tensor}", _fetched(node), _reused(node)),
        (f"rank in {node.tensor}", _chunks(node), _tile(node)),
    ]
    if partial:
        rows.append((f"rank partly in {node.tensor}", _windows(node), _loops(node.below, "partial")))
    return rows


def _fetched(node: NodeCases) -> str:
    loops = _loops(node.above, "irrelevant")
    if node.backing:
        return f"{loops}\nnothing is fetched: the data are here"
    text = f"each chunk fetched {node.fetches:,} x"
    if node.lanes > 1:
        text += f", into {node.lanes:,} lanes at one time"
    if node.reads != node.fetches:
        text += f"; read {node.reads:,} x, multicast serves the other lanes"
    return f"{loops}\n{text}"


def _reused(node: NodeCases) -> str:
    reuse = f"{node.reuse:,.4g}"
    average = "" if float(node.reuse).is_integer() else " on average"
    return f"{_loops(node.below, 'irrelevant')}\neach value used {reuse} x{average} by {node.child}"


def _chunks(node: NodeCases) -> str:
    if node.chunks is None:
        return f"{_loops(node.above, 'relevant')}\n{node.positions:,} chunks, not compared: too many"
    chunks = f"{node.chunks:,} distinct chunk{'' if node.chunks == 1 else 's'}"
    return f"{_loops(node.above, 'relevant')}\n{chunks}"


def _tile(node: NodeCases) -> str:
    ragged = f", ragged: down to {shape_text(node.smallest)}" if node.smallest != node.shape else ""
    tile = f"tile {shape_text(node.shape)} ({', '.join(node.ranks)}), {format_bits(node.bits)}{ragged}"
    return f"{_loops(node.below, 'relevant')}\n{tile}"


def _windows(node: NodeCases) -> str:
    loops = _loops(node.above, "partial")
    if node.overlap is None:
        return f"{loops}\n{node.positions:,} windows, overlap not counted: too many"
    if not node.overlap:
        return f"{loops}\nno overlap"
    of = f"{node.overlap:,} of {node.values:,} values ({percent(node.overlap / node.values)})"
    keeps = "" if node.slides is None or not node.kept else f"; {_keeps(node)}"
    return f"{loops}\noverlap: {of} are in an earlier window too{keeps}"


def _keeps(node: NodeCases) -> str:
    return f"sliding along {node.slides} it keeps {node.kept:,} of {node.held:,} from visit to visit"


def _loops(uses: Iterable[LoopUse], kind: str | None = None) -> str:
    """`n 3, k 4 lanes`: the loops of a kind with their iterations."""
    return ", ".join(_loop(use) for use in uses if kind is None or use.kind == kind) or NONE


def _loop(use: LoopUse) -> str:
    return f"{use.variable} {use.iterations:,}" + (" lanes" if use.dimension else "")


# stationarity


def stationary_table(explanation: Explanation) -> Table:
    """Tensors that stay while the innermost loops of a level run."""
    return shown(frame_of(explanation, "stationary"), None, _STATIONARY)


# counts


def counts_section(derivations: tuple[Derivation, ...]) -> RenderableType | None:
    """Each count, and below it the pieces that add up to it."""
    if not derivations:
        return None
    several = len({d.einsum for d in derivations}) > 1
    parts: list[RenderableType] = []
    for d in derivations:
        parts.append(indented(f"{d.einsum}: {count_line(d)}" if several else count_line(d), style="cyan"))
        parts += [indented(piece_line(piece, d), 6) for piece in d.pieces]
    return section("Counts: what each is made of", *parts)


def count_line(d: Derivation) -> str:
    """`GlobalBuffer read A: 16,384 = 2,048 values x 8 actions`."""
    name = f"{d.component} {d.action}" + (f" {d.tensor}" if d.tensor else "")
    unit = ("value steps" if d.action == "hop" else "values") if d.tensor else "operations"
    factors = [f"{number(d.values)} {unit}"]
    if (d.per_value != 1 or d.complete) and d.tensor:
        factors.append(f"{number(d.per_value)} actions each{_bits(d)}{_complete(d)}")
    if d.scale != 1:
        factors.append(f"actions_scale {number(d.scale)}")
    if d.instances != 1:
        factors.append(f"{d.instances} instances")
    energy = f", {format_si(d.energy, 'J')}" if d.energy else ""
    return f"{name}: {number(d.count)} = {' x '.join(factors)}{energy}"


def _complete(d: Derivation) -> str:
    return f", {number(d.saved)} less for {d.complete:,} that are complete" if d.complete else ""


def _bits(d: Derivation) -> str:
    if d.bits is None or not d.per_value:
        return ""
    per_action = d.bits / d.per_value
    return f" ({number(d.bits)} bits, {number(per_action)} bit{'' if per_action == 1 else 's'} an action)"


def piece_line(piece: Piece, d: Derivation) -> str:
    """`1,152 to fill PE: 12 tiles x 96 values: n 3, k 4`, and what is skipped, shared and merged."""
    if piece.way == "compute":
        return f"{piece.values:,} operations: {_loops(piece.loops)}"
    if piece.way == "copy":
        return f"{piece.values:,} values copied, each once"
    if piece.way == "hop":
        how = "passed on from lane to lane" if piece.merged else "to each lane by itself"
        if len(piece.loops) != 1:
            how = "once to all lanes that share them" if piece.merged else "to each lane by itself"
        return f"{piece.values:,} between {piece.parent} and {piece.child}: {how} ({_loops(piece.loops)})"
    return f"{piece.values:,} {purpose(piece, d)}: {_sum(piece)}{_extras(piece)}"


def purpose(piece: Piece, d: Derivation) -> str:
    """Where the values of a piece come from or go to: `down to MAC`, `filled from MainMemory`."""
    if piece.way == "down":
        return f"filled from {piece.parent}" if _is_child(piece, d) else f"down to {piece.child}"
    return f"written back to {piece.parent}" if _is_child(piece, d) else f"up from {piece.child}"


def _is_child(piece: Piece, d: Derivation) -> bool:
    return piece.station == piece.child_address and d.component == piece.child


def _sum(piece: Piece) -> str:
    if piece.tile_values == 1 and piece.tiles == piece.gross:
        text = f"{piece.tiles:,} x 1 value"
    elif piece.tiles * piece.tile_values == piece.gross:
        text = f"{piece.tiles:,} tile{'' if piece.tiles == 1 else 's'} x {piece.tile_values:,} values"
    else:
        text = f"{piece.gross:,} values in {piece.tiles:,} ragged tiles of at most {piece.tile_values:,}"
    above, below = _loops(piece.loops), f"{_loops(piece.below)} below"
    if piece.loops and piece.below:
        return f"{text} ({above} above; {below})"
    return f"{text} ({above if piece.loops else below})" if piece.loops or piece.below else text


def _extras(piece: Piece) -> str:
    text = f"; {piece.units} units each, for their own copy" if piece.units != 1 else ""
    if piece.multicast != 1:
        verb = "one serves" if piece.way == "down" else "one stands for"
        loops = f" ({_loops(piece.merged)})" if piece.merged else ""
        text += f"; {verb} {number(piece.multicast)} lanes{loops}"
    if piece.kept:
        text += f"; less {piece.kept:,} that stay from visit to visit"
    if piece.skipped:
        text += f"; less {piece.skipped:,} first touches"
    if piece.shared < 0:
        text += f"; less {-piece.shared:,} that another Einsum fills"
    elif piece.shared:
        text += f"; plus {piece.shared:,} that other Einsums use"
    return text


# lifetimes


def lives_table(explanation: Explanation) -> Table:
    """Every buffer: how large, where its life begins and ends, how often."""
    return shown(frame_of(explanation, "lives"), None, _LIVES, formats={"size [bits]": number}, quiet=_ORDINARY)


def memories_section(rows: tuple[Fullest, ...]) -> RenderableType | None:
    """Buffers that live at the fullest moment of each memory."""
    parts: list[RenderableType] = []
    for row in rows:
        held = ", ".join(f"{tensor} {number(bits)}" for tensor, _, bits in row.live)
        parts += [indented(fullest_line(row), style="cyan"), indented(held, 6)]
    return section("Memories at their fullest", *parts) if parts else None


def fullest_line(row: Fullest) -> str:
    """`GlobalBuffer while Z runs: 18,432 of 524,288 bits, 505,856 free`."""
    limit = "" if math.isinf(row.capacity) else f" of {number(row.capacity)}"
    free = "no limit" if math.isinf(row.capacity) else f"{number(row.free)} free"
    return f"{row.memory} while {row.einsum} runs: {number(row.bits)}{limit} bits, {free}"


def occupancy_table(explanation: Explanation) -> Table:
    """Bits in each memory from Einsum to Einsum."""
    memories = tuple(dict.fromkeys(row.memory for row in explanation.occupied))
    bits: dict[str, dict[str, float]] = {}
    for row in explanation.occupied:
        bits.setdefault(row.einsum, {})[row.memory] = row.bits
    texts = [
        (einsum, *(number(bits[einsum].get(memory, 0)) for memory in memories))
        for einsum in explanation.order
        if einsum in bits
    ]
    return Table(("while", *memories), texts, whole=range(len(memories) + 1))


# bottlenecks


def bottleneck_table(explanation: Explanation) -> Table:
    """Limit of the latency of each Einsum, and the next one."""
    texts = []
    for row in explanation.bottlenecks:
        then = NONE
        if len(row.busy) > 1 and row.busy[1][1]:
            then = f"{row.busy[1][0]} {format_si(row.busy[1][1], 's')}"
        ahead = "" if row.margin is None else "equal" if row.margin == 1 else f"{row.margin:,.3g} x ahead"
        timed = format_si(row.latency, "s"), row.busy[0][0] if row.busy else NONE, then, ahead
        texts.append((row.einsum, *(timed if row.latency else (NONE, "nothing takes time", "", ""))))
    return Table(("Einsum", "latency", "set by", "then", ""), texts, left=(0, 2, 3, 4), whole=(0, 1))


def energy_section(rows: Sequence[EnergyShare], most: int) -> RenderableType | None:
    """Where the energy goes: the largest parts."""
    paid = [row for row in rows if row.energy]
    rest = paid[most:]
    left_out = more(len(rest), f", {percent(sum(row.share for row in rest))}")
    return section("Where the energy goes", energy_table(paid[:most]), *left_out) if paid else None


def energy_table(rows: Sequence[EnergyShare]) -> Table:
    """Parts of the energy, with their shares as bars."""
    scale = Scale.of((row.energy for row in rows), "J")
    texts = [(r.component, r.action, r.tensor or NONE, scale.show(r.energy), percent(r.share)) for r in rows]
    bars = {4: [row.share for row in rows]}
    return Table(("", "", "", scale.unit, ""), texts, left=(0, 1, 2), bars=bars, whole=(0, 3, 4))


def fanouts_table(explanation: Explanation) -> Table:
    """Lanes in use."""
    return shown(frame_of(explanation, "fanouts"), None, _FANOUTS)


# changes


def changes_section(changes: tuple[Change, ...], width: int) -> RenderableType:
    """Gains of single changes, largest first."""
    title = "What one change would help"
    if not changes:
        return section(title, Text(f"  {NO_CHANGE}"))
    shown = helpful(changes)
    rest = more(len(changes) - len(shown), ", the rest of less effect (--json has them all)")
    return section(title, changes_part(shown, width), *rest, indented(FIXED, style="dim"))


def changes_part(changes: Sequence[Change], width: int) -> RenderableType:
    """Changes in a column that leaves room for what they do to energy and latency."""
    table = laid_out(changes_table(changes))
    table.columns[0].max_width = max(30, width - 24)
    return table


def changes_table(changes: Sequence[Change]) -> Table:
    """Changes, with what they do to energy and latency."""
    texts = [(change_line(c), saved(c.energy_change), saved(c.latency_change)) for c in changes]
    return Table(("", "energy", "latency"), texts, whole=(1, 2))


def helpful(changes: tuple[Change, ...]) -> list[Change]:
    """The changes that help most, those of hardly any effect left out."""
    return [c for c in changes if min(c.energy_change, c.latency_change) <= -LEAST_CHANGE][:MOST_CHANGES]


def change_line(change: Change) -> str:
    """The change, in words."""
    match change.kind:
        case "throughput":
            return f"{change.component}: twice the throughput of {change.what}"
        case "capacity":
            assert change.needs_bits is not None
            assert change.capacity is not None
            needs = format_bits(change.needs_bits)
            fits = "fits" if change.fits else f"fits if {change.component} grows to {needs}"
            limited = change.fits and not math.isinf(change.capacity)
            size = f": {needs} of {format_bits(change.capacity)}" if limited else ""
            return f"{change.component}: hold {change.what}; {fits}{size} ({change.rewrite})"
        case "fanout":
            assert change.used is not None
            used, available = change.used
            wider = "" if change.fits else f", the fanout twice as wide ({2 * available:,})"
            dimension, _, how = change.what.partition(": ")
            lanes = f"twice the {used:,} of {available:,} lanes in use"
            return f"{change.component}.{dimension}: {lanes}{wider}; {how}"


def saved(change: float) -> str:
    """`-12.5%`, or a dash for hardly anything."""
    return NONE if abs(change) < LEAST_CHANGE else f"{change:+.1%}"


def number(n: float) -> str:
    """Whole numbers with all their digits, others with six."""
    return exact(n, 6)
