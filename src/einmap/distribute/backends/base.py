"""The interface of engines, a plan and whole arrays in, whole arrays out; and how arrays are dealt and collected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.backends.observed_collectives import Collective
from einmap.distribute.placements.mesh import AxisName, Mesh
from einmap.distribute.placements.placement import held
from einmap.distribute.plans.plan import Buffer, Plan
from einmap.einsum.einsum import TensorName

type Tensor = NDArray[Any]


@dataclass(frozen=True)
class Run:
    """The result of running a plan. `lowered`: the collectives of the program that ran, `compiled`: what its compiler
    made of them (merged, dropped, replaced); None where nothing really moves.

    `facts`: what else the engine reports, by name (devices, platform, versions, seconds).
    """

    outputs: Mapping[TensorName, Tensor]
    lowered: tuple[Collective, ...] | None = None
    compiled: tuple[Collective, ...] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


class Engine(Protocol):
    """One way to run a plan; a context manager, which ends what the engine has started."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def check(self, plan: Plan) -> None:
        """Raise SpecError when the plan cannot be run with the engine's options; nothing is started."""

    def run(self, plan: Plan, inputs: Mapping[TensorName, Tensor]) -> Run:
        """The outputs of the plan, whole, from its graph inputs, whole (shapes as `numeric.shapes` says).

        Raises EinmapError where the plan cannot be run here.
        """


def deal(plan: Plan, buffer: Buffer, whole: Tensor, padding: float = np.nan) -> list[Tensor]:
    """The array of each PE for a tensor; what lies beyond the tensor is `padding`.

    An input that is a partial sum is dealt as the halves, quarters, ... of the values, which are exact addends. PEs
    that hold the same share one array.
    """
    made: dict[tuple[tuple[range, ...], float], Tensor] = {}
    arrays = []
    for device in range(plan.mesh.n_devices):
        parts = _held(plan.mesh, buffer, device)
        if not buffer.placement.is_held(plan.mesh.coordinates(device)):
            arrays.append(np.full(buffer.shape, padding, dtype=plan.dtype))
            continue
        share = addend_share(plan.mesh, buffer.placement.partial, device)
        if (parts, share) not in made:
            local = np.full(buffer.shape, padding, dtype=plan.dtype)
            inside = tuple(slice(len(part)) for part in parts)
            local[inside] = whole[tuple(slice(part.start, part.stop) for part in parts)] * share
            made[parts, share] = local
        arrays.append(made[parts, share])
    return arrays


def addend_share(mesh: Mesh, axes: Sequence[AxisName], device: int) -> float:
    """The part of a whole that a PE holds of a partial sum: 1/2, 1/4, ..., the last one as the one before."""
    parts, place = mesh.parts(axes), mesh.position(device, axes)
    return float(0.5 ** min(place + 1, parts - 1))


def collect(plan: Plan, buffer: Buffer, locals_: Sequence[Tensor]) -> Tensor:
    """The whole tensor from the arrays of all PEs; addends are added in the order of the PEs."""
    whole = np.zeros([size for _, size in buffer.sizes], dtype=plan.dtype)
    axes = buffer.placement.partial
    copies = [axis for axis in plan.mesh.names if axis not in buffer.placement.used]
    seen: set[tuple[range, ...]] = set()
    for device, local in enumerate(locals_):
        if plan.mesh.position(device, copies) or not buffer.placement.is_held(plan.mesh.coordinates(device)):
            continue  # one of the copies is enough
        parts = _held(plan.mesh, buffer, device)
        values = local[tuple(slice(len(part)) for part in parts)]
        place = tuple(slice(part.start, part.stop) for part in parts)
        whole[place] = _joined(buffer, whole[place], values) if axes and parts in seen else values
        seen.add(parts)
    return whole


def _joined(buffer: Buffer, left: Tensor, right: Tensor) -> Tensor:
    join = {"sum": np.add, "max": np.maximum, "min": np.minimum}[buffer.placement.reduction]
    joined: Tensor = join(left, right)
    return joined


def _held(mesh: Mesh, buffer: Buffer, device: int) -> tuple[range, ...]:
    return tuple(held(size, buffer.placement.of(rank), mesh, device) for rank, size in buffer.sizes)
