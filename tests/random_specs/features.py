"""Features of machines and workloads by name: each is put into a random problem, alone or with others.

draw(rng, "ports", "layouts")                 # a problem of one Einsum with both
put(rng, tree, "network")                     # into one that is there
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import combinations

from tests.random_specs.networks import HANDED_ON, ROUND, with_network
from tests.random_specs.nodes import Put, Tree, dimensions, memories, nodes, variables
from tests.random_specs.parts import LARGEST
from tests.random_specs.problems import draw_problem

import einmap

COMPOSITE = (12, 16, 18, 20, 24, 30, 36, 48, 60)
SUM = "sum(a.n_calls / a.throughput for a in actions)"
LATENCIES = (
    f"3 * {SUM}",
    f"{LARGEST} / 2",
    f"{LARGEST} + {SUM}",
    f"{SUM} ** 2",
    f"{LARGEST} + 7",
    "min(a.n_calls / a.throughput for a in actions)",
    f"ceil({SUM} / 4)",
    "11",
)


def composite(rng: random.Random, tree: Tree) -> None:
    """One rank of many divisors, or two; the others are small."""
    sizes = tree["workload"]["rank_sizes"]
    many = rng.sample(sorted(sizes), min(len(sizes), rng.choice((1, 1, 2))))
    for rank in sizes:
        sizes[rank] = rng.choice(COMPOSITE) if rank in many else rng.choice((1, 2))


def widths(rng: random.Random, tree: Tree) -> None:
    """Bits of each tensor by itself, in the workload and in memories, none among them."""
    tree["workload"]["bits_per_value"] = {tensor: rng.choice((1, 4, 8, 8, 16)) for tensor in "ABZ"}
    for node in memories(tree):
        tensors = [tensor for tensor in "ABZ" if rng.random() < 0.4]
        if tensors:
            node["bits_per_value"] = {tensor: rng.choice((0, 2, 8, 12, 32)) for tensor in tensors}


def latencies(rng: random.Random, tree: Tree) -> None:
    """Busy times that are not plain sum: some are maxima or multiples, some such that only brute force can be used."""
    for node in memories(tree):
        if rng.random() < 0.6:
            node["total_latency"] = rng.choice(LATENCIES)
        for action in node["actions"]:
            action["throughput"] = rng.choice((1, 2, 3, 4, 8))


def tile_shapes(rng: random.Random, tree: Tree) -> None:
    """Limits of tile shapes from above, from below and to a value."""
    names = variables(tree)
    for node in memories(tree)[1:]:
        if rng.random() < 0.7:
            which = rng.choice((rng.choice(names), f"~{rng.choice(names)}", "All.rank_variables"))
            operator = rng.choice(("==", ">=", ">", "<", "<=", "product<=", "product==", "product>="))
            limit = {"expression": which, "operator": operator, "value": rng.choice((1, 1, 2, 2, 3, 4))}
            node["tensors"]["tile_shape"] = [limit]


def loop_bounds(rng: random.Random, tree: Tree) -> None:
    """Limits of what stands on a fanout."""
    names = variables(tree)
    for dimension in dimensions(tree):
        if rng.random() < 0.7:
            which = rng.choice((rng.choice(names), f"~{rng.choice(names)}", "All.rank_variables"))
            operator = rng.choice(("==", ">=", "<", "<=", "product<=", "product==", "product>="))
            dimension["loop_bounds"] = [{"expression": which, "operator": operator, "value": rng.choice((1, 1, 2, 3))}]


def no_lanes(rng: random.Random, tree: Tree) -> None:
    """Fanouts of which nothing may be used, or that are one lane wide."""
    for dimension in dimensions(tree):
        if rng.random() < 0.5:
            dimension["fanout"] = 1
            dimension.pop("loop_bounds", None)
        elif rng.random() < 0.5:
            dimension["loop_bounds"] = [{"expression": "All.rank_variables", "operator": "==", "value": 1}]
        dimension.pop("min_usage", None)


def odd_fanouts(rng: random.Random, tree: Tree) -> None:
    """Lanes on each memory but the outermost one, in numbers that divide no rank."""
    for node in memories(tree)[1:]:
        if rng.random() < 0.6:
            node["spatial"] = [
                {"name": "own", "fanout": rng.choice((2, 3, 5, 7)), "may_reuse": rng.choice(("All", "A"))}
            ]


KINDS: tuple[Callable[[random.Random, Tree], None], ...] = (
    composite, widths, latencies, tile_shapes, loop_bounds, no_lanes, odd_fanouts,
)  # fmt: skip


PORTS = (
    {"read": 1, "write": 1}, {"read_write": 2}, {"read": 1, "read_write": 1}, {"write": 2, "read_write": 1},
    {"read": 2, "write": 1},
)  # fmt: skip


def ports(rng: random.Random, tree: Tree) -> None:
    """Ports and banks on some memories."""
    for node in memories(tree):
        if rng.random() < 0.7:
            node.pop("total_latency", None)
            node["ports"] = rng.choice(PORTS)
            if rng.random() < 0.5:
                node["banks"] = {"number": rng.choice((1, 2, 3, 8)), "conflicts": rng.choice(("none", "random"))}


def buffering(rng: random.Random, tree: Tree) -> None:
    """Buffers of some memories."""
    for node in memories(tree):
        node["buffering"] = rng.choice(("ideal", "double", "single", "single"))
        if node["buffering"] != "single" and rng.random() < 0.5:
            node["wind_up"] = True


def startup(rng: random.Random, tree: Tree) -> None:
    """Transfers that take time to begin."""
    for node in memories(tree):
        for action in node["actions"]:
            if rng.random() < 0.5:
                action["startup"] = rng.choice((0.5, 3, 20))


def pipelines(rng: random.Random, tree: Tree, seconds: tuple[float, ...] = (0, 0, 3, 20, 150)) -> None:
    """Actions whose values come later, some as late as the whole takes."""
    for node in nodes(tree["arch"]["nodes"]):
        if node["type"] in ("Memory", "Compute"):
            for action in node["actions"]:
                action["pipeline_latency"] = rng.choice(seconds)


def skew(rng: random.Random, tree: Tree) -> None:
    """Lanes that begin one after another."""
    for dimension in dimensions(tree):
        dimension["skew"] = rng.choice(("none", "once", "each_fold", "each_fold"))


def rates(rng: random.Random, tree: Tree, choice: tuple[float | str, ...]) -> None:
    """Bits that memories move in a second."""
    for node in memories(tree):
        for action in node["actions"]:
            action["throughput"] = rng.choice(choice)


def layouts(rng: random.Random, tree: Tree, *, inside: bool = False) -> None:
    """Layouts of some memories, the outermost one most of the time; `inside`: of those that fanouts spread, too."""
    workload = einmap.Spec.from_dict(tree).workload
    ranks = {a.tensor: [rank for rank, _ in a.projection] for e in workload.einsums for a in e.accesses}
    spread = [node["name"] for node in tree["arch"]["nodes"] if node.get("spatial")]
    names = [node["name"] for node in tree["arch"]["nodes"]]
    for i, node in enumerate(memories(tree)):
        if spread and names.index(spread[0]) <= names.index(node["name"]) and not inside:
            continue
        if rng.random() < (0.8 if i == 0 else 0.3):
            layout = node["layout"] = {"line": rng.choice((64, 96, 160)), "order": {}, "block": {}}
            for tensor in rng.sample(sorted(ranks), rng.randint(1, len(ranks))):
                if rng.random() < 0.6:
                    layout["order"][tensor] = rng.sample(ranks[tensor], len(ranks[tensor]))
                else:
                    layout["block"][tensor] = {rng.choice(ranks[tensor]): rng.choice((2, 3, 4))}


def banks(rng: random.Random, tree: Tree, *, p: float = 0.8, inside: bool = False) -> None:
    """Lines of which some lie in banks."""
    layouts(rng, tree, inside=inside)
    for node in memories(tree):
        if "layout" in node and (p == 1 or rng.random() < p):
            node.pop("total_latency", None)
            node["banks"] = {"number": rng.choice((2, 3, 4)), "conflicts": "interleaved"}


def leakage(rng: random.Random, tree: Tree) -> None:
    """Everything leaks, and some lanes need not."""
    for node in nodes(tree["arch"]["nodes"]):
        if "leak_power" in node:
            node["leak_power"] = rng.choice((0, 1, 2, 7))
    for dimension in dimensions(tree):
        dimension["power_gateable"] = rng.random() < 0.6


def lanes(rng: random.Random, tree: Tree) -> None:
    """Lanes where there are none."""
    if not dimensions(tree):
        dimension = {"name": "X", "fanout": rng.choice((2, 3, 4)), "may_reuse": rng.choice(("All", "Inputs"))}
        tree["arch"]["nodes"][-1]["spatial"] = [dimension]


def partial_sums(rng: random.Random, tree: Tree) -> None:
    """Partial sums that are wider than results."""
    tree["workload"]["partial_bits_per_value"] = {"Outputs": rng.choice((24, 32))}


def refresh(rng: random.Random, tree: Tree) -> None:
    """Memories that are refreshed."""
    for node in memories(tree):
        node.update(refresh_power=rng.choice([0, 30, 300]), refresh_busy=rng.choice([0, 0.125, 0.5]))


def stalls(rng: random.Random, tree: Tree) -> None:
    """A memory, an inner one if there is one, that stalls tile by tile."""
    rng.choice(memories(tree)[1:] or memories(tree))["stalls"] = "tile_by_tile"


def overlap(rng: random.Random, tree: Tree, *, p: float = 1) -> None:
    """Einsums that overlap; nothing leaks, or with probability 1 - `p` of each node."""
    for node in nodes(tree["arch"]["nodes"]):
        if "leak_power" in node and (p == 1 or rng.random() < p):
            node["leak_power"] = 0
    tree["model"] = {**tree.get("model", {}), "overlap_einsums": True}


OPTIONS = (ports, buffering, startup, skew)

FEATURES: dict[str, Put] = {
    **{kind.__name__.replace("_", " "): kind for kind in (*KINDS, *OPTIONS)},
    "pipelines": pipelines, "layouts": layouts, "banks": banks, "leakage": leakage, "lanes": lanes,
    "partial sums": partial_sums, "refresh": refresh, "stalls": stalls, "overlap": overlap, "network": with_network,
    "rings and a bus": lambda rng, tree: with_network(rng, tree, ROUND),
    "trees and systolic arrays": lambda rng, tree: with_network(rng, tree, HANDED_ON),
}  # fmt: skip
NETWORKS = {"network", "rings and a bus", "trees and systolic arrays"}
PAIRS = [pair for pair in combinations(FEATURES, 2) if not set(pair) <= NETWORKS]


def put(rng: random.Random, tree: Tree, *names: str) -> Tree:
    """Put features into a problem, one after another."""
    for name in names:
        FEATURES[name](rng, tree)
    return tree


def draw(rng: random.Random, *names: str, base: Callable[[random.Random], Tree] = draw_problem) -> Tree:
    """A random problem with some features."""
    return put(rng, base(rng), *names)


def draw_kinds(rng: random.Random) -> Tree:
    """A problem of one to three of the kinds."""
    problem = draw_problem(rng)
    for kind in rng.sample(KINDS, rng.choice((1, 2, 3))):
        kind(rng, problem)
    return problem


def two_outputs(rng: random.Random) -> Tree:
    """A problem whose Einsum writes two tensors."""
    problem = draw_problem(rng)
    for node in memories(problem):
        node["tensors"].pop("tile_shape", None)
    for dimension in dimensions(problem):
        dimension.pop("loop_bounds", None)
    projections = {"A": ["m", "k"], "B": ["k"], "Z": ["m"], "Y": rng.choice((["m"], ["k"], ["m", "k"]))}
    accesses = [{"name": t, "projection": found, "output": t in "ZY"} for t, found in projections.items()]
    problem["workload"]["einsums"] = [{"name": "Z", "tensor_accesses": accesses}]
    problem["workload"]["rank_sizes"] = {"M": rng.choice((2, 3, 4)), "K": rng.choice((2, 3))}
    return problem


def draw_options(rng: random.Random) -> Tree:
    """A problem with such options, most with time that matters."""
    problem = draw_problem(rng)
    for option in rng.sample(OPTIONS, rng.randint(1, len(OPTIONS))):
        option(rng, problem)
    rates(rng, problem, (1, 2, 3, 4, 8, "inf"))
    return problem


def draw_skewed(rng: random.Random) -> Tree:
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
    rates(rng, problem, (16, "inf"))
    nodes[-1]["actions"][0]["throughput"] = 0.25
    return problem


def draw_pipelined(rng: random.Random) -> Tree:
    """A problem whose values are on their way for a while, some with other options."""
    problem = draw_options(rng)
    pipelines(rng, problem)
    return problem
