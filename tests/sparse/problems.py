"""Random specifications with zeros, and counts of model and simulator as one table."""

from __future__ import annotations

import random

import numpy as np
from tests.random_specs.cases import valid_case

from einmap.arch.component import Memory
from einmap.errors import CapacityError, NotSupportedError, SpecError
from einmap.execute.execute import execute
from einmap.model.evaluate import evaluate
from einmap.sparse.savings import STATES

NAMES = ["bitmask", "coo", "rle", "csf", "uncompressed"]


def parted_format(rng: random.Random, sizes) -> list:
    """Levels of a format whose ranks may be in blocks, with padding, or with dense tiles below a level that tells."""
    rest = []
    for rank, n in sizes.items():
        lengths = [d for d in range(2, n + 1) if n % d == 0]
        block = rng.choice(lengths) if lengths and rng.random() < 0.7 else None
        rest.append([rank] if block is None else [f"{rank} / {block}", f"{rank} % {block}"])
    order = []
    while any(rest):
        order.append(rng.choice([parts for parts in rest if parts]).pop(0))
    levels = []
    while order:
        n = rng.randint(1, len(order))
        levels.append({"format": rng.choice(["U", "CP", "B", "RLE", "ELL", "ELL"]), "ranks": order[:n]})
        order = order[n:]
    padded = max((i for i, level in enumerate(levels) if level["format"] == "ELL"), default=0)
    for level in levels[:padded]:
        level["format"] = "U"
    if len(levels) > 1 and rng.random() < 0.5:
        levels[-1]["format"] = "U"
    return levels


def sparsity_of(rng: random.Random, spec, *, known: bool, parted: bool = False) -> dict:
    """A key `sparsity` for a specification; `known`: zeros are known position by position.

    `parted`: formats with blocks and padding.
    """
    workload, arch = spec.workload, spec.arch()
    tensors = sorted({t for e in workload.einsums for t in e.tensors})
    memories = [name for name, c in arch.components.items() if isinstance(c, Memory)]
    inputs = sorted({a.tensor for e in workload.einsums for a in e.accesses if not a.output})
    outputs = {a.tensor for e in workload.einsums for a in e.accesses if a.output}
    leaders = [t for t in inputs if t not in outputs] or inputs
    computes = sorted(
        {
            spec.archs[e.name].path(n.node.component)[-1].name
            for e in workload.einsums
            for n in spec.mapping.path_of[e.name][-1:]
        }
    )
    sizes = spec.bindings.rank_sizes
    densities = {}
    for t in tensors:
        if rng.random() < 0.7:
            density = {"uniform": rng.choice([0, 0.2, 0.5, 0.8, 1])}
            rank = rng.choice(list(sizes[t]) or [None])
            if rank is not None and rng.random() < 0.3 and sizes[t][rank] % 2 == 0:
                density = {"structured": [1, 2], "along": rank}
            if known:
                density["seed"] = rng.randrange(1000)
            densities[t] = density
        elif t in outputs and not known:
            densities[t] = 1  # what follows from those of inputs is a mean of its own
    savings = []
    for _ in range(rng.randint(0, 4)):
        on = rng.sample(leaders, rng.randint(1, min(2, len(leaders))))
        if rng.random() < 0.3:
            savings.append({"at": rng.choice(computes), "do": rng.choice(["gate", "skip"]), "on": " | ".join(on)})
        else:
            target = rng.choice([t for t in tensors if t not in on] or [None])
            if target is not None:
                savings.append(
                    {
                        "at": rng.choice(memories),
                        "do": rng.choice(["gate", "skip"]),
                        "tensors": target,
                        "on": " | ".join(on),
                    }
                )
    formats = {}
    for m in memories:
        chosen = {t: rng.choice(NAMES) for t in tensors if rng.random() < 0.4 and sizes[t]}
        if parted:
            chosen = {t: parted_format(rng, sizes[t]) for t in tensors if rng.random() < 0.6 and sizes[t]}
        if chosen:
            formats[m] = chosen
    return {"densities": densities, "formats": formats, "savings": savings}


def draw_sparse(rng: random.Random, *, known: bool, parted: bool = False):
    """A specification with zeros that both sides know, with its cost; `parted`: its formats have blocks and padding."""
    while True:
        spec, _ = valid_case(rng)
        sparse = spec.set("sparsity", sparsity_of(rng, spec, known=known, parted=parted))
        try:
            return sparse, evaluate(sparse)
        except (NotSupportedError, CapacityError):
            continue
        except SpecError:
            assert parted  # blocks of a structured density that do not lie in those of a format


def modelled(spec, cost) -> dict:
    """Actions by Einsum, component, tensor and name, those of a single instance of the Einsums."""
    found = {}
    for row in cost.actions:
        if not row.is_constant:
            key = row.einsum, row.component, row.tensor, row.action
            instances = spec.workload.n_instances * spec.workload.by_name[row.einsum].n_instances
            found[key] = found.get(key, 0) + row.count / instances
    return found


def simulated(spec, zeros) -> dict:
    """`modelled` from what a run counted."""
    found = {}
    for key, by_instance in zeros.values.items():
        einsum, component, tensor, action, state = key
        unit = spec.archs[einsum].components[component]
        rate = 1.0 if tensor is None else unit.action(action).actions_per_value[tensor]
        name = action if state == 0 else f"{STATES[state]}_{action}"
        amount = sum(by_instance.values()) * rate * unit.actions_scale
        if amount:
            found[einsum, component, tensor, name] = amount
    for (einsum, component, tensor, action, state), by_instance in zeros.metadata.items():
        unit = spec.archs[einsum].components[component]
        amount = sum(by_instance.values()) * unit.action(action).actions_per_value[tensor] / (unit.bits[tensor] or 1)
        if amount and state < 2:
            key = einsum, component, tensor, f"metadata_{action}"
            found[key] = found.get(key, 0) + amount * unit.actions_scale
    return found


def busiest(spec, zeros) -> dict:
    """Operations that are not skipped, of the busiest compute, by Einsum."""
    found = {}
    for einsum in spec.workload.by_name:
        lanes: dict = {}
        for (name, _, _, action, state), by_instance in zeros.values.items():
            if name == einsum and action == "compute" and state < 2:
                for at, n in by_instance.items():
                    lanes[at] = lanes.get(at, 0) + n
        found[einsum] = max(lanes.values(), default=0)
    return found


def run(spec, seed: int = 0):
    """A run of a specification's mapping."""
    return execute(spec, seed=seed).zeros


def differences(a: dict, b: dict) -> dict:
    """Entries that differ by more than rounding."""
    keys = sorted({*a, *b}, key=str)
    return {
        k: (a.get(k, 0), b.get(k, 0)) for k in keys if not np.isclose(a.get(k, 0), b.get(k, 0), rtol=1e-9, atol=1e-9)
    }
