"""A run in time, as values: when Einsums run, what components do and wait for, and how full memories are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from einmap.execute.results.result import CountKey, Tile
from einmap.schedule.routes import Instance


@dataclass(frozen=True, slots=True)
class Slice:
    """An Einsum runs, some visits of its innermost loops, from `begin` to `end` (fs). `stage`: of a Pipeline or ""."""

    begin: int
    end: int
    einsum: str
    visits: int
    stage: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """A component's actions for one tensor (None: operations) in one slice of its Einsum, at its busiest instance.

    `count`: actions of that instance, `total`: of all. `tile`: empty where several visits are joined. `pieces`: from
    when to when (fs); several where another Einsum runs in between. `stage`: of a Pipeline, if any.
    """

    key: CountKey
    count: float
    total: float
    tile: Tile
    pieces: tuple[tuple[int, int], ...]
    stage: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """A component does nothing from `begin` to `end` (fs) while `einsum` runs, in a Pipeline the slowest one.

    `limited_by`: who works meanwhile and sets the time; None where the Einsum does not use the component.
    """

    begin: int
    end: int
    component: str
    einsum: str
    limited_by: str | None


@dataclass(frozen=True, slots=True)
class Level:
    """From `begin` (fs) on the fullest instance of a memory holds `bits`, the most until its next level."""

    begin: int
    memory: str
    bits: float


@dataclass(frozen=True)
class Timing:
    """A run in time. `end`: fs of the whole; `visits`: of one recorded span at most; `instance`: the busiest ones."""

    end: int
    visits: int
    slices: tuple[Slice, ...]
    works: tuple[Work, ...]
    waits: tuple[Wait, ...]
    levels: tuple[Level, ...]
    instances: Mapping[tuple[str, str], Instance]
