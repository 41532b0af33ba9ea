"""Packing of what lies across in memory: squares of as many values as a vector has lanes turn in registers."""

from __future__ import annotations

from collections.abc import Iterator

from einmap.emit.fast.nest import Nest, Packed
from einmap.emit.printers.text import comment_safe, indented


def turned_along(nest: Nest, packed: Packed) -> str:
    """The rank variable whose neighbours are neighbours in memory, while those of the packed tile are of another one.

    Empty where squares are not turned: the tile has no whole vectors, or memory no such rank variable among sums.
    """
    layout, strides = packed.layout, nest.strides(packed.tensor)
    if nest.narrow or not layout.steps or not layout.tile:
        return ""
    fast, size, _ = layout.tile[-1]
    if len(layout.tile) > 1 or strides[fast] == 1 or size % nest.tile.lanes:
        return ""
    variable = layout.steps[-1][0]
    return variable if strides[variable] == 1 else ""


def turn_lines(nest: Nest, packed: Packed) -> Iterator[str]:
    """The function that turns a square: in step s values whose places differ in the bit s change places."""
    lanes, name = nest.tile.lanes, nest.names[packed.tensor]
    fast, _, _ = packed.layout.tile[-1]
    _, _, to = packed.layout.steps[-1]
    source = nest.strides(packed.tensor)[fast]
    factor = f" * (real){nest.scale!r}" if nest.scaled == packed.tensor else ""
    yield f"/* Turns {lanes} x {lanes} values of {comment_safe(packed.tensor)}. */"
    yield f"static inline void turn_{name}(real *restrict to, const real *restrict from)"
    yield "{"
    yield "#if defined(turns)"
    yield f"    vec row[{lanes}];"
    yield f"    for (long i = 0; i < {lanes}; i++)"
    yield f"        row[i] = *(const loose *)(from + i * {source});"
    step = 1
    while step < lanes:
        first = [j if not j & step else lanes + j - step for j in range(lanes)]
        second = [j + step if not j & step else lanes + j for j in range(lanes)]
        yield f"    for (long i = 0; i < {lanes}; i++)"
        yield f"        if (!(i & {step})) {{"
        yield f"            const vec a = row[i], b = row[i + {step}];"
        for at, order in (("i", first), (f"i + {step}", second)):
            yield f"            row[{at}] = __builtin_shufflevector(a, b, {', '.join(map(str, order))});"
        yield "        }"
        step *= 2
    yield f"    for (long i = 0; i < {lanes}; i++)"
    yield f"        *(vec *)(to + i * {to}) = row[i]{factor};"
    yield "#else"
    yield f"    for (long i = 0; i < {lanes}; i++)"
    yield f"        for (long j = 0; j < {lanes}; j++)"
    yield f"            to[i * {to} + j] = from[j * {source} + i]{factor};"
    yield "#endif"
    yield "}"


def square_lines(nest: Nest, packed: Packed, variable: str, move: str) -> list[str]:
    """The loops over squares of one block, then over the sums behind them, one value at a time by `move`."""
    lanes, name = nest.tile.lanes, nest.names[packed.tensor]
    fast, size, _ = packed.layout.tile[-1]
    _, _, to = packed.layout.steps[-1]
    f, v = nest.names[fast], nest.names[variable]
    strides, outer = nest.strides(packed.tensor), packed.layout.steps[:-1]
    to_outer = "".join(f" + {nest.names[u]} * {stride}" for u, _, stride in outer)
    from_outer = "".join(f" + {nest.names[u]} * {strides[u]}" for u, _, _ in outer)
    there = f"values{from_outer} + {v} + {f} * {strides[fast]}"
    return [
        f"const long whole = n_{v} / {lanes} * {lanes};",
        f"for (long {v} = 0; {v} < whole; {v} += {lanes})",
        *indented([f"for (long {f} = 0; {f} < {size}; {f} += {lanes})"]),
        f"        turn_{name}(block{to_outer} + {v} * {to} + {f}, {there});",
        f"for (long {v} = whole; {v} < n_{v}; {v}++)",
        *indented([f"for (long {f} = 0; {f} < {size}; {f}++)", f"    {move}"]),
    ]


def macro_lines() -> Iterator[str]:
    """The macro `turns`, for compilers that shuffle vectors."""
    yield "#if defined(__has_builtin)"
    yield "#if __has_builtin(__builtin_shufflevector)"
    yield "#define turns"
    yield "#endif"
    yield "#endif"
