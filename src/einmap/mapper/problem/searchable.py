"""Whether branch and bound can search an Einsum: its tables know outputs, latencies and tolls of some kinds only."""

from __future__ import annotations

from collections.abc import Sequence

from einmap.arch.component import Leaf, Memory, Network, Toll, is_carrying
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.errors import NotSupportedError
from einmap.mapper.mapspace.latency_forms import latency_is_linear
from einmap.model.timing.stalls import stalling


def why_not_searchable(einsum: Einsum, arch: Architecture, goals: Sequence[str]) -> str | None:
    """Why an Einsum cannot be searched with tables for some objectives, None if it can."""
    if einsum.is_copy:
        return "it is a copy"
    for access in einsum.accesses:
        if access.output and not _is_plain_output(einsum, access.tensor):
            return f"output {access.tensor!r} is indexed by sums"
    if sum(a.output for a in einsum.accesses) > 1:
        return "it has several outputs"
    for unit in arch.computes:
        if not unit.enabled:
            continue
        path = arch.path(unit.name)
        top = next((i for i, leaf in enumerate(path) if isinstance(leaf, Memory)), len(path))
        if any(d.skew != "none" for leaf in path[: top + 1] for d in leaf.spatial):
            return "lanes of the outermost memory begin one after another"
        if (why := _why_not_units(einsum, path) or _why_not_lines(path)) is not None:
            return why
        for leaf in path:
            odd = isinstance(leaf, Memory | Toll) and not latency_is_linear(leaf, einsum.name)
            if odd and not _latency_is_nothing(arch, goals):
                return f"total_latency of {leaf.name!r} is not a sum or maximum of its actions' times"
            if is_carrying(leaf) and (why := _why_not_network(leaf, arch, goals)) is not None:
                return why
            if isinstance(leaf, Toll) and leaf.placement is not None and leaf.placement.tile_shape:
                return f"Toll {leaf.name!r} limits tile shapes"
    return None


def check_stalls_searchable(einsum: Einsum, arch: Architecture, why: str | None) -> None:
    """Raise NotSupportedError where an Einsum is searched mapping by mapping, for a reason, and its machine stalls."""
    leaves = [leaf for unit in arch.computes for leaf in arch.path(unit.name)]
    memory = next((leaf.name for leaf in leaves if stalling((leaf,))), None)
    if why is not None and memory is not None and not einsum.is_copy:
        raise NotSupportedError(
            f"Einsum {einsum.name!r} is searched mapping by mapping ({why}), "
            f"which does not know stalls: tile_by_tile ({memory!r}) yet",
            hint="map without it, then evaluate the mapping found with it",
        )


def _why_not_network(network: Network, arch: Architecture, goals: Sequence[str]) -> str | None:
    """Why tables do not know what crosses a network."""
    if _latency_is_nothing(arch, goals):
        return None
    if network.total_latency is not None:
        return f"total_latency of the network {network.name!r} is an expression"
    if network.action("hop").throughput == 0:
        return f"links of the network {network.name!r} have throughput 0"
    return None


def why_not_fused(einsum: Einsum, arch: Architecture, goals: Sequence[str]) -> str | None:
    """As `why_not_searchable`, where Einsums may share what they hold: each might look for it in other units."""
    units = (unit for unit in arch.components.values() if isinstance(unit, Memory) and unit.is_spread)
    spread = next((f"{unit.name!r} is several units of an array" for unit in units), None)
    return why_not_searchable(einsum, arch, goals) or spread


def _why_not_units(einsum: Einsum, path: Sequence[Leaf]) -> str | None:
    """Why tables do not know the memories of an array."""
    memories = [leaf for leaf in path if isinstance(leaf, Memory)]
    spread = [memory for memory in memories if memory.is_spread]
    if not spread:
        return None
    name = f"{spread[0].name!r}, which is several units of an array,"
    if memories[0].is_spread:
        return f"{name} is the outermost memory"
    if len({memory.array for memory in spread}) > 1:
        return f"{name} is not in the only array of such memories"
    looked_up = next((access.tensor for access in einsum.accesses if access.gathered), None)
    return None if looked_up is None else f"{name} may hold {looked_up!r}, whose rows are looked up"


def _why_not_lines(path: Sequence[Leaf]) -> str | None:
    """Why tables do not know the lines that memories on a path move; None if they do, or none moves any."""
    moving = [i for i, leaf in enumerate(path) if isinstance(leaf, Memory) and leaf.layout]
    for i in moving:
        leaf = path[i]
        if isinstance(leaf, Memory) and any(layout.together or layout.banks for _, layout in leaf.layout):
            return f"lanes share lines of {leaf.name!r}, or these lie in banks"
        if any(dimension.fanout > 1 for leaf in path[: i + 1] for dimension in leaf.spatial):
            return f"lanes may begin elsewhere in the lines of {path[i].name!r}"
    winds = next((leaf for leaf in path if moving and isinstance(leaf, Memory) and leaf.wind_up), None)
    return None if winds is None else f"{winds.name!r} winds up, with lines"


def _latency_is_nothing(arch: Architecture, goals: Sequence[str]) -> bool:
    """Whether no objective depends on the latency: leakage costs energy for as long as the Einsum runs."""
    leaks = any(unit.constant_power for unit in arch.components.values())
    timeless = {"dynamic_energy"} if leaks else {"dynamic_energy", "energy"}
    return timeless.issuperset(goals)


def _is_plain_output(einsum: Einsum, tensor: str) -> bool:
    seen: set[str] = set()
    for _, index in einsum.by_tensor[tensor].projection:
        if len(index.terms) > 1 or any(abs(a) != 1 or v in seen for v, a in index.terms):
            return False
        seen |= {v for v, _ in index.terms}
    return True
