"""Map expressions over vectors as C: the formulas of `einsum.functions`, recorded with a module that writes C.

Each function of the table computes its value by names of NumPy. Here these names append a line of C, so that the code
has the formulas of the table, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import factorial, log
from typing import Any

import numpy as np

from einmap.einsum.functions import apply
from einmap.einsum.operation import Apply, MapExpression, Number, Operand
from einmap.emit.printers.text import indented

BY_LANES = {
    "sqrt": 1, "log": 1, "tanh": 1, "sin": 1, "cos": 1, "floor": 1, "ceil": 1, "rint": 1, "pow": 2,
}  # fmt: skip
"""Functions that the library of C computes lane by lane, with their arguments."""
PICK = """\
/* The lanes of a where those of the mask are set, else those of b. */
static inline vec vec_pick(ints mask, vec a, vec b)
{
    return (vec)(((ints)a & mask) | ((ints)b & ~mask));
}"""
EXTREME = """\
static inline vec vec_{name}(vec a, vec b)
{{
    return vec_pick((a {sign} b) | (a != a), a, b);
}}"""
WIDE_EXTREME = """\
#if defined({feature})
/* The instruction has b where one is NaN. */
static inline vec vec_{name}(vec a, vec b)
{{
    const {wide} x = ({wide})a, found = {head}_{name}_{tail}(x, ({wide})b);
    return (vec){head}_mask_mov_{tail}(found, {head}_cmp_{tail}_mask(x, x, _CMP_UNORD_Q), x);
}}
#else
{plain}
#endif"""
EXP = """\
/* e^x = 2^n e^r with |r| at most log(2) / 2: a polynomial, and n in the exponent. */
static inline vec vec_exp(vec x)
{{
{begin}
    vec sum = (vec){{0}} + (real){first!r};
{steps}
{end}
}}"""
EXP_BEGIN = """\
    x = vec_pick(x < (real){low}, (vec){{0}} + (real){low}, x);
    x = vec_pick(x > (real){high}, (vec){{0}} + (real){high}, x);
    const vec whole = x * (real)1.4426950408889634 + (real){magic};
    const vec n = whole - (real){magic};
    const ints power = (ints)whole - (ints)((vec){{0}} + (real){magic}), half = power >> 1;
    const vec r = x - n * (real){upper} - n * (real){lower};"""
EXP_END = """\
    return sum * (vec)((half + {bias}) << {mantissa}) * (vec)((power - half + {bias}) << {mantissa});"""
WIDE_EXP_BEGIN = """\
#if defined({feature}) && defined(__AVX512DQ__)
    const vec n = (vec){head}_roundscale_{tail}(({wide})(x * (real)1.4426950408889634), 0);
    vec r = {rest};
    /* Of NaN or huge x r is anything: the smaller one of it and 1/2, with the sign of r, leaves the result to n. */
    r = (vec){head}_range_{tail}(({wide})r, {head}_set1_{tail}(0.5), 2);
#else
{plain}
#endif"""
WIDE_EXP_END = """\
#if defined({feature}) && defined(__AVX512DQ__)
    return (vec){head}_scalef_{tail}(({wide})sum, ({wide})n);
#else
{plain}
#endif"""
EXP_BY_TABLE = """\
#if defined({feature}) && defined(__AVX512DQ__)
static const real exp_table[{entries}] __attribute__((aligned(64))) = {{
{table}
}};
/* e^x = 2^n e^r with n in steps of 1 / {entries}, whose fraction is looked up, and |r| at most log(2) / {twice}. */
static inline vec vec_exp(vec x)
{{
    const vec shifted = x * (real)1.4426950408889634 + (real){magic};
    const vec n = shifted - (real){magic};
    vec r = {rest};
    /* Of NaN or huge x r is anything: the smaller one of it and 1/2, with the sign of r, leaves the result to n. */
    r = (vec)_mm512_range_ps((__m512)r, _mm512_set1_ps(0.5), 2);
    const __m512 low = _mm512_load_ps(exp_table), high = _mm512_load_ps(exp_table + 16);
    const vec power = (vec)_mm512_permutex2var_ps(low, (__m512i)shifted, high);
    const vec sum = power * r * (r * (real){second!r} + (real){first!r}) + power;
    return (vec)_mm512_scalef_ps((__m512)sum, (__m512)n);
}}
#else
{plain}
#endif"""
ENTRIES = 32
"""Values of the table of 2^(i / 32), which two registers of 64 bytes hold."""
CONSTANTS: Mapping[str, Mapping[str, object]] = {
    "float": {
        "low": "-104", "high": "89", "magic": "12582912", "upper": "0.693359375", "lower": "-2.12194440e-4",
        "bias": 127, "mantissa": 23,
    },
    "double": {
        "low": "-746", "high": "710", "magic": "6755399441055744", "upper": "6.93147180369123816490e-01",
        "lower": "1.90821492927058770002e-10", "bias": 1023, "mantissa": 52,
    },
}  # fmt: skip
"""Of the exponential: where it is 0 or infinite, 1.5 * 2^mantissa, log(2) in two parts (as in Sun's fdlibm)."""
WIDE = {
    64: ("__AVX512F__", "_mm512", "__m512"),
    32: ("__AVX512VL__", "_mm256", "__m256"),
    16: ("__AVX512VL__", "_mm", "__m128"),
}
"""For vectors of so many bytes: what AVX-512 for them is called, how instructions and their type begin."""
REST = {
    "float": "(vec){head}_fnmadd_{tail}(({wide})n, {head}_set1_{tail}(0.6931471805599453f), ({wide})x)",
    "double": "x - n * (real){upper} - n * (real){lower}",
}
"""The rest r of x with AVX-512, which rounds a product and a difference once: in float log(2) then needs one part.

Its 24 digits are wrong by 1.9e-9, which adds n times that to the relative error of a result.
"""
POWERS: Mapping[str, tuple[float, ...]] = {
    "float": (
        1.0,
        0.9999997019767761,
        0.4999914765357971,
        0.1666763871908188,
        0.04189816117286682,
        0.00829027220606804,
    ),
    "double": tuple(1 / factorial(n) for n in range(14)),
}
"""Factors of the powers of r. Float: those whose largest relative error is the least (9.2e-8) with e^0 = 1; double:
those of the series, of which what is left out is below half a unit in the last place.
"""
TABLE_POWERS = (1 + (log(2) / 2 / ENTRIES) ** 2 / 8, 0.5)
"""Factors of r and its square beside a table: r^3 / 6 is nearest to r h^2 / 8 for |r| <= h, up to h^3 / 24 (5.3e-8)."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of vectors: `lanes` values of `real`, which is `float` or `double`."""

    real: str
    lanes: int

    @property
    def wide(self) -> dict[str, str]:
        """Names of instructions of AVX-512 for such vectors; empty for none."""
        size = self.lanes * {"float": 4, "double": 8}[self.real]
        if size not in WIDE:
            return {}
        feature, head, wide = WIDE[size]
        is_double = self.real == "double"
        return {"feature": feature, "head": head, "wide": wide + "d" * is_double, "tail": "pd" if is_double else "ps"}


@dataclass(frozen=True, slots=True)
class Text:
    """A vector, or a mask of lanes, in C: the name of a variable. Operators append a line to `code`."""

    name: str
    code: Code

    def __add__(self, other: Value) -> Text:
        return self.code.line(f"{self.name} + {self.code.operand(other)}")

    def __radd__(self, other: Value) -> Text:
        return self.code.line(f"{self.code.operand(other)} + {self.name}")

    def __sub__(self, other: Value) -> Text:
        return self.code.line(f"{self.name} - {self.code.operand(other)}")

    def __rsub__(self, other: Value) -> Text:
        return self.code.line(f"{self.code.operand(other)} - {self.name}")

    def __mul__(self, other: Value) -> Text:
        return self.code.line(f"{self.name} * {self.code.operand(other)}")

    def __rmul__(self, other: Value) -> Text:
        return self.code.line(f"{self.code.operand(other)} * {self.name}")

    def __truediv__(self, other: Value) -> Text:
        return self.code.line(f"{self.name} / {self.code.operand(other)}")

    def __rtruediv__(self, other: Value) -> Text:
        return self.code.line(f"{self.code.operand(other)} / {self.name}")

    def __pow__(self, other: int) -> Text:
        assert other == 2
        return self.code.line(f"{self.name} * {self.name}")

    def __neg__(self) -> Text:
        return self.code.line(f"-{self.name}")

    def __lt__(self, other: Value) -> Text:
        return self.code.line(f"{self.name} < {self.code.vector(other)}", "ints")

    def __le__(self, other: Value) -> Text:
        return self.code.line(f"{self.name} <= {self.code.vector(other)}", "ints")


type Value = Text | float
LARGEST = {"float": float(np.finfo(np.float32).max), "double": float(np.finfo(np.float64).max)}
"""The largest number of each type."""


@dataclass(slots=True)
class Code:
    """Lines of C so far, and what they call; its methods have the names of NumPy, so that formulas can be given it."""

    lines: list[str] = field(default_factory=list)
    calls: dict[str, None] = field(default_factory=dict)
    largest: float = LARGEST["double"]
    """The largest number of the type; larger ones of an expression, such as 1e300 in float, become it."""

    def line(self, value: str, kind: str = "vec") -> Text:
        """A variable with a value."""
        name = f"t{len(self.lines) + 1}"
        self.lines.append(f"const {kind} {name} = {value};")
        return Text(name, self)

    def operand(self, value: Value) -> str:
        """A vector, or a number that C spreads over one."""
        if isinstance(value, Text):
            return value.name
        number = float(value) if np.isinf(value) else min(max(float(value), -self.largest), self.largest)
        named = {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN"}.get(str(number), repr(number))
        return f"(real){named}"

    def vector(self, value: Value) -> str:
        """A vector of a value."""
        return value.name if isinstance(value, Text) else f"((vec){{0}} + {self.operand(value)})"

    def call(self, function: str, *arguments: Value) -> Text:
        """A call of one of the functions beside the code."""
        self.calls[function] = None
        return self.line(f"vec_{function}({', '.join(map(self.vector, arguments))})")

    def maximum(self, x: Value, y: Value) -> Text:
        """The larger one; NaN if one is."""
        return self.call("max", x, y)

    def minimum(self, x: Value, y: Value) -> Text:
        """The smaller one; NaN if one is."""
        return self.call("min", x, y)

    def clip(self, x: Value, low: float, high: float) -> Text:
        """The nearest number from `low` to `high`."""
        return self.minimum(self.maximum(x, low), high)

    def where(self, mask: Text, x: Value, y: Value) -> Text:
        """The one or the other, lane by lane."""
        self.calls["pick"] = None
        return self.line(f"vec_pick({mask.name}, {self.vector(x)}, {self.vector(y)})")

    def less(self, x: Value, y: Value) -> Text:
        """A mask."""
        return self.line(f"{self.vector(x)} < {self.vector(y)}", "ints")

    def equal(self, x: Value, y: Value) -> Text:
        """A mask."""
        return self.line(f"{self.vector(x)} == {self.vector(y)}", "ints")

    def not_equal(self, x: Value, y: Value) -> Text:
        """A mask."""
        return self.line(f"{self.vector(x)} != {self.vector(y)}", "ints")

    def abs(self, x: Text) -> Text:
        """Without the sign."""
        return self.line(f"(vec)((ints){x.name} & ~(ints)(-(vec){{0}}))")

    def sign(self, x: Text) -> Text:
        """-1, 0 or 1; NaN of NaN."""
        positive = self.where(self.less(0.0, x), 1.0, x)
        return self.where(self.less(x, 0.0), -1.0, positive)

    def add(self, x: Value, y: Value) -> Text:
        """The sum."""
        return self.line(f"{self.vector(x)} + {self.vector(y)}")

    def subtract(self, x: Value, y: Value) -> Text:
        """The difference."""
        return self.line(f"{self.vector(x)} - {self.vector(y)}")

    def multiply(self, x: Value, y: Value) -> Text:
        """The product."""
        return self.line(f"{self.vector(x)} * {self.vector(y)}")

    def divide(self, x: Value, y: Value) -> Text:
        """The quotient."""
        return self.line(f"{self.vector(x)} / {self.vector(y)}")

    def negative(self, x: Value) -> Text:
        """The other sign."""
        return self.line(f"-{self.vector(x)}")

    def power(self, x: Value, y: Value) -> Text:
        """The power."""
        return self.call("pow", x, y)

    def __getattr__(self, name: str) -> Callable[..., Text]:
        if name not in (*BY_LANES, "exp"):
            raise AttributeError(name)
        return lambda *arguments: self.call(name, *arguments)


def map_lines(
    name: str, expression: MapExpression, operands: Mapping[str, str], kind: Kind, known: set[str] | None = None
) -> Iterator[str]:
    """The function `name` of vectors that computes a map expression, after the functions that it calls.

    `operands`: the parameter of each tensor, in order; `known`: functions that the file has already, to which these are
    added.
    """
    code = Code(largest=LARGEST[kind.real])
    result = code.vector(_recorded(expression, {t: Text(text, code) for t, text in operands.items()}, code))
    yield from function_lines(code.calls, kind, set() if known is None else known)
    yield f"static inline vec {name}({', '.join(f'vec {text}' for text in operands.values())})"
    yield "{"
    yield from indented([*code.lines, f"return {result};"])
    yield "}"


def function_lines(names: Iterable[str], kind: Kind, known: set[str]) -> Iterator[str]:
    """The functions `vec_` of such names, and those that they call, but for `known` ones, to which they are added."""
    for function in _in_order(names):
        if function not in known:
            known.add(function)
            yield from (*_function(function, kind).splitlines(), "")


def _recorded(expression: MapExpression, operands: Mapping[str, Text], code: Code) -> Value:
    match expression:
        case Operand(tensor):
            return operands[tensor]
        case Number(value):
            return value
        case Apply(function, arguments):
            values: list[Any] = [_recorded(a, operands, code) for a in arguments]
            if not any(isinstance(v, Text) for v in values):
                with np.errstate(all="ignore"):  # 1 / 0 is inf
                    return float(apply(function, *map(np.float64, values)))
            result: Text = apply(function, *values, xp=code)
            return result


def _in_order(calls: Iterable[str]) -> list[str]:
    """Functions that are called, each after those that it calls itself."""
    needed = set(calls)
    if needed & {"exp", "max", "min"}:
        needed.add("pick")
    return [name for name in ("pick", "max", "min", "exp", *BY_LANES) if name in needed]


def _function(name: str, kind: Kind) -> str:
    wide = kind.wide
    match name:
        case "pick":
            return PICK
        case "max" | "min":
            plain = EXTREME.format(name=name, sign=">" if name == "max" else "<")
            return WIDE_EXTREME.format(name=name, plain=plain, **wide) if wide else plain
        case "exp":
            *factors, first = POWERS[kind.real]
            constants = CONSTANTS[kind.real]
            steps = "\n".join(f"    sum = sum * r + (real){factor!r};" for factor in reversed(factors))
            begin, end = EXP_BEGIN.format(**constants), EXP_END.format(**constants)
            if kind == Kind("float", 16):
                return _exp_by_table(EXP.format(first=first, begin=begin, steps=steps, end=end))
            if wide:
                rest = REST[kind.real].format(**constants, **wide)
                begin = WIDE_EXP_BEGIN.format(plain=begin, rest=rest, **constants, **wide)
                end = WIDE_EXP_END.format(plain=end, **wide)
            return EXP.format(first=first, begin=begin, steps=steps, end=end)
        case _:
            return _by_lanes(name, kind.real)


def _exp_by_table(plain: str) -> str:
    """The exponential of vectors of 16 floats; `plain`: that without AVX-512."""
    kind, (first, second) = Kind("float", 16), TABLE_POWERS
    values = [f"{2 ** (i / ENTRIES):.9g}" for i in range(ENTRIES)]
    table = "\n".join(f"    {', '.join(values[i : i + 8])}," for i in range(0, ENTRIES, 8))
    rest = REST["float"].format(**kind.wide)
    magic = 3 * 2**22 // ENTRIES
    return EXP_BY_TABLE.format(
        plain=plain, rest=rest, table=table, magic=magic, entries=ENTRIES, twice=2 * ENTRIES, first=first,
        second=second, **kind.wide,
    )  # fmt: skip


def _by_lanes(name: str, real: str) -> str:
    names = "xy"[: BY_LANES[name]]
    called = name + ("f" if real == "float" else "")
    arguments = ", ".join(f"{x}[lane]" for x in names)
    return (
        f"static inline vec vec_{name}({', '.join(f'vec {x}' for x in names)})\n{{\n    vec result;\n"
        f"    for (unsigned lane = 0; lane < sizeof(vec) / sizeof(real); lane++)\n"
        f"        result[lane] = {called}({arguments});\n    return result;\n}}"
    )
