"""The space of an intermediate whose users differ: one uses a part of it, or has other bits for each value."""

import pytest
from tests.mapper.fusion.combine import optimum
from tests.random_specs.nodes import spec_of

import einmap


def memory(name, size, keep, may_keep, energy, **more):
    actions = [{"name": n, "energy": energy, "throughput": 8} for n in ("read", "write")]
    tensors = {"keep": keep, "may_keep": may_keep}
    return {"type": "Memory", "name": name, "size": size, "tensors": tensors, "actions": actions, **common(), **more}


def common():
    return {"leak_power": 0, "area": 0}


def problem(size, einsums, sizes, keep="Intermediates", may_keep="All", **more):
    nodes = [
        memory("L0", "inf", "~Intermediates", "All", 20),
        memory("L1", size, keep, may_keep, 1, **more),
        {"type": "Compute", "name": "MAC", "actions": [{"name": "compute", "energy": 1, "throughput": 8}], **common()},
    ]
    workload = {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": einsums}
    return spec_of({"arch": {"nodes": nodes}, "workload": workload})


STRIDED = ["X[m,n] = A[n,m] * B[n]", "Y[p,r,n] = X[M: 2*p+r, N: n] * D[p,r]", "Z[p,r,n] = Y[p,r,n]"]
REDUCED = ["X[m,n] = A[m,k] * B[k,n]", "Y[m] = X[m,n] * D[m,n]"]


@pytest.mark.parametrize("size", (80,))
def test_a_reader_of_a_part_has_the_whole_in_its_memory(size):
    # Y reads three of the four rows of X: alone it needs 48 bits for them, but X has 64
    spec = problem(size, STRIDED, {"M": 4, "N": 2, "P": 1, "R": 3})
    result = einmap.map_workload(spec, metrics="energy", share_inputs=False)
    assert result.optimal
    assert result.cost.energy == pytest.approx(optimum(spec, "energy"), rel=1e-9)


@pytest.mark.parametrize("semantics", ("exact", "accelforge"))
@pytest.mark.parametrize("size", (40, 56))
def test_what_a_tensor_takes_is_what_the_running_einsum_says(semantics, size):
    # X has 4 bits for each value while it is written, 8 while it is read
    more = {"bits_per_value": {"Outputs": 4}}
    spec = problem(size, REDUCED, {"M": 2, "N": 3, "K": 2}, "Intermediates", "Outputs", **more)
    result = einmap.map_workload(spec, metrics="energy", semantics=semantics, share_inputs=False)
    assert result.optimal
    assert result.cost.energy == pytest.approx(optimum(spec, "energy", semantics), rel=1e-9)
