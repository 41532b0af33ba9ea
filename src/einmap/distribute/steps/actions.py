"""Actions of a plan before its buffers have names: versions of a tensor are told by their placement alone."""

from __future__ import annotations

from dataclasses import dataclass

from einmap.distribute.hops.hop import Hop
from einmap.distribute.placements.placement import Placement
from einmap.distribute.plans.plan import LocalLoop
from einmap.einsum.einsum import TensorName

type PlanAction = Moved | Computed


@dataclass(frozen=True, slots=True)
class Moved:
    """A tensor that lay as `before` is moved."""

    tensor: TensorName
    before: Placement
    hop: Hop


@dataclass(frozen=True, slots=True)
class Computed:
    """An Einsum is evaluated in one way: its loops, where its operands lie, and how its results come out."""

    einsum: str
    loops: tuple[LocalLoop, ...]
    operands: tuple[tuple[TensorName, Placement], ...]
    results: tuple[tuple[TensorName, Placement], ...]
