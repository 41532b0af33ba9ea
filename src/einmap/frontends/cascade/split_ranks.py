"""Ranks that are read in digits become several ranks: heads are ranks of their own where projections are written.

A product writes `Q[m, n]` with 768 values of n, and the scores read it as 12 heads of 64: `Q[m, N: 64*h + e]`. Loops
over heads could not be shared by the two. So the rank becomes two, and the variable n of the product becomes h and e,
in its weight and bias as well:

    Q[m, n] = X[m, k] * W[k, n]               -->  Q[m, h, e] = X[m, k] * W[k, h, e]
    S[h, m, p] = Q[m, N: 64*h + e] * ...      -->  S[h, m, p] = Q[m, h, e] * ...

A rank stays where an index of it is not made of digits, as in windows, where a variable that would be cut is part of
another sum, and where the tensor is padded or an output of the program. So does a rank with which another tensor would
be written at a sum of digits, which cannot be mapped, unless that one is split as well.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from einmap.einsum.rewrites.edit import substituted
from einmap.einsum.spaces.projection import Affine
from einmap.frontends.cascade.program import Access, CascadeEinsum, Program, Stored

type Strides = tuple[int, ...]
"""The factors of the digits of a rank, the largest first; the last is 1."""


def with_split_ranks(program: Program, einsums: Sequence[CascadeEinsum], kept: Collection[str]) -> list[CascadeEinsum]:
    """The Einsums with ranks split wherever that is possible; tensors in `kept` stay as they are."""
    done = dict(enumerate(einsums))
    users: dict[str, dict[int, None]] = {}
    ranks: dict[str, int] = {}
    for place, einsum in done.items():
        for access in _accesses(einsum):
            users.setdefault(access.tensor.name, {})[place] = None
            ranks[access.tensor.name] = len(access.index)
    waiting = dict.fromkeys(users)
    while waiting:
        name = next(iter(waiting))
        del waiting[name]
        for rank in range(ranks[name]):
            trial = _Trial(ChainMap({}, done), ChainMap({}, program.margins), users)
            if not trial.splits(name, rank, kept):
                continue
            done |= trial.einsums.maps[0]
            program.margins |= trial.margins.maps[0]
            for access in (a for i in trial.einsums.maps[0] for a in _accesses(done[i])):
                # what the Einsums index with the variables that were cut may be split then
                waiting[access.tensor.name] = None
                ranks[access.tensor.name] = len(access.index)
            break
    return list(done.values())


@dataclass(frozen=True, slots=True)
class _Trial:
    """Splits that are made together, or not at all. `einsums`, `margins`: what they change is in the first map.

    `users`: the places of the Einsums that read or write a tensor.
    """

    einsums: ChainMap[int, CascadeEinsum]
    margins: ChainMap[str, list[tuple[int, int]]]
    users: Mapping[str, Iterable[int]]

    def splits(self, name: str, rank: int, kept: Collection[str]) -> bool:
        """Split a rank, and those that would be written at sums of digits then. False where one of them stays."""
        whole = self.einsums.parents
        waiting = [(name, rank)]
        while waiting:
            name, rank = waiting[0]
            if name in kept or not self._split(name, rank):
                return False
            changed = self.einsums.maps[0].items()
            waiting = [(e.name, sums[0]) for i, e in changed if (sums := _sums(e)) and not _sums(whole[i])]
        return True

    def _split(self, name: str, rank: int) -> bool:
        """Split one rank of a tensor in all Einsums that use it, if its indices allow it."""
        places = self.users[name]
        accesses = [(i, a) for i in places for a in _accesses(self.einsums[i]) if a.tensor.name == name]
        tensor = accesses[0][1].tensor
        margins = self.margins.get(name, [(0, 0)] * len(tensor.sizes))
        if margins[rank] != (0, 0) or any(rank in dict(access.looked_up) for _, access in accesses):
            return False
        uses = [(i, access.index[rank]) for i, access in accesses]
        strides = _strides([(index, self.einsums[i].extents) for i, index in uses], tensor.sizes[rank])
        if strides is None or len(strides) < 2:
            return False
        cut = [_cut(self.einsums[i], index, strides) for i, index in uses]
        if any(table is None for table in cut):
            return False
        tables = _joined([(i, table or {}) for (i, _), table in zip(uses, cut, strict=True)])
        split = _Split(tensor, rank, strides)
        if tables is None or not all(split.fits(index, tables.get(i, {})) for i, index in uses):
            return False
        for i in places:
            self.einsums[i] = split.applied(self.einsums[i], tables.get(i, {}))
        if name in self.margins:
            self.margins[name] = [*margins[:rank], *[(0, 0)] * len(strides), *margins[rank + 1 :]]
        return True


def _sums(einsum: CascadeEinsum) -> list[int]:
    """The ranks that an Einsum writes at sums of variables, which only a copy may do if it is to be mapped."""
    return [] if einsum.is_copy else [r for r, index in enumerate(einsum.output.index) if len(index.terms) > 1]


def _joined(tables: Iterable[tuple[int, dict[str, Cut]]]) -> dict[int, dict[str, Cut]] | None:
    """How each Einsum cuts its variables; None where two of its indices cut one differently."""
    joined: dict[int, dict[str, Cut]] = {}
    for i, table in tables:
        of_einsum = joined.setdefault(i, {})
        if any(of_einsum.setdefault(variable, cut) != cut for variable, cut in table.items()):
            return None
    return joined


def _accesses(einsum: CascadeEinsum) -> tuple[Access, ...]:
    return (*einsum.inputs, einsum.output)


def _digits(index: Affine, extents: Mapping[str, int]) -> list[tuple[str, int, int]] | None:
    """The terms as (variable, factor, extent) from the smallest on, where each begins where the one before ends."""
    terms = sorted(((v, a, extents[v]) for v, a in index.terms), key=lambda term: term[1])
    ends = [1, *(a * extent for _, a, extent in terms)]
    starts = [a for _, a, _ in terms]
    return terms if all(a == end for a, end in zip(starts, ends, strict=False)) else None


def _strides(uses: Iterable[tuple[Affine, Mapping[str, int]]], size: int) -> Strides | None:
    """The factors at which the uses of a rank cut it; None where one is not made of digits, or they do not fit."""
    cuts = {1}
    for index, extents in uses:
        terms = _digits(index, extents)
        if terms is None:
            return None
        width = prod(extent for _, _, extent in terms)
        if index.constant % width or (width < size and size % width):
            return None
        cuts |= {a for _, a, _ in terms if a > 1}
        cuts |= {width} if 1 < width < size else set()
    ordered = sorted(cuts)
    if any(large % small for small, large in pairwise([*ordered, size])):
        return None
    return tuple(reversed(ordered))


@dataclass(frozen=True, slots=True)
class Cut:
    """A rank variable that is cut into digits: their names, factors and extents, the largest factor first."""

    names: tuple[str, ...]
    factors: tuple[int, ...]
    extents: tuple[int, ...]

    @property
    def index(self) -> Affine:
        """The variable in its digits."""
        return Affine(tuple(zip(self.names, self.factors, strict=True)))


def _cut(einsum: CascadeEinsum, index: Affine, strides: Strides) -> dict[str, Cut] | None:
    """Variables of an index that are wider than a digit, cut; None where one may not be cut."""
    table: dict[str, Cut] = {}
    terms = _digits(index, einsum.extents)
    assert terms is not None
    for variable, a, extent in terms:
        inner = [s for s in strides if a <= s < a * extent]
        if len(inner) < 2:
            continue
        if not _is_alone(einsum, variable, index):
            return None
        ends = [a * extent, *inner]
        factors = tuple(s // a for s in inner)
        extents = tuple(high // low for high, low in pairwise(ends))
        names = tuple(f"{variable}_{factor}" for factor in factors)
        table[variable] = Cut(names, factors, extents)
    return table


def _is_alone(einsum: CascadeEinsum, variable: str, index: Affine) -> bool:
    """Whether a variable indexes ranks alone, but for this index and others that are made of digits alike."""
    others = [i for access in _accesses(einsum) for i in access.index if any(v == variable for v, _ in i.terms)]
    if any(v == variable for i, _ in einsum.cuts for v, _ in i.terms):
        return False
    return all(i == index or (len(i.terms) == 1 and i.terms[0][1] == 1) for i in others)


@dataclass(frozen=True, slots=True)
class _Split:
    """A rank of a tensor that becomes several, by the factors of its digits."""

    tensor: Stored
    rank: int
    strides: Strides

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the new ranks."""
        return tuple(high // low for high, low in pairwise([self.tensor.sizes[self.rank], *self.strides]))

    def fits(self, index: Affine, table: Mapping[str, Cut]) -> bool:
        """Whether each term of an index is one digit once variables are cut."""
        return all(a in self.strides for _, a in substituted(index, {v: cut.index for v, cut in table.items()}).terms)

    def applied(self, einsum: CascadeEinsum, table: Mapping[str, Cut]) -> CascadeEinsum:
        """The Einsum with variables cut, and the rank split."""
        indices = {v: cut.index for v, cut in table.items()}
        extents: dict[str, int] = {}
        hints: dict[str, str] = {}
        for variable, extent in einsum.extents.items():
            cut = table.get(variable)
            extents |= {variable: extent} if cut is None else dict(zip(cut.names, cut.extents, strict=True))
            names = (variable,) if cut is None else cut.names
            hints |= dict.fromkeys(names, einsum.hints[variable])
        return replace(
            einsum,
            output=self._access(einsum.output, indices),
            inputs=tuple(self._access(access, indices) for access in einsum.inputs),
            extents=extents,
            hints=hints,
        )

    def _access(self, access: Access, table: Mapping[str, Affine]) -> Access:
        index = [substituted(i, table) for i in access.index]
        if access.tensor.name != self.tensor.name:
            return Access(access.tensor, tuple(index), access.looked_up)
        old = index[self.rank]
        new = [self._digit(old, place) for place in range(len(self.strides))]
        sizes = (*self.tensor.sizes[: self.rank], *self.sizes, *self.tensor.sizes[self.rank + 1 :])
        more = len(self.strides) - 1
        looked_up = tuple((rank + more if rank > self.rank else rank, place) for rank, place in access.looked_up)
        parts = *index[: self.rank], *new, *index[self.rank + 1 :]
        return Access(replace(self.tensor, sizes=sizes), parts, looked_up)

    def _digit(self, index: Affine, place: int) -> Affine:
        stride, size = self.strides[place], self.sizes[place]
        terms = tuple((v, 1) for v, a in index.terms if a == stride)
        return Affine(terms, index.constant // stride % size)
