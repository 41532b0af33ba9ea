"""Figures of a report against numbers computed by hand, and against the cost that they show."""

import math

import pytest
from tests.report.html.reports import fused

from einmap.frontends.yaml.spec import load
from einmap.model.evaluate import evaluate, workings_of
from einmap.model.roofline import Roof, roofline
from einmap.report.html.charts import grouped
from einmap.report.html.parts import Figure, inner
from einmap.report.html.sections.energy import energy_section
from einmap.report.html.sections.front import spread
from einmap.report.html.sections.latency import latency_section
from einmap.report.html.sections.occupancy import steps_of


def figures(section):
    found = []
    waiting = list(section.parts)
    while waiting:
        part = waiting.pop()
        found += [part] if isinstance(part, Figure) else []
        waiting += inner(part)
    return {figure.name: figure for figure in found}


def test_energy_is_all_there_in_every_view():
    cost, _ = fused()
    views = figures(energy_section(cost))
    assert set(views) == {"energy-by-component", "energy-by-tensor", "energy-by-einsum"}
    for view in views.values():
        rows = view.plot["data"]["values"]
        assert math.fsum(row["share"] for row in rows) == pytest.approx(1)
        assert math.fsum(row["value"] for row in rows) == pytest.approx(cost.energy * 1e9)  # nJ


def test_of_many_the_largest_are_told_apart_and_the_rest_is_one():
    names = {f"T{i}": float(i) for i in range(30)}
    found = grouped(names, "others")
    assert [name for name in names if found[name] == "others"] == [f"T{i}" for i in range(19)]


def test_of_a_long_front_both_ends_can_be_chosen():
    assert spread(3, 5) == (0, 1, 2)
    assert spread(10, 4) == (0, 3, 6, 9)
    places = spread(1302, 200)
    assert (len(set(places)), places[0], places[-1]) == (200, 0, 1301)


def test_what_limits_is_marked():
    cost, _ = fused()
    rows = figures(latency_section(cost))["latency-by-component"].plot["data"]["values"]
    assert {row["row"]: row["marked"] for row in rows} == {"MainMemory": False, "GlobalBuffer": False, "MAC": True}


def test_roofs_and_points_by_hand():
    spec = load("simple", "matmul", "simple_matmul")
    cost = evaluate(spec)
    found = roofline(cost, spec)
    assert found.peaks == (Roof("MAC", 1e9),)
    memory = spec.arch().components["MainMemory"]
    assert Roof("MainMemory", memory.action("read").throughput / 8) in found.bandwidths
    values = sum(row.count for row in cost.actions if row.component == "MainMemory") / 8  # a bit each action, 8 a value
    outer = found.points[0]
    assert (outer.einsum, outer.memory) == ("Z", "MainMemory")
    assert (outer.intensity, outer.rate) == (pytest.approx(2**18 / values), pytest.approx(1e9))
    bandwidths = {roof.component: roof.rate for roof in found.bandwidths}
    for point in found.points:
        assert point.rate <= 1e9 * (1 + 1e-9)
        assert point.rate <= bandwidths[point.memory] * point.intensity * (1 + 1e-9)


def test_occupancy_step_by_step_is_the_peak_that_the_model_counts():
    cost, spec = fused()
    found = {memory.name: (memory, steps) for memory, steps in steps_of(workings_of(spec))}
    assert list(found)[-1] == "MainMemory"  # unlimited
    memory, steps = found["GlobalBuffer"]
    assert [step.einsum for step in steps] == ["EinsumA", "EinsumB"]
    peak = max(sum(step.bits.values()) for step in steps)
    usage = {row.component: row.usage for row in cost.memory_usage}
    assert peak / memory.size_bits == pytest.approx(usage["GlobalBuffer"])
    # I and B whole (64 values), one value of A and one of the weights, 8 bits each
    assert steps[0].bits == {"I": 512, "B": 512, "A": 8, "WA": 8}
