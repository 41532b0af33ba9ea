"""Lessons with a question: tables of plans over processing elements and of plans of one product, and right answers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import takewhile

from einmap.distribute.costs.cost import communication
from einmap.distribute.plans.plan import BYTES
from einmap.distribute.read import plan_of
from einmap.einsum.notation.pretty import pretty_einsums
from einmap.einsum.rewrites.delay import delay_reduction
from einmap.einsum.rewrites.partition import split
from einmap.frontends.yaml.spec import load
from einmap.matmul.algorithms import Algorithm
from einmap.matmul.machine.machine import DIMENSIONS
from einmap.matmul.machine.read_machine import load_machine
from einmap.matmul.plan import plan_matmul
from einmap.matmul.result import PlannedLevel
from einmap.units import format_count

type Table = list[list[str]]

PARTS = 4
"""Processing elements of all plans."""
PRODUCTS = {
    "reduce-scatter": "matmul_reduce_scatter",
    "all-reduce": "matmul_all_reduce",
    "all-gather": "matmul_all_gather_b",
}
"""Ways to distribute a product, by what is sent."""
CUBE = {"M": 64, "K": 64, "N": 64}
LONG = {"M": 16, "K": 1024, "N": 16}
"""Sizes of the product in the table, and of that in the question."""
LAYERS = {"model": "feed_forward_columns_rows", "data": "feed_forward_fsdp"}
"""Ways to distribute two products of a layer: its weights are split, or its tokens."""
TOKENS = tuple(2**power for power in range(4, 13))
LARGE = (4096, 4096, 16384)
FLAT = (64, 4096, 4096)
"""(m, k, n) of the product in the multi-level table, and of that in the question."""


@cache
def _sent(workload: str, distribution: str, **sizes: int) -> tuple[str, float]:
    """Collectives of a plan between processing elements, and how many values each of them sends."""
    plan = plan_of(load(workload, distribution, define={**sizes, "G": PARTS}))
    done = communication(plan)
    named = ", ".join(f"{one.kind.replace('_', '-')} of {one.tensor}" for one in done)
    return named, sum(one.total_sent_bytes for one in done) / BYTES[plan.dtype]


def delayed_table() -> Table:
    """Values that are sent by each way to distribute a product."""
    rows = [["M, K, N", "what is exchanged", "values that each PE sends"]]
    for distribution in PRODUCTS.values():
        named, values = _sent("matmul", distribution, **CUBE)
        rows.append([", ".join(map(str, CUBE.values())), named, format_count(values)])
    return rows


def delayed_einsums() -> str:
    """The product with the reduction over the processing elements in an Einsum of its own."""
    workload = load("matmul", define=CUBE).workload
    return pretty_einsums(delay_reduction(split(workload, "K", CUBE["K"] // PARTS), "K1"))


def least_sent() -> str:
    """The way to distribute the long product that sends least."""
    return min(PRODUCTS, key=lambda name: _sent("matmul", PRODUCTS[name], **LONG)[1])


def parallel_table() -> Table:
    """Values that are sent by each way to distribute a layer, for few tokens."""
    rows = [["tokens", "parallel over", "what is exchanged", "values that each PE sends"]]
    for tokens in (TOKENS[0], TOKENS[2]):
        for name, distribution in LAYERS.items():
            named, values = _sent("feed_forward", distribution, N_TOKENS=tokens)
            rows.append([str(tokens), name, named, format_count(values)])
    return rows


def first_for_data() -> str:
    """The smallest number of tokens from which on data parallelism sends less, of those that are asked about."""

    def model_is_better(tokens: int) -> bool:
        model, data = (_sent("feed_forward", distribution, N_TOKENS=tokens)[1] for distribution in LAYERS.values())
        return model <= data

    return str(TOKENS[len(list(takewhile(model_is_better, TOKENS)))])


def algorithms_table() -> Table:
    """The three algorithms of one level."""
    rows = [["algorithm", "stays", "innermost loop", "stream by"]]
    return rows + [
        [str(one.value), one.resident, DIMENSIONS[one.inner], " and ".join(one.streamed)] for one in Algorithm
    ]


def levels_table() -> Table:
    """Choices of each memory of a hierarchy for one product."""
    rows = [["memory", "algorithm", "keeps", "block of m", "k", "n", "values moved in and out: A", "B", "C"]]
    for level in plan_matmul(*LARGE, "chiplet_256", dtype="fp8", fit="resident").levels:
        rows.append([level.stage.level.name, str(level.choice.algorithm.value), *_kept(level)])
    return rows


def _kept(level: PlannedLevel) -> list[str]:
    moved = [format_count(one.values) for one in level.traffic.moves]
    return [level.choice.algorithm.resident, *map(str, level.choice.block), *moved]


def kept_by_a_cache() -> str:
    """The matrix that a cache keeps in the best plan of the flat product."""
    machine = load_machine("cpu_core")
    alone = replace(machine, levels=tuple(level for level in machine.levels if level.name == "L2"))
    (level,) = plan_matmul(*FLAT, alone, dtype="fp32").levels
    return level.choice.algorithm.resident
