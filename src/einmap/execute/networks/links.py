"""The links between places of a network, found by walking from neighbour to neighbour.

The rules are those of docs/networks.md, as in `model.traffic`; they are written a second time on purpose, so that each
judges the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from math import prod

from einmap.arch.component import Topology

type Place = tuple[int, ...]
"""Position along each fanout."""
type Link = tuple[object, ...]


@lru_cache(maxsize=65536)
def links_between(topology: Topology, sizes: Place, begin: Place, end: Place) -> tuple[Link, ...]:
    """How values go from place to place; `sizes`: of the fanouts. The places differ along one of them."""
    along = next((i for i, (a, b) in enumerate(zip(begin, end, strict=True)) if a != b), 0)
    match topology:
        case "torus":
            return _walk(begin, end, lambda at: _round(at, along, sizes[along]))
        case "ring":
            ends = (_number(begin, sizes),), (_number(end, sizes),)
            return _walk(*ends, lambda at: _round(at, 0, prod(sizes)))
        case _:
            step = 1 if end[along] > begin[along] else -1
            return _walk(begin, end, lambda at: iter([_moved(at, along, step)]))


def is_handed_on(number: int, shared: Sequence[bool], fanouts: Sequence[object]) -> bool:
    """Whether values are handed on along the fanout of a loop of a systolic array, of loops from the outside in.

    They are where lanes of that fanout share them; where none does along the last fanout.
    """
    along = [fanout for fanout, shares in zip(fanouts, shared, strict=True) if shares]
    return fanouts[number] in (along or [fanouts[-1]])


def by_tree(place: Place, sizes: Place) -> list[Link]:
    """The links from the root of a binary tree to a leaf: the leaves below each."""
    leaf, low, high = _number(place, sizes), 0, 1
    while high < prod(sizes):
        high *= 2
    links: list[Link] = []
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if leaf < middle else (middle, high)
        links.append((low, high))
    return links


def by_bus(place: Place, sizes: Place) -> list[Link]:
    """The bus."""
    del place, sizes
    return [("bus",)]


def _walk(begin: Place, end: Place, neighbours: Callable[[Place], Iterator[Place]]) -> tuple[Link, ...]:
    """The links of a shortest way, of several the one that goes to the first neighbour first."""
    came: dict[Place, Place] = {begin: begin}
    waiting = deque([begin])
    while end not in came:
        here = waiting.popleft()
        for there in neighbours(here):
            if there not in came:
                came[there] = here
                waiting.append(there)
    links: list[Link] = []
    while end != begin:
        links.append(tuple(sorted((came[end], end))))
        end = came[end]
    return tuple(links)


def _round(at: Place, along: int, size: int) -> Iterator[Place]:
    """The neighbours on a ring."""
    for step in (1, -1):
        there = _moved(at, along, step)
        yield (*there[:along], there[along] % size, *there[along + 1 :])


def _moved(at: Place, along: int, step: int) -> Place:
    return (*at[:along], at[along] + step, *at[along + 1 :])


def _number(place: Place, sizes: Place) -> int:
    """The number of a place, those along the last fanout following each other."""
    number = 0
    for position, size in zip(place, sizes, strict=True):
        number = number * size + position
    return number
