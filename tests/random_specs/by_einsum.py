"""Random cascades of Einsums that are alike but for what an expression means for them: texts are equal, values differ."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.random_specs import features
from tests.random_specs.fused import CASCADES, Problem, draw_problem
from tests.random_specs.networks import HANDED_ON, ROUND, TOPOLOGIES, with_network
from tests.random_specs.nodes import Tree, memories
from tests.random_specs.parts import LARGEST

from einmap.spec.spec import Spec

ALIKE: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "in a row": (("X[m,n] = A[m,n] * B[n]", "Y[m,n] = X[m,n] * D[n]", "Z[m,n] = Y[m,n] * F[n]"), {"M": "n", "N": "n"}),
    "products": (("X[m,n] = A[m,k] * B[k,n]", "Z[m,p] = X[m,n] * D[n,p]"), {"M": "s", "N": "n", "K": "=N", "P": "=N"}),
    "apart": (("X[m,n] = A[m,k] * B[k,n]", "Z[p,q] = D[p,r] * F[r,q]"), {
        "M": "s", "N": "s", "K": "s", "P": "=M", "Q": "=N", "R": "=K",
    }),
}  # fmt: skip
CASCADES_ALIKE = {**CASCADES, **ALIKE}
SUM = "sum(a.n_calls / a.throughput for a in actions)"


class ByEinsum:
    """What differs by Einsum: an expression that has one of two values, and how the specification says it."""

    def __init__(self, rng: random.Random, data: Tree) -> None:
        self.rng, self.data = rng, data
        self.einsums = data["workload"]["einsums"]
        texts = [text if isinstance(text, str) else text["einsum"] for text in self.einsums]
        # what only one of the Einsums uses, or some
        tensors = [[side.split("[")[0].strip() for side in text.replace("=", "*").split("*")] for text in texts]
        self.tensor = rng.choice(tensors[-1])
        self.tensors, self.texts = tensors, texts
        self.n_names = 0
        data["arch"]["variables"] = {}

    def value(self, one: Any, other: Any) -> str:
        """An expression with one value for some Einsums and another for the rest."""
        way = self.rng.choice(("tensor", "rename", "variable", "list", "text", "set", "letters"))
        self.n_names += 1
        name = f"own{self.n_names}"
        test = f"len({self.tensor})"
        match way:
            case "rename":
                test = f"len({name})"
                for i, (text, tensors) in enumerate(zip(self.texts, self.tensors, strict=True)):
                    written = self.einsums[i] if isinstance(self.einsums[i], dict) else {"einsum": text}
                    mine = self.tensor if self.tensor in tensors else "Nothing"
                    written["renames"] = {**written.get("renames", {}), name: mine}
                    self.einsums[i] = written
            case "list":
                self.data["arch"]["variables"][name] = f"[0, len({self.tensor})]"
                test = f"{name}[1]"
            case "text":
                self.data["arch"]["variables"][name] = f"'{self.tensor}' + ''"
                test = f"{name} in All"
            case "set":
                test = f"(All & {self.tensor})"
            case "letters":
                test = f"len({chr(ord(self.tensor) + 0xFEE0)})"
        expression = f"{one} if {test} else {other}"
        if way == "variable":
            self.data["arch"]["variables"][name] = expression
            return name
        return expression


def latency(rng: random.Random, by: ByEinsum) -> None:
    """Busy times of memories with a factor that differs, some such that only brute force can be used."""
    for node in rng.sample(memories(by.data), rng.choice((1, 1, 2))):
        node["extra_attributes_for_component_model"] = {"factor": by.value(*rng.sample((0.1, 1, 5, 30), 2))}
        form = rng.choice((SUM, SUM, LARGEST, "max(read_latency, write_latency)"))
        node["total_latency"] = f"factor * {form}" if rng.random() < 0.85 else f"{SUM} ** 2 + factor"
        for action in node["actions"]:
            action["throughput"] = rng.choice((1, 2, 4))


def compute_latency(rng: random.Random, by: ByEinsum) -> None:
    """Busy time of the compute."""
    unit = by.data["arch"]["nodes"][-1]
    unit["total_latency"] = f"({by.value(*rng.sample((0.1, 1, 5, 30), 2))}) * compute_actions"


def costs(rng: random.Random, by: ByEinsum) -> None:
    """Energies and throughputs of actions."""
    node = rng.choice(memories(by.data))
    for action in node["actions"]:
        action[rng.choice(("energy", "throughput"))] = by.value(*rng.sample((1, 2, 10, 40), 2))


def scales(rng: random.Random, by: ByEinsum) -> None:
    """Scales and leakage."""
    node = rng.choice(memories(by.data))
    node[rng.choice(("actions_scale", "energy_scale", "throughput_scale", "leak_power"))] = by.value(
        *rng.sample((0.5, 1, 3, 9), 2)
    )


def widths(rng: random.Random, by: ByEinsum) -> None:
    """Bits of values in a memory, and of a tensor in the workload."""
    if rng.random() < 0.6:
        rng.choice(memories(by.data))["bits_per_value"] = {"All": by.value(*rng.sample((4, 8, 16), 2))}
    if rng.random() < 0.6:
        by.data["workload"]["bits_per_value"] = {by.tensor: rng.choice((4, 16, 24)), "Other": 8}


def kept(rng: random.Random, by: ByEinsum) -> None:
    """What a memory keeps; of the outermost one perhaps more than others that use a tensor may."""
    node = rng.choice(memories(by.data))
    if node is memories(by.data)[0]:
        keep = by.value(*rng.sample(("~Intermediates", "Inputs", "Outputs", "Nothing", "All"), 2))
        may_keep = by.value("All", "~Intermediates") if rng.random() < 0.5 else "All"
        node["tensors"] = {"keep": keep, "may_keep": may_keep}
    else:
        node["tensors"] = {"keep": by.value(*rng.sample(("All", "Inputs", "Nothing", "Outputs"), 2)), "may_keep": "All"}


def instances(rng: random.Random, by: ByEinsum) -> None:
    """How often an Einsum runs."""
    i = rng.randrange(len(by.einsums))
    written = by.einsums[i] if isinstance(by.einsums[i], dict) else {"einsum": by.einsums[i]}
    by.einsums[i] = {**written, "n_instances": rng.choice((2, 5))}


def own_lanes(rng: random.Random, by: ByEinsum) -> None:
    """Which lanes may have values in common, and how many there may be."""
    node = by.data["arch"]["nodes"][-1]
    dimension = {"name": "own", "fanout": rng.choice((2, 3))}
    if rng.random() < 0.6:
        dimension["may_reuse"] = by.value(*rng.sample(("All", "Inputs", "Nothing", "Outputs"), 2))
    else:
        limit = {"expression": "All.rank_variables", "operator": "<=", "value": by.value(1, 2)}
        dimension["loop_bounds"] = [limit]
    node["spatial"] = [*node.get("spatial", ()), dimension][-1:]


def networks(rng: random.Random, by: ByEinsum) -> None:
    """Hops of a network."""
    if all(node["type"] != "Network" for node in by.data["arch"]["nodes"]):
        with_network(rng, {"arch": by.data["arch"], "workload": by.data["workload"]}, TOPOLOGIES)
    hop = next(node for node in by.data["arch"]["nodes"] if node["type"] == "Network")["actions"][0]
    hop[rng.choice(("energy", "latency", "throughput"))] = by.value(*rng.sample((1, 3, 10), 2))


KINDS: tuple[Callable[[random.Random, ByEinsum], None], ...] = (
    latency, compute_latency, costs, scales, widths, kept, instances, own_lanes, networks,
)  # fmt: skip


def draw_by_einsum(rng: random.Random) -> Problem:
    """A small problem with one to three kinds of differences, half of the time of Einsums that are alike else."""
    drawn = draw_problem(rng, tuple(CASCADES_ALIKE if rng.random() < 0.5 else ALIKE), small=True, more=ALIKE)
    by = ByEinsum(rng, drawn.data)
    chosen = rng.sample(KINDS, rng.choice((1, 1, 2, 3)))
    if latency not in chosen and rng.random() < 0.4:
        chosen.append(latency)
    for kind in chosen:
        kind(rng, by)
    semantics = "exact" if networks in chosen else drawn.semantics
    return replace(drawn, semantics=semantics, max_fused_loops=min(drawn.max_fused_loops, rng.choice((1, 2, math.inf))))


# what other drawers have seldom or never

RARE = ("overlap", "leakage", "banks", "network")
METRICS = ("latency", "energy", "energy_delay_product", "leak_energy", "dynamic_energy")


def draw_rare(rng: random.Random, kind: str) -> tuple[Spec, str, tuple[float, float]]:
    """A specification, a metric, and the most fused loops in all and over one rank variable."""
    drawn = draw_problem(rng, tuple(CASCADES_ALIKE), small=True, more=ALIKE)
    data, metric = drawn.data, rng.choice(METRICS[:3])
    by = ByEinsum(rng, data)
    match kind:
        case "overlap":
            features.overlap(rng, data)
            features.put(rng, data, *rng.sample(("ports", "startup", "lanes"), rng.choice((0, 1, 2))))
            for difference in rng.sample((latency, instances, widths, costs), rng.choice((1, 1, 2))):
                difference(rng, by)
            for node in memories(data):
                if "total_latency" in node:
                    node.pop("ports", None)
                    node.pop("banks", None)
        case "leakage":
            metric = rng.choice(METRICS[1:])
            features.lanes(rng, data)
            features.leakage(rng, data)
            if rng.random() < 0.5:
                rng.choice((latency, widths, instances))(rng, by)
        case "banks":
            features.banks(rng, data)
        case "network":
            features.lanes(rng, data)
            with_network(rng, data, rng.choice((TOPOLOGIES, ROUND, HANDED_ON)))
            networks(rng, by)
            if rng.random() < 0.4:
                features.leakage(rng, data)
    return Spec.from_dict(data), metric, (drawn.max_fused_loops, drawn.per_variable)
