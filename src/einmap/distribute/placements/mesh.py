"""A mesh of processing elements (PEs) with named axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product

from einmap.errors import EinmapError, SpecError, attempt, did_you_mean, raise_all
from einmap.visible import brief, short

type AxisName = str
type Group = tuple[int, ...]

MAX_DEVICES = 4096
"""Largest mesh: what is derived and printed grows with it."""


@dataclass(frozen=True)
class Groups:
    """Groups of PEs, described by steps: `inside` leads from the first PE of a group, PE 0 of the first group, to its
    other PEs in ring order, `between` from the first PE of the first group to those of the others.

    Each is a tuple of (count, stride), slowest first: the PEs 0, 1, 4, 5 are ((2, 4), (2, 1)). Both are written as
    shortly as they can be, so that equal groups are equal.
    """

    inside: tuple[tuple[int, int], ...]
    between: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, inside: Iterable[tuple[int, int]], between: Iterable[tuple[int, int]]) -> Groups:
        """Groups from counts and strides, which may have steps that continue one another."""
        return cls(_joined(inside), _joined(between))

    @property
    def count(self) -> int:
        """How many groups there are."""
        return math.prod(count for count, _ in self.between)

    @property
    def size(self) -> int:
        """PEs of one group."""
        return math.prod(count for count, _ in self.inside)

    @cached_property
    def first(self) -> Group:
        """The PEs of the group that PE 0 is in."""
        return _reached(self.inside)

    @cached_property
    def listed(self) -> tuple[Group, ...]:
        """All PEs of all groups. They are as many as the mesh has: what only says or counts needs no list."""
        return tuple(tuple(start + offset for offset in self.first) for start in _reached(self.between))

    def __str__(self) -> str:
        """`2 of 3`: groups, and PEs of each."""
        return f"{self.count} of {self.size}"


def _joined(steps: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Steps without those of one PE; (2, 4), (4, 1) as (8, 1)."""
    joined: list[tuple[int, int]] = []
    for count, stride in steps:
        if count == 1:
            continue
        if joined and joined[-1][1] == count * stride:
            joined[-1] = joined[-1][0] * count, stride
        else:
            joined.append((count, stride))
    return tuple(joined)


def _reached(steps: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    ranges = [range(0, count * stride, stride) for count, stride in steps]
    return tuple(sum(offsets) for offsets in product(*ranges))


def check_axis(name: object, size: object) -> None:
    """Raise SpecError (several problems together) for a name that is not an identifier, or a number of PEs that is not
    an integer from 1 to MAX_DEVICES.
    """
    problems: list[EinmapError] = []
    if not isinstance(name, str) or not name.isidentifier():
        text = f"{short(name)} is not a name of a mesh axis"
        problems.append(SpecError(text, hint="use letters and digits, such as x"))
    if type(size) is not int or size < 1:
        text = f"mesh axis {short(name)} has size {short(size)}; expected a positive integer"
        problems.append(SpecError(text, hint="an axis has 1 PE or more, such as 8"))
    elif size > MAX_DEVICES:
        text = f"mesh axis {short(name)} has {short(size)} PEs; at most {MAX_DEVICES:,} are supported"
        problems.append(SpecError(text, hint="plan one such part of the machine"))
    raise_all(problems)


@dataclass(frozen=True)
class Mesh:
    """PEs are numbered row-major over the axes: the last axis is the fastest.

    Raises SpecError (several problems together) for no axis, a name that is not an identifier or given twice, a size
    that is not an integer > 0, and more than MAX_DEVICES PEs.
    """

    __repr__ = brief

    axes: tuple[tuple[AxisName, int], ...]

    def __post_init__(self) -> None:
        if not self.axes:
            raise SpecError("a mesh has at least one axis", hint="write for example mesh: {x: 4}")
        names = [name for name, _ in self.axes]
        problems: list[EinmapError] = []
        for name, size in self.axes:
            attempt(problems, partial(check_axis, name, size))
            if names.count(name) > 1:
                problems.append(SpecError(f"the mesh has two axes {name!r}", hint="rename one of them"))
        raise_all(problems)
        if self.n_devices > MAX_DEVICES:
            raise SpecError(f"the mesh {self} has {self.n_devices:,} PEs; at most {MAX_DEVICES:,} are supported")

    @cached_property
    def n_devices(self) -> int:
        """How many PEs there are."""
        return math.prod(size for _, size in self.axes)

    @cached_property
    def names(self) -> tuple[AxisName, ...]:
        """The axes in order, slowest first."""
        return tuple(name for name, _ in self.axes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return tuple(size for _, size in self.axes)

    def size(self, axis: AxisName) -> int:
        """PEs along one axis. Raises SpecError for an unknown axis, with the closest name."""
        for name, size in self.axes:
            if name == axis:
                return size
        hint = did_you_mean(str(axis), self.names, listing="axes")
        raise SpecError(f"the mesh has no axis {axis!r}", hint=hint)

    def parts(self, axes: Iterable[AxisName]) -> int:
        """PEs of one group over several axes."""
        axes = tuple(axes)
        if axes not in self._parts:
            self._parts[axes] = math.prod(self.size(axis) for axis in axes)
        return self._parts[axes]

    @cached_property
    def _parts(self) -> dict[tuple[AxisName, ...], int]:
        return {}

    def coordinates(self, device: int) -> dict[AxisName, int]:
        """Where a PE is on each axis."""
        place: dict[AxisName, int] = {}
        for name, size in reversed(self.axes):
            device, place[name] = divmod(device, size)
        return place

    def position(self, device: int, axes: Sequence[AxisName]) -> int:
        """The place of a PE in its group over `axes`, which are given slowest first (in any order of the mesh)."""
        coordinates = self.coordinates(device)
        place = 0
        for axis in axes:
            place = place * self.size(axis) + coordinates[axis]
        return place

    def groups(self, axes: Sequence[AxisName]) -> Groups:
        """The PEs that differ in nothing but `axes`; those of a group in the order of `position`.

        mesh x=2, y=2: groups(("x",)).listed = ((0, 2), (1, 3)), groups(("x", "y")).listed = ((0, 1, 2, 3),)
        """
        steps = {
            name: (size, math.prod(size for _, size in self.axes[index + 1 :]))
            for index, (name, size) in enumerate(self.axes)
        }
        inside = [(self.size(name), steps[name][1]) for name in axes]
        return Groups.of(inside, [steps[name] for name in self.names if name not in axes])

    def __str__(self) -> str:
        return ", ".join(f"{name}={size}" for name, size in self.axes)
