"""Devices of a plan on the axes of a cluster: which links each way to divide them uses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from einmap.distribute.costs.cluster import Cluster, Link
from einmap.distribute.placements.mesh import AxisName, Mesh
from einmap.distribute.plans.collectives import Kind, sent
from einmap.distribute.training.plan import DIMS, Dim, TrainingPlan
from einmap.errors import SpecError
from einmap.units import counted
from einmap.visible import brief


@dataclass(frozen=True)
class Machine:
    """A cluster whose axes are parts of the ways to divide devices. `axes`: those of each way, slowest first."""

    __repr__ = brief

    cluster: Cluster
    mesh: Mesh
    axes: Mapping[Dim, tuple[AxisName, ...]]

    def over(self, dims: Sequence[Dim]) -> tuple[AxisName, ...]:
        """The axes of some ways, in the order of the mesh."""
        wanted = {axis for dim in dims for axis in self.axes[dim]}
        return tuple(axis for axis in self.mesh.names if axis in wanted)

    def parts(self, dims: Sequence[Dim]) -> int:
        """Devices of a group over some ways."""
        return self.mesh.parts(self.over(dims))

    def seconds(self, kind: Kind, dims: Sequence[Dim], whole: float) -> float:
        """Time of a collective over some ways; `whole`: bytes of the larger of a device's operand and result."""
        axes = self.over(dims)
        if not axes or not whole:
            return 0.0
        parts = self.mesh.parts(axes)
        small = whole / parts
        operand = small if kind == "all_gather" else whole
        return self.cluster.seconds(kind, self.mesh, axes, operand, small if kind == "reduce_scatter" else whole)

    def sent(self, kind: Kind, dims: Sequence[Dim], whole: float) -> float:
        """Bytes that one device sends in a collective over some ways."""
        return float(sent(kind, self.parts(dims), 1, 1)) * whole

    def inner(self) -> Mesh:
        """The mesh of one stage of one replica: tensor, context and expert parallel; one device has an axis of 1."""
        names = self.over(("tp", "cp", "ep"))
        axes = tuple((name, size) for name, size in self.mesh.axes if name in names)
        return Mesh(axes or (("tp", 1),))

    def dim_of(self, axis: AxisName) -> Dim:
        """The way that an axis is a part of."""
        return next((dim for dim in DIMS if axis in self.axes[dim]), "tp")


@lru_cache(maxsize=1000)
def machine_of(cluster: Cluster, sizes: tuple[int, ...], laid: tuple[tuple[AxisName, int], ...] = ()) -> Machine:
    """Devices on the cluster, `sizes` in the order of `DIMS`, those of `tp` next to one another.

    `laid`: devices along each axis of the cluster; without, each axis is filled up to its size, and the last one takes
    the rest. Axes with the fastest links have the nearest devices. Raises SpecError where ways do not divide the axes.
    """
    devices = math.prod(sizes)
    bandwidth = {axis: link.bandwidth for axis, link in cluster.links}
    rooms = dict(sorted(laid or _filled(cluster, devices), key=lambda pair: -bandwidth[pair[0]]))
    if math.prod(rooms.values()) != devices:
        shape = " x ".join(map(str, rooms.values()))
        raise SpecError(f"the plan is for {counted(devices, 'device')}, the mesh has {shape}")
    links, whole = dict(cluster.links), dict(rooms)
    made: list[tuple[AxisName, int, Link]] = []
    axes: dict[Dim, tuple[AxisName, ...]] = {}
    for dim, size in zip(DIMS, sizes, strict=True):
        pieces: list[tuple[AxisName, int, Link]] = []
        left = size
        for axis, room in rooms.items():
            part = math.gcd(left, room)
            if part > 1:
                left, rooms[axis] = left // part, room // part
                sharing = math.prod(whole.get(other, 1) for other in links[axis].shared_by)
                link = replace(links[axis], bandwidth=links[axis].bandwidth / sharing, size=None, shared_by=())
                pieces.append((f"{dim}_{axis}", part, link))
        if left > 1:
            shape = " x ".join(map(str, whole.values()))
            raise SpecError(f"{dim} {size} does not divide what is left of a mesh of {shape}")
        axes[dim] = tuple(name for name, _, _ in reversed(pieces))
        made += pieces
    made.reverse()
    mesh = Mesh(tuple((name, size) for name, size, _ in made) or (("one", 1),))
    return Machine(Cluster(cluster.pe, tuple((name, link) for name, _, link in made)), mesh, axes)


def _filled(cluster: Cluster, devices: int) -> tuple[tuple[AxisName, int], ...]:
    """Devices along each axis, the fastest links first."""
    ordered = sorted(cluster.links, key=lambda pair: -pair[1].bandwidth)
    rooms: list[tuple[AxisName, int]] = []
    for position, (axis, link) in enumerate(ordered):
        is_last = position == len(ordered) - 1
        most = devices if link.size is None and (is_last or len(ordered) == 1) else link.size or 1
        size = most if is_last and link.size is None else math.gcd(devices, most) if devices >= most else devices
        rooms.append((axis, size))
        devices //= size
    if devices > 1:
        raise SpecError(f"the cluster has not so many devices: {devices:,} times as many are planned for")
    return tuple(rooms)


def machine_for(cluster: Cluster, plan: TrainingPlan, laid: Mesh | None = None) -> Machine:
    """The devices of a plan on a cluster. Raises SpecError where they do not fit."""
    if laid is not None:
        cluster.check(laid)
    sizes = tuple(plan.size(dim) for dim in DIMS)
    return machine_of(cluster, sizes, () if laid is None else laid.axes)
