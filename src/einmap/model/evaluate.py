"""evaluate(): from a specification with a mapping to its cost, step by step."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from einmap.arch.component import Component, Compute, Memory, Network
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.errors import CapacityError, MappingError, Note, NotSupportedError, SpecError, raise_all
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.nodes import format_address
from einmap.mapping.validate import validate
from einmap.model.advice import notes_on
from einmap.model.alike import tensors_by_position, traffic_key
from einmap.model.constraints import constraint_notes
from einmap.model.copies import aliases, copy_busiest, copy_totals
from einmap.model.cost import (
    ActionRow,
    ComponentRow,
    Cost,
    LatencyRow,
    MemoryUsageRow,
    SpatialUsageRow,
    TensorUsageRow,
)
from einmap.model.invariants import check_traffic
from einmap.model.latency import busy_time, network_time
from einmap.model.network import NetworkUse, network_use
from einmap.model.occupancy import (
    Buffer,
    Peak,
    buffers_of,
    live_by_shared_tensors,
    live_by_tree,
    peaks,
    without_aliases,
)
from einmap.model.path import EinsumPath, path_of
from einmap.model.reuse import TensorCounts
from einmap.model.semantics import Semantics, semantics_named
from einmap.model.sharing import SharedNode, charges_of, check_fusion, half_reduced, shared_nodes
from einmap.model.sliding import Slides, Windows, slides_on
from einmap.model.spatial import lanes_used, spatial_usage
from einmap.model.traffic import Actions, EinsumTraffic
from einmap.spec.spec import Spec


def evaluate(
    spec: Spec,
    mapping: LoopTree | None = None,
    semantics: str | Semantics | None = None,
    strict: bool = False,
) -> Cost:
    """What a mapping costs: energy (J), latency (s), area (m^2), accesses, usage.

    `mapping`: a LoopTree; default is the one of the specification. `semantics`: preset of counting rules,
    `exact` or `accelforge`; default is `model.semantics` of the specification. `strict`: violated
    architecture constraints are errors instead of notes on the result.

    Raises SpecError for a bad specification, MappingError when the mapping does not fit it (CapacityError and
    FanoutError where tiles or lanes do not), each with the place in the input.
    """
    if mapping is not None:
        spec = spec.with_mapping(mapping)
    rules = semantics_named(semantics or spec.model_options.semantics)
    return _Evaluation(spec, _tree(spec), rules, strict).cost()


@dataclass(frozen=True)
class Workings:
    """An evaluation with what its numbers come from; everything by Einsum but `peaks`, which is by memory.

    `order`: the Einsums in the order in which they run. `live`: the buffers that live while an Einsum runs; `peaks`:
    those of the fullest moment, where a copy and its source in one memory are one buffer. `slides`: the loops along
    which storage nodes slide.
    """

    spec: Spec
    tree: LoopTree
    cost: Cost
    order: tuple[str, ...]
    paths: Mapping[str, EinsumPath]
    traffic: Mapping[str, EinsumTraffic]
    live: Mapping[str, tuple[Buffer, ...]]
    peaks: Mapping[str, Peak]
    shared: tuple[SharedNode, ...]
    slides: Slides


def workings_of(spec: Spec, tree: LoopTree | None = None, *, unlimited: bool = False) -> Workings:
    """Evaluate a mapping (default: that of the specification) under `exact`, with what its cost was computed from.

    `unlimited`: memories may overflow; usages above 1 say by how much. Raises as `evaluate` does.
    """
    evaluation = _Evaluation(spec, tree or _tree(spec), semantics_named("exact"), strict=False, unlimited=unlimited)
    cost = evaluation.cost()
    return Workings(
        spec,
        evaluation.tree,
        cost,
        evaluation.order,
        evaluation.paths,
        evaluation.traffic,
        {name: tuple(buffers) for name, buffers in evaluation.live.items()},
        evaluation.peaks,
        evaluation.shared,
        evaluation.slides,
    )


def _tree(spec: Spec) -> LoopTree:
    if spec.mapping is None:
        raise MappingError("no mapping given; add `mapping:` to the specification or call the mapper (einmap map)")
    return spec.mapping


@dataclass(frozen=True)
class _EinsumCost:
    """One Einsum's numbers before instance factors."""

    totals: Mapping[tuple[str, str], Actions]
    busiest: Mapping[str, Actions]
    operations: float
    busiest_operations: float
    networks: Mapping[str, NetworkUse]


class _Evaluation:
    """The steps of one evaluation and what they share."""

    def __init__(self, spec: Spec, tree: LoopTree, rules: Semantics, strict: bool, *, unlimited: bool = False) -> None:
        self.spec = spec
        self.tree = tree
        self.rules = rules
        self.strict = strict
        self.unlimited = unlimited
        self.workload = spec.workload
        self.archs: Mapping[str, Architecture] = {name: bound.arch for name, bound in spec.bound.items()}
        self.notes: list[Note] = list(spec.notes)
        self.known: dict[Hashable, tuple[Einsum, _EinsumCost]] = {}

    def cost(self) -> Cost:
        where = self.spec.place_of_node
        names = tuple(e.name for e in self.workload.einsums)
        validate(self.tree, self.workload, self.archs, where, names)
        leaves = {path[-1].node.einsum for path in self.tree.paths if hasattr(path[-1].node, "einsum")}
        tree_order = tuple(path[-1].node.einsum for path in self.tree.paths)  # type: ignore[union-attr]
        self.order = tree_order if self.rules.lifetimes == "tree" else tuple(n for n in names if n in leaves)
        self.paths = {n: path_of(self.tree, self.workload.by_name[n], self.archs[n]) for n in self.order}
        windows = self.windows()
        self.slides = windows.slides()
        check_fusion(self.workload, self.order, self.paths, self.rules, where, self.slides, self.tree)
        self.constraints()
        self.shared = shared_nodes(self.order, self.paths)
        charges = charges_of(self.shared, self.paths, self.rules, where)
        inner = self.workload.intermediates
        self.traffic = {
            n: EinsumTraffic(path, self.rules, charges[n], inner, slides_on(path, self.slides))
            for n, path in self.paths.items()
        }
        could = windows.slides(possible=True) if self.rules.sliding_window else {}
        for name in self.order:
            possible = slides_on(self.paths[name], could)
            self.notes += notes_on(self.traffic[name], self.rules, where, self.tree, self.workload, possible)
        buffers = self.buffers()
        usage = self.capacity(buffers)
        return self.assemble(buffers, usage)

    def windows(self) -> Windows:
        """Storage nodes that keep what the next visit needs again. Raises SpecError where the preset has none."""
        everywhere = self.spec.model_options.sliding_window
        found = Windows(self.tree, self.workload, self.paths, self.order, everywhere)
        if found.asked and not self.rules.sliding_window:
            raise NotSupportedError(
                f"sliding_window: the preset {self.rules.name!r} fetches every tile in full",
                at=self.spec.provenance("model.sliding_window")
                if everywhere
                else self.spec.place_of_node(found.asked[0]),
                hint="evaluate with semantics: exact, or leave sliding_window out",
            )
        return found

    def constraints(self) -> None:
        found = [
            note for n in self.order for note in constraint_notes(self.paths[n], self.workload, self.spec.place_of_node)
        ]
        if self.rules.lifetimes == "tree":
            found += half_reduced(self.workload, self.order, self.paths, self.spec.place_of_node)
        if self.strict:
            raise_all([MappingError(note.text, at=note.at) for note in found])
        self.notes += found

    def buffers(self) -> dict[str, tuple[Buffer, ...]]:
        found = {}
        for name in self.order:
            einsum = self.workload.by_name[name]
            counts: Mapping[str, TensorCounts] = {t.access.tensor: t.counts for t in self.traffic[name].tensors}
            instances = self.workload.n_instances * einsum.n_instances
            found[name] = buffers_of(self.paths[name], self.rules, counts, instances)
        return found if self.rules.buffer_above_split == "each Einsum" else self.common(found)

    def common(self, buffers: dict[str, tuple[Buffer, ...]]) -> dict[str, tuple[Buffer, ...]]:
        """Buffers that several Einsums share have the size of the common tile."""
        largest = {(n.address, n.tensor): n.hull.largest for n in self.shared if n.hull is not None}
        groups: dict[object, list[Buffer]] = {}
        for b in (b for group in buffers.values() for b in group):
            groups.setdefault((b.address, b.tensor), []).append(b)

        def widened(b: Buffer) -> Buffer:
            users = groups[b.address, b.tensor] if b.persistent else [b]
            factor = max(u.factor for u in users)
            one = max(u.bits / u.factor for u in users) if factor > 1 else b.bits
            common = largest.get((b.address, b.tensor), 0) * b.memory.bits[b.tensor]
            return replace(b, bits=max(one, common) * factor)

        return {name: tuple(widened(b) for b in group) for name, group in buffers.items()}

    def capacity(self, buffers: Mapping[str, tuple[Buffer, ...]]) -> dict[str, Peak]:
        if self.rules.lifetimes == "tree":
            self.live = live_by_tree(self.tree, self.order, buffers, self.paths, self.slides)
        else:
            self.live = live_by_shared_tensors(self.workload, self.order, buffers)
        same = aliases(self.paths.values())
        usage = self.peaks = peaks(without_aliases(self.live, same) if same else self.live)
        over = [(name, peak) for name, peak in usage.items() if peak.bits > peak.memory.size_bits]
        if over and not self.unlimited:
            raise self.overflow(max(over, key=lambda item: item[1].bits / max(item[1].memory.size_bits, 1)), over)
        return usage

    def overflow(self, worst: tuple[str, Peak], over: list[tuple[str, Peak]]) -> CapacityError:
        """The fullest memory, tensor by tensor, and which others overflow too."""
        name, peak = worst
        largest = max(peak.live, key=lambda b: b.bits)
        shares = ", ".join(
            f"{b.tensor} {_shown(b.bits)} ({format_address(b.address)})"
            for b in sorted(peak.live, key=lambda b: -b.bits)
        )
        others = [f"{n} ({_shown(p.bits)} of {_shown(p.memory.size_bits)})" for n, p in over if n != name]
        return CapacityError(
            f"memory {name!r} needs {_shown(peak.bits)} bits while Einsum {peak.einsum!r} runs, it holds "
            f"{_shown(peak.memory.size_bits)}: {shares}" + (f"; also too small: {', '.join(others)}" if others else ""),
            component=name,
            needed_bits=peak.bits,
            capacity_bits=peak.memory.size_bits,
            at=self.spec.place_of_node(largest.address),
            hint=f"choose a smaller tile shape above the storage of {largest.tensor}, or let it bypass {name}",
        )

    # numbers

    def assemble(self, buffers: Mapping[str, tuple[Buffer, ...]], usage: Mapping[str, Peak]) -> Cost:
        actions: list[ActionRow] = []
        latencies: list[LatencyRow] = []
        spatial: list[SpatialUsageRow] = []
        for name in self.order:
            einsum = self.workload.by_name[name]
            instances = self.workload.n_instances * einsum.n_instances
            numbers = self.numbers(name)
            path = self.paths[name]
            rows = self.action_rows(path, numbers, instances)
            times = self.times(path, numbers)
            latency = max(times.values(), default=0.0)
            used = lanes_used(path)
            rows += self.leak_rows(path, latency, used, instances)
            actions += rows
            latencies += [LatencyRow(name, c, seconds * instances) for c, seconds in times.items()]
            spatial += [SpatialUsageRow(name, c, d, u) for (c, d), u in spatial_usage(path, used).items()]
        by_einsum: dict[str, float] = {}
        for row in latencies:
            by_einsum[row.einsum] = max(by_einsum.get(row.einsum, 0.0), row.latency)
        found = [(row.component, "energy", row.energy) for row in actions]
        found += [(row.component, "latency", row.latency) for row in latencies]
        for component, what, value in found:
            if not math.isfinite(value):
                self.refuse(component, what, value)
        arch = self.archs[self.workload.einsums[0].name]
        return Cost(
            energy=math.fsum(row.energy for row in actions),
            latency=math.fsum(by_einsum.values()),
            area=arch.total_area,
            actions=tuple(actions),
            latencies=tuple(latencies),
            memory_usage=tuple(
                MemoryUsageRow(name, _fraction(usage[name].bits, self.size_bits(name)) if name in usage else 0.0)
                for name, c in arch.components.items()
                if isinstance(c, Memory)
            ),
            memory_usage_by_tensor=_by_tensor(buffers),
            spatial_usage=tuple(spatial),
            components=tuple(_component_row(name, c, arch) for name, c in arch.components.items()),
            semantics=self.rules.name,
            notes=tuple(dict.fromkeys(self.notes)),
        )

    def size_bits(self, name: str) -> float:
        """The largest size of a memory, whose expression may give another one for each Einsum."""
        return max(m.size_bits for a in self.archs.values() if isinstance(m := a.components[name], Memory))

    def refuse(self, component: str, what: str, value: float) -> None:
        """No infinite or undefined number is handed out."""
        raise SpecError(
            f"the {what} of {component!r} is {value}: its numbers are too large, too small or infinite",
            at=self.spec.place_of_component(component),
            hint="look at its energy, throughput, leak_power, scales and total_latency",
        )

    def numbers(self, name: str) -> _EinsumCost:
        """The numbers of one Einsum; those that are the same for several Einsums are counted once."""
        traffic = self.traffic[name]
        key = traffic_key(traffic)
        if key is None:
            return self.counted(traffic)
        if key not in self.known:
            self.known[key] = traffic.path.einsum, self.counted(traffic)
        first, found = self.known[key]
        tensors = tensors_by_position(first, traffic.path.einsum)
        return replace(found, totals={(c, tensors[t]): actions for (c, t), actions in found.totals.items()})

    def counted(self, traffic: EinsumTraffic) -> _EinsumCost:
        path = traffic.path
        if path.einsum.is_copy:
            return _EinsumCost(copy_totals(path), copy_busiest(path), 0, 0, network_use(traffic))
        check_traffic(traffic)
        total, busiest = traffic.operations()
        return _EinsumCost(traffic.totals(), traffic.busiest(), total, busiest, network_use(traffic))

    def action_rows(self, path: EinsumPath, numbers: _EinsumCost, instances: int) -> list[ActionRow]:
        rows = []
        name = path.einsum.name
        for (component, tensor), actions in numbers.totals.items():
            unit = self.archs[name].components[component]
            for action, count in (("read", actions.read), ("write", actions.write)):
                if count:
                    rows.append(_action_row(name, unit, tensor, action, count * instances))
        for network, use in numbers.networks.items():
            unit = self.archs[name].components[network]
            rows += [_action_row(name, unit, t, "hop", hops * instances) for t, hops in use.hops.items() if hops]
        if numbers.operations:
            unit = path.compute.component
            rows.append(_action_row(name, unit, None, "compute", numbers.operations * instances))
        return rows

    def times(self, path: EinsumPath, numbers: _EinsumCost) -> dict[str, float]:
        """Seconds of each component that data pass through, for one instance of the Einsum."""
        components = self.archs[path.einsum.name].components
        held = {s.component.name for stations in path.stations.values() for s in stations}
        found: dict[str, float] = {}
        for name in (*(leaf.name for leaf in path.leaves if leaf.name in held), path.compute.component.name):
            unit = components[name]
            if isinstance(unit, Compute):
                calls = {"compute": numbers.busiest_operations * unit.actions_scale}
                if path.einsum.is_copy:
                    continue
            else:
                done = numbers.busiest.get(name, Actions(0, 0))
                calls = {"read": done.read * unit.actions_scale, "write": done.write * unit.actions_scale}
            found[name] = self.seconds(name, partial(busy_time, unit, calls, path.einsum.name))
        for name, use in numbers.networks.items():
            network = components[name]
            assert isinstance(network, Network)
            found[name] = self.seconds(name, partial(network_time, network, use, path.einsum.name))
        return found

    def seconds(self, name: str, compute: Callable[[], Any]) -> float:
        """The busy time of a component; a problem without a place stands at the component."""
        try:
            return float(compute())
        except SpecError as problem:
            problem.at = problem.at or self.spec.place_of_component(name)
            raise

    def leak_rows(
        self, path: EinsumPath, latency: float, used: Mapping[tuple[str, str], float], instances: int
    ) -> list[ActionRow]:
        name = path.einsum.name
        arch = self.archs[name]
        gating = arch.gating(path.compute.component.name, used)
        rows = []
        for component, unit in arch.components.items():
            power = unit.leak_power * arch.instances[component] * gating[component]
            if power:
                rows.append(ActionRow(name, component, None, "leak", None, power * latency * instances))
        return rows


def _action_row(einsum: str, unit: Component, tensor: str | None, action: str, count: float) -> ActionRow:
    count = count * unit.actions_scale
    return ActionRow(einsum, unit.name, tensor, action, count, count * unit.action(action).energy)


def _component_row(name: str, unit: Component, arch: Architecture) -> ComponentRow:
    instances = arch.instances[name]
    area = None if unit.area is None else unit.area * instances
    return ComponentRow(name, instances, area, unit.leak_power * instances)


def _fraction(bits: float, size: float) -> float:
    return 0.0 if math.isinf(size) or not bits else bits / size


def _by_tensor(buffers: Mapping[str, tuple[Buffer, ...]]) -> tuple[TensorUsageRow, ...]:
    found: dict[tuple[str, str, str], float] = {}
    for group in buffers.values():
        for b in group:
            key = (b.einsum, b.memory.name, b.tensor)
            found[key] = found.get(key, 0.0) + _fraction(b.bits, b.memory.size_bits)
    return tuple(TensorUsageRow(*key, usage) for key, usage in found.items() if usage)


def _shown(bits: float) -> str:
    return f"{int(bits):,}" if abs(bits) < 1e15 and bits == int(bits) else f"{bits:,}"
