"""What the printers share: conditions, amounts, arithmetic, indented lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from einmap.einsum.functions import FUNCTIONS
from einmap.einsum.operation import Apply, MapExpression, Number, Operand, Reduction
from einmap.emit.language.linear import Linear
from einmap.emit.language.program import All, Any, Charge, Condition, Is
from einmap.visible import visible

INDENT = "    "


@dataclass(frozen=True)
class Words:
    """Words of a language for conditions."""

    both: str
    either: str
    true: str
    false: str


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
        case _:
            assert_never(condition)


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
