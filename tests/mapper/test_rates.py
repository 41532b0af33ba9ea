"""Coefficients of cost, worked out by hand: what each value that fills a node costs, and what is saved once."""

import numpy as np
import pytest
from tests.mapper.specs import MATMUL, compute, container, spec

from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.problem.request import Request
from einmap.model.counting.semantics import semantics_named

SIZE = 4 * 6  # values of Z


def memory(name, read, write, **more):
    actions = [{"name": "read", "energy": read, "throughput": 1}, {"name": "write", "energy": write, "throughput": 1}]
    return {"type": "Memory", "name": name, "size": "inf", "leak_power": 0, "area": 0, "actions": actions, **more}


def node_of(tensor, over, may_reuse="All", semantics="exact"):
    """Coefficients of the tensor's node in Buffer: energy and seconds of Main, with two lanes over a rank variable."""
    lanes = {"name": "X", "fanout": 2, "may_reuse": may_reuse}
    nodes = [memory("Main", 10, 20), container(lanes), memory("Buffer", 1, 2), compute(skip_initial_output_write=True)]
    for node in (nodes[0], nodes[2]):
        node["skip_initial_output_write"] = True
    given = spec(nodes, MATMUL, {"M": 4, "K": 8, "N": 6})
    (einsum,) = given.workload.einsums
    arch = given.arch()
    rules = semantics_named(semantics)
    path = Path(einsum, arch, arch.path("MAC"), Request(("energy",), rules))
    table = path.lanes
    axis = path.lattice.axis_of[over]
    row = int(np.flatnonzero(table.bounds[:, 0, axis] == 2)[0])
    rates, fixed, _ = path.pricer.node(table, tensor, (0, 2, 3), 2, -1)
    main = path.pricer.columns.of(0, 2)[0][0]
    # an action moves a bit
    return [float(rows[row, column]) / 8 for column in (0, main) for rows in (rates, fixed)]


def test_lanes_that_share_a_tile_read_it_once():
    # Main is read once for both lanes, Buffer is written in each: 10 / 2 + 2 J
    assert node_of("A", "n") == [7, 0, 1 / 2, 0]
    assert node_of("B", "n") == [12, 0, 1, 0]
    assert node_of("A", "n", may_reuse="B") == [12, 0, 1, 0]


def test_values_of_an_output_start_without_a_result_once():
    # down 10 + 2 J and up 1 + 20 J; each value of Z comes down once less
    assert node_of("Z", "n") == [33, -12 * SIZE, 2, -SIZE]


def test_of_lanes_that_reduce_the_first_one_is_filled():
    # down (10 + 2) / 2 J, up 1 + 20 / 2 J: one sum goes up to Main; the other lane starts anew in each visit, so that
    # the MAC does not read half of the values once, 1 J each
    assert node_of("Z", "k") == [17 - 0.5, -12 * SIZE, 1, -SIZE]


def test_of_lanes_that_take_turns_a_later_one_is_filled_with_results():
    # nothing is merged; Main is the only instance, so that what it saves does not depend on lanes
    assert node_of("Z", "k", may_reuse="Inputs") == [33, -12 * SIZE, 2, -SIZE]


@pytest.mark.parametrize(("over", "expected"), [("n", [33, -12 * SIZE]), ("k", [18, -(10 + 2 * 2) * SIZE])])
def test_the_peer_lets_every_lane_start_by_itself(over, expected):
    # k: each lane's Buffer is filled (2 J), and of each value once without a result; Main is read and written once for
    # both (10 / 2 + 20 / 2 J)
    assert node_of("Z", over, semantics="accelforge")[:2] == expected
