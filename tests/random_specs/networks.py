"""Random problems whose architecture has a network."""

from __future__ import annotations

import random
from typing import Any

from tests.random_specs.nodes import Tree, dimensions, memories
from tests.random_specs.problems import EINSUMS, draw_array, draw_problem

TOPOLOGIES = ("mesh", "mesh", "all_to_all")
ROUND = ("torus", "ring", "bus")
HANDED_ON = ("tree", "systolic")


def network(rng: random.Random, name: str = "Noc", topologies: tuple[str, ...] = TOPOLOGIES) -> Tree:
    """A network whose hops, routes and links cost something, most of the time."""
    hop = {
        "name": "hop",
        "energy": rng.choice((0, 1, 3, 10)),
        "latency": rng.choice((0, 0, 5, 40)),
        "throughput": rng.choice(("inf", 0.5, 1, 2, 4)),
    }
    found = {"type": "Network", "name": name, "area": 0, "leak_power": 0, "actions": [hop]}
    found["topology"] = rng.choice(topologies)
    for field, value in (("multicast", False), ("reduction", "at_parent"), ("links", "per_tensor")):
        if rng.random() < 0.25:
            found[field] = value
    if rng.random() < 0.2:
        found["actions_scale"] = 2
    if rng.random() < 0.2:
        found["bits_per_value"] = {"Z": 16, "Other": 8}
    return found


def with_network(rng: random.Random, problem: Tree, topologies: tuple[str, ...] = TOPOLOGIES) -> Tree:
    """The problem with one network above its lanes, or two."""
    nodes = problem["arch"]["nodes"]
    for number in range(rng.choice((1, 1, 1, 2))):
        nodes.insert(rng.randrange(1, len(nodes)), network(rng, f"Noc{number}", topologies))
    for node in memories(problem):
        for action in node["actions"]:
            action["throughput"] = rng.choice((1, 4, 16, "inf"))
    return problem


def draw(rng: random.Random, topologies: tuple[str, ...] = TOPOLOGIES) -> Tree:
    """A problem of one Einsum, its lanes in one or two places."""
    problem = draw_array(rng) if rng.random() < 0.5 else draw_problem(rng)
    for dimension in dimensions(problem):
        dimension["fanout"] = min(dimension["fanout"], 4)
    return with_network(rng, problem, topologies)


def draw_wide(rng: random.Random, topologies: tuple[str, ...]) -> Tree:
    """A problem of few tile shapes whose first fanout is long, so that round a ring some lanes are nearer backward."""
    text, ranks = rng.choice(EINSUMS[:4])
    sizes = {rank: rng.choice((1, 2, 3)) for rank in ranks}
    for rank in rng.sample(sorted(ranks), 2):
        sizes[rank] *= rng.choice((2, 3, 4))
    found = network(rng, topologies=topologies)
    found["actions"][0]["throughput"] = rng.choice((0.25, 0.5, 1))
    fanouts = [{"name": "X", "fanout": rng.choice((5, 6, 7, 8, 9, 12)), "min_usage": rng.choice((0, 0.5, 1))}]
    if rng.random() < 0.5:
        fanouts.insert(rng.randrange(2), {"name": "Y", "fanout": rng.choice((2, 3)), "min_usage": rng.choice((0, 1))})
    for fanout in fanouts:
        fanout["may_reuse"] = rng.choice(("All", "All", "Inputs", "A", "B | Z", "Nothing"))
    main, *_, unit = draw_problem(rng)["arch"]["nodes"]
    main["tensors"] = {"keep": "All"}
    unit.pop("spatial", None)
    below = {"type": "Memory", "name": "REG", "size": "inf", "leak_power": 0, "area": 0, "tensors": {"keep": "All"}}
    below["actions"] = [{"name": name, "energy": 1, "throughput": "inf"} for name in ("read", "write")]
    below["spatial"] = fanouts
    return {
        "arch": {"nodes": [main, found, below, unit]},
        "workload": {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": [text]},
    }


def draw_two_places(rng: random.Random, topologies: tuple[str, ...] = (*TOPOLOGIES, *ROUND, *HANDED_ON)) -> Tree:
    """A matrix product on lanes that reduce above a network that has lanes, too."""

    def memory(name: str, keep: str, **more: Any) -> Tree:
        actions = [{"name": name, "energy": rng.choice((0, 0, 1)), "throughput": 4} for name in ("read", "write")]
        found = {"type": "Memory", "name": name, "size": "inf", "leak_power": 0, "area": 0, "actions": actions}
        found["skip_initial_output_write"] = rng.random() < 0.7
        return {**found, "tensors": {"keep": keep}, **more}

    outer = {"name": "X", "fanout": rng.choice((2, 3)), "may_reuse": "All"}
    inner = {"name": "Y", "fanout": rng.choice((2, 3, 4)), "may_reuse": rng.choice(("All", "Inputs"))}
    between = network(rng, topologies=topologies)
    between["actions"][0]["energy"] = rng.choice((3, 10, 30))
    unit = {"type": "Compute", "name": "MAC", "leak_power": 0, "area": 0}
    unit["actions"] = [{"name": "compute", "energy": 0, "throughput": "inf"}]
    nodes = [memory("D", "All"), memory("L1", "Z", spatial=[outer]), between, memory("L2", "Z", spatial=[inner]), unit]
    sizes = {"M": rng.choice((1, 2, 4)), "N": rng.choice((2, 3)), "K": rng.choice((2, 4, 6))}
    return {
        "arch": {"nodes": nodes},
        "workload": {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": [EINSUMS[0][0]]},
    }


def draw_round(rng: random.Random) -> Tree:
    """The same on a torus, a ring or a bus."""
    return draw(rng, ROUND)


def draw_handed_on(rng: random.Random) -> Tree:
    """The same on a tree or a systolic array."""
    return draw(rng, HANDED_ON)
