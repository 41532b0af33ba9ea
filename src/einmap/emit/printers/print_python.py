"""Python: one function on NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from einmap.einsum.operation import Reduction
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
    TensorVariable,
    Tiles,
    When,
)
from einmap.emit.printers.comments import about, buffer_note, plain_text
from einmap.emit.printers.text import (
    INDENT,
    Words,
    amount_text,
    by_condition,
    comment_safe,
    condition_text,
    indented,
    looked_up,
    map_text,
    neutral_text,
)

WORDS = Words(" and ", " or ", "True", "False", "not ({0})", "{0} % {1}")
FUNCTIONS = {
    "exp": "np.exp({0})", "log": "np.log({0})", "sqrt": "np.sqrt({0})", "rsqrt": "(1 / np.sqrt({0}))",
    "abs": "np.abs({0})", "tanh": "np.tanh({0})", "sigmoid": "(1 / (1 + np.exp(-({0}))))",
    "relu": "np.maximum({0}, 0)", "negative": "(-({0}))", "max": "np.maximum({0}, {1})", "min": "np.minimum({0}, {1})",
    "power": "np.power({0}, {1})", "erf": "math.erf({0})",
    "gelu": "(0.5 * ({0}) * (1 + math.erf(({0}) * 0.7071067811865476)))", "sin": "np.sin({0})", "cos": "np.cos({0})",
    "floor": "np.floor({0})", "ceil": "np.ceil({0})", "round": "np.rint({0})", "sign": "np.sign({0})",
    "less": "(1.0 if ({0}) < ({1}) else 0.0)", "equal": "(1.0 if ({0}) == ({1}) else 0.0)",
    "select": "(({1}) if ({0}) != 0 else ({2}))",
}  # fmt: skip
COMBINE = {"sum": "{0} + {1}", "max": "np.maximum({0}, {1})", "min": "np.minimum({0}, {1})"}

_PART = '''
def mvin_part(to, of, hole):
    """Move what is not in the hole, and say how much that was."""
    wanted = np.ones(to.shape, dtype=bool)
    wanted[hole] = False
    to[wanted] = of[wanted]
    return int(wanted.sum())
'''
_LIVE = '''
def mvin_live(to, to_live, of, of_live, neutral):
    """Take the partial results that are there, and say how many."""
    live = of_live.copy()
    to[live] = of[live]
    of[live] = neutral
    to_live[live] = True
    of_live[...] = True  # for lanes that share elements: they come back before anybody else asks
    return int(live.sum())
'''
_ROW = '''
def row_of(value, size, what):
    """The number of a row, or -1 for a row of zeros, from a value of the tensor `what`. Raises ValueError."""
    if not -1 <= value < size or value != int(value):
        raise ValueError(f"{what} has the value {value:g}; indices are from 0 to {size - 1}, or -1 for a row of zeros")
    return int(value)
'''


def python_text(program: Program) -> str:
    """A module with the function `nest(inputs...) -> (outputs by name, values moved)`."""
    lines = [f'"""{line}' if n == 0 else line for n, line in enumerate(about(program))]
    lines += [
        "",
        "`nest` takes the inputs as NumPy arrays, and gives the outputs by name and the number of values that",
    ]
    lines += ["were read from and written to each memory: {(memory, tensor, action): values}.", '"""', ""]
    body = list(indented(_function(program)))
    text = "\n".join(body)
    lines += [*(["import math", ""] if "math.erf(" in text else []), "import numpy as np", ""]
    helpers = "".join(
        helper for name, helper in (("mvin_part", _PART), ("mvin_live", _LIVE), ("row_of", _ROW)) if f"{name}(" in text
    )
    if helpers:
        lines += [*helpers.replace("\n\n", "\n\n\n").rstrip().splitlines(), ""]
    inputs = [t.name for t in program.tensors if t.role == "input"]
    lines += ["", f"def nest({', '.join(inputs)}):"]
    return "\n".join([*lines, text, ""])


def _function(program: Program) -> Iterator[str]:
    shapes = ", ".join(f"{t.name} {_shape(t.size)}" for t in program.tensors if t.role == "input")
    yield f'"""Inputs: {comment_safe(shapes)}, as float64."""'
    for tensor in program.tensors:
        if tensor.role != "input":
            yield from _tensor(tensor, program)
        elif tensor.size != tensor.shape:
            ends = zip(tensor.first, tensor.shape, tensor.size, strict=True)
            room = ", ".join(f"({-low}, {n - size + low})" for low, n, size in ends)
            yield f"{tensor.name} = np.pad({tensor.name}, ({room},))  # as far as tiles reach"
    for buffer in program.buffers:
        note = comment_safe(buffer_note(buffer))
        if buffer.whole:
            yield f"# {buffer.name}: {note}"
        else:
            shape = _shape((*buffer.lanes, *buffer.shape))
            yield f"{buffer.name} = np.zeros({shape})  # {note}"
        if buffer.flags:
            shape = _shape((*buffer.lanes, *buffer.shape))
            yield f"{buffer.flags} = np.zeros({shape}, dtype=bool)  # which elements hold results"
    for counter in program.counters:
        yield f"{counter.name} = 0"
    yield 'with np.errstate(all="ignore"):'
    yield from indented(_statements(program.body))
    outputs = [f"{t.tensor!r}: {t.name}{_own(t)}" for t in program.tensors if t.role == "output"]
    yield f"outputs = {{{', '.join(outputs)}}}".replace("outputs =", "return", 1) + ", {"
    for counter in program.counters:
        yield f"{INDENT}({counter.memory!r}, {counter.tensor!r}, {counter.action!r}): {counter.name},"
    yield "}"


def _tensor(tensor: TensorVariable, program: Program) -> Iterator[str]:
    neutral = neutral_text(tensor.reduction or "sum", "np.inf")
    if tensor.reduction in (None, "sum"):
        yield f"{tensor.name} = np.zeros({_shape(tensor.shape)})"
    elif tensor.covered:
        yield f"{tensor.name} = np.full({_shape(tensor.shape)}, {neutral})"
    else:
        yield f"{tensor.name} = np.zeros({_shape(tensor.shape)})  # elements that nothing writes stay 0"
        depth = 0
        indices, variables, where = plain_text(tensor, program)
        for name, first, extent in variables:
            yield INDENT * depth + f"for {name} in range({first}, {first + extent}):"
            depth += 1
        if where != ALWAYS:
            yield INDENT * depth + f"if {condition_text(where, WORDS)}:"
            depth += 1
        yield INDENT * depth + f"{tensor.name}[{', '.join(map(str, indices)) or '()'}] = {neutral}"


def _own(tensor: TensorVariable) -> str:
    """The part of a variable that is the tensor itself."""
    if tensor.size == tensor.shape:
        return ""
    return f"[{', '.join(f'{-low}:{n - low}' for low, n in zip(tensor.first, tensor.size, strict=True))}]"


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _statements(statements: tuple[Statement, ...]) -> Iterator[str]:
    for statement in statements:
        yield from _statement(statement)


def _statement(statement: Statement) -> Iterator[str]:
    match statement:
        case Loop():
            note = f"  # parallel: {comment_safe(statement.spatial)}" if statement.spatial else ""
            yield f"for {statement.index} in range({_count(statement.tiles)}):{note}"
            yield from indented(_statements(statement.body))
        case Let() | Extreme() | Row():
            yield f"{statement.name} = {_defined(statement)}"
        case When(condition=condition, body=body, otherwise=otherwise):
            yield f"if {condition_text(condition, WORDS)}:"
            yield from indented(_statements(body) if body else ["pass"])
            if otherwise:
                yield "else:"
                yield from indented(_statements(otherwise))
        case Move():
            yield from _move(statement)
        case TakeLive():
            yield from _take_live(statement)
        case Gather(body=body, sizes=sizes, charges=charges):
            yield from _statements(body)
            yield from _count_up(charges, amount_text(sizes))
        case Clear(region=region, sizes=sizes, reduction=reduction):
            yield f"{_box(region, sizes)} = {neutral_text(reduction, 'np.inf')}"
            if region.buffer.flags:
                yield f"{_box(region, sizes, flags=True)} = False"
        case Operate():
            yield from _operate(statement)
        case Copy(source=source, targets=targets, charges=charges, where=where):
            yield from _within(where, [f"{_element(target)} = {_value(source)}" for target in targets])
            yield from _count_up(charges, "1")
        case _:
            assert_never(statement)


def _defined(definition: Definition) -> str:
    match definition:
        case Let(value=value, other=other, index=None):
            return f"min({value}, {other})"
        case Let(value=value, other=other, index=index):
            return f"{value} if {index} == 0 else {other}"
        case Extreme():
            return _extreme(definition)
        case Row(element=region, size=size):
            return f"row_of({_element(region)}, {size}, {region.buffer.tensor!r})"
        case _:
            assert_never(definition)


def _count(tiles: Tiles) -> str:
    if tiles.count is not None:
        return str(tiles.count)
    if tiles.first == tiles.shape:
        return str(tiles.extent) if tiles.shape == 1 else f"-(-({tiles.extent}) // {tiles.shape})"
    return f"1 - min(0, ({tiles.first} - ({tiles.extent})) // {tiles.shape})"


def _extreme(statement: Extreme) -> str:
    function = "max" if statement.largest else "min"
    parts = []
    for value, condition in statement.options:
        parts.append(f"[{value}]" if condition == ALWAYS else f"[{value}] * ({condition_text(condition, WORDS)})")
    return f"{function}({' + '.join(parts)}, default=0)"


def _move(move: Move) -> Iterator[str]:
    inner, outer = _box(move.inner, move.sizes), _box(move.outer, move.sizes)
    if move.hole is not None:
        yield from _move_part(move)
        return
    amount = amount_text(move.sizes)
    match move.kind:
        case "fill":
            yield f"{inner} = {outer}  # mvin"
        case "take":
            yield f"{inner} = {outer}  # mvin"
            yield f"{outer} = {neutral_text(move.reduction, 'np.inf')}"
        case "store":
            yield f"{outer} = {inner}  # mvout"
        case "reduce":
            yield f"{outer} = {COMBINE[move.reduction].format(outer, inner)}  # mvout"
        case _:
            assert_never(move.kind)
    if move.mark:
        yield f"{_box(move.outer, move.sizes, flags=True)} = True"
    yield from _count_up(move.charges, amount)


def _move_part(move: Move) -> Iterator[str]:
    inner, outer = _box(move.inner, move.sizes, view=True), _box(move.outer, move.sizes, view=True)
    to, of = (inner, outer) if move.kind == "fill" else (outer, inner)
    assert move.hole is not None
    hole = ", ".join(f"slice({low}, {low + size})" for low, size in move.hole)
    yield f"n_moved = mvin_part({to}, {of}, ({hole},))"
    if move.mark:
        yield f"{_box(move.outer, move.sizes, flags=True)} = True"
    yield from _count_up(move.charges, "n_moved")


def _take_live(take: TakeLive) -> Iterator[str]:
    views = [
        _box(region, take.sizes, flags=flags, view=True)
        for region in (take.inner, take.outer)
        for flags in (False, True)
    ]
    call = f"mvin_live({', '.join(views)}, {neutral_text(take.reduction, 'np.inf')})"
    if take.charge_all:
        yield call
        yield from _count_up(take.charges, amount_text(take.sizes))
    else:
        yield f"n_moved = {call}"
        yield from _count_up(take.charges, "n_moved")


def _operate(operation: Operate) -> Iterator[str]:
    operands = {tensor: _value(region) for tensor, region in operation.operands}
    value = map_text(operation.map, operands, FUNCTIONS, "{0}")
    lines = []
    if len(operation.results) > 1:
        lines.append(f"value = {value}")
        value = "value"
    for result in operation.results:
        at = _element(result.at)
        if result.at.buffer.flags:
            flag = _element(result.at, flags=True)
            yield f"if {flag}:"
            yield from indented(_count_up(result.live, "1") if result.live else ["pass"])
            if result.fresh:
                yield "else:"
                yield from indented(_count_up(result.fresh, "1"))
            yield f"{flag} = True"
        lines.append(f"{at} = {value}" if operation.once else _reduced(at, value, operation.reduction))
    yield from _within(operation.where, lines)
    yield from _count_up(operation.charges, "1")


def _within(where: Condition, lines: list[str]) -> Iterator[str]:
    """Lines done for a point, under the condition that it is in the iteration space."""
    if where != ALWAYS:
        yield f"if {condition_text(where, WORDS)}:"
        lines = list(indented(lines))
    yield from lines


def _reduced(at: str, value: str, reduction: Reduction) -> str:
    return f"{at} += {value}" if reduction == "sum" else f"{at} = {COMBINE[reduction].format(at, value)}"


def _count_up(charges: tuple[Charge, ...], amount: str) -> Iterator[str]:
    for where, counters in by_condition(charges).items():
        lines = [f"{name} += {amount}" for name in counters]
        if where != ALWAYS:
            yield f"if {condition_text(where, WORDS)}:"
            lines = list(indented(lines))
        yield from lines


def _box(region: Region, sizes: tuple[Linear, ...], *, flags: bool = False, view: bool = False) -> str:
    parts = [str(lane) for lane in region.lane]
    for start, size, most in zip(region.start, sizes, region.buffer.shape, strict=True):
        is_all = start == Linear() and size.is_number and size.constant == most
        parts.append(":" if is_all else f"{start}:{start + size}")
    return _indexed(region.buffer, [*parts, "..."] if view else parts, flags=flags)


def _value(region: Region) -> str:
    return looked_up(_element(region), region.rows, "({0} if {1} else 0.0)", " and ")


def _element(region: Region, *, flags: bool = False) -> str:
    return _indexed(region.buffer, [str(i) for i in (*region.lane, *region.start)], flags=flags)


def _indexed(buffer: BufferVariable, parts: list[str], *, flags: bool = False) -> str:
    return f"{buffer.flags if flags else buffer.name}[{', '.join(parts) or '()'}]"
