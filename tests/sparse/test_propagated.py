"""Zeros of what an Einsum writes: densities by hand, masks point by point, and what is given."""

from itertools import product as points

import numpy as np
import pytest
from tests.machines import machine, workload
from tests.nests import nest

import einmap
from einmap.execute.execute import execute
from einmap.sparse.densities import Uniform
from einmap.sparse.known import Known

MACHINE = machine("Main inf 1/1 @8 / Buffer inf 1/1 @8 / MAC 1 @1")
FIRST, SECOND = "Y[m, n] = A[m, k] * B[n, k]", "Z[m, p] = Y[m, n] * C[p, n]"
SIZES = "M: 20, N: 10, K: 5, P: 3"


def spec_of(densities, *, first=FIRST, second=SECOND, sizes=SIZES, formats="{Main: {Y: coo}}", more=""):
    text = (
        MACHINE + workload(sizes, first, second) + f"\nsparsity: {{densities: {densities}, formats: {formats}{more}}}\n"
    )
    return einmap.loads(text)


def density_of(spec, tensor="Y"):
    (found,) = {e.densities[tensor] for e in spec.sparsity.values() if tensor in e.densities}
    return found


def test_a_product_by_hand():
    # of 5 products 0.4 * 0.5 = 0.2 have both factors: 1 - 0.8^5 = 0.67232 of 200 values
    assert density_of(spec_of("{A: 0.4, B: 0.5}")) == Uniform((20, 10), 134)
    # a dense factor: 1 - 0.6^5 = 0.92224
    assert density_of(spec_of("{A: 0.4}")) == Uniform((20, 10), 184)
    # N:M enters with its part; A's values are spread over K
    assert density_of(spec_of("{A: {structured: [1, 4], along: M}, B: 1}")) == Uniform(
        (20, 10), round(200 * (1 - 0.75**5))
    )


def test_a_given_density_wins():
    assert density_of(spec_of("{A: 0.4, B: 0.5, Y: 0.1}")) == Uniform((20, 10), 20)
    assert density_of(spec_of("{All: 0.5}")) == Uniform((20, 10), 100)


def test_without_zeros_and_without_use_nothing_is_propagated():
    assert density_of(spec_of("{A: 1}")) == Uniform((20, 10), 200)
    assert "Y" not in spec_of("{A: 0.4, B: 0.5}", formats="{}").sparsity["Y"].densities


SUPPORTS = {
    "A[m, n] + B[m, n]": (1 - 0.6 * 0.5, lambda a, b: a | b),
    "A[m, n] - 2 * B[m, n]": (1 - 0.6 * 0.5, lambda a, b: a | b),
    "relu(A[m, n])": (0.4, lambda a, _: a),
    "tanh(A[m, n]) * B[m, n] / 3": (0.2, lambda a, b: a & b),
    "A[m, n] * (A[m, n] + B[m, n])": (0.4, lambda a, _: a),
    "A[m, n] ** 2": (0.4, lambda a, _: a),
    "exp(A[m, n]) * B[m, n]": (0.5, lambda _, b: b),
    "exp(A[m, n])": (1, lambda a, _: a | True),
    "A[m, n] + 1": (1, lambda a, _: a | True),
    "0 * A[m, n]": (0, lambda a, _: a & False),
}
"""Map expressions with the density of their values, and where these are nonzero."""


@pytest.mark.parametrize("text", SUPPORTS)
def test_map_expressions(text):
    part, where = SUPPORTS[text]

    def spec(a, b):
        densities = f"{{A: {a}, B: {b}}}" if "B" in text else f"{{A: {a}}}"
        return spec_of(densities, first=f"Y[m, n] = {text}", sizes=SIZES.replace("K: 5, ", ""))

    assert density_of(spec(0.4, 0.5)).part == pytest.approx(part)
    known = spec("{uniform: 0.4, seed: 1}", "{uniform: 0.5, seed: 2}")
    masks = [known.sparsity["Y"].densities[t].mask if t in text else None for t in "AB"]
    mask = density_of(known).mask if part < 1 else np.ones((20, 10), dtype=bool)
    assert (mask == where(*masks)).all()
    assert density_of(known).part == mask.mean()


def test_known_zeros_are_the_union_of_effectual_products():
    spec = spec_of(
        "{A: {uniform: 0.2, seed: 1}, B: {uniform: 0.3, seed: 2}, C: {uniform: 0.2, seed: 3}}",
        formats="{Main: {Z: coo}}",
    )
    a, b = (spec.sparsity["Y"].densities[t].mask for t in "AB")
    y = np.zeros((20, 10), dtype=bool)
    for m, n, k in points(range(20), range(10), range(5)):
        y[m, n] |= a[m, k] and b[n, k]
    assert density_of(spec) == Known(y)
    c = spec.sparsity["Z"].densities["C"].mask
    assert (density_of(spec, "Z").mask == ((y.astype(int) @ c.T.astype(int)) > 0)).all()


def test_ranks_in_another_order_and_sums_of_indices():
    first = "Y[m, n] = A[H: m + r, n] * B[r]"
    spec = spec_of(
        "{A: {uniform: 0.2, seed: 1}, B: {uniform: 0.5, seed: 2}}",
        first=first,
        second="Z[n, m] = Y[m, n] * C[n]",
        sizes="M: 6, N: 4, R: 4",
    )
    a, b = (spec.sparsity["Y"].densities[t].mask for t in "AB")
    right = np.array([[any(a[m + r, n] and b[r] for r in range(4)) for n in range(4)] for m in range(6)])
    assert (density_of(spec).mask == right).all()
    # 4 products of 0.2 * 0.5
    named = spec_of("{A: 0.2, B: 0.5}", first=first, second="Z[n, m] = Y[m, n] * C[n]", sizes="M: 6, N: 4, R: 4")
    assert density_of(named).nonzeros == round(24 * (1 - 0.9**4))
    # an output that is indexed by a sum has values of different numbers of products: dense
    spread = spec_of(
        "{A: 0.2}",
        first="Y[H: m + r, n] = A[m, n] * B[r]",
        second="Z[m, n] = Y[H: m, n] * C[n]",
        sizes="M: 6, N: 4, R: 4",
    )
    assert density_of(spread).part == 1


def test_random_masks_have_the_density_on_average():
    # values of one row of A share its nonzeros, so that the mean of the parts is a little below
    spec = spec_of("{A: 0.4, B: 0.5}")
    densities = spec.sparsity["Y"].densities
    parts = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        a, b = (densities[t].draw(rng).astype(int) for t in "AB")
        parts.append(((a @ b.T) > 0).mean())
    assert np.mean(parts) == pytest.approx(density_of(spec).part, abs=0.01)


def test_a_run_stores_what_its_masks_make():
    nodes = nest("Main: Y / (Main: A B / m 1 / n 1 / k 1 / Y @ MAC | Main: C Z / m 1 / n 1 / p 1 / Z @ MAC)")
    saving = ", savings: [{at: MAC, do: skip, on: Inputs & Intermediates}]"
    text = MACHINE + workload("M: 4, N: 3, K: 2, P: 2", FIRST, SECOND) + nodes
    spec = einmap.loads(text + f"\nsparsity: {{densities: {{A: 0.3, B: 0.5}}{saving}}}\n")
    execution = execute(spec, seed=5)
    y = (execution.zeros.masks["A"].astype(int) @ execution.zeros.masks["B"].T.astype(int)) > 0
    assert (execution.zeros.masks["Y"] == y).all()
    assert execution.steps["Z"] == 2 * y.sum()
    assert einmap.evaluate(spec).latency > 0
