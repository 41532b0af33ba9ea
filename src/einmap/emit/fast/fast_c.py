"""The whole C file of a fast nest: types, functions, the nest, and a main that checks and times it."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from einmap.emit.build import schedule_to_emit
from einmap.emit.fast.builder import nest_of
from einmap.emit.fast.cascade import Cascade, cascade_of, is_cascade
from einmap.emit.fast.check_cascade import check_lines, clock_lines
from einmap.emit.fast.fused import FusedMap, is_exact
from einmap.emit.fast.layout import times
from einmap.emit.fast.narrow import check_lines as narrow_check_lines
from einmap.emit.fast.narrow import function_lines, header_lines, narrowed, widened
from einmap.emit.fast.nest import BYTES, Nest
from einmap.emit.fast.print_cascade import cascade_buffer_lines, cascade_lines, function_of_cascade_lines
from einmap.emit.fast.print_nest import buffer_lines, nest_lines
from einmap.emit.fast.print_tile import loops, pack_lines, register_lines, tile_lines, unrolled_lines
from einmap.emit.fast.turn import macro_lines, turned_along
from einmap.emit.fast.vector_maths import Kind
from einmap.emit.printers.c_runtime import FUNCTIONS
from einmap.emit.printers.text import comment_safe, indented, map_text
from einmap.spec.spec import Spec

ABOUT = """\
Fast code, emitted by einmap from a mapping, of

  {einsum}

`nest` is the loop nest of the mapping. Inputs are packed where a storage node first holds them, in the order in
which the loops inside read them; nodes further in find them there. `main` runs it on values of its own, compares
with plain loops (exit status 1 if they differ), and, given a number, times so many runs.
Its buffers are static: one call at a time. Compile with GCC or Clang:
cc -O3 -march=native FILE.c (and -fopenmp for loops over cores; -lm for maps; -DNO_MAIN -shared -fPIC for a
library)"""


def fast_c(spec: Spec) -> str:
    """The C file. Raises what `emit` raises, and NotSupportedError for what is not one product."""
    return text_of(fast_nest(spec))


def fast_nest(spec: Spec) -> Nest | Cascade:
    """The nest that is printed. Raises what `emit` raises, and NotSupportedError for what fast code cannot do."""
    schedule = schedule_to_emit(spec)
    return cascade_of(schedule) if is_cascade(schedule) else nest_of(schedule)


def einsum_text(nest: Nest | Cascade) -> str:
    """The Einsum in one line: `Z[m, n] = A[m, k] * B[k, n]`, and after it a map of its values: `; Y = relu(Z)`.

    Of a cascade names and operations: `QK = Q * K; GM = QK (max)`.
    """
    if isinstance(nest, Cascade):
        return "; ".join(f"{next(iter(e.outputs))} = {e.operation}" for e in nest.einsums)
    indices = {a.tensor: ", ".join(str(index) for _, index in a.projection) for a in nest.einsum.accesses}
    product = f"{nest.output}[{indices[nest.output]}] = " + " * ".join(f"{t}[{indices[t]}]" for t in nest.inputs)
    if nest.fused is None:
        return product
    return f"{product}; {nest.written} = {nest.fused.einsum.operation}"


def text_of(nest: Nest | Cascade) -> str:
    """The C file of a nest."""
    about = ABOUT.format(einsum=einsum_text(nest)).splitlines()
    width = BYTES[nest.real]
    lanes = nest.lanes if isinstance(nest, Cascade) else nest.tile.lanes
    size = width * lanes
    lines = ["/*", *(f" * {comment_safe(line)}".rstrip() for line in about), " */", ""]
    has_maps = isinstance(nest, Cascade) or nest.fused is not None
    headers = ["math", "stdio", "stdlib", "time"] if has_maps else ["stdio", "stdlib", "time"]
    lines += ["#define _POSIX_C_SOURCE 199309L", *(f"#include <{name}.h>" for name in headers)]
    if has_maps and Kind(nest.real, lanes).wide:
        lines += [f"#if defined({Kind(nest.real, lanes).wide['feature']})", "#include <immintrin.h>", "#endif"]
    lines += ["", *([] if isinstance(nest, Cascade) else header_lines(nest))]
    lines += [f"typedef {nest.real} real;"]
    lines += [f"typedef real vec __attribute__((vector_size({size})));"]
    lines += [f"typedef real loose __attribute__((vector_size({size}), aligned({width}), may_alias));"]
    if has_maps:
        lines += [f"typedef {'int' if width == 4 else 'long long'} ints __attribute__((vector_size({size})));"]
    lines += [*register_lines(size), *turning_lines(nest)]
    nests = nest.nests.values() if isinstance(nest, Cascade) else (nest,)
    lines += unrolled_lines() if any(n.window for n in nests) else ()
    buffers = cascade_buffer_lines(nest) if isinstance(nest, Cascade) else buffer_lines(nest)
    lines += ["", "/* Tiles. */" if isinstance(nest, Cascade) else "/* Packed tiles. */", *buffers, ""]
    lines += ["static inline long smaller(long a, long b)", "{", "    return a < b ? a : b;", "}", ""]
    if isinstance(nest, Cascade):
        lines += [*function_of_cascade_lines(nest), *cascade_lines(nest)]
    else:
        lines += function_lines(nest)
        for packed in nest.packed.values():
            lines += [*pack_lines(nest, packed), ""]
        lines += [*tile_lines(nest), "", *nest_lines(nest)]
    check = check_lines(nest) if isinstance(nest, Cascade) else _main(nest)
    return "\n".join([*lines, "", "#ifndef NO_MAIN", *check, "#endif", ""])


def turning_lines(nest: Nest | Cascade) -> list[str]:
    """The macro `turns` where packing turns squares of values, or lanes are reduced; else nothing."""
    if isinstance(nest, Cascade) and nest.by_lanes:
        return list(macro_lines())
    nests = nest.nests.values() if isinstance(nest, Cascade) else (nest,)
    return list(macro_lines()) if any(turned_along(n, p) for n in nests for p in n.packed.values()) else []


def _main(nest: Nest) -> Iterator[str]:
    """Integers so small that all sums are exact, in any order."""
    output, names = nest.output, nest.names
    extents = dict(nest.einsum.bounds)
    sums = prod(n for v, n in extents.items() if v not in nest.ranks[output])
    exact = {"float": 2**24, "double": 2**53, "int": 2**31}[nest.real]
    span = 127 if nest.real == "int" else 3 if 3 ** len(nest.inputs) * sums < exact else 1
    yield from narrow_check_lines(nest)
    yield "/* The same as plain loops, to check against. */"
    tensors = (*nest.inputs, *nest.operands, nest.written)
    types = {t: nest.stored if t in nest.inputs else "real" for t in tensors}
    yield f"static long wrong({', '.join(f'const {types[t]} *{names[t]}' for t in tensors)})"
    yield "{"

    def at(tensor: str) -> str:
        return " + ".join(times(names[v], s) for v, s in nest.strides(tensor).items())

    outer = [(names[v], extents[v]) for v in nest.ranks[output]]
    inner = [(names[v], n) for v, n in extents.items() if v not in nest.ranks[output]]
    product = " * ".join(widened(nest, f"{names[t]}[{at(t)}]") for t in nest.inputs)
    body = ["double sum = 0;", *loops(inner, [f"sum += {product};"])]
    found = f"{names[nest.written]}[{at(output)}]"
    body += [f"found += {found} != (real)sum;"] if nest.fused is None else _compared(nest, nest.fused, found)
    yield from indented(["long found = 0;", *loops(outer, body), "return found;"])
    yield "}"
    yield ""
    yield from clock_lines()
    yield "int main(int count, char **arguments)"
    yield "{"
    yield from indented(_main_body(nest, span))
    yield "}"


def _compared(nest: Nest, fused: FusedMap, found: str) -> list[str]:
    """Lines that compare a value with the map of its sum, in double precision; both may be NaN, or infinite.

    Integers that are added, negated, chosen and compared are exact; else the last digits may differ, of 1 at least.
    """
    operands = {fused.product: "sum"}
    for tensor in fused.operands:
        places = [times(nest.names[v], s) for v, s in fused.strides(tensor).items()]
        operands[tensor] = f"(double){nest.names[tensor]}[{' + '.join(places)}]"
    value = map_text(fused.expression, operands, FUNCTIONS, "{}")
    near = 0 if is_exact(fused.expression) else {"float": 1e-5, "double": 1e-13}[nest.real]
    return [
        f"const double exact = {value}, now = {found};",
        "const int same = now == exact || (now != now && exact != exact);",
        f"found += !same && !(fabs(now - exact) <= {near} * (1 + fabs(exact)));",
    ]


def _main_body(nest: Nest, span: int) -> Iterator[str]:
    names = nest.names
    tensors = (*nest.inputs, *nest.operands, nest.written)
    for tensor in tensors:
        kind = nest.stored if tensor in nest.inputs else "real"
        yield f"{kind} *{names[tensor]} = malloc({prod(nest.shapes[tensor])} * sizeof({kind}));"
    yield f"if ({' || '.join(f'!{names[t]}' for t in tensors)})"
    yield "    return 2;"
    for place, tensor in enumerate((*nest.inputs, *nest.operands)):
        yield f"for (long i = 0; i < {prod(nest.shapes[tensor])}; i++)"
        value = narrowed(nest, f"(i * {5 + 6 * place} + i / 64) % {2 * span + 1} - {span}")
        yield f"    {names[tensor]}[i] = {value};"
    call = f"nest({', '.join(names[t] for t in tensors)});"
    yield call
    yield f"const long differ = wrong({', '.join(names[t] for t in tensors)});"
    yield 'printf(differ ? "%ld values differ from plain loops\\n" : "equal to the plain loops\\n", differ);'
    yield "const int repeats = count > 1 ? atoi(arguments[1]) : 0;"
    yield "double best = 1e300;"
    yield "for (int i = 0; i < repeats; i++) {"
    yield "    const double start = seconds();"
    yield f"    {call}"
    yield "    const double took = seconds() - start;"
    yield "    best = took < best ? took : best;"
    yield "}"
    flops = float(len(nest.inputs)) * prod(n for _, n in nest.einsum.bounds)
    unit = "Gop/s" if nest.real == "int" else "Gflop/s"
    yield "if (repeats > 0)"
    yield f'    printf("best of %d runs: %.3g s, %.1f {unit}\\n", repeats, best, {flops!r} / best / 1e9);'
    for tensor in tensors:
        yield f"free({names[tensor]});"
    yield "return differ != 0;"
