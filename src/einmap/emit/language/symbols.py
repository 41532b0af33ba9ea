"""Symbols for text: K = K2*K1*K0, and tile shapes as products of the counts of the loops further in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from einmap.emit.language.identifiers import Names
from einmap.mapping.nodes import Address
from einmap.schedule.routes import Route, Turn


@dataclass(frozen=True)
class RankText:
    """A rank variable, and the counts of the loops that cut it, outermost first (none where they do not cut evenly)."""

    symbol: str
    extent: int
    counts: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Symbols:
    """Symbols by loop index and rank variable.

    `counts`: that of each loop that cuts evenly. `tiles`: its tile shape, also as a product of counts. `extents`: a
    rank variable with an extent. `ranks`: all of them, each way in which they are cut.
    """

    counts: Mapping[str, str]
    tiles: Mapping[str, tuple[int, str]]
    extents: Mapping[tuple[str, int], str]
    ranks: tuple[RankText, ...]


def symbols_of(routes: Mapping[str, Route], index_of: Mapping[Address, str], names: Names) -> Symbols:
    """The symbols of a program."""
    counts: dict[str, str] = {}
    tiles: dict[str, tuple[int, str]] = {}
    extents: dict[tuple[str, int], str] = {}
    ranks: dict[RankText, None] = {}
    for route in routes.values():
        for variable, extent in route.einsum.bounds:
            key = variable, extent
            if key not in extents:
                extents[key] = names.identifier(variable.upper())
            turns = [t for t in route.turns if t.variable == variable and route.iterations[t.address] > 1]
            if not _is_even(extent, turns):
                ranks[RankText(extents[key], extent, ())] = None
                continue
            for turn in turns:
                index = index_of[turn.address]
                if index not in counts:
                    counts[index] = names.identifier(index.upper())
            counted = [(counts[index_of[t.address]], route.iterations[t.address]) for t in turns]
            ranks[RankText(extents[key], extent, tuple(counted))] = None
            for n, turn in enumerate(turns):
                text = "*".join(symbol for symbol, _ in counted[n + 1 :])
                tiles.setdefault(index_of[turn.address], (turn.shape, text))
    return Symbols(counts, tiles, extents, tuple(ranks))


def _is_even(extent: int, turns: list[Turn]) -> bool:
    shapes = [extent, *(t.shape for t in turns)]
    whole = all(a % b == 0 for a, b in pairwise(shapes))
    return whole and all(t.first == t.shape for t in turns)
