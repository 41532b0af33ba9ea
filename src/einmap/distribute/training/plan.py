"""A plan of a training step: how devices are divided, what is kept and what is computed again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from einmap.distribute.pipelines.shipped import SCHEDULES
from einmap.errors import EinmapError, SpecError, did_you_mean, raise_all
from einmap.units import counted
from einmap.visible import short

type Recompute = Literal["none", "selective", "full"]
RECOMPUTE: tuple[Recompute, ...] = get_args(Recompute.__value__)
type Overlap = Literal["data", "tensor"]
OVERLAPS: tuple[Overlap, ...] = get_args(Overlap.__value__)
type Dim = Literal["tp", "cp", "ep", "dp", "pp"]
DIMS: tuple[Dim, ...] = get_args(Dim.__value__)
"""Ways to divide devices, those whose devices are nearest to one another first: tensor, context, expert, data and
pipeline parallel.
"""
ZERO = (0, 1, 2, 3)
FOLDED = ("zb-v", "dual-pipe-v")
"""Schedules whose stages go to the last device and back."""
SPLIT = ("zb-1p", "zb-2p", *FOLDED)
"""Schedules whose backward passes are in two parts."""


@dataclass(frozen=True)
class TrainingPlan:
    """Devices are divided `dp` x `tp` x `cp` x `ep` x `pp`. Each of `dp` x `ep` groups has samples of its own, `cp`
    devices parts of the sequence, `tp` devices parts of each weight (of kept or reduced ranks), `ep` devices experts,
    `pp` devices stages.

    `micro_batch`: samples of a micro-batch on each of `dp` x `ep` groups; `sequence_parallel`: norms and residual sums
    are spread over `tp`, too, else each device does all of them; `stages`: layers of each of `pp` x `chunks` stages, in
    order, None: as even as can be; `chunks`: stages of a device, which go round the devices, or in the form of a V;
    `schedule`: a name of `pipelines.shipped`; `zero`: what is spread over the devices that have the same weights: 0
    nothing, 1 the state of the optimiser, 2 gradients, 3 weights; `recompute`: what the backward pass computes again:
    nothing, what has two ranks of positions (`selective`), or all but the input of a layer (`full`); `overlap`:
    communication that runs while devices compute: of gradients and weights (`data`), of activations (`tensor`).

    Raises SpecError (several problems together) for what is not so.
    """

    dp: int = 1
    tp: int = 1
    cp: int = 1
    ep: int = 1
    pp: int = 1
    micro_batch: int = 1
    sequence_parallel: bool = True
    stages: tuple[int, ...] | None = None
    chunks: int = 1
    schedule: str = "1f1b"
    zero: int = 0
    recompute: Recompute = "none"
    overlap: tuple[Overlap, ...] = ("data",)

    def __post_init__(self) -> None:
        raise_all(list(self._problems()))

    def _problems(self) -> Iterator[EinmapError]:
        for name in (*DIMS, "micro_batch", "chunks"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                yield SpecError(f"{name} is {short(value)}; expected a whole number from 1 on")
        if self.schedule not in SCHEDULES:
            hint = did_you_mean(str(self.schedule), SCHEDULES, listing="schedules")
            yield SpecError(f"no schedule has the name {short(self.schedule)}", hint=hint)
        if self.recompute not in RECOMPUTE:
            yield SpecError(f"recompute is {short(self.recompute)}", hint=f"one of {', '.join(RECOMPUTE)}")
        if self.zero not in ZERO:
            yield SpecError(f"zero is {short(self.zero)}; expected 0, 1, 2 or 3")
        for one in self.overlap:
            if one not in OVERLAPS:
                yield SpecError(f"nothing named {short(one)} overlaps", hint=f"one of {', '.join(OVERLAPS)}")
        if self.stages is not None and (
            len(self.stages) != self.pp * self.chunks or any(type(n) is not int or n < 0 for n in self.stages)
        ):
            yield SpecError(
                f"stages is {short(self.stages)}; expected a number of layers for each of {self.pp} x {self.chunks}"
            )

    @property
    def devices(self) -> int:
        """Number of devices."""
        return math.prod(self.size(dim) for dim in DIMS)

    def size(self, dim: Dim) -> int:
        """Devices along one of the ways to divide them."""
        return {"tp": self.tp, "cp": self.cp, "ep": self.ep, "dp": self.dp, "pp": self.pp}[dim]

    def micro_batches(self, batch: int) -> int:
        """Micro-batches of a step with so many samples. Raises SpecError where they do not divide it."""
        together = self.micro_batch * self.dp * self.ep
        if batch % together:
            raise SpecError(
                f"a step of {counted(batch, 'sample')} is not a whole number of micro-batches of {self.micro_batch} on "
                f"{counted(self.dp * self.ep, 'group')} of devices",
                hint=f"take a multiple of {together:,}",
            )
        return batch // together

    def __str__(self) -> str:
        dims = [f"{dim} {self.size(dim)}" for dim in ("dp", "tp", "cp", "ep", "pp") if self.size(dim) > 1]
        parts = [" x ".join(dims) or "one device", f"micro-batch {self.micro_batch}"]
        if self.pp > 1:
            parts.append(self.schedule + (f" of {self.chunks} stages a device" if self.chunks > 1 else ""))
        parts += [f"ZeRO {self.zero}"] if self.zero else []
        parts += [f"{self.recompute} recomputation"] if self.recompute != "none" else []
        parts += ["sequence parallel"] if self.tp > 1 and self.sequence_parallel else []
        return ", ".join(parts)
