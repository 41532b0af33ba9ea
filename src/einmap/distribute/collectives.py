"""What moves between PEs: the kinds of collectives, what each sends, and what a plan sends in all."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, assert_never

from einmap.distribute.mesh import AxisName, Groups
from einmap.visible import brief

type Kind = Literal["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "shift", "slice"]

KINDS: tuple[Kind, ...] = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "shift", "slice")


@dataclass(frozen=True, slots=True)
class Traffic:
    """All executions of one collective of a plan.

    `groups`: of PEs that talk to one another, in ring order; `count`: executions (those of loops multiplied out);
    `operand_bytes`, `result_bytes`: what one PE puts in and gets out, once, padding included;
    `sent_bytes`: what one PE sends in one execution by the best ring.
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

    @property
    def total_sent_bytes(self) -> float:
        """What one PE sends in all executions."""
        return self.count * self.sent_bytes


def sent(kind: Kind, parts: int, operand: int, result: int) -> Fraction:
    """Values that each of `parts` PEs sends, from the values of its operand and of its result.

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
        case "shift":
            return Fraction(operand if parts > 1 else 0)
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
        case "shift":
            return 1 if parts > 1 else 0
        case "slice":
            return 0
        case _:
            assert_never(kind)
