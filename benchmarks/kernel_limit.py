"""How fast the kernel of the search looks at choices, against a loop that only adds up bounds and objectives."""

import time

import numpy as np
from numba import njit

import einmap
from einmap.mapper.objective import objective_kernels


@njit
def bare(pool, acc, rows, leak, occupied, capacity, wanted):
    """The least objective over rows of tables: what any search has to compute for each choice."""
    bound, goal, least = np.empty(len(acc)), np.empty(len(wanted)), np.inf
    for row in rows:
        for column in range(len(acc)):
            bound[column] = acc[column] + pool[row, column]
        objective_kernels.objectives(bound, leak, occupied, capacity, occupied, wanted, goal)
        least = min(least, goal[0])
    return least


rng = np.random.default_rng(0)
pool, rows = rng.random((20_000, 8)), rng.integers(0, 20_000, 20_000_000)
few = np.ones(2), np.array([objective_kernels.PRODUCT])
bare(pool, pool[0], rows[:1], 0.0, few[0], few[0], few[1])
start = time.perf_counter()
bare(pool, pool[0], rows, 0.0, few[0], few[0], few[1])
limit = len(rows) / (time.perf_counter() - start) / 1e6
print(f"bare loop, 8 columns: {limit:.1f} million choices/s")
spec = einmap.load("eyeriss", "resnet50_layer", define={"LAYER": "conv2_2", "BITS": 16})
einmap.map_workload(spec)  # from here on the kernels are loaded
stats = einmap.map_workload(spec, metrics="energy,latency").stats
rate = stats.evaluated / stats.steps["search"] / 1e6
print(
    f"search: {rate:.1f} million choices/s ({rate / limit:.0%}), {stats.evaluated:,} choices; "
    f"of {stats.seconds:.2f} s: "
    + ", ".join(f"{step} {spent / stats.seconds:.0%}" for step, spent in stats.steps.items())
)
