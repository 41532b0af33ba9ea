"""A mesh of processing elements (PEs) with named axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from einmap.errors import SpecError, did_you_mean
from einmap.visible import brief

type AxisName = str
type Group = tuple[int, ...]

MAX_DEVICES = 4096
"""Largest mesh: what is derived and printed grows with it."""


@dataclass(frozen=True)
class Mesh:
    """PEs are numbered row-major over the axes: the last axis is the fastest.

    Raises SpecError for no axis, a name that is not an identifier or given twice, a size that is not an integer > 0,
    and more than MAX_DEVICES PEs.
    """

    __repr__ = brief

    axes: tuple[tuple[AxisName, int], ...]

    def __post_init__(self) -> None:
        if not self.axes:
            raise SpecError("a mesh has at least one axis", hint="write for example axes: {x: 4}")
        names = [name for name, _ in self.axes]
        for name, size in self.axes:
            if not str(name).isidentifier():
                raise SpecError(f"{name!r} is not a name of a mesh axis", hint="use letters and digits, such as x")
            if names.count(name) > 1:
                raise SpecError(f"the mesh has two axes {name!r}", hint="rename one of them")
            if type(size) is not int or size < 1:
                raise SpecError(f"mesh axis {name!r} has size {size!r}; expected a positive integer")
        if self.n_devices > MAX_DEVICES:
            raise SpecError(f"the mesh has {self.n_devices:,} PEs; at most {MAX_DEVICES:,} are supported")

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
        return math.prod(self.size(axis) for axis in axes)

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

    def groups(self, axes: Sequence[AxisName]) -> tuple[Group, ...]:
        """The PEs that differ in nothing but `axes`; those of a group in the order of `position`.

        mesh x=2, y=2: groups(("x",)) = ((0, 2), (1, 3)), groups(("x", "y")) = ((0, 1, 2, 3),)
        """
        strides = {
            name: math.prod(size for _, size in self.axes[index + 1 :]) for index, (name, size) in enumerate(self.axes)
        }
        others = [name for name in self.names if name not in axes]

        def offsets(names: Sequence[AxisName]) -> list[int]:
            ranges = [range(0, self.size(name) * strides[name], strides[name]) for name in names]
            return [sum(steps) for steps in product(*ranges)]

        inside = offsets(axes)
        return tuple(tuple(first + offset for offset in inside) for first in offsets(others))

    def __str__(self) -> str:
        return ", ".join(f"{name}={size}" for name, size in self.axes)
