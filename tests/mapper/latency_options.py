"""Random problems of one Einsum whose machine has ports, banks and other facts that change the latency alone."""

from __future__ import annotations

import random
from typing import Any

from tests.mapper.kinds import dimensions, memories
from tests.mapper.problems import draw_problem

type Problem = dict[str, Any]

PORTS = (
    {"read": 1, "write": 1}, {"read_write": 2}, {"read": 1, "read_write": 1}, {"write": 2, "read_write": 1},
    {"read": 2, "write": 1},
)  # fmt: skip


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
        if node["buffering"] != "single" and rng.random() < 0.5:
            node["wind_up"] = True


def startup(rng: random.Random, problem: Problem) -> None:
    """Transfers that take time to begin."""
    for node in memories(problem):
        for action in node["actions"]:
            if rng.random() < 0.5:
                action["startup"] = rng.choice((0.5, 3, 20))


def pipelines(rng: random.Random, problem: Problem) -> None:
    """Actions whose values come later, as long as some of these problems take."""
    for node in problem["arch"]["nodes"]:
        if node["type"] in ("Memory", "Compute"):
            for action in node["actions"]:
                action["pipeline_latency"] = rng.choice((0, 0, 3, 20, 150))


def skew(rng: random.Random, problem: Problem) -> None:
    """Lanes that begin one after another."""
    for dimension in dimensions(problem):
        dimension["skew"] = rng.choice(("none", "once", "each_fold", "each_fold"))


OPTIONS = (ports, buffering, startup, skew)


def draw(rng: random.Random) -> Problem:
    """A problem with such options, most with time that matters."""
    problem = draw_problem(rng)
    for option in rng.sample(OPTIONS, rng.randint(1, len(OPTIONS))):
        option(rng, problem)
    for node in memories(problem):
        for action in node["actions"]:
            action["throughput"] = rng.choice((1, 2, 3, 4, 8, "inf"))
    return problem


def draw_skewed(rng: random.Random) -> Problem:
    """A problem with skewed dimensions, most of them in one place, whose compute is what takes time."""
    problem = draw_problem(rng)
    nodes = [node for node in problem["arch"]["nodes"] if node["type"] != "Container"]
    for node in nodes:
        node.pop("spatial", None)
    spatial = [{"name": name, "fanout": rng.choice((2, 4, 6))} for name in ("X", "Y")]
    nodes.insert(rng.randrange(1, len(nodes)), {"type": "Container", "name": "Array", "spatial": spatial})
    problem["arch"]["nodes"] = nodes
    for option in (skew, *rng.sample((buffering, startup), rng.randint(0, 2))):
        option(rng, problem)
    for node in memories(problem):
        for action in node["actions"]:
            action["throughput"] = rng.choice((16, "inf"))
    nodes[-1]["actions"][0]["throughput"] = 0.25
    return problem


def draw_pipelined(rng: random.Random) -> Problem:
    """A problem whose values are on their way for a while, some with other options."""
    problem = draw(rng)
    pipelines(rng, problem)
    return problem
