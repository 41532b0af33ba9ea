"""Random placements of small cascades on small meshes, the same for the same seed."""

import random
from dataclasses import dataclass
from functools import cache

from einmap import Spec, SpecError
from einmap.distribute.derive import distribute_workload, tensor_sizes
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.plans.plan import Plan
from einmap.einsum.workload import Workload

SIZE = (1, 9)
MESHES = ((2,), (3,), (4,), (8,), (2, 2), (2, 4), (4, 2), (3, 2), (1, 4), (2, 2, 2))
AXES = "xyz"

CASCADES = (
    ("Z[m] = A[k, m] * B[k]",),
    ("Z[m, n] = A[k, m] * B[k, n]",),
    ("Z[m, n] = A[m, k] * B[k, n] * C[n]",),
    ("T[m, k] = A[m, j] * B[j, k]", "Z[m, n] = T[m, k] * C[k, n]"),
    ("T[m, k] = A[m, j] * B[j, k]", "U[m, k] = A[m, j] * C[j, k]", "Z[m, n] = (T[m, k] - U[m, k]) * D[k, n]"),
    ("T[m, k] = A[m, j] * B[j, k]", "U[m, k] = T[m, k] + C[m, k]", "Z[m] = U[m, k]"),
    ("T[m, k] = A[m, j] * B[j, k]", "Z[m, n] = relu(T[m, k]) * C[k, n]"),
    ("Q[p, e] = I[M: p, d] * W[d, e]", "K[m, e] = I[m, d] * V[d, e]", "Z[p, m] = Q[p, e] * K[m, e] / 4"),
    (
        "S[p, m] = Q[p, e] * K[m, e]",
        ("G[p] = S[p, m]", "max"),
        "N[p, m] = exp(S[p, m] - G[p])",
        "D[p] = N[p, m]",
        "U[p, f] = N[p, m] * V[m, f]",
        "Z[p, f] = U[p, f] / D[p]",
    ),
    ("C[b, G: 3*h + f] = A[b, h, f] * D[h]", "Z[b, d] = C[b, g] * W[g, d]"),
    ("T[p, c] = I[H: 2*p + r, c] * F[r, c]", "Z[p] = T[p, c]"),
    ("T[p, c] = I[H: p + r, c] * F[r, c]", "Z[p, k] = T[p, c] * W[c, k]"),
    (("T[m] = A[m, k]", "min"), "Z[n] = T[m] * B[m, n]"),
    ("Z[m, n] = A[k]", "Y[m] = Z[m, n] * Z2[n]"),
    ("Z[m] = A[m, M2: m] * B[m]",),
    # scalars: tensors with one coordinate
    ("L[O: 0] = A[m, k] * B[k]", "Z[m] = C[m] * L[O: 0]"),
    (
        ("G[O: 0] = A[m, k]", "max"),
        "N[m, k] = exp(A[m, k] - G[O: 0])",
        "D[O: 0] = N[m, k]",
        "Z[m, k] = N[m, k] / D[O: 0]",
    ),
    ("T[m] = A[m, k] * B[k]", "Z[O: 0] = T[m] * S[O: 0]"),
)


@dataclass(frozen=True)
class Drawn:
    """What was drawn, and the plan for it."""

    workload: Workload
    mesh: Mesh
    placements: dict
    loops: dict
    overlap: tuple
    plan: Plan


@cache
def draw(seed: int, max_devices: int = 8, dtype: str = "float64") -> Drawn:
    """A workload, a mesh of at most `max_devices` PEs and a request that can be met, with its plan."""
    rng = random.Random(seed)
    workload = draw_workload(rng)
    shapes = [shape for shape in MESHES if _product(shape) <= max_devices]
    mesh = Mesh(tuple(zip(AXES, rng.choice(shapes), strict=False)))
    placements = draw_placements(rng, workload, mesh)
    loops = draw_loops(rng, workload, mesh) if rng.random() < 0.3 else {}
    try:
        plan = distribute_workload(workload, mesh, placements, loops=loops, dtype=dtype)
    except SpecError:  # pinned loops may ask for what cannot be; placements alone never do
        loops = {}
        plan = distribute_workload(workload, mesh, placements, dtype=dtype)
    overlap = ()
    for einsum in workload.einsum_names:
        try:
            plan = distribute_workload(workload, mesh, placements, loops=loops, overlap=(einsum,), dtype=dtype)
            overlap = (einsum,)
        except SpecError:
            continue
    return Drawn(workload, mesh, placements, loops, overlap, plan)


def draw_workload(rng: random.Random) -> Workload:
    """One of CASCADES with random rank sizes."""
    return draw_spec(rng).workload


def draw_spec(rng: random.Random) -> Spec:
    """A specification of such a workload."""
    einsums = []
    for one in rng.choice(CASCADES):
        text, reduction = one if isinstance(one, tuple) else (one, "sum")
        einsums.append({"einsum": text, "reduction": reduction})
    variables = {"b", "c", "d", "e", "h", "j", "k", "m", "n", "p", "r"}
    sizes = {variable.upper(): rng.randint(*SIZE) for variable in sorted(variables)}
    # the windows of the convolutions, and the digits of the joined rank
    sizes |= {"R": rng.randint(1, 3), "F": 3}
    written = " ".join(one["einsum"] for one in einsums)
    if "G: 3*h" in written:
        sizes["G"] = 3 * sizes["H"]
    sizes = {rank: size for rank, size in sizes.items() if rank.lower() in _variables(written)}
    if "[M: p" in written:
        sizes["P"] = sizes["M"]
    if "H: " in written:
        sizes.pop("H", None)
    return Spec.from_dict(workload={"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": einsums})


def _variables(text: str) -> set[str]:
    inside = text.replace("*", " ").replace("[", " ").replace("]", " ").replace(",", " ").replace(":", " ")
    return {word for word in inside.split() if len(word) == 1 and word.islower()}


def draw_placements(rng: random.Random, workload: Workload, mesh: Mesh) -> dict:
    """For each input, often for outputs and now and then for intermediates: ranks over axes, sometimes partial inputs."""
    sizes = tensor_sizes(workload)
    found = {}
    for tensor in workload.tensors:
        is_input = tensor not in workload.producers
        is_output = not workload.consumers[tensor]
        if rng.random() < (0.9 if is_input else 0.6 if is_output else 0.15):
            found[tensor] = _placement(rng, [rank for rank, _ in sizes[tensor]], mesh, partial=is_input)
    return found


def _placement(rng: random.Random, ranks: list[str], mesh: Mesh, partial: bool) -> dict:
    found: dict = {}
    axes = list(mesh.names)
    rng.shuffle(axes)
    for axis in axes:
        choice = rng.random()
        if choice < 0.65:
            found.setdefault(rng.choice(ranks), []).append(axis)
        elif choice < 0.72 and partial:
            found.setdefault("partial", []).append(axis)
    return found


def draw_loops(rng: random.Random, workload: Workload, mesh: Mesh) -> dict:
    """The loops of one Einsum."""
    einsum = rng.choice(workload.einsums)
    return {einsum.name: {rng.choice(einsum.rank_variables): [axis] for axis in mesh.names}}


def _product(shape) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
