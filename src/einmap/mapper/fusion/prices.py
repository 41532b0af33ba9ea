"""What is known of the chains of each Einsum, and what every option costs and takes at least by that."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from einmap.mapper.fusion.chains import Chains, Front
from einmap.mapper.fusion.heads import Family, Outline
from einmap.mapper.fusion.interfaces import Option
from einmap.mapper.fusion.paths import Priced
from einmap.mapper.fusion.steps import AnyChains
from einmap.mapper.fusion.whole import Cascade
from einmap.mapper.request import Others

type Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Known:
    """All chains that cascades up to `limit` can have are listed, or in the front; the others have no hope with one of
    `left_out`.
    """

    limit: float
    left_out: tuple[Others, ...]
    front: Front | None = None


@dataclass
class Prices:
    """Families and fronts of a search, as far as they are known, by the chains (by id) that they are of."""

    cascade: Cascade
    families: dict[tuple[int, Family], Known] = field(default_factory=dict)
    fronts: dict[tuple[int, Outline], Known] = field(default_factory=dict)
    _rows: dict[tuple[int, Outline | Family], Priced] = field(default_factory=dict)

    def listed(self, chains: AnyChains, family: Family, known: Known, anew: bool = True) -> None:
        """A family is listed, further than before if it was listed at all; not `anew`: that brought nothing more."""
        before = self.families.get((id(chains), family))
        self.families[id(chains), family] = known
        self._rows.pop((id(chains), family), None)
        for outline in chains.outlines if anew else ():
            if outline.family == family:
                self._rows.pop((id(chains), outline), None)
                front = self.fronts.get((id(chains), outline))
                if front is not None and before is not None:
                    # the front does not know of chains that were not listed
                    left_out = (*front.left_out, *before.left_out)
                    limit = min(front.limit, before.limit)
                    self.fronts[id(chains), outline] = replace(front, limit=limit, left_out=left_out)

    def completed(self, chains: AnyChains, outline: Outline, known: Known) -> bool:
        """The front of an outline is found; whether it has more rows than before."""
        before = self.fronts.get((id(chains), outline))
        self.fronts[id(chains), outline] = known
        self._rows.pop((id(chains), outline), None)
        fronts = (None if own is None else own.front for own in (before, known))
        rows_before, rows = (0 if front is None else len(front.values) for front in fronts)
        return rows > rows_before

    def known_of(self, chains: AnyChains, option: Option) -> Known | None:
        """What is known of an option."""
        if option.family is not None:
            return self.families.get((id(chains), option.family))
        return self.fronts.get((id(chains), option.outline))

    def rest(self, chains: AnyChains, option: Option, weights: Floats) -> Floats:
        """For each row of weights what chains cost at least that may be missing in the list, or in the front."""
        known = self.known_of(chains, option)
        least: Floats = (bounds_of(chains, option) @ weights.T).min(axis=0)
        if known is None:
            return least
        rest = np.full(len(weights), np.inf)
        for others in known.left_out:
            rest = np.minimum(rest, others.beyond(weights, least))
        return rest

    def priced(self, chains: AnyChains, option: Option) -> Priced:
        """Costs and space of all chains of an option, or what they cost and take at least."""
        key = id(chains), option.family or option.outline
        if key not in self._rows:
            self._rows[key] = self._new_rows(chains, option)
        return self._rows[key]

    def _new_rows(self, chains: AnyChains, option: Option) -> Priced:
        cascade, known = self.cascade, self.known_of(chains, option)
        n, m, fused = len(cascade.goals), len(cascade.capacity), len(option.loops)
        front = None if known is None else known.front
        heads = np.zeros((1, n + m * (1 + fused)))
        heads[:, n : n + m] = cascade.own(chains)
        listed = isinstance(chains, Chains) and not option.wild
        if isinstance(chains, Chains) and listed:
            heads = chains.head_rows(option.outline)
        rows = heads[:0] if front is None or not len(front.values) else front.values
        is_open = False
        if listed and front is None:
            rows = heads
        elif np.isfinite(self.rest(chains, option, cascade.weights)).all():
            rows, is_open = np.concatenate([rows, heads.min(axis=0, keepdims=True)]), True
        used, kept = rows[:, n : n + m] - cascade.own(chains), rows[:, n + m :].reshape(len(rows), m, fused)
        return Priced(rows[:, :n], used, kept.copy(), is_open)


def bounds_of(chains: AnyChains, option: Option) -> Floats:
    """Costs that no chain of an option is below, in all: a row for each head of an outline."""
    if option.family is None:
        return chains.bounds(option.outline)
    assert isinstance(chains, Chains)
    return chains.families[option.family]
