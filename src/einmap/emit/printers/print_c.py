"""C99: buffers as arrays, moves as small functions, and a main that checks itself against a plain loop nest."""

from __future__ import annotations

from collections.abc import Iterator

from einmap.emit.language.dead_definitions import counters_in
from einmap.emit.language.linear import Linear
from einmap.emit.language.program import (
    ALWAYS,
    Extreme,
    Loop,
    Move,
    Program,
    Region,
    Statement,
    TakeLive,
    Tiles,
)
from einmap.emit.printers.c_runtime import FUNCTIONS, WORDS, helpers, main_lines, plain_lines, pointer, string
from einmap.emit.printers.comments import about, buffer_note
from einmap.emit.printers.printer import Printer, Syntax
from einmap.emit.printers.text import amount_text, comment_safe, indented

MOVES = {"fill": "mvin", "take": "take", "store": "mvout"}


def c_text(program: Program) -> str:
    """A C99 file: `cc -std=c99 file.c -lm`."""
    nest = ["static void nest(void)", "{", *indented(C.statements(program.body)), "}"]
    checks = [*plain_lines(program), "", *main_lines(program)]
    code = "\n".join([*nest, *checks])
    lines = ["/*", *(f" * {comment_safe(line)}".rstrip() for line in about(program)), " *"]
    lines += [
        " * `nest` is the loop nest; `main` runs it on values of its own, prints how many values were read from and"
    ]
    lines += [
        " * written to each memory, and compares the outputs with plain loop nests: exit status 1 if they differ."
    ]
    lines += [
        " * Compile with: cc -std=c99 -O2 FILE.c -lm (and -fopenmp to run independent lanes in parallel)",
        " */",
        "",
    ]
    lines += ["#include <math.h>", "#include <stdio.h>", "#include <stdlib.h>", ""]
    lines += [*_declarations(program), "", *helpers(code), *code.splitlines()]
    return "\n".join([*lines, ""])


def _declarations(program: Program) -> Iterator[str]:
    yield "/* Tensors, whole. */"
    for tensor in program.tensors:
        held = [b for b in program.buffers if b.whole and b.name == tensor.name]
        yield f"static {pointer(tensor.name, tensor.shape)}; /* {comment_safe(buffer_note(held[0]))} */"
        if held[0].flags:
            flags = pointer(held[0].flags, held[0].shape, "unsigned char")
            yield f"static {flags}; /* which elements hold results */"
    if any(not b.whole for b in program.buffers):
        yield "\n/* Buffers: one tile each, for each instance. */"
    for buffer in program.buffers:
        if buffer.whole:
            continue
        shape = "".join(f"[{n}]" for n in (*buffer.lanes, *buffer.shape)) or "[1]"
        yield f"static double {buffer.name}{shape}; /* {comment_safe(buffer_note(buffer))} */"
        if buffer.flags:
            yield f"static unsigned char {buffer.flags}{shape}; /* which elements hold results */"
    yield "\n/* Values that were moved. */"
    for counter in program.counters:
        yield f"static long long {counter.name};"


class _C(Printer):
    syntax = Syntax(
        words=WORDS, functions=FUNCTIONS, infinity="INFINITY", opens="if ({0}) {{", otherwise="else {", closes="}",
        nothing="", ends=";", integer="const long ", real="const double ", smaller="smaller({0}, {1})",
        first="{2} == 0 ? {0} : {1}", choice="({1} ? {0} : 0.0)",
        reduces={"sum": "{0} += {1}", "max": "{0} = fmax({0}, {1})", "min": "{0} = fmin({0}, {1})"},
        one_value=True, quoted=string,
    )  # fmt: skip

    def loop(self, loop: Loop) -> Iterator[str]:
        head = f"for (long {loop.index} = 0; {loop.index} < {_count(loop.tiles)}; {loop.index}++)"
        if loop.independent:
            counted = ", ".join(dict.fromkeys(counters_in(loop.body)))
            yield "#ifdef _OPENMP"
            yield f"#pragma omp parallel for reduction(+ : {counted})" if counted else "#pragma omp parallel for"
            yield "#endif"
        note = f" /* parallel: {comment_safe(loop.spatial)} */" if loop.spatial else ""
        yield f"{head} {{{note}"
        yield from indented(self.statements(loop.body))
        yield "}"

    def scope(self, body: tuple[Statement, ...]) -> Iterator[str]:
        lines = self.statements(body)
        yield from lines if len(body) == 1 else ("{", *indented(lines), "}")

    def extreme(self, statement: Extreme) -> str:
        """The options one by one; those that do not count are replaced by what never wins."""
        function, worst = ("larger", "-BIG") if statement.largest else ("smaller", "BIG")
        text, *others = (
            str(value) if condition == ALWAYS else f"({self.truth(condition)} ? {value} : {worst})"
            for value, condition in statement.options
        )
        for part in others:
            text = f"{function}({text}, {part})"
        return text

    def move(self, move: Move) -> Iterator[str]:
        inner, outer, sizes = _end(move.inner), _end(move.outer), _sizes(move.sizes)
        to, of = (inner, outer) if move.kind in ("fill", "take") else (outer, inner)
        name = MOVES[move.kind] if move.kind != "reduce" else f"mvout_{move.reduction}"
        amount = amount_text(move.sizes)
        if move.hole is not None:
            hole = f"{_longs(tuple(low for low, _ in move.hole))}, {_longs(tuple(size for _, size in move.hole))}"
            yield f"n_moved = mvin_part({to}, {of}, {sizes}, {hole});"
            amount = "n_moved"
        else:
            neutral = f", {self.neutral(move.reduction)}" if move.kind == "take" else ""
            yield f"{name}({to}, {of}, {sizes}{neutral});"
        if move.mark:
            yield self.filled(move.outer, move.sizes, "1", flags=True)
        yield from self.count_up(move.charges, amount)

    def filled(self, region: Region, sizes: tuple[Linear, ...], value: str, *, flags: bool = False) -> str:
        return f"{'mark' if flags else 'clear'}({_end(region, flags=flags)}, {_sizes(sizes)}, {value});"

    def boxes(self, take: TakeLive) -> str:
        ends = [_end(region, flags=flags) for region in (take.inner, take.outer) for flags in (False, True)]
        return f"{', '.join(ends)}, {_sizes(take.sizes)}"

    def element(self, region: Region, *, flags: bool = False) -> str:
        """`A[m0][k0]`; a tensor without ranks is an array of one value."""
        index = "".join(f"[{i}]" for i in (*region.lane, *region.start)) or "[0]"
        return (region.buffer.flags if flags else region.buffer.name) + index


C = _C()


def _count(tiles: Tiles) -> str:
    if tiles.count is not None:
        return str(tiles.count)
    if tiles.first == tiles.shape == 1:
        return str(tiles.extent)
    return f"tiles({tiles.extent}, {tiles.first}, {tiles.shape})"


def _end(region: Region, *, flags: bool = False) -> str:
    """First element of a box, and the distances between neighbours along each rank."""
    steps, step = [], 1
    for n in reversed(region.buffer.shape):
        steps.append(step)
        step *= n
    numbers = _longs(tuple(Linear((), s) for s in reversed(steps)))
    return f"&{C.element(region, flags=flags)}, {numbers}"


def _sizes(sizes: tuple[Linear, ...]) -> str:
    return f"{_longs(sizes)}, {len(sizes)}"


def _longs(values: tuple[Linear, ...]) -> str:
    return f"(const long[]){{{', '.join(map(str, values)) or '0'}}}"
