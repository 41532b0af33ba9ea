"""Tile-shape choices per second and core of the batch evaluator, for a 3-level matmul template; at least 1e6."""

import time

import numpy as np

import einmap
from einmap.mapper.mapspace.mapspace import mapspace_of
from einmap.model.batch.batch import Batch
from einmap.model.counting.semantics import PRESETS

CHUNK = 16_384


def memory(name: str, size: object, energy: float) -> dict[str, object]:
    actions = [{"name": n, "energy": energy, "throughput": 16} for n in ("read", "write")]
    keep = {"keep": "All"}
    return {
        "type": "Memory", "name": name, "size": size, "leak_power": 0, "area": 0, "tensors": keep, "actions": actions,
    }  # fmt: skip


mac = {"name": "compute", "energy": 1, "throughput": 1}
spec = einmap.Spec.from_dict(
    {
        "arch": {
            "nodes": [
                memory("Main", "inf", 100),
                memory("L2", 2**22, 10),
                memory("L1", 2**16, 1),
                {"type": "Compute", "name": "MAC", "leak_power": 0, "area": 0, "actions": [mac]},
            ]
        },
        "workload": {
            "rank_sizes": {"M": 1024, "K": 1024, "N": 1024},
            "bits_per_value": {"All": 8},
            "einsums": ["Z[m, n] = A[m, k] * B[k, n]"],
        },
    }
)
(einsum,) = spec.workload.einsums
for name, semantics in PRESETS.items():
    space = mapspace_of(einsum, spec.arch(), backed_outside=einsum.tensors, first_partial_matters=semantics.lowering)
    subspace = space.subspaces[0]
    batch = Batch(subspace.template, einsum, space.arch, semantics)
    points = subspace.random_points(np.random.default_rng(0), CHUNK)
    shapes = subspace.shapes(points)
    batch.evaluate(shapes, CHUNK)
    for what, repeat in (("costs", False), ("decoding and costs", True)):
        start, done = time.perf_counter(), 0
        while time.perf_counter() - start < 2:
            batch.evaluate(subspace.shapes(points) if repeat else shapes, CHUNK)
            done += CHUNK
        rate = done / (time.perf_counter() - start)
        print(f"{name}, {len(subspace.template.loops)} loops, {what}: {rate / 1e6:.2f} million choices/s (at least 1)")
