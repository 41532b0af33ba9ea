"""Random small mapping problems of one Einsum: architectures with fanouts, tolls, constraints, leakage and gating."""

from __future__ import annotations

import random
from typing import Any

from tests.random_specs.parts import LARGEST, Parts, maybe

EINSUMS: tuple[tuple[str, dict[str, str]], ...] = (
    ("Z[m,n] = A[m,k] * B[k,n]", {"M": "m", "N": "n", "K": "k"}),
    ("Z[m,n] = A[m,k] * B[k,n]", {"M": "m", "N": "n", "K": "k"}),
    ("Z[b,m,n] = A[b,m,k] * B[b,k,n]", {"B": "b", "M": "m", "N": "n", "K": "k"}),
    ("Z[m] = A[m,k] * B[k]", {"M": "m", "K": "k"}),
    ("Z[m,n,h] = A[m,h] * B[n,h]", {"M": "m", "N": "n", "H": "h"}),
    ("Z[p,m] = A[W: p+r] * B[m,r]", {"P": "p", "M": "m", "R": "r"}),
    ("Z[p,m] = A[c, W: 2*p+r] * B[m,c,r]", {"P": "p", "M": "m", "R": "r", "C": "c"}),
    ("Z[p,q] = A[H: p+r, W: q+s] * B[r,s]", {"P": "p", "Q": "q", "R": "r", "S": "s"}),
    ("Z[m] = A[m] * B[m]", {"M": "m"}),
    ("Z[m,n] = A[m,k,j] * B[k,j,n]", {"M": "m", "N": "n", "K": "k", "J": "j"}),
)
GATHERS: tuple[tuple[str, dict[str, str]], ...] = (
    ("Z[t,m] = A[V: B[t], m]", {"T": "t", "M": "m"}),
    ("Z[e,c,m] = A[V: B[e,c], m]", {"E": "e", "C": "c", "M": "m"}),
    ("Z[i,j] = A[V: B[i,j], J: j]", {"I": "i", "J": "j"}),
    ("Z[m] = A[V: B[t], m]", {"T": "t", "M": "m"}),
)
"""Those in which rows are looked up."""
SIZES = (1, 2, 2, 3, 4, 4, 5, 6, 6, 8, 9, 12)
SETS = ("All", "Nothing", "A", "B", "Z", "A | B", "A | Z", "B | Z", "Inputs", "Outputs")
"""Tensors that something is said of."""


def _parts(rng: random.Random) -> Parts:
    numbers = (0, 1, 1, 2, 3, 5, 7, 11)
    return Parts(rng, (1, 2, 3, 4, 8), 0.2, numbers, widths=(1, 4, 8, 16), powers=numbers)


def _tensors(rng: random.Random) -> str:
    return rng.choice(SETS)


def _dimension(rng: random.Random, name: str, variables: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "fanout": rng.choice((2, 3, 4, 6, 8))}
    if maybe(rng, 0.5):
        found["may_reuse"] = _tensors(rng)
    if maybe(rng, 0.2):
        found["reuse"] = rng.choice(("A", "B", "Z"))
    if maybe(rng, 0.2):
        found["min_usage"] = rng.choice((0.3, 0.5, 1))
    if maybe(rng, 0.2):
        found["power_gateable"] = True
    if maybe(rng, 0.2):
        v = rng.choice(variables)
        operator, value = rng.choice((("<=", 2), ("==", 1), ("product<=", 3)))
        found["loop_bounds"] = [{"expression": rng.choice((v, f"~{v}")), "operator": operator, "value": value}]
    return found


def _placement(rng: random.Random, *, innermost: bool, variables: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if innermost:
        found["keep"] = "All" if maybe(rng, 0.6) else _tensors(rng)
    elif maybe(rng, 0.6):
        found["keep"] = _tensors(rng)
    if maybe(rng, 0.6):
        found["may_keep"] = rng.choice(("All", _tensors(rng)))
    if maybe(rng, 0.1):
        found["no_refetch_from_above"] = rng.choice(("A", "B", "Z"))
    if maybe(rng, 0.1):
        found["no_resend_to_below"] = rng.choice(("A", "B", "Z"))
    if maybe(rng, 0.12):
        value = rng.choice((1, 2, 4))
        found["tile_shape"] = [{"expression": rng.choice(variables), "operator": "<=", "value": value}]
    if maybe(rng, 0.1):
        found["tensor_order_options"] = [["A", "~A"]]
    if maybe(rng, 0.1):
        found["force_memory_hierarchy_order"] = False
    return found


def _memory(rng: random.Random, name: str, *, outermost: bool, innermost: bool, variables: list[str]) -> dict[str, Any]:
    node: dict[str, Any] = {"type": "Memory", "name": name}
    node["size"] = "inf" if outermost else rng.choice((3, 8, 16, 24, 48, 64, 128, 512)) * 8
    node["actions"] = _parts(rng).actions(("read", "write"), 20 if outermost else 3)
    node["leak_power"] = _parts(rng).leak(0.4)
    if outermost:
        node["tensors"] = {"keep": "All" if maybe(rng, 0.9) else "A | Z", "may_keep": "All"}
    else:
        node["tensors"] = _placement(rng, innermost=innermost, variables=variables)
    if maybe(rng, 0.25):
        node["skip_initial_output_write"] = False
    if maybe(rng, 0.15):
        node["bits_per_value"] = {"Z": 16}
    if maybe(rng, 0.2):
        node["total_latency"] = LARGEST
    return node


def draw_gather(rng: random.Random) -> dict[str, Any]:
    """A problem in which rows of a table are looked up; the outermost memory may be too small for the table."""
    problem = draw_problem(rng, GATHERS)
    problem["workload"]["rank_sizes"]["V"] = rng.choice(SIZES)
    if maybe(rng, 0.4):
        problem["arch"]["nodes"][0]["size"] = rng.choice((256, 512, 1024, 4096))
    return problem


def draw_problem(rng: random.Random, einsums: tuple[tuple[str, dict[str, str]], ...] = EINSUMS) -> dict[str, Any]:
    """A specification without a mapping; most have a valid mapping, not all."""
    text, ranks = rng.choice(einsums)
    sizes = {rank: rng.choice(SIZES) for rank in ranks}
    if len(ranks) > 3:
        sizes = {rank: min(size, 4) for rank, size in sizes.items()}
    variables = list(ranks.values())
    nodes: list[dict[str, Any]] = []
    levels = rng.choice((1, 2, 2, 3))
    for level in range(levels):
        if level and maybe(rng, 0.5):
            nodes.append(
                {
                    "type": "Container",
                    "name": f"Fan{level}",
                    "spatial": [_dimension(rng, d, variables) for d in ("X", "Y")[: rng.choice((1, 1, 2))]],
                }
            )
        if level and maybe(rng, 0.15):
            nodes.append(_parts(rng).toll(f"Toll{level}", SETS))
        nodes.append(
            _memory(rng, f"L{level}", outermost=level == 0, innermost=level == levels - 1, variables=variables)
        )
    compute = _parts(rng).compute("MAC", 0.3)
    if maybe(rng, 0.3):
        compute["spatial"] = [_dimension(rng, "lanes", variables)]
    nodes.append(compute)
    return {
        "arch": {"nodes": nodes},
        "workload": {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": [text]},
    }


def draw_array(rng: random.Random) -> dict[str, Any]:
    """A problem with three or four fanout dimensions, all in one place or in two, beside one, two or three memories."""
    problem = draw_problem(rng)
    text, ranks = rng.choice(EINSUMS[:6])
    problem["workload"]["einsums"] = [text]
    problem["workload"]["rank_sizes"] = {rank: rng.choice((1, 2, 4, 4, 6, 8)) for rank in ranks}
    nodes = [node for node in problem["arch"]["nodes"] if node["type"] != "Container"]
    for node in nodes:
        node.pop("spatial", None)
        if node.get("tensors"):
            node["tensors"].pop("tile_shape", None)
    dimensions = []
    for name in ("X", "Y", "V", "W")[: rng.choice((3, 3, 4))]:
        found = {"name": name, "fanout": rng.choice((2, 2, 3, 4, 8)), "may_reuse": _tensors(rng)}
        if maybe(rng, 0.3):
            found["reuse"] = rng.choice(("A", "B", "Z"))
        if maybe(rng, 0.15):
            found["power_gateable"] = True
        if maybe(rng, 0.1):
            found["min_usage"] = rng.choice((0.5, 1))
        dimensions.append(found)
    split = rng.choice((0, 0, 1, 2))
    for name, own in (("Outer", dimensions[:split]), ("Inner", dimensions[split:])):
        if own:
            nodes.insert(rng.randrange(1, len(nodes)), {"type": "Container", "name": name, "spatial": own})
    problem["arch"]["nodes"] = nodes
    return problem
