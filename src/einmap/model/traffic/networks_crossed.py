"""Hops and link traffic: what the exchanges of an Einsum's tensors cost on the networks that they cross.

A network carries an exchange whose parent stands above it on the architecture path and whose child stands below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce

from einmap.arch.component import Memory, Network, is_carrying
from einmap.errors import NotSupportedError
from einmap.model.counting.path import EinsumPath
from einmap.model.counting.tiles import Count, larger
from einmap.model.traffic.actions import flow_of_one_visit
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.model.traffic.mesh_crossing import Crossing, FlowOf, Link, NetworkUse
from einmap.model.traffic.tensor_traffic import Exchange, TensorTraffic
from einmap.model.traffic.topologies import CROSSINGS
from einmap.model.traffic.unit_crossing import UnitCrossing


def networks_of(path: EinsumPath) -> tuple[tuple[int, Network], ...]:
    """The networks on an Einsum's architecture path, with their levels."""
    return tuple((level, leaf) for level, leaf in enumerate(path.leaves) if is_carrying(leaf))


type Counts = Callable[[Exchange], bool]
"""Which exchanges count."""


def _every(_: Exchange) -> bool:
    return True


def network_use(traffic: EinsumTraffic, counts: Counts = _every, *, one_visit: bool = False) -> dict[str, NetworkUse]:
    """Use of each network that the Einsum's tensors cross; networks that nothing crosses are left out.

    `one_visit`: of each child its first visit alone.
    """
    uses: dict[str, NetworkUse] = {}
    for level, network in networks_of(traffic.path):
        if traffic.path.einsum.is_copy:
            _refuse_copies(traffic.path, level, network)
            continue
        use = NetworkUse()
        links: dict[Link, Count] = {}
        flow = flow_of_one_visit if one_visit else TensorTraffic.flow
        for crossing in _crossings(traffic, level, network, counts, flow):
            crossing.add_to(use, links)
        if use.hops:
            use.max_link_traffic = reduce(larger, links.values(), 0)
            uses[network.name] = use
    return uses


def crossings_of(
    traffic: EinsumTraffic, counts: Counts = _every, flow: FlowOf = TensorTraffic.flow
) -> Iterator[tuple[Network, Crossing]]:
    """Every exchange that crosses a network, network by network. `flow`: what of it counts."""
    for level, network in networks_of(traffic.path):
        for crossing in _crossings(traffic, level, network, counts, flow):
            yield network, crossing


def hops_one_by_one(traffic: EinsumTraffic, counts: Counts, *, one_visit: bool = False) -> Iterator[dict[str, Count]]:
    """Of each tensor by network the steps of its longest route, for each transfer of a tile, one after another.

    A visit of a child is one transfer in, and for an output one out, whether there are results to come in or not.
    `one_visit`: one transfer alone. Raises NotSupportedError where Einsums use different parts of a tensor in a buffer.
    """
    steps: dict[str, dict[str, Count]] = {}
    for network, crossing in crossings_of(traffic, counts):
        tensor, exchange = crossing.tensor, crossing.exchange
        charge, child = tensor.charge(exchange), exchange.child
        if charge.hull is not None:
            raise NotSupportedError(
                f"memories that take turns below the network {network.name!r}, where Einsums use different parts of "
                f"{tensor.access.tensor!r} in {child.component.name!r}, are not supported yet",
                hint="give each Einsum a storage node of its own",
                about=child.component.name,
            )
        transfers: Count = 1
        if not one_visit:
            transfers = traffic.visits(child) * (int(charge.fills) + int(tensor.access.output))
        of_tensor = steps.setdefault(tensor.access.tensor, {})
        of_tensor[network.name] = of_tensor.get(network.name, 0) + crossing.longest() * transfers
    yield from steps.values()


def _crossings(
    traffic: EinsumTraffic, level: int, network: Network, counts: Counts, flow: FlowOf
) -> Iterator[Crossing]:
    if traffic.semantics.network_traffic != "all" and not network.is_plain:
        raise NotSupportedError(
            f"the preset {traffic.semantics.name} knows a mesh and all_to_all alone, that multicast and reduce, with "
            f"links for all tensors; {network.name!r} is another network",
            hint="evaluate with semantics: exact",
        )
    in_units = is_among_units(traffic.path, network)
    # AccelForge's all_to_all takes values in at the first lane, wherever they lie
    begins_in_units = traffic.semantics.network_traffic == "all" or network.topology == "mesh"
    outputs = [tensor.counts for tensor in traffic.tensors if tensor.access.output]
    lanes = {i: traffic.differing_lanes(i, outputs) for i in traffic.path.spatial_loops}
    for tensor in traffic.tensors:
        for exchange in tensor.exchanges:
            crosses = exchange.parent.level < level < exchange.child.level and _carries(tensor, exchange, level)
            if crosses and counts(exchange):
                kind = UnitCrossing if in_units and begins_in_units else CROSSINGS[network.topology]
                yield kind(tensor, exchange, level, network, lanes, flow)


def is_among_units(path: EinsumPath, network: Network) -> bool:
    """Whether a memory of the network's array is several units, from which values begin their way."""
    memories = (leaf for leaf in path.leaves if isinstance(leaf, Memory))
    return bool(network.array) and any(memory.is_spread and memory.array == network.array for memory in memories)


def _carries(tensor: TensorTraffic, exchange: Exchange, level: int) -> bool:
    """Whether the network at `level`, that an exchange crosses, carries it; of several perhaps the outermost only."""
    if tensor.semantics.network_traffic == "all":
        return True
    return not any(exchange.parent.level < other < level for other, _ in networks_of(tensor.path))


def _refuse_copies(path: EinsumPath, level: int, network: Network) -> None:
    lanes = [loop for loop in path.loops if loop.level is not None and loop.level >= level and not loop.absent]
    levels = [stations[0].level for stations in path.stations.values()]
    if lanes and min(levels) < level < max(levels):
        raise NotSupportedError(
            f"the copy Einsum {path.einsum.name!r} crosses the network {network.name!r} to several lanes; "
            "that is not supported yet"
        )
