"""The text of comments in emitted code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from einmap.einsum.operation import MapExpression
from einmap.emit.language.dead_definitions import names_in
from einmap.emit.language.linear import Linear
from einmap.emit.language.program import ALWAYS, BufferVariable, Condition, Found, Plain, Program, TensorVariable
from einmap.emit.printers.text import Words, comment_safe, condition_text, map_text

WORDS = Words(" and ", " or ", "true", "false", "not ({0})", "{0} mod {1}")
"""Words of pseudocode and of comments."""


def about(program: Program) -> Iterator[str]:
    """The first lines: what is computed, and which names were changed."""
    yield "A loop nest with explicit data movement, emitted by einmap from a mapping."
    yield ""
    for plain in program.plain:
        yield f"  {comment_safe(einsum_text(plain))}"
    if program.instances > 1:
        yield f"The workload does this {program.instances} times; counts here are those of one time."
    for name, kept in program.renamed:
        yield f"Renamed: {comment_safe(name)!r} is {kept} here."


_CALLS = {
    "exp": "exp({0})", "log": "log({0})", "sqrt": "sqrt({0})", "rsqrt": "rsqrt({0})", "abs": "abs({0})",
    "tanh": "tanh({0})", "sigmoid": "sigmoid({0})", "relu": "relu({0})", "negative": "(-({0}))",
    "max": "max({0}, {1})", "min": "min({0}, {1})", "power": "power({0}, {1})",
    **{name: f"{name}({{0}})" for name in ("erf", "gelu", "sin", "cos", "floor", "ceil", "round", "sign")},
    "less": "less({0}, {1})", "equal": "equal({0}, {1})", "select": "select({0}, {1}, {2})",
}  # fmt: skip


def map_in_words(expression: MapExpression, operands: Mapping[str, str]) -> str:
    """A map expression as text."""
    return map_text(expression, operands, _CALLS, "{0}")


def einsum_text(plain: Plain) -> str:
    """`Z[m, n] = A[m, k] * B[k, n]`."""
    outputs = ", ".join(f"{name}[{', '.join(map(str, indices))}]" for _, name, indices in plain.outputs)
    name_of = {tensor: name for tensor, name, _ in plain.inputs}

    def index_text(index: Linear | Found) -> str:
        if not isinstance(index, Found):
            return str(index)
        return f"{name_of[index.tensor]}[{', '.join(str(low) for low, _ in index.ranges)}]"

    operands = {tensor: f"{name}[{', '.join(map(index_text, indices))}]" for tensor, name, indices in plain.inputs}
    value = map_in_words(plain.map, operands)
    if plain.reduction != "sum" and not plain.is_copy:
        value = f"{plain.reduction}imum of {value}"
    where = "" if plain.where == ALWAYS else f" where {condition_text(plain.where, WORDS)}"
    return f"{outputs} = {value}{where}"


def buffer_note(buffer: BufferVariable) -> str:
    """`GlobalBuffer: read by Z, 64 values (512 of 4,096 bits)`."""
    values = math.prod(buffer.shape)
    lanes = math.prod(buffer.lanes)
    each = f", each of {lanes} instances" if lanes > 1 else ""
    held = f"{values:,} value{'s' if values != 1 else ''}"
    room = "" if math.isinf(buffer.capacity) else f" of {buffer.capacity:,.12g}"
    return f"{buffer.memory}{each}: {held} ({buffer.bits:,.12g}{room} bits), {buffer.tensor} {buffer.use}"


def plain_text(
    tensor: TensorVariable, program: Program
) -> tuple[tuple[Linear, ...], tuple[tuple[str, int, int], ...], Condition]:
    """Places of a written tensor, rank variables that reach all of it with first value and extent, and where."""
    for plain in program.plain:
        for name, _, indices in plain.outputs:
            if name == tensor.tensor:
                used = {v for index in indices for v in index.names} | names_in(plain.where)
                variables = tuple(v for v in plain.variables if v[0] in used)
                return program.places(tensor.tensor, indices), variables, plain.where
    raise LookupError(tensor.tensor)
