"""Random architectures: memories, fanouts, tolls."""

from __future__ import annotations

import random
from typing import Any

from tests.random_specs.workloads import Case, chance


def _costs(rng: random.Random, actions: dict[str, tuple[int, int]]) -> Case:
    listed = [{"name": n, "energy": e, "throughput": t} for n, (e, t) in actions.items()]
    return {"area": rng.choice([0, 1]), "leak_power": rng.choice([0, 0, 1]), "actions": listed}


def _tensor_set(rng: random.Random, tensors: tuple[str, ...]) -> str:
    chosen = rng.sample(tensors, rng.randint(1, min(2, len(tensors))))
    return rng.choice(["All", "All", "Nothing", "Nothing", " | ".join(chosen), " | ".join(chosen), "~" + chosen[0]])


def _dimension(rng: random.Random, name: str, tensors: tuple[str, ...]) -> Case:
    found: Case = {"name": name, "fanout": rng.choice([2, 3, 4, 8])}
    match rng.randrange(8):
        case 0:
            pass
        case 1 | 2:
            found["reuse"] = _tensor_set(rng, tensors)
        case _:
            found["may_reuse"] = _tensor_set(rng, tensors)
    if chance(rng, 0.15):
        found["power_gateable"] = True
    return found


def _memory(rng: random.Random, name: str, tensors: tuple[str, ...], *, outermost: bool) -> Case:
    energies = {"read": (rng.randint(1, 9), rng.randint(1, 8)), "write": (rng.randint(1, 9), rng.randint(1, 8))}
    size: Any = "inf" if outermost else rng.choice([10**6] * 9 + [rng.choice([64, 200, 600])])
    found: Case = {"type": "Memory", "name": name, "size": size, **_costs(rng, energies)}
    if chance(rng, 0.6):
        found["skip_initial_output_write"] = chance(rng, 0.4)
    if chance(rng, 0.3):
        found["bits_per_action"] = rng.choice([8, 16, 24])
    elif chance(rng, 0.2):
        found["values_per_action"] = rng.choice([{"All": 2}, {rng.choice(tensors): 4}])
    if chance(rng, 0.15):
        found["bits_per_value"] = rng.choice([{"All": 16}, {rng.choice(tensors): 2}])
    elif chance(rng, 0.1):
        found["bits_per_value_scale"] = {rng.choice([*tensors, "All"]): 2}
    return found


def _toll(rng: random.Random, name: str, tensors: tuple[str, ...]) -> Case:
    ways = ("up", "down", "up_and_down")
    direction: Any = rng.choice(ways)
    if chance(rng, 0.2):
        direction = {rng.choice(tensors): direction, "Other": rng.choice(ways)}
    found = {"type": "Toll", "name": name, "direction": direction, **_costs(rng, {"read": (1, 2)})}
    if chance(rng, 0.2):
        found["bits_per_action"] = 8
    return found


def draw_arch(rng: random.Random, tensors: tuple[str, ...]) -> list[Case]:
    """Main, then up to two memories and a Compute; before each perhaps a Toll and lanes."""
    nodes = [_memory(rng, "Main", tensors, outermost=True)]
    n_inner = rng.choice([0, 1, 1, 1, 2, 2, 2])
    fanouts = rng.choice([0, 1, 1, 2])
    where = sorted(rng.randint(0, n_inner) for _ in range(fanouts))
    for i in range(n_inner + 1):
        if chance(rng, 0.22):
            nodes.append(_toll(rng, f"Link{i}", tensors))
        dimensions = [_dimension(rng, name, tensors) for name in "XY"[: where.count(i)]]
        if dimensions and chance(rng, 0.4):
            own = dimensions if chance(rng, 0.5) else dimensions[:1]
            nodes.append({"type": "Container", "name": f"Array{i}", "spatial": own})
            dimensions = dimensions[len(own) :]
        if i < n_inner:
            unit = _memory(rng, f"Buffer{i}", tensors, outermost=False)
        else:
            unit = {"type": "Compute", "name": "MAC", **_costs(rng, {"compute": (rng.randint(1, 5), 1)})}
            if chance(rng, 0.6):
                unit["skip_initial_output_write"] = chance(rng, 0.4)
        if dimensions:
            unit["spatial"] = dimensions
        nodes.append(unit)
    return nodes


def draw_network(rng: random.Random, name: str) -> Case:
    """One `!Network`."""
    hop = {"name": "hop", "energy": 1, "latency": rng.choice([0, 0.5, 2]), "throughput": rng.choice([1, 3])}
    found: Case = {"type": "Network", "name": name, "area": 0, "leak_power": 0, "actions": [hop]}
    if chance(rng, 0.7):
        found["topology"] = rng.choice(["mesh", "mesh", "all_to_all", "torus", "ring", "systolic", "tree", "bus"])
    if chance(rng, 0.3):
        found["multicast"] = False
    if chance(rng, 0.3):
        found["reduction"] = "at_parent"
    if chance(rng, 0.3):
        found["links"] = "per_tensor"
    if chance(rng, 0.2):
        found["bits_per_action"] = rng.choice([8, 16])
    if chance(rng, 0.2):
        found["actions_scale"] = 2
    return found
