"""Facts that `--costs` writes into nodes of a LoopTree: iterations, tile shapes, bits in use, shares of the energy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Address
from einmap.model.cost import Cost
from einmap.model.counting.path import path_of
from einmap.report.text.formatting import percent, summed
from einmap.report.text.loop_tree import NodeFacts, node_facts
from einmap.spec.spec import Spec
from einmap.units import counted, format_bits, format_count, format_si


@dataclass(slots=True)
class NodeCosts:
    """Costs of one node: `facts` of its tiles and trips, `energy` in J, `operations` of a Compute, all instances."""

    facts: NodeFacts = field(default_factory=NodeFacts)
    energy: float | None = None
    operations: float | None = None

    def lines(self, total: float) -> list[str]:
        """Lines below the node's own text; `total` is the energy of everything, in J."""
        facts, lines = self.facts, []
        if facts.trips is not None:
            lanes = f"{facts.trips:,} of {facts.fanout:,} lanes" if facts.fanout is not None else ""
            lines.append(lanes or counted(facts.trips, "iteration"))
        if facts.tiles:
            part = f" of {format_bits(facts.capacity)}" if math.isfinite(facts.capacity) else ""
            lines.append(f"{format_bits(facts.bits)}{part}")
        if self.operations is not None:
            lines.append(f"{format_count(self.operations)} operations")
        if self.energy and total > 0:
            lines.append(f"{percent(self.energy / total)} of energy")
        return lines


@dataclass(frozen=True, slots=True)
class Annotations:
    """The costs of nodes, and of everything that is drawn: `energy` in J, `latency` in s; `networks`: J of each."""

    nodes: dict[Address, NodeCosts]
    energy: float
    latency: float
    networks: dict[str, float] = field(default_factory=dict)

    @property
    def elsewhere(self) -> float:
        """Joules that belong to no node: leakage, and copies inside the architecture."""
        shown = [*(node.energy or 0.0 for node in self.nodes.values()), *self.networks.values()]
        return self.energy - math.fsum(shown)

    def __str__(self) -> str:
        parts = [f"energy {format_si(self.energy, 'J')}", f"latency {format_si(self.latency, 's')}"]
        paid = {name: energy for name, energy in self.networks.items() if energy > 0}
        parts += [f"network {name} {percent(energy / self.energy)} of energy" for name, energy in paid.items()]
        if self.energy > 0 and self.elsewhere / self.energy >= 0.005:
            parts.append(f"leakage and other energy outside of the nodes {percent(self.elsewhere / self.energy)}")
        return ", ".join(parts)


def cost_annotations(mapping: Mapping, spec: Spec, cost: Cost, einsum: str | None = None) -> Annotations:
    """The costs of each node, for all Einsums or one; `mapping` is the one that `cost` was evaluated for.

    Where a tensor is held twice in one component, the upper node has the energy of both. A node of several Einsums
    has the largest tile of each tensor, the energy of all of them, and the iterations of the first one.
    """
    names = tuple(mapping.path_of) if einsum is None else (einsum,)
    nodes = {address: NodeCosts(facts) for address, facts in node_facts(mapping, spec, names).items()}
    by_tensor = summed(((r.einsum, r.component, r.tensor), r.energy) for r in cost.actions if not r.is_constant)
    hops = (row for row in cost.actions if row.action == "hop" and row.einsum in names)
    networks = summed((row.component, row.energy) for row in hops)
    operations = cost.count_by("einsum", "action")
    for name in names:
        path = path_of(mapping, spec.workload.by_name[name], spec.arch(name))
        for tensor, stations in path.stations.items():
            charged: set[str] = set()
            for station in stations:
                node, component = nodes.setdefault(station.address, NodeCosts()), station.component.name
                once = 0.0 if component in charged else by_tensor.get((name, component, tensor), 0.0)
                charged.add(component)
                node.energy = (node.energy or 0.0) + once
        last = nodes.setdefault(path.compute.address, NodeCosts())
        last.energy = by_tensor.get((name, path.compute.component.name, None), 0.0)
        last.operations = operations.get((name, "compute"), 0.0)
    if einsum is None:
        return Annotations(nodes, cost.energy, cost.latency, networks)
    energy = cost.energy_by("einsum").get((einsum,), 0.0)
    return Annotations(nodes, energy, cost.latency_by_einsum.get(einsum, 0.0), networks)
