"""Lazy refinement: the best of a cascade when, of each Einsum, only what can be a part of something good is listed.

What is not listed yet takes part in the graph of boundary states as an unexpanded option: it fits whatever its memories
fit, and costs at least so much. So the graph bounds the whole from below all the time, and what it says of the rest of
the cascade tells how much an Einsum may cost by itself. The slack that is left is that of a few neighbours, however
long the cascade is.
"""

# A join that finds nothing costs little, so the first cutoff is next to the bound (CLOSE) and grows by eight. Options
# are refined one by one, each up to its own limit: one limit for all searched most of them far too deep.

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.fusion.front_listing import FrontListing
from einmap.mapper.fusion.fronts.einsum_fronts import EinsumFronts, FusedFront
from einmap.mapper.fusion.fronts.outer_nests import FusionSignature, SignatureClass
from einmap.mapper.fusion.option_bounds import OptionBounds, bounds_of
from einmap.mapper.fusion.paths.bound_tightening import tighten_bounds
from einmap.mapper.fusion.paths.boundary_states import Option, Slot
from einmap.mapper.fusion.paths.label_setting import Answer, LabelSetting, StageFronts
from einmap.mapper.fusion.paths.least_products import least_products, slope_at_best
from einmap.mapper.fusion.paths.lower_envelope import corners
from einmap.mapper.fusion.paths.options import Fronts, OptionTable, option_of, unexpanded_option
from einmap.mapper.fusion.paths.shortest_paths import ContendedMemories, PackedOptions, ShortestPaths, packed
from einmap.mapper.fusion.paths.state_graph import Stage, StateGraph
from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.fusion.refinement_request import RefinementRequest
from einmap.mapper.request import Remainder
from einmap.mapper.tolerances import ROUNDING

STEP = 1 / 8
"""How far above the lower bound the best may be at first, in parts of what an Einsum costs at least on average."""
CLOSE = 1 / 64
"""This part of it is tried first: often the bound is the best itself, and then there are few rows."""
AHEAD = 1 / 4
"""Where there is a need to look at chains of an Einsum, this part of what it costs at least is looked ahead."""
OF_FRONTS = 1 / 4
"""How far fronts are looked ahead, which take longer: in parts of AHEAD."""
OF_MEAN = 1 / 4
"""An Einsum counts as costing this part of the mean at least, where it is looked at what may be promising."""
FAR = 100.0
"""Where the best is so far above the bound there is no limit any more."""

NO_PATHS = np.zeros((0, 0), dtype=np.int64)


class LazyRefinement:
    """The search of one cascade. `passed` counts the time since it began for a step."""

    def __init__(self, cascade: CascadeProblem, passed: Callable[[str, float], None]) -> None:
        self.cascade, self.passed = cascade, passed
        self.members = cascade.members
        self.times = [cascade.times(member.einsum) for member in self.members]
        self.option_bounds = OptionBounds(cascade)
        always = np.zeros(len(cascade.capacity))
        for times, member in zip(self.times, self.members, strict=True):
            always += cascade.own(member.chains) * times
        self.room = ContendedMemories(cascade.space, cascade.capacity, always)
        self.named: dict[tuple[str, FusionSignature | SignatureClass], Option] = {}
        scales = [cascade.hulls.scales(member.einsum) for member in self.members]
        self.made = OptionTable(cascade.slots, [member.chains for member in self.members], self.times, scales)
        self.graph = StateGraph([member.einsum.name for member in self.members])
        self.packed: dict[Stage, PackedOptions] = {}
        self.listing = FrontListing(cascade, self.option_bounds, passed)
        self.shares: list[float] = []
        self.slope: float | None = None
        """A weight that may lift the bound."""
        self.known_bound = 0.0

    # one cascade, one objective

    def within(self, most: float) -> Answer | None:
        """The best whose objective is at most `most`; None when there is none."""
        wider = CLOSE
        while True:
            self.bound()
            if not self.graph.exists:
                return None
            least = self.value(self.paths.least)
            if least >= most * (1 - ROUNDING):
                self.known_bound = most
                return None
            self.known_bound = max(self.known_bound, least)
            if not self.shares:
                self.shares = self.shares_of()
                self.mean_share = sum(self.shares) / len(self.shares)
            unknown = self.open_options(least, most)
            if unknown:
                self.refine({(k, o): self.above(least, self.ahead(k, o), most) for k, o in unknown})
                continue
            slack = STEP * self.mean_share
            while True:
                limit = self.above(least, slack * wider, most)
                if not self.tighten(limit):
                    self.known_bound = max(self.known_bound, limit)
                    if limit >= most:
                        return None
                    wider = wider_than(wider)
                    continue
                near = self.everywhere(lambda k, limit=limit: self.near(k, limit))  # type: ignore[misc]
                answer = self.join(near, limit)
                if len(answer.reached[-1].costs):
                    value, unknown = self.unknown(answer)
                    if not unknown:
                        return answer
                    self.known_bound = max(self.known_bound, value * (1 - ROUNDING))
                    self.refine(self.around(unknown, most))
                    break
                self.known_bound = max(self.known_bound, limit)
                if limit >= most:
                    return None
                wider = wider_than(wider)

    def above(self, least: float, slack: float, most: float) -> float:
        """A limit that is so far above a bound."""
        return min(least * (1 + slack) * (1 + ROUNDING), most) if slack < FAR else most

    def everything(self) -> Answer | None:
        """All that may be a part of something good, by what is reached already."""
        cascade = self.cascade
        self.bound()
        if not self.graph.exists:
            return None
        wanted: dict[Fronts, dict[SignatureClass, RefinementRequest]] = {}
        for k in self.places:
            member = self.members[k]
            stage = self.graph.stages[k]
            for o in self.possible(k):
                signature_class = stage.step.options[o].signature_class
                if signature_class is not None:
                    signature_classes = wanted.setdefault(member.chains, {})
                    remainder = cascade.remainder(self.rests[k][o], self.times[k], None)
                    signature_classes.setdefault(signature_class, RefinementRequest(math.inf)).remainder.append(
                        remainder
                    )
        self.listing.survey(wanted)
        self.bound()
        if not self.graph.exists:
            return None
        near = self.everywhere(lambda k: [o for o in self.possible(k) if self.may_help(k, o)])
        signatures: dict[Fronts, dict[FusionSignature, RefinementRequest]] = {}
        for k in self.places:
            for o in near[k]:
                lists = signatures.setdefault(self.members[k].chains, {})
                remainder = cascade.remainder(self.rests[k][o], self.times[k], None)
                lists.setdefault(
                    self.graph.stages[k].step.options[o].signature, RefinementRequest(math.inf)
                ).remainder.append(remainder)
        self.listing.complete(signatures)
        return self.join(near, None)

    def everywhere[T](self, what: Callable[[int], T]) -> list[T]:
        """What is true of each Einsum, found once for each stage."""
        known = {self.graph.stages[k]: what(k) for k in self.places}
        return [known[stage] for stage in self.graph.stages]

    def may_help(self, k: int, o: int) -> bool:
        """Whether an option can be a part of something that is not reached already."""
        remainder = self.cascade.remainder(self.rests[k][o], self.times[k], None)
        bounds = bounds_of(self.members[k].chains, self.graph.stages[k].step.options[o])
        return remainder is None or not bool(remainder.exceeds_cutoff(bounds).all())

    # bounds

    def bound(self) -> None:
        """The graph of all that is listed and of all that is not, and what cascades cost at least."""
        begin = time.perf_counter()
        cascade = self.cascade
        self.made.forget(self.listing.changed)
        self.listing.changed.clear()
        self.graph.build(self.made.all(self.options_of), cascade.watch("ways to fuse {}"))
        if self.slope is not None:
            cascade.steeper(self.slope)
        self.relax()
        if self.graph.exists and len(cascade.goals) == 2 and len(cascade.options.goals) == 1:
            self.slope = slope_at_best(cascade.weights, self.paths.least)
        self.passed("heads", begin)

    def relax(self) -> None:
        """What cascades cost at least, and what is left of that without each option, wherever its stage is."""
        if not self.graph.exists:
            return
        stages = self.graph.stages
        self.places = list({stage: k for k, stage in reversed(list(enumerate(stages)))}.values())
        """Where each stage is for the first time; it is the same where it is again."""
        self.packed = {stages[k]: self.packed_of(k) for k in self.places}
        self.limits: dict[Stage, Floats] = {}
        self.fronts: dict[tuple[Stage, int, bool], FusedFront] = {}
        self.paths = ShortestPaths(self.graph, self.cascade.weights, self.room, self.packed)
        self.rests = [self.paths.rests[stage] for stage in stages]
        self.tightened_paths, self.tightened_up_to = self.paths, -math.inf
        """Bounds of cascades up to a limit alone."""

    def packed_of(self, k: int) -> PackedOptions:
        """What is known of the chains of each option of an Einsum that some way has."""
        self.cascade.budget.go_on()
        stage, chains = self.graph.stages[k], self.members[k].chains
        rows = {o: self.option_bounds.priced(chains, stage.step.options[o]) for o in stage.options}
        weights, known = self.cascade.weights, self.packed.get(stage)
        if known is None or not known.is_of(rows):
            known = packed(stage, rows, self.room)
        elif known.costs.shape[1] == len(weights):
            return known
        rests = {
            o: self.option_bounds.rest(chains, stage.step.options[o], weights) for o, own in rows.items() if own.is_open
        }
        return known.weighed(weights, rests, stage.step.times)

    def possible(self, k: int) -> list[int]:
        """The options of an Einsum that fit, as far as that is known."""
        return [int(o) for o in np.flatnonzero(np.isfinite(self.rests[k][:, 0]))]

    def options_of(self, k: int, of: Mapping[str, Slot]) -> Iterator[Option]:
        """What is listed of an Einsum, and what is not."""
        einsum, chains = self.members[k].einsum, self.members[k].chains
        if isinstance(chains, EinsumFronts):
            for signature_class in chains.signature_classes:
                known = self.option_bounds.signature_classes.get((chains, signature_class))
                if known is None or math.isfinite(known.limit):
                    if (einsum.name, signature_class) not in self.named:
                        self.named[einsum.name, signature_class] = unexpanded_option(
                            einsum, chains, signature_class, of
                        )
                    yield self.named[einsum.name, signature_class]
        for signature in chains.signatures:
            self.cascade.budget.go_on()
            if (einsum.name, signature) not in self.named:
                self.named[einsum.name, signature] = option_of(einsum, chains, signature, of, self.made.scales[k])
            yield self.named[einsum.name, signature]

    def value(self, least: Floats) -> float:
        """The least objective of cascades whose weighted costs are at least so much."""
        return float(self.values(least[None])[0])

    def values(self, least: Floats) -> Floats:
        """The least objective for each row of weighted costs."""
        if least.shape[1] == 1:
            return least[:, 0]
        found = np.full(len(least), np.inf)
        finite = np.isfinite(least).all(axis=1)
        found[finite] = least_products(self.cascade.weights, least[finite])
        return found

    def tighten(self, limit: float) -> bool:
        """Bound cascades up to a limit alone; whether there may be any."""
        known = {}
        for k in self.places:
            stage = self.graph.stages[k]
            rows = self.packed[stage].rows
            is_known = [
                o in rows and rows[o].is_open and self.known_limit(k, o) >= limit for o in range(len(self.rests[k]))
            ]
            known[stage] = np.array(is_known, dtype=bool)
        tightened_paths = tighten_bounds(self.graph, self.room, self.paths, self.packed, known, self.values, limit)
        if tightened_paths is not None:
            self.tightened_paths, self.tightened_up_to = tightened_paths, limit
        return tightened_paths is not None

    def shares_of(self) -> list[float]:
        """How large a part of the objective each Einsum makes up at least, by the first bounds."""
        n = len(self.cascade.goals)
        whole = self.paths.least[:n]
        least = [self.cascade.least[member.chains][:n] for member in self.members]
        own = np.array(self.times)[:, None] * np.array(least)
        parts = np.divide(own, whole, out=np.zeros_like(own), where=whole > 0).sum(axis=1)
        return [float(part) for part in parts]

    def near(self, k: int, limit: float) -> list[int]:
        """The options of an Einsum that cascades up to a limit can have, as far as the bounds tell."""
        stage = self.graph.stages[k]
        options = stage.step.options
        numbers = [o for o in self.possible(k) if not options[o].unexpanded or self.known_limit(k, o) < limit]
        if not numbers:
            return []
        paths = self.tightened_paths if limit <= self.tightened_up_to else self.paths
        return [numbers[i] for i in np.flatnonzero(self.values(paths.through[stage][numbers]) <= limit)]

    def known_limit(self, k: int, o: int) -> float:
        """Up to which limit all chains of an option are known.

        The limit that they were looked for counts too, but since then the rest of the cascade may have been found to
        cost more, or to have more room: what that is, and what is missing costs at least, makes the limit of today.
        """
        stage = self.graph.stages[k]
        if stage not in self.limits:
            own, options = self.packed[stage], stage.step.options
            limits = np.full(len(options), -math.inf)
            missing = self.rests[k] + own.costs[np.cumsum(own.n_rows) - 1]
            for i, rows in own.rows.items():
                known = self.option_bounds.known_of(self.members[k].chains, options[i])
                if known is not None:
                    limits[i] = max(known.limit, self.value(missing[i])) if rows.is_open else math.inf
            self.limits[stage] = limits
        return float(self.limits[stage][o])

    def open_options(self, least: float, most: float) -> list[tuple[int, int]]:
        """Einsums and options that can be a part of what costs least but for a little, and are not known well enough.

        Signature classes that are not listed as far come first.
        """
        for unexpanded, step in ((True, STEP), (False, OF_FRONTS * STEP)):
            found = []
            for k in self.places:
                limit, options = self.above(least, step * self.share(k), most), self.graph.stages[k].step.options
                near = [o for o in self.near(k, limit) if options[o].unexpanded == unexpanded]
                found += [(k, o) for o in near if self.known_limit(k, o) < limit]
            if found:
                return found
        return []

    def unknown(self, answer: Answer) -> tuple[float, list[tuple[int, int]]]:
        """The objective of the best row, and its Einsums and options that stand for chains that are not known."""
        rows = answer.reached[-1].costs.prod(axis=1)
        row = int(np.argmin(rows))
        found = []
        for k in reversed(range(len(self.members))):
            before, o, own = (int(x) for x in answer.reached[k + 1].back[row])
            known = self.option_bounds.known_of(self.members[k].chains, self.graph.stages[k].step.options[o])
            if known is None or known.front is None or own >= len(known.front.values):
                found.append((k, o))
            row = before
        return float(rows.min()), found

    # listing and completing

    def share(self, k: int) -> float:
        """How large a part of the objective an Einsum makes up; a quarter of the mean where that is next to nothing."""
        return max(self.shares[k], OF_MEAN * self.mean_share)

    def ahead(self, k: int, o: int) -> float:
        """How far an option is looked ahead, as a part of the objective; fronts, which take longer, less far."""
        option, chains = self.graph.stages[k].step.options[o], self.members[k].chains
        growth = self.listing.growth(chains, None if option.unexpanded else option.signature)
        steps = growth if option.unexpanded else OF_FRONTS * growth
        return AHEAD * self.share(k) * steps

    def around(self, unknown: Sequence[tuple[int, int]], most: float) -> dict[tuple[int, int], float]:
        """Options that are not known well enough, with those of the same Einsums that seem to be about as good.

        Also the limits up to which they are to be known.
        """
        found: dict[tuple[int, int], float] = {}
        for k, o in unknown:
            least = self.value(self.paths.through[self.graph.stages[k]][o])
            near = self.near(k, self.above(least, self.ahead(k, o), most))
            for other in {o: None, **dict.fromkeys(near)}:
                # it is known further than its bound where several weights bound it loosely
                known = max(least, self.known_limit(k, other)) if other == o else least
                limit = self.above(known, 2 * self.ahead(k, other), most)
                if self.known_limit(k, other) < limit:
                    found[k, other] = max(found.get((k, other), 0.0), limit)
        return found

    def refine(self, unknown: Mapping[tuple[int, int], float]) -> None:
        """List or complete options, each up to a limit."""
        signature_classes: dict[Fronts, dict[SignatureClass, RefinementRequest]] = {}
        signatures: dict[Fronts, dict[FusionSignature, RefinementRequest]] = {}
        for (k, o), limit in unknown.items():
            option, chains = self.graph.stages[k].step.options[o], self.members[k].chains
            if option.signature_class is not None:
                signature_classes.setdefault(chains, {}).setdefault(
                    option.signature_class, RefinementRequest()
                ).raise_to(limit)
            else:
                signatures.setdefault(chains, {}).setdefault(option.signature, RefinementRequest()).raise_to(limit)
        for k in self.places:
            chains = self.members[k].chains
            own_classes, own_signatures = signature_classes.get(chains, {}), signatures.get(chains, {})
            for o in self.possible(k) if own_classes or own_signatures else ():
                option = self.graph.stages[k].step.options[o]
                own = (
                    own_signatures.get(option.signature)
                    if option.signature_class is None
                    else own_classes.get(option.signature_class)
                )
                if own is not None:
                    own.remainder.append(self.remainder(k, self.rests[k][o], own.limit))
        self.listing.complete(signatures)
        self.listing.survey(signature_classes)

    def remainder(self, k: int, rest: Floats, most: float) -> Remainder | None:
        """What the rest of the cascade adds to an Einsum's chains."""
        return self.cascade.remainder(rest, self.times[k], most if math.isfinite(most) else None)

    def known_front(self, k: int, o: int, most: float | None) -> FusedFront:
        """The best chains of an option as far as they are known, and behind them what others cost at least."""
        whole = most is None or self.known_limit(k, o) >= most
        key = self.graph.stages[k], o, whole
        if key not in self.fronts:
            self.fronts[key] = self.front(k, o, whole)
        return self.fronts[key]

    def front(self, k: int, o: int, whole: bool) -> FusedFront:
        """The best chains of an option, and bounds of the others unless the front is known far enough (`whole`)."""
        option = self.graph.stages[k].step.options[o]
        known = self.option_bounds.known_of(self.members[k].chains, option)
        front = known.front if known is not None else None
        if whole:
            return front or FusedFront(np.zeros((0, 0)), NO_PATHS)
        cascade, n = self.cascade, len(self.cascade.goals)
        chains, width = self.members[k].chains, n + len(cascade.capacity) * (1 + len(option.loops))
        listed = isinstance(chains, EinsumFronts) and not option.unexpanded
        outer_nests = np.zeros((1, width))
        if isinstance(chains, EinsumFronts) and not option.unexpanded:
            outer_nests = chains.outer_nest_rows(option.signature)
        if listed and front is None:
            return FusedFront(outer_nests, NO_PATHS)
        # at all weights, as in the bounds: by these rows are compared
        weights = cascade.weights
        costs = corners(weights, self.option_bounds.rest(self.members[k].chains, option, weights)[None])[0]
        costs = costs[np.isfinite(costs).all(axis=1)]
        rows = np.concatenate([costs, np.tile(outer_nests[:, n:].min(axis=0), (len(costs), 1))], axis=1)
        if not listed:
            rows[:, n : n + len(cascade.capacity)] = cascade.own(self.members[k].chains)
        if front is None or not len(front.values):
            return FusedFront(rows, NO_PATHS)
        return FusedFront(np.concatenate([front.values, rows]), front.paths)

    def join(self, near: Sequence[Sequence[int]], most: float | None) -> Answer:
        """Put together what is complete."""
        begin = time.perf_counter()
        cascade = self.cascade

        def part(k: int) -> StageFronts:
            fronts = {o: self.known_front(k, o, most) for o in near[k]}
            return StageFronts(
                {o: own for o, own in fronts.items() if len(own.values)}, cascade.own(self.members[k].chains)
            )

        parts = self.everywhere(part)
        paths = self.paths if most is None or most > self.tightened_up_to else self.tightened_paths
        join = LabelSetting(
            self.graph, parts, self.room, len(cascade.goals), paths,
            None if most is None or math.isinf(most) else most, cascade.known_values * (1 + ROUNDING),
        )  # fmt: skip
        reached = join.run(cascade.watch("putting together Einsums up to {}"))
        self.passed("join", begin)
        return Answer(self.graph, parts, reached)


def wider_than(slack: float) -> float:
    """The next one of the limits that are tried, in parts of a step."""
    return min(8 * slack, 1.0) if slack < 1 else math.sqrt(2) * slack
