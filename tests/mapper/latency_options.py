"""Random problems of one Einsum whose machine has ports, banks and other facts that change the latency alone."""

from __future__ import annotations

import random
from typing import Any

from tests.mapper.kinds import memories
from tests.mapper.problems import draw_problem

type Problem = dict[str, Any]

PORTS = (
    {"read": 1, "write": 1},
    {"read_write": 2},
    {"read": 1, "read_write": 1},
    {"write": 2, "read_write": 1},
    {"read": 2, "write": 1},
)


def ports(rng: random.Random, problem: Problem) -> None:
    """Ports and banks on some memories."""
    for node in memories(problem):
        if rng.random() < 0.7:
            node.pop("total_latency", None)
            node["ports"] = rng.choice(PORTS)
            if rng.random() < 0.5:
                node["banks"] = {"number": rng.choice((1, 2, 3, 8)), "conflicts": rng.choice(("none", "random"))}


def buffering(rng: random.Random, problem: Problem) -> None:
    """Buffers of some memories."""
    for node in memories(problem):
        node["buffering"] = rng.choice(("ideal", "double", "single", "single"))


OPTIONS = (ports, buffering)


def draw(rng: random.Random) -> Problem:
    """A problem with such options, most with time that matters."""
    problem = draw_problem(rng)
    for option in rng.sample(OPTIONS, rng.randint(1, len(OPTIONS))):
        option(rng, problem)
    for node in memories(problem):
        for action in node["actions"]:
            action["throughput"] = rng.choice((1, 2, 3, 4, 8, "inf"))
    return problem
