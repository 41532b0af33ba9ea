"""The best plan of a training step: all plans of a space by lower bounds, best first, with the best of each kind."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heappop, heappush
from itertools import count as counting
from itertools import product

from einmap.distribute.costs.cluster import Cluster
from einmap.distribute.pipelines.problem import ROUNDING
from einmap.distribute.training.bounds import Bounds, in_flight
from einmap.distribute.training.cuts import MOST_CUTS, best_cut, every_cut, n_cuts
from einmap.distribute.training.model import TrainingModel
from einmap.distribute.training.plan import RECOMPUTE, ZERO, Dim, TrainingPlan, TrainingRequest
from einmap.distribute.training.step import TrainingCosts, TrainingStep
from einmap.distribute.training.unequal import Unequal
from einmap.errors import EinmapError, NotSupportedError, SpecError
from einmap.numbers import divisors
from einmap.progress import Progress
from einmap.units import counted, format_bytes, format_si
from einmap.visible import brief

MOST_DEVICES = 64
"""Devices among which sub-meshes of different sizes are a part of the space; among more some of them are looked at."""
MOST_UNEQUAL, MOST_OF_MANY = 8_000, 100
"""Plans with sub-meshes of different sizes that are looked at, with so many devices and with more."""
SCHEDULES = ("1f1b", "interleaved", "zb-1p", "zb-2p", "zb-v")
"""Schedules that are tried: `fill-drain` takes as long as `1f1b`, and holds more; `dual-pipe-v` gains what passes that
overlap save, which is not known here.
"""
WORDS: Mapping[Dim, str] = {"dp": "data", "tp": "tensor", "cp": "context", "ep": "expert", "pp": "pipeline"}


@dataclass(frozen=True, slots=True)
class Kind:
    """Plans that divide devices in the same ways. `best`: the best one, None where none keeps to the memory; `least`:
    bytes that each of them needs at least.
    """

    name: str
    best: TrainingStep | None
    least: float


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Plans that were not looked at, in words. `bound`: seconds that each of them takes at least, None: not known."""

    what: str
    bound: float | None = None


@dataclass(frozen=True)
class BestTraining:
    """The best plan. No plan of the space takes less than `bound` seconds; `kinds`: best ones by the ways to divide
    devices, best first; `looked`: plans of the space, and how many of them were run; `left_out`: plans that are not in
    the space, and may be better.
    """

    __repr__ = brief

    request: TrainingRequest
    step: TrainingStep
    bound: float
    kinds: tuple[Kind, ...]
    looked: tuple[int, int]
    costs: TrainingCosts
    left_out: tuple[LeftOut, ...] = ()

    @property
    def plan(self) -> TrainingPlan:
        """The best plan."""
        return self.step.plan

    @property
    def proven(self) -> bool:
        """Whether no plan of the space is better."""
        return self.bound >= self.step.seconds * (1 - 1e-9)


def best_training_plan(
    model: TrainingModel, cluster: Cluster, request: TrainingRequest, progress: Progress | None = None
) -> BestTraining:
    """The plan whose step takes least of those that keep to the memory, with the best of each kind.

    The space: all divisions of the devices, where `tp` stays within the fastest links; micro-batches that are powers of
    two or divide the samples of a device; schedules with a name; ZeRO 0 to 3; recomputation; `cp` where there is no
    other way to keep to the memory, `ep` where the model has experts; cuts of layers into stages as `cuts` says.
    `progress` may stop the search, which gives the best so far with a bound.

    Raises SpecError where no plan keeps to the memory: how much the thriftiest one needs at least.
    """
    costs, request = TrainingCosts(model, cluster, request.laid), request.with_meshes()
    search = _Search(costs, request, progress or Progress())
    if "meshes" not in request.fixed:
        search.run((1,))
    context = request.values("cp", (1,))
    search.run_unequal(context)
    if "cp" not in request.fixed and any(layer.sequence for layer in model.layers):
        if search.best:
            search.left_out.append(LeftOut("context parallel plans, as others keep to the memory"))
        else:
            context = tuple(d for d in divisors(request.devices) if 1 < d <= search.nearest)
            search.run(context)
            search.run_unequal(context)
    return search.result()


def kind_of(plan: TrainingPlan) -> str:
    """The ways to divide devices of a plan, in words."""
    several = {"dp": any(dp > 1 for dp, _ in plan.meshes or ()), "tp": plan.is_tensor_parallel}
    names = [WORDS[dim] for dim in ("dp", "tp", "cp", "ep", "pp") if plan.size(dim) > 1 or several.get(dim)]
    return (" x ".join(names) or "one device") + (" on unequal sub-meshes" if plan.meshes else "")


@dataclass(order=True, slots=True)
class _Candidate:
    """A plan with a bound of its seconds. `depth`: 0 before its layers are cut into stages, 1 after."""

    bound: float
    number: int
    depth: int = field(compare=False)
    plan: TrainingPlan = field(compare=False)


ONE_CUT = LeftOut("cuts of layers into many stages, but the one whose longest stage is shortest")


class _Search:
    """Candidates by bound, the best of each kind, and what is known of the rest."""

    def __init__(self, costs: TrainingCosts, request: TrainingRequest, progress: Progress) -> None:
        self.costs, self.request, self.progress = costs, request, progress
        self.bounds = Bounds(costs)
        memory = request.memory if request.memory is not None else costs.cluster.pe.memory
        self.memory = memory
        self.best: dict[str, TrainingStep] = {}
        self.least: dict[str, float] = {}
        self.left = math.inf
        self.left_out: list[LeftOut] = []
        self.refused: SpecError | None = None
        self.looked = self.ran = 0
        self._heap: list[_Candidate] = []
        self._numbers = counting()

    @cached_property
    def nearest(self) -> int:
        """Devices with the fastest links among them."""
        links = dict(self.costs.cluster.links)
        laid = dict(self.request.laid.axes) if self.request.laid is not None else {}
        if not links:
            return 1
        fastest = max(links, key=lambda axis: links[axis].bandwidth)
        return laid.get(fastest, links[fastest].size or self.request.devices)

    def run(self, context: Sequence[int]) -> None:
        """Look at all plans with one of these numbers of context parallel devices."""
        for sizes in self._divisions(context):
            for plans in self._by_micro_batch(sizes):
                if self.progress.stopped:
                    self.left = 0.0
                    return
                # larger micro-batches need more memory
                if not max(map(self._offer, plans), default=True):
                    break
        while self._heap:
            candidate = heappop(self._heap)
            if self.progress.stopped:
                self.left = min(self.left, candidate.bound)
                return
            self._look(candidate)

    def result(self) -> BestTraining:
        """The best plan of all kinds."""
        if not self.best:
            raise self._nothing()
        for name, one in self.best.items():
            self.best[name] = self.costs.step(one.plan)
        step = min(self.best.values(), key=lambda one: one.seconds)
        kinds = [Kind(name, self.best.get(name), least) for name, least in self.least.items()]
        kinds.sort(key=lambda one: math.inf if one.best is None else one.best.seconds)
        looked = self.looked, self.ran
        left_out = [one for one in self.left_out if one.bound is None or one.bound < step.seconds]
        bound = min(step.seconds, self.left)
        return BestTraining(self.request, step, bound, tuple(kinds), looked, self.costs, tuple(left_out))

    def _nothing(self) -> EinmapError:
        if self.progress.stopped:
            return SpecError("no plan was found in the time there was, nor that there is none", hint="allow more time")
        if not self.least:
            if self.refused is not None:
                return self.refused
            units = len(self.costs.model.units)
            stages = min(self.request.values("pp", (1,))) * min(self.request.values("chunks", (1,)))
            if stages > units:
                return SpecError(
                    f"{counted(stages, 'stage')} of a pipeline, but the model has {counted(units, 'layer')}",
                    hint=f"each stage has one at least: pp times chunks of at most {units}, or more layers",
                )
            return SpecError(
                f"no plan divides {counted(self.request.devices, 'device')} and "
                f"{counted(self.costs.model.batch, 'sample')} so",
                hint="fix fewer fields, or take a batch that more numbers divide",
            )
        kind = min(self.least, key=lambda name: self.least[name])
        return SpecError(
            f"no plan keeps to {format_bytes(self.memory)} on each device: the thriftiest ones, {kind} parallel, need "
            f"{format_bytes(self.least[kind])} or more",
            hint=f"allow that much, or take more than {counted(self.request.devices, 'device')}",
        )

    def _offer(self, plan: TrainingPlan) -> bool:
        """Add a plan without a cut, unless it cannot keep to the memory, or a layer cannot be spread so; whether it can
        be done.
        """
        self.looked += 1
        try:
            kind, least = kind_of(plan), self.bounds.least_memory(plan)
        except NotSupportedError:
            raise  # whatever the plan
        except SpecError as problem:
            self.refused = problem
            return False
        self.least[kind] = min(self.least.get(kind, math.inf), least)
        if least <= self.memory:
            heappush(self._heap, _Candidate(self.bounds.of_any_cut(plan), next(self._numbers), 0, plan))
        return least <= self.memory

    def _look(self, candidate: _Candidate) -> None:
        plan, kind = candidate.plan, kind_of(candidate.plan)
        if kind in self.best and candidate.bound >= self.best[kind].seconds:
            return
        if candidate.depth == 0:
            for cut in self._cuts(plan):
                made = replace(plan, stages=cut)
                if self.bounds.held_with(made) <= self.memory * (1 + ROUNDING):
                    bound = max(candidate.bound, self.costs.at_least(made))
                    heappush(self._heap, _Candidate(bound, next(self._numbers), 1, made))
            return
        self._run(plan)

    def _shown(self) -> str | None:
        return format_si(min(one.seconds for one in self.best.values()), "s") if self.best else None

    def _cuts(self, plan: TrainingPlan) -> Iterator[tuple[int, ...]]:
        """Ways to cut the layers of a plan into its stages."""
        units, stages = len(self.costs.model.units), plan.pp * plan.chunks
        if plan.stages is not None:
            yield plan.stages
        elif n_cuts(units, stages) <= MOST_CUTS:
            yield from every_cut(units, stages)
        else:
            if ONE_CUT not in self.left_out:
                self.left_out.append(ONE_CUT)
            batches = plan.micro_batches(self.costs.model.batch)
            flight = [in_flight(plan, batches, stage) for stage in range(stages)]
            listed = self.bounds.units(plan)
            cut = best_cut(listed, flight, self.bounds.room(plan, self.memory), self.bounds.table(plan))
            if cut is not None:
                yield cut

    def run_unequal(self, context: Sequence[int]) -> None:
        """Look at plans with sub-meshes of different sizes whose bounds are less than what the best plan takes."""
        unequal = Unequal(self.bounds, self.request, self.memory, self.nearest, context)
        is_whole = self.request.devices <= MOST_DEVICES or "meshes" in self.request.fixed
        for number, (bound, plan) in enumerate(unequal.plans(self._fastest, None if is_whole else MOST_OF_MANY)):
            if self.progress.stopped or (is_whole and number >= MOST_UNEQUAL):
                self.left = min(self.left, bound)
                return
            if plan is None:
                self.left_out.append(LeftOut("most plans with sub-meshes of different sizes", bound))
                return
            self.looked += 1
            try:
                if self.costs.at_least(plan) < self._fastest():
                    self._run(plan)
            except SpecError:
                if "meshes" in self.request.fixed:
                    raise
                # sub-meshes that do not fill the mesh

    def _fastest(self) -> float:
        """Seconds of the best plan by now; 0 where the time is over."""
        return 0.0 if self.left == 0.0 else min((step.seconds for step in self.best.values()), default=math.inf)

    def _run(self, plan: TrainingPlan) -> None:
        """Run a plan; it is kept where it is the best of its kind and keeps to the memory."""
        step, kind = self.costs.step(plan, is_short=True), kind_of(plan)
        self.ran += 1
        self.progress.report("plans of a training step", self.ran, None, self._shown())
        if step.peak.total <= self.memory:
            self.least.setdefault(kind, 0.0)
            if kind not in self.best or step.seconds < self.best[kind].seconds:
                self.best[kind] = step

    # the space

    def _by_micro_batch(self, sizes: Mapping[Dim, int]) -> Iterator[Iterator[TrainingPlan]]:
        """Plans without cuts, for each size of a micro-batch from the least one on."""
        model, groups = self.costs.model, sizes["dp"] * sizes["ep"]
        if sizes["pp"] > len(model.units) or model.batch % groups:
            return
        samples = model.batch // groups
        listed = self.request.values("micro_batch", [d for d in divisors(samples) if d & (d - 1) == 0])
        for micro_batch in sorted(listed):
            if samples % micro_batch == 0:
                yield self._plans(sizes, micro_batch, samples // micro_batch)

    def _plans(self, sizes: Mapping[Dim, int], micro_batch: int, batches: int) -> Iterator[TrainingPlan]:
        request = self.request
        sequence = request.values("sequence_parallel", (True, False) if sizes["tp"] > 1 else (True,))
        again = request.values("recompute", RECOMPUTE)
        schedules = list(self._schedules(sizes["pp"], len(self.costs.model.units), batches))
        for is_sequence, recompute, zero in product(sequence, again, self._zeros(sizes)):
            for schedule, chunks in schedules:
                if len(request.fixed.get("stages") or ()) not in (0, sizes["pp"] * chunks):
                    continue
                yield TrainingPlan(
                    sizes["dp"],
                    sizes["tp"],
                    sizes["cp"],
                    sizes["ep"],
                    sizes["pp"],
                    micro_batch=micro_batch,
                    sequence_parallel=is_sequence,
                    stages=request.fixed.get("stages"),
                    chunks=chunks,
                    schedule=schedule,
                    zero=zero,
                    recompute=recompute,
                    overlap=request.fixed.get("overlap", ("data",)),
                )

    def _divisions(self, context: Sequence[int]) -> Iterator[dict[Dim, int]]:
        """Devices of each way, whose product is all of them."""
        request, devices = self.request, self.request.devices
        experts = any(layer.experts for layer in self.costs.model.layers)
        every = divisors(devices)
        near = [d for d in every if d <= self.nearest]
        defaults: dict[Dim, Sequence[int]] = {"tp": near, "cp": context, "ep": every if experts else (1,), "pp": every}
        for tp, cp, ep, pp in product(*(request.values(dim, defaults[dim]) for dim in ("tp", "cp", "ep", "pp"))):
            rest, left = divmod(devices, tp * cp * ep * pp)
            if not left and rest in request.values("dp", (rest,)):
                sizes: dict[Dim, int] = {"tp": tp, "cp": cp, "ep": ep, "dp": rest, "pp": pp}
                try:
                    self.costs.machine(TrainingPlan(rest, tp, cp, ep, pp))
                except SpecError:
                    continue
                yield sizes

    def _zeros(self, sizes: Mapping[Dim, int]) -> tuple[int, ...]:
        copies = sizes["dp"] * sizes["cp"] * sizes["ep"]
        return self.request.values("zero", ZERO if copies > 1 else (0,))

    def _schedules(self, pp: int, units: int, batches: int) -> Iterator[tuple[str, int]]:
        """Schedules by name with their stages a device."""
        request = self.request
        if pp == 1 and "schedule" not in request.fixed:
            yield "1f1b", 1
            return
        for name in request.values("schedule", SCHEDULES):
            if name == "interleaved":
                options = [v for v in divisors(units // pp) if v > 1 and pp * v <= units]
                whole = batches % max(1, batches // pp) == 0
                yield from ((name, v) for v in request.values("chunks", options) if whole and v > 1)
            elif name in ("zb-v", "dual-pipe-v"):
                if 2 * pp <= units and (name == "zb-v" or batches >= 2 * pp) and 2 in request.values("chunks", (2,)):
                    yield name, 2
            elif 1 in request.values("chunks", (1,)):
                yield name, 1
