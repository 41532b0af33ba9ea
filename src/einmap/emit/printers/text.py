"""What the printers share: conditions, amounts, arithmetic, indented lines."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import assert_never

from einmap.einsum.functions import FUNCTIONS
from einmap.einsum.operation import Apply, MapExpression, Number, Operand, Reduction
from einmap.emit.language.linear import Linear
from einmap.emit.language.program import All, Any, Charge, Condition, Is, Within
from einmap.visible import visible

INDENT = "    "


@dataclass(frozen=True)
class Words:
    """Words of a language for conditions."""

    both: str
    either: str
    true: str
    false: str
    negated: str
    modulo: str
    """Template of the remainder of {0} by {1}, from 0 on also where {0} is negative."""


def condition_text(condition: Condition, words: Words, text: Callable[[Linear], str] = str) -> str:
    """`k1 == 0 and (m1 > 0 or n1 > 0)`."""
    match condition:
        case Is(value=value, sign=sign):
            return f"{text(value)} {'>' if sign == 'positive' else '=='} 0"
        case All(parts=()):
            return words.true
        case Any(parts=()):
            return words.false
        case All(parts=parts) | Any(parts=parts):
            word = words.both if isinstance(condition, All) else words.either
            return word.join(
                f"({condition_text(p, words, text)})" if isinstance(p, All | Any) else condition_text(p, words, text)
                for p in parts
            )
        case Within(constraint=constraint, values=values):
            shown = {v: f"({text(value)})" if len(value.terms) + bool(value.constant) > 1 else text(value)
                     for v, value in values}  # fmt: skip
            return _constraint_text(constraint.tree, words, shown)
        case _:
            assert_never(condition)


def _constraint_text(node: ast.expr, words: Words, shown: Mapping[str, str], *, inner: bool = False) -> str:
    """A constraint of an iteration space, in the words of a language; `inner`: in brackets where it has parts."""

    def part(child: ast.expr) -> str:
        return _constraint_text(child, words, shown, inner=True)

    match node:
        case ast.Name(id=name):
            return shown[name]
        case ast.Constant(value=value):
            return str(value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return words.negated.format(_constraint_text(operand, words, shown))
        case ast.UnaryOp(operand=operand):
            return f"(-{part(operand)})"
        case ast.BinOp(left=left, op=ast.Mod(), right=right):
            return words.modulo.format(part(left), part(right))
        case ast.BinOp(left=left, op=operator, right=right):
            text = f"{part(left)} {_ARITHMETIC[type(operator)]} {part(right)}"
        case ast.BoolOp(op=op, values=values):
            text = (words.both if isinstance(op, ast.And) else words.either).join(map(part, values))
        case ast.Compare(left=left, ops=ops, comparators=others):
            pairs = zip(pairwise([left, *others]), ops, strict=True)
            ends = {end: _constraint_text(end, words, shown) for end in (left, *others)}
            text = words.both.join(f"{ends[a]} {_COMPARISON[type(op)]} {ends[b]}" for (a, b), op in pairs)
            return f"({text})" if inner and len(ops) > 1 else text
        case _:
            raise AssertionError(ast.unparse(node))  # parse_constraint takes nothing else
    return f"({text})" if inner else text


_ARITHMETIC: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_COMPARISON: dict[type, str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "=="}


def amount_text(sizes: Iterable[Linear]) -> str:
    """The product of sizes."""
    constant, parts = 1, []
    for size in sizes:
        if size.is_number:
            constant *= size.constant
        else:
            parts.append(str(size) if len(size.terms) == 1 and not size.constant else f"({size})")
    return " * ".join(parts if constant == 1 and parts else [str(constant), *parts])


def by_condition(charges: Iterable[Charge]) -> dict[Condition, list[str]]:
    """Names of counters, by the condition under which they count."""
    counters: dict[Condition, list[str]] = {}
    for charge in charges:
        counters.setdefault(charge.where, []).append(charge.counter.name)
    return counters


def looked_up(element: str, rows: tuple[str, ...], choice: str, both: str) -> str:
    """An element of a table, or zero where a row is -1. `choice`: template of {0} under the condition {1}, else 0."""
    return choice.format(element, both.join(f"{row} >= 0" for row in rows)) if rows else element


def map_text(expression: MapExpression, operand: Mapping[str, str], functions: Mapping[str, str], real: str) -> str:
    """A map expression. `functions`: templates with {0}, {1}; `real`: template of a number."""
    match expression:
        case Operand(tensor):
            return operand[tensor]
        case Number(value):
            return real.format(repr(float(value)))
        case Apply(function, arguments):
            parts = [map_text(a, operand, functions, real) for a in arguments]
            if FUNCTIONS[function].infix:
                left, right = (_bracket(a, text) for a, text in zip(arguments, parts, strict=True))
                if function in ("add", "multiply") or not _is_infix(arguments[0], function):
                    left = parts[0] if _is_infix(arguments[0], function) else left
                return f"{left} {FUNCTIONS[function].infix} {right}"
            return functions[function].format(*parts)
        case _:
            assert_never(expression)


def _is_infix(expression: MapExpression, function: str) -> bool:
    return isinstance(expression, Apply) and expression.function == function


def _bracket(expression: MapExpression, text: str) -> str:
    return f"({text})" if isinstance(expression, Apply) and FUNCTIONS[expression.function].infix else text


def neutral_text(reduction: Reduction, infinity: str) -> str:
    """What does not change a reduction."""
    match reduction:
        case "sum":
            return "0.0"
        case "max":
            return f"-{infinity}"
        case "min":
            return infinity
        case _:
            assert_never(reduction)


def indented(lines: Iterable[str], depth: int = 1) -> Iterator[str]:
    """The lines, further in."""
    for line in lines:
        yield INDENT * depth + line if line else line


def comment_safe(text: str) -> str:
    """Names and texts of a specification in a comment: one line, nothing that could end the comment."""
    shown = visible(text).replace("\n", " ")
    return shown.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/").replace("??", "? ?")
