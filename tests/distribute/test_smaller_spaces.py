"""Spaces of which not everything is listed: many mesh axes, little time. A plan there has a true bound and no proof."""

import random

import pytest

from einmap import load
from einmap.distribute.backends.check import check_outputs, sample_inputs
from einmap.distribute.backends.local import LocalEngine
from einmap.distribute.costs.cluster import flat_cluster
from einmap.distribute.hops import shortest as moves
from einmap.distribute.placements.blocks import Offer
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.planner.best import best_plan
from einmap.distribute.planner.planning import Planning, PlanRequest
from einmap.distribute.search import space as spaces
from einmap.distribute.search.search import Found, cheapest
from einmap.distribute.search.space import Options
from einmap.progress import Progress

ORDERS = ("mesh", "single", "nested")


def planning(name="feed_forward", sizes=(2, 2, 2), metric="time", placements=None, **define):
    define = {"N_TOKENS": 16} | define
    mesh = Mesh(tuple(zip("wxyz", sizes, strict=False)))
    cluster = flat_cluster(mesh, 1e9, 1e-7, 1e12)
    request = PlanRequest(mesh, cluster, metric, placements=placements)
    return Planning(load(name, define=define).workload, request)


def space_of(asked, offer, floor):
    return spaces._space(asked.context, asked.asked, asked.model, asked.bits, Options(True), offer, floor)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("order", ORDERS)
def test_a_smaller_space_has_no_cheaper_plan_and_no_bound_above_the_least_cost(seed, order):
    rng = random.Random(seed)
    sizes = {"N_TOKENS": rng.choice((3, 8, 12)), "D_MODEL": rng.choice((8, 12)), "D_FF": rng.choice((16, 24))}
    metric = rng.choice(("time", "bytes"))
    asked = planning(sizes=rng.choice(((2, 2, 2), (2, 3), (4, 2))), metric=metric, **sizes)
    floor = spaces.least_of_all(asked.context, asked.model, asked.bits)
    least = cheapest(space_of(asked, Offer(), None))
    small = cheapest(space_of(asked, Offer(False, order), floor))
    assert isinstance(least, Found)
    assert isinstance(small, Found)
    assert least.proven
    assert small.bound <= floor <= least.cost * (1 + 1e-9)
    assert least.cost <= small.cost * (1 + 1e-9)
    assert small.proven == (small.cost <= floor * (1 + 1e-8))


def test_what_a_smaller_space_lacks_is_not_said_to_be_impossible():
    asked = planning()
    space = space_of(asked, Offer(False, "nested"), 0.0)
    assert cheapest(space, memory=1.0).proven is False


def test_where_a_tensor_has_too_many_placements_there_is_a_plan_that_runs(monkeypatch):
    monkeypatch.setattr(moves, "MAX_PLACEMENTS", 40)
    asked = planning(sizes=(2, 2, 2), N_TOKENS=6)
    best = best_plan(asked).chosen
    assert best is not None
    assert 0 < best.bound < best.cost
    assert not best.proven
    dtype, inputs = best.plan.dtype, sample_inputs(best.plan.workload, 0, best.plan.dtype)
    checks = check_outputs(best.plan.workload, inputs, LocalEngine().run(best.plan, inputs).outputs, dtype)
    assert [check.tensor for check in checks if not check.agrees] == []


def test_a_search_that_is_stopped_at_once_gives_a_plan_without_proof():
    progress = Progress()
    progress.stop()
    best = best_plan(planning("attention", (4, 4, 2)), progress)
    assert best.chosen is not None
    assert not best.chosen.proven


@pytest.mark.parametrize("order", ORDERS)
def test_placements_that_are_asked_for_are_in_every_space(order):
    asked = planning(placements={"Z": {"M": ["y", "w"]}})
    found = cheapest(space_of(asked, Offer(False, order, (("y", "w"),)), 0.0))
    assert isinstance(found, Found)
    assert [str(home) for home in found.homes["Z"]][-1] == "M: y*w"
