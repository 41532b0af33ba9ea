"""The key `cluster` of a specification as a cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from einmap.distribute.costs.cluster import (
    MESSAGES,
    OPERATIONS,
    TRAFFIC,
    Cluster,
    Kernel,
    Link,
    ProcessingElement,
    check_efficiency,
)
from einmap.distribute.costs.magnitudes import check_magnitude
from einmap.distribute.costs.mapped_pe import MappedPe
from einmap.distribute.costs.pe_spec import combined
from einmap.distribute.placements.mesh import check_axis
from einmap.distribute.plans.collectives import TOPOLOGIES
from einmap.errors import At, EinmapError, SpecError, attempt, did_you_mean, raise_all
from einmap.expressions.arithmetic import number
from einmap.expressions.scope import Scope
from einmap.spec.raw import Path, Raw, RawMap, Step, get_value, place, placed
from einmap.spec.schema.base import Input, sound_values
from einmap.spec.schema.cluster import ClusterInput, KernelInput, LinkInput, ProcessingElementInput
from einmap.spec.schema.documented import hint_of
from einmap.spec.spec import Spec
from einmap.units import DATA_TYPE_BITS
from einmap.visible import short

KEY = "cluster"
ATTENTION = "attention"
"""The kind of kernel that keeps the scores of attention on the chip."""
_COSTS = (
    "peak",
    "memory_bandwidth",
    "cache_bandwidth",
    "energy_per_operation",
    "energy_per_bit",
    "launch",
    "dispatch",
    "exposed",
    "pipeline",
    "efficiency",
    "memory_efficiency",
    "kernels",
)
"""Fields of a PE that its architecture takes the place of."""

type ArchReader = Callable[[str, At], Spec]
"""Reads the specification that a cluster names as the architecture of its PEs, from where it is named."""


def cluster_of(spec: Spec, read_arch: ArchReader | None = None) -> Cluster | None:
    """The cluster of a specification; None without the key. Raises SpecError: all problems of the key together.

    `read_arch`: needed where PEs have an architecture, which costs the Einsums of the workload of `spec`;
    `einmap.facade.cluster_in` gives it.
    """
    raw = spec.raw.get(KEY)
    if raw is None:
        return None
    problems: list[EinmapError] = []
    values = sound_values(ClusterInput, raw, spec.raw, (KEY,), problems)
    pe = None
    if "pe" in values:
        fields = _Fields(spec.raw, (KEY, "pe"), ProcessingElementInput, values["pe"], problems)
        has_arch = fields.values.get("arch") is not None
        pe = _mapped_pe(fields, spec, read_arch) if has_arch else _pe(fields)
    axes: Mapping[str, Any] = values.get("axes", {})
    if values.get("axes") == {}:
        at = place(spec.raw, (KEY, "axes"))
        problems.append(
            SpecError("a cluster has links along at least one axis", at=at, hint=_hint(ClusterInput, "axes"))
        )
    written = raw.get("axes") if isinstance(raw, RawMap) else None
    names = written.keys() if isinstance(written, RawMap) else ()
    links = tuple(
        (axis, _link(_Fields(spec.raw, (KEY, "axes", axis), LinkInput, fields, problems), axis, names))
        for axis, fields in axes.items()
    )
    raise_all(problems)
    assert pe is not None
    return Cluster(pe, tuple((axis, link) for axis, link in links if link is not None))


@dataclass(frozen=True, slots=True)
class _Fields:
    """The sound fields of one dictionary, which stands at `path` of `raw`; what is wrong with them is added to
    `problems`.
    """

    raw: Raw
    path: Path
    model: type[Input]
    values: Mapping[str, Any]
    problems: list[EinmapError]

    def rate(self, name: str, or_inf: bool = False) -> float | None:
        """A number above 0, finite unless `or_inf`; None where it is missing or wrong."""
        return self._read(name, partial(_above_0, or_inf=or_inf))

    def amount(self, name: str) -> float | None:
        """A finite number from 0 on; None where it is missing or wrong."""
        return self._read(name, _from_0)

    def share(self, name: str) -> float | None:
        """A number from 0 to 1; None where it is missing or wrong."""
        return self._read(name, _share)

    def count(self, name: str) -> int | None:
        """A whole number from 1 on; None where it is missing or wrong."""
        return self._read(name, _count)

    def written(self, name: str) -> Raw | None:
        """The raw value of a key, right or wrong; None where there is none."""
        whole = get_value(self.raw, self.path)
        return whole.get(name) if isinstance(whole, RawMap) else None

    def _read[T](self, name: str, check: Callable[[Raw, Path, object], T]) -> T | None:
        if self.values.get(name) is None:
            return None
        return self.attempt(partial(check, self.raw, (*self.path, name), self.values[name]), name)

    def attempt[T](self, step: Callable[[], T], name: str) -> T | None:
        """The result of `step`; None after adding its problem, with an example of the field as advice."""
        before = len(self.problems)
        value = attempt(self.problems, step)
        for problem in self.problems[before:]:
            problem.hint = problem.hint or _hint(self.model, name)
        return value

    def refuse(self, path: Path, message: str, hint: str | None = None) -> None:
        """Add a problem, `path` below these fields."""
        self.problems.append(SpecError(message, at=place(self.raw, (*self.path, *path)), hint=hint))


def _pe(fields: _Fields) -> ProcessingElement | None:
    before = len(fields.problems)
    if fields.written("peak") is None:
        hint = f"{_hint(ProcessingElementInput, 'peak')}, or arch: tpu_v4i"
        fields.refuse((), "a PE needs 'peak', or 'arch' in its place", hint)
    peak: dict[int, float] = {}
    for name, text in fields.values.get("peak", {}).items():
        at = (*fields.path, "peak", name)
        rate = fields.attempt(partial(_above_0, fields.raw, at, text), "peak")
        if name not in DATA_TYPE_BITS:
            hint = did_you_mean(name, DATA_TYPE_BITS, listing="types")
            fields.refuse(("peak", name), f"no data type {short(name)}", hint)
        elif rate is not None:
            peak[DATA_TYPE_BITS[name]] = max(rate, peak.get(DATA_TYPE_BITS[name], 0.0))
    rates_or_inf = ("memory", "memory_bandwidth", "cache_bandwidth")
    memory, bandwidth, cache = (fields.rate(name, or_inf=True) for name in rates_or_inf)
    operation, bit = (fields.amount(name) for name in ("energy_per_operation", "energy_per_bit"))
    launch, dispatch, pipeline = (fields.amount(name) for name in ("launch", "dispatch", "pipeline"))
    exposed = fields.share("exposed")
    computing = _efficiency(fields, "efficiency", OPERATIONS)
    moving = _efficiency(fields, "memory_efficiency", TRAFFIC)
    kernels = _kernels(fields)

    def pe() -> ProcessingElement:
        with placed(fields.raw, (*fields.path, "peak")):
            rates = tuple(sorted(peak.items()))
            return ProcessingElement(
                rates,
                memory or math.inf,
                bandwidth or math.inf,
                operation or 0,
                bit or 0,
                launch=launch or 0,
                dispatch=dispatch or 0,
                exposed=exposed or 0,
                cache_bandwidth=cache or math.inf,
                pipeline=pipeline or 0,
                efficiency=computing,
                memory_efficiency=moving,
                kernels=tuple(
                    sorted((DATA_TYPE_BITS[name], one) for name, one in kernels.items() if name != ATTENTION)
                ),
                attention=kernels.get(ATTENTION),
            )

    return fields.attempt(pe, "peak") if len(fields.problems) == before and "peak" in fields.values else None


def _kernels(fields: _Fields) -> dict[str, Kernel]:
    """Parts of the rates that kinds of kernels reach, by the name of a data type or `attention`."""
    read: dict[str, Kernel] = {}
    for name, values in fields.values.get("kernels", {}).items():
        if name not in (ATTENTION, *DATA_TYPE_BITS):
            hint = did_you_mean(name, [ATTENTION, *DATA_TYPE_BITS], listing="kinds")
            fields.refuse(("kernels", name), f"no data type and no kind of kernel {short(name)}", hint)
        inner = replace(fields, path=(*fields.path, "kernels", name), model=KernelInput, values=values)
        before = len(fields.problems)
        launch = inner.amount("launch")
        computing = _efficiency(inner, "efficiency", OPERATIONS)
        moving = _efficiency(inner, "memory_efficiency", TRAFFIC)
        if len(fields.problems) == before:
            read[name] = Kernel(launch or 0.0, computing, moving)
    return read


def _mapped_pe(fields: _Fields, spec: Spec, read_arch: ArchReader | None) -> ProcessingElement | None:
    """A PE with an architecture."""
    before = len(fields.problems)
    memory = fields.rate("memory", or_inf=True)
    at = place(fields.raw, (*fields.path, "arch"))
    for name in _COSTS:
        if fields.written(name) is not None:
            fields.refuse((name,), f"a PE with an architecture has no {name}: its mapper costs what it computes")

    def pe() -> ProcessingElement:
        if read_arch is None:
            raise SpecError(
                "the cluster has PEs with an architecture, which stands in another file", hint="use facade.cluster_in"
            )
        with placed(fields.raw, (*fields.path, "arch")):
            mapped = MappedPe(combined(spec, read_arch(fields.values["arch"], at)))
            mapped.check()
            if memory is None or fields.written("memory") is None:
                return ProcessingElement(memory=mapped.memory, arch=mapped)
            return ProcessingElement(memory=memory, arch=mapped)

    return fields.attempt(pe, "arch") if len(fields.problems) == before else None


def _link(fields: _Fields, axis: str, axes: Sequence[str]) -> Link | None:
    before = len(fields.problems)
    attempt(fields.problems, partial(_check_name, fields.raw, fields.path, axis))
    bandwidth = fields.rate("bandwidth")
    latency, bit = (fields.amount(name) for name in ("latency", "energy_per_bit"))
    table = _efficiency(fields, "efficiency", MESSAGES)
    groups = _groups(fields)
    most = fields.count("size")
    topology = next((one for one in TOPOLOGIES if one == fields.values.get("topology", "ring")), None)
    if topology is None:
        found = fields.values["topology"]
        hint = did_you_mean(str(found), TOPOLOGIES, listing="topologies")
        fields.refuse(("topology",), f"no topology {short(found)}", hint)
    shared = tuple(fields.values.get("shared_by", ()))
    others = [one for one in axes if one != axis]
    for position, one in enumerate(shared):
        if one not in others:
            hint = did_you_mean(one, others, listing="other axes")
            fields.refuse(("shared_by", position), f"{short(one)} is not another axis of the cluster", hint)
        elif one in shared[:position]:
            fields.refuse(("shared_by", position), f"axis {short(one)} is named twice", "name it once")
    if len(fields.problems) > before or bandwidth is None or topology is None:
        return None

    def link() -> Link:
        with placed(fields.raw, (*fields.path, "groups")):
            return Link(bandwidth, latency or 0.0, topology, table, bit or 0.0, most, shared, groups)

    return fields.attempt(link, "groups")


def _groups(fields: _Fields) -> tuple[tuple[int, tuple[tuple[float, float], ...]], ...]:
    """Tables of efficiencies by the PEs of a group."""
    read: list[tuple[int, tuple[tuple[float, float], ...]]] = []
    for parts in fields.values.get("groups", {}):
        at = (*fields.path, "groups", parts)
        whole = fields.attempt(partial(_count, fields.raw, at, parts, "PEs of a group"), "groups")
        table = _efficiency(fields, "groups", MESSAGES, parts)
        if whole is not None:
            read.append((whole, table))
    return tuple(read)


def _efficiency(fields: _Fields, name: str, sizes: tuple[str, str], *below: Step) -> tuple[tuple[float, float], ...]:
    """A table of sizes and parts; what is wrong in it is told with the row. `sizes`: whose they are, and their unit;
    `below`: keys on the way from the field to the table.
    """
    table: list[tuple[float, float]] = []
    rows = fields.values.get(name, {})
    for step in below:
        rows = rows[step]
    for size, part in rows.items():
        at = (*fields.path, name, *below, size)
        taken = fields.attempt(partial(_from_0, fields.raw, at, size, f"size of {sizes[0]}"), name)
        reached = fields.attempt(partial(_part, fields.raw, at, part), name)
        if taken is None or reached is None:
            continue

        def next_row(at: Path = at, row: tuple[float, float] = (taken, reached)) -> None:
            with placed(fields.raw, at):
                check_efficiency([*table[-1:], row], *sizes)

        fields.attempt(next_row, name)
        table.append((taken, reached))
    return tuple(table)


def _check_name(raw: Raw, path: Path, axis: str) -> None:
    with placed(raw, path):
        check_axis(axis, 1)


def _above_0(raw: Raw, path: Path, text: object, or_inf: bool = False) -> float:
    at = place(raw, path)
    value = number(text, Scope(), at=at, what=str(path[-1]))
    if not value > 0:
        raise SpecError(f"{path[-1]} must be > 0, found {short(text)}", at=at)
    if math.isinf(value) and not or_inf:
        raise SpecError(f"{path[-1]} must be finite, found {short(text)}", at=at)
    return _sound(raw, path, str(path[-1]), value)


def _from_0(raw: Raw, path: Path, text: object, what: str | None = None) -> float:
    what = what or str(path[-1])
    return _sound(raw, path, what, number(text, Scope(), at=place(raw, path), what=what, minimum=0, allow_inf=False))


def _sound(raw: Raw, path: Path, what: str, value: float) -> float:
    with placed(raw, path):
        check_magnitude(what, value)
    return float(value)


def _share(raw: Raw, path: Path, text: object) -> float:
    value = _from_0(raw, path, text)
    if value > 1:
        raise SpecError(f"{path[-1]} is a part, from 0 to 1, found {short(text)}", at=place(raw, path))
    return value


def _part(raw: Raw, path: Path, text: object) -> float:
    at = place(raw, path)
    value = float(number(text, Scope(), at=at, what="an efficiency", allow_inf=False))
    if not 0 < value <= 1:
        raise SpecError(f"an efficiency is above 0 and at most 1, found {short(text)}", at=at)
    return _sound(raw, path, "an efficiency", value)


def _count(raw: Raw, path: Path, text: object, what: str | None = None) -> int:
    at = place(raw, path)
    return int(number(text, Scope(), at=at, what=what or str(path[-1]), minimum=1, integer="exact", allow_inf=False))


def _hint(model: type[Input], name: str) -> str | None:
    return hint_of(name, model.model_fields[name])
