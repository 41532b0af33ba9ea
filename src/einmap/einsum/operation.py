"""The operation of an Einsum: a map expression over its inputs and a reduction over the ranks that vanish.

`SN[..] = exp(QK[..] - GM[..])` has the map `exp(QK - GM)` and the reduction `sum` (which sums over
nothing there). Operations give meaning to execution; they change no count of the cost model.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from einmap.einsum.functions import FUNCTIONS
from einmap.errors import SpecError
from einmap.expressions.evaluator.syntax import check_text_length, shortened
from einmap.visible import brief, short

type Reduction = Literal["sum", "max", "min"]
type MapExpression = Operand | Number | Apply

REDUCTIONS: tuple[Reduction, ...] = ("sum", "max", "min")
MOST_DIGITS = 1e16
"""Whole numbers below this are written with all of their digits."""
_TOP_K = re.compile(r"(?<!\w)top_?k\s*\(", re.IGNORECASE)
_KNOWN_NODES = (
    ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.UnaryOp, ast.UAdd, ast.USub, ast.Call, ast.Attribute,
    ast.Name, ast.Constant, ast.Load,
)  # fmt: skip
_TOKEN = re.compile(r"(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)(?P<call>\s*\()?|\d[\w.]*|\.\d\w*|[-+*/(),\s]|(?P<other>.)")
_MEANT = {
    **dict.fromkeys(("x", "X", "times", "·", "∙", "⋅", "•", "×", "⊗", "⊙", "@", "."), "*"),
    "^": "**", "÷": "/", "−": "-", "–": "-",
}  # fmt: skip
"""Operators as other notations write them, and ours."""
_AST_INFIX = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.Pow: "power"}


@dataclass(frozen=True, slots=True)
class Operand:
    """The value of a tensor at the current point."""

    tensor: str


@dataclass(frozen=True, slots=True)
class Number:
    """A literal."""

    value: float


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of `functions.FUNCTIONS` applied to its arguments."""

    function: str
    arguments: tuple[MapExpression, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """`map` is None when `text` is not arithmetic that einmap knows; only execution refuses it."""

    __repr__ = brief

    map: MapExpression | None
    reduction: Reduction = "sum"
    text: str = ""

    def __str__(self) -> str:
        return self.text if self.map is None else format_map(self.map)


def product_of(tensors: Sequence[str], reduction: Reduction = "sum") -> Operation:
    """The default: the inputs multiplied."""
    if not tensors:
        return Operation(Number(1.0), reduction)
    result: MapExpression = Operand(tensors[0])
    for tensor in tensors[1:]:
        result = Apply("multiply", (result, Operand(tensor)))
    return Operation(result, reduction)


def parse_operation(text: str, tensors: Iterable[str], reduction: str = "sum") -> Operation:
    """Read a map expression over tensor names, e.g. `exp(QK - GM)`.

    Text that is not arithmetic over known functions gives an Operation with `map=None`.
    Raises SpecError for an unknown reduction, for numbers that a float cannot hold, and for `top_k`, which would be
    counted as what it is not.
    """
    if reduction not in REDUCTIONS:
        raise SpecError(f"unknown reduction {reduction!r}", hint=f"one of {', '.join(REDUCTIONS)}")
    check_text_length(text)
    if _TOP_K.search(text):
        raise SpecError(
            "top_k is not an operation of an Einsum: which values are the largest depends on all of them",
            hint="let the chosen indices be an input, and look rows up by them: X[S: Slot[e, c], d]",
        )
    kept: Reduction = next(r for r in REDUCTIONS if r == reduction)
    try:
        tree = ast.parse(" ".join(text.split()), mode="eval").body
        return Operation(_convert(tree, frozenset(tensors), 0), kept, text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Operation(None, kept, text)


def check_brackets(text: str) -> None:
    """Raise SpecError for a bracket that is never closed, never opened, or closed by another kind."""
    still_open: list[re.Match[str]] = []
    for bracket in re.finditer(r"[()\[\]]", text):
        if bracket[0] in "([":
            still_open.append(bracket)
        elif still_open and still_open[-1][0] + bracket[0] in ("()", "[]"):
            still_open.pop()
        else:
            raise SpecError(f"{_place(bracket, text)} closes nothing")
    if still_open:
        raise SpecError(f"{_place(still_open[-1], text)} is never closed")


def _place(bracket: re.Match[str], text: str) -> str:
    return f"the {bracket[0]!r} at character {bracket.start() + 1} of {shortened(text)}"


def check_operation(text: str, tensors: Iterable[str]) -> None:
    """Raise SpecError unless a text is an expression over these tensors, numbers, + - * / **, and calls of functions,
    whatever they are called: `A x B` and `alpha * A` are not.
    """
    names = frozenset(tensors)
    line = " ".join(text.split())
    for token in _TOKEN.finditer(line):
        is_unknown = token["name"] in names if token["call"] else token["name"] not in (None, *names)
        if token["other"] or is_unknown:
            raise _not_an_operation(line, token["other"] or token["name"])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(line, mode="eval").body
    except SyntaxError:
        for word in sorted(filter(keyword.iskeyword, names)):
            text = f"{word!r} is a word of expressions and cannot be the name of a tensor"
            raise SpecError(text, hint="choose another name") from None
        hint = "between two tensors stands one of + - * / **, and a tensor on both sides of it, as in A[m, k] * B[k, n]"
        raise SpecError(f"{shortened(line)} is not an operation", hint=hint) from None
    except (ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        is_number = not isinstance(node, ast.Constant) or type(node.value) in (int, float)
        if not (is_number and isinstance(node, _KNOWN_NODES)):
            raise _not_an_operation(line, "//" if isinstance(node, ast.FloorDiv) else ast.unparse(node))


def _not_an_operation(text: str, found: str) -> SpecError:
    meant = _MEANT.get("." if "." in found else found)
    known = "operations are + - * / **, numbers, and functions such as exp(A[m])"
    return SpecError(
        f"{short(found)} in {shortened(text)} is not an operation", hint=f"use {meant}" if meant else known
    )


def _convert(node: ast.expr, tensors: frozenset[str], depth: int) -> MapExpression:
    if depth > 100:
        raise ValueError("too deep")
    match node:
        case ast.Name(id=name) if name in tensors:
            return Operand(name)
        case ast.Constant(value=int(value) | float(value)) if not isinstance(value, bool):
            return Number(_finite(value))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return Apply("negative", (_convert(operand, tensors, depth + 1),))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _AST_INFIX:
            function = _AST_INFIX[type(op)]
            return Apply(function, (_convert(left, tensors, depth + 1), _convert(right, tensors, depth + 1)))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if _takes(name, len(args)):
            return Apply(name, tuple(_convert(arg, tensors, depth + 1) for arg in args))
    raise ValueError("not arithmetic")


def _takes(function: str, arguments: int) -> bool:
    return function in FUNCTIONS and FUNCTIONS[function].arity == arguments


def _finite(value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise SpecError("a number of the operation is too large", hint="the largest is about 1.8e308")
    return number


def format_map(expression: MapExpression) -> str:
    """Text that `parse_operation` reads back to the same expression."""
    match expression:
        case Operand(tensor):
            return tensor
        case Number(value):
            return repr(int(value)) if value == int(value) and abs(value) < MOST_DIGITS else repr(value)
        case Apply("negative", (argument,)):
            return f"-{_bracket(argument)}"
        case Apply(function, (left, right)) if FUNCTIONS[function].infix:
            return f"{_bracket(left, function)} {FUNCTIONS[function].infix} {_bracket(right)}"
        case Apply(function, arguments):
            return f"{function}({', '.join(format_map(a) for a in arguments)})"


def _bracket(expression: MapExpression, chained_with: str = "") -> str:
    text = format_map(expression)
    is_infix = isinstance(expression, Apply) and bool(
        FUNCTIONS[expression.function].infix or expression.function == "negative"
    )
    left_associative = isinstance(expression, Apply) and expression.function == chained_with
    return f"({text})" if is_infix and not left_associative else text


def operands(expression: MapExpression) -> frozenset[str]:
    """The tensors that an expression reads."""
    match expression:
        case Operand(tensor):
            return frozenset({tensor})
        case Number():
            return frozenset()
        case Apply(arguments=arguments):
            return frozenset().union(*(operands(a) for a in arguments))


def with_operands(operation: Operation, names: Mapping[str, str]) -> Operation:
    """The operation with other names for some operands; text that is not arithmetic is changed word by word."""
    if operation.map is None:
        text = re.sub(r"[^\W\d]\w*", lambda word: names.get(word.group(), word.group()), operation.text)
        return replace(operation, text=text)
    changed = _with_operands(operation.map, names)
    return Operation(changed, operation.reduction, format_map(changed))


def _with_operands(expression: MapExpression, names: Mapping[str, str]) -> MapExpression:
    match expression:
        case Operand(tensor):
            return Operand(names.get(tensor, tensor))
        case Apply(function, arguments):
            return Apply(function, tuple(_with_operands(a, names) for a in arguments))
        case _:
            return expression
