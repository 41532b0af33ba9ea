"""The terminal report of `einmap explain`: the four cases, what stays, what counts are made of, what would help."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from einmap.mapping.nodes import format_address
from einmap.model.explanation.values import (
    Bottleneck,
    Change,
    Derivation,
    EnergyShare,
    Explanation,
    Fanout,
    Fullest,
    Life,
    LoopUse,
    NodeCases,
    Occupied,
    Piece,
    Stationary,
)
from einmap.report.costs.pipelines import pipelines_section
from einmap.report.text.formatting import NONE, Bar, Scale, percent
from einmap.report.text.layout import new_table, section_title
from einmap.units import format_bits, format_si

MOST_CHANGES = 12
"""Changes that are shown; all of them are in the JSON document."""
LEAST_CHANGE = 5e-4
"""Changes of less than this part of energy and latency are not shown."""
MOST_ENERGY = 10
"""Parts of the energy that are shown."""
NOTATION = "n 3: a loop over n of 3 iterations, n 3 lanes: one in space; outermost loop first"
FIXED = (
    "Each change alone, evaluated anew. All else is held fixed: the other tile shapes and loops, and what a larger "
    "memory, a faster port or a wider fanout would cost unless the specification says so. `einmap rewrite --do` makes "
    "what stands in parentheses."
)


def explanation_report(explanation: Explanation, width: int = 80) -> RenderableType:
    """Everything about why a mapping costs what it does."""
    sections = [
        head_line(explanation),
        cases_section(explanation.cases, several=len(explanation.order) > 1),
        stationary_section(explanation.stationary),
        counts_section(explanation.derivations),
        lives_section(explanation.lives, len(explanation.order)),
        memories_section(explanation.fullest),
        occupied_section(explanation.occupied, explanation.order),
        bottleneck_section(explanation.bottlenecks),
        pipelines_section(explanation.cost) if explanation.cost.pipelines else None,
        energy_section(explanation.energy),
        fanouts_section(explanation.fanouts),
        changes_section(explanation.changes, width),
    ]
    shown = [section for section in sections if section is not None]
    return Group(*[part for section in shown for part in (section, Text(""))][:-1])


def head_line(explanation: Explanation) -> Text:
    """`energy 1.36 mJ, latency 5.02 ms, counted as exact`."""
    cost = explanation.cost
    total = f"energy {format_si(cost.energy, 'J')}, latency {format_si(cost.latency, 's')}, counted as exact"
    return Text(total, style="bold")


# the four cases


def cases_section(cases: tuple[NodeCases, ...], *, several: bool) -> RenderableType | None:
    """One small table for each tensor at each storage node."""
    if not cases:
        return None
    parts: list[RenderableType] = [
        section_title("Storage nodes: what the loops above and below them do"),
        Padding(Text(NOTATION, style="dim"), (0, 0, 0, 2)),
    ]
    for node in cases:
        who = f"{node.einsum}: " if several else ""
        role = ", its outermost holder" if node.backing else ""
        head = f"{who}{node.tensor} in {node.component}{role} ({format_address(node.address)})"
        table = _wide_table("", "loops above", "loops below", left=(1, 2))
        for label, above, below in case_rows(node):
            table.add_row(label, above, below)
        parts += [Padding(Text(head, style="cyan"), (0, 0, 0, 2)), Padding(table, (0, 0, 0, 2))]
    return Group(*parts)


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
    ragged = f", ragged: down to {_shape(node.smallest)}" if node.smallest != node.shape else ""
    tile = f"tile {_shape(node.shape)} ({', '.join(node.ranks)}), {format_bits(node.bits)}{ragged}"
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


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(f"{n}" for n in shape) or "1"


# stationarity


def stationary_section(rows: tuple[Stationary, ...]) -> RenderableType | None:
    """What stays while the innermost loops of a level run."""
    if not rows:
        return None
    table = _wide_table("Einsum", "loops of the level", "stationary", "stays for", left=(1, 2))
    for row in rows:
        loops = "  ".join(_loop(use) for use in row.loops)
        what = "elements" if row.values == 1 else f"tiles {_shape(row.shape)}"
        table.add_row(row.einsum, loops, f"{row.tensor}: {what}", f"{row.iterations:,} iterations")
    return Group(section_title("Stationary: what the innermost loops of each level leave in place"), table)


# counts


def counts_section(derivations: tuple[Derivation, ...]) -> RenderableType | None:
    """Each count, and below it the pieces that add up to it."""
    if not derivations:
        return None
    several = len({d.einsum for d in derivations}) > 1
    parts: list[RenderableType] = [section_title("Counts: what each is made of")]
    for d in derivations:
        who = f"{d.einsum}: " if several else ""
        parts.append(Padding(Text(f"{who}{count_line(d)}", style="cyan"), (0, 0, 0, 2)))
        for piece in d.pieces:
            parts.append(Padding(Text(piece_line(piece, d)), (0, 0, 0, 6)))
    return Group(*parts)


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


def lives_section(lives: tuple[Life, ...], einsums: int) -> RenderableType | None:
    """Every buffer: how large, where its life begins and ends, how often."""
    if not lives:
        return None
    table = _wide_table("", "in", "bits", "times", "lives", left=(1, 4))
    for life in lives:
        table.add_row(life.tensor, life.memory, number(life.bits), f"{life.times:,}", _span(life, einsums))
    return Group(section_title("Lives of the buffers"), table)


def _span(life: Life, einsums: int) -> str:
    if life.persistent:
        return "throughout: persistent"
    begin, end = format_address(life.begins), format_address(life.ends)
    span = f"while {begin} runs" if begin == end else f"from {begin} to the end of {end}"
    span += f", {life.copies} at one time" if life.copies > 1 else ""
    return span if einsums == 1 else f"{span}: {', '.join(life.einsums)}"


def memories_section(rows: tuple[Fullest, ...]) -> RenderableType | None:
    """What is live at the fullest moment of each memory."""
    if not rows:
        return None
    parts: list[RenderableType] = [section_title("Memories at their fullest")]
    for row in rows:
        parts.append(Padding(Text(fullest_line(row), style="cyan"), (0, 0, 0, 2)))
        held = ", ".join(f"{tensor} {number(bits)}" for tensor, _, bits in row.live)
        parts.append(Padding(Text(held), (0, 0, 0, 6)))
    return Group(*parts)


def fullest_line(row: Fullest) -> str:
    """`GlobalBuffer while Z runs: 18,432 of 524,288 bits, 505,856 free`."""
    limit = "" if math.isinf(row.capacity) else f" of {number(row.capacity)}"
    free = "no limit" if math.isinf(row.capacity) else f"{number(row.free)} free"
    return f"{row.memory} while {row.einsum} runs: {number(row.bits)}{limit} bits, {free}"


def occupied_section(rows: tuple[Occupied, ...], order: tuple[str, ...]) -> RenderableType | None:
    """Bits in each memory from Einsum to Einsum."""
    if len(order) < 2 or not rows:
        return None
    memories = tuple(dict.fromkeys(row.memory for row in rows))
    bits = {(row.einsum, row.memory): row.bits for row in rows}
    table = _wide_table("while", *memories)
    for einsum in order:
        if any((einsum, memory) in bits for memory in memories):
            table.add_row(einsum, *(number(bits.get((einsum, memory), 0)) for memory in memories))
    return Group(section_title("Occupancy: the most bits at one time while each Einsum runs"), table)


# bottlenecks


def bottleneck_section(rows: tuple[Bottleneck, ...]) -> RenderableType | None:
    """What sets the latency of each Einsum, and what follows."""
    if not rows:
        return None
    table = _wide_table("Einsum", "latency", "set by", "then", "", left=(2, 3, 4))
    for row in rows:
        if not row.latency:
            table.add_row(row.einsum, NONE, "nothing takes time")
            continue
        following = next(iter(row.busy[1:]), None)
        then = NONE if following is None or not following[1] else f"{following[0]} {format_si(following[1], 's')}"
        ahead = "" if row.margin is None else "equal" if row.margin == 1 else f"{row.margin:,.3g} x ahead"
        table.add_row(row.einsum, format_si(row.latency, "s"), row.busy[0][0], then, ahead)
    return Group(section_title("Bottlenecks"), table)


def energy_section(rows: tuple[EnergyShare, ...]) -> RenderableType | None:
    """Where the energy goes."""
    paid = [row for row in rows if row.energy]
    if not paid:
        return None
    more = len(paid) - MOST_ENERGY
    rest = [Text(f"  ... and {more} more")] if more > 0 else []
    return Group(section_title("Where the energy goes"), energy_table(paid[:MOST_ENERGY]), *rest)


def energy_table(rows: Sequence[EnergyShare]) -> Table:
    """Parts of the energy, with their shares as bars."""
    scale = Scale.of((row.energy for row in rows), "J")
    table = _wide_table("", "", "", scale.unit, "", "", left=(1, 2, 5))
    for row in rows:
        names = row.component, row.action, row.tensor or NONE
        table.add_row(*names, scale.show(row.energy), percent(row.share), Bar(row.share))
    return table


def fanouts_section(rows: tuple[Fanout, ...]) -> RenderableType | None:
    """Lanes in use."""
    if not rows:
        return None
    table = _wide_table("Einsum", "fanout", "lanes used", "of", left=(1,))
    for row in rows:
        table.add_row(row.einsum, f"{row.component}.{row.dimension}", f"{row.used:,}", f"{row.available:,}")
    return Group(section_title("Fanouts"), table)


# changes


def changes_section(changes: tuple[Change, ...], width: int) -> RenderableType:
    """What one change would help, most first."""
    title = section_title("What one change would help")
    if not changes:
        return Group(title, Text("  no single change that was tried saves energy or time"))
    shown = helpful(changes)
    table = changes_table(shown, width)
    more = len(changes) - len(shown)
    rest = [Text(f"  ... and {more} more, the rest of less effect (--json has them all)")] if more > 0 else []
    return Group(title, table, *rest, Padding(Text(FIXED, style="dim"), (0, 0, 0, 2)))


def changes_table(changes: Sequence[Change], width: int) -> Table:
    """Changes, with what they do to energy and latency."""
    table = _wide_table("", "energy", "latency", left=(0,))
    table.columns[0].max_width = max(30, width - 24)
    for change in changes:
        table.add_row(change_line(change), saved(change.energy_change), saved(change.latency_change))
    return table


def helpful(changes: tuple[Change, ...]) -> list[Change]:
    """The changes that help most, those of hardly any effect left out."""
    return [c for c in changes if min(c.energy_change, c.latency_change) <= -LEAST_CHANGE][:MOST_CHANGES]


def change_line(change: Change) -> str:
    """What is changed, in words."""
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


# small parts


def number(n: float) -> str:
    """Whole numbers with all their digits, others with six."""
    return f"{int(n):,}" if float(n).is_integer() else f"{n:,.6g}"


def _wide_table(*headers: str, left: tuple[int, ...] = ()) -> Table:
    """Numbers to the right; names to the left, and what `left` lists, which may wrap."""
    return new_table(*headers, left=(0, *left), whole=[i for i in range(len(headers)) if i not in left])
