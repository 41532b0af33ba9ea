"""Under equal links the best plan depends on the PEs there are, not on how their mesh is written."""

import random

import pytest
from tests.distribute.drawn_plans import draw_workload

from einmap import load
from einmap.distribute.costs.cluster import flat_cluster
from einmap.distribute.costs.cost_model import ClusterCost
from einmap.distribute.derive import context_of
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.request import Request
from einmap.distribute.search.search import cheapest
from einmap.distribute.search.space import Options, search_space


def least(workload, metric, **axes):
    """The cost of the best plan."""
    mesh = Mesh(tuple(axes.items()))
    model = ClusterCost(flat_cluster(mesh, 1e9, 1e-8, 1e12), metric)
    bits = dict.fromkeys(workload.tensors, 16.0)
    request = Request({}, {}, frozenset())
    found = cheapest(search_space(context_of(workload, mesh), request, model, bits, Options(free_inputs=True)))
    assert found.proven
    return found.cost


@pytest.mark.parametrize("metric", ["bytes", "time"])
@pytest.mark.parametrize("seed", range(8))
def test_axes_with_other_names_in_another_order_or_cut_in_two_make_no_plan_dearer(seed, metric):
    check_alike(draw_workload(random.Random(seed)), metric)


@pytest.mark.slow
@pytest.mark.distribute
@pytest.mark.parametrize("metric", ["bytes", "time"])
@pytest.mark.parametrize("seed", range(8, 308))
def test_they_make_no_plan_of_300_more_problems_dearer(seed, metric):
    check_alike(draw_workload(random.Random(seed)), metric)


@pytest.mark.parametrize("metric", ["bytes", "time"])
def test_nor_do_they_for_a_feed_forward_pair(metric):
    check_alike(load("feed_forward", define={"N_TOKENS": 256, "D_MODEL": 512, "D_FF": 2048}).workload, metric)


def check_alike(workload, metric):
    enough = 1 + 1e-9
    assert least(workload, metric, x=2, y=2) <= enough * least(workload, metric, x=4)
    two = least(workload, metric, x=2, y=4)
    assert two == pytest.approx(least(workload, metric, b=4, a=2), rel=1e-9)
    assert two <= enough * least(workload, metric, a=8)
