"""The whole C file of a fast nest: types, functions, the nest, and a main that checks and times it."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from einmap.emit.build import schedule_to_emit
from einmap.emit.fast.layout import times
from einmap.emit.fast.nest import Nest, nest_of
from einmap.emit.fast.print_nest import buffer_lines, nest_lines
from einmap.emit.fast.print_tile import loops, pack_lines, tile_lines
from einmap.emit.printers.text import comment_safe, indented
from einmap.spec.spec import Spec

ABOUT = """\
Fast code for one product, emitted by einmap from a mapping.

  {einsum}

`nest` is the loop nest of the mapping. Inputs are packed where a storage node first holds them, in the order in
which the loops inside read them; nodes further in find them there. `main` runs it on values of its own, compares
with plain loops (exit status 1 if they differ), and, given a number, times so many runs.
Its buffers are static: one call at a time. Compile with GCC or Clang:
cc -O3 -march=native FILE.c (and -fopenmp for loops over cores; -DNO_MAIN -shared -fPIC for a library)"""


def fast_c(spec: Spec) -> str:
    """The C file. Raises what `emit` raises, and NotSupportedError for what is not one product."""
    return text_of(fast_nest(spec))


def fast_nest(spec: Spec) -> Nest:
    """The nest that is printed. Raises what `emit` raises, and NotSupportedError for what is not one product."""
    return nest_of(schedule_to_emit(spec))


def einsum_text(nest: Nest) -> str:
    """The Einsum in one line: `Z[m, n] = A[m, k] * B[k, n]`."""
    indices = {a.tensor: ", ".join(str(index) for _, index in a.projection) for a in nest.einsum.accesses}
    return f"{nest.output}[{indices[nest.output]}] = " + " * ".join(f"{t}[{indices[t]}]" for t in nest.inputs)


def text_of(nest: Nest) -> str:
    """The C file of a nest."""
    about = ABOUT.format(einsum=einsum_text(nest)).splitlines()
    size = {"float": 4, "double": 8}[nest.real] * nest.tile.lanes
    lines = ["/*", *(f" * {comment_safe(line)}".rstrip() for line in about), " */", ""]
    lines += ["#define _POSIX_C_SOURCE 199309L", "#include <stdio.h>", "#include <stdlib.h>", "#include <time.h>", ""]
    lines += [f"typedef {nest.real} real;"]
    lines += [f"typedef real vec __attribute__((vector_size({size})));"]
    align = {"float": 4, "double": 8}[nest.real]
    lines += [f"typedef real loose __attribute__((vector_size({size}), aligned({align}), may_alias));", ""]
    lines += ["/* Packed tiles. */", *buffer_lines(nest), ""]
    lines += ["static inline long smaller(long a, long b)", "{", "    return a < b ? a : b;", "}", ""]
    for packed in nest.packed.values():
        lines += [*pack_lines(nest, packed), ""]
    lines += [*tile_lines(nest), "", *nest_lines(nest), "", "#ifndef NO_MAIN", *_main(nest), "#endif", ""]
    return "\n".join(lines)


def _main(nest: Nest) -> Iterator[str]:
    """Integers so small that all sums are exact, in any order."""
    output, names = nest.output, nest.names
    extents = dict(nest.einsum.bounds)
    sums = prod(n for v, n in extents.items() if v not in nest.ranks[output])
    exact = {"float": 2**24, "double": 2**53}[nest.real]
    span = 3 if 3 ** len(nest.inputs) * sums < exact else 1
    yield "/* The same as plain loops, to check against. */"
    yield f"static long wrong({', '.join(f'const real *{names[t]}' for t in (*nest.inputs, output))})"
    yield "{"

    def at(tensor: str) -> str:
        return " + ".join(times(names[v], s) for v, s in nest.strides(tensor).items())

    outer = [(names[v], extents[v]) for v in nest.ranks[output]]
    inner = [(names[v], n) for v, n in extents.items() if v not in nest.ranks[output]]
    product = " * ".join(f"{names[t]}[{at(t)}]" for t in nest.inputs)
    body = ["double sum = 0;", *loops(inner, [f"sum += {product};"])]
    body.append(f"found += {names[output]}[{at(output)}] != (real)sum;")
    yield from indented(["long found = 0;", *loops(outer, body), "return found;"])
    yield "}"
    yield ""
    yield "static double seconds(void)"
    yield "{"
    yield "    struct timespec now;"
    yield "    clock_gettime(CLOCK_MONOTONIC, &now);"
    yield "    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;"
    yield "}"
    yield ""
    yield "int main(int count, char **arguments)"
    yield "{"
    yield from indented(_main_body(nest, span))
    yield "}"


def _main_body(nest: Nest, span: int) -> Iterator[str]:
    names = nest.names
    tensors = (*nest.inputs, nest.output)
    for tensor in tensors:
        yield f"real *{names[tensor]} = malloc({prod(nest.shapes[tensor])} * sizeof(real));"
    yield f"if ({' || '.join(f'!{names[t]}' for t in tensors)})"
    yield "    return 2;"
    for place, tensor in enumerate(nest.inputs):
        yield f"for (long i = 0; i < {prod(nest.shapes[tensor])}; i++)"
        yield f"    {names[tensor]}[i] = (real)((i * {5 + 6 * place} + i / 64) % {2 * span + 1} - {span});"
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
    yield "if (repeats > 0)"
    yield f'    printf("best of %d runs: %.3g s, %.1f Gflop/s\\n", repeats, best, {flops!r} / best / 1e9);'
    for tensor in tensors:
        yield f"free({names[tensor]});"
    yield "return differ != 0;"
