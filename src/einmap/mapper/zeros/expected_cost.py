"""The cost of one mapping of one Einsum whose tensors have zeros, without the rest of a workload."""

from __future__ import annotations

import math
from dataclasses import dataclass

from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.errors import At
from einmap.mapping.mapping import Mapping
from einmap.model.cost_rows import rows_of
from einmap.model.counting.path import path_of
from einmap.model.counting.semantics import Semantics
from einmap.model.occupancy.occupancy import buffers_of
from einmap.model.sparsity.tiles import stored, tile_rows
from einmap.model.timing.ways import Way, alone
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.numbers import divisors
from einmap.sparse.savings import Sparsity
from einmap.spec.spec import Spec


def limits_of_blocks(spec: Spec) -> tuple[str, ...]:
    """Facts that tiles have in common that memories can hold in formats of blocks, in words."""
    for sparsity in spec.sparsity.values():
        for (_, tensor), fmt in sparsity.formats.items():
            shape = sparsity.densities[tensor].shape
            for length, block in zip(shape, fmt.blocks, strict=False):
                if any(n % block and block % n for n in divisors(length)):
                    return ("tiles that cut no blocks of formats",)
    return ()


@dataclass(frozen=True)
class ExpectedCost:
    """Expected cost of mappings of an Einsum; `instances`: how often it runs."""

    einsum: Einsum
    arch: Architecture
    rules: Semantics
    sparsity: Sparsity
    instances: int

    def __call__(self, mapping: Mapping) -> tuple[float, float] | None:
        """J and s of one instance; None where tiles do not fit.

        Raises NotSupportedError for mappings that the model does not know.
        """
        path = path_of(mapping, self.einsum, self.arch)
        traffic = EinsumTraffic(path, self.rules)
        counts = {tensor.access.tensor: tensor.counts for tensor in traffic.tensors}
        buffers = buffers_of(path, self.rules, counts, self.instances)
        if self.sparsity.formats:
            buffers = stored(buffers, tile_rows(path, self.sparsity, counts))
        bits: dict[str, float] = {}
        for buffer in buffers:
            bits[buffer.memory.name] = bits.get(buffer.memory.name, 0.0) + float(buffer.bits)
            if bits[buffer.memory.name] > buffer.memory.size_bits:
                return None
        rows = rows_of(traffic, 1, lambda _: At(), Way(alone(path)), self.sparsity)
        return math.fsum(row.energy for row in rows.actions), rows.latency
