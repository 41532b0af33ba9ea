"""Each metric is one entry, which everybody asks."""

import pytest
from tests.mapper.test_verdict import cascade

import einmap
from einmap.mapper.objective import objective_kernels
from einmap.mapper.objective.metrics import ALIASES, METRICS, Parts


def test_kernels_know_metrics_by_their_codes():
    codes = {name: metric.code for name, metric in METRICS.items() if metric.code is not None}
    assert codes == {
        "energy": objective_kernels.ENERGY, "latency": objective_kernels.LATENCY,
        "energy_delay_product": objective_kernels.PRODUCT, "dynamic_energy": objective_kernels.DYNAMIC,
        "leak_energy": objective_kernels.LEAK,
    }  # fmt: skip
    assert max(codes.values()) < objective_kernels.USAGE


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_of_parts_is_that_of_the_cost(name):
    result = (
        einmap.map_workload(cascade(), metrics=name) if name != "resource_usage" else einmap.map_workload(cascade())
    )
    cost, metric = result.cost, METRICS[name]
    parts = Parts(cost.energy, cost.energy - cost.leak_energy, cost.leak_energy, cost.latency)
    assert metric.of is None or metric.of(parts) == pytest.approx(metric.of_cost(cost))
    assert all(part in METRICS for part in metric.parts)


def test_flags_and_aliases_name_one_metric_each():
    flags = [metric.flag for metric in METRICS.values()]
    assert sum(flags) == sum({*flags})
    assert not ALIASES.keys() & METRICS.keys()
