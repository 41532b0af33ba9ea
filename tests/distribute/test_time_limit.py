"""A search whose time is over: the best plan so far with a bound, and no word that is not certain."""

from dataclasses import replace

import numpy as np
import pytest

from einmap import SpecError, load
from einmap.distribute.costs.cluster import Cluster, Link, ProcessingElement
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.planner.planner import plan_workload
from einmap.distribute.planner.planning import PlanRequest
from einmap.distribute.selection import least_excess
from einmap.distribute.selection import solve as solve_module
from einmap.distribute.selection.problem import Selected
from einmap.progress import Progress
from einmap.report.mesh.planned import known_of, planned_document

WORKLOAD = load("feed_forward", define={"N_TOKENS": 64, "D_MODEL": 1024, "D_FF": 4096, "BITS": 16}).workload
MEMORY = 8 * 2**20
"""Bytes: less than the cheapest plan needs, so that the integer program is asked."""


def planned(memory=MEMORY, metric="time", progress=None, **options):
    cluster = Cluster(ProcessingElement(((16, 1e12),)), (("x", Link(20e9, 1e-7)),))
    request = PlanRequest(Mesh((("x", 8),)), cluster, metric, memory, **options)
    return plan_workload(WORKLOAD, request, progress)


@pytest.fixture
def ends_early(monkeypatch):
    """From now on the integer program is ended before it has proven its plan: it has that of `left`."""
    solved = solve_module.solve_integer

    def begin(left):
        for module in (solve_module, least_excess):
            monkeypatch.setattr(module, "solve_integer", lambda problem, *more: left(problem, solved(problem, *more)))
            # which proves it without any integer program
            monkeypatch.setattr(module, "without_too_much", lambda problem: problem)

    return begin


def nothing(problem, solved):
    return Selected(None, np.inf, -np.inf)


def half_proven(problem, solved):
    """The best choice, of which not all is known."""
    return replace(solved, bound=solved.bound / 2) if solved.choice else Selected(None, np.inf, -np.inf)


def test_a_plan_that_is_not_proven_in_time_is_given_with_its_bound(ends_early):
    least = planned()
    assert least.best.proven
    assert least.best.cost > least.unlimited.cost
    ends_early(half_proven)
    stopped = planned()
    assert stopped.best.cost == least.best.cost
    assert not stopped.best.proven
    assert least.unlimited.cost <= stopped.best.bound < stopped.best.cost
    assert known_of(stopped).startswith("not proven least, at least ")
    assert known_of(replace(stopped, best=replace(stopped.best, bound=0.0))) == "not proven least"


def test_where_the_integer_program_has_no_plan_yet_messages_give_one(ends_early):
    least = planned().best
    ends_early(nothing)
    stopped = planned()
    assert not stopped.best.proven
    assert stopped.best.bound <= least.cost <= stopped.best.cost * (1 + 1e-9)
    assert stopped.best.peak.bytes <= MEMORY
    assert stopped.best.plan == planned().best.plan


def test_what_was_not_found_in_time_is_not_said_to_be_impossible(ends_early):
    with pytest.raises(SpecError, match=r"^no plan keeps to 1 KiB on each PE: the thriftiest needs "):
        planned(memory=1024)
    ends_early(nothing)
    with pytest.raises(SpecError, match="was found in the time there was, nor that there is none") as caught:
        planned(memory=1024)
    assert caught.value.hint == "allow more time"


def test_the_least_memory_is_proven_only_where_both_searches_are(ends_early):
    least = planned(metric="memory", memory=None)
    assert known_of(least) == "proven least without turns; the turns that were tried need no less"
    ends_early(half_proven)
    stopped = planned(metric="memory", memory=None)
    assert not stopped.best.proven
    assert stopped.least_peak < least.best.peak.bytes <= stopped.best.peak.bytes
    known = known_of(replace(stopped, least_peak=2048.0))
    assert known == "not proven least: any plan without turns needs at least 2 KiB of memory"
    # a bound of nothing is not worth a word
    assert known_of(replace(stopped, least_peak=0.0)) == "not proven least"
    document = planned_document(stopped)
    assert (document["proven"], document["least_peak_bytes"]) == (False, stopped.least_peak)
    ends_early(nothing)
    met = planned(metric="memory", memory=None)
    assert not met.best.proven
    assert met.least_peak <= least.best.peak.bytes <= met.best.peak.bytes <= 0.8 * met.unlimited.peak.bytes


@pytest.mark.parametrize("memory", [None, MEMORY])
def test_a_search_that_is_stopped_at_its_first_report_gives_a_plan_within_the_memory(memory):
    least = planned(memory).best
    progress = Progress(lambda report: progress.stop())
    stopped = planned(memory, progress=progress).best
    assert stopped.bound <= least.cost <= stopped.cost * (1 + 1e-9)
    assert stopped.proven == (stopped.cost <= least.cost * (1 + 1e-8) and stopped.bound >= least.bound * (1 - 1e-8))
    assert memory is None or stopped.peak.bytes <= memory


def test_a_time_limit_too_short_for_any_integer_program_gives_a_plan():
    least = planned().best
    stopped = planned(time_limit=1e-6).best
    assert stopped.bound <= least.cost <= stopped.cost * (1 + 1e-9)
    assert stopped.peak.bytes <= MEMORY
