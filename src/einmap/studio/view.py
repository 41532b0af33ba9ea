"""The state of a session as plain data for the page: the LoopTree as blocks, and the numbers as they are shown."""

from __future__ import annotations

import math
from collections.abc import Mapping as MappingOf
from typing import Any

from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import (
    Address,
    Compute,
    Node,
    PerEinsum,
    Pipeline,
    Spatial,
    Split,
    Storage,
    Temporal,
    Toll,
    format_address,
)
from einmap.mapping.pretty import describe, manner_of_split
from einmap.model.cost import Cost
from einmap.model.evaluate import workings_of
from einmap.model.explanation.cases import cases_of
from einmap.model.explanation.values import LoopUse, NodeCases
from einmap.model.roofline import roofline
from einmap.report.drawing.costs import NodeCosts, cost_annotations
from einmap.report.drawing.theme import memory_hues
from einmap.report.html.sections.occupancy import steps_of
from einmap.report.text.formatting import changed, percent, shape_text
from einmap.spec.raw import to_python
from einmap.spec.spec import Spec
from einmap.units import EXAMPLES, format_bits, format_si
from einmap.visible import visible

TOTALS = {"energy": "J", "latency": "s", "edp": "J*s"}
"""The numbers that stand above all others, with their units."""
FIELDS = ("size", "leak_power", "area", "latency", "total_latency")
"""Fields of a component that the page edits, beside its fanouts and its actions."""
OF_ACTIONS = ("energy", "latency", "throughput")
UNITS = {
    "size": "bits", "leak_power": "W", "area": "m^2", "latency": "s", "total_latency": "s", "energy": "J",
    "throughput": "1/s", "fanout": "",
}  # fmt: skip
"""The unit of each field that is edited; empty for a plain number."""


def tree(spec: Spec, mapping: Mapping, cost: Cost | None, pins: frozenset[Address]) -> list[dict[str, Any]]:
    """The LoopTree: nested lists of blocks."""
    notes = cost_annotations(mapping, spec, cost) if cost is not None else None
    memories = tuple(p.node.component for p in mapping.placed if isinstance(p.node, Storage))
    hues = {name: hue[1:] for name, hue in memory_hues(memories).items()}
    energy = notes.energy if notes is not None else 0.0
    blocks = _Blocks(notes.nodes if notes is not None else {}, energy, hues, pins)
    return blocks.listed(mapping.nodes, ())


class _Blocks:
    def __init__(
        self, costs: MappingOf[Address, NodeCosts], energy: float, hues: dict[str, str], pins: frozenset[Address]
    ) -> None:
        self.costs = costs
        self.energy = energy
        self.hues = hues
        self.pins = pins

    def listed(self, nodes: tuple[Node, ...], prefix: Address) -> list[dict[str, Any]]:
        return [self.block(node, (*prefix, i)) for i, node in enumerate(nodes)]

    def block(self, node: Node, address: Address) -> dict[str, Any]:
        where = format_address(address)
        if isinstance(node, Split):
            branches = [self.listed(branch, (*address, i)) for i, branch in enumerate(node.branches)]
            text, stages = manner_of_split(node), isinstance(node, Pipeline)
            return {"at": where, "kind": "split", "text": text, "stages": stages, "branches": branches}
        costs = self.costs.get(address, NodeCosts())
        share = costs.energy / self.energy if costs.energy and self.energy > 0 else 0.0
        common = {"at": where, "text": visible(describe(node)), "notes": costs.lines(self.energy), "share": share}
        return {**common, "pinned": address in self.pins, **self.own(node, costs)}

    def own(self, node: Node, costs: NodeCosts) -> dict[str, Any]:
        """Fields that blocks of one kind have."""
        match node:
            case Storage(tensors=tensors, component=component):
                tiles = {name: shape for name, (shape, _) in costs.facts.tiles.items()}
                held = [{"name": visible(t), "id": t, "tile": tiles.get(t, "")} for t in tensors]
                return {"kind": "storage", "memory": visible(component), "hue": self.hues[component], "tensors": held}
            case Temporal() | Spatial():
                shape, over = _each(node.tile_shape), _each(node.rank_variable)
                lanes = f"{node.component}.{node.name}" if isinstance(node, Spatial) else None
                first = _each(node.initial_tile_shape) if isinstance(node, Temporal) else ""
                return {"kind": "loop", "over": visible(over), "shape": shape, "first": first, "lanes": lanes}
            case Compute(einsum=einsum, component=component):
                return {"kind": "compute", "einsum": visible(einsum), "unit": visible(component)}
            case Toll(component=component):
                return {"kind": "toll", "unit": visible(component)}
            case _:
                return {"kind": "other"}


def _each(value: PerEinsum[Any]) -> str:
    """A value that all Einsums have, or one for each; empty for none."""
    distinct = {str(one) for _, one in value.by_einsum} or {"" if value.default is None else str(value.default)}
    return distinct.pop() if len(distinct) == 1 else str(value)


def numbers(cost: Cost, before: Cost | None, optimum: MappingOf[str, float]) -> list[dict[str, Any]]:
    """Energy, latency and EDP, each against the last step, and against the least that is known to be possible."""
    rows = []
    for name, unit in TOTALS.items():
        value = getattr(cost, name)
        old = getattr(before, name) if before is not None else None
        best = optimum.get(name)
        row = {"name": name, "value": value, "text": format_si(value, unit), "change": "", "gap": ""}
        if old is not None:
            ratio = value / old if old else math.inf if value else 1.0
            row |= {"change": changed(ratio), "tone": "good" if ratio < 1 else "bad" if ratio > 1 else ""}
        if best:
            row["gap"] = percent(value / best - 1) if value > best else "0%"
        rows.append(row)
    return rows


def bars(cost: Cost, before: Cost | None) -> dict[str, list[dict[str, Any]]]:
    """Energy by component and tensor, and busy time by component, with what they were before."""
    return {"energy": _energy(cost, before), "latency": _latency(cost, before)}


def _energy(cost: Cost, before: Cost | None) -> list[dict[str, Any]]:
    new, old = cost.energy_by("component", "tensor"), before.energy_by("component", "tensor") if before else {}
    components = dict.fromkeys(name for name, _ in [*new, *old])
    rows = []
    for component in components:
        parts = [_part(t, value) for (name, t), value in new.items() if name == component and value > 0]
        total, was = (sum(v for (name, _), v in values.items() if name == component) for values in (new, old))
        if total > 0 or was > 0:
            text = format_si(total, "J")
            named = {"name": visible(component), "id": component, "value": total, "text": text}
            rows.append({**named, "before": was if before else None, "parts": parts})
    return rows


def _part(tensor: str | None, value: float) -> dict[str, Any]:
    name = "operations and power" if tensor is None else visible(tensor)
    return {"name": name, "id": tensor, "value": value, "text": format_si(value, "J")}


def _latency(cost: Cost, before: Cost | None) -> list[dict[str, Any]]:
    new, old = _busy(cost), _busy(before) if before is not None else {}
    rows = [(name, new.get(name, 0.0), old.get(name, 0.0)) for name in dict.fromkeys([*new, *old])]
    return [
        {
            "name": visible(n),
            "id": n,
            "value": v,
            "text": format_si(v, "s"),
            "before": b if before else None,
            "parts": [],
        }
        for n, v, b in rows
        if v > 0 or b > 0
    ]


def _busy(cost: Cost) -> dict[str, float]:
    busy: dict[str, float] = {}
    for row in cost.latencies:
        busy[row.component] = busy.get(row.component, 0.0) + row.latency
    return busy


def usage(cost: Cost) -> list[dict[str, Any]]:
    """The fullest moment of each memory of limited size, and lanes in use."""
    rows = [{"name": visible(r.component), "value": r.usage, "text": percent(r.usage)} for r in cost.memory_usage]
    lanes: dict[str, float] = {}
    for row in cost.spatial_usage:
        name = f"{row.component}.{row.dimension}"
        lanes[name] = max(lanes.get(name, 0.0), row.usage)
    rows = [row for row in rows if row["value"]]
    return rows + [{"name": f"lanes of {visible(n)}", "value": v, "text": percent(v)} for n, v in lanes.items()]


def details(spec: Spec, mapping: Mapping) -> dict[str, Any]:
    """Contents of memories over time, the four cases of each storage node, points below the roofline."""
    workings = workings_of(spec, mapping)
    memories = [
        {
            "memory": visible(memory.name),
            "capacity": memory.size_bits if math.isfinite(memory.size_bits) else None,
            "text": format_bits(memory.size_bits) if math.isfinite(memory.size_bits) else "unlimited",
            "steps": [
                {
                    "einsum": visible(step.einsum),
                    "bits": sum(step.bits.values()),
                    "text": format_bits(sum(step.bits.values())),
                    "parts": [{"name": visible(t), "bits": b, "text": format_bits(b)} for t, b in step.bits.items()],
                }
                for step in steps
            ],
        }
        for memory, steps in steps_of(workings)
    ]
    cases = [_case(node) for name in workings.order for node in cases_of(workings.traffic[name])]
    limits = roofline(workings.cost, spec)
    points = [
        {"einsum": visible(p.einsum), "memory": visible(p.memory), "x": p.intensity, "y": p.rate}
        for p in limits.points
        if _is_drawn(p.intensity, p.rate)
    ]
    roofs = [{"name": visible(r.component), "rate": r.rate} for r in limits.bandwidths if _is_drawn(r.rate)]
    peaks = [{"name": visible(r.component), "rate": r.rate} for r in limits.peaks if _is_drawn(r.rate)]
    return {"occupancy": memories, "cases": cases, "roofline": {"points": points, "bandwidths": roofs, "peaks": peaks}}


def _is_drawn(*values: float) -> bool:
    """Whether a logarithmic scale has a place for each value."""
    return all(0 < value < math.inf for value in values)


def finite(value: Any) -> Any:
    """Plain data without infinities and undefined numbers, which JSON does not have: they are None."""
    match value:
        case dict():
            return {key: finite(one) for key, one in value.items()}
        case list() | tuple():
            return [finite(one) for one in value]
        case float():
            return value if math.isfinite(value) else None
        case _:
            return value


def _case(node: NodeCases) -> dict[str, Any]:
    """One row of the table of four cases."""
    return {
        "einsum": visible(node.einsum),
        "tensor": visible(node.tensor),
        "component": visible(node.component),
        "at": format_address(node.address),
        "above_other": _loops(node.above, "irrelevant"),
        "above_own": _loops(node.above, "relevant"),
        "below_other": _loops(node.below, "irrelevant"),
        "below_own": _loops(node.below, "relevant"),
        "fetches": node.fetches,
        "chunks": node.chunks,
        "used": f"{node.reuse:.4g}",
        "tile": shape_text(node.shape),
    }


def _loops(loops: tuple[LoopUse, ...], kind: str) -> str:
    chosen = [loop for loop in loops if (loop.kind == "irrelevant") == (kind == "irrelevant")]
    return ", ".join(
        f"{visible(loop.variable)} {loop.iterations}{' lanes' if loop.dimension else ''}" for loop in chosen
    )


def architecture(spec: Spec) -> list[dict[str, Any]]:
    """Components with the fields that the page edits: where each is written, and what is written there."""
    rows = []
    for leaf in spec.arch_inputs.leaves:
        path = ".".join(f"[{step}]" if isinstance(step, int) else step for step in leaf.path).replace(".[", "[")
        raw: Any = spec.raw
        for step in leaf.path:
            raw = raw.get(step) if isinstance(step, str) else raw.items[step]
        written = to_python(raw)
        rows.append({"name": visible(leaf.given.name), "kind": leaf.tag, "fields": list(_fields(path, written))})
    return rows


def _fields(path: str, written: dict[str, Any]) -> Any:
    for name in FIELDS:
        if name in written:
            yield _field(name, name, f"{path}.{name}", written[name])
    for kind, names in (("spatial", ("fanout",)), ("actions", OF_ACTIONS)):
        for i, one in enumerate(written.get(kind) or ()):
            if not isinstance(one, dict):
                continue
            for name in names:
                if name in one:
                    label = f"{one.get('name', i)} {name}"
                    yield _field(visible(label), name, f"{path}.{kind}[{i}].{name}", one[name])


def _field(label: str, name: str, path: str, value: Any) -> dict[str, str]:
    """One field: what is written, and how people read it where it is a number."""
    unit, shown = UNITS[name], ""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and unit and math.isfinite(value):
        shown = format_bits(value) if unit == "bits" else format_si(value, unit.removeprefix("1"))
    return {
        "name": label,
        "path": path,
        "value": visible(str(value)).removesuffix(".0"),
        "unit": unit,
        "shown": shown,
    } | {"example": EXAMPLES[unit]}
