"""Random cascades, meshes and placements, and the plans that are found for them."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from einmap.distribute.derive import distribute, tensor_sizes
from einmap.distribute.plan import Plan
from einmap.einsum.workload import Workload
from einmap.errors import SpecError
from einmap.spec.spec import Spec

CASCADES: tuple[list[Any], ...] = (
    ["Z[m, n] = A[k, m] * B[k, n]"],
    ["T[m, n] = A[m, k] * B[k, n]", "Z[m, j] = T[m, n] * C[n, j]"],
    ["Y[m, n] = exp(A[m, n]) + B[n]", "Z[n] = Y[m, n]"],
    [
        {"einsum": "G[m] = A[m, n]", "reduction": "max"},
        "S[m, n] = exp(A[m, n] - G[m])",
        "D[m] = S[m, n]",
        "Z[m, n] = S[m, n] / D[m]",
    ],
    ["Z[p] = I[c, W: p + r] * F[c, r]"],
    ["C[p, G: {F}*h + f] = V[h, p, f]", "Z[p, d] = C[p, g] * W[g, d]"],
    [{"einsum": "L[m] = A[m, n]", "reduction": "min"}, "Z[m, n] = A[m, n] - L[m]"],
)
"""{F} is the size of rank F."""
MESHES = ((2,), (4,), (8,), (2, 2), (2, 4), (4, 2), (2, 2, 2), (1, 4), (3,), (3, 2))


@dataclass(frozen=True)
class Request:
    """What is asked for, as `distribute` takes it."""

    workload: Workload
    mesh: dict[str, int]
    placements: dict[str, Any]
    dtype: str
    overlap: tuple[str, ...]

    def plan(self) -> Plan:
        return distribute(self.workload, self.mesh, self.placements, dtype=self.dtype, overlap=self.overlap)


def random_plans(seed: int, n: int, meshes: tuple[tuple[int, ...], ...] = MESHES) -> Iterator[Plan]:
    """`n` plans, the same for the same seed; requests that are refused are drawn again."""
    rng = random.Random(seed)
    while n:
        try:
            plan = draw_request(rng, meshes).plan()
        except SpecError:
            continue
        n -= 1
        yield plan


def draw_request(rng: random.Random, meshes: tuple[tuple[int, ...], ...] = MESHES) -> Request:
    """Any request; many cannot be met."""
    workload = draw_workload(rng)
    mesh = dict(zip("xyz", rng.choice(meshes), strict=False))
    sizes = tensor_sizes(workload)
    placements = {
        tensor: _placement(rng, [rank for rank, _ in ranks], list(mesh))
        for tensor, ranks in sizes.items()
        if tensor not in workload.producers or rng.random() < 0.5
    }
    overlap = (rng.choice(workload.einsum_names),) if rng.random() < 0.25 else ()
    return Request(workload, mesh, placements, rng.choice(("float64", "float32")), overlap)


def draw_workload(rng: random.Random) -> Workload:
    """One of CASCADES with small ranks, that rarely divide well."""
    einsums = rng.choice(CASCADES)
    sizes = {rank: rng.randint(1, 9) for rank in "MNKJPRCHFDW"}
    sizes["W"] = sizes["P"] + sizes["R"] - 1
    sizes["G"] = sizes["H"] * sizes["F"]
    written = [_with_sizes(einsum, sizes) for einsum in einsums]
    spec = Spec.from_dict({"workload": {"rank_sizes": sizes, "bits_per_value": {"All": 64}, "einsums": written}})
    return spec.workload


def _with_sizes(einsum: Any, sizes: dict[str, int]) -> Any:
    if isinstance(einsum, dict):
        return einsum | {"einsum": _with_sizes(einsum["einsum"], sizes)}
    return einsum.replace("{F}", str(sizes["F"]))


def _placement(rng: random.Random, ranks: list[str], axes: list[str]) -> Any:
    """Some axes, each for one of the ranks or (less often) for partial sums."""
    found: dict[str, Any] = {}
    rng.shuffle(axes)
    for axis in axes:
        if rng.random() < 0.7:
            key = "partial" if rng.random() < 0.12 else rng.choice(ranks)
            found.setdefault(key, []).append(axis)
    return found or "replicated"
