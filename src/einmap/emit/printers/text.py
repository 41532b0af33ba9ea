"""Helpers of all printers: conditions, amounts, arithmetic, indented lines."""

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
            return _Constraint(words, text, dict(values)).text(constraint.tree)
        case _:
            assert_never(condition)


@dataclass(frozen=True)
class _Constraint:
    """Writes a constraint of an iteration space. `shown`: how integers are written; `values`: of the rank variables."""

    words: Words
    shown: Callable[[Linear], str]
    values: Mapping[str, Linear]

    def text(self, node: ast.expr, *, inner: bool = False) -> str:
        """A truth value, in brackets if it is `inner` and has parts."""
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.words.negated.format(self.text(operand))
            case ast.BoolOp(op=op, values=parts):
                word = self.words.both if isinstance(op, ast.And) else self.words.either
                joined = word.join(self.text(part, inner=True) for part in parts)
            case ast.Compare(left=left, ops=ops, comparators=others):
                ends = [self.number(end) for end in (left, *others)]
                pairs = zip(pairwise(ends), ops, strict=True)
                joined = self.words.both.join(f"{a} {_COMPARISON[type(op)]} {b}" for (a, b), op in pairs)
                inner &= len(ops) > 1
            case _:
                raise AssertionError(ast.unparse(node))  # parse_constraint takes nothing else
        return f"({joined})" if inner else joined

    def number(self, node: ast.expr, *, inner: bool = False) -> str:
        """An integer, in brackets if it is `inner` and a sum."""
        linear = self._linear(node)
        if linear is not None:
            joined, inner = self.shown(linear), inner and len(linear.terms) + bool(linear.constant) > 1
            return f"({joined})" if inner else joined
        match node:
            case ast.UnaryOp(operand=operand):
                return f"(-{self.number(operand, inner=True)})"
            case ast.BinOp(left=left, op=ast.Mod(), right=right):
                joined = self.words.modulo.format(self.number(left, inner=True), self.number(right))
            case ast.BinOp(left=left, op=operator, right=right):
                a, b = self.number(left, inner=True), self.number(right, inner=True)
                joined = f"{a} {_ARITHMETIC[type(operator)]} {b}"
            case _:
                raise AssertionError(ast.unparse(node))
        return f"({joined})" if inner else joined

    def _linear(self, node: ast.expr) -> Linear | None:
        """The integer as a sum over names of the code, where it is one."""
        match node:
            case ast.Name(id=name):
                return self.values[name]
            case ast.Constant(value=int(value)):
                return Linear((), value)
            case ast.UnaryOp(operand=operand):
                linear = self._linear(operand)
                return None if linear is None else linear.times(-1)
            case ast.BinOp(left=left, op=operator, right=right) if not isinstance(operator, ast.Mod):
                a, b = self._linear(left), self._linear(right)
                if a is None or b is None:
                    return None
                match operator:
                    case ast.Add():
                        return a + b
                    case ast.Sub():
                        return a - b
                    case _:
                        return b.times(a.constant) if a.is_number else a.times(b.constant) if b.is_number else None
            case _:
                return None


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
    """Neutral value of a reduction."""
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
