"""Large spaces are searched in bands above a lower bound: the answers are those of the whole search."""

import numpy as np
import pytest
from tests.amounts import some
from tests.distribute.test_every_plan import drawn, space_of
from tests.distribute.test_search import found_plan

from einmap import load
from einmap.distribute.costs.cluster import flat_cluster
from einmap.distribute.costs.cost_model import ClusterCost
from einmap.distribute.derive import context_of
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.request import checked_request
from einmap.distribute.planner.planner import plan_workload
from einmap.distribute.planner.planning import PlanRequest
from einmap.distribute.plans.lifetimes import peak_memory
from einmap.distribute.search import bands, homes, search
from einmap.distribute.search.bounds import slack_of
from einmap.distribute.search.search import NotFound, cheapest, thriftiest
from einmap.distribute.search.space import Options, search_space
from einmap.distribute.selection.problem import Selected

MESHES = ((2,), (3,), (4,), (2, 2))


@pytest.fixture
def in_bands(monkeypatch):
    """From now on every space counts as large, and pairs of homes are not listed at first."""

    def begin():
        monkeypatch.setattr(search, "is_small", lambda space: False)
        monkeypatch.setattr(homes, "MAX_TRIED", 0)
        homes.homes_of.cache_clear()

    yield begin
    monkeypatch.undo()
    homes.homes_of.cache_clear()


@pytest.mark.parametrize("seed", some(3, range(25), "distribute"))
def test_bands_find_the_cheapest_plan(seed, in_bands):
    world = drawn(seed, MESHES)
    whole = cheapest(space_of(world))
    in_bands()
    found = cheapest(space_of(world))
    assert found.proven
    assert found.cost == pytest.approx(whole.cost, rel=1e-9)


def test_the_least_memory_is_proven_where_pairs_of_homes_are_not_listed(in_bands):
    # Q, K and V read I, which may have two homes
    workload = load("attention_single_head", define={"N_TOKENS": 32}).workload
    mesh = Mesh((("x", 4),))
    request = PlanRequest(mesh, flat_cluster(mesh, 1e11, 1e-6, 1e14), metric="memory")
    whole = plan_workload(workload, request)
    in_bands()
    found = plan_workload(workload, request)
    assert whole.best.proven and found.best.proven
    assert found.best.peak.bytes == whole.best.peak.bytes
    assert found.best.cost == pytest.approx(whole.best.cost, rel=1e-9)
    assert found.least_peak == pytest.approx(whole.least_peak, rel=1e-8)


@pytest.mark.parametrize("seed", some(3, range(12), "distribute"))
def test_bands_keep_to_the_memory(seed, in_bands):
    world = drawn(seed, MESHES, most_einsums=4)
    space = space_of(world, limited=True)
    most = peak_memory(found_plan(space, cheapest(space)), space.bits).bytes
    least = thriftiest(space).cost
    limits = [least * (1 + 1e-9) + part * (most - least) for part in (0.0, 0.5)]
    whole = [cheapest(space, limit) for limit in limits]
    in_bands()
    for limit, expected in zip(limits, whole, strict=True):
        found = cheapest(space_of(world, limited=True), limit)
        assert found.proven
        assert found.cost == pytest.approx(expected.cost, rel=1e-9)
    assert isinstance(cheapest(space_of(world, limited=True), least * (1 - 1e-5) - 1), NotFound)


@pytest.mark.parametrize("seed", range(6))
def test_a_way_costs_at_least_the_bound_and_its_slack(seed):
    space = space_of(drawn(seed, MESHES))
    consistent = bands._consistent(space)
    slack = slack_of(consistent)
    for name, ways in consistent.ways.items():
        for number in range(len(ways.choices)):
            others = np.arange(len(ways.choices)) != number
            found = cheapest(consistent, excluded={name: others})
            cost = np.inf if isinstance(found, NotFound) else found.cost
            assert slack.bound + slack.slack[name][number] <= cost * (1 + 1e-9)


def test_equal_layers_are_planned_as_a_whole_and_in_bands(in_bands, tmp_path):
    layers = "\n".join(
        f'  - "A{i}[m, s] = X{i}[m, d] * W{i}[d, s]"\n  - "X{i + 1}[m, d] = A{i}[m, s] * V{i}[s, d]"' for i in range(12)
    )
    file = tmp_path / "layers.yaml"
    file.write_text(
        f"workload:\n  rank_sizes: {{M: 64, S: 512, D: 256}}\n  bits_per_value: {{All: 16}}\n  einsums:\n{layers}\n"
    )
    mesh = Mesh((("x", 4), ("y", 2)))
    context = context_of(load(file).workload, mesh)
    model = ClusterCost(flat_cluster(mesh, 1e9, 1e-6, 1e12))

    def planned():
        bits = dict.fromkeys(context.workload.tensors, 16)
        return cheapest(search_space(context, checked_request(context), model, bits, Options(True)))

    whole = planned()
    in_bands()
    found = planned()
    assert found.proven
    assert found.cost == pytest.approx(whole.cost, rel=1e-9)


def test_a_search_without_a_result_proves_nothing_unless_its_bound_does():
    assert not Selected(None, np.inf, 17.0).proven
    assert Selected(None, np.inf, np.inf).proven
    assert not Selected((0,), 1e-5, 0.99e-5).proven
