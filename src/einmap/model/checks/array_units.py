"""Several Einsums that use one tile in the units of an array's memory: each has to find the values where they lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from einmap.arch.component import Memory
from einmap.errors import NotSupportedError
from einmap.mapping.pipelines import PlacedPipeline
from einmap.model.counting.units import placement_of
from einmap.model.occupancy.sharing import SharedNode, Where
from einmap.model.traffic.einsum_traffic import EinsumTraffic


def check_units(
    shared: Sequence[SharedNode],
    traffic: Mapping[str, EinsumTraffic],
    pipelines: Sequence[PlacedPipeline],
    where: Where,
) -> None:
    """Raise NotSupportedError where Einsums would have values in different units, and for stages of a Pipeline."""
    for node in shared:
        memory = node.users[0].station.component
        if not isinstance(memory, Memory) or not memory.is_spread:
            continue
        places = set()
        for user in node.users:
            tensor = next(t for t in traffic[user.path.einsum.name].tensors if t.access.tensor == node.tensor)
            spread = tensor.spread(user.station)
            assert spread is not None
            places.add(tuple(placement_of(user.path, tensor.counts, spread)))
        if len(places) > 1 or node.hull is not None:
            raise NotSupportedError(
                f"{node.tensor!r} is held once in the units of {memory.name!r} for Einsums whose lanes need other "
                "parts of it in each unit; that is not supported yet",
                at=where(node.address),
                hint="spread the loops over the same lanes in each of them, or hold the tensor in each branch",
            )
    if pipelines:
        for each in traffic.values():
            names = [leaf.name for leaf in each.path.leaves if isinstance(leaf, Memory) and leaf.is_spread]
            if names:
                text = f"a Pipeline beside {names[0]!r}, which is several units of an array, is not supported yet"
                raise NotSupportedError(text, hint="write a Sequential")
