"""Random specifications whose architecture has an array of memories that are several units."""

from __future__ import annotations

import random
from typing import Any

type Case = dict[str, Any]

EINSUMS = (
    "Z[m, n] = A[m, k] * B[k, n]",
    "Z[m, n] = A[m, k] * B[k, n]",
    "Z[m] = A[m, n] * B[n]",
    "Z[m, n] = A[m] * B[n]",
    "Z[m, c] = A[c, H: m + s] * B[s]",
)


def divisor(rng: random.Random, n: int) -> int:
    """A divisor of n."""
    return rng.choice([d for d in range(1, n + 1) if n % d == 0])


def actions(rng: random.Random, *names: str) -> list[Case]:
    """Actions with some energy and throughput."""
    return [{"name": n, "energy": rng.randint(1, 9), "throughput": rng.choice([1, 2, 8, "inf"])} for n in names]


def memory(rng: random.Random, name: str, **more: Any) -> Case:
    """One `!Memory`."""
    found = {"type": "Memory", "name": name, "size": 1e6, "area": 1, "leak_power": 0}
    return {**found, "actions": actions(rng, "read", "write"), **more}


def draw_array(rng: random.Random, lanes: dict[str, int], replicated: tuple[str, ...]) -> list[Case]:
    """The nodes inside an array."""
    nodes = []
    for number in range(rng.choice([1, 1, 2])):
        units = [{"name": name, "fanout": divisor(rng, n)} for name, n in lanes.items() if rng.random() < 0.8]
        more: Case = {"spatial": units}
        copies = [tensor for tensor in replicated if rng.random() < 0.4]
        if copies:
            more["replicate"] = " | ".join(copies)
        nodes.append(memory(rng, f"Buf{number}", **more))
    if rng.random() < 0.2:
        nodes.append(
            {"type": "Toll", "name": "Gate", "direction": "up_and_down", "area": 0, "leak_power": 0}
            | {"actions": actions(rng, "read")}
        )
    if rng.random() < 0.8:
        hop = {"name": "hop", "energy": 1, "latency": rng.choice([0, 1, 3]), "throughput": rng.choice([1, 4, "inf"])}
        network = {"type": "Network", "name": "Noc", "area": 0, "leak_power": 0, "actions": [hop]}
        network["topology"] = rng.choice(["mesh", "mesh", "all_to_all"])
        for field, value in (("multicast", False), ("reduction", "at_parent"), ("links", "per_tensor")):
            if rng.random() < 0.25:
                network[field] = value
        nodes.append(network)
    return nodes


class Tree:
    """A mapping that is being drawn; tile shapes divide evenly."""

    def __init__(self, rng: random.Random, sizes: dict[str, int]) -> None:
        self.rng = rng
        self.left = dict(sizes)
        self.nodes: list[Case] = [{"type": "Storage", "tensors": ["A", "B", "Z"], "component": "DRAM"}]

    def temporal(self, most: int) -> None:
        """Some loops in time."""
        variables = list(self.left)
        for variable in self.rng.sample(variables, k=self.rng.randint(0, min(most, len(variables)))):
            self.left[variable] = divisor(self.rng, self.left[variable])
            self.nodes.append({"type": "Temporal", "rank_variable": variable, "tile_shape": self.left[variable]})

    def spatial(self, component: str, name: str, fanout: int, most: int) -> None:
        """Some loops over the lanes of one dimension."""
        for _ in range(self.rng.randint(0, most)):
            variable = self.rng.choice(list(self.left))
            counts = [d for d in range(1, self.left[variable] + 1) if self.left[variable] % d == 0 and d <= fanout]
            count = max(counts) if self.rng.random() < 0.5 else self.rng.choice(counts)
            fanout //= count
            self.left[variable] //= count
            loop = {"type": "Spatial", "rank_variable": variable, "tile_shape": self.left[variable]}
            self.nodes.append({**loop, "component": component, "name": name})

    def keep(self, node: Case, part: float) -> None:
        """Some tensors in a memory, or past a toll."""
        kept = [tensor for tensor in "ABZ" if self.rng.random() < part]
        kind = "Storage" if node["type"] == "Memory" else "Toll"
        self.nodes += [{"type": kind, "tensors": kept, "component": node["name"]}] if kept else []


def draw_arrays(rng: random.Random) -> Case:
    """A specification of one Einsum with a mapping; some are refused."""
    text = rng.choice(EINSUMS)
    variables = sorted({c for c in text if c in "mnkcs"})
    sizes = {v: rng.choice([1, 2, 3, 4, 4, 6, 8]) for v in variables}
    lanes = {"X": rng.choice([2, 4, 4, 6, 8]), "Y": rng.choice([1, 2, 4])}
    dimensions: list[Case] = [{"name": name, "fanout": n} for name, n in lanes.items()]
    for dimension in dimensions:
        if rng.random() < 0.25:
            dimension["may_reuse"] = rng.choice(["Nothing", "A", "A | B", "Z"])
    inside = draw_array(rng, lanes, ("A", "B"))
    chip = {"type": "Container", "name": "Chip", "spatial": [{"name": "C", "fanout": 2}]}
    above = [chip] if rng.random() < 0.2 else []
    wide = {"spatial": [{"name": "V", "fanout": 2}]} if rng.random() < 0.2 else {}
    below = [memory(rng, "Reg", **wide)] if rng.random() < 0.6 else []
    mac = {"type": "Compute", "name": "MAC", "area": 0, "leak_power": 0, "actions": actions(rng, "compute")}
    array = {"type": "Array", "name": "Array", "spatial": dimensions, "nodes": inside}
    tree = Tree(rng, sizes)
    tree.temporal(2)
    tree.spatial("Chip", "C", 2, len(above))
    for node in inside:
        if node["type"] != "Network":
            tree.keep(node, 0.6)
            tree.temporal(1)
    for name in rng.sample(list(lanes), k=len(lanes)):
        tree.spatial("Array", name, lanes[name], 2)
    for node in below:
        tree.temporal(1)
        tree.spatial("Reg", "V", 2, len(wide))
        tree.keep(node, 0.7)
    tree.temporal(1)
    rest = [{"type": "Temporal", "rank_variable": v, "tile_shape": 1} for v in variables if tree.left[v] > 1]
    nodes = [*tree.nodes, *rest, {"type": "Compute", "einsum": "Z", "component": "MAC"}]
    bounds = {v: f"0 <= {v} < {n}" for v, n in sizes.items()}
    workload = {"iteration_space_shape": bounds, "bits_per_value": {"All": 8}, "einsums": [text]}
    return {
        "arch": {"nodes": [memory(rng, "DRAM"), *above, array, *below, mac]},
        "workload": workload,
        "mapping": {"nodes": nodes},
    }
