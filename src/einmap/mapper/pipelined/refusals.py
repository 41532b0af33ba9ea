"""What the search of Pipelines does not know, refused by name."""

from __future__ import annotations

import math
from itertools import pairwise

from einmap.arch.component import Memory
from einmap.arch.tree import outermost_memory
from einmap.errors import NotSupportedError
from einmap.mapper.branch_and_bound.searchable import why_not_fused
from einmap.mapper.options import Options, network_of
from einmap.mapper.pipelined.placements import placements
from einmap.model.buffering import turns
from einmap.spec.spec import Spec

JUDGED = {"energy": (0,), "latency": (1,), "energy_delay_product": (0, 1)}
"""Which of energy and latency a metric depends on."""


def refuse_unknown(spec: Spec, options: Options, *, is_given: bool, fuse: bool) -> None:
    """Raise NotSupportedError for what is not known of Pipelines."""
    workload = spec.workload
    archs = [spec.arch(einsum.name) for einsum in workload.einsums]
    units = [unit for arch in archs for unit in arch.components.values()]
    gated = any(d.power_gateable for arch in archs for leaf in arch.leaves.values() for d in leaf.spatial)
    gated |= any(fork.forked_power_gateable or fork.non_forked_power_gateable for arch in archs for fork in arch.forks)
    waiting = next((unit.name for unit in units if turns((unit,))), None)
    unknown = next((goal for goal in options.goals if goal not in JUDGED), None)
    odd = [(e.name, why_not_fused(e, spec.arch(e.name), ("energy", "latency"))) for e in workload.einsums]
    name, why = next(((name, why) for name, why in odd if why is not None), (None, None))
    network = None if _may_have_stages(spec) else network_of(spec)
    problems = {
        "with the preset accelforge": options.rules.lifetimes != "tree",
        "with imperfect factors": options.uneven_loops or options.uneven_lanes,
        "beside a given mapping": is_given,
        "without fusion": not fuse,
        "by brute force": options.brute_force,
        f"for {unknown}": unknown is not None,
        f"with the network {network!r}, which all stages would cross": network,
        f"with {waiting!r}, which takes turns with what is below it": waiting,
        "with components that leak and are gated": gated and any(unit.leak_power for unit in units),
        f"of Einsum {name!r} ({why})": name is not None,
        "where rows of tensors are looked up": any(e.gathers for e in workload.einsums),
        "with persistent tensors": any(a.persistent for e in workload.einsums for a in e.accesses),
        "where the outermost memory is too small for all tensors": not _outermost_holds_all(spec),
    }
    for what, found in problems.items():
        if found:
            raise NotSupportedError(
                f"the mapper does not search Pipelines {what} yet",
                at=spec.place_of_component(found) if isinstance(found, str) else None,
                hint="leave out max_pipeline_stages",
            )


def _may_have_stages(spec: Spec) -> bool:
    """Whether two successive Einsums may be stages, as far as networks are concerned."""
    archs = {einsum.name: spec.arch(einsum.name) for einsum in spec.workload.einsums}
    return any(any(placements(((a,), (b,)), archs)) for a, b in pairwise(spec.workload.einsums))


def _outermost_holds_all(spec: Spec) -> bool:
    """Whether whatever is exchanged between parts has room."""
    bits: dict[str, float] = {}
    sizes: dict[str, float] = {}
    for einsum in spec.workload.einsums:
        arch = spec.arch(einsum.name)
        for unit in arch.computes:
            memory = outermost_memory(arch.path(unit.name)) if unit.enabled else None
            if isinstance(memory, Memory):
                sizes[memory.name] = memory.size_bits
                for access in einsum.accesses:
                    needed = access.footprint(dict(einsum.bounds)) * memory.bits[access.tensor]
                    bits[access.tensor] = max(bits.get(access.tensor, 0.0), needed)
    return math.fsum(bits.values()) <= min(sizes.values(), default=math.inf)
