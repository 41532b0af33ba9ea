"""The mapper on whole workloads, Eyeriss-like: all distinct layers of VGG-16 and ResNet-50, and a GPT-3 6.7B layer.

First each distinct Einsum for its own EDP, then for its own energy, on all cores; then the EDP of whole workloads, each
Einsum by itself. Limit: 30 s in total for each of the three, all of it proven optimal. Also where the time goes, and
how fast the kernel of the search looks at choices.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import einmap
from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch
from einmap.mapper.branch_and_bound.isomorphism import canonical_key
from einmap.mapper.problem.request import Request
from einmap.model.counting.semantics import EXACT
from einmap.progress import Progress

LIMIT = 30.0
PATIENCE = 120.0
"""Seconds after which a search is stopped."""
WORKLOADS = ("vgg16", "resnet50", "gpt3_6.7b")
SLOWEST = 5


def distinct(specs, goal):
    """The search of each distinct Einsum, by its name; those that are alike in two workloads are both there."""
    found = {}
    for workload, spec in specs.items():
        for einsum in spec.workload.einsums:
            arch = spec.bound[einsum.name].arch
            search = EinsumSearch.over_all(einsum, arch, Request((goal,), EXACT), Progress().within(PATIENCE))
            key = (workload, canonical_key(einsum, arch, search.paths))
            found.setdefault(key, (f"{workload} {einsum.name}", search))
    return dict(found.values())


def each_alone(specs, goal):
    """Search each distinct Einsum for its own best, the largest lattices first; prints what it took."""
    start, used = time.perf_counter(), time.process_time()
    searches = distinct(specs, goal)

    def run(name):
        begin = time.perf_counter()
        optimum = searches[name].run()
        return time.perf_counter() - begin, name, optimum

    order = sorted(searches, key=lambda name: -sum(path.lattice.size for path in searches[name].paths))
    with ThreadPoolExecutor(os.cpu_count()) as executor:
        done = list(executor.map(run, order))
    seconds, used = time.perf_counter() - start, time.process_time() - used
    left = [name for _, name, optimum in done if not optimum.complete]
    proven = "NOT PROVEN: " + ", ".join(left) if left else "all proven optimal"
    times = f"{seconds:.2f} s (CPU {used:.2f} s, limit {LIMIT:.0f} s)"
    print(f"{len(done)} distinct Einsums, each for its own {goal}: {times}, {proven}", flush=True)


def whole_workloads(specs):
    """The EDP of whole workloads, each Einsum by itself."""
    whole = 0.0
    for workload, spec in specs.items():
        start = time.perf_counter()
        used = time.process_time()
        result = einmap.map_workload(spec, time_limit_s=PATIENCE)
        seconds, used = time.perf_counter() - start, time.process_time() - used
        stats = result.stats
        n_distinct = sum(part["same_as"] is None for part in stats.by_einsum.values())
        print(
            f"{workload:10} {len(stats.by_einsum):3} Einsums, {n_distinct:3} distinct: "
            f"{seconds:6.2f} s (CPU {used:.2f} s), {stats.mapspace_size:.1e} mappings, "
            f"{'proven optimal' if result.optimal else 'NOT PROVEN'}",
            flush=True,
        )
        whole += seconds
    print(f"total {whole:.1f} s (limit {LIMIT:.0f})")


if __name__ == "__main__":
    einmap.map_workload(einmap.load("eyeriss", "matmul"))  # from here on the kernels are loaded
    loaded = {workload: einmap.load("eyeriss", workload, define={"BITS": 16}) for workload in WORKLOADS}
    for spec in loaded.values():
        assert spec.bound
    each_alone(loaded, "energy_delay_product")
    each_alone(loaded, "energy")
    whole_workloads(loaded)
