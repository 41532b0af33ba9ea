"""Keys of signature classes that have too many outer nests to be listed: what they have in common with those of others
is mostly little, and leaves few outer nests of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from einmap.arrays import Floats
from einmap.mapper.fusion.fronts.nests.met_loops import KeyLoops, MetLoops
from einmap.mapper.fusion.fronts.nests.signatures import SignatureClass
from einmap.mapper.fusion.fronts.protocol import Fronts
from einmap.mapper.fusion.problem import CascadeProblem, Member
from einmap.mapper.fusion.refinement.front_listing import FrontListing, RefinementRequest
from einmap.mapper.fusion.refinement.met_keys import LargeKeys, LatestMetKeys
from einmap.mapper.fusion.refinement.relaxation import Relaxation
from einmap.mapper.problem.request import Remainder

NEAR = 1.03
"""How far above the bound a limit may be, in parts of it: further away nearly all keys are left."""
LOOKED_AT = 10_000, 50_000
"""Outer nests of a signature class that are looked at for keys: small classes first, which leave less of large ones."""
MOST_KEYS = 5_000
"""Keys of a tensor that others are told of: more leave them little to leave out."""


class Refinement(Protocol):
    """The search that keys are looked for in, as far as that has to know it."""

    cascade: CascadeProblem
    members: list[Member]
    listing: FrontListing
    met_keys: LatestMetKeys
    known_bound: float

    def remainder(self, k: int, rest: Floats, most: float) -> Remainder | None:
        """Costs that the rest of the cascade adds to an Einsum's chains."""


def narrowed(refinement: Refinement, relaxed: Relaxation, most: float) -> bool:
    """Whether keys of large signature classes that cascades up to `most` can have are known better than before."""
    listing, found = refinement.listing, False
    if most > refinement.known_bound * NEAR:
        return False
    requests, at = _requests(refinement, relaxed, most), 0
    while at < len(LOOKED_AT):
        changed = False
        for (chains, of), request in requests.items():
            met, known = refinement.met_keys.of(relaxed, most).of(chains, of), listing.keys.get((chains, of))
            if known is not None and not known.again(most, met, LOOKED_AT[at]):
                continue
            looked_at = LOOKED_AT[at] if known is None else max(LOOKED_AT[at], known.looked_at)
            keys = chains.keys(of, request.united(), met, looked_at)
            loops = met.keys if keys is None else {t: frozenset(keys.loops.get(t, ())) for t, _ in of}
            counts = {t: len(some) for t, some in loops.items()}
            listing.keys[chains, of] = LargeKeys(most, None if keys is None else _few(loops), counts, looked_at)
            if keys is None:
                continue
            if keys.n <= listing.most[chains]:
                listing.too_large.pop((chains, of), None)
            refinement.met_keys.forget()
            changed = found = True
        at = 0 if changed else at + 1
    return found


def _few(keys: Mapping[int, frozenset[KeyLoops]]) -> MetLoops:
    """Loops above shared tensors that are not too many."""
    return MetLoops({t: some for t, some in keys.items() if len(some) <= MOST_KEYS})


def _requests(
    refinement: Refinement, relaxed: Relaxation, most: float
) -> dict[tuple[Fronts, SignatureClass], RefinementRequest]:
    """Signature classes that are too large, with what the rest of the cascade adds."""
    listing, requests = refinement.listing, dict[tuple[Fronts, SignatureClass], RefinementRequest]()
    for k in relaxed.places:
        chains = refinement.members[k].chains
        for o in relaxed.near(k, most):
            of = relaxed.options(k)[o].signature_class
            if of is not None and (chains, of) in listing.too_large:
                requests.setdefault((chains, of), RefinementRequest(most))
    for k in relaxed.places:
        chains = refinement.members[k].chains
        for o in relaxed.possible(k):
            of = relaxed.options(k)[o].signature_class
            if of is not None and (chains, of) in requests:
                remainder = refinement.remainder(k, relaxed.rests[k][o], most)
                requests[chains, of].remainder.append(remainder)
    return requests
