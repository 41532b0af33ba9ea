"""Lazy refinement: the best of a cascade when, of each Einsum, only what can be a part of something good is listed.

What is not listed yet takes part in the graph of boundary states as an unexpanded option: it fits whatever its memories
fit, and costs at least so much. So the graph bounds the whole from below all the time, and what it says of the rest of
the cascade tells how much an Einsum may cost by itself. The slack that is left is that of a few neighbours, however
long the cascade is. Each option is refined up to its own limit: one limit for all searched most of them far too deep.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature, SignatureClass
from einmap.mapper.fusion.fronts.protocol import Fronts
from einmap.mapper.fusion.paths.boundary_states import EinsumOptions, Option, Slot
from einmap.mapper.fusion.paths.label_setting import Answer
from einmap.mapper.fusion.paths.options import OptionTable, option_of, unexpanded_option
from einmap.mapper.fusion.paths.shortest_paths import ContendedMemories, PackedOptions, ShortestPaths, packed
from einmap.mapper.fusion.paths.state_graph import Stage, StateGraph
from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.fusion.refinement.all_at_once import list_when_long
from einmap.mapper.fusion.refinement.contested import contested
from einmap.mapper.fusion.refinement.einsum_floors import raised_with
from einmap.mapper.fusion.refinement.front_listing import FrontListing, RefinementRequest, above, wider_than
from einmap.mapper.fusion.refinement.good_cascades import BEAM, Turns, apart, good_cascade
from einmap.mapper.fusion.refinement.good_cascades import OF_MEAN as OF_MEAN_OF_FRONTS
from einmap.mapper.fusion.refinement.keys_of_large import narrowed
from einmap.mapper.fusion.refinement.met_keys import LatestMetKeys, MetKeys
from einmap.mapper.fusion.refinement.option_bounds import OptionBounds
from einmap.mapper.fusion.refinement.option_floors import OptionFloors
from einmap.mapper.fusion.refinement.relaxation import Relaxation
from einmap.mapper.fusion.refinement.same_graph import refine_near
from einmap.mapper.fusion.refinement.sample import Sample
from einmap.mapper.fusion.refinement.supposition import Suppositions
from einmap.mapper.objective.tolerances import ROUNDING
from einmap.mapper.problem.request import Remainder

STEP = 1 / 8
"""How far above the lower bound the best may be at first, in parts of what an Einsum costs at least on average."""
CLOSE, LESS = 1 / 64, 4
"""This part of it is tried first: often the bound is the best itself. Later ones begin so many times below the last."""
AHEAD = 1 / 4
"""Where there is a need to look at chains of an Einsum, this part of what it costs at least is looked ahead."""
OF_FRONTS = 1 / 4
"""How far fronts are looked ahead, which take longer: in parts of AHEAD."""
OF_MEAN = 1 / 4
"""An Einsum counts as costing this part of the mean at least, where it is looked at what may be promising."""
OF_SMALL = 1 / 16
"""Einsums that cost a smaller part of the mean are not bounded by searches of their own."""
OPTIONS_AT_A_TIME = 256
"""Options that are made before it is asked whether time is over."""
WIDER = 4 * ROUNDING
"""How much further than what is reached is looked, in parts of it."""
SAMPLED, SAMPLED_BEFORE, SAMPLED_FIRST, RISES = 0.01, 0.1, 0.5, 1 / 32
"""How far the best is above the bound, in parts of it, where a few loops are tried before large classes; before
suppositions; before all, unless the last graph has raised the bound by more than such a part of it.
"""


class LazyRefinement:
    """The search of one cascade. `passed` counts the time since it began for a step; `found` hears of good answers
    before the best one is known, and gives their objective.
    """

    def __init__(
        self, cascade: CascadeProblem, passed: Callable[[str, float], None], found: Callable[[Answer], float]
    ) -> None:
        self.cascade, self.passed, self.found = cascade, passed, found
        self.members = cascade.members
        self.times = [cascade.times(member.einsum) for member in self.members]
        self.option_bounds = OptionBounds(cascade)
        always = np.zeros(len(cascade.capacity))
        for times, member in zip(self.times, self.members, strict=True):
            always += cascade.persistent_bits(member.chains) * times
        self.room = ContendedMemories(cascade.space, cascade.capacity, always)
        self.options: dict[tuple[str, FusionSignature | SignatureClass], Option] = {}
        scales = [cascade.hulls.scales(member.einsum) for member in self.members]
        self.floors = OptionFloors(cascade, self.options)
        self.option_table = OptionTable(cascade.slots, [member.chains for member in self.members], self.times, scales)
        self.graph = StateGraph([member.einsum.name for member in self.members])
        self.turns, self.apart_known = Turns(hurried=cascade.hurry.stopped), False
        self.steps: Sequence[EinsumOptions] = ()
        self.packed: dict[Stage, PackedOptions] = {}
        """Facts of the options of each stage; taken over where a stage is the same in the next graph."""
        self.listing = FrontListing(cascade, self.option_bounds, passed)
        self.met_keys = LatestMetKeys(self.listing.keys)
        self.shares: list[float] = []
        self.slope: float | None = None
        """A weight that may lift the bound."""
        self.known_bound, self.bound_of_all, self.wider = 0.0, 0.0, CLOSE
        self.suppositions = Suppositions(wait=0 if cascade.proving else math.inf)

    def within(self, reached: float, sample: Sample | None = None) -> Answer | None:
        """The best whose objective is at most `reached`; None when there is none.

        Where the search of all is still to come a good one is enough, and not all rows are looked at. A sample is taken
        where the best is far from the bound, at the latest where nothing but large signature classes is left.
        """
        good, highest = None, 0.0
        while True:
            # rounding parts none of what is as good as that: who breaks ties may need it
            most = self.floors.cutoff = reached * (1 + WIDER)
            list_when_long(self, most)
            relaxed = self.bound()
            if relaxed is None:
                return good
            least = relaxed.value(relaxed.paths.least)
            self.raise_bound(min(least, reached))
            if self.known_bound >= reached * (1 - ROUNDING):
                self.known_bound = reached
                return good
            if self.turns.suffices(self.cascade, reached, self.known_bound):
                return good
            wanted, large = self.open_options(relaxed, least, most)
            if self.turns.is_due(last=not (wanted or large), hurries=self.cascade.hurry.stopped):
                better = self.good(relaxed, max(reached, self.suppositions.known))
                value = math.inf if better is None else self.found(better)
                good, reached = (better, value) if value < reached else (good, reached)
                continue
            rises, highest = least > highest * (1 + RISES), max(least, highest)
            is_due = self.suppositions.is_due(self, least, reached)
            far = SAMPLED_BEFORE if is_due else SAMPLED if large else SAMPLED_FIRST
            if sample is not None and (sample.is_late or (not rises and most > least * (1 + far))):
                if (value := sample.value(least)) < reached:
                    reached, good = value, None
                sample = None
                self.listing.changed.update(self.listing.class_steps)  # it may have found classes that do not fit
                continue
            if is_due:
                answer, value = self.suppositions.tried(self, reached)
                if answer is not None:
                    return answer
                good, reached = None if value < reached else good, value
                continue
            if large and narrowed(self, relaxed, most):
                wanted, large = self.open_options(relaxed, least, most)
            if wanted := wanted or (self.large_ones(relaxed, large, least, most) if large else {}):
                if not self.floors_raised(relaxed, wanted):
                    refine_near(self, relaxed, wanted, least, most)
                continue
            answer = self.widen(relaxed, max(least, self.known_bound), most)
            if answer is None:
                return good
            best, unknown = relaxed.unknown(answer)
            if best >= reached * (1 - ROUNDING):
                self.known_bound = reached
                return good
            if not unknown:
                return answer
            self.known_bound = max(self.known_bound, best * (1 - ROUNDING))
            self.refine_around(relaxed, unknown, most)

    def raise_bound(self, least: float) -> None:
        """Keep a bound; it is one of all as long as nothing is listed."""
        self.known_bound = max(self.known_bound, least)
        is_listed = self.option_bounds.signature_classes or not all(m.chains.signature_classes for m in self.members)
        if not is_listed and self.cascade.only is None:
            self.bound_of_all = self.known_bound

    def refine_around(self, relaxed: Relaxation, unknown: Sequence[tuple[int, int]], most: float) -> None:
        """List or complete what the best row has that is not known, and what seems to be about as good."""
        if self.floors_raised(relaxed, unknown):
            return
        limits, met = self.around(relaxed, unknown, most), self.met_keys.of(relaxed, most)
        too_large = [k for k, o in unknown if self.is_too_large(relaxed, k, o, limits[k, o], met)]
        for chains in {self.members[k].chains for k in too_large}:
            self.listing.more(chains)
        self.refine(relaxed, limits)

    def widen(self, relaxed: Relaxation, least: float, most: float) -> Answer | None:
        """Answer up to a limit, which rises until there is one; None when there is nothing up to `most`."""
        wider, slack = self.wider, STEP * self.mean_share
        while True:
            limit = above(least, slack * wider, most)
            if relaxed.tighten(limit):
                answer = self.join(relaxed, relaxed.all_near(limit), limit)
                if len(answer.reached[-1].costs):
                    self.wider = max(wider / LESS, CLOSE)
                    return answer
            self.known_bound = max(self.known_bound, min(limit, most / (1 + WIDER)))
            if limit >= most:
                return None
            wider = wider_than(wider)

    def everything(self) -> Answer | None:
        """All that may be a part of something good, by what is reached already."""
        self.listing.most = dict.fromkeys(self.listing.most, math.inf)
        relaxed = self.bound()
        if relaxed is None:
            return None
        requests: dict[Fronts, dict[SignatureClass, RefinementRequest]] = {}
        for k in relaxed.places:
            member, stage = self.members[k], relaxed.stages[k]
            for o in relaxed.possible(k):
                signature_class = stage.step.options[o].signature_class
                if signature_class is not None:
                    signature_classes = requests.setdefault(member.chains, {})
                    remainder = self.cascade.remainder(relaxed.rests[k][o], self.times[k], None)
                    request = signature_classes.setdefault(signature_class, RefinementRequest(math.inf))
                    request.remainder.append(remainder)
        self.listing.survey(requests)
        relaxed = self.bound()
        if relaxed is None:
            return None
        near, signatures = relaxed.all_helpful(), dict[Fronts, dict[FusionSignature, RefinementRequest]]()
        for k in relaxed.places:
            for o in near[k]:
                lists = signatures.setdefault(self.members[k].chains, {})
                remainder = self.cascade.remainder(relaxed.rests[k][o], self.times[k], None)
                signature = relaxed.stages[k].step.options[o].signature
                lists.setdefault(signature, RefinementRequest(math.inf)).remainder.append(remainder)
        self.listing.complete(signatures)
        return self.join(relaxed, near, None)

    def bound(self) -> Relaxation | None:
        """The graph of all that is listed and of all that is not, and what cascades cost at least.

        None where no way through the graph is left.
        """
        begin, cascade = time.perf_counter(), self.cascade
        self.option_table.forget(self.listing.changed)
        steps = self.steps = self.option_table.all(self.options_of)
        self.floors.listed(steps, self.listing.changed)
        self.listing.changed.clear()
        self.graph.build(self.floors.within(steps), cascade.watch("ways to fuse {}"))
        if self.slope is not None and self.slope not in cascade.weights[2:, 1]:
            cascade.steeper(self.slope)
        relaxed = self.relaxed(self.graph, self.packed) if self.graph.exists else None
        self.packed = {} if relaxed is None else dict(relaxed.packed)
        self.floors.learn(relaxed, steps)
        if relaxed is not None and not self.shares:
            self.shares = relaxed.shares(self.times)
            for dear in {m.chains for k, m in enumerate(self.members) if self.shares[k] > self.mean_share}:
                self.listing.more(dear)
        if relaxed is not None and len(cascade.goals) == 2 and len(cascade.options.goals) == 1:
            self.slope = cascade.objective.slope(cascade.weights, relaxed.paths.least)
        self.passed("heads", begin)
        return relaxed

    def relaxed(self, graph: StateGraph, before: Mapping[Stage, PackedOptions]) -> Relaxation:
        """Lower bounds of cascades, and those without each option, wherever its stage is.

        `before`: facts of the options of stages of a graph before.
        """
        stages = graph.stages
        places = list({stage: k for k, stage in reversed(list(enumerate(stages)))}.values())
        facts = {stages[k]: self.packed_of(stages[k], self.members[k].chains, before.get(stages[k])) for k in places}
        paths = ShortestPaths(graph, self.cascade.weights, self.room, facts)
        return Relaxation(self.cascade, graph, self.option_bounds, self.room, facts, places, paths)

    def packed_of(self, stage: Stage, chains: Fronts, options: PackedOptions | None) -> PackedOptions:
        """Facts of the chains of each option of an Einsum that some way has; `options`: those of the graph before."""
        self.cascade.meter.go_on()
        rows = {o: self.option_bounds.priced(chains, stage.step.options[o]) for o in stage.options}
        weights = self.cascade.weights
        if options is None or not options.is_of(rows):
            options = packed(stage, rows, self.room)
        elif options.costs.shape[1] == len(weights):
            return options
        return options.weighed(weights, self.option_bounds.rests(chains, stage.step.options, rows), stage.step.times)

    def options_of(self, k: int, of: Mapping[str, Slot]) -> Iterator[Option]:
        """Options of an Einsum, listed ones and others."""
        einsum, chains = self.members[k].einsum, self.members[k].chains
        only = self.cascade.only
        for signature_class in chains.signature_classes:
            if only is not None and chains in only and signature_class not in only[chains]:
                continue
            refined = self.option_bounds.signature_classes.get((chains, signature_class))
            if refined is None or math.isfinite(refined.limit):
                if (einsum.name, signature_class) not in self.options:
                    self.options[einsum.name, signature_class] = unexpanded_option(einsum, chains, signature_class, of)
                yield self.options[einsum.name, signature_class]
        for n, signature in enumerate(chains.signatures):
            if n % OPTIONS_AT_A_TIME == 0:
                self.cascade.meter.go_on()
            if (option := self.options.get((einsum.name, signature))) is None:
                option = option_of(einsum, chains, signature, of, self.option_table.scales[k])
                self.options[einsum.name, signature] = option
            yield option

    def open_options(
        self, relaxed: Relaxation, least: float, most: float, wider: float = 1.0
    ) -> tuple[dict[tuple[int, int], float], list[tuple[int, int]]]:
        """Einsums and options that can be a part of what costs least but for a little, and are not known well enough.

        Also the limits up to which they are to be known. Contested Einsums come first, and signature classes that are
        not listed as far, but large ones last, as the second list: mostly the others lift the bound over most of these.
        """
        first = contested(relaxed, self.cascade.costs) if self.cascade.proving else set()
        places = [k for k in relaxed.places if self.members[k].chains in first]
        unknown, _ = self.open_at(places, relaxed, least, most, wider)
        return (unknown, []) if unknown else self.open_at(relaxed.places, relaxed, least, most, wider)

    def open_at(
        self, places: Sequence[int], relaxed: Relaxation, least: float, most: float, wider: float
    ) -> tuple[dict[tuple[int, int], float], list[tuple[int, int]]]:
        """As `open_options`, of some Einsums."""
        large: list[tuple[int, int]] = []
        met = self.met_keys.of(relaxed, most)
        for unexpanded, step in ((True, STEP), (False, OF_FRONTS * STEP)):
            unknown: dict[tuple[int, int], float] = {}
            for k in places:
                slack, options = step * wider * self.share(k, fronts=not unexpanded), relaxed.options(k)
                near = relaxed.unknown_near(k, limit := above(least, slack, most))
                for o in (o for o in near if options[o].unexpanded == unexpanded):
                    ahead = above(least, self.ahead(relaxed, k, o), most)
                    further = (ahead, self.listing.between(self.members[k].chains, options[o], least, limit), limit)
                    up_to = next((x for x in further if not self.is_too_large(relaxed, k, o, x, met)), None)
                    if up_to is None:
                        large.append((k, o))
                    else:
                        unknown[k, o] = up_to
            if unknown:
                return unknown, []
        return {}, large

    def good(self, relaxed: Relaxation, most: float) -> Answer | None:
        """A good cascade of what is listed, better than `most`; None where none is found."""
        if not self.apart_known:
            self.apart_known = True
            self.refine(relaxed, apart(relaxed, most))
            self.bound()
        return good_cascade(self, self.floors.within(self.steps), most)

    def neighbours(self, relaxed: Relaxation, most: float, met: MetKeys) -> dict[tuple[int, int], float]:
        """Signature classes of which all may be known: then less is left of large ones, which have to meet them."""
        return {
            (k, o): most
            for k in relaxed.places
            for o in relaxed.near(k, most)
            if relaxed.stages[k].step.options[o].unexpanded and not self.is_too_large(relaxed, k, o, most, met)
        }

    def large_ones(
        self, relaxed: Relaxation, large: Sequence[tuple[int, int]], least: float, most: float
    ) -> dict[tuple[int, int], float]:
        """Large signature classes of one Einsum: of those that were looked at least far the one that costs most.

        Before them what they have to meet, where that is not known.
        """
        near_bound = most <= least * (1 + self.mean_share)
        neighbours = self.neighbours(relaxed, most, self.met_keys.of(relaxed, most)) if near_bound else {}
        if neighbours:
            return neighbours
        listing, chains = self.listing, [self.members[k].chains for k, _ in large]
        _, _, first = min(
            (listing.most[of], -self.share(k), i) for i, ((k, _), of) in enumerate(zip(large, chains, strict=True))
        )
        listing.more(chains[first])
        places = [place for place, of in zip(large, chains, strict=True) if of is chains[first]]
        return {(k, o): above(least, STEP * self.share(k), most) for k, o in places}

    def is_too_large(self, relaxed: Relaxation, k: int, o: int, limit: float, met: MetKeys) -> bool:
        """Whether an option is a signature class with too many outer nests for now, up to a limit."""
        option, remainder = relaxed.stages[k].step.options[o], partial(self.remainder, k, relaxed.rests[k][o], limit)
        return self.listing.is_too_large(self.members[k].chains, option, limit, met, remainder)

    @property
    def mean_share(self) -> float:
        """How large a part of the objective an Einsum makes up on average."""
        return sum(self.shares) / len(self.shares)

    def share(self, k: int, *, fronts: bool = False) -> float:
        """How large a part of the objective an Einsum counts as; `fronts`: where these are asked for."""
        return max(self.shares[k], (OF_MEAN_OF_FRONTS if fronts else OF_MEAN) * self.mean_share)

    def ahead(self, relaxed: Relaxation, k: int, o: int) -> float:
        """How far an option is looked ahead, as a part of the objective; fronts, which take longer, less far."""
        option, chains = relaxed.stages[k].step.options[o], self.members[k].chains
        growth = self.listing.growth(chains, None if option.unexpanded else option.signature)
        return AHEAD * growth * self.share(k, fronts=not option.unexpanded) * (1 if option.unexpanded else OF_FRONTS)

    def floors_raised(self, relaxed: Relaxation, unknown: Collection[tuple[int, int]]) -> bool:
        """Bound signature classes that are to be listed by searches of their own, once; whether a bound was raised.

        Of Einsums that hardly cost anything none is.
        """
        begin, any_raised = time.perf_counter(), False
        for k, o in sorted(unknown, key=lambda pair: -self.shares[pair[0]]):
            signature_class, chains = relaxed.stages[k].step.options[o].signature_class, self.members[k].chains
            if math.isinf(self.floors.cutoff) or self.shares[k] < OF_SMALL * self.mean_share:
                break
            for raised in raised_with(self.cascade, chains, signature_class) if signature_class is not None else ():
                any_raised = True
                self.option_bounds.raised(chains, raised)
                self.listing.changed.add(chains)  # where nothing fits it is no option any more
        self.passed("floors", begin)
        return any_raised

    def around(
        self, relaxed: Relaxation, unknown: Sequence[tuple[int, int]], most: float
    ) -> dict[tuple[int, int], float]:
        """Options that are not known well enough, with those of the same Einsums that seem to be about as good.

        Also the limits up to which they are to be known.
        """
        limits: dict[tuple[int, int], float] = {}
        for k, o in unknown:
            least = relaxed.value(relaxed.paths.through[relaxed.stages[k]][o])
            near = relaxed.near(k, above(least, self.ahead(relaxed, k, o), most))
            for other in {o: None, **dict.fromkeys(near)}:
                # it is known further than its bound where several weights bound it loosely
                reached = max(least, relaxed.known_limit(k, other)) if other == o else least
                limit = above(reached, 2 * self.ahead(relaxed, k, other), most)
                if relaxed.known_limit(k, other) < limit:
                    limits[k, other] = max(limits.get((k, other), 0.0), limit)
        return limits

    def refine(self, relaxed: Relaxation, unknown: Mapping[tuple[int, int], float]) -> None:
        """List or complete options, each up to a limit."""
        signature_classes: dict[Fronts, dict[SignatureClass, RefinementRequest]] = {}
        signatures: dict[Fronts, dict[FusionSignature, RefinementRequest]] = {}
        for (k, o), limit in unknown.items():
            option, chains = relaxed.options(k)[o], self.members[k].chains
            if (of := option.signature_class) is not None:
                signature_classes.setdefault(chains, {}).setdefault(of, RefinementRequest()).raise_to(limit)
            else:
                signatures.setdefault(chains, {}).setdefault(option.signature, RefinementRequest()).raise_to(limit)
        for k in relaxed.places:
            chains = self.members[k].chains
            class_requests, signature_requests = signature_classes.get(chains, {}), signatures.get(chains, {})
            for o in relaxed.possible(k) if class_requests or signature_requests else ():
                option = relaxed.stages[k].step.options[o]
                of = option.signature_class
                request = signature_requests.get(option.signature) if of is None else class_requests.get(of)
                if request is not None:
                    request.remainder.append(self.remainder(k, relaxed.rests[k][o], request.limit))
        relaxed.asked.update(unknown)
        self.listing.complete(signatures)
        self.listing.survey(signature_classes, self.met_keys.of(relaxed, self.floors.cutoff))

    def remainder(self, k: int, rest: Floats, most: float) -> Remainder | None:
        """Costs that the rest of the cascade adds to an Einsum's chains."""
        return self.cascade.remainder(rest, self.times[k], most if math.isfinite(most) else None)

    def join(self, relaxed: Relaxation, near: Sequence[Sequence[int]], most: float | None) -> Answer:
        """Put together what is complete, of some options of each Einsum."""
        begin = time.perf_counter()
        answer = relaxed.join(near, most, None if self.cascade.proving or most is None else BEAM)
        self.passed("join", begin)
        return answer
