"""What moves between PEs: the kinds of collectives, what each sends, and what a plan sends in all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, assert_never, get_args

from einmap.distribute.mesh import AxisName, Groups
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
        """What one PE sends in all executions."""
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


type TorusAxes = tuple[tuple[int, float], ...]
"""PEs along each axis, at least 2, and bytes/s that a PE sends along it, each way."""


def torus_bytes(kind: Kind, axes: TorusAxes, whole: float) -> float:
    """Seconds of sending over wrap-around links along several axes at once, both ways; latencies left out.

    Data are cut in as many parts as there are axes, and each part goes over the axes in another order, half of it each
    way, so that links along all axes are busy (Sack and Gropp, "Collective algorithms for multiported torus networks",
    2015). `whole`: bytes of the larger of a PE's operand and result.
    """
    match kind:
        case "all_gather" | "reduce_scatter":
            return _gathered(axes, whole)
        case "all_reduce":
            return 2 * _gathered(axes, whole)
        case "all_to_all":
            # half the ring away at most, a quarter on average; the busiest axis counts
            return max(whole * _mean_distance(parts) / (2 * rate) for parts, rate in axes)
        case "shift" | "permute" | "halo":
            return whole / min(rate for _, rate in axes)
        case "broadcast" | "reduce":
            return tree_rounds(math.prod(parts for parts, _ in axes)) * whole / min(rate for _, rate in axes)
        case "slice":
            return 0.0


def torus_messages(kind: Kind, parts: tuple[int, ...]) -> int:
    """Messages that follow one another: in each phase as many as along the longest axis."""
    if kind == "all_to_all":
        return sum(size // 2 for size in parts)
    if kind in ("shift", "permute", "halo", "slice"):
        return int(kind != "slice")
    if kind in ("broadcast", "reduce"):
        return tree_rounds(math.prod(parts))
    phases = len(parts) * (max(parts) - 1)
    return 2 * phases if kind == "all_reduce" else phases


def _gathered(axes: TorusAxes, whole: float) -> float:
    """An all-gather; a reduce-scatter is the same backwards. The slowest part of each phase counts."""
    count = len(axes)
    held = [whole / count / math.prod(parts for parts, _ in axes)] * count
    seconds = 0.0
    for phase in range(count):
        slowest = 0.0
        for part in range(count):
            parts, rate = axes[(part + phase) % count]
            slowest = max(slowest, held[part] * (parts - 1) / (2 * rate))
            held[part] *= parts
        seconds += slowest
    return seconds


def _mean_distance(parts: int) -> float:
    """Links between two PEs of a ring that is used both ways, on average over all PEs, the PE itself too."""
    return sum(min(away, parts - away) for away in range(parts)) / parts
