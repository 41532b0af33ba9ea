"""Plans in turns, where no other plan keeps to the memory or needs as little: they keep to it, are what is written to
a file, and compute what is asked for.
"""

import dataclasses

import pytest

from einmap import SpecError, load, loads
from einmap.distribute.backends.check import check_outputs, sample_inputs
from einmap.distribute.backends.local import LocalEngine
from einmap.distribute.costs.cluster import Cluster, default_cluster, flat_cluster
from einmap.distribute.costs.cost import communication, plan_cost
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.planner.document import distribution_text
from einmap.distribute.planner.planner import plan_workload
from einmap.distribute.planner.planning import PlanRequest
from einmap.distribute.plans.lifetimes import peak_memory
from einmap.distribute.read import plan_of
from einmap.frontends.yaml.spec import dump
from einmap.report.mesh.planned import known_of, planned_document

RING = ("QK", "GM", "SN", "SD", "AN")
CASES = {
    "attention_causal": (Mesh((("x", 8),)), {"HEADS": 1, "N_TOKENS": 64}, RING),
    "matmul": (Mesh((("x", 2), ("y", 2))), {"M": 64, "N": 64, "K": 64}, ("Z",)),
}


def with_energies(cluster):
    """A picojoule for an operation and for a bit that is sent."""
    pe = dataclasses.replace(cluster.pe, energy_per_operation=1e-12)
    links = tuple((axis, dataclasses.replace(link, energy_per_bit=1e-12)) for axis, link in cluster.links)
    return Cluster(pe, links)


def planned(name, metric="time", memory=None, large=None):
    """`large`: sizes and mesh in the place of small ones, on the default cluster."""
    mesh, define, _ = CASES[name]
    cluster = with_energies(flat_cluster(mesh, 1e9, 1e-7, 1e12))
    if large is not None:
        mesh, define = large
        cluster = default_cluster(mesh)
    spec = load(name, define=define)
    return spec, plan_workload(spec.workload, PlanRequest(mesh, cluster, metric, memory))


@pytest.mark.parametrize("name", CASES)
def test_in_turns_a_plan_needs_less_than_any_other_and_is_what_runs(name):
    spec, answer = planned(name, "memory")
    best = answer.best
    assert best.turns.einsums == CASES[name][2]
    assert not best.proven
    assert best.peak.bytes == answer.memory < answer.least_peak
    assert "without turns needs at least" in known_of(answer)
    # predicted, written and read again, and run
    again = plan_of(loads(dump(spec) + "\n" + distribution_text(best)))
    assert again == best.plan
    assert peak_memory(again, best.bits).bytes == best.peak.bytes
    assert plan_cost(again, answer.request.cluster, best.bits).latency == pytest.approx(best.cost)
    sent = sum(row.total_sent_bytes * best.bits[row.tensor] / 32 for row in communication(again))
    assert sent == pytest.approx(best.sent_bytes)
    inputs = sample_inputs(again.workload, 0, again.dtype)
    checks = check_outputs(again.workload, inputs, LocalEngine().run(again, inputs).outputs, again.dtype)
    assert [check.tensor for check in checks if not check.agrees] == []


def test_where_only_a_plan_in_turns_keeps_to_the_memory_it_is_the_plan():
    _, least = planned("attention_causal", "memory")
    _, answer = planned("attention_causal", memory=least.memory)
    assert answer.best.peak.bytes == least.memory
    assert answer.only_turns
    assert "no plan without turns keeps to the memory" in known_of(answer)
    assert planned_document(answer)["distribution"]["turns"][0]["einsums"] == list(RING)
    with pytest.raises(SpecError, match=r"no plan keeps to .* Turns that were tried exceed it, too"):
        planned("attention_causal", memory=least.memory - 1)


def test_of_turns_that_keep_to_the_memory_the_cheapest_are_taken():
    """Blocks of 1,024 by 1,024 of QK and SN take 1 MiB each; of K and V 7 blocks of 16 KiB each are sent on."""
    large = Mesh((("x", 8),)), {"HEADS": 1, "N_TOKENS": 8192}
    best = planned("attention_causal", memory=4 * 2**20, large=large)[1].best
    assert best.turns.panels is None
    assert 2 * 2**20 < best.peak.bytes < 2.2 * 2**20
    assert best.sent_bytes == 2 * 7 * 2**14
    assert best.cost == pytest.approx(sum(part.cost for part in best.parts))


def test_panels_keep_a_large_product_to_28_mib():
    """8,192^3 on 4 x 4: A, B, Z and a product of a panel take 16 MiB of each PE, panels 1/8 and 1/32 of blocks."""
    large = Mesh((("x", 4), ("y", 4))), dict.fromkeys("MNK", 8192)
    _, answer = planned("matmul", memory=28 * 2**20, large=large)
    assert answer.only_turns
    assert answer.best.turns.panels
    assert 16 * 2**20 < answer.best.peak.bytes <= 28 * 2**20
    assert answer.best.sent_bytes == 2 * 3 * 4 * 2**20


@pytest.mark.parametrize(
    ("metric", "cost"),
    [
        # of K and V blocks of 128 bytes are sent on 7 times
        ("bytes", 2 * 7 * 128),
        # that by 8 PEs; 100 operations for each of 2,080 pairs of positions, 1 for each value of AV; and in each of 8
        # turns 3 for what 64 values of SD and 1,024 of AN are multiplied by
        ("energy", (2 * 7 * 8 * 128 * 8 + 100 * 2080 + 1024 + 8 * 3 * (64 + 1024)) * 1e-12),
    ],
)
def test_bytes_and_energy_are_those_of_all_turns(metric, cost):
    _, least = planned("attention_causal", "memory")
    best = planned("attention_causal", metric, memory=1.1 * least.memory)[1].best
    assert best.turns
    assert best.cost == pytest.approx(cost, rel=1e-4)
