"""The nest around the register tile as C: one line, or one comment, for each node of the mapping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from einmap.emit.fast.layout import distance_times, times
from einmap.emit.fast.nest import Held, Loop, Nest, Packed
from einmap.emit.fast.print_tile import defined
from einmap.emit.printers.text import comment_safe, indented


def buffer_lines(nest: Nest) -> Iterator[str]:
    """Static arrays for the packed tiles, one for each core that has its own."""
    for packed in nest.packed.values():
        copies = "".join(f"[{loop.iterations}]" for loop in packed.cores)
        shown = comment_safe(str(packed.layout))
        yield f"static real {packed.buffer}{copies}[{packed.layout.size}] __attribute__((aligned(4096))); /* {shown} */"


def nest_lines(nest: Nest) -> Iterator[str]:
    """The function `nest`."""
    inputs = ", ".join(f"const {nest.stored} *restrict {nest.names[t]}" for t in nest.inputs)
    inputs += "".join(f", const real *restrict {nest.names[t]}" for t in nest.operands)
    yield f"void nest({inputs}, real *restrict {nest.names[nest.written]})"
    yield "{"
    yield from indented(steps_lines(nest, 0))
    yield "}"


def steps_lines(nest: Nest, at: int) -> Iterator[str]:
    """The nest from step `at` on."""
    if at == len(nest.steps):
        yield from _call(nest)
        return
    match nest.steps[at]:
        case Loop() as loop:
            yield from loop_lines(loop, steps_lines(nest, at + 1), even=nest.divides(loop))
        case Held() as held:
            yield from held_lines(nest, held)
            yield from steps_lines(nest, at + 1)


def loop_lines(loop: Loop, body: Iterable[str], *, even: bool) -> Iterator[str]:
    """A loop around a body; `even`: all its tiles have one size."""
    index, tile = loop.index, loop.tile
    if loop.lanes:
        yield "#pragma omp parallel for schedule(static)"
    shown = f"spatial-for {loop.variable} by {tile} on {loop.lanes}" if loop.lanes else f"for {loop.variable} by {tile}"
    stop = f"smaller({loop.end}, {loop.limit})" if loop.limit else loop.end
    yield f"for (long {index} = {loop.start}; {index} < {stop}; {index} += {tile}) {{ /* {comment_safe(shown)} */"
    end = f"{index} + {tile}" if even else f"smaller({index} + {tile}, {loop.end})"
    yield from indented(defined(loop.last, f"const long {loop.last} = {end};", list(body)))
    yield "}"


def held_lines(nest: Nest, held: Held) -> Iterator[str]:
    """The call that packs a tile at a storage node, or a comment."""
    shown = f"[{held.memory} holds {held.tensor}] {held.tensor} {'x'.join(map(str, held.shape))}"
    if held.packed is None:
        known = held.tensor in nest.packed
        yield f"/* {comment_safe(shown)}, {'in its packed tile' if known else 'in its place'} */"
        return
    packed = held.packed
    first = nest.origins.get(held.tensor, {})
    bounds = [(distance(first.get(v, "0"), s), distance(first.get(v, "0"), e)) for v, s, e in packed.bounds]
    ends = "".join(f", {start}, {end}" for start, end in bounds)
    name = nest.names[held.tensor]
    yield f"pack_{name}({_buffer(packed)}, {name}{ends}); /* {comment_safe(shown)} */"


def _buffer(packed: Packed) -> str:
    """The copy of the core that runs."""
    lanes = [f"[{_number(loop)}]" for loop in packed.cores]
    return packed.buffer + "".join(lanes)


def _number(loop: Loop) -> str:
    return distance_times(loop.index, loop.start, loop.tile, 1)


def _call(nest: Nest) -> Iterator[str]:
    """The register tile at its place."""
    tile, output = nest.tile, nest.names[nest.output]
    strides = nest.strides(nest.output)
    inputs = []
    for tensor in nest.inputs:
        if tensor in nest.in_place:
            inputs.append(_place(nest, tensor, nest.strides(tensor)))
            continue
        packed = nest.packed[tensor]
        first = packed.layout.first()
        inputs.append(_buffer(packed) + (f" + {first}" if first != "0" else ""))
    to = _place(nest, nest.written, strides)
    others = [_place(nest, t, nest.fused.strides(t)) for t in nest.operands] if nest.fused is not None else []
    rows = [str(strides[v]) for v, _ in tile.rows]
    sums = [distance(*nest.at[v]) for v, _ in tile.reduced]
    sums = [f"({n} + 1) / 2" if v == nest.paired else n for (v, _), n in zip(tile.reduced, sums, strict=True)]
    outside = dict.fromkeys(loop.variable for loop in nest.loops if loop.variable not in nest.ranks[nest.output])
    add = " || ".join(f"{nest.at[v][0]} > 0" for v in outside) or "0"
    final = []
    if nest.fused is not None:
        final = [" && ".join(f"{nest.at[v][1]} == {dict(nest.einsum.bounds)[v]}" for v in outside) or "1"]
    arguments = ", ".join([*inputs, *_next(nest), *others, to, *rows, *sums, add, *final])
    whole = "".join(f", {n}" for v, n in tile.rows if nest.window is None and nest.clamped(v))
    sizes = {**dict(tile.rows), tile.axis: tile.vectors * tile.lanes}
    rows = [f"{distance(*nest.at[v])} >= {n}" for v, n in tile.rows if v in nest.uneven]
    along = distance(*nest.at[tile.axis])
    counts = [tile.vectors, *reversed(nest.whole_parts)] if nest.has_parts else [tile.vectors]
    cases = []
    for count in counts:
        relation = ">=" if count == tile.vectors else "=="
        part = [f"{along} {relation} {count * tile.lanes}"] if tile.axis in nest.uneven else []
        text = f"{arguments}{whole}{f', {count}' if nest.has_parts else ''}"
        cases.append((" && ".join([*rows, *part]), f"tile_{output}({text});"))
    if nest.edge_parts:
        limits = [distance(*nest.at[v]) for v in sizes]
        cases.append(("", f"edge_{output}({arguments}, {', '.join(limits)});"))
    yield from _first_of(cases)


def _next(nest: Nest) -> Iterator[str]:
    """Where the values lie that a register tile fetches of the tile that is packed next: one line of each step."""
    if (ahead := nest.ahead) is None:
        return
    strides, mover, turns = nest.strides(ahead.tensor), ahead.mover, ahead.turns
    place = _place(nest, ahead.tensor, strides)
    step = f"({mover.index} + {mover.tile} < {mover.end} ? {mover.tile * strides[mover.variable]} : 0)"
    turn = distance_times(turns.index, turns.start, turns.tile, 1)
    part = [f"{turn} % {nest.tile.vectors} * {nest.tile.lanes}"] if nest.tile.vectors > 1 else []
    yield " + ".join([place, step, *part])


def _first_of(cases: list[tuple[str, str]]) -> Iterator[str]:
    """The line of the first case whose condition holds, as C; that of the last one where none does."""
    for number, (condition, line) in enumerate(cases):
        if len(cases) > 1:
            head = f"if ({condition})" if number < len(cases) - 1 else ""
            yield " ".join(filter(None, ["else" if number else "", head]))
        yield f"{'    ' if len(cases) > 1 else ''}{line}"


def _place(nest: Nest, tensor: str, strides: Mapping[str, int]) -> str:
    """Where the values of a register tile begin in a whole tensor with such strides."""
    return place_of(nest.names[tensor], nest.at, strides, nest.origins.get(tensor, {}))


def place_of(
    name: str, at: Mapping[str, tuple[str, str]], strides: Mapping[str, int], origins: Mapping[str, str]
) -> str:
    """Where values lie, as C; `at`: the first one of each rank variable, `origins`: the first one that is held."""
    places = []
    for variable, stride in strides.items():
        first = distance(origins.get(variable, "0"), at[variable][0])
        if first != "0":
            places.append(times(f"({first})" if " " in first else first, stride))
    return " + ".join([name, *reversed(places)])


def distance(start: str, end: str) -> str:
    """A distance between two places, as C."""
    return "0" if start == end else end if start == "0" else f"{end} - {start}"
