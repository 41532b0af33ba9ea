"""PEs with an architecture of their own: the mapper costs their Einsums, and the plan is the best by these costs."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from einmap import Spec, SpecError, load, loads, map_workload
from einmap.distribute.costs.cluster import Cluster, Link, ProcessingElement
from einmap.distribute.costs.cost import plan_cost
from einmap.distribute.costs.cost_model import ClusterCost
from einmap.distribute.costs.mapped_pe import MappedPe
from einmap.distribute.costs.pe_spec import combined
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.planner.planner import plan_workload
from einmap.distribute.planner.planning import Planning, PlanRequest
from einmap.distribute.planner.read_cluster import cluster_of
from einmap.distribute.search.search import NotFound, cheapest
from einmap.distribute.search.space import Options, search_space
from einmap.facade import cluster_in
from einmap.progress import Progress
from einmap.report.mesh.planned import overlap_line

METRICS = ("time", "energy")
FEED_FORWARD = {"N_TOKENS": 12, "D_MODEL": 8, "D_FF": 16, "BITS": 8}


def pods(workload="feed_forward", arch="simple", axes="x", define=None, **pe):
    """A workload, and a cluster of PEs of an architecture."""
    spec = load(workload, define=define or FEED_FORWARD)
    mapped = MappedPe(combined(spec, load(arch)))
    links = tuple((axis, Link(1e9, 1e-8, energy_per_bit=1e-12)) for axis in axes)
    return spec, Cluster(ProcessingElement(arch=mapped, **pe), links)


APART = ["X[m, n] = A[m, k] * B[k, n]", "Y[p, q] = C[p, r] * D[r, q]"]
TURNED = [
    {"einsum": "X[m, n] = A[m, k] * B[k, n]", "renames": {"left": "A"}},
    {"einsum": "Y[k, n] = C[k, m] * D[m, n]", "renames": {"left": "C"}},
]


def two_products(einsums, energy=5, **main):
    """Two matrix products that are equal but for the names of their ranks."""

    def memory(name, size, energy, **fields):
        actions = [{"name": action, "energy": energy, "throughput": 4} for action in ("read", "write")]
        return {"type": "Memory", "name": name, "size": size, "leak_power": 0, "area": 0, "actions": actions, **fields}

    unit = {"type": "Compute", "name": "MAC", "leak_power": 0, "area": 0}
    unit["actions"] = [{"name": "compute", "energy": 1, "throughput": 1}]
    nodes = [memory("Main", "inf", energy, **main), memory("Buf", 48, 1), unit]
    ranks = {rank: 4 for rank in "MNKPQR" if rank.lower() in str(einsums)}
    workload = {"rank_sizes": ranks, "bits_per_value": {"All": 8}, "einsums": einsums}
    return Spec.from_dict(arch={"nodes": nodes}, workload=workload)


@pytest.mark.parametrize(
    ("einsums", "main"),
    [
        (APART, {"energy": "5 if 'K' in spec.workload.rank_sizes else 50"}),
        (TURNED, {"layout": {"line": 32, "order": {"left": ["M", "K"]}}}),
    ],
    ids=["sizes", "layout"],
)
def test_an_architecture_that_names_ranks_is_asked_for_each_einsum(einsums, main):
    spec = two_products(einsums, **main)
    both, found = MappedPe(spec), []
    for einsum in spec.workload.einsums:
        found.append(both.cost(both.like(einsum), (4, 4, 4), "energy"))
        assert found[-1] == MappedPe(spec).cost(einsum, (4, 4, 4), "energy")
    assert found[0] != found[1]


def request(cluster, **options):
    mesh = Mesh(tuple((axis, 2) for axis, _ in cluster.links))
    return PlanRequest(mesh, cluster, **options)


@dataclass(frozen=True)
class Eager:
    """The same costs, all of them found out before the search."""

    inner: ClusterCost

    def move(self, *arguments):
        return self.inner.move(*arguments)

    def of(self, einsum):
        return _Compute(self.inner.of(einsum))


@dataclass(frozen=True)
class _Compute:
    inner: object

    def compute(self, mesh, work):
        return self.inner.compute(mesh, work)


@pytest.mark.parametrize(("metric", "goal", "each"), [("time", "latency", 1), ("energy", "energy", 4)])
def test_an_einsum_costs_what_the_mapper_says_of_the_local_block(metric, goal, each):
    spec, cluster = pods("matmul", define={"M": 32, "K": 24, "N": 8})
    mesh = Mesh((("x", 4),))
    fixed = {"A": {"M": "x"}, "B": "replicated", "Z": {"M": "x"}}
    best = plan_workload(spec.workload, PlanRequest(mesh, cluster, metric, placements=fixed)).best
    assert best.loops == {"Z": {"m": ("x",)}}
    local = map_workload(load("simple", "matmul", define={"M": 8, "K": 24, "N": 8}), metrics=goal)
    assert local.optimal
    assert best.cost == pytest.approx(each * getattr(local.cost, goal), rel=1e-9)
    assert best.proven


def test_times_beside_the_least_energy_are_said_to_be_those_of_other_mappings():
    spec, cluster = pods("matmul", define={"M": 8, "K": 4, "N": 4})
    said = {metric: overlap_line(plan_workload(spec.workload, request(cluster, metric=metric))) for metric in METRICS}
    assert "those of least latency" in said["energy"]
    assert "latency" not in said["time"]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("axes", ["x", "xy"])
def test_bounds_and_refinement_find_what_all_costs_at_once_do(axes, metric):
    spec, cluster = pods(axes=axes)
    planning = Planning(spec.workload, request(cluster, metric=metric))
    space = planning.space()
    found = cheapest(space)
    n_asked = len(cluster.pe.arch.costs)
    eager = search_space(planning.context, planning.asked, Eager(planning.model), planning.bits, Options(True))
    least = cheapest(eager)
    assert found.proven
    assert found.cost == pytest.approx(least.cost, rel=1e-9)
    # with one axis there are few shapes
    assert n_asked < len(cluster.pe.arch.costs) or axes == "x"
    for name, ways in space.ways.items():
        mesh = planning.context.mesh
        costs = np.array([ways.slow.compute(mesh, work) for work in ways.works])
        assert (ways.costs <= costs * (1 + 1e-9)).all(), name


def test_the_refined_plan_keeps_to_the_memory():
    spec, cluster = pods()
    free = plan_workload(spec.workload, request(cluster)).best
    planning = Planning(spec.workload, request(cluster, memory=0.9 * free.peak.bytes))
    planned = plan_workload(spec.workload, planning.request)
    assert planned.best.peak.bytes <= 0.9 * free.peak.bytes
    eager = search_space(planning.context, planning.asked, Eager(planning.model), planning.bits, Options(True, True))
    assert planned.best.cost == pytest.approx(cheapest(eager, 0.9 * free.peak.bytes).cost, rel=1e-9)


def test_equal_blocks_of_equal_einsums_are_mapped_once():
    # U and G are the same but for names
    spec, cluster = pods(define={**FEED_FORWARD, "GATED": 1})
    arch = cluster.pe.arch
    by_name = spec.workload.by_name
    first, second = (by_name[name] for name in ("G", "U"))
    assert arch.like(first) is arch.like(second)
    cost = arch.cost(first, (6, 8, 16), "latency")
    assert arch.known(second, (6, 8, 16), "latency") == cost
    assert arch.known(second, (6, 8, 8), "latency") is None
    assert len(arch.costs) == 1


def test_an_architecture_that_sees_the_sizes_sees_those_of_the_pe():
    # the fewer rows, the faster: a bound by the whole matrix would be above what a part of it costs
    text = "1e6 * 64 / spec.workload.rank_sizes['M']"
    arch = load("simple").set("arch.nodes.MAC.actions", [{"name": "compute", "energy": 1e-12, "throughput": text}])
    spec = load("matmul", define={"M": 32, "K": 8, "N": 8})
    mapped = MappedPe(combined(spec, arch))
    einsum = spec.workload.einsums[0]
    quarter = mapped.cost(einsum, (8, 8, 8), "latency")
    local = combined(load("matmul", define={"M": 8, "K": 8, "N": 8}), arch)
    assert quarter == map_workload(local, metrics="latency").cost.latency == 8 * 8 * 8 / (1e6 * 64 / 8)
    assert mapped.least(einsum, (8, 8, 8), "latency") == pytest.approx(quarter)


def test_no_plan_is_proven_by_costs_that_are_not():
    spec, cluster = pods()
    spec = load("feed_forward", define=FEED_FORWARD)
    arch = load("simple").set("mapper", {"max_pmapping_templates_per_einsum": 1})
    stopped = replace(cluster, pe=ProcessingElement(arch=MappedPe(combined(spec, arch))))
    best = plan_workload(spec.workload, request(stopped)).best
    assert plan_workload(spec.workload, request(cluster)).best.proven
    assert not best.proven
    assert best.bound == 0


def test_the_parts_and_the_timeline_have_the_costs_of_the_mapper():
    spec, cluster = pods()
    best = plan_workload(spec.workload, request(cluster)).best
    assert best.cost == pytest.approx(sum(part.cost for part in best.parts), rel=1e-9)
    times = plan_cost(best.plan, cluster, best.bits)
    assert times.latency == pytest.approx(best.cost, rel=1e-6)


def test_a_search_that_is_stopped_gives_a_plan_whose_costs_are_known():
    spec, cluster = pods(axes="xy")
    planning = Planning(spec.workload, request(cluster))
    progress = Progress()
    progress.stop()
    found = cheapest(planning.space(), progress=progress)
    assert not isinstance(found, NotFound)
    least = cheapest(planning.space())
    assert found.bound <= least.cost * (1 + 1e-9) <= found.cost * (1 + 1e-9)


def test_the_mapper_of_a_block_is_asked_to_end_too():
    spec, cluster = pods(arch="tpu_v4i", define={"N_TOKENS": 256, "D_MODEL": 512, "D_FF": 2048, "BITS": 8})
    least = plan_workload(spec.workload, request(cluster)).best
    spec, cluster = pods(arch="tpu_v4i", define={"N_TOKENS": 256, "D_MODEL": 512, "D_FF": 2048, "BITS": 8})
    progress = Progress(lambda report: progress.stop() if "architecture" in report.what else None)
    stopped = plan_workload(spec.workload, request(cluster), progress).best
    # nothing is known of the mappings that were not looked at, so that nothing is said of the plan
    assert not any(found.optimal for found in cluster.pe.arch.costs.values())
    assert (stopped.proven, stopped.bound) == (False, 0)
    assert stopped.cost >= least.cost * (1 - 1e-9)


def test_the_memory_of_the_pe_is_that_of_its_outermost_memory_unless_it_is_given():
    text = "cluster:\n  pe: {arch: edge}\n  axes: {x: {bandwidth: 1e9}}\n"
    outermost = load("edge", "matmul").bound["Z"].arch.memories[0]
    assert planned_cluster(text).pe.memory == outermost.size_bits / 8
    assert planned_cluster(text.replace("arch: edge", "arch: edge, memory: 2**20")).pe.memory == 2**20


def planned_cluster(text):
    whole = loads(text)
    spec = load("matmul")
    return cluster_in(Spec.from_dict({**spec.to_dict(), **whole.to_dict()}))


def test_a_cluster_that_is_read_without_files_says_how_to_read_it():
    text = "cluster:\n  pe: {arch: simple}\n  axes: {x: {bandwidth: 1e9}}\n"
    with pytest.raises(SpecError, match=r"facade\.cluster_in"):
        cluster_of(loads(text))
