"""A plan of a training step: how devices are divided, what is kept and what is computed again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from einmap.distribute.pipelines.shipped import SCHEDULES
from einmap.distribute.placements.mesh import Mesh
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

    `meshes`: where the stages have sub-meshes of different sizes, `dp` and `tp` of each of them, one stage on each; the
    fields `dp`, `tp` and `micro_batch` are then those of the first one, and all stages have the same samples.

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
    meshes: tuple[tuple[int, int], ...] | None = None

    def __post_init__(self) -> None:
        raise_all(list(self._problems()))
        if self.meshes is not None:
            given = dict(zip(("dp", "tp"), self.meshes[0], strict=True))
            for name, value in given.items():
                object.__setattr__(self, name, value)
            if len({*self.meshes}) == 1:
                object.__setattr__(self, "meshes", None)

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
        if self.meshes is not None:
            yield from self._problems_of_meshes(self.meshes)

    def _problems_of_meshes(self, meshes: tuple[tuple[int, int], ...]) -> Iterator[EinmapError]:
        if any(len((*mesh,)) != 2 or any(type(n) is not int or n < 1 for n in mesh) for mesh in meshes):
            yield SpecError(f"meshes is {short(meshes)}; expected dp and tp of each sub-mesh", hint="such as 2x4+2x2")
        elif len(meshes) != self.pp or self.chunks > 1:
            text = f"meshes are {len(meshes)}, stages {self.pp} x {self.chunks}; expected one for each"
            yield SpecError(text, hint=f"pp={len(meshes)} and chunks=1")
        elif (self.dp, self.tp) not in ((1, 1), meshes[0]):
            text = f"dp {self.dp} and tp {self.tp}, but the first sub-mesh has {meshes[0][0]} x {meshes[0][1]}"
            yield SpecError(text, hint="leave out dp and tp")

    @property
    def devices(self) -> int:
        """Number of devices."""
        if self.meshes is not None:
            return sum(dp * tp for dp, tp in self.meshes) * self.cp * self.ep
        return math.prod(self.size(dim) for dim in DIMS)

    @property
    def stage_devices(self) -> int:
        """Devices of one stage, of several sub-meshes those of the first."""
        return self.dp * self.tp * self.cp * self.ep

    def size(self, dim: Dim) -> int:
        """Devices along one of the ways to divide them."""
        return {"tp": self.tp, "cp": self.cp, "ep": self.ep, "dp": self.dp, "pp": self.pp}[dim]

    @property
    def is_tensor_parallel(self) -> bool:
        """Whether weights of some stage are in parts."""
        return self.tp > 1 or any(tp > 1 for _, tp in self.meshes or ())

    def micro_batches(self, batch: int) -> int:
        """Micro-batches of a step with so many samples. Raises SpecError where they do not divide it, or the groups of
        a sub-mesh do not divide them.
        """
        for stage in range(len(self.meshes or ())):
            self.on(stage)
        together = self.micro_batch * self.dp * self.ep
        if batch % together:
            raise SpecError(
                f"a step of {counted(batch, 'sample')} is not a whole number of micro-batches of {self.micro_batch} on "
                f"{counted(self.dp * self.ep, 'group')} of devices",
                hint=f"take a multiple of {together:,}",
            )
        return batch // together

    def on(self, device: int) -> TrainingPlan:
        """The plan as one device of the pipeline has it: its own sub-mesh is the first one. Raises SpecError where the
        groups of that have no whole number of samples.
        """
        if self.meshes is None or device == 0:
            return self
        dp, tp = self.meshes[device]
        samples, left = divmod(self.micro_batch * self.dp, dp)
        if left:
            raise SpecError(
                f"micro-batches of {counted(self.micro_batch * self.dp, 'sample')} are not divided by dp {dp} of stage "
                f"{device}",
                hint=f"take a micro_batch that makes them a multiple of {dp}",
            )
        turned = (*self.meshes[device:], *self.meshes[:device])
        return replace(self, dp=dp, tp=tp, micro_batch=samples, meshes=turned)

    @property
    def shown_meshes(self) -> str | None:
        """Sub-meshes of different sizes, `dp` x `tp` each; None where all stages have the same."""
        return None if self.meshes is None else " + ".join(f"{dp}x{tp}" for dp, tp in self.meshes)

    def __str__(self) -> str:
        dims = [f"{dim} {self.size(dim)}" for dim in ("dp", "tp", "cp", "ep", "pp") if self.size(dim) > 1]
        if self.meshes is not None:
            shared = [f" x {one}" for one in dims if one.startswith(("cp", "ep"))]
            dims = [f"stages with dp x tp{''.join(shared)} of {self.shown_meshes}"]
        parts = [" x ".join(dims) or "one device", f"micro-batch {self.micro_batch}"]
        if self.pp > 1:
            parts.append(self.schedule + (f" of {self.chunks} stages a device" if self.chunks > 1 else ""))
        parts += [f"ZeRO {self.zero}"] if self.zero else []
        parts += [f"{self.recompute} recomputation"] if self.recompute != "none" else []
        parts += ["sequence parallel"] if self.is_tensor_parallel and self.sequence_parallel else []
        return ", ".join(parts)


@dataclass(frozen=True)
class TrainingRequest:
    """A request for a plan. `devices`: how many; `memory`: bytes of a device that no plan exceeds, None: those of the
    cluster's PE; `laid`: devices along each axis of the cluster; `fixed`: fields of plans with the one value, or the
    values, that they may have.

    Raises SpecError for fewer than one device, and for unknown fields.
    """

    devices: int
    memory: float | None = None
    laid: Mesh | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.devices < 1:
            raise SpecError(f"{self.devices} devices; expected at least 1")
        for name in self.fixed:
            if name not in TrainingPlan.__dataclass_fields__:
                hint = did_you_mean(str(name), TrainingPlan.__dataclass_fields__, listing="fields")
                raise SpecError(f"a plan of a training step has no field {name!r}", hint=hint)

    def values(self, name: str, default: Sequence[Any]) -> tuple[Any, ...]:
        """The values that a field may have."""
        if name not in self.fixed:
            return tuple(default)
        given = self.fixed[name]
        return tuple(given) if isinstance(given, list | set) else (given,)

    def with_meshes(self) -> TrainingRequest:
        """A request in which fixed sub-meshes of one size are `dp`, `tp` and `pp`.

        Raises SpecError where sub-meshes have more or fewer devices than there are.
        """
        meshes = self.fixed.get("meshes")
        if meshes is None:
            return self
        shared = {dim: self.values(dim, (1,))[0] for dim in ("cp", "ep")}
        plan = TrainingPlan(pp=len(meshes), meshes=meshes, **shared)
        if plan.devices != self.devices:
            raise SpecError(
                f"the stages have {counted(plan.devices, 'device')}, the machine {self.devices:,}",
                hint="meshes are dp x tp of each stage; cp and ep count as well",
            )
        if plan.meshes is not None:
            return self
        others = {name: value for name, value in self.fixed.items() if name != "meshes"}
        return replace(self, fixed=others | {dim: plan.size(dim) for dim in ("dp", "tp", "pp")})
