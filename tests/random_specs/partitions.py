"""Random steps that partition a workload, each of which can be done after those before it."""

from __future__ import annotations

import random

from tests.random_specs.workloads import chance

from einmap import SpecError
from einmap.einsum.notation.names import stem_and_level
from einmap.einsum.rewrites.steps import Delay, Flatten, Linearise, Split, Step, applied
from einmap.einsum.workload import Workload


def draw_steps(rng: random.Random, workload: Workload, most: int = 4) -> list[Step]:
    """At most `most` steps that the workload takes; what it refuses is left out."""
    found: list[Step] = []
    for _ in range(most):
        step = _draw(rng, workload)
        try:
            workload = applied(workload, step)
        except SpecError:
            continue
        found.append(step)
        if any(isinstance(step, Flatten) for step in found[-1:]) and chance(rng, 0.5):
            rank = found[-1].name or "".join(found[-1].ranks)
            try:
                workload = applied(workload, Linearise(rank))
            except SpecError:
                continue
            found.append(Linearise(rank))
    return found


def _draw(rng: random.Random, workload: Workload) -> Step:
    ranks = list(workload.rank_sizes)
    rank = rng.choice(ranks)
    size = max(workload.rank_sizes[rank].values())
    match rng.choices(["shape", "shapes", "parts", "together", "delay", "flatten"], [5, 2, 2, 1, 4, 3])[0]:
        case "shape":
            return Split((rank,), (rng.randint(1, size),))
        case "shapes":
            outer = rng.randint(1, size)
            return Split((rank,), (outer, rng.randint(1, outer)))
        case "parts":
            return Split((rank,), parts=rng.randint(1, size))
        case "together":
            return Split((rank, rng.choice(ranks)), (rng.randint(1, size),))
        case "delay":
            return Delay(rank)
        case _:
            return Flatten(_some_ranks(rng, workload, rank))


def _some_ranks(rng: random.Random, workload: Workload, rank: str) -> tuple[str, ...]:
    """Often two neighbouring partitions of one rank, else any ranks of one tensor."""
    family = stem_and_level(rank, workload.rank_sizes)
    if family and chance(rng, 0.8):
        stem, level = family
        return (rank, f"{stem}{level - 1}") if level else (f"{stem}1", rank)
    tensor = rng.choice(list(workload.rank_sizes[rank]))
    own = list(workload.tensor_shape(tensor))
    return tuple(rng.sample(own, min(len(own), rng.choice([2, 2, 3]))))
