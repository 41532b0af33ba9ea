"""Random layouts for the memories of a random problem."""

from __future__ import annotations

import random
from typing import Any

from tests.mapper.kinds import memories

from einmap.einsum.workload import Workload

type Problem = dict[str, Any]


def add_layouts(rng: random.Random, problem: Problem, workload: Workload, *, inside: bool = False) -> None:
    """Give some memories layouts, the outermost one most of the time; `inside`: those that fanouts spread, too."""
    ranks = {a.tensor: [rank for rank, _ in a.projection] for e in workload.einsums for a in e.accesses}
    spread = [node["name"] for node in problem["arch"]["nodes"] if node.get("spatial")]
    nodes = [node["name"] for node in problem["arch"]["nodes"]]
    for i, node in enumerate(memories(problem)):
        if spread and nodes.index(spread[0]) <= nodes.index(node["name"]) and not inside:
            continue
        if rng.random() < (0.8 if i == 0 else 0.3):
            layout = node["layout"] = {"line": rng.choice((64, 96, 160)), "order": {}, "block": {}}
            for tensor in rng.sample(sorted(ranks), rng.randint(1, len(ranks))):
                if rng.random() < 0.6:
                    layout["order"][tensor] = rng.sample(ranks[tensor], len(ranks[tensor]))
                else:
                    layout["block"][tensor] = {rng.choice(ranks[tensor]): rng.choice((2, 3, 4))}
