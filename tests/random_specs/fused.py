"""Random small cascades with architectures on which fusion matters: tight memories, fanouts, several computes."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tests.random_specs.parts import KINDS_OF_TENSORS, Parts, maybe

from einmap.spec.spec import Spec

CASCADES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    # Einsums, and which rank has which kind of size
    "two matmuls": (("X[m,n] = A[m,k] * B[k,n]", "Z[m,p] = X[m,n] * D[n,p]"), {"M": "n", "N": "n", "K": "n", "P": "n"}),
    "renamed": (("X[m,n] = A[m,k] * B[k,n]", "Z[p,q] = X[M: p, N: q] * D[q]"), {"M": "n", "N": "n", "K": "n"}),
    "batched": (("X[b,m,n] = A[b,m,n] * B[b,n]", "Z[b,m] = X[b,m,n] * D[n]"), {"B": "s", "M": "n", "N": "n"}),
    "elementwise": (("X[m,n] = A[m,n] * B[m,n]", "Z[m,n] = X[m,n] * D[n]"), {"M": "n", "N": "n"}),
    "reduction": (("X[m] = A[m,k] * B[k]", "Z[p] = X[M: m] * D[m,p]"), {"M": "n", "K": "n", "P": "n"}),
    "transposed": (("X[m,n] = A[m] * B[n]", "Z[n] = X[m,n] * D[m]"), {"M": "n", "N": "n"}),
    "shared input": (("X[m,n] = A[m,k] * B[k,n]", "Z[m,k] = X[m,n] * B[k,n]"), {"M": "n", "N": "n", "K": "s"}),
    "into a convolution": (
        ("X[w] = A[w,k] * B[k]", "Z[p] = X[W: p+r] * D[r]"),
        {"P": "n", "R": "s", "W": "w", "K": "s"},
    ),
    "out of a convolution": (("X[p,m] = A[W: p+r] * B[m,r]", "Z[p] = X[p,m] * D[m]"), {"P": "n", "R": "s", "M": "s"}),
    "three matmuls": (
        ("X[m,n] = A[m,k] * B[k,n]", "Y[m,p] = X[m,n] * D[n,p]", "Z[m,q] = Y[m,p] * F[p,q]"),
        {"M": "s", "N": "s", "K": "s", "P": "s", "Q": "s"},
    ),
    "three elementwise": (
        ("X[m,n] = A[m,n] * B[m]", "Y[m,n] = X[m,n] * D[n]", "Z[m,n] = Y[m,n] * F[m]"),
        {"M": "n", "N": "n"},
    ),
    "residual": (("X[m] = A[m,k] * B[k]", "Y[m] = X[m] * D[m]", "Z[m] = Y[m] * X[m]"), {"M": "n", "K": "s"}),
    "residual of a matmul": (
        ("X[m,n] = A[m] * B[n]", "Y[m,p] = X[m,n] * D[n,p]", "Z[m,p] = Y[m,p] * X[M: m, N: p]"),
        {"M": "s", "N": "s", "P": "=N"},
    ),
    "softmax": (("X[m,n] = A[m] * B[n]", "Y[m] = X[m,n]", "Z[m,n] = X[m,n] * Y[m]"), {"M": "n", "N": "n"}),
    "gated": (("X[m] = A[m,k] * B[k]", "Y[m] = A[m,k] * D[k]", "Z[m] = X[m] * Y[m]"), {"M": "n", "K": "n"}),
    "used late": (("X[m] = A[m] * B[m]", "Y[n] = D[n,k] * F[k]", "Z[m] = X[m] * Y[n]"), {"M": "n", "N": "s", "K": "s"}),
}
GATHERS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "embedding": (("Y[t,d] = T[V: I[t], d]", "Z[t,e] = Y[t,d] * D[d,e]"), {"V": "n", "T": "n", "D": "n", "E": "s"}),
    "table": (("X[v,n] = A[v,k] * B[k,n]", "Z[t,n] = X[V: I[t], n] * D[t]"), {"V": "n", "N": "n", "K": "s", "T": "n"}),
    "indices": (("I[t] = A[t] * B[t]", "Y[t,n] = T[V: I[t], n]"), {"V": "n", "T": "n", "N": "n"}),
    "both": (("X[v,n] = A[v] * B[n]", "I[t] = D[t]", "Z[t,n] = X[V: I[t], n]"), {"V": "s", "T": "s", "N": "s"}),
    "table read twice": (
        ("X[v,n] = A[v] * B[n]", "Y[t,n] = X[V: I[t], n]", "Z[v,n] = X[v,n] * D[v]"),
        {"V": "s", "T": "s", "N": "s"},
    ),
    "experts": (("X[t,n] = A[t] * B[n]", "Z[e,c,n] = X[T: S[e,c], n]"), {"T": "n", "N": "s", "E": "s", "C": "s"}),
    "elements": (("X[m,n] = A[m] * B[n]", "Z[i,n] = X[M: S[i,n], n]"), {"M": "n", "N": "n", "I": "n"}),
}
"""Those in which rows are looked up."""
NORMAL = (1, 2, 3, 4, 4, 6)
SMALL = (1, 2, 2, 3)


@dataclass(frozen=True)
class Problem:
    """A cascade on an architecture, and how it is to be mapped."""

    name: str
    data: dict[str, Any]
    semantics: str
    max_fused_loops: float
    per_variable: int

    @property
    def spec(self) -> Spec:
        return Spec.from_dict(self.data)


def draw_problem(
    rng: random.Random,
    names: tuple[str, ...] = tuple(CASCADES),
    *,
    small: bool = False,
    more: Mapping[str, tuple[tuple[str, ...], dict[str, str]]] = MappingProxyType({}),
) -> Problem:
    """A random problem; most have a mapping that fits, not all. `small`: all mappings in well under a second.

    `more`: cascades by name beside those of this file.
    """
    name = rng.choice(names)
    einsums, kinds = {**CASCADES, **GATHERS, **more}[name]
    levels = 1 if small or len(einsums) > 2 else rng.choice((1, 1, 1, 2))
    fanout = rng.choice((0, 0, 0, 1, 2) if levels == 1 else (0, 0, 1, 2))
    tiny = small or levels > 1 or fanout
    sizes = {rank: rng.choice(SMALL if tiny or kind == "s" else NORMAL) for rank, kind in kinds.items()}
    for rank, kind in kinds.items():
        if kind.startswith("="):
            sizes[rank] = sizes[kind[1:]]
    if "W" in sizes:
        sizes["W"] = sizes["P"] + sizes["R"] - 1
    tensors = sorted({part.split("[")[0].strip() for e in einsums for side in e.split("=") for part in side.split("*")})
    workload: dict[str, Any] = {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": list(einsums)}
    if maybe(rng, 0.15):
        workload["n_instances"] = 2
    if maybe(rng, 0.1):
        workload["einsums"][-1] = {"einsum": workload["einsums"][-1], "n_instances": 3}
    if maybe(rng, 0.2):
        workload["bits_per_value"] = {rng.choice(tensors): 16, "Other": 8}
    data = {"arch": {"nodes": _nodes(rng, sizes, levels, fanout)}, "workload": workload}
    semantics = rng.choice(("exact", "accelforge"))
    return Problem(name, data, semantics, rng.choice((0, 1, 1, 2, math.inf, math.inf)), rng.choice((1, 1, 1, 2)))


def _nodes(rng: random.Random, sizes: dict[str, int], levels: int, fanout: int) -> list[dict[str, Any]]:
    # capacities about the size of a matrix, so that a joint lifetime may make the difference
    unit = max(sizes.values()) * sorted(sizes.values())[-2] * 8
    parts = Parts(rng, (1, 2, 4, 8, 16), 0.15)
    outermost = rng.choice(("~Intermediates", "~Intermediates", "All", "Nothing"))
    nodes = [parts.memory("L0", "inf", {"keep": outermost, "may_keep": "All"}, 10, 0.3)]
    for level in range(1, levels + 1):
        if fanout == level:
            nodes.append(parts.fan(level))
        size = rng.choice(("inf", unit, unit, unit * 1.5, unit * 2, unit * 3, unit * 0.75, 64, 256))
        tensors = rng.choice(
            (
                {"keep": "~L0", "may_keep": "All"}, {"keep": "~L0", "may_keep": "All"},
                {"keep": "Intermediates - L0", "may_keep": "All"}, {"keep": "All"},
                {"keep": "Inputs", "may_keep": "All"}, {"keep": "Nothing", "may_keep": "All"},
                {"keep": "~L0", "may_keep": "Intermediates"},
            )
            if level == 1
            else (
                {"keep": "All"}, {"keep": "Outputs"}, {"keep": "Nothing", "may_keep": "Inputs"},
                {"keep": "Outputs", "may_keep": "All"}, {"keep": "Nothing", "may_keep": "All"},
            )
        )  # fmt: skip
        if maybe(rng, 0.1):
            nodes.append(parts.toll(f"Toll{level}", ("All", *KINDS_OF_TENSORS)))
        for field in ("no_refetch_from_above", "no_resend_to_below"):
            if maybe(rng, 0.05):
                tensors = {**tensors, field: rng.choice(KINDS_OF_TENSORS)}
        nodes.append(parts.memory(f"L{level}", size, dict(tensors), 3, 0.3))
    if fanout == levels + 1:
        nodes.append(parts.fan(fanout))
    nodes.append(parts.compute("MAC", 0.3))
    if fanout and maybe(rng, 0.3):
        # the component below fans out by itself
        at = next(i for i, node in enumerate(nodes) if node["type"] == "Container")
        below = next(node for node in nodes[at:] if node["type"] in ("Memory", "Compute"))
        below["spatial"] = nodes.pop(at)["spatial"]
    if maybe(rng, 0.15):
        nodes.append(parts.compute("Other", 0.3))
    return nodes
