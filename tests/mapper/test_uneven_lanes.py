"""Imperfect lanes beside other dimensions, and dimensions of which no use is left."""

import pytest
from tests.mapper.specs import MAIN, compute, memory, spec

import einmap


def test_uneven_lanes_are_shared_out_by_those_of_another_dimension():
    # 5 on 3 lanes of 2, 2 and 1, each shared out on 2: one step, where no memory stands between
    grid = {"type": "Container", "name": "Grid", "spatial": [{"name": "X", "fanout": 3}, {"name": "Y", "fanout": 2}]}
    slow = compute(actions=[{"name": "compute", "energy": 1, "throughput": 0.001}])
    given = spec([MAIN, grid, slow], ["Z[m] = A[m] * B[m]"], {"M": 5})
    result = einmap.map_workload(given, metrics="latency", explore_imperfect_spatial_loops=True)
    assert result.optimal
    assert [row.usage for row in result.cost.spatial_usage] == [1.0, 1.0]


@pytest.mark.parametrize("lanes", [False, True])
def test_constraints_that_leave_no_use_of_several_dimensions_are_told(lanes):
    never = [{"expression": "m", "operator": "==", "value": 3}]
    dimensions = [
        {"name": "X", "fanout": 4, "loop_bounds": never}, {"name": "Y", "fanout": 2}, {"name": "V", "fanout": 2},
    ]  # fmt: skip
    nodes = [MAIN, {"type": "Container", "name": "Grid", "spatial": dimensions}, memory("Reg", 64, 1), compute()]
    given = spec(nodes, ["Z[m] = A[m] * B[m]"], {"M": 4})
    with pytest.raises(einmap.NoMappingError, match=r"no loops over Grid\.X"):
        einmap.map_workload(given, metrics="energy", explore_imperfect_spatial_loops=lanes)


def test_whether_uneven_lanes_fit_is_decided_with_their_tile_shapes():
    # 5 on 3 x 2 lanes: more than there are values
    inner = {"type": "Container", "name": "In", "spatial": [{"name": "Y", "fanout": 2, "min_usage": 1}]}
    outer = {"type": "Container", "name": "Out", "spatial": [{"name": "X", "fanout": 3, "min_usage": 1}]}
    nodes = [
        MAIN,
        outer,
        memory("Buf", 4096, 1, {"keep": "All"}),
        inner,
        memory("Reg", 64, 1, {"keep": "All"}),
        compute(),
    ]
    given = spec(nodes, ["Z[m] = A[m] * B[m]"], {"M": 5})
    result = einmap.map_workload(given, metrics="latency", explore_imperfect_spatial_loops=True)
    assert [row.usage for row in result.cost.spatial_usage] == [1.0, 1.0]
