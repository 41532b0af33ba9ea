"""Whether two costs are the same but for rounding."""

from __future__ import annotations

import math
from typing import Any

from einmap import Cost, EinmapError, Spec, evaluate


def cost_or_refusal(spec: Spec, semantics: str | None = None) -> Cost | str:
    """The cost of a specification, or the kind of error that it is refused with."""
    try:
        return evaluate(spec, semantics=semantics)
    except EinmapError as error:
        return type(error).__name__


def is_same(first: Any, second: Any) -> bool:
    """Equal numbers up to rounding, equal texts, in equal places."""
    match first, second:
        case Cost(), Cost():
            left, right = first.to_dict(), second.to_dict()
            return is_same({**left, "notes": None}, {**right, "notes": None})
        case dict(), dict():
            return first.keys() == second.keys() and all(is_same(first[key], second[key]) for key in first)
        case (list(), list()) | (tuple(), tuple()):
            return len(first) == len(second) and all(map(is_same, first, second))
        case (int() | float(), int() | float()):
            return math.isclose(first, second, rel_tol=1e-12)
        case _:
            return bool(first == second)
