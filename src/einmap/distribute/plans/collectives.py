"""Collectives between PEs: their kinds, what each sends, and what a plan sends in all."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import permutations
from typing import Literal, assert_never, get_args

from einmap.distribute.placements.mesh import AxisName, Groups
from einmap.visible import brief

type Kind = Literal[
    "all_gather",
    "reduce_scatter",
    "all_reduce",
    "all_to_all",
    "shift",
    "permute",
    "halo",
    "broadcast",
    "reduce",
    "slice",
]

KINDS: tuple[Kind, ...] = get_args(Kind.__value__)
SINGLE: tuple[Kind, ...] = ("shift", "permute", "halo", "broadcast", "reduce")
"""Moves whose messages go from single PEs to single PEs."""

type Topology = Literal["ring", "tree", "torus", "switch", "all_to_all"]
TOPOLOGIES: tuple[Topology, ...] = get_args(Topology.__value__)

type Pairs = tuple[tuple[int, int], ...]
"""Senders and receivers. Nobody occurs twice as sender, or twice as receiver."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """All executions of one collective of a plan.

    `groups`: of PEs that talk to one another, in ring order; `count`: executions (those of loops multiplied out);
    `operand_bytes`, `result_bytes`: what one PE puts in and gets out, once, padding included;
    `sent_bytes`: what one PE sends in one execution by the best ring, on average over the PEs; `rounds`: of what goes
    from single PEs to single PEs, who sends to whom, places in a group; in a tree several rounds.
    """

    __repr__ = brief

    kind: Kind
    tensor: str
    axes: tuple[AxisName, ...]
    groups: Groups
    count: int
    operand_bytes: int
    result_bytes: int
    sent_bytes: float
    rounds: tuple[Pairs, ...] = ()

    @property
    def total_sent_bytes(self) -> float:
        """Bytes that one PE sends in all executions."""
        return self.count * self.sent_bytes


@lru_cache(maxsize=100_000)
def sent(kind: Kind, parts: int, operand: int, result: int) -> Fraction:
    """Values that each of `parts` PEs sends, from the values of its operand and of its result; in a permute or
    for a halo, that each PE sends which sends at all.

    Rings are optimal in bandwidth (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
    workstations", 2009): every PE sends its share `parts - 1` times, in an all-reduce twice.
    """
    others = Fraction(parts - 1, parts)
    match kind:
        case "all_gather":
            return others * result
        case "reduce_scatter" | "all_to_all":
            return others * operand
        case "all_reduce":
            return 2 * others * operand
        case "shift" | "permute" | "halo":
            return Fraction(operand if parts > 1 else 0)
        case "broadcast" | "reduce":
            return Fraction(tree_rounds(parts) * operand)
        case "slice":
            return Fraction(0)
        case _:
            assert_never(kind)


def rounds(kind: Kind, parts: int) -> int:
    """Messages that follow one another in a ring, each of which costs the latency of a link."""
    match kind:
        case "all_gather" | "reduce_scatter" | "all_to_all":
            return parts - 1
        case "all_reduce":
            return 2 * (parts - 1)
        case "shift" | "permute" | "halo":
            return 1 if parts > 1 else 0
        case "broadcast" | "reduce":
            return tree_rounds(parts)
        case "slice":
            return 0
        case _:
            assert_never(kind)


def tree_rounds(parts: int) -> int:
    """Messages one after another in a binomial tree: in each, as many PEs send as have sent or got something before."""
    return (parts - 1).bit_length()


# the links along one axis


def mean_distance(parts: int) -> Fraction:
    """Links between two PEs of a ring that is used both ways, on average over all PEs, the PE itself too.

    Parts/4, for odd parts less by 1/(4 parts). As much goes over the busiest link of a balanced binary tree whose
    leaves are the PEs when each sends to all others.
    """
    return Fraction(parts * parts // 4, parts)


@lru_cache(maxsize=100_000)
def passed_on(kind: Kind, parts: int, topology: Topology) -> Fraction:
    """Bytes that each PE sends along an axis, those that it passes on for others too, for each byte of the larger of
    its operand and result.

    PEs of a ring or torus have links to their neighbours alone, so that in an all-to-all data pass through PEs between.
    Everything else goes to neighbours, or through switches.
    """
    if kind == "all_to_all" and topology in ("ring", "torus"):
        return mean_distance(parts)
    return sent(kind, parts, 1, 1)


@lru_cache(maxsize=100_000)
def busiest(kind: Kind, parts: int, topology: Topology) -> Fraction:
    """Bytes over the busiest link of an axis, in the direction with most of them, for each byte of the larger of a
    PE's operand and result.

    Links are as fast as `Link.bandwidth` says: those of a ring in both directions together, those of a torus each way,
    those between a PE and a switch, and those of a tree whose leaves are the PEs, each way.
    """
    if kind == "all_to_all" and topology == "tree":
        return mean_distance(parts)
    passed = passed_on(kind, parts, topology)
    return passed / 2 if topology == "torus" and kind not in SINGLE else passed


def messages(kind: Kind, parts: int, topology: Topology) -> int:
    """Messages that follow one another along an axis, each of which costs the latency of a link.

    As many as in a ring; log2 of the PEs in a tree or through a switch, twice for an all-reduce; one (two for an
    all-reduce) where all PEs have links to all others.
    """
    if (kind, topology) == ("all_to_all", "torus"):
        return parts // 2
    if kind in SINGLE or topology in ("ring", "torus"):
        return rounds(kind, parts)
    deep = min(parts - 1, 1) if topology == "all_to_all" else tree_rounds(parts)
    return {"all_reduce": 2, "slice": 0}.get(kind, 1) * deep


# several axes


@dataclass(frozen=True, slots=True)
class Stage:
    """A collective along one axis, as a part of one over several. `axis`: its position among these; `share`: the larger
    of a PE's operand and result, as a part of that of the whole collective.
    """

    kind: Kind
    axis: int
    share: float


@lru_cache(maxsize=10_000)
def orders(kind: Kind, sizes: tuple[int, ...]) -> tuple[tuple[Stage, ...], ...]:
    """All ways to do a collective over axes with so many PEs axis by axis: stages that follow one another.

    An all-gather ends with all data, a reduce-scatter begins with them, so that the axis at that end sends most. An
    all-reduce is a reduce-scatter along all axes but the last, an all-reduce along that one, and all-gathers back. Data
    of an all-to-all take one axis after another, whatever the order.
    """
    every = tuple(permutations(range(len(sizes))))
    match kind:
        case "all_gather":
            return tuple(_scattered(order, sizes, kind)[::-1] for order in every)
        case "reduce_scatter":
            return tuple(_scattered(order, sizes, kind) for order in every)
        case "all_reduce":
            made = []
            for *first, last in every:
                inner = Stage(kind, last, 1 / math.prod(sizes[axis] for axis in first))
                down, up = (_scattered(first, sizes, one) for one in ("reduce_scatter", "all_gather"))
                made.append((*down, inner, *up[::-1]))
            return tuple(made)
        case "all_to_all" | "shift" | "permute" | "halo" | "broadcast" | "reduce":
            return (tuple(Stage(kind, axis, 1.0) for axis in range(len(sizes))),)
        case "slice":
            return ((),)
        case _:
            assert_never(kind)


def _scattered(order: Sequence[int], sizes: Sequence[int], kind: Kind) -> tuple[Stage, ...]:
    """Axis after axis, each with what the one before has left."""
    stages: list[Stage] = []
    share = 1.0
    for axis in order:
        stages.append(Stage(kind, axis, share))
        share /= sizes[axis]
    return tuple(stages)


type OfStage = Callable[[Stage], float]
"""Cost of a stage."""


def one_after_another(kind: Kind, sizes: tuple[int, ...], cost: OfStage) -> float:
    """The cost of a collective axis by axis, in the best order of the axes."""
    return min(sum(map(cost, stages)) for stages in orders(kind, sizes))


def all_at_once(kind: Kind, sizes: tuple[int, ...], cost: OfStage) -> float:
    """Seconds of a collective over wrap-around links along several axes at once.

    Data are cut in as many parts as there are axes, and each part goes over the axes in another order, so that links
    along all axes are busy (Sack and Gropp, "Collective algorithms for multiported torus networks", 2015). The slowest
    part of each phase counts.
    """
    count = len(sizes)
    phases = zip(*(_rotated(kind, sizes, part) for part in range(count)), strict=True)
    return sum(max(cost(replace(stage, share=stage.share / count)) for stage in phase) for phase in phases)


def _rotated(kind: Kind, sizes: tuple[int, ...], by: int) -> tuple[Stage, ...]:
    """The stages of a collective that begins with the axis at position `by`, those after it following in turn."""
    count = len(sizes)
    turned = tuple(sizes[(axis + by) % count] for axis in range(count))
    return tuple(replace(stage, axis=(stage.axis + by) % count) for stage in orders(kind, turned)[0])
