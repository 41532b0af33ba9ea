"""A part of an explanation: some Einsums, tensors or components."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from einmap.model.explanation.values import Explanation

_ROWS = (
    "cases",
    "stationary",
    "derivations",
    "lives",
    "fullest",
    "occupied",
    "bottlenecks",
    "energy",
    "fanouts",
    "changes",
    "savings",
)
"""The fields of an explanation that hold rows."""


def only(
    explanation: Explanation,
    einsums: Collection[str] = (),
    tensors: Collection[str] = (),
    components: Collection[str] = (),
) -> Explanation:
    """Rows about these Einsums, tensors and components; empty: all. Rows about none of a kind stay.

    What is stationary is about loops, thus about no component. Energy shares are still those of the whole cost.
    """

    def about(row: Any) -> bool:
        names = getattr(row, "einsums", None) or tuple(n for n in (getattr(row, "einsum", None),) if n)
        component = getattr(row, "component", None) or getattr(row, "memory", None)
        tensor = getattr(row, "tensor", None)
        return (
            (not einsums or not names or any(name in einsums for name in names))
            and (not tensors or not hasattr(row, "tensor") or tensor in tensors)
            and (not components or component is None or component in components)
        )

    rows: dict[str, Any] = {name: tuple(row for row in getattr(explanation, name) if about(row)) for name in _ROWS}
    if components:
        rows["stationary"] = ()
    return replace(explanation, **rows)
