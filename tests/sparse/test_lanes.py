"""The mapper where tensors have zeros and lanes reduce their output, or savings further out decide."""

import pytest
from tests.sparse.test_mapper import product

import einmap


def on_lanes(size, lanes, scratchpad, scale, **sparsity):
    """A product on lanes that reduce sums; each has a scratchpad of so many values, inside of a buffer."""
    spec = product(size, **sparsity)
    main, buffer, mac = spec.get("arch.nodes")
    array = {"type": "Container", "name": "Array", "spatial": [{"name": "X", "fanout": lanes, "may_reuse": "All"}]}
    inner = {"name": "Scratchpad", "size": 8 * scratchpad, "tensors": {"keep": "Z", "may_keep": "All"}}
    inner["actions"] = [{"name": action, "energy": scale, "throughput": 4} for action in ("read", "write")]
    nodes = [main, {**buffer, "tensors": {"keep": "All"}}, array, {**buffer, **inner}, mac]
    return spec.set("arch.nodes", nodes)


@pytest.mark.parametrize(("lanes", "scratchpad", "scale"), [(2, 2, 3), (4, 12, 3)])
def test_lanes_that_reduce_inside_of_another_tile_of_the_output_cost_what_they_cost_without_zeros(
    lanes, scratchpad, scale
):
    gated = on_lanes(
        4, lanes, scratchpad, scale, densities={"B": 0.5}, savings=[{"at": "MAC", "do": "gate", "on": "B"}]
    )
    dense = on_lanes(4, lanes, scratchpad, scale).set("arch.nodes.MAC.actions.compute.energy", 0.5)
    found, expected = (einmap.map_workload(spec, metrics="energy") for spec in (gated, dense))
    assert found.optimal and found.cost.energy == pytest.approx(expected.cost.energy, rel=1e-9)


def test_what_a_saving_further_out_decides_is_known_further_in():
    spec = on_lanes(
        8, 4, 12, 0.3, densities={"A": 0.3}, savings=[{"at": "Buffer", "do": "skip", "tensors": "Z | B", "on": "A"}]
    )
    result = einmap.map_workload(spec, metrics="energy")
    assert result.optimal and result.stats.evaluated < 30_000
