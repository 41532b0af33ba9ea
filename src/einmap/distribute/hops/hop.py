"""One move of a tensor, and what it sends."""

from __future__ import annotations

from dataclasses import dataclass, field

from einmap.distribute.hops.routes import Routes
from einmap.distribute.placements.mesh import AxisName
from einmap.distribute.placements.placement import Placement
from einmap.distribute.plans.collectives import Kind
from einmap.einsum.spaces.projection import Rank


@dataclass(frozen=True, slots=True)
class Hop:
    """One move of a tensor; `after` is its placement then.

    `operand`, `result`: values that one PE puts in and gets out, padding included. `sent_values`: what all PEs together
    send, a whole number. `kind` and ranks as in `plan.Move`; `senders`: which part of the PEs sends. `filled`: which
    part of the larger of operand and result is not padding, on average over the PEs; `routes`: who sends to whom, where
    messages go from single PEs to single PEs.
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
    filled: float = 1.0
    routes: Routes | None = field(default=None, compare=False)
