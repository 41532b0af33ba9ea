"""Text as a lecture would show it: loops with bounds, parallel loops, mvin and mvout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from einmap.einsum.operation import Reduction
from einmap.emit.language.dead_definitions import names_in
from einmap.emit.language.linear import Linear, named
from einmap.emit.language.program import (
    ALWAYS,
    BufferVariable,
    Charge,
    Clear,
    Condition,
    Copy,
    Extreme,
    Found,
    Gather,
    Let,
    Loop,
    Move,
    Operate,
    Part,
    Program,
    Region,
    Row,
    Statement,
    TakeLive,
    Tiles,
    When,
)
from einmap.emit.printers.comments import WORDS, about, buffer_note, map_in_words
from einmap.emit.printers.text import condition_text, indented, neutral_text

REDUCE = {"sum": "mvout_add", "max": "mvout_max", "min": "mvout_min"}
"""Moves that reduce into what is there."""


def pseudo_text(program: Program) -> str:
    """The loop nest as text."""
    return "\n".join([*_Printer(program).lines(), ""])


@dataclass(frozen=True)
class _Printer:
    program: Program

    def lines(self) -> Iterator[str]:
        for line in about(self.program):
            yield f"# {line}".rstrip()
        yield ""
        for rank in self.program.symbols.ranks:
            symbols = "*".join(symbol for symbol, _ in rank.counts)
            counts = "*".join(str(count) for _, count in rank.counts)
            cut = f"{symbols} = {counts} = " if len(rank.counts) > 1 else f"{symbols} = " if symbols else ""
            yield f"{rank.symbol} = {cut}{rank.extent}"
        yield ""
        yield from self.declarations()
        yield ""
        yield from self.statements(self.program.body)

    def declarations(self) -> Iterator[str]:
        heads = []
        for buffer in self.program.buffers:
            dims = ", ".join([*self._lanes(buffer), *map(self.size, buffer.size_from, buffer.shape)])
            word = "tensor" if buffer.whole else "buffer"
            heads.append((f"{word} {buffer.name}[{dims}]", buffer_note(buffer)))
        width = max(len(head) for head, _ in heads)
        for head, note in heads:
            yield f"{head:<{width}}  # {note}"

    def _lanes(self, buffer: BufferVariable) -> Iterator[str]:
        for name, count in zip(buffer.lane_names, buffer.lanes, strict=True):
            yield self.program.symbols.counts.get(name, str(count))

    def statements(self, statements: tuple[Statement, ...]) -> Iterator[str]:
        for statement in statements:
            yield from self.statement(statement)

    def statement(self, statement: Statement) -> Iterator[str]:
        match statement:
            case Loop():
                loops = list(_together(statement))
                ranges = ", ".join(f"{loop.index} in 0:{self.count(loop)}" for loop in loops)
                fanouts = ", ".join(loop.spatial for loop in loops if loop.spatial)
                yield f"parallel_for {ranges}:  # {fanouts}" if fanouts else f"for {ranges}:"
                yield from indented(self.statements(loops[-1].body))
            case Let(name=name, value=value, other=other, index=None):
                yield f"{name} = min({self.text(value)}, {self.text(other)})"
            case Let(name=name, value=value, other=other, index=index):
                yield f"{name} = {self.text(value)} if {index} == 0, else {self.text(other)}"
            case Extreme():
                yield self.extreme(statement)
            case Row(name=name, element=region):
                yield f"{name} = {self.element(region)}  # -1 is a row of zeros"
            case When(condition=condition, body=body, otherwise=otherwise):
                yield f"if {condition_text(condition, WORDS, self.text)}:"
                yield from indented(self.statements(body))
                if otherwise:
                    yield "else:"
                    yield from indented(self.statements(otherwise))
            case Move():
                yield self.move(statement)
            case TakeLive():
                yield f"mvin({self.buffer(statement.inner)}, {self.tile(statement)})  # elements that have results"
            case Gather(inner=inner):
                yield f"mvin({self.buffer(inner)}, {self.tile(statement)}){self.source(statement)}"
            case Clear(region=region, reduction=reduction):
                yield f"{self.buffer(region)}[...] = {_neutral(reduction)}"
            case Operate():
                yield from self.operate(statement)
            case Copy(source=source, targets=targets, where=where):
                yield from self.within(where, [f"{self.element(t)} = {self.element(source)}" for t in targets])
            case _:
                assert_never(statement)

    def size(self, origin: str | tuple[str, int] | None, size: int) -> str:
        """The length of a rank of a buffer: that of a rank, or of the tile of a loop."""
        symbols = self.program.symbols
        if isinstance(origin, tuple):
            return symbols.extents[origin]
        return (symbols.tiles[origin][1] if origin is not None and origin in symbols.tiles else "") or str(size)

    # integers

    def text(self, value: Linear) -> str:
        return value.text(self.term)

    def term(self, name: str, factor: int) -> str:
        """`k2*K1*K0` where that is what the factor is."""
        shape, symbols = self.program.symbols.tiles.get(name, (factor, ""))
        if factor == 1:
            return name
        if not symbols or factor % shape:
            return f"{factor}*{name}"
        more = "" if factor == shape else f"{factor // shape}*"
        return f"{more}{name}*{symbols}"

    def count(self, loop: Loop) -> str:
        tiles = loop.tiles
        if loop.index in self.program.symbols.counts:
            return self.program.symbols.counts[loop.index]
        return self._count(tiles) if tiles.count is None else str(tiles.count)

    def _count(self, tiles: Tiles) -> str:
        extent = self.text(tiles.extent)
        if tiles.first != tiles.shape:
            return f"1 + ceil(({extent} - {tiles.first}) / {tiles.shape})"
        return extent if tiles.shape == 1 else f"ceil({extent} / {tiles.shape})"

    def extreme(self, statement: Extreme) -> str:
        function = "max" if statement.largest else "min"
        parts = [
            self.text(value) if condition == ALWAYS else
            f"{self.text(value)} where {condition_text(condition, WORDS, self.text)}"
            for value, condition in statement.options
        ]  # fmt: skip
        return f"{statement.name} = {function}({', '.join(parts)})"

    # places

    def buffer(self, region: Region) -> str:
        lane = f"[{', '.join(map(self.text, region.lane))}]" if region.lane else ""
        return region.buffer.name + lane

    def element(self, region: Region) -> str:
        first = self.program.first[region.buffer.tensor] if region.buffer.whole else (0,) * len(region.start)
        start = [place.plus(low) for place, low in zip(region.start, first, strict=True)]
        return f"{region.buffer.name}[{', '.join(map(self.text, (*region.lane, *start)))}]"

    def tile(self, move: Move | TakeLive | Gather) -> str:
        """The part of the tensor that is moved, `W[k2*K1:(k2 + 1)*K1, :]`, or `Table[Ids[t1*T0:(t1 + 1)*T0], :]`."""
        return self.part(move.inner.buffer.tensor, move.box)

    def part(self, tensor: str, box: Part) -> str:
        """A part of a tensor."""
        ranges = [
            self.part(ends.tensor, ends.ranges) if isinstance(ends, Found) else self.range(*ends, most)
            for ends, most in zip(box, self.program.shapes[tensor], strict=True)
        ]
        return f"{self.program.variables[tensor]}[{', '.join(ranges)}]"

    def range(self, low: Linear, size: Linear, most: int) -> str:
        if low == Linear() and size.is_number and size.constant == most:
            return ":"
        if size.is_number and size.constant == 1:
            return self.text(low)
        for name, factor in reversed(low.terms):
            shape, symbols = self.program.symbols.tiles.get(name, (0, ""))
            if size.is_number and factor == size.constant == shape:
                rest = low - named(name, factor)
                before = "" if rest == Linear() else f"{self.text(rest)} + "
                return f"{self.text(low)}:{before}({name} + 1)*{symbols}"
        return f"{self.text(low)}:{self.text(low + size)}"

    # moves and operations

    def move(self, move: Move) -> str:
        tile, inner = self.tile(move), self.buffer(move.inner)
        part = ", without what is there" if move.hole is not None else ""
        note = "" if move.outer.buffer.whole else f"  # to {self.buffer(move.outer)}"
        match move.kind:
            case "fill" | "take":
                return f"mvin({inner}, {tile}{part}){self.source(move)}"
            case "store":
                return f"mvout({tile}, {inner}){note}"
            case "reduce":
                return f"{REDUCE[move.reduction]}({tile}, {inner}){note}"
            case _:
                assert_never(move.kind)

    def source(self, move: Move | Gather) -> str:
        """A comment on where a tile comes from, if it is not the whole tensor, and on lanes that get it together."""
        where = "" if move.outer.buffer.whole else f"from {self.buffer(move.outer)}"
        shared = _shared(move.charges)
        notes = ", ".join(filter(None, [where, f"multicast along {shared}" if shared else ""]))
        return f"  # {notes}" if notes else ""

    def operate(self, operation: Operate) -> Iterator[str]:
        operands = {tensor: self.element(region) for tensor, region in operation.operands}
        value = map_in_words(operation.map, operands)
        lines = [_assignment(self.element(result.at), value, operation) for result in operation.results]
        yield from self.within(operation.where, lines)

    def within(self, where: Condition, lines: list[str]) -> Iterator[str]:
        """Lines done for a point, under the condition that it is in the iteration space."""
        if where != ALWAYS:
            yield f"if {condition_text(where, WORDS, self.text)}:"
            lines = list(indented(lines))
        yield from lines


def _together(loop: Loop) -> Iterator[Loop]:
    """The spatial loops that stand directly inside each other."""
    yield loop
    while loop.spatial and len(loop.body) == 1 and isinstance(loop.body[0], Loop) and loop.body[0].spatial:
        loop = loop.body[0]
        yield loop


def _assignment(at: str, value: str, operation: Operate) -> str:
    if operation.once:
        return f"{at} = {value}"
    return f"{at} += {value}" if operation.reduction == "sum" else f"{at} = {operation.reduction}({at}, {value})"


def _neutral(reduction: Reduction) -> str:
    return "0" if reduction == "sum" else neutral_text(reduction, "inf")


def _shared(charges: tuple[Charge, ...]) -> str:
    """The lanes for which the memory outside is used once."""
    names = [name for charge in charges for name in sorted(_zeros(charge))]
    return ", ".join(dict.fromkeys(names))


def _zeros(charge: Charge) -> set[str]:
    return set(names_in(charge.where))
