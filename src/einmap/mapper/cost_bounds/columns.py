"""The columns of cost that a search adds up: energy, and sums of busy times whose largest is the latency.

A column is a sum over stations of the architecture path: of each the reads and writes of some exchanges, told by the
level of their child, with the seconds that each takes, and the time of the operations or not. By default there is a
column for each latency form of a component, over all exchanges, and one for the operations. Where memories and what is
below them take turns, times are added (`model.buffering`); a sum of largest values is the largest of all sums, so each
is a column as well. So is the way of a value of each input and of each output (`model.ways`). A network is a component
whose busy time is the largest of each tensor's longest route and of each link that may be the busiest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from einmap.arch.component import Leaf, Memory, Network, Toll, Topology, is_carrying
from einmap.arrays import Floats, Ints
from einmap.einsum.einsum import Einsum
from einmap.mapper.mapspace.latency_forms import Form, forms_of
from einmap.model.timing.buffering import end_of_overlap, turns
from einmap.model.timing.ways import has_ways

LINKS_OF: Mapping[Topology, int] = {"torus": 3, "ring": 3, "tree": 2}
"""How many links may be the busiest, along each fanout or in all; one on other topologies."""
IN_ONE_ORDER: frozenset[Topology] = frozenset({"ring", "tree", "bus"})
"""Topologies on which lanes of all fanouts stand in one order."""


@dataclass(frozen=True, slots=True)
class Term:
    """Spending of the component at `level` on exchanges whose child is at one of the levels `children`, by a form.

    `once`: of one visit of each child alone.
    """

    level: int
    form: Form
    children: range
    once: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """The time of the longest route of a tensor's values through the network at `level`, to some `children`."""

    level: int
    tensor: str
    children: range


@dataclass(frozen=True, slots=True)
class Wait:
    """The time of the longest routes of a tensor through all networks, for each transfer to its node at `child`.

    `once`: of one transfer alone.
    """

    tensor: str
    child: int
    once: bool


@dataclass(frozen=True, slots=True)
class Link:
    """The time of what passes a link of the network at `level` that may be the busiest one.

    `dimension`: the fanout (level and name) that it goes along, without a name on networks where all lanes stand in one
    order. `number`: which of the links there (see `networks.topologies`): 0 for the one next to where values enter.
    `tensor`: whose link it is, where each one has links of its own.
    It is the link in the first lane along other fanouts; or, `behind` a loop along another fanout whose lanes take
    turns on the output, the one in a later lane of that loop, where all of the output comes down.
    `children`, `once`: as of a `Term`.
    """

    level: int
    dimension: tuple[int, str]
    number: int
    behind: bool
    tensor: str | None
    children: range
    once: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A sum of terms, with the time of the operations if it `computes`.

    `way`: an input, if there is one, and an output; the column is how long a value of the one and then one of the other
    is on its way.
    """

    terms: tuple[Term | Route | Link | Wait, ...]
    computes: bool = False
    way: tuple[str, ...] = ()

    def __add__(self, other: Column) -> Column:
        return Column((*self.terms, *other.terms), self.computes or other.computes)


@dataclass(frozen=True)
class Columns:
    """The costs that are added up: column 0 is energy (J), others are seconds, the last one of the operations alone."""

    timed: tuple[Column, ...]

    @property
    def n(self) -> int:
        """Number of columns with energy."""
        return len(self.timed) + 1

    @cached_property
    def level(self) -> tuple[int, ...]:
        """Of each column but the first and the last the level of its component; -1 for sums over several."""
        return tuple(-1 if term is None else term.level for term in map(_only, self.timed[:-1]))

    def of_components(self, leaves: Sequence[Leaf]) -> dict[str, range]:
        """The columns of each component with all its exchanges: its busy time is the largest of them."""
        places: dict[str, list[int]] = {}
        for i, column in enumerate(self.timed, start=1):
            term = _only(column)
            if term is not None and term.children == range(len(leaves)):
                places.setdefault(leaves[term.level].name, []).append(i)
        return {name: range(found[0], found[-1] + 1) for name, found in places.items()}

    @cached_property
    def computing(self) -> Ints:
        """The columns that have the time of the operations."""
        return np.array([i for i, column in enumerate(self.timed, start=1) if column.computes], dtype=np.int64)

    def routes(self, level: int, tensor: str, child: int) -> list[int]:
        """Columns of a tensor's longest route to a child through the network at a level."""
        return [
            i
            for i, term in self._terms(Route)
            if (term.level, term.tensor) == (level, tensor) and child in term.children
        ]

    def waits(self, tensor: str, child: int) -> list[tuple[int, Wait]]:
        """Columns with the hops of a tensor's transfers to and from a child."""
        return [(i, term) for i, term in self._terms(Wait) if (term.tensor, term.child) == (tensor, child)]

    def links(self, level: int, tensor: str, child: int) -> list[tuple[int, Link]]:
        """Columns of a tensor's links to a child in the network at a level."""
        return [
            (i, term)
            for i, term in self._terms(Link)
            if term.level == level and child in term.children and term.tensor in (None, tensor)
        ]

    def _terms[T](self, kind: type[T]) -> Iterator[tuple[int, T]]:
        """The terms of a kind, with their columns."""
        return ((i, t) for i, column in enumerate(self.timed, start=1) for t in column.terms if isinstance(t, kind))

    @cached_property
    def ways(self) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """The columns of ways, with the tensors of each."""
        return tuple((i, column.way) for i, column in enumerate(self.timed, start=1) if column.way)

    def of(self, level: int, child: int, *, once: bool = False) -> tuple[tuple[int, Form], ...]:
        """Columns in which the component at a level counts for exchanges with a child at a level, and how.

        `once`: those in which it counts for one visit of the child.
        """
        return tuple(
            (i, term.form)
            for i, term in self._terms(Term)
            if term.level == level and child in term.children and term.once == once
        )


def _only(column: Column) -> Term | None:
    """The term of a column that has nothing else, of a memory or toll."""
    if len(column.terms) != 1 or column.computes:
        return None
    return column.terms[0] if isinstance(column.terms[0], Term) else None


def _counted(leaves: tuple[Leaf, ...], end: int) -> Iterator[tuple[int, Network]]:
    """The networks above a level, without those of which an expression says how long they take."""
    for level, leaf in enumerate(leaves[:end]):
        if is_carrying(leaf) and leaf.total_latency is None:
            yield level, leaf


def _routes(einsum: Einsum, leaves: tuple[Leaf, ...], children: range) -> list[Column]:
    """A column for each tensor's longest route to some children."""
    networks = [level for level, leaf in _counted(leaves, children.stop - 1) if leaf.hop_latency]
    return [Column((Route(level, access.tensor, children),)) for level in networks for access in einsum.accesses]


def _links(einsum: Einsum, leaves: tuple[Leaf, ...], children: range, once: bool = False) -> list[Column]:
    """A column for each link that may be the busiest one on the way to some children."""
    columns: list[Column] = []
    outputs = {access.tensor for access in einsum.accesses if access.output}
    for level, leaf in _counted(leaves, children.stop - 1):
        if not math.isinf(leaf.action("hop").throughput):
            owners = (None,) if leaf.links == "shared" else tuple(access.tensor for access in einsum.accesses)
            columns += [
                Column((Link(level, *of, owner, children, once),))
                for of in _busiest_links(leaves, level, leaf, set() if once else outputs)
                for owner in owners
            ]
    return columns


def _waits(einsum: Einsum, leaves: tuple[Leaf, ...], child: int, once: bool) -> list[Column]:
    """A column for each tensor's hops, transfer by transfer; none where no network above has a latency."""
    if not waits_for_hops(leaves, child):
        return []
    return [Column((Wait(access.tensor, child, once),)) for access in einsum.accesses]


def waits_for_hops(leaves: tuple[Leaf, ...], level: int) -> bool:
    """Whether transfers to what is at a level take hops that take time."""
    return any(leaf.hop_latency for _, leaf in _counted(leaves, level))


def _busiest_links(
    leaves: tuple[Leaf, ...], level: int, network: Network, outputs: set[str]
) -> Iterator[tuple[tuple[int, str], int, bool]]:
    """Which links of a network may be the busiest: fanout, number, whether `behind`, as `Link` has them."""
    numbers = LINKS_OF.get(network.topology, 1)
    if network.topology in IN_ONE_ORDER:
        yield from (((level, ""), number, False) for number in range(numbers))
        return
    fanouts = [(i, d) for i, below in enumerate(leaves) if i >= level for d in below.spatial]
    for i, dimension in fanouts:
        others = [d for at, d in fanouts if (at, d.name) != (i, dimension.name)]
        for behind in (False, True) if any(outputs - d.may_reuse for d in others) else (False,):
            yield from (((i, dimension.name), number, behind) for number in range(numbers))


def columns_of(einsum: Einsum, leaves: tuple[Leaf, ...]) -> Columns:
    """The columns of a path of the architecture."""
    forms = {level: _forms(leaf, einsum.name) for level, leaf in enumerate(leaves) if isinstance(leaf, Memory | Toll)}

    def busy(children: range, once: bool = False) -> list[Column]:
        """Columns of what each component spends on some exchanges, in all or for one visit of each child."""
        return [
            Column((Term(level, form, children, once),))
            for level, of_level in forms.items()
            if level < children.stop
            for form in of_level
        ]

    def in_turn(level: int, once: bool) -> list[Column]:
        """Columns of the exchanges of a memory that takes turns: a component or a link, and the hops."""
        children = range(level, level + 1)
        return _sums(
            [*busy(children, once), *_links(einsum, leaves, children, once)], _waits(einsum, leaves, level, once)
        )

    def beside(children: range) -> list[Column]:
        """Columns of exchanges that overlap."""
        return [*busy(children), *_routes(einsum, leaves, children), *_links(einsum, leaves, children)]

    operations, every = Column((), computes=True), range(len(leaves))
    others = (*_routes(einsum, leaves, every), *_links(einsum, leaves, every), *_ways(einsum, leaves))
    return Columns((*busy(every), *_turns(leaves, in_turn, beside, operations), *others, operations))


def _sums(some: list[Column], more: list[Column]) -> list[Column]:
    """Each of some columns with each of others; those that there are where one side has none."""
    return [before + after for before in some for after in more] or some or more


def _ways(einsum: Einsum, leaves: tuple[Leaf, ...]) -> list[Column]:
    """A column for each way in and out; none where no action takes time until its value is there."""
    if einsum.is_copy or not has_ways(leaves):
        return []
    inputs: list[tuple[str, ...]] = [(access.tensor,) for access in einsum.accesses if not access.output]
    outputs = [access.tensor for access in einsum.accesses if access.output]
    return [Column((), way=(*inward, outward)) for inward in inputs or [()] for outward in outputs]


def _forms(leaf: Memory | Toll, einsum: str) -> tuple[Form, ...]:
    """The latency forms of a component; where only the beginning of transfers takes time, one of nothing else."""
    forms = forms_of(leaf, einsum) or ()
    return (Form(0.0, 0.0),) if not forms and isinstance(leaf, Memory) and leaf.starts else forms


def _turns(
    leaves: tuple[Leaf, ...],
    in_turn: Callable[[int, bool], list[Column]],
    beside: Callable[[range], list[Column]],
    operations: Column,
) -> list[Column]:
    """The sums whose largest is the time in which memories and what is below them take turns; none where none do."""
    taken = turns(leaves)
    if not taken:
        return []
    inside = [operations, *beside(range(taken[-1][0] + 1, len(leaves)))]
    for (here, once), (outer, _) in pairwise(reversed(((-1, False), *taken))):
        inside = _sums(in_turn(here, once), inside)
        if outer >= 0:
            inside += beside(range(outer + 1, end_of_overlap(taken, here, len(leaves))))
    return inside


def without_idle(columns: Ints, of_path: Columns, leaves: Sequence[Leaf], times: Iterable[Floats]) -> Ints:
    """Some columns without those of memories below a fanout that are never busy for half as long as the busiest one.

    What the compute exchanges with such a memory is nearly all that it does. Its costs still count, when they are
    known. `times`: seconds that do not depend on tile shapes, a row for each use of the fanouts.
    """
    first = min((i for i, leaf in enumerate(leaves) if leaf.spatial), default=len(leaves))
    inner = [c for c, level in enumerate(of_path.level, start=1) if level >= first]
    busy, is_known = np.zeros(of_path.n, dtype=bool), False
    for seconds in times if inner and len(columns) > 2 else ():
        is_known = True
        busy[1:] |= (seconds >= seconds.max(axis=1, keepdims=True) / 2).any(axis=0)
    return np.array([c for c in columns if c not in inner or busy[c]], dtype=np.int64) if is_known else columns
