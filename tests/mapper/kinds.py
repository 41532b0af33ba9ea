"""Random problems of one Einsum of kinds that are rare or missing in `problems`: several of them in each."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.mapper.problems import draw_problem

type Problem = dict[str, Any]

COMPOSITE = (12, 16, 18, 20, 24, 30, 36, 48, 60)
SUM = "sum(a.n_calls / a.throughput for a in actions)"
LARGEST = "max(a.n_calls / a.throughput for a in actions)"
LATENCIES = (
    f"3 * {SUM}",
    f"{LARGEST} / 2",
    f"{LARGEST} + {SUM}",
    f"{SUM} ** 2",
    f"{LARGEST} + 7",
    "min(a.n_calls / a.throughput for a in actions)",
    f"ceil({SUM} / 4)",
    "11",
)


def composite(rng: random.Random, problem: Problem) -> None:
    """One rank of many divisors, or two; the others are small."""
    sizes = problem["workload"]["rank_sizes"]
    many = rng.sample(sorted(sizes), min(len(sizes), rng.choice((1, 1, 2))))
    for rank in sizes:
        sizes[rank] = rng.choice(COMPOSITE) if rank in many else rng.choice((1, 2))


def widths(rng: random.Random, problem: Problem) -> None:
    """Bits of each tensor by itself, in the workload and in memories, none among them."""
    problem["workload"]["bits_per_value"] = {tensor: rng.choice((1, 4, 8, 8, 16)) for tensor in "ABZ"}
    for node in memories(problem):
        tensors = [tensor for tensor in "ABZ" if rng.random() < 0.4]
        if tensors:
            node["bits_per_value"] = {tensor: rng.choice((0, 2, 8, 12, 32)) for tensor in tensors}


def latencies(rng: random.Random, problem: Problem) -> None:
    """Busy times that are not plain sum: some are maxima or multiples, some such that only brute force can be used."""
    for node in memories(problem):
        if rng.random() < 0.6:
            node["total_latency"] = rng.choice(LATENCIES)
        for action in node["actions"]:
            action["throughput"] = rng.choice((1, 2, 3, 4, 8))


def tile_shapes(rng: random.Random, problem: Problem) -> None:
    """Limits of tile shapes from above, from below and to a value."""
    names = variables(problem)
    for node in memories(problem)[1:]:
        if rng.random() < 0.7:
            which = rng.choice((rng.choice(names), f"~{rng.choice(names)}", "All.rank_variables"))
            operator = rng.choice(("==", ">=", ">", "<", "<=", "product<=", "product==", "product>="))
            limit = {"expression": which, "operator": operator, "value": rng.choice((1, 1, 2, 2, 3, 4))}
            node["tensors"]["tile_shape"] = [limit]


def loop_bounds(rng: random.Random, problem: Problem) -> None:
    """Limits of what stands on a fanout."""
    names = variables(problem)
    for dimension in dimensions(problem):
        if rng.random() < 0.7:
            which = rng.choice((rng.choice(names), f"~{rng.choice(names)}", "All.rank_variables"))
            operator = rng.choice(("==", ">=", "<", "<=", "product<=", "product==", "product>="))
            dimension["loop_bounds"] = [{"expression": which, "operator": operator, "value": rng.choice((1, 1, 2, 3))}]


def no_lanes(rng: random.Random, problem: Problem) -> None:
    """Fanouts of which nothing may be used, or that are one lane wide."""
    for dimension in dimensions(problem):
        if rng.random() < 0.5:
            dimension["fanout"] = 1
            dimension.pop("loop_bounds", None)
        elif rng.random() < 0.5:
            dimension["loop_bounds"] = [{"expression": "All.rank_variables", "operator": "==", "value": 1}]
        dimension.pop("min_usage", None)


def odd_fanouts(rng: random.Random, problem: Problem) -> None:
    """Lanes on each memory but the outermost one, in numbers that divide no rank."""
    for node in memories(problem)[1:]:
        if rng.random() < 0.6:
            node["spatial"] = [
                {"name": "own", "fanout": rng.choice((2, 3, 5, 7)), "may_reuse": rng.choice(("All", "A"))}
            ]


KINDS: tuple[Callable[[random.Random, Problem], None], ...] = (
    composite, widths, latencies, tile_shapes, loop_bounds, no_lanes, odd_fanouts,
)  # fmt: skip


def draw_kinds(rng: random.Random) -> Problem:
    """A problem of one to three of the kinds."""
    problem = draw_problem(rng)
    for kind in rng.sample(KINDS, rng.choice((1, 2, 3))):
        kind(rng, problem)
    return problem


def two_outputs(rng: random.Random) -> Problem:
    """A problem whose Einsum writes two tensors."""
    problem = draw_problem(rng)
    for node in memories(problem):
        node["tensors"].pop("tile_shape", None)
    for dimension in dimensions(problem):
        dimension.pop("loop_bounds", None)
    projections = {"A": ["m", "k"], "B": ["k"], "Z": ["m"], "Y": rng.choice((["m"], ["k"], ["m", "k"]))}
    accesses = [{"name": t, "projection": found, "output": t in "ZY"} for t, found in projections.items()]
    problem["workload"]["einsums"] = [{"name": "Z", "tensor_accesses": accesses}]
    problem["workload"]["rank_sizes"] = {"M": rng.choice((2, 3, 4)), "K": rng.choice((2, 3))}
    return problem


def memories(problem: Problem) -> list[dict[str, Any]]:
    """The memories, outermost first."""
    return [node for node in problem["arch"]["nodes"] if node["type"] == "Memory"]


def dimensions(problem: Problem) -> list[dict[str, Any]]:
    """All dimensions of fanouts."""
    return [dimension for node in problem["arch"]["nodes"] for dimension in node.get("spatial", ())]


def variables(problem: Problem) -> list[str]:
    """Rank variables of the Einsum."""
    return [rank.lower() for rank in problem["workload"]["rank_sizes"]]
