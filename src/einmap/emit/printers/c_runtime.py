"""Parts of a C file beside the mapping: functions that move boxes, the plain loop nest, main."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import groupby

from einmap.emit.language.dead_definitions import names_in
from einmap.emit.language.linear import Linear
from einmap.emit.language.program import ALWAYS, Condition, Found, Plain, Program
from einmap.emit.printers.comments import einsum_text, plain_text
from einmap.emit.printers.text import (
    INDENT,
    Words,
    comment_safe,
    condition_text,
    indented,
    looked_up,
    map_text,
    neutral_text,
)

WORDS = Words(" && ", " || ", "1", "0", "!({0})", "modulo({0}, {1})")

FUNCTIONS = {
    "exp": "exp({0})", "log": "log({0})", "sqrt": "sqrt({0})", "rsqrt": "(1 / sqrt({0}))", "abs": "fabs({0})",
    "tanh": "tanh({0})", "sigmoid": "(1 / (1 + exp(-({0}))))", "relu": "fmax({0}, 0)", "negative": "(-({0}))",
    "max": "fmax({0}, {1})", "min": "fmin({0}, {1})", "power": "pow({0}, {1})",
    "erf": "erf({0})", "gelu": "(0.5 * ({0}) * (1 + erf(({0}) * 0.7071067811865476)))", "sin": "sin({0})",
    "cos": "cos({0})", "floor": "floor({0})", "ceil": "ceil({0})", "round": "rint({0})",
    "sign": "((double)((({0}) > 0) - (({0}) < 0)))", "less": "(({0}) < ({1}) ? 1.0 : 0.0)",
    "equal": "(({0}) == ({1}) ? 1.0 : 0.0)", "select": "(({0}) != 0 ? ({1}) : ({2}))",
}  # fmt: skip

_ABOUT_MOVES = """\
/*
 * Moves of boxes between memories, to be replaced by DMA calls. `n`: values along each of `ranks` ranks;
 * `to_step`, `from_step`: distances between neighbours along each rank.
 */
"""

_MOVE = """\
static void {name}(double *to, const long *to_step, {const}double *from, const long *from_step,
    const long *n, int ranks{more})
{{
    if (ranks == 0) {{
        {body}
        return;
    }}
    for (long i = 0; i < n[0]; i++)
        {name}(to + i * to_step[0], to_step + 1, from + i * from_step[0], from_step + 1, n + 1, ranks - 1{pass_on});
}}
"""


def _move(name: str, body: str, const: str = "const ", more: str = "", pass_on: str = "") -> str:
    return _MOVE.format(name=name, body=body, const=const, more=more, pass_on=pass_on)


HELPERS = {
    "smaller": "static long smaller(long a, long b)\n{\n    return a < b ? a : b;\n}\n",
    "larger": "static long larger(long a, long b)\n{\n    return a > b ? a : b;\n}\n",
    "tiles": """\
static long tiles(long extent, long first, long shape)
{
    if (extent <= 0)
        return 0;
    return extent <= first ? 1 : 1 + (extent - first + shape - 1) / shape;
}
""",
    "row_of": """\
/* The number of a row, or -1 for a row of zeros, from a value of the tensor `what`. */
static long row_of(double value, long size, const char *what)
{
    if (!(value >= -1 && value < size && value == floor(value))) {
        fprintf(stderr, "%s has the value %g; indices are from 0 to %ld, or -1 for a row of zeros\\n",
            what, value, size - 1);
        exit(2);
    }
    return (long)value;
}
""",
    "mvin": _move("mvin", "*to = *from;"),
    "take": _move(
        "take", "*to = *from;\n        *from = neutral; /* partial results move */", "", ", double neutral", ", neutral"
    ),
    "mvout": _move("mvout", "*to = *from;"),
    "mvout_sum": _move("mvout_sum", "*to += *from;"),
    "mvout_max": _move("mvout_max", "*to = fmax(*to, *from);"),
    "mvout_min": _move("mvout_min", "*to = fmin(*to, *from);"),
    "mvin_part": """\
/* What is not in the hole; gives the number of values moved. */
static long mvin_part(double *to, const long *to_step, const double *from, const long *from_step,
    const long *n, int ranks, const long *hole, const long *hole_n)
{
    long moved = 0;
    for (long i = 0; ranks > 0 && i < n[0]; i++) {
        const int inside = i >= hole[0] && i < hole[0] + hole_n[0];
        double *next = to + i * to_step[0];
        const double *source = from + i * from_step[0];
        if (inside && ranks == 1)
            continue;
        if (inside)
            moved += mvin_part(next, to_step + 1, source, from_step + 1, n + 1, ranks - 1, hole + 1, hole_n + 1);
        else {
            long values = 1;
            for (int r = 1; r < ranks; r++)
                values *= n[r];
            mvin(next, to_step + 1, source, from_step + 1, n + 1, ranks - 1);
            moved += values;
        }
    }
    return moved;
}
""",
    "mvin_live": """\
/* Partial results that are there; gives the number of values moved. */
static long mvin_live(double *to, const long *to_step, unsigned char *to_live, const long *to_live_step,
    double *from, const long *from_step, unsigned char *from_live, const long *from_live_step,
    const long *n, int ranks, double neutral)
{
    if (ranks == 0) {
        const int live = *from_live;
        if (live) {
            *to = *from;
            *from = neutral;
            *to_live = 1;
        }
        *from_live = 1; /* for lanes that share elements: they come back before anybody else asks */
        return live;
    }
    long moved = 0;
    for (long i = 0; i < n[0]; i++)
        moved += mvin_live(to + i * to_step[0], to_step + 1, to_live + i * to_live_step[0], to_live_step + 1,
            from + i * from_step[0], from_step + 1, from_live + i * from_live_step[0], from_live_step + 1,
            n + 1, ranks - 1, neutral);
    return moved;
}
""",
    "clear": """\
static void clear(double *to, const long *to_step, const long *n, int ranks, double neutral)
{
    if (ranks == 0) {
        *to = neutral;
        return;
    }
    for (long i = 0; i < n[0]; i++)
        clear(to + i * to_step[0], to_step + 1, n + 1, ranks - 1, neutral);
}
""",
    "mark": """\
static void mark(unsigned char *to, const long *to_step, const long *n, int ranks, unsigned char live)
{
    if (ranks == 0) {
        *to = live;
        return;
    }
    for (long i = 0; i < n[0]; i++)
        mark(to + i * to_step[0], to_step + 1, n + 1, ranks - 1, live);
}
""",
    "new_values": """\
static void *new_values(size_t n, size_t bytes)
{
    void *found = calloc(n, bytes);
    if (!found) {
        fprintf(stderr, "not enough memory\\n");
        exit(2);
    }
    return found;
}
""",
    "next_integer": """\
/* Integers from 1 to 4: sums of them are exact in any order. */
static double next_integer(void)
{
    static unsigned long seed = 1;
    seed = (seed * 1103515245UL + 12345UL) & 0x7fffffffUL;
    return (double)(1 + (seed >> 16) % 4);
}
""",
    "next_fraction": """\
/* Numbers from 0.5 to 1.5, which exp, log and division can take. */
static double next_fraction(void)
{
    static unsigned long seed = 1;
    seed = (seed * 1103515245UL + 12345UL) & 0x7fffffffUL;
    return 0.5 + (double)seed / 2147483648.0;
}
""",
    "next_index": """\
/* Numbers of rows, and -1 now and then. */
static double next_index(long size)
{
    static unsigned long seed = 1;
    seed = (seed * 1103515245UL + 12345UL) & 0x7fffffffUL;
    return (double)((long)((seed >> 8) % (unsigned long)(size + 1)) - 1);
}
""",
    "modulo": """\
static long modulo(long a, long n)
{
    return (a % n + n) % n;
}
""",
    "is_close": """\
static int is_close(double a, double b, double largest)
{
    const double size = fmax(fmax(fabs(a), fabs(b)), 1e-3 * largest);
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * size;
}
""",
}
"""Functions by name, in the order in which they are written."""
_MOVES = ("mvin", "take", "mvout", "mvout_sum", "mvout_max", "mvout_min", "mvin_part", "mvin_live", "clear", "mark")


def helpers(code: str) -> Iterator[str]:
    """The functions that the code calls."""
    called = {name for name in HELPERS if re.search(rf"\b{name}\(", code)}
    if "mvin_part" in called:
        called.add("mvin")
    if re.search(r"\bBIG\b", code):
        yield from ["#define BIG 2000000000L", ""]
    if "n_moved = " in code:
        yield from ["static long n_moved; /* by the last move of a part */", ""]
    first = True
    for name, text in HELPERS.items():
        if name not in called:
            continue
        if name in _MOVES and first:
            yield from _ABOUT_MOVES.splitlines()
            first = False
        yield from text.splitlines()
        yield ""


def _index(indices: object) -> str:
    return "".join(f"[{i}]" for i in indices) or "[0]"  # type: ignore[attr-defined]


def plain_lines(program: Program) -> Iterator[str]:
    """The cascade without buffers and moves."""
    yield ""
    yield "/* The same as plain loop nests, to check against. */"
    for tensor, name in program.plain_variables.items():
        yield f"static {pointer(name, program.shapes[tensor])};"
    for plain in program.plain:
        yield f"\n/* {comment_safe(einsum_text(plain))} */"
        yield f"static void {program.plain_functions[plain.name]}({f'long {plain.step}' if plain.step else 'void'})\n{{"
        yield from indented(_plain(plain, program))
        yield "}"


def pointer(name: str, shape: tuple[int, ...], kind: str = "double") -> str:
    """A pointer to the first row of an array."""
    return f"{kind} (*{name}){''.join(f'[{n}]' for n in shape[1:])}" if len(shape) > 1 else f"{kind} *{name}"


def _plain(plain: Plain, program: Program) -> Iterator[str]:
    def loops(variables: tuple[tuple[str, int, int], ...], last: list[str]) -> Iterator[str]:
        for depth, (name, first, extent) in enumerate(variables):
            yield INDENT * depth + f"for (long {name} = {first}; {name} < {first + extent}; {name}++)"
        yield from indented(last, len(variables))

    def at(tensor: str, name: str, indices: tuple[Linear, ...]) -> str:
        return program.plain_variables.get(tensor, name) + _index(program.places(tensor, indices))

    if not plain.is_copy and plain.reduction != "sum":
        for tensor, name, indices in plain.outputs:
            used = {v for index in indices for v in index.names} | names_in(plain.where)
            neutral = neutral_text(plain.reduction, "INFINITY")
            variables = tuple(v for v in plain.variables if v[0] in used and v[0] != plain.step)
            yield from loops(variables, [f"{_guard(plain.where)}{at(tensor, name, indices)} = {neutral};"])
    names = {tensor: program.plain_variables.get(tensor, name) for tensor, name, _ in plain.inputs}
    operands = {tensor: _operand(program, names, tensor, indices) for tensor, _, indices in plain.inputs}
    value = map_text(plain.map, operands, FUNCTIONS, "{0}")
    body = []
    for tensor, name, indices in plain.outputs:
        target = at(tensor, name, indices)
        if plain.is_copy:
            body.append(f"{target} = {value};")
        elif plain.reduction == "sum":
            body.append(f"{target} += {value};")
        else:
            body.append(f"{target} = f{plain.reduction}({target}, {value});")
    if len(body) > 1:
        body = ["{", *indented(body), "}"]
    body[0] = _guard(plain.where) + body[0]
    yield from loops(tuple(v for v in plain.variables if v[0] != plain.step), body)


def _guard(where: Condition) -> str:
    return "" if where == ALWAYS else f"if ({condition_text(where, WORDS)}) "


def _operand(program: Program, names: Mapping[str, str], tensor: str, indices: tuple[Linear | Found, ...]) -> str:
    """An element, of a table the one that is looked up, or 0 where the row is -1. `names`: variables of tensors."""
    parts: list[str] = []
    rows: list[str] = []
    for index, first in zip(indices, program.first[tensor], strict=True):
        if isinstance(index, Found):
            places = program.places(index.tensor, [low for low, _ in index.ranges])
            element = names[index.tensor] + _index(places)
            rows.append(f"row_of({element}, {index.size}, {string(index.tensor)})")
        parts.append(rows[-1] if isinstance(index, Found) else str(index.plus(-first)))
    return looked_up(names[tensor] + _index(parts), tuple(rows), "({1} ? {0} : 0.0)", " && ")


def main_lines(program: Program) -> Iterator[str]:
    """Make values, run both, print counts, compare."""
    yield "int main(void)\n{"
    yield from indented(_main(program))
    yield "}"


def _main(program: Program) -> Iterator[str]:
    allocated = list(_allocated(program))
    yield "int wrong = 0;"
    for name, _, line in allocated:
        yield f"{name} = {line};"
    for tensor in program.tensors:
        if tensor.role == "input":
            draw = "next_integer()" if program.exact else "next_fraction()"
            draw = f"next_index({tensor.n_rows})" if tensor.n_rows else draw
            yield f"for (long i = 0; i < {math.prod(tensor.shape)}; i++)"
            yield f"{INDENT}((double *){tensor.name})[i] = {draw};"
        elif tensor.reduction not in (None, "sum"):
            neutral = neutral_text(tensor.reduction or "sum", "INFINITY")
            indices, variables, where = plain_text(tensor, program)
            for depth, (name, first, extent) in enumerate(variables):
                yield INDENT * depth + f"for (long {name} = {first}; {name} < {first + extent}; {name}++)"
            yield INDENT * len(variables) + f"{_guard(where)}{tensor.name}{_index(indices)} = {neutral};"
    yield "nest();"
    yield from _plain_calls(program)
    for counter in program.counters:
        what = string(f"{counter.memory}\t{counter.tensor}\t{counter.action}\t")
        yield f'printf("%s%lld\\n", {what}, {counter.name});'
    for tensor in program.tensors:
        if tensor.role == "output":
            yield from _compare(tensor.name, program.plain_variables[tensor.tensor], tensor.tensor, tensor.shape)
    for name, _, _ in allocated:
        yield f"free({name});"
    yield 'if (!wrong)\n        printf("equal to the plain loop nests\\n");'
    yield "return wrong;"


def _plain_calls(program: Program) -> Iterator[str]:
    """Calls of the plain loop nests, those of a recurrence step by step."""
    for number, group in groupby(program.plain, key=lambda plain: plain.recurrence):
        nests = list(group)
        if number < 0:
            yield from (f"{program.plain_functions[plain.name]}();" for plain in nests)
            continue
        step, first, extent = next(v for v in nests[0].variables if v[0] == nests[0].step)
        yield f"for (long {step} = {first}; {step} < {first + extent}; {step}++) {{"
        yield from indented([f"{program.plain_functions[plain.name]}({step});" for plain in nests])
        yield "}"


def _compare(name: str, plain: str, tensor: str, shape: tuple[int, ...]) -> Iterator[str]:
    yield "{"
    yield f"{INDENT}const double *here = (const double *){name}, *there = (const double *){plain};"
    yield f"{INDENT}double largest = 0;"
    yield f"{INDENT}for (long i = 0; i < {math.prod(shape)}; i++)"
    yield f"{INDENT * 2}largest = isfinite(there[i]) ? fmax(largest, fabs(there[i])) : largest;"
    yield f"{INDENT}for (long i = 0; i < {math.prod(shape)} && !wrong; i++)"
    yield f"{INDENT * 2}if (!is_close(here[i], there[i], largest)) {{"
    text = 'printf("wrong: element %ld of %s is %g, not %g\\n", i, ' + string(tensor) + ", here[i], there[i]);"
    yield f"{INDENT * 3}{text}"
    yield f"{INDENT * 3}wrong = 1;"
    yield f"{INDENT * 2}}}"
    yield "}"


def _allocated(program: Program) -> Iterator[tuple[str, str, str]]:
    for tensor in program.tensors:
        yield tensor.name, "double", f"new_values({math.prod(tensor.shape)}, sizeof(double))"
    flagged = {buffer.flags: buffer for buffer in program.buffers if buffer.whole and buffer.flags}
    for buffer in flagged.values():
        yield buffer.flags, "unsigned char", f"new_values({math.prod(buffer.shape)}, 1)"
    for written, name in program.plain_variables.items():
        yield name, "double", f"new_values({math.prod(program.shapes[written])}, sizeof(double))"


def string(text: str) -> str:
    """A string of C: names may hold any character; three octal digits end where they end."""
    plain = (c if 32 <= ord(c) < 127 and c not in '"\\?' else "".join(f"\\{b:03o}" for b in c.encode()) for c in text)
    return f'"{"".join(plain)}"'.replace("\\011", "\\t")
