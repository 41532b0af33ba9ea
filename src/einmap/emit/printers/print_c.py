"""C99: buffers as arrays, moves as small functions, and a main that checks itself against a plain loop nest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from einmap.einsum.operation import Reduction
from einmap.emit.language.dead_definitions import counters_in
from einmap.emit.language.linear import Linear
from einmap.emit.language.program import (
    ALWAYS,
    BufferVariable,
    Charge,
    Clear,
    Condition,
    Copy,
    Definition,
    Extreme,
    Gather,
    Let,
    Loop,
    Move,
    Operate,
    Program,
    Region,
    Row,
    Statement,
    TakeLive,
    Tiles,
    When,
)
from einmap.emit.printers.c_runtime import FUNCTIONS, WORDS, helpers, main_lines, plain_lines, pointer, string
from einmap.emit.printers.comments import about, buffer_note
from einmap.emit.printers.text import (
    amount_text,
    by_condition,
    comment_safe,
    condition_text,
    indented,
    looked_up,
    map_text,
    neutral_text,
)

MOVES = {"fill": "mvin", "take": "take", "store": "mvout"}


def c_text(program: Program) -> str:
    """A C99 file: `cc -std=c99 file.c -lm`."""
    nest = ["static void nest(void)", "{", *indented(_statements(program.body)), "}"]
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


def _statements(statements: tuple[Statement, ...]) -> Iterator[str]:
    for statement in statements:
        yield from _statement(statement)


def _block(head: str, statements: tuple[Statement, ...]) -> Iterator[str]:
    yield f"{head} {{".lstrip()
    yield from indented(_statements(statements))
    yield "}"


def _statement(statement: Statement) -> Iterator[str]:
    match statement:
        case Loop():
            yield from _loop(statement)
        case Let() | Extreme() | Row():
            yield f"const long {statement.name} = {_defined(statement)};"
        case When(condition=condition, body=body, otherwise=otherwise):
            yield from _block(f"if ({condition_text(condition, WORDS)})", body)
            if otherwise:
                yield from _block("else", otherwise)
        case Move():
            yield from _move(statement)
        case TakeLive():
            yield from _take_live(statement)
        case Gather(body=body, sizes=sizes, charges=charges):
            yield from _statements(body) if len(body) == 1 else _block("", body)
            yield from _count_up(charges, amount_text(sizes))
        case Clear(region=region, sizes=sizes, reduction=reduction):
            yield f"clear({_end(region)}, {_sizes(sizes)}, {neutral_text(reduction, 'INFINITY')});"
            if region.buffer.flags:
                yield f"mark({_end(region, flags=True)}, {_sizes(sizes)}, 0);"
        case Operate():
            yield from _operate(statement)
        case Copy(source=source, targets=targets, charges=charges, where=where):
            yield from _within(where, [f"{_element(target)} = {_value(source)};" for target in targets])
            yield from _count_up(charges, "1")
        case _:
            assert_never(statement)


def _defined(definition: Definition) -> str:
    match definition:
        case Let(value=value, other=other, index=None):
            return f"smaller({value}, {other})"
        case Let(value=value, other=other, index=index):
            return f"{index} == 0 ? {value} : {other}"
        case Extreme():
            return _extreme(definition)
        case Row(element=region, size=size):
            return f"row_of({_element(region)}, {size}, {string(region.buffer.tensor)})"
        case _:
            assert_never(definition)


def _loop(loop: Loop) -> Iterator[str]:
    head = f"for (long {loop.index} = 0; {loop.index} < {_count(loop.tiles)}; {loop.index}++)"
    if loop.independent:
        counted = ", ".join(dict.fromkeys(counters_in(loop.body)))
        yield "#ifdef _OPENMP"
        yield f"#pragma omp parallel for reduction(+ : {counted})" if counted else "#pragma omp parallel for"
        yield "#endif"
    note = f" /* parallel: {comment_safe(loop.spatial)} */" if loop.spatial else ""
    yield f"{head} {{{note}"
    yield from indented(_statements(loop.body))
    yield "}"


def _count(tiles: Tiles) -> str:
    if tiles.count is not None:
        return str(tiles.count)
    if tiles.first == tiles.shape == 1:
        return str(tiles.extent)
    return f"tiles({tiles.extent}, {tiles.first}, {tiles.shape})"


def _extreme(statement: Extreme) -> str:
    """The options one by one; those that do not count are replaced by what never wins."""
    function, worst = ("larger", "-BIG") if statement.largest else ("smaller", "BIG")
    parts = [
        str(value) if condition == ALWAYS else f"({condition_text(condition, WORDS)} ? {value} : {worst})"
        for value, condition in statement.options
    ]
    text = parts[0]
    for part in parts[1:]:
        text = f"{function}({text}, {part})"
    return text


def _move(move: Move) -> Iterator[str]:
    inner, outer = _end(move.inner), _end(move.outer)
    to, of = (inner, outer) if move.kind in ("fill", "take") else (outer, inner)
    name = MOVES[move.kind] if move.kind != "reduce" else f"mvout_{move.reduction}"
    amount = amount_text(move.sizes)
    if move.hole is not None:
        hole = f"{_longs(tuple(low for low, _ in move.hole))}, {_longs(tuple(size for _, size in move.hole))}"
        yield f"n_moved = mvin_part({to}, {of}, {_sizes(move.sizes)}, {hole});"
        amount = "n_moved"
    elif move.kind == "take":
        yield f"take({to}, {of}, {_sizes(move.sizes)}, {neutral_text(move.reduction, 'INFINITY')});"
    else:
        yield f"{name}({to}, {of}, {_sizes(move.sizes)});"
    if move.mark:
        yield f"mark({_end(move.outer, flags=True)}, {_sizes(move.sizes)}, 1);"
    yield from _count_up(move.charges, amount)


def _take_live(take: TakeLive) -> Iterator[str]:
    ends = [_end(region, flags=flags) for region in (take.inner, take.outer) for flags in (False, True)]
    call = f"mvin_live({', '.join(ends)}, {_sizes(take.sizes)}, {neutral_text(take.reduction, 'INFINITY')})"
    if take.charge_all:
        yield f"{call};"
        yield from _count_up(take.charges, amount_text(take.sizes))
    else:
        yield f"n_moved = {call};"
        yield from _count_up(take.charges, "n_moved")


def _operate(operation: Operate) -> Iterator[str]:
    operands = {tensor: _value(region) for tensor, region in operation.operands}
    value = map_text(operation.map, operands, FUNCTIONS, "{0}")
    lines = []
    if len(operation.results) > 1 or operation.reduction != "sum":
        lines.append(f"const double value = {value};")
        value = "value"
    for result in operation.results:
        if result.at.buffer.flags:
            flag = _element(result.at, flags=True)
            if result.live:
                yield f"if ({flag}) {{"
                yield from indented(_count_up(result.live, "1"))
                yield "}"
            if result.fresh:
                yield f"if (!{flag}) {{"
                yield from indented(_count_up(result.fresh, "1"))
                yield "}"
            yield f"{flag} = 1;"
        at = _element(result.at)
        lines.append(f"{at} = {value};" if operation.once else reduced(at, value, operation.reduction))
    yield from _within(operation.where, lines)
    yield from _count_up(operation.charges, "1")


def _within(where: Condition, lines: list[str]) -> Iterator[str]:
    """Lines done for a point, under the condition that it is in the iteration space."""
    if where == ALWAYS:
        yield from lines
        return
    yield f"if ({condition_text(where, WORDS)}) {{"
    yield from indented(lines)
    yield "}"


def reduced(at: str, value: str, reduction: Reduction) -> str:
    """Reduce a value into an element."""
    return f"{at} += {value};" if reduction == "sum" else f"{at} = f{reduction}({at}, {value});"


def _count_up(charges: tuple[Charge, ...], amount: str) -> Iterator[str]:
    for where, counters in by_condition(charges).items():
        lines = [f"{name} += {amount};" if amount != "1" else f"{name}++;" for name in counters]
        if where == ALWAYS:
            yield from lines
        else:
            yield f"if ({condition_text(where, WORDS)}) {{"
            yield from indented(lines)
            yield "}"


def _end(region: Region, *, flags: bool = False) -> str:
    """First element of a box, and the distances between neighbours along each rank."""
    steps, step = [], 1
    for n in reversed(region.buffer.shape):
        steps.append(step)
        step *= n
    numbers = _longs(tuple(Linear((), s) for s in reversed(steps)))
    return f"&{_element(region, flags=flags)}, {numbers}"


def _sizes(sizes: tuple[Linear, ...]) -> str:
    return f"{_longs(sizes)}, {len(sizes)}"


def _longs(values: tuple[Linear, ...]) -> str:
    return f"(const long[]){{{', '.join(map(str, values)) or '0'}}}"


def _value(region: Region) -> str:
    return looked_up(_element(region), region.rows, "({1} ? {0} : 0.0)", " && ")


def _element(region: Region, *, flags: bool = False) -> str:
    return element(region.buffer, (*region.lane, *region.start), flags=flags)


def element(buffer: BufferVariable, index: tuple[Linear, ...], *, flags: bool = False) -> str:
    """`A[m0][k0]`; a tensor without ranks is an array of one value."""
    return (buffer.flags if flags else buffer.name) + ("".join(f"[{i}]" for i in index) or "[0]")
