"""What `--costs` writes into the nodes of a LoopTree: iterations, tile shapes, bits in use, shares of the energy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from einmap.arch.component import Memory
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Address
from einmap.model.cost import Cost
from einmap.model.counting.path import EinsumPath, Station, path_of
from einmap.report.text.formatting import percent
from einmap.report.text.loop_tree import tile_of
from einmap.spec.spec import Spec
from einmap.units import format_bits, format_count, format_si


@dataclass(slots=True)
class NodeCosts:
    """Costs of one node. `tiles`: shape (`16×64`) and bits of each tensor's largest tile.

    `energy` in J; `loop`: iterations or lanes in words; `operations` of a Compute, all instances together.
    """

    tiles: dict[str, tuple[str, float]] = field(default_factory=dict)
    capacity: float = math.inf
    energy: float | None = None
    loop: str = ""
    operations: float | None = None

    def lines(self, total: float) -> list[str]:
        """What to write below the node's own text; `total` is the energy of everything, in J."""
        lines = [self.loop] if self.loop else []
        if self.tiles:
            used = sum(bits for _, bits in self.tiles.values())
            part = f" of {format_bits(self.capacity)}" if math.isfinite(self.capacity) else ""
            lines.append(f"{format_bits(used)}{part}")
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
    nodes: dict[Address, NodeCosts] = {}
    by_tensor: dict[tuple[str, str, str | None], float] = {}
    for row in cost.actions:
        if not row.is_constant:
            key = row.einsum, row.component, row.tensor
            by_tensor[key] = by_tensor.get(key, 0.0) + row.energy
    networks: dict[str, float] = {}
    for row in cost.actions:
        if row.action == "hop" and einsum in (None, row.einsum):
            networks[row.component] = networks.get(row.component, 0.0) + row.energy
    operations = cost.count_by("einsum", "action")
    for name in mapping.path_of if einsum is None else (einsum,):
        path = path_of(mapping, spec.workload.by_name[name], spec.arch(name))
        _add_loops(path, nodes)
        for tensor, stations in path.stations.items():
            _add_stations(path, tensor, stations, by_tensor, nodes, spec.workload.steps_held(tensor))
        last = _at(nodes, path.compute.address)
        last.energy = by_tensor.get((name, path.compute.component.name, None), 0.0)
        last.operations = operations.get((name, "compute"), 0.0)
    if einsum is None:
        return Annotations(nodes, cost.energy, cost.latency, networks)
    energy = cost.energy_by("einsum").get((einsum,), 0.0)
    return Annotations(nodes, energy, cost.latency_by_einsum.get(einsum, 0.0), networks)


def _at(nodes: dict[Address, NodeCosts], address: Address) -> NodeCosts:
    return nodes.setdefault(address, NodeCosts())


def _add_loops(path: EinsumPath, nodes: dict[Address, NodeCosts]) -> None:
    for loop in path.loops:
        node = _at(nodes, loop.address)
        if loop.dimension is not None:
            node.loop = node.loop or f"{loop.iterations:,} of {loop.dimension.fanout:,} lanes"
        else:
            node.loop = node.loop or f"{loop.iterations:,} {'iteration' if loop.iterations == 1 else 'iterations'}"


def _add_stations(
    path: EinsumPath,
    tensor: str,
    stations: tuple[Station, ...],
    energy: dict[tuple[str, str, str | None], float],
    nodes: dict[Address, NodeCosts],
    steps: dict[str, int],
) -> None:
    charged: set[str] = set()
    for station in stations:
        node, component = _at(nodes, station.address), station.component
        once = 0.0 if component.name in charged else energy.get((path.einsum.name, component.name, tensor), 0.0)
        charged.add(component.name)
        node.energy = (node.energy or 0.0) + once
        if isinstance(component, Memory):
            held = steps if station is stations[0] else {}
            shape, bits = tile_of(path, station, path.einsum.by_tensor[tensor], component, held)
            if bits > node.tiles.get(tensor, ("", -1.0))[1]:
                node.tiles[tensor] = shape.replace("x", "×"), bits
            node.capacity = component.size_bits
