"""A cluster: what a PE computes and holds, and the links along each axis of a mesh."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from einmap.distribute.costs.magnitudes import check_not_negative, check_positive, check_rate
from einmap.distribute.hops.routes import Routes
from einmap.distribute.placements.mesh import AxisName, Mesh
from einmap.distribute.plans.collectives import (
    SINGLE,
    TOPOLOGIES,
    Kind,
    Stage,
    Topology,
    all_at_once,
    busiest,
    messages,
    one_after_another,
    passed_on,
)
from einmap.einsum.einsum import Einsum
from einmap.errors import EinmapError, SpecError, did_you_mean, raise_all
from einmap.progress import Progress
from einmap.visible import brief

type ArchGoal = Literal["latency", "energy"]
"""The objective of a mapping on the architecture of a PE."""
MESSAGES, OPERATIONS, TRAFFIC = ("messages", "bytes"), ("Einsums", "operations"), ("Einsums", "bytes")
"""Whose sizes a table of efficiencies has, and their unit."""


@dataclass(frozen=True)
class Link:
    """The links along one axis of the mesh.

    `bandwidth`: bytes/s that one PE sends, in a torus each way; `latency`: s of one message; `efficiency`: which part
    of the bandwidth is reached by the bytes that a PE sends, ascending; `energy_per_bit`: J for each bit that a PE
    sends; `size`: PEs along the axis at most; `shared_by`: axes whose PEs share one such link, as those of a node
    share its network card; `groups`: `efficiency` among so many PEs, ascending, where it differs, as a PE that sends to
    all others at once has a message for each. Raises SpecError for rates that are not positive and finite, negative
    latencies and energies, an axis that is named twice, groups that do not rise from 2 on, and what `check_efficiency`
    refuses.
    """

    __repr__ = brief

    bandwidth: float
    latency: float = 0.0
    topology: Topology = "ring"
    efficiency: tuple[tuple[float, float], ...] = ()
    energy_per_bit: float = 0.0
    size: int | None = None
    shared_by: tuple[AxisName, ...] = ()
    groups: tuple[tuple[int, tuple[tuple[float, float], ...]], ...] = ()

    def __post_init__(self) -> None:
        check_rate("bandwidth", self.bandwidth, "bytes/s")
        check_not_negative("latency", self.latency, "s")
        check_not_negative("energy_per_bit", self.energy_per_bit, "J")
        if self.topology not in TOPOLOGIES:
            hint = did_you_mean(str(self.topology), TOPOLOGIES, listing="topologies")
            raise SpecError(f"no topology {self.topology!r}", hint=hint)
        if self.size is not None and (type(self.size) is not int or self.size < 1):
            raise SpecError(f"{self.size!r} PEs lie along an axis at most; expected a whole number from 1 on")
        check_efficiency(self.efficiency, *MESSAGES)
        before = 1
        for parts, table in self.groups:
            if type(parts) is not int or parts <= before:
                raise SpecError(f"a group has more PEs than the one before and at least 2, found {parts!r}")
            check_efficiency(table, *MESSAGES)
            before = parts
        for axis in self.shared_by:
            if self.shared_by.count(axis) > 1:
                raise SpecError(f"links are shared by axis {axis!r} twice", hint="name it once")

    def seconds(self, kind: Kind, parts: int, operand: float, result: float) -> float:
        """Time of one collective among `parts` PEs along the axis, bytes of one PE's operand and result given: of the
        busiest link (`collectives.busiest`), and of messages that follow one another (`collectives.messages`).
        """
        return self.seconds_of(kind, parts, _whole(kind, operand, result))

    def seconds_of(self, kind: Kind, parts: int, whole: float) -> float:
        """As `seconds`, of the larger of a PE's operand and result."""
        carried = float(busiest(kind, parts, self.topology)) * whole
        if carried == 0:
            return 0.0
        taken = carried / self.bandwidth
        table = dict(self.groups).get(parts, self.efficiency) if self.groups else self.efficiency
        if table:
            passed = float(passed_on(kind, parts, self.topology)) * whole
            taken *= _effective(table, passed) / passed
        return taken + messages(kind, parts, self.topology) * self.latency

    def effective(self, volume: float) -> float:
        """Bytes that take as long at the full bandwidth as `volume` bytes at what is reached.

        Between two sizes of `efficiency` time grows linearly, which is exact for a latency and a bandwidth; below the
        first and above the last their parts hold.
        """
        return _effective(self.efficiency, volume)


class PeArch(Protocol):
    """An architecture whose mapper says what Einsums cost on one PE.

    `extents`: of the rank variables of an Einsum on the PE, in its order.
    """

    def __hash__(self) -> int: ...

    @property
    def proven(self) -> bool:
        """Whether all costs so far are proven to be those of the best mappings."""

    def like(self, einsum: Einsum) -> Einsum:
        """The first Einsum that was asked for and costs the same but for names."""

    def least(self, einsum: Einsum, extents: tuple[int, ...], goal: ArchGoal) -> float:
        """A lower bound of the cost, found quickly: s or J."""

    def known(self, einsum: Einsum, extents: tuple[int, ...], goal: ArchGoal) -> float | None:
        """The cost in s or J, if the mapper has been asked for it or for that of an Einsum that is like it."""

    def cost(self, einsum: Einsum, extents: tuple[int, ...], goal: ArchGoal, progress: Progress | None = None) -> float:
        """Cost of the best mapping: s or J; inf where there is none. `progress` may end its search early."""

    def why_not(self, einsum: Einsum, extents: tuple[int, ...]) -> EinmapError | None:
        """Why there is no mapping; None where there is one."""


@dataclass(frozen=True)
class Kernel:
    """Parts of the rates of a PE that one kind of kernel reaches. `launch`: s beside its work; `efficiency`: of the
    peak, by the operations of a kernel; `memory_efficiency`: of the bandwidth, by the bytes of one; ascending. Raises
    SpecError for a negative launch and what `check_efficiency` refuses.
    """

    __repr__ = brief

    launch: float = 0.0
    efficiency: tuple[tuple[float, float], ...] = ()
    memory_efficiency: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        check_not_negative("launch", self.launch, "s")
        check_efficiency(self.efficiency, *OPERATIONS)
        check_efficiency(self.memory_efficiency, *TRAFFIC)


@dataclass(frozen=True)
class ProcessingElement:
    """One PE. `peak`: operations/s by bits of the values, ascending; `memory`: bytes, inf: enough for everything;
    `memory_bandwidth`: bytes/s, inf: never waited for; `cache_bandwidth`: the same of its last cache, for what a kernel
    reads once more; `energy_per_operation`, `energy_per_bit` of its memory: J.

    `launch`: s that each Einsum takes beside its work, as a GPU does to start and drain a kernel; `dispatch`: s that it
    takes at least, as a host does that launches kernels one by one; `exposed`: which part of the shorter one of
    computing and moving the longer one does not hide, 0 to 1; `pipeline`: bytes of a row that products sum up to which
    they compute nothing while they move; `efficiency`, `memory_efficiency`: which part of the peak
    and of the bandwidth is reached, by the operations and by the bytes of an Einsum, ascending. `kernels`: these two
    and `launch` of some kinds of kernels: of Einsums on values of at most so many bits, ascending; `attention`: of
    attention that keeps its scores on the chip (`operators.Attention`). `arch`: an architecture whose mapper costs
    Einsums in the place of all of these but `memory`.

    Raises SpecError for rates that are not positive, negative energies and times, what `check_efficiency` refuses, and
    for both a peak and an architecture, or none of them.
    """

    __repr__ = brief

    peak: tuple[tuple[int, float], ...] = ()
    memory: float = math.inf
    memory_bandwidth: float = math.inf
    energy_per_operation: float = 0.0
    energy_per_bit: float = 0.0
    arch: PeArch | None = None
    launch: float = 0.0
    dispatch: float = 0.0
    efficiency: tuple[tuple[float, float], ...] = ()
    memory_efficiency: tuple[tuple[float, float], ...] = ()
    exposed: float = 0.0
    kernels: tuple[tuple[int, Kernel], ...] = ()
    attention: Kernel | None = None
    cache_bandwidth: float = math.inf
    pipeline: float = 0.0

    def __post_init__(self) -> None:
        if not self.peak and self.arch is None:
            raise SpecError("a PE has a peak for at least one data type", hint="write for example peak: {bf16: 300e12}")
        if self.arch is not None and (self.peak, self.memory_bandwidth) != ((), math.inf):
            raise SpecError("a PE has either an architecture, or a peak and a bandwidth of its memory")
        for bits, rate in self.peak:
            check_rate(f"peak for {bits} bits", rate, "operations/s")
        check_positive("memory", self.memory, "bytes")
        for name in ("memory_bandwidth", "cache_bandwidth"):
            check_positive(name, getattr(self, name), "bytes/s")
        units = {
            "energy_per_operation": "J",
            "energy_per_bit": "J",
            "launch": "s",
            "dispatch": "s",
            "pipeline": "bytes",
        }
        for name, unit in units.items():
            check_not_negative(name, getattr(self, name), unit)
        if not 0 <= self.exposed <= 1:
            raise SpecError(f"exposed is {self.exposed:g}; expected a part, from 0 to 1")
        check_efficiency(self.efficiency, *OPERATIONS)
        check_efficiency(self.memory_efficiency, *TRAFFIC)

    def peak_for(self, bits: float) -> float:
        """Operations/s on values of so many bits: those of the narrowest type that holds them, or of the widest."""
        return next((rate for width, rate in self.peak if width >= bits), self.peak[-1][1])

    def seconds(
        self,
        operations: float,
        moved_bytes: float,
        bits: float,
        kernel: Kernel | None = None,
        *,
        again: float = 0.0,
        row: float = 0.0,
    ) -> float:
        """Time of an Einsum: of computing, and of reading operands and writing results once, the longer, and what it
        does not hide of the other; `launch`; at least `dispatch`. `kernel`: its kind, None: that of its bits; `again`:
        bytes that it reads once more, from the cache; `row`: bytes that it sums for one result, 0: no product.
        """
        reached = kernel or self._kernel(bits)
        computing = _effective(reached.efficiency, operations) / self.peak_for(bits)
        moving = _effective(reached.memory_efficiency, moved_bytes) / self.memory_bandwidth
        if again:
            moving += again / self.cache_bandwidth
        exposed = 1.0 if 0 < row <= self.pipeline else self.exposed
        taken = max(computing, moving) + (exposed * min(computing, moving) if exposed else 0.0)
        return max(taken + reached.launch, self.dispatch)

    def streamed(self, bits: float) -> float:
        """Bytes/s of kernels on values of so many bits that read and write more than any that `memory_efficiency`
        lists.
        """
        table = self._kernel(bits).memory_efficiency
        return self.memory_bandwidth * (table[-1][1] if table else 1.0)

    def _kernel(self, bits: float) -> Kernel | ProcessingElement:
        return next((one for width, one in self.kernels if width >= bits), self)


@dataclass(frozen=True)
class Cluster:
    """A PE, and links for the axes of a mesh.

    A collective over several axes goes along one after another in the best order (`collectives.orders`), along those of
    a torus at once where that is faster; each takes the time and energy of its own links. Raises SpecError for links
    that are shared along an axis without links.
    """

    __repr__ = brief

    pe: ProcessingElement
    links: tuple[tuple[AxisName, Link], ...]

    def __post_init__(self) -> None:
        names = [name for name, _ in self.links]
        for name, link in self.links:
            for axis in link.shared_by:
                if axis not in names or axis == name:
                    hint = did_you_mean(axis, [one for one in names if one != name], listing="other axes")
                    raise SpecError(
                        f"links along {name!r} are shared by {axis!r}, which is not another axis", hint=hint
                    )

    def link(self, axes: tuple[AxisName, ...]) -> Link:
        """The slowest link of these axes: least bandwidth, then greatest latency."""
        by_name = dict(self.links)
        return min((by_name[axis] for axis in axes), key=lambda link: (link.bandwidth, -link.latency))

    def has_energies(self, mesh: Mesh) -> bool:
        """Whether anything on the mesh takes energy."""
        links = (link.energy_per_bit for axis, link in self.links if axis in mesh.names)
        pe = self.pe
        return pe.arch is not None or any(joules > 0 for joules in (*links, pe.energy_per_operation, pe.energy_per_bit))

    def check(self, mesh: Mesh) -> None:
        """Raise SpecError (several problems together) where an axis of the mesh has no links, or fewer PEs along it."""
        names = [name for name, _ in self.links]
        problems: list[EinmapError] = []
        for axis, size in mesh.axes:
            if axis not in names:
                hint = did_you_mean(axis, names, listing="axes of the cluster")
                problems.append(SpecError(f"the cluster has no links along mesh axis {axis!r}", hint=hint))
                continue
            most = dict(self.links)[axis].size
            if most is not None and size > most:
                text = f"the mesh has {size:,} PEs along axis {axis!r}, the cluster at most {most:,}"
                problems.append(SpecError(text, hint=f"lay at most {most:,} PEs along {axis}"))
        raise_all(problems)

    def seconds(self, kind: Kind, mesh: Mesh, axes: tuple[AxisName, ...], operand: float, result: float) -> float:
        """Time of one collective, bytes of one PE's operand and result given. Of messages between single PEs that have
        no `Routes` each takes one link along every axis.
        """
        units = [((self._divided(mesh, axis), mesh.size(axis)),) for axis in axes if mesh.size(axis) > 1]
        whole = _whole(kind, operand, result)
        if not units:
            return 0.0
        if len(units) == 1:
            ((link, parts),) = units[0]
            return link.seconds_of(kind, parts, whole)
        if kind in ("shift", "permute", "halo"):
            links = [link for ((link, _),) in units]
            sending = max((link.effective(whole) / link.bandwidth for link in links), default=0.0)
            return sending + sum(link.latency for link in links)
        taken = _staged(kind, units, whole)
        tori = [unit for unit in units if unit[0][0].topology == "torus"]
        if len(tori) > 1 and kind not in SINGLE:
            merged = tuple(one for unit in tori for one in unit)
            others = [unit for unit in units if unit[0][0].topology != "torus"]
            taken = min(taken, _staged(kind, [*others, merged], whole))
        return taken

    def routed_seconds(self, mesh: Mesh, axes: tuple[AxisName, ...], routes: Routes, whole: float) -> float:
        """Time of messages between single PEs of groups over these axes, `whole` bytes each: round by round that of the
        busiest link, and the latencies of the axes that a message takes.
        """
        links = dict(self.links)
        taken = 0.0
        sending = [0.0] * len(routes.rounds)
        for number, axis in enumerate(axes):
            link = links[axis]
            shared = tuple(place for place, other in enumerate(axes) if other in link.shared_by)
            groups = mesh.parts([one for one in link.shared_by if one in mesh.names and one not in axes])
            for place, load in enumerate(routes.loads(number, link.topology, shared)):
                slowed = link.effective(load.busiest * whole) * groups / link.bandwidth
                sending[place] = max(sending[place], slowed)
        for seconds, sets in zip(sending, routes.crossed, strict=True):
            waits = [sum(links[axes[number]].latency for number in some) for some in sets]
            taken += seconds + max(waits, default=0.0)
        return taken

    def energy(self, kind: Kind, mesh: Mesh, axes: tuple[AxisName, ...], whole: float) -> float:
        """J of one collective in all groups; `whole`: bits of the larger of a PE's operand and result, padding left
        out. Bits along each axis take the energy of its links, those that a PE passes on for others too.
        """
        links = [(dict(self.links)[axis], mesh.size(axis)) for axis in axes if mesh.size(axis) > 1]

        def joules(stage: Stage) -> float:
            link, parts = links[stage.axis]
            return float(passed_on(stage.kind, parts, link.topology)) * stage.share * link.energy_per_bit

        each = one_after_another(kind, tuple(parts for _, parts in links), joules) if links else 0.0
        return each * whole * mesh.n_devices

    def routed_energy(self, mesh: Mesh, axes: tuple[AxisName, ...], routes: Routes, whole: float) -> float:
        """J of messages between single PEs in all groups over these axes; `whole`: bits of one."""
        links = dict(self.links)
        joules = sum(
            load.passed * links[axis].energy_per_bit
            for number, axis in enumerate(axes)
            for load in routes.loads(number, links[axis].topology)
        )
        return joules * whole * mesh.n_devices / mesh.parts(axes)

    def _divided(self, mesh: Mesh, axis: AxisName) -> Link:
        """A link with the bandwidth that is left to one PE where all PEs that share it send along it at once."""
        link = dict(self.links)[axis]
        sharing = [one for one in link.shared_by if one in mesh.names]
        return replace(link, bandwidth=link.bandwidth / mesh.parts(sharing)) if sharing else link


type _Unit = tuple[tuple[Link, int], ...]
"""Links and PEs of an axis, or of several of a torus that are used at once."""


def _staged(kind: Kind, units: Sequence[_Unit], whole: float) -> float:
    """Seconds of a collective that goes along one unit after another, in the best order."""

    def seconds(stage: Stage) -> float:
        unit, share = units[stage.axis], stage.share * whole
        if len(unit) == 1:
            return unit[0][0].seconds_of(stage.kind, unit[0][1], share)

        def along(inner: Stage) -> float:
            link, parts = unit[inner.axis]
            return link.seconds_of(inner.kind, parts, inner.share * share)

        return all_at_once(stage.kind, tuple(parts for _, parts in unit), along)

    return one_after_another(kind, tuple(math.prod(parts for _, parts in unit) for unit in units), seconds)


def _whole(kind: Kind, operand: float, result: float) -> float:
    """The larger of a PE's operand and result."""
    return result if kind == "all_gather" else operand


def _effective(efficiency: Sequence[tuple[float, float]], volume: float) -> float:
    """The volume that takes as long at the full rate as `volume` does at what is reached (`Link.effective`)."""
    before: tuple[float, float] | None = None
    for size, part in efficiency:
        taken = size / part
        if volume <= size:
            if before is None:
                return volume / part
            return before[1] + (taken - before[1]) * (volume - before[0]) / (size - before[0])
        before = size, taken
    return volume / efficiency[-1][1] if efficiency else volume


def default_cluster(mesh: Mesh) -> Cluster:
    """The cluster where none is given: links of 100 GB/s and 1 us, PEs of 100 Tera-operations/s."""
    return flat_cluster(mesh, 100e9, 1e-6, 100e12)


def flat_cluster(mesh: Mesh, bandwidth: float, latency: float, throughput: float) -> Cluster:
    """Equal links along all axes: bytes/s, s; a PE with one peak for all types, operations/s."""
    link = Link(bandwidth, latency)
    return Cluster(ProcessingElement(((64, throughput),)), tuple((name, link) for name in mesh.names))


def check_efficiency(table: Sequence[tuple[float, float]], what: str, unit: str) -> None:
    """Raise SpecError unless sizes and the time that they take both rise along a table of sizes and the part of the
    rate, above 0 and at most 1, that is reached. `what` has these sizes, in `unit`.
    """
    before: tuple[float, float] | None = None
    for size, part in table:
        check_not_negative(f"size of {what}", size, unit)
        if not 0 < part <= 1:
            raise SpecError(f"efficiency {part!r} of {what} of {size:g} {unit} is not above 0 and at most 1")
        if before is not None and size <= before[0]:
            raise SpecError(
                f"sizes of {what} must rise: {size:g} {unit} come after {before[0]:g}",
                hint="write each size once, the smallest first",
            )
        if before is not None and size / part < before[0] / before[1]:
            raise SpecError(
                f"{what} of {size:g} {unit} would take less time than those of {before[0]:g}: an efficiency of "
                f"{part:g} after {before[1]:g}",
                hint="what is larger takes at least as long as what is smaller",
            )
        before = size, part
