"""Under `accelforge` a node's space is counted below a loop that follows it, but the node itself stands above the loop."""

import pytest
from tests.mapper.fusion.combine import optimum
from tests.mapper.fusion.test_hulls import problem

import einmap

EINSUMS = [
    "X[m,n] = A[n] * B[m]",
    "Y[r,p,u] = X[M: p+r, N: u] * D[r,u,q]",
    "Z[v,u] = Y[R: r, P: v, U: u] * F[r,u] * X[M: v, N: u]",
]


def test_no_further_node_of_a_tensor_stands_above_a_loop_that_its_users_share():
    # X above a loop over p, which lowers it, and which Y and Z share, would be a node of both
    spec = problem(32, EINSUMS, {"M": 4, "N": 2, "P": 4, "R": 1, "V": 4, "U": 2, "Q": 2}, "All")
    spec = spec.set("workload.bits_per_value", {"D": 32, "B": 16, "Other": 8})
    assert optimum(spec, "energy", "accelforge", 2) == float("inf")
    with pytest.raises(einmap.NoMappingError, match="no fused mapping fits"):
        einmap.map_workload(spec, metrics="energy", semantics="accelforge", share_inputs=False, max_fused_loops=2)
