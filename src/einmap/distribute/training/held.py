"""Bytes that a device holds over a whole step, and what it moves for gradients and weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from einmap.distribute.plans.collectives import Kind
from einmap.distribute.training.layer import LayerCost, Weights
from einmap.distribute.training.machine import Machine
from einmap.distribute.training.model import TrainingModel


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes on one device: `weights`, their `gradients`, the `state` of the optimiser, `activations` that wait for the
    backward pass, `working` room of one layer.
    """

    weights: float = 0.0
    gradients: float = 0.0
    state: float = 0.0
    activations: float = 0.0
    working: float = 0.0

    @property
    def total(self) -> float:
        """Bytes of all kinds together."""
        return self.weights + self.gradients + self.state + self.activations + self.working

    def __add__(self, other: Held) -> Held:
        return Held(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


def held_by_weights(weights: Iterable[Weights], model: TrainingModel, machine: Machine, zero: int) -> Held:
    """Bytes of weights, gradients and state: with d copies and Adam in mixed precision 16 a weight, 4 + 12/d, 2 + 14/d
    or 16/d for ZeRO 0 to 3 (Rajbhandari et al., "ZeRO", SC 2020).
    """
    total = Held()
    for some in weights:
        parts = machine.parts(some.copies)
        spread = [parts if zero >= stage else 1 for stage in (3, 2, 1)]
        total += Held(
            some.bytes / spread[0],
            some.values * model.gradient_bytes / spread[1],
            some.values * model.updated(some.bits).state / spread[2],
        )
    return total


@dataclass(frozen=True, slots=True)
class DataMove:
    """A collective for gradients or weights (`what`) among devices with the same ones. `often`: once a step (`step`),
    after the update (`update`), or in each forward or backward pass of a micro-batch.
    """

    what: str
    often: str
    kind: Kind
    seconds: float
    sent: float


def layer_moves(cost: LayerCost, model: TrainingModel, machine: Machine, zero: int) -> Iterator[DataMove]:
    """Collectives for gradients and weights of a layer: those of `data_moves`, and those that come before."""
    for one in cost.brought:
        yield DataMove("gradients", "step" if zero < 2 else "backward", one.kind, one.seconds, one.sent)
    yield from data_moves(cost.weights, model, machine, zero)


def data_moves(weights: Iterable[Weights], model: TrainingModel, machine: Machine, zero: int) -> Iterator[DataMove]:
    """Collectives for gradients and weights.

    ZeRO 0 sums gradients once a step; 1 sums them in parts and gathers weights after the update; 2 keeps parts of
    gradients, so that each micro-batch adds to them; 3 gathers weights for each pass. With one micro-batch and d copies
    a device sends 4, 4, 4 and 6 (d - 1)/d bytes for a weight of 2 bytes.
    """
    kinds: dict[int, tuple[tuple[str, Kind, bool], ...]] = {
        0: (("step", "all_reduce", True),),
        1: (("step", "reduce_scatter", True), ("update", "all_gather", False)),
        2: (("backward", "reduce_scatter", True), ("update", "all_gather", False)),
        3: (
            ("forward", "all_gather", False),
            ("backward", "all_gather", False),
            ("backward", "reduce_scatter", True),
        ),
    }
    for some in weights:
        copies, addends = machine.parts(some.copies), machine.parts(some.addends)
        for often, kind, is_gradient in kinds[zero] if copies > 1 else ():
            if is_gradient:
                # where several devices have the same gradient each keeps its part of that first
                over, whole = some.addends, some.values * model.gradient_bytes / (copies / addends if zero else 1)
            elif often == "backward" and not some.again:
                continue
            else:
                over, whole = some.copies, some.bytes
            if machine.parts(over) > 1:
                what = "gradients" if is_gradient else "weights"
                yield DataMove(what, often, kind, machine.seconds(kind, over, whole), machine.sent(kind, over, whole))
