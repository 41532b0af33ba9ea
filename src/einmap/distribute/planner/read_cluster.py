"""The key `cluster` of a specification as a cluster."""

from __future__ import annotations

from functools import partial

from einmap.distribute.cluster import DATA_TYPE_BITS, TOPOLOGIES, Cluster, Link, ProcessingElement, Topology
from einmap.errors import EinmapError, SpecError, attempt, did_you_mean, raise_all
from einmap.expressions.arithmetic import number
from einmap.expressions.scope import Scope
from einmap.spec.raw import Path, Raw, place, placed
from einmap.spec.schema.base import check
from einmap.spec.schema.cluster import ClusterInput, LinkInput, ProcessingElementInput
from einmap.spec.spec import Spec

KEY = "cluster"


def cluster_of(spec: Spec) -> Cluster | None:
    """The cluster of a specification; None without the key. Raises SpecError (several problems together)."""
    raw = spec.raw.get(KEY)
    if raw is None:
        return None
    problems: list[EinmapError] = []
    inputs = check(ClusterInput, raw, spec.raw, (KEY,), problems)
    raise_all(problems)
    assert inputs is not None
    pe = attempt(problems, partial(_pe, spec.raw, inputs.pe))
    links = {axis: attempt(problems, partial(_link, spec.raw, axis, link)) for axis, link in inputs.axes.items()}
    for axis, inputs_of in inputs.axes.items():
        others = [one for one in inputs.axes if one != axis]
        for number_, one in enumerate(inputs_of.shared_by):
            if one not in others:
                at = place(spec.raw, (KEY, "axes", axis, "shared_by", number_))
                hint = did_you_mean(one, others, listing="other axes")
                problems.append(SpecError(f"{one!r} is not another axis of the cluster", at=at, hint=hint))
    raise_all(problems)
    assert pe is not None
    return Cluster(pe, tuple((axis, link) for axis, link in links.items() if link is not None))


def _pe(raw: Raw, inputs: ProcessingElementInput) -> ProcessingElement:
    path = (KEY, "pe")
    problems: list[EinmapError] = []
    peak: dict[int, float] = {}
    for name, text in inputs.peak.items():
        at = (*path, "peak", name)
        if name not in DATA_TYPE_BITS:
            hint = did_you_mean(name, DATA_TYPE_BITS, listing="types")
            problems.append(SpecError(f"no data type {name!r}", at=place(raw, at), hint=hint))
            continue
        rate = attempt(problems, partial(_rate, raw, at, text)) or 1.0
        bits = DATA_TYPE_BITS[name]
        peak[bits] = max(rate, peak.get(bits, 0.0))
    memory, bandwidth = (
        attempt(problems, partial(_rate, raw, (*path, name), getattr(inputs, name)))
        for name in ("memory", "memory_bandwidth")
    )
    operation, bit = (
        attempt(problems, partial(_amount, raw, (*path, name), getattr(inputs, name)))
        for name in ("energy_per_operation", "energy_per_bit")
    )
    raise_all(problems)
    with placed(raw, (*path, "peak")):
        return ProcessingElement(tuple(sorted(peak.items())), memory or 1, bandwidth or 1, operation or 0, bit or 0)


def _link(raw: Raw, axis: str, inputs: LinkInput) -> Link:
    path = (KEY, "axes", axis)
    problems: list[EinmapError] = []
    bandwidth = attempt(problems, partial(_rate, raw, (*path, "bandwidth"), inputs.bandwidth))
    latency, bit = (
        attempt(problems, partial(_amount, raw, (*path, name), getattr(inputs, name)))
        for name in ("latency", "energy_per_bit")
    )
    efficiency: dict[float, float] = {}
    for size, part in inputs.efficiency.items():
        at = (*path, "efficiency", str(size))
        least = attempt(problems, partial(_amount, raw, at, size))
        efficiency[least or 0.0] = attempt(problems, partial(_part, raw, at, part)) or 1.0
    most = None
    if inputs.size is not None:
        most = attempt(problems, partial(_count, raw, (*path, "size"), inputs.size))
    topology: Topology | None = next((one for one in TOPOLOGIES if one == inputs.topology), None)
    if topology is None:
        hint = did_you_mean(inputs.topology, TOPOLOGIES, listing="topologies")
        where = place(raw, (*path, "topology"))
        problems.append(SpecError(f"no topology {inputs.topology!r}", at=where, hint=hint))
    raise_all(problems)
    assert topology is not None
    table = tuple(sorted(efficiency.items()))
    return Link(bandwidth or 1.0, latency or 0.0, topology, table, bit or 0.0, most, tuple(inputs.shared_by))


def _rate(raw: Raw, path: Path, text: object) -> float:
    """A number above 0, perhaps inf."""
    at = place(raw, path)
    value = number(text, Scope(), at=at, what=str(path[-1]), minimum=0)
    if not value:
        raise SpecError(f"{path[-1]} must be > 0, found {text}", at=at)
    return float(value)


def _amount(raw: Raw, path: Path, text: object) -> float:
    """A number from 0 on."""
    return float(number(text, Scope(), at=place(raw, path), what=str(path[-1]), minimum=0, allow_inf=False))


def _part(raw: Raw, path: Path, text: object) -> float:
    value = _rate(raw, path, text)
    if value > 1:
        raise SpecError(f"an efficiency is at most 1, found {text}", at=place(raw, path))
    return value


def _count(raw: Raw, path: Path, text: object) -> int:
    at = place(raw, path)
    return int(number(text, Scope(), at=at, what=str(path[-1]), minimum=1, integer="exact", allow_inf=False))
