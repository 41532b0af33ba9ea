"""A cascade as C: the loops that its Einsums share, the nest of each product, a function for each pass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod

from einmap.einsum.operation import Reduction
from einmap.emit.fast.cascade import Cascade, Kept, Pass
from einmap.emit.fast.layout import distance_times, times
from einmap.emit.fast.nest import Held
from einmap.emit.fast.print_nest import buffer_lines, distance, held_lines, loop_lines, place_of, steps_lines
from einmap.emit.fast.print_tile import loops, pack_lines, tile_lines
from einmap.emit.fast.vector_maths import function_lines, map_lines
from einmap.emit.printers.text import comment_safe, indented
from einmap.mapping import nodes as tree
from einmap.mapping.nodes import Address

COMBINED: Mapping[Reduction, tuple[str, str, str]] = {
    "sum": ("{0} + {1}", "{0} + {1}", "0"),
    "max": ("vec_max({1}, {0})", "{0} > {1} || {0} != {0} ? {0} : {1}", "-INFINITY"),
    "min": ("vec_min({1}, {0})", "{0} < {1} || {0} != {0} ? {0} : {1}", "INFINITY"),
}
"""Two vectors, two numbers that are reduced to one, and what a reduction begins with."""
CHAINS = 4
"""Vectors that a reduction along the vectors keeps, so that none waits for the one before."""


def cascade_buffer_lines(cascade: Cascade) -> Iterator[str]:
    """Static arrays of tiles of intermediates and of packed tiles."""
    for kept in cascade.kept.values():
        if kept.over:
            continue
        copies = "".join(f"[{loop.iterations}]" for loop in kept.cores)
        size = prod(kept.shape)
        shown = comment_safe(" x ".join(map(str, kept.extents)) or "one value")
        yield f"static real {kept.buffer}{copies}[{size}] __attribute__((aligned(4096))); /* {shown} */"
    for nest in cascade.nests.values():
        yield from buffer_lines(nest)


def function_of_cascade_lines(cascade: Cascade) -> Iterator[str]:
    """Packing, register tiles and passes of all Einsums."""
    known: set[str] = set()
    for reduction in cascade.by_lanes:
        yield from function_lines([reduction] if reduction != "sum" else [], cascade.kind, known)
        yield from (*_of_lanes(reduction, cascade.lanes), "")
    for einsum in cascade.einsums:
        nest = cascade.nests.get(einsum.name)
        if nest is None:
            if einsum.name not in cascade.joined.values():
                second = cascade.passes.get(cascade.joined.get(einsum.name, ""))
                yield from (*_pass_lines(cascade, cascade.passes[einsum.name], second, known), "")
            continue
        for packed in nest.packed.values():
            yield from (*pack_lines(nest, packed), "")
        yield from (*tile_lines(nest), "")


def _of_lanes(reduction: Reduction, lanes: int) -> Iterator[str]:
    """The function that reduces the lanes of a vector: with those half as many further on, and so forth."""
    combined, number, _ = COMBINED[reduction]
    yield f"static inline real lanes_{reduction}(vec x)"
    yield "{"
    yield "#if defined(turns)"
    step = lanes // 2
    while step:
        order = ", ".join(str((lane + step) % lanes) for lane in range(lanes))
        yield f"    {'vec ' if step == lanes // 2 else ''}other = __builtin_shufflevector(x, x, {order});"
        yield f"    x = {combined.format('x', 'other')};"
        step //= 2
    yield "    return x[0];"
    yield "#else"
    yield "    real total = x[0];"
    yield f"    for (long lane = 1; lane < {lanes}; lane++) {{"
    yield "        const real value = x[lane];"
    yield f"        total = {number.format('total', 'value')};"
    yield "    }"
    yield "    return total;"
    yield "#endif"
    yield "}"


def cascade_lines(cascade: Cascade) -> Iterator[str]:
    """The function `nest`."""
    inputs = ", ".join(f"const real *restrict {cascade.names[t]}" for t in cascade.inputs)
    outputs = ", ".join(f"real *restrict {cascade.names[t]}" for t in cascade.outputs)
    yield f"void nest({inputs}, {outputs})"
    yield "{"
    yield from indented(_Printer(cascade).lines(tuple(e.name for e in cascade.einsums), 0))
    yield "}"


class _Printer:
    """Goes down the mapping with the Einsums that are below a node."""

    def __init__(self, cascade: Cascade) -> None:
        self.cascade = cascade
        self.paths = cascade.schedule.mapping.path_of

    def lines(self, names: tuple[str, ...], position: int) -> Iterator[str]:
        """The nodes from a position on."""
        first = names[0]
        if len(names) == 1:
            yield from self._branch(first, position)
            return
        placed = self.paths[first][position]
        for state in self.cascade.beginnings.get(placed.address, ()):
            yield from self._zeros(self.cascade.kept[state])
        match placed.node:
            case tree.Split():
                branches: dict[Address, list[str]] = {}
                for name in names:
                    branches.setdefault(self.paths[name][position + 1].address[:-1], []).append(name)
                for branch in branches.values():
                    if branch[0] not in self.cascade.joined.values():  # else it is computed with the one before
                        yield from self.lines(tuple(branch), position + 1)
            case tree.Temporal() | tree.Spatial() if placed.address in self.cascade.loops:
                loop = self.cascade.loops[placed.address]
                even = placed.address not in self.cascade.uneven
                yield from loop_lines(loop, self.lines(names, position + 1), even=even)
            case tree.Storage():
                for tensor in placed.node.tensors:
                    yield from self._held(placed.address, placed.node.component, tensor, names)
                yield from self.lines(names, position + 1)
            case _:
                yield from self.lines(names, position + 1)

    def _held(self, node: Address, memory: str, tensor: str, names: tuple[str, ...]) -> Iterator[str]:
        kept = self.cascade.kept.get(tensor)
        if kept is not None and kept.node == node:
            yield self._tile(kept)
            return
        for name in names:
            nest = self.cascade.nests.get(name)
            for step, address in zip(nest.steps, nest.nodes, strict=True) if nest is not None else ():
                if isinstance(step, Held) and (step.tensor, address) == (tensor, node):
                    assert nest is not None
                    yield from held_lines(nest, step)
                    return
        yield f"/* {comment_safe(f'[{memory} holds {tensor}]')}, in its place */"

    def _zeros(self, kept: Kept) -> Iterator[str]:
        """Lines that make a state 0, as it is before the first step."""
        yield f"for (long i = 0; i < {prod(kept.shape)}; i++) /* {comment_safe(kept.tensor)} before the first step */"
        yield f"    {kept.buffer}{self._lanes(kept)}[i] = 0;"

    def _lanes(self, kept: Kept) -> str:
        """The copy of the core that runs."""
        return "".join(f"[{distance_times(loop.index, loop.start, loop.tile, 1)}]" for loop in kept.cores)

    def _tile(self, kept: Kept) -> str:
        name = self.cascade.names[kept.tensor]
        lanes = self._lanes(kept)
        shape = "x".join(map(str, kept.extents)) or "one value"
        over = f", over {kept.over}" if kept.over else ""
        shown = comment_safe(f"[{kept.memory} holds {kept.tensor}] {kept.tensor} {shape}{over}")
        return f"real *const {name} = {kept.buffer}{lanes}; /* {shown} */"

    def _branch(self, name: str, position: int) -> Iterator[str]:
        """The rest of a path of one Einsum: of a product its nest, else the call of a pass, maybe of two Einsums."""
        second = self.cascade.joined.get(name)
        for placed in (*self.paths[name][position:], *(self.paths[second][position:] if second else ())):
            if isinstance(placed.node, tree.Storage):
                for tensor in placed.node.tensors:
                    kept = self.cascade.kept.get(tensor)
                    if kept is not None and kept.node == placed.address:
                        yield self._tile(kept)
        nest = self.cascade.nests.get(name)
        yield f"/* {comment_safe(f'{name}, {second}' if second else name)} */"
        if nest is None:
            yield self._call(self.cascade.passes[name], self.cascade.passes[second] if second else None)
            return
        above = {placed.address for placed in self.paths[name][:position]}
        start = sum(address in above for address in nest.nodes)
        yield from steps_lines(nest, start)

    def _call(self, p: Pass, second: Pass | None) -> str:
        names = self.cascade.names
        places = []
        for tensor, of in _tensors(p, second).items():
            places.append(place_of(names[tensor], of.at, of.strides[tensor], of.origins.get(tensor, {})))
        counts = [distance(*p.at[v]) for v in _variables(p)]
        last = second or p
        if (bound := p.bound) is not None:
            counts.append(f"{p.at[bound.row][0]} + {bound.more + 1} - {p.at[bound.variable][0]}")
        add = [" || ".join(f"{last.at[v][0]} > 0" for v in last.split)] if last.split else []
        return f"{_function(self.cascade, p, second)}({', '.join([*places, *counts, *add])});"


def _variables(p: Pass) -> tuple[str, ...]:
    return (*p.outer, *p.reduced, p.axis)


def _tensors(p: Pass, second: Pass | None) -> dict[str, Pass]:
    """Tensors of a pass in the order of its arguments: inputs, then outputs; each with the one of both that has it."""
    both = (p,) if second is None else (p, second)
    outputs = {of.output: of for of in both}
    return {t: of for of in both for t in of.inputs if t not in outputs} | outputs


def _function(cascade: Cascade, p: Pass, second: Pass | None) -> str:
    return f"pass_{cascade.names[p.output]}{f'_{cascade.names[second.output]}' if second else ''}"


def _pass_lines(cascade: Cascade, p: Pass, second: Pass | None, known: set[str]) -> Iterator[str]:
    """The function of a pass, after the maps of its values; `second`: a reduction of what `p` maps, in that pass."""
    names = cascade.names
    both = (p,) if second is None else (p, second)
    yield from function_lines([o.reduction for o in both if not o.is_map and o.reduction != "sum"], cascade.kind, known)
    for of in both:
        parameters = {t: f"x{n + 1}" for n, t in enumerate(of.inputs)}
        yield from map_lines(f"value_{names[of.output]}", of.expression, parameters, cascade.kind, known)
        yield ""
    outputs = {of.output for of in both}
    overwritten = {kept.over for t in outputs if (kept := cascade.kept.get(t)) is not None}
    own = "real *" if overwritten & {*p.inputs} else "real *restrict "
    arguments = [f"{own if t in outputs else 'const real *'}{names[t]}" for t in _tensors(p, second)]
    counts = [f"const long n_{names[v]}" for v in _variables(p)]
    counts += ["const long limit"] if p.bound is not None else []
    add = ["const int add"] if both[-1].split else []
    for of in both:
        shown = "" if of.is_map else f", reduced by {of.reduction}"
        yield f"/* {comment_safe(str(of.einsum.name))} = {comment_safe(str(of.einsum.operation))}: vectors along"
        yield f" * {comment_safe(of.axis)}{shown}. */"
    yield f"static inline void {_function(cascade, p, second)}({', '.join([*arguments, *counts, *add])})"
    yield "{"
    last = both[-1]
    body = list(_along(cascade, last) if last.along else _across(cascade, last, p if second else None))
    if p.bound is not None:
        body = list(_bounded(cascade, p, body))
    yield from indented(loops([(names[v], f"n_{names[v]}") for v in p.outer], ["{", *indented(body), "}"]))
    yield "}"


def _bounded(cascade: Cascade, p: Pass, body: list[str]) -> Iterator[str]:
    """A row that ends at its bound; what is mapped is 0 behind it."""
    assert p.bound is not None
    row, axis = cascade.names[p.bound.row], cascade.names[p.axis]
    yield f"const long inside = limit + {row} < 0 ? 0 : smaller(n_{axis}, limit + {row});"
    yield from (re.sub(rf"\bn_{axis}\b", "inside", line) for line in body)
    if p.is_map:
        yield f"for (long {axis} = inside; {axis} < n_{axis}; {axis}++)"
        yield f"    {cascade.names[p.output]}[{_place(cascade, p, p.output, axis)}] = 0;"


def _place(cascade: Cascade, p: Pass, tensor: str, along: str) -> str:
    """Where a value lies, as C; `along`: the place along the axis."""
    parts = [times(along if v == p.axis else cascade.names[v], s) for v, s in p.strides[tensor].items()]
    return " + ".join(parts) or "0"


def _value(cascade: Cascade, p: Pass, along: str, *, vector: bool, known: str = "") -> str:
    """The map of values at a place along the axis: of a vector of them, or of one, spread over a vector.

    `known`: the tensor whose values are there already, as `mapped`.
    """
    arguments = []
    for tensor in p.inputs:
        if tensor == known:
            arguments.append("mapped")
            continue
        name, where = cascade.names[tensor], _place(cascade, p, tensor, along)
        is_vector = vector and p.axis in p.strides[tensor]
        arguments.append(f"*(const loose *)({name} + {where})" if is_vector else f"(vec){{0}} + {name}[{where}]")
    return f"value_{cascade.names[p.output]}({', '.join(arguments)})"


def _along(cascade: Cascade, p: Pass) -> Iterator[str]:
    """Values whose neighbours in the output are lanes; what is reduced is combined vector by vector."""
    names, axis, name = cascade.names, cascade.names[p.axis], cascade.names[p.output]
    lanes, n = "(long)(sizeof(vec) / sizeof(real))", f"n_{cascade.names[p.axis]}"
    here = _place(cascade, p, p.output, axis)
    vector, one = f"*(loose *)({name} + {here})", f"{name}[{here}]"
    values = _value(cascade, p, axis, vector=True), f"{_value(cascade, p, axis, vector=False)}[0]"
    yield f"const long whole = {n} / {lanes} * {lanes};"
    combined, number, first = COMBINED[p.reduction]
    if not p.reduced:
        body = [values[0], values[1]]
    else:
        if p.split:
            yield "if (!add)"
        yield from loops([(axis, n)], [f"{'    ' if p.split else ''}{one} = {first};"])
        body = [combined.format(vector, values[0]), number.format(one, "value")]
    scalar = f"{one} = {body[1]};" if not p.reduced else f"{{ const real value = {values[1]}; {one} = {body[1]}; }}"
    lines = [
        f"for (long {axis} = 0; {axis} < whole; {axis} += {lanes})",
        f"    {vector} = {body[0]};",
        f"for (long {axis} = whole; {axis} < {n}; {axis}++)",
        f"    {scalar}",
    ]
    yield from loops([(names[v], f"n_{names[v]}") for v in p.reduced], lines) if p.reduced else lines


def _across(cascade: Cascade, p: Pass, before: Pass | None) -> Iterator[str]:
    """Vectors along what is reduced: several, then their lanes are combined, then the values behind the last vector.

    `before`: a map whose values are computed and written first, vector by vector.
    """
    names, axis, name = cascade.names, cascade.names[p.axis], cascade.names[p.output]
    lanes, n = "(long)(sizeof(vec) / sizeof(real))", f"n_{cascade.names[p.axis]}"
    _, number, first = COMBINED[p.reduction]
    here = _place(cascade, p, p.output, "")
    yield f"vec kept[{CHAINS}];"
    yield from loops([("part", CHAINS)], [f"kept[part] = (vec){{0}} + (real){first};"])
    yield f"real total = {f'add ? {name}[{here}] : (real){first}' if p.split else f'(real){first}'};"
    steps = [
        f"long {axis} = 0;",
        f"for (; {axis} + {CHAINS} * {lanes} <= {n}; {axis} += {CHAINS} * {lanes})",
        *indented(loops([("part", CHAINS)], _combined(cascade, p, before, "kept[part]", f"({axis} + part * {lanes})"))),
        f"for (; {axis} + {lanes} <= {n}; {axis} += {lanes})",
        *indented(loops([], _combined(cascade, p, before, "kept[0]", axis))),
        f"for (; {axis} < {n}; {axis}++) {{",
        *indented(_mapped(cascade, before, axis, vector=False)),
        f"    const real value = {_value(cascade, p, axis, vector=False, known=_output(before))}[0];",
        f"    total = {number.format('total', 'value')};",
        "}",
    ]
    yield from (
        loops([(names[v], f"n_{names[v]}") for v in p.reduced], ["{", *indented(steps), "}"]) if p.reduced else steps
    )
    yield f"for (long part = 1; part < {CHAINS}; part++)"
    yield f"    kept[0] = {COMBINED[p.reduction][0].format('kept[0]', 'kept[part]')};"
    yield f"const real value = lanes_{p.reduction}(kept[0]);"
    yield f"{name}[{here}] = {number.format('total', 'value')};"


def _combined(cascade: Cascade, p: Pass, before: Pass | None, kept: str, along: str) -> list[str]:
    """Lines that reduce a vector into `kept`."""
    value = _value(cascade, p, along, vector=True, known=_output(before))
    combined = COMBINED[p.reduction][0].format(kept, value)
    return [*_mapped(cascade, before, along, vector=True), f"{kept} = {combined};"]


def _mapped(cascade: Cascade, p: Pass | None, along: str, *, vector: bool) -> list[str]:
    """Lines that map a vector of values, or one that is spread over a vector, and write it; none without a map."""
    if p is None:
        return []
    place = f"{cascade.names[p.output]} + {_place(cascade, p, p.output, along)}"
    value = f"const vec mapped = {_value(cascade, p, along, vector=vector)};"
    return [value, f"*(loose *)({place}) = mapped;" if vector else f"*({place}) = mapped[0];"]


def _output(p: Pass | None) -> str:
    return "" if p is None else p.output
