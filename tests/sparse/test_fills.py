"""Fills and metadata as Sparseloop counts them: by hand, and never less than by default."""

import random

import pytest
from tests.machines import machine, workload
from tests.nests import nest
from tests.sparse.problems import draw_sparse

import einmap
from einmap.errors import EinmapError, NotSupportedError
from einmap.execute.execute import execute
from einmap.model.evaluate import evaluate

LANES = (
    machine("Main inf 2/3 @8 / Array: X 2 {may_reuse: All} / Reg inf 1/1 @16 / MAC 1 @2")
    + workload("M: 2, K: 4", "Z[m] = A[m, k] * B[k]")
    + nest("Main: A B Z / k 2 / m 1 / k 1 @ Array.X / Reg: Z / Z @ MAC")
    + "\nsparsity:\n  densities: {A: 0.5}\n  savings: [{at: MAC, do: gate, on: A}]\n"
)
"""Two lanes add into each of two sums, in two parts of K: four visits of each lane."""


def counts(text, tensor="Z"):
    """Actions by component and name."""
    cost = einmap.evaluate(einmap.loads(text))
    return {(row.component, row.action): row.count / 8 for row in cost.actions if row.tensor == tensor}


@pytest.mark.parametrize(
    ("fills", "writes", "reads"),
    [
        ("live", 2, 10),  # the second part, in the first lane; what is begun is not read
        ("lanes", 4, 12),  # both lanes of the second part are written, and read by the compute
        ("all", 8, 12),  # all four visits of both
    ],
)
def test_lanes_that_begin_a_sum_again_are_filled_by_hand(fills, writes, reads):
    # Reg is written to by 8 products and gives back 8 sums; the compute reads what is not begun
    found = counts(LANES + f"  fills: {fills}\n")
    assert found["Reg", "write"] == 8 + writes and found["Reg", "read"] == reads
    assert (found["Main", "read"], found["Main", "write"]) == (2, 4)


def test_a_word_that_is_not_known_and_the_simulator_are_refused_by_name():
    with pytest.raises(EinmapError, match="unknown counting 'none'"):
        einmap.loads(LANES + "  fills: none\n").sparsity  # noqa: B018
    with pytest.raises(NotSupportedError, match="fills: lanes and fills: all"):
        execute(einmap.loads(LANES + "  fills: all\n"))


def test_metadata_of_skipped_transfers_is_read_with_share_all():
    text = LANES.replace("m 1 / k 1 @", "m 1 / Reg: B / k 1 @").replace("{at: MAC, do: gate, on: A}", "") + (
        "  formats: {Main: {B: [{format: B, ranks: [K], bits: 3}]}}\n"
    )
    text = text.replace("savings: []", "savings: [{at: Main, do: skip, tensors: B, on: A}]")
    bits = {how: counts(text + f"  metadata: {how}\n", "B")["Main", "metadata_read"] for how in ("share", "share_all")}
    # eight visits of one place with three bits; for half of them A is zero
    assert bits == {"share": 8 * 3 / 2 / 8, "share_all": 8 * 3 / 8}


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[] if n < 4 else [pytest.mark.slow, pytest.mark.simulator]) for n in range(60)]
)
def test_of_random_specifications_each_counting_costs_at_least_what_the_one_before_it_does(seed):
    spec, cost = draw_sparse(random.Random(70_000 + seed), known=False)
    energies = [cost.energy, *(evaluate(spec.set("sparsity.fills", fills)).energy for fills in ("lanes", "all"))]
    assert sorted(energies) == pytest.approx(energies)
    causes = einmap.explain(spec.set("sparsity.fills", "all"), changes=False)
    assert causes is not None
