"""Ski slopes are exact: published corners, brute force over capacities, and bounds below."""

import pytest
from tests.mapper.specs import MATMUL

import einmap
from einmap.errors import SpecError
from einmap.search.skislope import is_matrix_product, machine, ski_slope

CHAIN = ["T[m, n] = A[m, k] * B[k, n]", "Z[m, l] = T[m, n] * C[n, l]"]


def workload(einsums, bits=1, **sizes):
    spec = {"workload": {"rank_sizes": sizes, "bits_per_value": {"All": bits}, "einsums": einsums}}
    return einmap.Spec.from_dict(spec)


# Orojenesis' definitions; corners checked by hand: 3 values stream both inputs, 2 * 64^3 + 64^2
PUBLISHED = {
    64: {3: 528384, 7: 266240, 21: 135168, 73: 69632, 273: 36864, 1057: 20480, 2081: 16384, 4161: 12288},
    1024: {1057: 68157440, 16513: 17825792, 262657: 5242880, 1049601: 3145728},
}


@pytest.mark.parametrize("n", PUBLISHED)
def test_the_corners_of_a_matrix_product_are_those_that_are_published(n):
    curve = ski_slope(workload(MATMUL, M=n, K=n, N=n))
    corners = {corner.capacity: corner.traffic for corner in curve.corners}
    assert corners.items() >= PUBLISHED[n].items()
    assert curve.proven and curve.complete
    assert curve.corners[-1].traffic == curve.compulsory == 3 * n * n
    assert all(curve.least(capacity) <= traffic for capacity, traffic in corners.items())


def test_values_of_several_bits_scale_both_axes():
    narrow, wide = (ski_slope(workload(MATMUL, bits, M=8, K=8, N=8)) for bits in (1, 8))
    assert [(8 * c.capacity, 8 * c.traffic) for c in narrow.corners] == [(c.capacity, c.traffic) for c in wide.corners]


@pytest.fixture(scope="module")
def chain():
    return workload(CHAIN, M=4, K=2, N=4, L=2)


@pytest.fixture(scope="module")
def curves(chain):
    return {fuse: ski_slope(chain, fuse=fuse) for fuse in (True, False)}


@pytest.mark.parametrize("fuse", [True, False])
def test_the_curve_of_a_cascade_is_the_best_for_every_capacity(chain, curves, fuse):
    spec, curve = chain, curves[fuse]
    assert curve.complete and curve.fused == fuse
    options = {"max_fused_loops": float("inf")} if fuse else {}
    for capacity in (3, 11, 41):
        alone = einmap.Spec.from_dict({**spec.to_dict(), "arch": machine(capacity)})
        best = einmap.map_workload(alone, metrics="energy", fuse=fuse, **options)
        assert curve.traffic(capacity) == best.cost.energy
    assert curve.traffic(2) == float("inf")


def test_fusion_reaches_the_compulsory_traffic_and_no_fusion_does_not(curves):
    fused, unfused = (curves[fuse].corners[-1].traffic for fuse in (True, False))
    # A, B, C, Z; T is written once and read once besides
    assert fused == 4 * 2 + 2 * 4 + 4 * 2 + 4 * 2
    assert unfused == fused + 2 * 4 * 4


@pytest.mark.parametrize("most", [0, 1])
def test_the_curve_with_few_fused_loops_is_the_best_with_so_many(chain, curves, most):
    curve = ski_slope(chain, max_fused_loops=most)
    for capacity in (3, 5, 11, 29):
        alone = einmap.Spec.from_dict({**chain.to_dict(), "arch": machine(capacity)})
        assert curve.traffic(capacity) == einmap.map_workload(alone, metrics="energy", max_fused_loops=most).cost.energy
        assert curve.traffic(capacity) >= curves[True].traffic(capacity)
    assert curve.to_dict()["max_fused_loops"] == most
    with pytest.raises(SpecError, match="fused loops"):
        ski_slope(chain, max_fused_loops=-1)


def test_a_bound_of_products_holds_for_products_alone():
    product, batched = (
        workload(e, M=4, K=4, N=4, B=2).workload.einsums[0] for e in (MATMUL, ["Z[b,m,n] = A[b,m,k] * B[b,k,n]"])
    )
    assert is_matrix_product(product)
    assert not is_matrix_product(batched)


def test_capacities_may_be_asked_for_some_factor_apart(chain, curves):
    whole, some = curves[True], ski_slope(chain, spacing=3)
    assert 1 < len(some.corners) < len(whole.corners)
    assert all(whole.traffic(corner.capacity) == corner.traffic for corner in some.corners)
    with pytest.raises(SpecError, match="times apart"):
        ski_slope(chain, spacing=0.5)


def test_a_specification_without_a_workload_is_refused():
    with pytest.raises(SpecError, match="no workload"):
        ski_slope(einmap.Spec.from_dict({"arch": machine(8)}))
