"""What is put into random cases that the simulator runs: all that it is to judge."""

from __future__ import annotations

import random
from functools import partial

from tests.random_specs import features
from tests.random_specs.nodes import Put, Tree, memories, nodes

import einmap

PORTS = features.PORTS[:4]


def buffers_and_ports(rng: random.Random, tree: Tree) -> None:
    """Ports, banks, buffering and transfers that take time to begin; lanes that begin one after another."""
    for node in nodes(tree["arch"]["nodes"]):
        if node["type"] == "Memory" and "total_latency" not in node:
            node["buffering"] = rng.choice(("ideal", "double", "single", "single"))
            if node["buffering"] != "single" and rng.random() < 0.5:
                node["wind_up"] = True
            if rng.random() < 0.5:
                node["ports"] = rng.choice(PORTS)
                node["banks"] = {"number": rng.choice((1, 2, 5)), "conflicts": rng.choice(("none", "random"))}
            for action in node["actions"]:
                action["startup"] = rng.choice((0, 0, 2, 9))
        for dimension in node.get("spatial", ()):
            dimension["skew"] = rng.choice(("none", "once", "each_fold"))


def lines(rng: random.Random, tree: Tree) -> None:
    """Layouts, and interleaved banks or memories that take turns."""
    einsums = einmap.Spec.from_dict(tree).workload.einsums
    ranks = {access.tensor: [rank for rank, _ in access.projection] for e in einsums for access in e.accesses}
    takes_turns = rng.random() < 0.4
    for node in memories(tree):
        if rng.random() < 0.7:
            layout = node["layout"] = {"line": rng.choice((64, 96, 100, 256)), "order": {}, "block": {}}
            for tensor, names in ranks.items():
                if not names or rng.random() < 0.3:
                    continue
                if rng.random() < 0.6:
                    layout["order"][tensor] = rng.sample(names, len(names))
                else:
                    layout["block"][tensor] = {rng.choice(names): rng.choice((1, 2, 3))}
            if not layout["order"] and not layout["block"]:
                del node["layout"]
            elif "total_latency" not in node and not takes_turns and rng.random() < 0.6:
                node["banks"] = {"number": rng.choice((1, 2, 3, 4)), "conflicts": "interleaved"}
                if rng.random() < 0.4:
                    tensor = rng.choice([*layout["order"], *layout["block"]])
                    node["banks"]["interleave"] = {tensor: {rng.choice(ranks[tensor]): rng.choice((0, 1, 2, 3))}}
            elif "total_latency" not in node and takes_turns and rng.random() < 0.4:
                node["buffering"] = "single"
            if rng.random() < 0.5 and "layout" in node:
                layout["lanes"] = "together"


def partial_sums(rng: random.Random, tree: Tree) -> None:
    """A width of its own for the partial sums of all outputs."""
    tree["workload"]["bits_per_value"] = {"All": rng.choice((4, 8))}
    tree["workload"]["partial_bits_per_value"] = {"Outputs": rng.choice((12, 32))}
    for einsum in tree["workload"]["einsums"]:
        for access in einsum.get("tensor_accesses", ()) if isinstance(einsum, dict) else ():
            access.pop("bits_per_value", None)


def a_pipeline(rng: random.Random, tree: Tree) -> bool:
    """Make a split a Pipeline, its stages on lanes of a fanout of their own; whether there was one."""
    splits = [node for node in nodes(tree["mapping"]["nodes"]) if node["type"] == "Sequential"]
    if not splits:
        return False
    split = rng.choice(splits)
    split |= {"type": "Pipeline", "component": "Stages", "name": "S"}
    stages = {"type": "Container", "name": "Stages", "spatial": [{"name": "S", "fanout": len(split["nodes"])}]}
    arch = tree["arch"]["nodes"]
    arch.insert(rng.randint(max(1, len(arch) - 2), len(arch) - 1), stages)
    for node in nodes(arch):
        if "power_gateable" in str(node):
            node["leak_power"] = 0
    return True


OPTIONS: dict[str, Put] = {
    "buffers and ports": buffers_and_ports,
    "pipeline_latency": partial(features.pipelines, seconds=(0, 5, 40, 300)),
    "layout": lines,
    "partial sums": partial_sums,
    "stalls": features.stalls,
    "overlap": partial(features.overlap, p=0.95),
}
"""Those that go together with each other, most of them."""
