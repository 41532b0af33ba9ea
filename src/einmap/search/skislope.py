"""Ski slopes: the least traffic to and from main memory as a function of the capacity of one buffer.

Two levels, uneven placement, perfect factors, every tensor through the buffer; partial sums count, the first read of
an output is skipped (Orojenesis, Huang et al., ISCA 2024, has the same rules). One Einsum has its whole curve from one
Pareto front of traffic and capacity. The curve of a cascade is walked down: a mapping that is best for a capacity and
uses less is best for all capacities between the two, so the next one to ask for is just below what it uses.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from einmap.einsum.einsum import Einsum
from einmap.einsum.spaces.projection import Relevance
from einmap.einsum.workload import Workload
from einmap.errors import NoMappingError, SpecError
from einmap.mapper.mapper import best_mappings
from einmap.mapper.mapspace.tile_lattice import ranks_not_plain
from einmap.mapper.result.result import Found
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.progress import Progress
from einmap.spec.spec import Spec

MAIN, BUFFER = "MainMemory", "Buffer"
"""The memories of the machine that is asked about."""
KEPT = ("workload", "renames", "variables", "model")
"""Parts of a specification that the curve depends on."""


@dataclass(frozen=True)
class Corner:
    """From so many bits of `capacity` on `traffic` (bits to and from main memory) is reached, by `mapping`."""

    capacity: int
    traffic: float
    mapping: LoopTree
    proven: bool


@dataclass(frozen=True)
class SkiSlope:
    """The corners of a curve by rising capacity. `complete`: whether there are none below the first one.

    `width`: bits of a value where all tensors have the same, else None. `fused`: Einsums may share tiles.
    `spacing`: capacities of a cascade that were asked for are at least so many times apart; above 1 corners may be
    missing, and a smaller capacity may do for the traffic of one. `max_fused_loops`: the most fused loops of an Einsum;
    inf: any number.
    """

    workload: Workload
    corners: tuple[Corner, ...]
    fused: bool
    complete: bool
    spacing: float
    seconds: float
    max_fused_loops: float = math.inf

    @cached_property
    def width(self) -> float | None:
        """Bits of a value where all tensors have the same, else None."""
        widths = {access.bits_per_value for einsum in self.workload.einsums for access in einsum.accesses}
        return float(next(iter(widths))) if len(widths) == 1 else None

    @property
    def proven(self) -> bool:
        """Whether every corner is proven."""
        return all(corner.proven for corner in self.corners)

    @property
    def compulsory(self) -> float:
        """Bits that any mapping moves: each input and output of the workload once."""
        return compulsory_traffic(self.workload)

    def least(self, capacity: float) -> float:
        """A lower bound of the traffic (bits) for a capacity (bits), whatever the mapping.

        Compulsory traffic; for a single product of matrices of one width also 2 MACs / sqrt(S) - 2 S, S the values that
        the buffer holds (Smith et al., A Tight I/O Lower Bound for Matrix Multiplication, 2019).
        """
        einsums = self.workload.einsums
        if len(einsums) > 1 or self.width is None or not is_matrix_product(einsums[0]):
            return self.compulsory
        values = capacity / self.width
        return max(self.compulsory, self.width * (2 * einsums[0].n_computes / math.sqrt(values) - 2 * values))

    def traffic(self, capacity: float) -> float:
        """The least traffic (bits) with a capacity (bits); inf where no mapping fits."""
        return next((c.traffic for c in reversed(self.corners) if c.capacity <= capacity), math.inf)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "einsums": list(self.workload.einsum_names),
            "fused": self.fused,
            "complete": self.complete,
            "spacing": self.spacing,
            "max_fused_loops": self.max_fused_loops if math.isfinite(self.max_fused_loops) else None,
            "proven": self.proven,
            "bits_per_value": self.width,
            "compulsory_traffic_bits": self.compulsory,
            "corners": [
                {
                    "capacity_bits": corner.capacity,
                    "traffic_bits": corner.traffic,
                    "lower_bound_bits": self.least(corner.capacity),
                    "proven": corner.proven,
                }
                for corner in self.corners
            ],
            "seconds": self.seconds,
        }


def compulsory_traffic(workload: Workload) -> float:
    """Bits of the inputs and outputs of a workload, as far as Einsums use them; intermediates may stay inside.

    Rows that are looked up are those of each place where an index stands.
    """
    outside = [t for t in workload.tensors if t not in workload.intermediates]
    whole = [t for t in outside if any(t in e.tensors and not e.by_tensor[t].gathered for e in workload.einsums)]
    bits = sum(workload.without_gathers.tensor_bits(tensor) for tensor in whole)
    return float(bits + sum(_rows(workload, tensor) for tensor in outside)) * workload.n_instances


def _rows(workload: Workload, tensor: str) -> float:
    """Bits of the rows of a tensor that Einsums look up."""
    gathers = ((e, a) for e in workload.einsums for a in e.gathers if a.tensor == tensor)
    return sum(access.footprint(einsum.extents) * access.bits_per_value for einsum, access in gathers)


def is_matrix_product(einsum: Einsum) -> bool:
    """Whether an Einsum is one product of two matrices, several rank variables as one: each indexes two of three."""
    if len(einsum.accesses) != 3 or einsum.n_instances != 1 or any(ranks_not_plain(a) for a in einsum.accesses):
        return False
    uses = [[a.relevance(v) is Relevance.FULL for a in einsum.accesses] for v, bound in einsum.bounds if bound > 1]
    return all(sum(row) == 2 for row in uses)


def machine(capacity: int) -> dict[str, Any]:
    """A main memory, a buffer of so many bits that all tensors pass, and a compute; only main memory takes energy."""

    def actions(energy: float) -> list[dict[str, Any]]:
        return [{"name": name, "energy": energy, "throughput": "inf"} for name in ("read", "write")]

    free = {"leak_power": 0, "area": 0}
    main = {"keep": "~Intermediates", "may_keep": "All"}
    compute = [{"name": "compute", "energy": 0, "throughput": "inf"}]
    return {
        "nodes": [
            {"type": "Memory", "name": MAIN, "size": "inf", "tensors": main, "actions": actions(1), **free},
            {
                "type": "Memory", "name": BUFFER, "size": capacity, "tensors": {"keep": "All"},
                "actions": actions(0), **free,
            },
            {"type": "Compute", "name": "MAC", "actions": compute, **free},
        ]
    }  # fmt: skip


def ski_slope(
    spec: Spec,
    *,
    einsum: str | None = None,
    fuse: bool = True,
    spacing: float = 1.0,
    max_fused_loops: float = math.inf,
    progress: Progress | None = None,
) -> SkiSlope:
    """The curve of a workload. An architecture and a mapping of the specification are not looked at.

    `einsum`: only this one, by itself. `fuse`: whether intermediates may stay in the buffer.
    `spacing`: capacities of a cascade that are asked for are at least so many times apart, from the largest down; with
    1 there is every corner. `max_fused_loops`: the most loops of an Einsum that are shared with others; the curve is
    then that of mappings with no more. Where the progress token says stop, corners of small capacities are missing.
    Raises NotSupportedError for zeros of tensors, and SpecError for an unknown Einsum, a spacing below 1, fewer than no
    fused loops, and where the search was stopped before anything was found.
    """
    if not spacing >= 1:
        raise SpecError(f"capacities cannot be {spacing:g} times apart", hint="at least 1, which is every corner")
    if not max_fused_loops >= 0:
        raise SpecError(f"there cannot be {max_fused_loops:g} fused loops", hint="0, 1, 2, ...; any number without it")
    spec.refuse_sparsity("the search lab")
    token = progress or Progress()
    begin = time.perf_counter()
    base = _on_machine(spec, 2**60)
    if einsum is not None:
        base = base.with_workload(Workload((base.workload.find(einsum),)))
    tensors = base.workload.tensors
    top = math.ceil(sum(base.workload.tensor_bits(tensor) + _rows(base.workload, tensor) for tensor in tensors))
    base = base.set(f"arch.nodes.{BUFFER}.size", top)
    if len(base.workload.einsums) == 1:
        corners, complete = _front(base, top, token)
    else:
        options = {"fuse": fuse, "max_fused_loops": max_fused_loops}
        corners, complete = _walked(base, top, options, spacing, token)
    if not corners:
        raise SpecError("no mapping was found before the search was stopped")
    seconds = time.perf_counter() - begin
    fused = fuse and len(base.workload.einsums) > 1
    return SkiSlope(base.workload, tuple(corners), fused, complete, spacing, seconds, max_fused_loops)


def _on_machine(spec: Spec, capacity: int) -> Spec:
    plain: Mapping[str, Any] = spec.to_dict()
    if plain.get("workload") is None:
        raise SpecError("the specification has no workload", hint="name a file with one, or a shipped workload")
    return Spec.from_dict({**{key: plain[key] for key in KEPT if key in plain}, "arch": machine(capacity)})


def _front(spec: Spec, top: int, token: Progress) -> tuple[list[Corner], bool]:
    """The curve of one Einsum: the Pareto front of traffic and capacity."""
    result = best_mappings(spec, metrics="energy,resource_usage", progress=token)
    corners = [_corner(found, top, result.optimal) for found in result.front]
    return sorted(corners, key=lambda corner: corner.capacity), result.optimal


def _walked(
    spec: Spec, top: int, options: Mapping[str, Any], spacing: float, token: Progress
) -> tuple[list[Corner], bool]:
    """The curve of a cascade, from the largest capacity down to the smallest that suffices."""
    # a mapping that uses less than it may is best for all capacities between the two
    corners: list[Corner] = []
    capacity = top
    while capacity > 0 and not token.stopped:
        smaller = spec.set(f"arch.nodes.{BUFFER}.size", capacity)
        try:
            result = best_mappings(smaller, metrics="energy", progress=token, **options)
        except NoMappingError:
            return corners[::-1], not token.stopped
        if token.stopped:
            break
        corner = _corner(result.front[0], capacity, result.optimal)
        if corners and corners[-1].traffic >= corner.traffic:
            corners.pop()
        corners.append(corner)
        capacity = min(corner.capacity - 1, int(capacity / spacing))
    return corners[::-1], False


def _corner(found: Found, capacity: int, proven: bool) -> Corner:
    usage = next(row.usage for row in found.cost.memory_usage if row.component == BUFFER)
    return Corner(round(usage * capacity), found.cost.energy, found.mapping, proven)
