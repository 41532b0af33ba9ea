"""The problems that search strategies are compared on: shipped ones, and the eight of Mind Mappings (ASPLOS 2021)."""

from __future__ import annotations

from typing import Any

import einmap
from einmap.search.experiment import Question
from einmap.spec.spec import Spec

SHIPPED = {
    "nvdla conv": (("nvdla", "conv"), None),
    "eyeriss conv": (("eyeriss", "conv"), None),
    "simba conv": (("simba", "conv"), None),
    "nvdla vgg16 conv3_2": (("nvdla", "vgg16"), "conv3_2"),
    "tpu_v4i matmul": (("tpu_v4i", "matmul"), None),
}
"""Files and Einsum of each."""

CONVOLUTIONS = {
    "VGG": (16, 64, 128, 3, 3, 112, 112),
    "Inception": (32, 64, 192, 3, 3, 56, 56),
    "AlexNet-2": (8, 96, 256, 5, 5, 27, 27),
    "AlexNet-4": (8, 384, 384, 3, 3, 13, 13),
    "ResNet-3": (16, 128, 128, 3, 3, 28, 28),
    "ResNet-4": (16, 256, 256, 3, 3, 14, 14),
}
"""N, C, K, R, S, P, Q."""
MTTKRP = {"MTTKRP-1": (128, 1024, 4096, 2048), "MTTKRP-2": (2048, 4096, 1024, 128)}
"""I, J, K, L."""
PUBLISHED = {
    "VGG": (4.5, 6.8), "Inception": (4.7, 7.1), "AlexNet-2": (5.7, 8.2), "AlexNet-4": (5.3, 7.6),
    "ResNet-3": (4.6, 7.6), "ResNet-4": (4.8, 7.3), "MTTKRP-1": (6.8, 7.4), "MTTKRP-2": (8.0, 8.1),
}  # fmt: skip
"""Energy-delay product over the unreachable minimum after 5,000 steps: Mind Mappings, simulated annealing."""

DRAM, L2, L1, MAC = 200.0, 2.2, 1.12, 1.0
"""pJ of a word, and of an operation."""


def machine() -> dict[str, Any]:
    """256 processing elements with 64 KiB each, 512 KiB shared, words of 16 bits; only operations take time.

    The banks of the original, 16 for each buffer and split among the tensors, are left out: a buffer may be split as
    finely as a mapping likes, so that optima here are no worse than with banks.
    """

    def memory(name: str, size: Any, picojoule: float) -> dict[str, Any]:
        energy = picojoule * 1e-12 / 16
        actions = [{"name": action, "energy": energy, "throughput": "inf"} for action in ("read", "write")]
        return {"type": "Memory", "name": name, "size": size, "leak_power": 0, "area": 0, "actions": actions}

    compute = {"name": "compute", "energy": MAC * 1e-12, "throughput": 1e9}
    return {
        "nodes": [
            {**memory("DRAM", "inf", DRAM), "tensors": {"keep": "All"}},
            {**memory("L2", 512 * 1024 * 8, L2), "tensors": {"keep": "All"}},
            {"type": "Container", "name": "PEs", "spatial": [{"name": "X", "fanout": 256, "may_reuse": "All"}]},
            {**memory("L1", 64 * 1024 * 8, L1), "tensors": {"keep": "All"}},
            {"type": "Compute", "name": "MAC", "leak_power": 0, "area": 0, "actions": [compute]},
        ]
    }


def mind_mappings(name: str) -> Spec:
    """One of the eight problems."""
    if name in CONVOLUTIONS:
        sizes = dict(zip("NCKRSPQ", CONVOLUTIONS[name], strict=True))
        einsum = "O[n, k, p, q] = I[n, c, H: p + r, W: q + s] * F[k, c, r, s]"
        sizes |= {"H": sizes["P"] + sizes["R"] - 1, "W": sizes["Q"] + sizes["S"] - 1}
    else:
        sizes = dict(zip("IJKL", MTTKRP[name], strict=True))
        einsum = "O[i, j] = T[i, k, l] * A[k, j] * B[l, j]"
    workload = {"rank_sizes": sizes, "bits_per_value": {"All": 16}, "einsums": [einsum]}
    return Spec.from_dict({"arch": machine(), "workload": workload})


def unreachable_minimum(spec: Spec) -> float:
    """The paper's minimum, J*s: every value once through every memory, every element busy."""
    (einsum,) = spec.workload.einsums
    values = sum(spec.workload.tensor_size(tensor) for tensor in einsum.tensors)
    energy = (values * (L1 + L2 + DRAM) + einsum.n_computes * MAC) * 1e-12
    return energy * einsum.n_computes / 256 / 1e9


def question(name: str) -> Question:
    """A problem by name."""
    if name in SHIPPED:
        files, einsum = SHIPPED[name]
        spec = einmap.load(*files)
        chosen = einsum or spec.workload.einsums[0].name
    else:
        spec = mind_mappings(name)
        chosen = spec.workload.einsums[0].name
    return Question(spec, chosen, "energy_delay_product", spec.model_options.semantics)
