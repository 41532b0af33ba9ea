"""Python: one function on NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from einmap.emit.language.linear import Linear
from einmap.emit.language.program import (
    ALWAYS,
    BufferVariable,
    Extreme,
    Loop,
    Move,
    Program,
    Region,
    Statement,
    TakeLive,
    TensorVariable,
    Tiles,
)
from einmap.emit.printers.comments import about, buffer_note, plain_text
from einmap.emit.printers.printer import Printer, Syntax
from einmap.emit.printers.text import (
    INDENT,
    Words,
    amount_text,
    comment_safe,
    condition_text,
    indented,
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
    yield from indented(_Python().statements(program.body))
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


class _Python(Printer):
    syntax = Syntax(
        words=WORDS, functions=FUNCTIONS, infinity="np.inf", opens="if {0}:", otherwise="else:", closes="",
        nothing="pass", ends="", integer="", real="", smaller="min({0}, {1})", first="{0} if {2} == 0 else {1}",
        choice="({0} if {1} else 0.0)", one_value=False, quoted=repr,
        reduces={"sum": "{0} += {1}", "max": "{0} = np.maximum({0}, {1})", "min": "{0} = np.minimum({0}, {1})"},
    )  # fmt: skip

    def loop(self, loop: Loop) -> Iterator[str]:
        note = f"  # parallel: {comment_safe(loop.spatial)}" if loop.spatial else ""
        yield f"for {loop.index} in range({_count(loop.tiles)}):{note}"
        yield from indented(self.statements(loop.body))

    def scope(self, body: tuple[Statement, ...]) -> Iterator[str]:
        return self.statements(body)

    def extreme(self, statement: Extreme) -> str:
        parts = [
            f"[{value}]" if condition == ALWAYS else f"[{value}] * ({self.truth(condition)})"
            for value, condition in statement.options
        ]
        return f"{'max' if statement.largest else 'min'}({' + '.join(parts)}, default=0)"

    def move(self, move: Move) -> Iterator[str]:
        is_part, amount = move.hole is not None, amount_text(move.sizes)
        inner, outer = (_box(region, move.sizes, view=is_part) for region in (move.inner, move.outer))
        match move.kind:
            case _ if move.hole is not None:
                to, of = (inner, outer) if move.kind == "fill" else (outer, inner)
                hole = ", ".join(f"slice({low}, {low + size})" for low, size in move.hole)
                yield f"n_moved = mvin_part({to}, {of}, ({hole},))"
                amount = "n_moved"
            case "fill" | "take":
                yield f"{inner} = {outer}  # mvin"
                if move.kind == "take":
                    yield f"{outer} = {self.neutral(move.reduction)}"
            case "store":
                yield f"{outer} = {inner}  # mvout"
            case "reduce":
                yield f"{outer} = {COMBINE[move.reduction].format(outer, inner)}  # mvout"
            case _:
                assert_never(move.kind)
        if move.mark:
            yield self.filled(move.outer, move.sizes, "True", flags=True)
        yield from self.count_up(move.charges, amount)

    def filled(self, region: Region, sizes: tuple[Linear, ...], value: str, *, flags: bool = False) -> str:
        return f"{_box(region, sizes, flags=flags)} = {value}"

    def boxes(self, take: TakeLive) -> str:
        regions = take.inner, take.outer
        return ", ".join(_box(r, take.sizes, flags=flags, view=True) for r in regions for flags in (False, True))

    def element(self, region: Region, *, flags: bool = False) -> str:
        return _indexed(region.buffer, [str(i) for i in (*region.lane, *region.start)], flags=flags)


def _count(tiles: Tiles) -> str:
    if tiles.count is not None:
        return str(tiles.count)
    if tiles.first == tiles.shape:
        return str(tiles.extent) if tiles.shape == 1 else f"-(-({tiles.extent}) // {tiles.shape})"
    return f"1 - min(0, ({tiles.first} - ({tiles.extent})) // {tiles.shape})"


def _box(region: Region, sizes: tuple[Linear, ...], *, flags: bool = False, view: bool = False) -> str:
    parts = [str(lane) for lane in region.lane]
    for start, size, most in zip(region.start, sizes, region.buffer.shape, strict=True):
        is_all = start == Linear() and size.is_number and size.constant == most
        parts.append(":" if is_all else f"{start}:{start + size}")
    return _indexed(region.buffer, [*parts, "..."] if view else parts, flags=flags)


def _indexed(buffer: BufferVariable, parts: list[str], *, flags: bool = False) -> str:
    return f"{buffer.flags if flags else buffer.name}[{', '.join(parts) or '()'}]"
