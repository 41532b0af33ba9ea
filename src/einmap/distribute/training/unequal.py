"""Plans whose stages have sub-meshes of different sizes: which there are, and in which order of bounds to run them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.training.bounds import Bounds
from einmap.distribute.training.cuts import Divided, divided
from einmap.distribute.training.plan import RECOMPUTE, SPLIT, ZERO, TrainingPlan, TrainingRequest
from einmap.distribute.training.step import TrainingCosts
from einmap.errors import SpecError
from einmap.numbers import divisors

type Mesh = tuple[int, int]
"""`dp` and `tp` of a stage."""
ONE_STAGE = ("1f1b", "zb-1p", "zb-2p")
"""Schedules with one stage a device, as sub-meshes of different sizes need."""
WIDTHS = 5
"""Sub-meshes whose stages are looked at for each plan that may be run, where there are limits."""


@dataclass(frozen=True)
class Offer:
    """Plans with sub-meshes of different sizes. `plan`: what they have in common; `samples`: of a micro-batch on a
    stage, of which a step has `batches`; `schedules`: of the same bound; `meshes`: those that stages may have, `order`:
    of all stages, if they are fixed; `least`: seconds that any of them takes at least.
    """

    plan: TrainingPlan
    samples: int
    batches: int
    schedules: tuple[str, ...]
    meshes: tuple[Mesh, ...]
    order: tuple[Mesh, ...] | None
    least: float = 0.0


class Unequal:
    """Plans with sub-meshes of different sizes. `context`: numbers of context parallel devices; `nearest`: devices with
    the fastest links among them.
    """

    def __init__(
        self, bounds: Bounds, request: TrainingRequest, memory: float, nearest: int, context: Sequence[int]
    ) -> None:
        self.bounds, self.request, self.memory, self.nearest, self.context = bounds, request, memory, nearest, context
        self.costs: TrainingCosts = bounds.costs
        self._too_many: dict[object, int] = {}
        self._alone: dict[object, NDArray[np.float64]] = {}

    def plans(self, below: Callable[[], float], most: int | None = None) -> Iterator[tuple[float, TrainingPlan | None]]:
        """Plans whose bounds are less than what the best one takes, with seconds that they and all later ones take at
        least. `below`: seconds of the best plan by now; `most`: plans, and as many times what the plans of one stage
        have in common; behind them follows None, with the seconds of those that are left out.
        """
        offers = sorted(self._offers(below()), key=lambda offer: offer.least)
        looked = made = 0
        for number, offer in enumerate(offers):
            if offer.least >= below():
                return
            later = offers[number + 1].least if number + 1 < len(offers) else math.inf
            looked += len(offer.meshes)
            if most is not None and looked > WIDTHS * most:
                yield offer.least, None
                return
            for one in self._ways(offer, below()):
                if len({*one.meshes}) > 1 and one.bound < below():
                    for plan in self._of(offer, one):
                        if most is not None and made >= most:
                            yield min(one.bound, later), None
                            return
                        made += 1
                        yield min(one.bound, later), plan

    def _ways(self, offer: Offer, below: float) -> Iterator[Divided]:
        """Layers and devices of the stages of an offer."""
        stages, counts = (
            self.request.fixed.get("stages"),
            self.request.fixed.get("pp") and self.request.values("pp", ()),
        )
        if stages is not None:
            yield Divided(offer.least, stages, offer.order or ())
            return
        meshes = [mesh for mesh in offer.meshes if self._may_hold(offer, mesh)]
        if offer.order is not None and len(meshes) < len(offer.meshes):
            return
        widths = [self.bounds.width(self._seen(offer, mesh), offer.batches) for mesh in meshes]
        order = None if offer.order is None else [meshes.index(mesh) for mesh in offer.order]
        if widths:
            yield from divided(widths, self.request.devices, offer.batches, self.memory, below, order, counts)

    def _of(self, offer: Offer, one: Divided) -> Iterator[TrainingPlan]:
        micro_batch = offer.samples // one.meshes[0][0]
        if micro_batch in self.request.values("micro_batch", (micro_batch,)):
            for schedule in offer.schedules:
                yield replace(
                    offer.plan, pp=len(one.cut), micro_batch=micro_batch, stages=one.cut, schedule=schedule,
                    meshes=one.meshes,
                )  # fmt: skip

    def _offers(self, below: float) -> Iterator[Offer]:
        """Sets of plans with a part in common, as far as they may take less than `below` seconds."""
        request, model = self.request, self.costs.model
        order = request.fixed.get("meshes")
        if request.values("chunks", (1,)) != (1,) or ("stages" in request.fixed and order is None):
            return
        names = [one for one in request.values("schedule", ONE_STAGE) if one in (*ONE_STAGE, "fill-drain")]
        groups = [tuple(one for one in names if (one in SPLIT) == is_split) for is_split in (False, True)]
        experts = divisors(request.devices) if any(layer.experts for layer in model.layers) else (1,)
        for cp, ep in product(self.context, request.values("ep", experts)):
            meshes = tuple(dict.fromkeys(order or self._meshes(cp * ep)))
            if len(meshes) < 2:
                continue
            is_split = any(tp > 1 for _, tp in meshes)
            sequence = request.values("sequence_parallel", (True, False) if is_split else (True,))
            zeros = request.values("zero", ZERO if cp * ep > 1 or any(dp > 1 for dp, _ in meshes) else (0,))
            again, samples = request.values("recompute", RECOMPUTE), self._samples([dp for dp, _ in meshes], ep)
            for count, is_sequence, recompute in product(samples, sequence, again):
                plan = TrainingPlan(
                    sequence_parallel=is_sequence, recompute=recompute, cp=cp, ep=ep,
                    overlap=request.fixed.get("overlap", ("data",)),
                )  # fmt: skip
                own = tuple(mesh for mesh in meshes if count % mesh[0] == 0)
                if order is None or len(own) == len(meshes):
                    offer = Offer(plan, count, model.batch // (count * ep), (), own, order)
                    offer = replace(offer, least=self._least(offer))
                    for zero, group in product(zeros, filter(None, groups)) if offer.least < below else ():
                        yield replace(offer, plan=replace(plan, zero=zero, schedule=group[0]), schedules=group)

    def _meshes(self, shared: int) -> Iterator[Mesh]:
        """Sub-meshes that a stage may have, of `shared` devices each."""
        request, most = self.request, self.nearest
        for size in range(1, -(-request.devices // shared)):
            devices = size * shared
            for tp in request.values("tp", divisors(size)) if most % devices == 0 or devices % most == 0 else ():
                data, left = divmod(size, tp)
                if not left and most % tp == 0 and data in request.values("dp", (data,)):
                    yield data, tp

    def _samples(self, groups: Sequence[int], experts: int) -> list[int]:
        """Samples of a micro-batch on all of a stage, for one of the groups of experts: a power of two, or as many as
        are fixed, in each of `groups`.
        """
        batch = self.costs.model.batch
        each = self.request.values("micro_batch", [1 << power for power in range(batch.bit_length())])
        return sorted(one for one in {own * size for own in groups for size in each} if batch % (one * experts) == 0)

    def _seen(self, offer: Offer, mesh: Mesh) -> TrainingPlan:
        """A plan from the side of one sub-mesh, beside which others have the other devices."""
        rest = self.request.devices // (offer.plan.cp * offer.plan.ep) - math.prod(mesh)
        return replace(offer.plan, micro_batch=offer.samples // mesh[0], pp=2, meshes=(mesh, (rest, 1)))

    def _may_hold(self, offer: Offer, mesh: Mesh) -> bool:
        """Whether a sub-mesh can hold a layer; more samples than too many are not looked at."""
        key = mesh, offer.plan.cp, offer.plan.ep, offer.plan.sequence_parallel, offer.plan.zero, offer.plan.recompute
        if offer.samples >= self._too_many.get(key, math.inf):
            return False
        try:
            sums = self.bounds.sums(self._seen(offer, mesh))
        except SpecError:  # a layer has no way over these devices
            self._too_many[key] = 0
            return False
        if (np.diff(sums.fixed) + np.diff(sums.saved)).min() > self.memory:
            self._too_many[key] = offer.samples
            return False
        return True

    def _least(self, offer: Offer) -> float:
        """Seconds at least: each layer on the devices that need the least time for it together."""
        each = [self._alone_on(offer, mesh) * math.prod(mesh) for mesh in offer.meshes]
        shared = offer.plan.cp * offer.plan.ep
        return offer.batches * shared * float(np.min(each, axis=0).sum()) / self.request.devices if each else math.inf

    def _alone_on(self, offer: Offer, mesh: Mesh) -> NDArray[np.float64]:
        """Seconds of each layer as if there were one group of samples: no sums of gradients."""
        plan, size = offer.plan, offer.samples // mesh[0]
        alike = mesh[1], plan.cp, plan.ep, plan.sequence_parallel, plan.recompute
        key = alike, min(size, self._too_many.get(alike, size))
        if key not in self._alone:
            try:
                seen = self._seen(replace(offer, samples=size), (1, mesh[1]))
                self._alone[key] = self.bounds.alone(seen, self.memory)
            except SpecError:  # a layer has no way over these devices
                self._alone[key] = np.full(len(self.costs.model.units), np.inf)
            if np.isinf(self._alone[key]).all():
                self._too_many[alike] = size
        return self._alone[key]
