"""The main of a cascade: values of its own, the same cascade as plain loops in double precision, times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from einmap.einsum.einsum import Einsum
from einmap.emit.fast.cascade import Cascade
from einmap.emit.fast.causal import bound_of
from einmap.emit.fast.layout import times
from einmap.emit.fast.print_tile import loops
from einmap.emit.printers.c_runtime import FUNCTIONS
from einmap.emit.printers.text import comment_safe, indented, map_text

NEAR = {"float": 2e-5, "double": 1e-12}
"""By how much values may differ from those of plain loops, of the value and of 1."""


def flops_of(cascade: Cascade) -> float:
    """Operations: of a product two for each point of a product of two tensors, of others one for each point."""
    return sum(
        float(len(e.inputs) if e.name in cascade.nests else 1) * (e.n_points or prod(n for _, n in e.bounds))
        for e in cascade.einsums
    )


def check_lines(cascade: Cascade) -> Iterator[str]:
    """The functions `wrong`, `seconds` and `main`."""
    names = cascade.names
    whole = (*cascade.inputs, *cascade.outputs)
    yield "/* The Einsums one after another as plain loops, in double precision, to check against. */"
    yield f"static long wrong({', '.join(f'const real *{names[t]}' for t in whole)})"
    yield "{"
    yield from indented(_wrong(cascade))
    yield "}"
    yield ""
    yield from clock_lines()
    yield "int main(int count, char **arguments)"
    yield "{"
    yield from indented(_main(cascade))
    yield "}"


def _wrong(cascade: Cascade) -> Iterator[str]:
    names, shapes = cascade.names, cascade.shapes
    made = [t for e in cascade.einsums for t in e.outputs]
    plain = {t: f"plain_{names[t]}" if t in made else names[t] for t in shapes}
    yield "long found = 0;"
    for tensor in made:
        yield f"double *{plain[tensor]} = malloc({prod(shapes[tensor])} * sizeof(double));"
    yield f"if ({' || '.join(f'!{plain[t]}' for t in made)})"
    yield "    exit(2);"
    steps = {recurrence.einsums[0]: recurrence for recurrence in cascade.schedule.workload.recurrences}
    known = {e.name: e for e in cascade.einsums}
    within = {name for recurrence in steps.values() for name in recurrence.einsums}
    for einsum in cascade.einsums:
        if (recurrence := steps.get(einsum.name)) is not None:
            for state in recurrence.states:
                yield f"for (long i = 0; i < {prod(shapes[state])}; i++)"
                yield f"    {plain[state]}[i] = 0;"
            time = recurrence.variable
            inside = [line for name in recurrence.einsums for line in _plain(cascade, known[name], plain, time)]
            yield from loops([(names[time], einsum.extents[time])], ["{", *indented(inside), "}"])
        elif einsum.name not in within:
            yield from _plain(cascade, einsum, plain, "")
    for tensor in cascade.outputs:
        yield f"for (long i = 0; i < {prod(shapes[tensor])}; i++) {{"
        yield f"    const double exact = {plain[tensor]}[i], now = {names[tensor]}[i];"
        yield "    const int same = now == exact || (now != now && exact != exact);"
        yield f"    found += !same && !(fabs(now - exact) <= {NEAR[cascade.real]} * (1 + fabs(exact)));"
        yield "}"
    for tensor in made:
        yield f"free({plain[tensor]});"
    yield "return found;"


def _plain(cascade: Cascade, einsum: Einsum, plain: Mapping[str, str], time: str) -> Iterator[str]:
    """The loops of one Einsum but for that over `time`, which stands around several."""
    names = cascade.names
    (output,) = einsum.outputs
    yield f"/* {comment_safe(einsum.name)} */"
    values = {t: f"(double){plain[t]}[{_at(cascade, einsum, t)}]" for t in einsum.inputs}
    assert einsum.operation.map is not None
    value = map_text(einsum.operation.map, values, FUNCTIONS, "{}")
    written = [v for v, _ in einsum.bounds if v in einsum.by_tensor[output].variables and v != time]
    summed = [v for v in einsum.extents if v not in written and v != time]
    reduction = einsum.operation.reduction
    first = {"sum": "0", "max": "-INFINITY", "min": "INFINITY"}[reduction]
    body = [f"double result = {first};"]
    update = f"result += {value};" if reduction == "sum" else f"result = f{reduction}(result, {value});"
    bound = bound_of(einsum)
    inside = f"if ({names[bound.variable]} <= {names[bound.row]} + {bound.more})" if bound is not None else ""
    body += loops([(names[v], einsum.extents[v]) for v in summed], [f"{inside} {update}" if inside else update])
    body.append(f"{plain[output]}[{_at(cascade, einsum, output)}] = result;")
    if bound is not None and {bound.variable, bound.row} <= {*written}:
        body = [f"{inside} {{", *indented(body), "}"]
    yield from loops([(names[v], einsum.extents[v]) for v in written], body)


def _at(cascade: Cascade, einsum: Einsum, tensor: str) -> str:
    """Where a value of a whole tensor lies, as C."""
    shape, parts = cascade.shapes[tensor], list[str]()
    for place, (_, index) in enumerate(einsum.by_tensor[tensor].projection):
        step = prod(shape[place + 1 :])
        parts += [times(cascade.names[v], factor * step) for v, factor in index.terms]
    return " + ".join(parts) or "0"


def _main(cascade: Cascade) -> Iterator[str]:
    names, shapes = cascade.names, cascade.shapes
    whole = (*cascade.inputs, *cascade.outputs)
    for tensor in whole:
        yield f"real *{names[tensor]} = malloc({prod(shapes[tensor])} * sizeof(real));"
    yield f"if ({' || '.join(f'!{names[t]}' for t in whole)})"
    yield "    return 2;"
    for place, tensor in enumerate(cascade.inputs):
        yield f"for (long i = 0; i < {prod(shapes[tensor])}; i++)"
        yield f"    {names[tensor]}[i] = (real)0.25 * (real)((i * {5 + 6 * place} + i / 64) % 7 - 3);"
    call = f"nest({', '.join(names[t] for t in whole)});"
    yield call
    yield f"const long differ = wrong({', '.join(names[t] for t in whole)});"
    yield 'printf(differ ? "%ld values differ from plain loops\\n" : "equal to the plain loops\\n", differ);'
    yield "const int repeats = count > 1 ? atoi(arguments[1]) : 0;"
    yield "double best = 1e300;"
    yield "for (int i = 0; i < repeats; i++) {"
    yield "    const double start = seconds();"
    yield f"    {call}"
    yield "    const double took = seconds() - start;"
    yield "    best = took < best ? took : best;"
    yield "}"
    yield "if (repeats > 0)"
    yield f'    printf("best of %d runs: %.3g s, %.1f Gflop/s\\n", repeats, best, {flops_of(cascade)!r} / best / 1e9);'
    for tensor in whole:
        yield f"free({names[tensor]});"
    yield "return differ != 0;"


def clock_lines() -> Iterator[str]:
    """The function `seconds`: time that passes, in s."""
    yield "static double seconds(void)"
    yield "{"
    yield "    struct timespec now;"
    yield "    clock_gettime(CLOCK_MONOTONIC, &now);"
    yield "    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;"
    yield "}"
    yield ""
