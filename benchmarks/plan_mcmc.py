"""A Metropolis walk over plans against the exact planner, for docs/planner.md.

    python -m benchmarks.plan_mcmc --seeds 10

How far above the proven least time the best plan is after 100, 1,000 and 10,000 evaluations: median and quartiles over
the seeds. The first two evaluations are data parallel and a random plan. Processor seconds: of the exact search with
its space, and of one walk in the same space.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

from einmap import load
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.planner.planning import Planning, PlanRequest
from einmap.distribute.planner.read_cluster import cluster_of
from einmap.distribute.search.search import Found, cheapest
from einmap.distribute.search.space import SearchSpace
from einmap.distribute.walk.walk import HOMES, Homes, WalkOptions, walk

WORKLOADS: dict[str, dict[str, int]] = {
    "feed_forward": {"N_TOKENS": 16, "D_MODEL": 4096, "D_FF": 16384, "BITS": 16},
    "attention": {"N_TOKENS": 1024, "D_IN": 4096, "D_MODEL": 4096, "HEADS": 32},
    "llama3_8b": {},
}
"""Shipped workloads, and what is defined for them: few tokens for the feed-forward pair, else data parallel is best."""
CLUSTER = "a100_nodes"
MESHES = ({"x": 8}, {"x": 4, "y": 2}, {"x": 8, "y": 8})
AFTER = (100, 1_000, 10_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--beta", type=float, default=WalkOptions(1).beta)
    asked = parser.parse_args()
    print("| workload | mesh | exact | data parallel | homes |" + "".join(f" {n:,} |" for n in AFTER) + " one walk |")
    print("|---|---|---|---|---|" + "---|" * (len(AFTER) + 1))
    for name, defines in WORKLOADS.items():
        for axes in MESHES:
            for row in rows(name, defines, axes, asked.seeds, asked.beta):
                print(row, flush=True)


def rows(name: str, defines: dict[str, int], axes: dict[str, int], seeds: int, beta: float) -> Iterator[str]:
    """A row of the table for each way to choose homes."""
    mesh = Mesh(tuple(axes.items()))
    spec = load(name, CLUSTER, define=defines)
    cluster = cluster_of(spec)
    assert cluster is not None
    used = time.process_time()
    space = Planning(spec.workload, PlanRequest(mesh, cluster)).space()
    found = cheapest(space)
    used = time.process_time() - used
    assert isinstance(found, Found)
    assert found.proven
    for homes in HOMES:
        took, gaps = walked_gaps(space, found.cost, seeds, beta, homes)
        start = walk(space, WalkOptions(1)).after(1) / found.cost - 1
        told = " | ".join(quartiles([100 * after[position] for after in gaps]) for position in range(len(AFTER)))
        laid = " x ".join(str(size) for size in axes.values())
        yield f"| `{name}` | {laid} | {used:.2f} s | {100 * start:.1f} % | {homes} | {told} | {took:.2f} s |"


def walked_gaps(
    space: SearchSpace, least: float, seeds: int, beta: float, homes: Homes
) -> tuple[float, list[list[float]]]:
    """Processor seconds of a walk, and for each seed by what part of the least cost the best plan is dearer."""
    used = time.process_time()
    walks = [walk(space, WalkOptions(max(AFTER), seed, beta=beta, homes=homes)) for seed in range(seeds)]
    used = (time.process_time() - used) / seeds
    gaps = [[walked.after(count) / least - 1 for count in AFTER] for walked in walks]
    assert min(min(one) for one in gaps) > -1e-9, "a walk below the proven least"
    return used, gaps


def quartiles(values: list[float]) -> str:
    """`12.0 (9.1 to 15.3) %`: the median and the quartiles."""
    low, middle, high = (np.quantile(np.array(values).clip(min=0), part) for part in (0.25, 0.5, 0.75))
    shown = [f"{max(value, 0):.1f}" for value in (low, middle, high)]
    return f"{shown[1]} ({shown[0]} to {shown[2]}) %"


if __name__ == "__main__":
    main()
