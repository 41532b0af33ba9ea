"""Bytes that a device holds over a whole step, and what it moves for gradients and weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from einmap.distribute.plans.collectives import Kind
from einmap.distribute.training.layer import Weights
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
    """A collective for gradients or weights among devices with the same ones. `often`: once a step (`step`), after the
    update (`update`), or in each forward or backward pass of a micro-batch.
    """

    often: str
    kind: Kind
    seconds: float
    sent: float


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
        if machine.parts(some.copies) > 1:
            for often, kind, is_gradient in kinds[zero]:
                whole = some.values * model.gradient_bytes if is_gradient else some.bytes
                seconds = machine.seconds(kind, some.copies, whole)
                yield DataMove(often, kind, seconds, machine.sent(kind, some.copies, whole))
