"""Random cascades whose intermediates stay inside, in buffers that are spread over lanes above and below splits.

What loops run over is drawn for each Einsum by itself, so many of these mappings are refused, and many of the others
would read what a lane or a visit has a part of.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.random_specs.workloads import (
    Case,
    Written,
    _small,
    _Text,
    attention,
    chain,
    convolution_and_pointwise,
    copied,
    cut_space,
    draw_workload,
    pointwise_and_convolution,
    residual,
    shared_input,
    window,
)  # fmt: skip

from einmap import Spec
from einmap.einsum.workload import Workload


def scattered(rng: random.Random) -> Written:
    """An intermediate to several elements of which each value of a variable adds."""
    sizes = _small(rng, "k", "q")
    index = window(rng, sizes, "p", "r")
    ends = [eval(index, {"p": p, "r": r}) for p in (0, sizes["p"] - 1) for r in (0, sizes["r"] - 1)]
    sizes["h"] = max(ends) + 1
    m = rng.choice(["", "m, "])
    first = [f"X[{m}H: {index}] = A[{m}p] * B[{m}r]", f"X[{m}H: {index}] = A[{m}p, k] * B[r, k]"]
    second = [f"Z[{m}h] = X[{m}h] * D[h]", f"Z[{m}q] = X[{m}h] * D[h, q]", f"Z[{m}h] = relu(X[{m}h])"]
    return [_Text(rng.choice(first)), _Text(rng.choice(second))], sizes


KINDS = [
    (chain, 6), (residual, 5), (attention, 5), (shared_input, 4), (convolution_and_pointwise, 3),
    (pointwise_and_convolution, 3), (copied, 1.5), (scattered, 10),
]  # fmt: skip


def draw_shared_lanes(rng: random.Random) -> Case:
    """One specification. The same for the same state of `rng`."""
    einsums, sizes = draw_workload(rng, KINDS)
    while not 2 <= len(einsums) <= 3:
        einsums, sizes = draw_workload(rng, KINDS)
    bounds = cut_space(rng, einsums)
    workload: Case = {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": [e.written(rng) for e in einsums]}
    if bounds:
        workload["iteration_space_shape"] = bounds
    bound = Spec.from_dict({"workload": workload}).workload
    nodes, dimensions = _architecture(rng, sorted(bound.users))
    extents = {e.name: dict(e.extents) for e in bound.einsums}
    tree = _Tree(rng, bound, extents)
    return {"workload": workload, "arch": {"nodes": nodes}, "mapping": {"nodes": tree.nodes(dimensions)}}


def _architecture(rng: random.Random, tensors: list[str]) -> tuple[list[Case], list[str]]:
    """Main, two buffers and a compute, and which of their components have lanes (one dimension, `X`)."""

    def memory(name: str) -> Case:
        actions = [{"name": action, "energy": 1, "throughput": 1} for action in ("read", "write")]
        skips = {"skip_initial_output_write": rng.random() < 0.5}
        return {"type": "Memory", "name": name, "size": "inf", "area": 0, "leak_power": 0, "actions": actions} | skips

    compute: Case = {"type": "Compute", "name": "MAC", "area": 0, "leak_power": 0}
    nodes = [memory("Main")]
    for unit in (memory("Buffer0"), memory("Buffer1"), compute):
        lanes = [{"name": "X", "fanout": 4, "may_reuse": rng.choice(["All", "All", "Nothing", rng.choice(tensors)])}]
        match rng.randrange(3):
            case 0:
                nodes.append({"type": "Container", "name": f"Array{len(nodes)}", "spatial": lanes})
            case 1:
                unit["spatial"] = lanes
            case _:
                pass
        nodes.append(unit)
    compute["actions"] = [{"name": "compute", "energy": 1, "throughput": 1}]
    return nodes, [node["name"] for node in nodes if "spatial" in node]


@dataclass
class _Tree:
    """Draws one LoopTree. `extents`: what the loops so far have left of each Einsum's variables."""

    rng: random.Random
    workload: Workload
    extents: dict[str, dict[str, int]]

    def nodes(self, dimensions: list[str]) -> list[Case]:
        tensors = dict.fromkeys(t for e in self.workload.einsums for t in e.tensors)
        inside = {t for t in sorted(self.workload.intermediates) if self.rng.random() < 0.3}
        held = dict.fromkeys((t for t in tensors if t not in inside), 0)
        names = [e.name for e in self.workload.einsums]
        return [self.storage("Main", list(held)), *self.section(names, held, dimensions)]

    def section(self, names: list[str], held: dict[str, int], dimensions: list[str]) -> list[Case]:
        """What is below one branch: loops and storage that all of `names` share, then the split."""
        if len(names) == 1:
            return self.branch(names[0], held, dimensions)
        rng, found = self.rng, []
        if rng.random() < 0.4:
            found += self.loop(names, None)
        left = []
        for component in dimensions:
            lanes = self.loop(names, component) if rng.random() < 0.25 else []
            found += lanes
            left += [] if lanes else [component]
        for level in (1, 2):
            chosen = [
                t
                for t in sorted(self.workload.intermediates)
                if (set(self.workload.users[t]) <= set(names) if t not in held else rng.random() < 0.45)
                and held.get(t, -1) < level
                and set(self.workload.users[t]) & set(names)
            ]
            held |= dict.fromkeys(chosen, level)
            found += [self.storage(f"Buffer{level - 1}", chosen)] if chosen else []
        parts = [[name] for name in names]
        if len(names) == 3 and rng.random() < 0.5:
            cut = rng.choice([1, 2])
            parts = [names[:cut], names[cut:]]
        below = [component for component in left if rng.random() < 0.75]
        branches = [{"type": "Nested", "nodes": self.section(part, dict(held), below)} for part in parts]
        return [*found, {"type": "Sequential", "nodes": branches}]

    def branch(self, name: str, held: dict[str, int], dimensions: list[str]) -> list[Case]:
        found = [node for component in dimensions for node in self.loop([name], component)]
        for level in (1, 2):
            tensors = sorted(self.workload.by_name[name].tensors)
            chosen = [t for t in tensors if held.get(t, 9) < level and self.rng.random() < 0.3]
            found += self.loop([name], None) if self.rng.random() < 0.5 else []
            found += [self.storage(f"Buffer{level - 1}", chosen)] if chosen else []
        left = [v for v, n in self.extents[name].items() if n > 1]
        self.rng.shuffle(left)
        found += [{"type": "Temporal", "rank_variable": v, "tile_shape": 1} for v in left]
        return [*found, {"type": "Compute", "einsum": name, "component": "MAC"}]

    def storage(self, component: str, tensors: list[str]) -> Case:
        return {"type": "Storage", "component": component, "tensors": tensors}

    def loop(self, names: list[str], component: str | None) -> list[Case]:
        """A loop of as many iterations for each Einsum, mostly over variables of one name; none if there is none."""
        n, variables, shapes = self.rng.choice([2, 2, 3]), {}, {}
        for name in names:
            fitting = {v: -(-size // n) for v, size in self.extents[name].items() if -(-size // -(-size // n)) == n}
            alike = [v for v in fitting if v in variables.values()]
            if not fitting:
                return []
            variables[name] = self.rng.choice(alike if alike and self.rng.random() < 0.7 else list(fitting))
            shapes[name] = fitting[variables[name]]
        for name in names:
            self.extents[name][variables[name]] = shapes[name]
        kind: Case = {"type": "Temporal"} if component is None else {"type": "Spatial", "component": component}
        return [kind | ({"name": "X"} if component else {}) | {"rank_variable": variables, "tile_shape": shapes}]
