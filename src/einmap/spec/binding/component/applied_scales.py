"""Costs before the specification scaled them, and the factors: kept beside the bound values, for provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from einmap.spec.raw import Path

if TYPE_CHECKING:
    from einmap.components.base import Estimate

type Quantity = tuple[str | None, str]
"""An action, or None for the component itself, and what is told of it: area, leak_power, energy, latency, ..."""


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor: the field of that name, `value` as it is there, `path` from the component; () where none is written.

    `divides`: the cost is divided by it, as a latency by `throughput_scale`.
    """

    field: str
    value: float
    path: Path = ()
    divides: bool = False


@dataclass(frozen=True, slots=True)
class Scaled:
    """A cost as it was given, `before` any factor, in J, s, m^2 or W, and the factors other than 1 in their order."""

    before: float
    factors: tuple[Factor, ...]


@dataclass(frozen=True)
class CostOrigin:
    """Origin of a component's costs: `estimate` of its model, None without one; `scaled`: costs with factors."""

    estimate: Estimate | None = None
    scaled: Mapping[Quantity, Scaled] = field(default_factory=dict)


@dataclass(frozen=True)
class Scales:
    """Costs of one component that are scaled: each is noted as it is computed."""

    noted: dict[Quantity, Scaled] = field(default_factory=dict)

    def note(self, action: str | None, quantity: str, before: float, *factors: Factor) -> None:
        """Keep what a cost was made of, if it was scaled at all."""
        applied = tuple(factor for factor in factors if factor.value != 1)
        if applied:
            self.noted[action, quantity] = Scaled(before, applied)

    def times(self, action: str | None, quantity: str, before: float, *factors: Factor) -> float:
        """A cost (m^2, W, s) times its factors, which are kept."""
        self.note(action, quantity, before, *factors)
        for factor in factors:
            before *= factor.value
        return before
