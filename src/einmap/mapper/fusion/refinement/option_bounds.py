"""Lower bounds of options: what is known of the fronts of each Einsum, and what every option costs and takes at least
by that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature, SignatureClass
from einmap.mapper.fusion.fronts.protocol import Fronts, FusedFront
from einmap.mapper.fusion.paths.boundary_states import Option
from einmap.mapper.fusion.paths.shortest_paths import OptionCosts
from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.problem.request import Remainder


@dataclass(frozen=True)
class Refined:
    """All chains that cascades up to `limit` can have are listed, or in the front; the others have no hope with one of
    `pruned`.
    """

    limit: float
    pruned: tuple[Remainder, ...]
    front: FusedFront | None = None


@dataclass
class OptionBounds:
    """Signature classes and fronts of a search, as far as they are known, by the chains that they are of."""

    cascade: CascadeProblem
    signature_classes: dict[tuple[Fronts, SignatureClass], Refined] = field(default_factory=dict)
    fronts: dict[tuple[Fronts, FusionSignature], Refined] = field(default_factory=dict)
    _rows: dict[tuple[Fronts, FusionSignature | SignatureClass], OptionCosts] = field(default_factory=dict)

    def copied(self) -> OptionBounds:
        """A copy of all bounds, for a search of its own."""
        return replace(
            self, signature_classes=dict(self.signature_classes), fronts=dict(self.fronts), _rows=dict(self._rows)
        )

    def listed(self, chains: Fronts, signature_class: SignatureClass, refined: Refined, anew: bool = True) -> None:
        """A signature class is listed, further than before if it was listed at all; not `anew`: that brought nothing
        more.
        """
        before = self.signature_classes.get((chains, signature_class))
        self.signature_classes[chains, signature_class] = refined
        self._rows.pop((chains, signature_class), None)
        for signature in chains.signatures if anew else ():
            if signature.signature_class == signature_class:
                self._rows.pop((chains, signature), None)
                front = self.fronts.get((chains, signature))
                if front is not None and before is not None:
                    # the front does not know of chains that were not listed
                    pruned = (*front.pruned, *before.pruned)
                    limit = min(front.limit, before.limit)
                    self.fronts[chains, signature] = replace(front, limit=limit, pruned=pruned)

    def completed(self, chains: Fronts, signature: FusionSignature, refined: Refined) -> bool:
        """The front of a signature is found; whether it has more rows than before."""
        before = self.fronts.get((chains, signature))
        self.fronts[chains, signature] = refined
        self._rows.pop((chains, signature), None)
        fronts = (None if state is None else state.front for state in (before, refined))
        rows_before, rows = (0 if front is None else len(front.values) for front in fronts)
        return rows > rows_before

    def raised(self, chains: Fronts, signature_class: SignatureClass) -> None:
        """A signature class costs more at least than was known."""
        self._rows.pop((chains, signature_class), None)

    def refined(self, chains: Fronts, option: Option) -> Refined | None:
        """Facts of an option."""
        if option.signature_class is not None:
            return self.signature_classes.get((chains, option.signature_class))
        return self.fronts.get((chains, option.signature))

    def rest(self, chains: Fronts, option: Option, weights: Floats) -> Floats:
        """For each row of weights what chains cost at least that may be missing in the list, or in the front."""
        refined = self.refined(chains, option)
        least: Floats = (bounds_of(chains, option) @ weights.T).min(axis=0)
        if refined is None:
            return least
        rest = np.full(len(weights), np.inf)
        for remainder in refined.pruned:
            rest = np.minimum(rest, remainder.beyond(weights, least))
        return rest

    def rests(self, chains: Fronts, options: Sequence[Option], rows: Mapping[int, OptionCosts]) -> dict[int, Floats]:
        """`rest` of each open option, by number, at the weights of the cascade. `rows`: their costs by `priced`."""
        weights, found = self.cascade.weights, dict[int, Floats]()
        for o, costs in rows.items():
            if costs.is_open:
                if not costs.rests or costs.rests[-1][0] is not weights:
                    costs.rests[:] = [(weights, self.rest(chains, options[o], weights))]
                found[o] = costs.rests[-1][1]
        return found

    def priced(self, chains: Fronts, option: Option) -> OptionCosts:
        """Costs and space of all chains of an option, or what they cost and take at least."""
        key = chains, option.signature_class or option.signature
        if key not in self._rows:
            self._rows[key] = self._new_rows(chains, option)
        return self._rows[key]

    def _new_rows(self, chains: Fronts, option: Option) -> OptionCosts:
        cascade, refined = self.cascade, self.refined(chains, option)
        n, m, fused = len(cascade.goals), len(cascade.capacity), len(option.loops)
        front = None if refined is None else refined.front
        outer_nests = np.zeros((1, n + m * (1 + fused)))
        outer_nests[:, n : n + m] = cascade.persistent_bits(chains)
        listed = None if option.unexpanded else chains.outer_nest_rows(option.signature)
        if listed is not None:
            outer_nests = listed
        rows = outer_nests[:0] if front is None or not len(front.values) else front.values
        is_open = False
        if listed is not None and front is None:
            rows = outer_nests
        elif np.isfinite(self.rest(chains, option, cascade.weights)).all():
            rows, is_open = np.concatenate([rows, outer_nests.min(axis=0, keepdims=True)]), True
        used, kept = rows[:, n : n + m] - cascade.persistent_bits(chains), rows[:, n + m :].reshape(len(rows), m, fused)
        return OptionCosts(rows[:, :n], used, kept.copy(), is_open)


def bounds_of(chains: Fronts, option: Option) -> Floats:
    """Costs that no chain of an option is below, in all: a row for each outer nest of a signature."""
    if option.signature_class is None:
        return chains.bounds(option.signature)
    return chains.signature_classes[option.signature_class]
