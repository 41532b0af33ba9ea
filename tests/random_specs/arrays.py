"""Random specifications whose architecture has an array of memories that are several units."""

from __future__ import annotations

import random
from typing import Any

type Case = dict[str, Any]

EINSUMS = (
    "Z[m, n] = A[m, k] * B[k, n]", "Z[m, n] = A[m, k] * B[k, n]", "Z[m] = A[m, n] * B[n]", "Z[m, n] = A[m] * B[n]",
    "Z[m, c] = A[c, H: m + s] * B[s]",
)  # fmt: skip


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


def draw_machine(rng: random.Random, most: int = 8) -> Case:
    """A specification of one Einsum without a mapping."""
    text = rng.choice(EINSUMS)
    variables = sorted({c for c in text if c in "mnkcs"})
    sizes = {v: min(rng.choice([1, 2, 3, 4, 4, 6, 8]), most) for v in variables}
    dimensions: list[Case] = [{"name": "X", "fanout": min(rng.choice([2, 4, 4, 6, 8]), most)}]
    dimensions.append({"name": "Y", "fanout": rng.choice([1, 2, 4])})
    for dimension in dimensions:
        if rng.random() < 0.25:
            dimension["may_reuse"] = rng.choice(["Nothing", "A", "A | B", "Z"])
    inside = draw_array(rng, {d["name"]: d["fanout"] for d in dimensions}, ("A", "B"))
    array = {"type": "Array", "name": "Array", "spatial": dimensions, "nodes": inside}
    chip = {"type": "Container", "name": "Chip", "spatial": [{"name": "C", "fanout": 2}]}
    above = [chip] if rng.random() < 0.2 else []
    wide = {"spatial": [{"name": "V", "fanout": 2}]} if rng.random() < 0.2 else {}
    below = [memory(rng, "Reg", **wide)] if rng.random() < 0.6 else []
    mac = {"type": "Compute", "name": "MAC", "area": 0, "leak_power": 0, "actions": actions(rng, "compute")}
    bounds = {v: f"0 <= {v} < {n}" for v, n in sizes.items()}
    return {
        "arch": {"nodes": [memory(rng, "DRAM"), *above, array, *below, mac]},
        "workload": {"iteration_space_shape": bounds, "bits_per_value": {"All": 8}, "einsums": [text]},
    }


def draw_mapping(rng: random.Random, case: Case, order: tuple[str, ...] = ()) -> Case:
    """A mapping for a machine; some are refused. `order`: of the array's dimensions, at random if not given."""
    bounds = case["workload"]["iteration_space_shape"]
    tree = Tree(rng, {v: int(text.split("<")[-1]) for v, text in bounds.items()})
    tree.temporal(2)
    for node in case["arch"]["nodes"][1:-1]:
        if node["type"] == "Array":
            for leaf in node["nodes"]:
                if leaf["type"] != "Network":
                    tree.keep(leaf, 0.6)
                    tree.temporal(1)
        fanouts = {d["name"]: d["fanout"] for d in node.get("spatial", ())}
        for name in order if node["type"] == "Array" and order else rng.sample(list(fanouts), k=len(fanouts)):
            tree.spatial(node["name"], name, fanouts[name], 2 if node["type"] == "Array" else 1)
        if node["type"] == "Memory":
            tree.temporal(1)
            tree.keep(node, 0.7)
    tree.temporal(1)
    rest = [{"type": "Temporal", "rank_variable": v, "tile_shape": 1} for v, n in tree.left.items() if n > 1]
    return {"nodes": [*tree.nodes, *rest, {"type": "Compute", "einsum": "Z", "component": "MAC"}]}


def draw_arrays(rng: random.Random) -> Case:
    """A specification of one Einsum with a mapping; some are refused."""
    case = draw_machine(rng)
    return {**case, "mapping": draw_mapping(rng, case)}
