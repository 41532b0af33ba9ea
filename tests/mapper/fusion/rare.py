"""Random cascades with what other drawers have seldom or never: Einsums that overlap with latencies
and costs of their own; leakage as the objective; lines in banks; networks with hops that differ by Einsum.
"""

from __future__ import annotations

import random
from typing import Any

from tests.mapper.fusion.by_einsum import ALIKE, CASCADES_ALIKE, ByEinsum, costs, instances, latency, networks, widths
from tests.mapper.fusion.problems import draw_problem
from tests.mapper.kinds import dimensions, memories
from tests.mapper.latency_options import ports, startup
from tests.mapper.layouts import add_layouts
from tests.mapper.networks import HANDED_ON, ROUND, TOPOLOGIES, with_network

from einmap.spec.spec import Spec

type Data = dict[str, Any]

KINDS = ("overlap", "leakage", "banks", "network")
METRICS = ("latency", "energy", "energy_delay_product", "leak_energy", "dynamic_energy")


def leakage(rng: random.Random, data: Data) -> None:
    """Everything leaks, and some lanes need not."""
    for node in data["arch"]["nodes"]:
        if "leak_power" in node:
            node["leak_power"] = rng.choice((0, 1, 2, 7))
    for dimension in dimensions(data):
        dimension["power_gateable"] = rng.random() < 0.6


def banks(rng: random.Random, data: Data) -> None:
    """Lines of which some lie in banks."""
    add_layouts(rng, data, Spec.from_dict(data).workload)
    for node in memories(data):
        if "layout" in node and rng.random() < 0.8:
            node.pop("total_latency", None)
            node["banks"] = {"number": rng.choice((2, 3, 4)), "conflicts": "interleaved"}


def lanes(rng: random.Random, data: Data) -> None:
    """Lanes where there are none."""
    if not dimensions(data):
        dimension = {"name": "X", "fanout": rng.choice((2, 3, 4)), "may_reuse": rng.choice(("All", "Inputs"))}
        data["arch"]["nodes"][-1]["spatial"] = [dimension]


def draw_rare(rng: random.Random, kind: str) -> tuple[Spec, str, tuple[float, float]]:
    """A specification, a metric, and the most fused loops in all and over one rank variable."""
    drawn = draw_problem(rng, tuple(CASCADES_ALIKE), small=True, more=ALIKE)
    data, metric = drawn.data, rng.choice(METRICS[:3])
    by = ByEinsum(rng, data)
    match kind:
        case "overlap":
            data["model"] = {"overlap_einsums": True}
            for node in data["arch"]["nodes"]:
                if "leak_power" in node:
                    node["leak_power"] = 0
            for option in rng.sample((ports, startup, lanes), rng.choice((0, 1, 2))):
                option(rng, data)
            for difference in rng.sample((latency, instances, widths, costs), rng.choice((1, 1, 2))):
                difference(rng, by)
            for node in memories(data):
                if "total_latency" in node:
                    node.pop("ports", None)
                    node.pop("banks", None)
        case "leakage":
            metric = rng.choice(METRICS[1:])
            lanes(rng, data)
            leakage(rng, data)
            if rng.random() < 0.5:
                rng.choice((latency, widths, instances))(rng, by)
        case "banks":
            banks(rng, data)
        case "network":
            lanes(rng, data)
            with_network(rng, data, rng.choice((TOPOLOGIES, ROUND, HANDED_ON)))
            networks(rng, by)
            if rng.random() < 0.4:
                leakage(rng, data)
    return Spec.from_dict(data), metric, (drawn.max_fused_loops, drawn.per_variable)
