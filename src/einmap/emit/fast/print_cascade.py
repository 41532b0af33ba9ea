"""A cascade as C: the loops that its Einsums share, the nest of each product, a function for each pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
        copies = "".join(f"[{loop.iterations}]" for loop in kept.cores)
        size = 1
        for extent in kept.shape:
            size *= extent
        shown = comment_safe(" x ".join(map(str, kept.extents)) or "one value")
        yield f"static real {kept.buffer}{copies}[{size}] __attribute__((aligned(4096))); /* {shown} */"
    for nest in cascade.nests.values():
        yield from buffer_lines(nest)


def function_of_cascade_lines(cascade: Cascade) -> Iterator[str]:
    """Packing, register tiles and passes of all Einsums."""
    known: set[str] = set()
    for einsum in cascade.einsums:
        nest = cascade.nests.get(einsum.name)
        if nest is None:
            yield from (*_pass_lines(cascade, cascade.passes[einsum.name], known), "")
            continue
        for packed in nest.packed.values():
            yield from (*pack_lines(nest, packed), "")
        yield from (*tile_lines(nest), "")


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
        match placed.node:
            case tree.Split():
                branches: dict[Address, list[str]] = {}
                for name in names:
                    branches.setdefault(self.paths[name][position + 1].address[:-1], []).append(name)
                for branch in branches.values():
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

    def _tile(self, kept: Kept) -> str:
        name = self.cascade.names[kept.tensor]
        lanes = "".join(f"[{distance_times(loop.index, loop.start, loop.tile, 1)}]" for loop in kept.cores)
        shape = "x".join(map(str, kept.extents)) or "one value"
        shown = comment_safe(f"[{kept.memory} holds {kept.tensor}] {kept.tensor} {shape}")
        return f"real *const {name} = {kept.buffer}{lanes}; /* {shown} */"

    def _branch(self, name: str, position: int) -> Iterator[str]:
        """The rest of a path of one Einsum: of a product its nest, else the call of a pass."""
        for placed in self.paths[name][position:]:
            if isinstance(placed.node, tree.Storage):
                for tensor in placed.node.tensors:
                    kept = self.cascade.kept.get(tensor)
                    if kept is not None and kept.node == placed.address:
                        yield self._tile(kept)
        nest = self.cascade.nests.get(name)
        yield f"/* {comment_safe(name)} */"
        if nest is None:
            yield self._call(self.cascade.passes[name])
            return
        above = {placed.address for placed in self.paths[name][:position]}
        start = sum(address in above for address in nest.nodes)
        yield from steps_lines(nest, start)

    def _call(self, p: Pass) -> str:
        names = self.cascade.names
        places = [place_of(names[t], p.at, p.strides[t], p.origins.get(t, {})) for t in (*p.inputs, p.output)]
        counts = [distance(*p.at[v]) for v in _variables(p)]
        add = [" || ".join(f"{p.at[v][0]} > 0" for v in p.split)] if p.split else []
        return f"pass_{names[p.output]}({', '.join([*places, *counts, *add])});"


def _variables(p: Pass) -> tuple[str, ...]:
    return (*p.outer, *p.reduced, p.axis)


def _pass_lines(cascade: Cascade, p: Pass, known: set[str]) -> Iterator[str]:
    """The function of a pass, after the map of its values."""
    names, name = cascade.names, cascade.names[p.output]
    is_map = p.along and not p.reduced
    needed = [] if is_map or p.reduction == "sum" else [p.reduction]
    yield from function_lines(needed, cascade.kind, known)
    parameters = {t: f"x{n + 1}" for n, t in enumerate(p.inputs)}
    yield from map_lines(f"value_{name}", p.expression, parameters, cascade.kind, known)
    yield ""
    inputs = [f"const real *{names[t]}" for t in p.inputs]
    counts = [f"const long n_{names[v]}" for v in _variables(p)]
    add = ["const int add"] if p.split else []
    shown = "" if is_map else f", reduced by {p.reduction}"
    yield f"/* {comment_safe(str(p.einsum.name))} = {comment_safe(str(p.einsum.operation))}: vectors along"
    yield f" * {comment_safe(p.axis)}{shown}. */"
    parameters_text = ", ".join([*inputs, f"real *restrict {name}", *counts, *add])
    yield f"static inline void pass_{name}({parameters_text})"
    yield "{"
    body = _along(cascade, p) if p.along else _across(cascade, p)
    yield from indented(loops([(names[v], f"n_{names[v]}") for v in p.outer], ["{", *indented(body), "}"]))
    yield "}"


def _place(cascade: Cascade, p: Pass, tensor: str, along: str) -> str:
    """Where a value lies, as C; `along`: the place along the axis."""
    parts = [times(along if v == p.axis else cascade.names[v], s) for v, s in p.strides[tensor].items()]
    return " + ".join(parts) or "0"


def _value(cascade: Cascade, p: Pass, along: str, *, vector: bool) -> str:
    """The map of values at a place along the axis: of a vector of them, or of one, spread over a vector."""
    arguments = []
    for tensor in p.inputs:
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
    combined, number, first = COMBINED[p.reduction]  # type: ignore[index]
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


def _across(cascade: Cascade, p: Pass) -> Iterator[str]:
    """Vectors along what is reduced: several, then their lanes are combined, then the values behind the last vector."""
    names, axis, name = cascade.names, cascade.names[p.axis], cascade.names[p.output]
    lanes, n = "(long)(sizeof(vec) / sizeof(real))", f"n_{cascade.names[p.axis]}"
    combined, number, first = COMBINED[p.reduction]  # type: ignore[index]
    here = _place(cascade, p, p.output, "")
    yield f"vec kept[{CHAINS}];"
    yield from loops([("part", CHAINS)], [f"kept[part] = (vec){{0}} + (real){first};"])
    yield f"real total = {f'add ? {name}[{here}] : (real){first}' if p.split else f'(real){first}'};"
    steps = [
        f"long {axis} = 0;",
        f"for (; {axis} + {CHAINS} * {lanes} <= {n}; {axis} += {CHAINS} * {lanes})",
        *indented(
            loops(
                [("part", CHAINS)],
                [
                    "kept[part] = "
                    + combined.format("kept[part]", _value(cascade, p, f"({axis} + part * {lanes})", vector=True))
                    + ";"
                ],
            )
        ),
        f"for (; {axis} + {lanes} <= {n}; {axis} += {lanes})",
        f"    kept[0] = {combined.format('kept[0]', _value(cascade, p, axis, vector=True))};",
        f"for (; {axis} < {n}; {axis}++) {{",
        f"    const real value = {_value(cascade, p, axis, vector=False)}[0];",
        f"    total = {number.format('total', 'value')};",
        "}",
    ]
    yield from (
        loops([(names[v], f"n_{names[v]}") for v in p.reduced], ["{", *indented(steps), "}"]) if p.reduced else steps
    )
    yield f"for (long part = 1; part < {CHAINS}; part++)"
    yield f"    kept[0] = {combined.format('kept[0]', 'kept[part]')};"
    yield from loops([("lane", lanes)], [f"total = {number.format('total', 'kept[0][lane]')};"])
    yield f"{name}[{here}] = total;"
