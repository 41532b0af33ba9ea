"""A plan as a LoopTree on an equivalent architecture: what the planner counts, `einmap evaluate` counts as well.

Each level becomes a memory with a fanout of its workers, between main memory and one compute unit; nothing is shared
between workers on the way (`may_reuse: Nothing`), as each has a link of its own. `C <- A B + C` reads C first, so no
memory skips that. Energies are 1 pJ for each bit that main memory reads or writes and 0 elsewhere: energy tells its
traffic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Compute, Node, PerEinsum, Spatial, Storage, Temporal
from einmap.matmul.algorithms import Choice, Stage
from einmap.matmul.machine.machine import DIMENSIONS, TENSORS, Machine, Sizes
from einmap.matmul.problem import Product
from einmap.matmul.result import MatmulPlan
from einmap.spec.spec import Spec

EINSUM = "C[m, n] = A[m, k] * B[k, n]"
WORKERS = "workers"
"""The fanout dimension of each level."""
ENERGY = 1e-12
"""Joules for a bit that main memory reads or writes."""


def to_mapping(plan: MatmulPlan) -> Spec:
    """Architecture, workload and mapping of a plan, for `evaluate`, `execute` and pictures.

    Memories that overflow are as large as the plan needs. An operand that lies at a level from before has to come from
    main memory in a specification: main memory stands for its home there, and the levels down to it do not hold it.
    """
    sizes = {row.stage.level.name: max(row.stage.level.size_bits, row.needed_bits) for row in plan.levels}
    spec = specification(plan.machine, plan.product, sizes)
    return spec.with_mapping(loop_tree(plan))


def specification(machine: Machine, product: Product, size_bits: dict[str, float] | None = None) -> Spec:
    """The equivalent architecture and the product as its workload; `size_bits`: other sizes of levels, by name."""
    sizes = size_bits or {}
    memories = [_memory(machine.main, math.inf, 1, ENERGY)]
    memories += [_memory(e.name, sizes.get(e.name, e.size_bits), e.workers, 0.0) for e in machine.levels]
    rate = machine.rate(product.types[0].name)
    compute = {
        "type": "Compute",
        "name": machine.compute.name,
        "leak_power": 0,
        "area": 0,
        "skip_initial_output_write": False,
        "actions": [{"name": "compute", "energy": 0, "throughput": rate / 2}],
    }
    return Spec.from_dict(
        arch={"nodes": [*memories, compute]},
        workload={
            "einsums": [EINSUM],
            "rank_sizes": {name.upper(): size for name, size in zip(DIMENSIONS, product.size, strict=True)},
            "bits_per_value": dict(zip(TENSORS, product.bits, strict=True)),
        },
    )


def _memory(name: str, size_bits: float, workers: int, energy: float) -> dict[str, Any]:
    actions = [{"name": action, "energy": energy, "throughput": "inf"} for action in ("read", "write")]
    node = {"type": "Memory", "name": name, "size": "inf" if math.isinf(size_bits) else size_bits, "actions": actions}
    # C is read before it is added to
    node |= {"leak_power": 0, "area": 0, "skip_initial_output_write": False}
    if workers > 1:
        node["spatial"] = [{"name": WORKERS, "fanout": workers, "may_reuse": "Nothing"}]
    return node


def loop_tree(plan: MatmulPlan) -> Mapping:
    """The loops and storage nodes of the plan, from main memory to single multiply-adds."""
    nodes: list[Node] = [Storage(TENSORS, plan.machine.main)]
    parent = plan.product.size
    for stage, choice in zip(plan.stages, plan.choices, strict=True):
        nodes += _level(stage, choice, parent)
        parent = choice.block
    nodes += [_temporal(d, 1) for d, size in enumerate(parent) if size > 1]
    return Mapping((*nodes, Compute("C", plan.machine.compute.name)))


def _level(stage: Stage, choice: Choice, parent: Sizes) -> Iterator[Node]:
    """Loops over resident blocks, workers, the resident block, the innermost loop, the streamed blocks."""
    algorithm, name = choice.algorithm, stage.level.name
    for d in algorithm.outer:
        if choice.block[d] < parent[d]:
            yield _temporal(d, choice.block[d])
    if choice.workers > 1:
        inner = DIMENSIONS[algorithm.inner]
        yield Spatial(PerEinsum(inner), PerEinsum(choice.chunk), name, WORKERS)
    yield from _storage(stage, (algorithm.resident,))
    if choice.block[algorithm.inner] < min(choice.chunk, parent[algorithm.inner]):
        yield _temporal(algorithm.inner, choice.block[algorithm.inner])
    yield from _storage(stage, algorithm.streamed)


def _storage(stage: Stage, tensors: tuple[str, ...]) -> Iterator[Storage]:
    held = tuple(tensor for tensor in tensors if stage.moved[TENSORS.index(tensor)])
    if held:
        yield Storage(held, stage.level.name)


def _temporal(dimension: int, tile: int) -> Temporal:
    return Temporal(PerEinsum(DIMENSIONS[dimension]), PerEinsum(tile))
