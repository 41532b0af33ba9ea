"""Devices of a plan on the axes of a cluster: which links each way to divide them uses."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

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

    @cached_property
    def inner(self) -> Mesh:
        """The mesh of one stage of one replica: tensor, context and expert parallel; one device has an axis of 1."""
        names = self.over(("tp", "cp", "ep"))
        axes = tuple((name, size) for name, size in self.mesh.axes if name in names)
        return Mesh(axes or (("tp", 1),))

    def dim_of(self, axis: AxisName) -> Dim:
        """The way that an axis is a part of."""
        return next((dim for dim in DIMS if axis in self.axes[dim]), "tp")


type Rooms = tuple[tuple[AxisName, int], ...]
"""Devices along each axis of a cluster."""


@lru_cache(maxsize=1000)
def machine_of(cluster: Cluster, sizes: tuple[int, ...], laid: Rooms = (), box: Rooms = ()) -> Machine:
    """Devices on the cluster, `sizes` in the order of `DIMS`, those of `tp` next to one another.

    `laid`: devices along each axis of the cluster; without, each axis is filled up to its size, and the last one takes
    the rest. Axes with the fastest links have the nearest devices. `box`: devices along each axis of one stage whose
    sub-mesh has another size than others; stages lie along what the mesh has beyond it.

    Raises SpecError where ways do not divide the axes.
    """
    devices = math.prod(sizes)
    rooms = _ordered(cluster, laid or _filled(cluster, devices))
    links, whole = dict(cluster.links), dict(rooms)
    if box:
        rooms = _ordered(cluster, box)
        sizes = (*sizes[:-1], 1)
        devices = math.prod(sizes)
    if math.prod(rooms.values()) != devices:
        shape = " x ".join(map(str, rooms.values()))
        raise SpecError(f"the plan is for {counted(devices, 'device')}, the mesh has {shape}")
    made: list[tuple[AxisName, int, Link]] = []
    axes: dict[Dim, tuple[AxisName, ...]] = {}
    for dim, size in zip(DIMS, sizes, strict=True):
        pieces: list[tuple[AxisName, int, Link]] = []
        left = size
        for axis, room in rooms.items():
            part = math.gcd(left, room)
            if part > 1:
                left, rooms[axis] = left // part, room // part
                pieces.append((f"{dim}_{axis}", part, _own(links[axis], whole)))
        if left > 1:
            shape = " x ".join(map(str, whole.values()))
            raise SpecError(f"{dim} {size} does not divide what is left of a mesh of {shape}")
        if dim == "pp":
            beyond = ((axis, -(-whole[axis] // size)) for axis, size in box)
            pieces += [(f"pp_{axis}", parts, _own(links[axis], whole)) for axis, parts in beyond if parts > 1]
        axes[dim] = tuple(name for name, _, _ in reversed(pieces))
        made += pieces
    made.reverse()
    mesh = Mesh(tuple((name, size) for name, size, _ in made) or (("one", 1),))
    return Machine(Cluster(cluster.pe, tuple((name, link) for name, _, link in made)), mesh, axes)


def _ordered(cluster: Cluster, rooms: Rooms) -> dict[AxisName, int]:
    """Devices along axes, those with the fastest links first."""
    bandwidth = {axis: link.bandwidth for axis, link in cluster.links}
    return dict(sorted(rooms, key=lambda pair: -bandwidth[pair[0]]))


def _own(link: Link, whole: Mapping[AxisName, int]) -> Link:
    """The part of a link that one device has, where those along other axes share it."""
    sharing = math.prod(whole.get(other, 1) for other in link.shared_by)
    return replace(link, bandwidth=link.bandwidth / sharing, size=None, shared_by=())


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
    rooms = () if laid is None else laid.axes
    sizes = tuple(plan.size(dim) for dim in DIMS)
    if plan.meshes is None:
        return machine_of(cluster, sizes, rooms)
    rooms = rooms or _filled(cluster, plan.devices)
    ordered, own = _ordered(cluster, rooms), math.prod(sizes[:-1])
    if plan.devices % own == 0:
        with contextlib.suppress(SpecError):
            return machine_of(cluster, (*sizes[:-1], plan.devices // own), rooms)
    box, left = [], own
    for axis, room in ordered.items():
        box.append((axis, min(left, room)))
        left //= box[-1][1]
    return machine_of(cluster, sizes, rooms, tuple(box))


def check_meshes(cluster: Cluster, plan: TrainingPlan, laid: Mesh | None = None) -> None:
    """Raise SpecError where sub-meshes of different sizes do not fill the mesh."""
    if plan.meshes is None:
        return
    ordered = _ordered(cluster, laid.axes if laid is not None else _filled(cluster, plan.devices))
    every = [dp * tp * plan.cp * plan.ep for dp, tp in plan.meshes]
    if math.prod(ordered.values()) != plan.devices or not fills(tuple(ordered.values()), every):
        shape, parts = " x ".join(map(str, ordered.values())), " + ".join(map(str, every))
        raise SpecError(
            f"stages on {parts} devices do not fill a mesh of {shape}",
            hint="a sub-mesh is a part of the nearest devices, or several whole groups of those",
        )


def fills(rooms: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether boxes of so many devices have room beside one another in a mesh with so many along each axis, the nearest
    ones first: the largest boxes are put first, each where it fits first.
    """
    room, *others = rooms
    if not others:
        return sum(sizes) <= room
    whole = [size for size in sizes if size >= room]
    left: list[int] = []
    for size in sorted((size for size in sizes if size < room), reverse=True):
        place = next((number for number, free in enumerate(left) if free >= size), None)
        if place is None:
            place = len(left)
            left.append(room)
        left[place] -= size
    return all(size % room == 0 for size in whole) and fills(others, [*(n // room for n in whole), *(1 for _ in left)])
