"""One move of a tensor, and what it sends."""

from __future__ import annotations

from dataclasses import dataclass

from einmap.distribute.collectives import Kind
from einmap.distribute.mesh import AxisName
from einmap.distribute.placement import Placement
from einmap.einsum.projection import Rank


@dataclass(frozen=True, slots=True)
class Hop:
    """One move of a tensor; `after` is its placement then.

    `operand`, `result`: values that one PE puts in and gets out, padding included. `sent_values`: what all PEs together
    send, a whole number. `kind` and ranks as in `plan.Move`; `senders`: which part of the PEs sends.
    """

    kind: Kind
    axes: tuple[AxisName, ...]
    after: Placement
    operand: int
    result: int
    sent_values: int
    gather: Rank | None = None
    scatter: Rank | None = None
    senders: float = 1.0
