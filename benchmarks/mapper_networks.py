"""The mapper on whole workloads, Eyeriss-like: all distinct layers of VGG-16 and ResNet-50, and a GPT-3 6.7B layer.

EDP of the whole workload, each Einsum by itself. Limit: 30 s in total, all of it proven optimal. Also where the time
goes, and how fast the kernel of the search looks at choices.
"""

import os
import time

import einmap

LIMIT = 30.0
PATIENCE = 120.0
"""Seconds after which a search is stopped."""
whole = 0.0
steps: dict[str, float] = {}
evaluated = 0
print(f"# load averages {', '.join(f'{x:.1f}' for x in os.getloadavg())}")
einmap.map_workload(einmap.load("eyeriss", "matmul"))  # from here on the kernels are loaded
for workload in ("vgg16", "resnet50", "gpt3_6.7b"):
    start = time.perf_counter()
    used = time.process_time()
    result = einmap.map_workload(einmap.load("eyeriss", workload, define={"BITS": 16}), time_limit_s=PATIENCE)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    stats = result.stats
    distinct = sum(part["same_as"] is None for part in stats.by_einsum.values())
    print(
        f"{workload:10} {len(stats.by_einsum):3} Einsums, {distinct:3} distinct: {seconds:6.2f} s (CPU {used:.2f} s), "
        f"EDP {result.cost.edp:.4e} J*s, {stats.mapspace_size:.1e} mappings, {stats.evaluated:,} choices looked at, "
        f"{'proven optimal' if result.optimal else 'NOT PROVEN'}",
        flush=True,
    )
    whole += seconds
    evaluated += stats.evaluated
    for step, spent in stats.steps.items():
        steps[step] = steps.get(step, 0.0) + spent
print(f"total {whole:.1f} s (limit {LIMIT:.0f})")
print("of which " + ", ".join(f"{step} {spent / whole:.0%}" for step, spent in steps.items()))
kernel = evaluated / steps["search"] / 1e6
print(f"choices: {kernel:.1f} million/s in the kernel of the search, {evaluated / whole / 1e6:.2f} million/s over all")
