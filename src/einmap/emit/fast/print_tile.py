"""The register tile as C, and the functions that pack tiles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from einmap.emit.fast.layout import distance_times, times
from einmap.emit.fast.narrow import widened
from einmap.emit.fast.nest import MOST_UNROLLED, Nest, Packed, Side, Window
from einmap.emit.fast.turn import square_lines, turn_lines, turned_along
from einmap.emit.fast.vector_maths import map_lines
from einmap.emit.printers.text import INDENT, comment_safe, indented

FEATURES = {64: "__AVX512F__", 32: "__AVX__", 16: "__SSE__"}
"""The feature that a processor must have to hold a vector of so many bytes in a register that assembly names."""


def register_lines(size: int) -> Iterator[str]:
    """The macro that keeps a vector of `size` bytes in a register, empty on other processors."""
    yield "/* Keeps a vector in a register; else GCC may read it from memory again for each row of a register tile. */"
    yield f"#if defined({FEATURES.get(size, '__NONE__')})"
    yield '#define in_register(vector) __asm__("" : "+v"(vector))'
    yield "#else"
    yield "#define in_register(vector)"
    yield "#endif"


def unrolled_lines() -> Iterator[str]:
    """The macro that has a loop of few turns written out, whatever limits the compiler sets itself."""
    yield "#if defined(__clang__)"
    yield '#define unrolled _Pragma("clang loop unroll(full)")'
    yield "#else"
    yield f'#define unrolled _Pragma("GCC unroll {MOST_UNROLLED}")'
    yield "#endif"


def tile_lines(nest: Nest) -> Iterator[str]:
    """The functions `tile_` (full register tiles) and, where there are others, `edge_`.

    Where full tiles read a window of an image once, those that are cut off are computed by a function `part_`.
    """
    tile, output, window = nest.tile, nest.names[nest.output], nest.window
    shown = " x ".join(f"{n} {v}" for v, n in tile.sizes)
    inside = ", ".join(v for v, _ in tile.sizes)
    done = ""
    if nest.fused is not None:
        names = {nest.fused.product: "x1"} | {t: f"x{n + 2}" for n, t in enumerate(nest.operands)}
        done = f" `final`: they are all in, and {comment_safe(nest.fused.einsum.name)} is computed."
        yield f"/* {comment_safe(nest.fused.einsum.name)}: {comment_safe(str(nest.fused.einsum.operation))} */"
        yield from map_lines("map_values", nest.fused.expression, names, nest.kind)
        yield ""
    next_tile = f" `next`: what is packed next of {comment_safe(nest.ahead.tensor)}." if nest.ahead is not None else ""
    yield f"/* [{comment_safe(tile.memory)} holds {comment_safe(nest.output)}]: {comment_safe(shown)}, in vectors of"
    yield f" * {tile.lanes} {comment_safe(tile.axis)}. Inside for {comment_safe(_inside(nest))}; loops over"
    yield f" * {comment_safe(inside)} are unrolled. `add`: sums are added to what is there.{done}{next_tile} */"
    head = "static inline __attribute__((always_inline)) void"
    yield f"{head} tile_{output}({', '.join(_arguments(nest, window is None))})"
    yield "{"
    yield from indented(_tile_body(nest) if window is None else _window_body(nest, window))
    yield "}"
    if nest.edge_parts:
        yield ""
        if window is not None:
            yield f"{head} part_{output}({', '.join(_arguments(nest))})"
            yield "{"
            yield from indented(_tile_body(nest))
            yield "}"
            yield ""
        yield from _edge_lines(nest)


def _inside(nest: Nest) -> str:
    return ", ".join(f"{v} by {2 if v == nest.paired else 1}" for v, _ in nest.tile.reduced) or "no sums"


def _arguments(nest: Nest, clamped: bool = True) -> list[str]:
    inputs = [f"const real *restrict {nest.names[t]}" for t in nest.inputs]
    rows = [f"const long to_{nest.names[v]}" for v, _ in nest.tile.rows]
    steps = [f"const long n_{nest.names[v]}" for v, _ in nest.tile.reduced]
    most = [f"const long most_{nest.names[v]}" for v, _ in nest.tile.rows if clamped and nest.clamped(v)]
    others = [f"const real *{nest.names[t]}" for t in nest.operands]
    final = ["const int final"] if nest.fused is not None else []
    parts = ["const long parts"] if nest.has_parts else []
    ahead = ["const real *next"] if nest.ahead is not None else []
    return [*inputs, *ahead, *others, "real *restrict to", *rows, *steps, "const int add", *final, *most, *parts]


def _tile_body(nest: Nest) -> Iterator[str]:
    tile = nest.tile
    rows = [(nest.names[v], n) for v, n in tile.rows]
    dimensions = "".join(f"[{n}]" for _, n in rows) + f"[{tile.vectors}]"
    at = "".join(f"[{v}]" for v, _ in rows) + "[part]"
    place = "".join(f"{v} * to_{v} + " for v, _ in rows) + f"part * {tile.lanes}"
    parts = ("part", "parts" if nest.has_parts else tile.vectors)
    unrolled = [*rows, parts]
    stays = ""
    if rows and nest.fits_registers:
        stays = " in_register({0}_row[part]);"
    yield f"vec sum{dimensions};"
    yield from loops(unrolled, [f"__builtin_prefetch(to + {place}, 1);", f"sum{at} = (vec){{0}};"])
    body = list(_fetched(nest))
    factors = []
    for tensor in nest.inputs:
        name, vec = nest.names[tensor], "loose" if tensor in nest.in_place else "vec"
        where = " + ".join(times(_row(nest, tensor, v), s) for v, s in _strides(nest, tensor).items())
        if tile.axis not in nest.ranks[tensor]:
            factors.append(f"{name}[{where or '0'}]")
            continue
        if any(v in nest.ranks[tensor] for v, _ in tile.rows):
            factors.append(f"*(const {vec} *)({name} + {where} + part * {tile.lanes})")
            continue
        body.append(f"vec {name}_row[{tile.vectors}];")
        load = f"{name}_row[part] = *(const {vec} *)({name} + {where + ' + ' if where else ''}part * {tile.lanes});"
        body.extend(loops([parts], [f"{{ {load}{stays.format(name)} }}" if stays else load]))
        factors.append(f"{name}_row[part]")
    if nest.real == "int":
        spread = [
            f if tile.axis in nest.ranks[t] else f"(vec){{0}} + {f}" for t, f in zip(nest.inputs, factors, strict=True)
        ]
        body.extend(loops(unrolled, [f"sum{at} = multiply_add(sum{at}, {', '.join(spread)});"]))
    else:
        body.extend(loops(unrolled, [f"sum{at} += {' * '.join(factors)};"]))
    for variable, _ in reversed(tile.reduced):
        v = nest.names[variable]
        body = [f"for (long {v} = 0; {v} < n_{v}; {v}++) {{", *indented(body), "}"]
    yield from body if tile.reduced else ["{", *indented(body), "}"]
    yield from _ending(nest, unrolled, f"sum{at}", place)


def _fetched(nest: Nest) -> Iterator[str]:
    """The line that fetches what is packed next into a cache of the core, while this tile is computed."""
    if nest.ahead is not None:
        strides = nest.strides(nest.ahead.tensor)
        steps = [times(nest.names[v], strides[v]) for v, _ in nest.tile.reduced if v in strides]
        yield f"__builtin_prefetch({' + '.join(['next', *steps])}, 0, 2);"


def _ending(nest: Nest, unrolled: Sequence[tuple[str, object]], value: str, place: str) -> Iterator[str]:
    """Sums are scaled, mapped and written; `value`: one of them, `place`: where it goes, as C."""
    if nest.scale != 1 and not nest.scaled:
        yield from loops(unrolled, [f"{value} *= (real){nest.scale!r};"])
    if nest.fused is not None:
        here = f"*(loose *)(to + {place})"
        for condition, total in (("if (final && add)", f"{value} + {here}"), ("else if (final)", value)):
            yield condition
            values = ", ".join([total, *_operands(nest, f"part * {nest.tile.lanes}")])
            yield from indented(loops(unrolled, [f"{here} = map_values({values});"]))
        yield "else if (add)"
    else:
        yield "if (add)"
    yield from indented(loops(unrolled, [f"*(loose *)(to + {place}) += {value};"]))
    yield "else"
    yield from indented(loops(unrolled, [f"*(loose *)(to + {place}) = {value};"]))


def _window_body(nest: Nest, window: Window) -> Iterator[str]:
    """A register tile, one vector along its axis after another: each value of a window is read once for all sums."""
    tile, name = nest.tile, nest.names
    rows = [(name[v], n) for v, n in tile.rows]
    at, along = "".join(f"[{v}]" for v, _ in rows), f"part * {tile.lanes}"
    place = "".join(f"{v} * to_{v} + " for v, _ in rows) + along
    lines = [f"vec sum{''.join(f'[{n}]' for _, n in rows)};"]
    lines += loops(rows, [f"__builtin_prefetch(to + {place}, 1);", f"sum{at} = (vec){{0}};"], "unrolled ")
    taps = [(name[side.tap], side.taps) for side in window.sides if side.tap]
    strides = {name[v]: stride for v, stride in _strides(nest, window.taps).items()}
    tap = f"*(const vec *)({' + '.join([name[window.taps], *(times(v, strides[v]) for v, _ in taps), along])})"
    if window.kept:
        kept = f"{name[window.taps]}_row{''.join(f'[{v}]' for v, _ in taps)}"
        lines.append(f"vec {name[window.taps]}_row{''.join(f'[{n}]' for _, n in taps)};")
        lines += loops(taps, [f"{kept} = {tap};", f"in_register({kept});"], "unrolled ")
        tap = kept
    outer = [_passed(nest, side) for side in window.sides]
    value = " + ".join([name[window.image], *(times(v, step) for v, _, step in outer), along])
    inner = [(name[side.tap], side.taps) for side in window.sides if side.row and side.tap]
    where = {name[side.row]: _reached(nest, side) for side in window.sides if side.row}
    add = [f"sum{''.join(f'[{where[v][0]}]' for v, _ in rows)} += value * {tap};"]
    if conditions := " && ".join(filter(None, (condition for _, condition in where.values()))):
        add = [f"if ({conditions})", *indented(add)]
    body = [f"vec value = *(const loose *)({value});", "in_register(value);", *loops(inner, add, "unrolled ")]
    lines += loops([(v, n) for v, n, _ in outer], body, "unrolled ")
    lines += _ending(nest, [*rows], f"sum{at}", place)
    yield f"for (long part = 0; part < {'parts' if nest.has_parts else tile.vectors}; part++) {{"
    yield from indented(lines)
    yield "}"


def _passed(nest: Nest, side: Side) -> tuple[str, int, int]:
    """The loop along a side of a window: its variable, turns, and values from one turn to the next."""
    if side.row and side.tap:
        return f"at_{nest.names[side.row]}", side.size, side.stride
    if side.row:
        return nest.names[side.row], side.rows, side.stride * side.by
    return nest.names[side.tap], side.taps, side.stride * side.apart


def _reached(nest: Nest, side: Side) -> tuple[str, str]:
    """The row of the tile that a place of a window belongs to with a tap, and the condition that there is one, as C."""
    row = nest.names[side.row]
    if not side.tap:
        return row, ""
    distance = f"at_{row} - {times(nest.names[side.tap], side.apart)}"
    number = distance if side.by == 1 else f"({distance}) / {side.by}"
    is_row = "" if side.by == 1 else f" && ({distance}) % {side.by} == 0"
    return number, f"{distance} >= 0{is_row} && {number} < {side.rows}"


def _operands(nest: Nest, along: str) -> Iterator[str]:
    """Operands of the fused map, read as vectors; `along`: the place along the axis, as C.

    Without one, `""`, the value at the index of the axis is spread over a vector.
    """
    for tensor in nest.operands:
        assert nest.fused is not None
        strides, axis = nest.fused.strides(tensor), nest.tile.axis
        parts = [times(nest.names[v], s) for v, s in strides.items() if v in dict(nest.tile.rows)]
        parts += [along or nest.names[axis]] if axis in strides else []
        where = " + ".join(parts) or "0"
        is_vector = axis in strides and along
        name = nest.names[tensor]
        yield f"*(const loose *)({name} + {where})" if is_vector else f"(vec){{0}} + {name}[{where}]"


def _strides(nest: Nest, tensor: str) -> dict[str, int]:
    """Values from one row, or one step of a sum, to the next, as the register tile reads them."""
    inside = [v for v, _ in (*nest.tile.reduced, *nest.tile.rows)]
    if tensor in nest.in_place:
        strides = nest.strides(tensor)
        return {v: strides[v] for v in inside if v in strides}
    layout = nest.packed[tensor].layout
    return {v: stride for v, _, stride in (*layout.steps, *layout.tile) if v != nest.tile.axis}


def _row(nest: Nest, tensor: str, variable: str) -> str:
    """A row of the tile; behind the last row of what is read in place that row again."""
    v = nest.names[variable]
    return f"smaller({v}, most_{v} - 1)" if tensor in nest.in_place and nest.clamped(variable) else v


def _edge_lines(nest: Nest) -> Iterator[str]:
    """A tile that is cut off: it is computed in full beside the output, and its values are brought there."""
    tile, output = nest.tile, nest.names[nest.output]
    width = tile.vectors * tile.lanes
    rows = [(nest.names[v], n) for v, n in tile.rows]
    axis = nest.names[tile.axis]
    strides, size = dict[str, int](), width
    for v, n in reversed(rows):
        strides[v], size = size, size * n
    arguments = [a for a in _arguments(nest) if not a.startswith("const long most_") and a != "const long parts"]
    limits = [f"const long most_{v}" for v, _ in (*rows, (axis, 0))]
    steps = [f"n_{nest.names[v]}" for v, _ in tile.reduced]
    inputs = [nest.names[t] for t in nest.inputs]
    function = "tile" if nest.window is None else "part"
    yield "/* A tile at an edge: its vectors are computed in full beside the output, and what is in it goes there. */"
    yield f"static __attribute__((noinline)) void edge_{output}({', '.join([*arguments, *limits])})"
    yield "{"
    body = [f"real part[{size}] __attribute__((aligned(64)));"]
    most = [f"most_{nest.names[v]}" for v, _ in tile.rows if nest.clamped(v)]
    others = [nest.names[t] for t in nest.operands]
    final = [] if nest.fused is None else ["0"]
    ahead = ["next"] if nest.ahead is not None else []
    call = [*inputs, *ahead, *others, "part", *(str(strides[v]) for v, _ in rows), *steps, "0", *final, *most]
    *fewer, last = nest.edge_parts
    for count in fewer:
        body += [
            f"if (most_{axis} <= {count * tile.lanes})",
            f"    {function}_{output}({', '.join([*call, str(count)])});",
            "else",
        ]
    indent = "    " if fewer else ""
    body.append(f"{indent}{function}_{output}({', '.join([*call, *([str(last)] if nest.has_parts else [])])});")
    there = " + ".join([*(f"{v} * to_{v}" for v, _ in rows), axis])
    here = " + ".join([*(f"{v} * {strides[v]}" for v, _ in rows), axis])
    value = f"add ? to[{there}] + part[{here}] : part[{here}]"
    move = [f"to[{there}] = {value};"]
    if nest.fused is not None:
        values = ", ".join(["value", *_operands(nest, "")])
        move = [
            f"const vec value = (vec){{0}} + ({value}), mapped = final ? map_values({values}) : value;",
            f"to[{there}] = mapped[0];",
        ]
    ends = [(v, f"most_{v}") for v, _ in (*rows, (axis, 0))]
    body.extend(loops(ends, move))
    yield from indented(body)
    yield "}"


def pack_lines(nest: Nest, packed: Packed) -> Iterator[str]:
    """The function that copies a tile of an input into the order of its layout; nothing is written beside the tile.

    All cores pack, each some of the outermost blocks, where loops over cores are further in.
    """
    tensor, layout = packed.tensor, packed.layout
    name = nest.names[tensor]
    if turned_along(nest, packed):
        yield from (*turn_lines(nest, packed), "")
    scaled = f", times {nest.scale!r}" if nest.scaled == tensor else ""
    yield f"/* Packs {comment_safe(tensor)}{scaled}: {comment_safe(str(layout))}. */"
    ends = [f"const long {nest.names[v]}_{end}" for v, _, _ in packed.bounds for end in ("first", "last")]
    inputs = "".join(", " + e for e in ends)
    yield f"static void pack_{name}(real *restrict to, const {nest.stored} *restrict from{inputs})"
    yield "{"
    now = {v: f"{nest.names[v]}_first" for v, _, _ in packed.bounds}
    stop = {v: f"{nest.names[v]}_last" for v, _, _ in packed.bounds}
    openings, places = list[tuple[str, str, str]](), list[str]()
    for depth, (block, stride) in enumerate(layout.blocks):
        v, tile = block.variable, block.tile
        index = f"{nest.names[v]}{depth}_block"
        last, limit = f"{index}_last", stop[v]
        opening = f"for (long {index} = {now[v]}; {index} < {limit}; {index} += {tile}) {{"
        if depth == 0 and nest.is_shared(packed):
            opening = f"#pragma omp parallel for schedule(static)\n{opening}"
        openings.append((opening, last, f"const long {last} = smaller({index} + {tile}, {limit});"))
        places.append(distance_times(index, now[v], tile, stride))
        now[v], stop[v] = index, last
    lines = list(_line_loops(nest, packed, now, stop, places))
    for opening, last, definition in reversed(openings):
        inside = defined(last, definition, lines)
        lines = [*opening.splitlines(), *indented(inside), "}"]
    yield from indented(lines)
    yield "}"


def defined(name: str, definition: str, lines: list[str]) -> list[str]:
    """Lines with a definition before them, if they use its name."""
    return [definition, *lines] if any(re.search(rf"\b{name}\b", line) for line in lines) else lines


def _line_loops(
    nest: Nest, packed: Packed, now: dict[str, str], stop: dict[str, str], places: list[str]
) -> Iterator[str]:
    """Loops over the sums inside the register tile and over the tile, the last one with a fixed number of values."""
    layout, strides = packed.layout, nest.strides(packed.tensor)
    outer = [*layout.steps, *layout.tile]
    source = [times(now[v], strides[v]) for v, _, _ in packed.bounds]
    yield f"real *block = {' + '.join(['to', *places])};"
    yield f"const {nest.stored} *values = from + {' + '.join(source)};"
    if not outer:
        yield f"*block = {_packed_value(nest, packed, '*values', '')};"
        return
    *lines, (fast, size, stride) = outer
    f = nest.names[fast]
    here = " + ".join([*(times(nest.names[v], s) for v, _, s in lines), times(f, stride)])
    steps = {v: strides[v] * (2 if v == nest.paired else 1) for v, _, _ in outer}
    there = " + ".join(times(nest.names[v], step) for v, step in steps.items())
    counts = {v: f"{stop[v]} - {now[v]}" for v, _, _ in outer}
    second = ""
    if (v := nest.paired) in counts:
        second = f"2 * {nest.names[v]} + 1 < {counts[v]} ? values[{there} + {strides[v]}] : 0"
        counts[v] = f"({counts[v]} + 1) / 2"
    move = f"block[{here}] = {_packed_value(nest, packed, f'values[{there}]', second)};"
    body = [
        f"if (n_{f} == {size})",
        *indented([f"for (long {f} = 0; {f} < {size}; {f}++)", f"{INDENT}{move}"]),
        "else",
        *indented([f"for (long {f} = 0; {f} < n_{f}; {f}++)", f"{INDENT}{move}"]),
    ]
    yield f"const long n_{f} = {counts[fast]};"
    if (along := turned_along(nest, packed)) and lines.pop():
        v = nest.names[along]
        yield f"const long n_{v} = {counts[along]};"
        body = [
            f"if (n_{f} == {size}) {{",
            *indented(square_lines(nest, packed, along, move)),
            "} else",
            *indented(loops([(v, f"n_{v}"), (f, f"n_{f}")], [move])),
        ]
    for variable, _, _ in reversed(lines):
        v = nest.names[variable]
        body = [f"for (long {v} = 0; {v} < {counts[variable]}; {v}++) {{", *indented(body), "}"]
    yield from body


def _packed_value(nest: Nest, packed: Packed, value: str, second: str) -> str:
    """A value, as C, as it is packed; `second`: the other one of its pair, empty for none."""
    if nest.scaled == packed.tensor:
        return f"{widened(nest, value)} * (real){nest.scale!r}"
    return f"pair({value}, {second or '0'})" if nest.real == "int" else widened(nest, value)


def loops(variables: Iterable[tuple[str, object]], body: list[str], before: str = "") -> list[str]:
    """Nested loops from 0 around a body. `before`: a macro before each of them."""
    lines = body if len(body) == 1 else ["{", *indented(body), "}"]
    for v, n in reversed(list(variables)):
        lines = [f"{before}for (long {v} = 0; {v} < {n}; {v}++)", *indented(lines)]
    return lines
