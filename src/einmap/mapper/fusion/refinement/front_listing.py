"""Lists signature classes and completes fronts of Einsums, each up to a limit, for the refinement of a cascade."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.fusion.fronts.nests.met_loops import ANYTHING, MetLoops
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature, SignatureClass
from einmap.mapper.fusion.fronts.protocol import Fronts, FusedFront
from einmap.mapper.fusion.paths.boundary_states import Option
from einmap.mapper.fusion.problem import CascadeProblem, Member
from einmap.mapper.fusion.refinement.met_keys import LargeKeys, MetKeys
from einmap.mapper.fusion.refinement.option_bounds import OptionBounds, Refined
from einmap.mapper.objective.tolerances import ROUNDING
from einmap.mapper.problem.request import Remainder, united

FIRST_LISTED, MORE = 2_000, 8
"""Outer nests of a signature class that are listed at first, and how many times as many when all else is known."""
FEWER = 1 / 2
"""Part of the outer nests of a large class that a lower limit has to leave out before it is listed again."""
GROWTH = 1.5
"""Where a list did not grow by this factor there is no point in small steps."""
FURTHER = 1.5
"""Where a class is too large for that it is looked ahead less far, but so many times as far as the next step."""
FAR = 100.0
"""Where the best is so far above the bound there is no limit any more."""


@dataclass
class RefinementRequest:
    """Something that is to be known up to a limit. `remainder`: what the rest of the cascade adds, wherever it
    stands.
    """

    limit: float = 0.0
    remainder: list[Remainder | None] = field(default_factory=list)

    def raise_to(self, limit: float) -> None:
        """Not less far than this."""
        self.limit = max(self.limit, limit)

    def united(self) -> Remainder | None:
        """Limit of everything that has no hope with any of the others."""
        return united(self.remainder)


@dataclass(frozen=True)
class TooLarge:
    """Up to a limit a signature class has too many outer nests, even of those that others can meet.

    `some`: bounds of as many of them as there may be.
    """

    limit: float
    met: MetLoops
    some: Floats

    def holds(self, limit: float, met: MetLoops, remainder: Callable[[], Remainder | None]) -> bool:
        """Whether it seems to have too many up to another limit, with other keys that can be met.

        `remainder`: what others add then. Where it leaves most of those that are known they are many still: often all
        cost the same.
        """
        if not self.met.is_within(met):
            return False
        if self.limit <= limit or (left := remainder()) is None:
            return True
        return bool(np.count_nonzero(left.exceeds_cutoff(self.some)) < FEWER * len(self.some))


class FrontListing:
    """Makes fronts known further. `passed` counts the time since a step began.

    `changed`: fronts whose signature classes became more; `class_steps`, `front_steps`: how many steps signature
    classes, and fronts, are looked ahead, more and more where small ones bring nothing.
    """

    def __init__(
        self, cascade: CascadeProblem, option_bounds: OptionBounds, passed: Callable[[str, float], None]
    ) -> None:
        self.cascade, self.option_bounds, self.passed = cascade, option_bounds, passed
        self.changed: set[Fronts] = set()
        self.class_steps = {member.chains: 1.0 for member in cascade.members}
        self.front_steps: dict[tuple[Fronts, FusionSignature], float] = {}
        # with one fused loop there are few, and steps cost more than they save
        first = FIRST_LISTED if cascade.most_fused > 1 else math.inf
        self.most: dict[Fronts, float] = {member.chains: first for member in cascade.members}
        """Outer nests of a signature class that are listed by now; of larger ones none are."""
        self.too_large: dict[tuple[Fronts, SignatureClass], TooLarge] = {}
        self.keys: dict[tuple[Fronts, SignatureClass], LargeKeys] = {}
        """Keys of signature classes that are too large."""

    def copied(self, option_bounds: OptionBounds) -> FrontListing:
        """A copy with bounds of its own, for a search that leaves this one as it is."""
        other = FrontListing(self.cascade, option_bounds, self.passed)
        other.changed = set(self.changed)
        other.class_steps, other.front_steps = dict(self.class_steps), dict(self.front_steps)
        other.most, other.too_large, other.keys = dict(self.most), dict(self.too_large), dict(self.keys)
        return other

    def more(self, chains: Fronts) -> None:
        """List larger signature classes of an Einsum, too."""
        self.most[chains] *= MORE
        self.too_large = {key: known for key, known in self.too_large.items() if key[0] is not chains}

    def is_too_large(
        self, chains: Fronts, option: Option, limit: float, met: MetKeys, remainder: Callable[[], Remainder | None]
    ) -> bool:
        """Whether an option is a signature class with too many outer nests for now, up to a limit.

        `remainder`: what the others add then.
        """
        of = option.signature_class
        known = None if of is None else self.too_large.get((chains, of))
        return known is not None and of is not None and known.holds(limit, met.of(chains, of), remainder)

    def between(self, chains: Fronts, option: Option, least: float, limit: float) -> float:
        """A limit between one and that for which a signature class is too large, by how far both are above `least`.

        Small steps alone would list a class anew and anew.
        """
        of = option.signature_class
        known = None if of is None else self.too_large.get((chains, of))
        if known is None or known.limit <= limit:
            return limit
        middle = least + math.sqrt((limit - least) * (known.limit - least))
        return middle if middle - least > FURTHER * (limit - least) else limit

    def growth(self, chains: Fronts, signature: FusionSignature | None) -> float:
        """How many steps a front is looked ahead; None: the signature classes of its Einsum."""
        if signature is None:
            return self.class_steps[chains]
        return self.front_steps.get((chains, signature), 1.0)

    def survey(
        self, requests: Mapping[Fronts, Mapping[SignatureClass, RefinementRequest]], met_keys: MetKeys | None = None
    ) -> None:
        """List signature classes up to limits. `met_keys`: what others can meet; without them it may be anything."""
        begin = time.perf_counter()
        listing = self.cascade.watch("loops above the tensors of {}")
        members = [member for member in self.cascade.distinct if member.chains in requests]

        def survey(member: Member, position: int) -> None:
            listing(member.einsum.name, position)
            chains = member.chains
            remainders = {signature_class: asked.united() for signature_class, asked in requests[chains].items()}
            outer_nests = chains.statistics.outer_nests
            met = {} if met_keys is None else {f: met_keys.of(chains, f) for f in remainders}
            surveyed = chains.survey(remainders, met, self.most[chains])
            for f, some in surveyed.postponed.items():
                self.too_large[chains, f] = TooLarge(requests[chains][f].limit, met.get(f, ANYTHING), some)
            if not surveyed.postponed and chains.statistics.outer_nests <= GROWTH * outer_nests:
                self.class_steps[chains] *= 2
            for signature_class, remainder in remainders.items():
                if signature_class in surveyed.postponed:
                    continue
                refined = Refined(requests[chains][signature_class].limit, () if remainder is None else (remainder,))
                self.option_bounds.listed(chains, signature_class, refined, signature_class in surveyed.anew)
            if surveyed.anew or any(math.isinf(asked.limit) for asked in requests[chains].values()):
                self.changed.add(chains)

        self.of_each(members, survey)
        self.passed("heads", begin)

    def complete(self, requests: Mapping[Fronts, Mapping[FusionSignature, RefinementRequest]]) -> None:
        """Find the fronts of signatures up to limits."""
        begin = time.perf_counter()
        searching = self.cascade.watch("the best chains of {}")
        members = [member for member in self.cascade.distinct if member.chains in requests]

        def complete(member: Member, position: int) -> None:
            chains = member.chains
            searching(member.einsum.name, position)
            remainders = {signature: asked.united() for signature, asked in requests[chains].items()}
            fronts = chains.complete_outer_nests(remainders)
            for signature, remainder in remainders.items():
                pruned = () if remainder is None else (remainder,)
                front = fronts.get(signature) or FusedFront(
                    np.zeros((0, len(self.cascade.goals))), np.zeros((0, 0), np.int64)
                )
                refined = Refined(requests[chains][signature].limit, pruned, front)
                if not self.option_bounds.completed(chains, signature, refined):
                    self.front_steps[chains, signature] = 2 * self.front_steps.get((chains, signature), 1.0)

        self.of_each(members, complete)
        self.passed("chains", begin)

    def of_each(self, members: Sequence[Member], what: Callable[[Member, int], None]) -> None:
        """Do something for each Einsum, in several threads; those that have their tables in common in one."""
        together: dict[Fronts, list[tuple[Member, int]]] = {}
        for position, member in enumerate(members):
            together.setdefault(member.chains.tables_of, []).append((member, position))

        def work(some: Sequence[tuple[Member, int]]) -> None:
            for member, position in some:
                what(member, position)

        if len(together) < 2:
            # a thread takes longer to begin than most of this work
            work([one for some in together.values() for one in some])
            return
        with ThreadPoolExecutor(self.cascade.workers) as executor:
            list(executor.map(work, together.values()))


def wider_than(slack: float) -> float:
    """The next one of the limits that are tried, in parts of a step."""
    return min(8 * slack, 1.0) if slack < 1 else math.sqrt(2) * slack


def above(least: float, slack: float, most: float) -> float:
    """A limit that is so far above a bound."""
    return min(least * (1 + slack) * (1 + ROUNDING), most) if slack < FAR else most
