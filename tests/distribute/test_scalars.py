"""Scalars: tensors with one coordinate (`L[O: 0]`), or, of workloads made in Python, without ranks."""

import random
from dataclasses import replace

import numpy as np
import pytest
from tests.distribute.checking import check_run
from tests.distribute.drawn_plans import AXES, CASCADES, MESHES, draw_placements

from einmap import Spec, SpecError
from einmap.distribute.backends.check import check_outputs, sample_inputs
from einmap.distribute.backends.local import LocalEngine
from einmap.distribute.costs.cluster import flat_cluster
from einmap.distribute.costs.cost import communication
from einmap.distribute.derive import distribute_workload
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.planner.planner import plan_workload
from einmap.distribute.planner.planning import PlanRequest
from einmap.distribute.steps.notation import lines

WITH_SCALARS = [cascade for cascade in CASCADES if any("O: 0" in str(one) for one in cascade)]


def workload_of(cascade, **sizes):
    einsums = [{"einsum": one[0], "reduction": one[1]} if isinstance(one, tuple) else one for one in cascade]
    used = {rank: size for rank, size in sizes.items() if f"{rank.lower()}" in str(einsums).replace("max", "")}
    given = {"rank_sizes": used, "bits_per_value": {"All": 64}, "einsums": einsums}
    return Spec.from_dict(workload=given).workload


def without_ranks(workload):
    """The workload with tensors that have no ranks in the place of ranks with one coordinate."""
    return replace(
        workload,
        einsums=tuple(
            replace(
                einsum,
                accesses=tuple(
                    replace(access, projection=tuple(one for one in access.projection if one[1].terms))
                    for access in einsum.accesses
                ),
            )
            for einsum in workload.einsums
        ),
    )


LOSS = workload_of(("L[O: 0] = A[m, k] * B[k]", "Z[m] = C[m] * L[O: 0]"), M=8, K=6)
FORMS = pytest.mark.parametrize("form", [lambda workload: workload, without_ranks], ids=["one coordinate", "no rank"])


@FORMS
@pytest.mark.parametrize("seed", range(12))
def test_drawn_plans_with_scalars_give_the_whole_result(seed, form):
    rng = random.Random(seed)
    workload = workload_of(WITH_SCALARS[seed % len(WITH_SCALARS)], M=rng.randint(1, 9), K=rng.randint(1, 9))
    mesh = Mesh(tuple(zip(AXES, rng.choice(MESHES), strict=False)))
    asked = draw_placements(rng, workload, mesh)
    placements = {tensor: place for tensor, place in asked.items() if "O" not in place}
    plan = distribute_workload(form(workload), mesh, placements)
    inputs = sample_inputs(plan.workload, seed)
    checks = check_outputs(plan.workload, inputs, LocalEngine().run(plan, inputs).outputs)
    assert [check for check in checks if not check.agrees] == []


@FORMS
def test_a_loss_that_sums_everything_is_an_all_reduce_of_one_value(form):
    plan = distribute_workload(form(LOSS), {"x": 4}, {"A": {"M": "x"}, "Z": {"M": "x"}})
    (row,) = communication(plan)
    assert (row.kind, row.tensor, row.operand_bytes, row.sent_bytes) == ("all_reduce", "L", 8, 12)
    inputs = sample_inputs(plan.workload, 0)
    outputs = LocalEngine().run(plan, inputs).outputs
    assert outputs["Z"] == pytest.approx(inputs["C"] * np.einsum("mk,k->", inputs["A"], inputs["B"]))


def test_the_notation_of_a_scalar_without_ranks_has_empty_brackets():
    plan = distribute_workload(without_ranks(LOSS), {"x": 4}, {"A": {"M": "x"}, "Z": {"M": "x"}})
    written = [line.einsum for line in lines(plan)]
    assert "LL[x] = AD[x, m0, k] * B[k]" in written
    assert "LR[] = LL[x']" in written


@FORMS
def test_a_scalar_may_be_kept_as_addends(form):
    scale = form(workload_of(("Z[m] = A[m] * S[O: 0]",), M=8))
    plan = distribute_workload(scale, {"x": 4}, {"S": {"partial": "x"}, "A": "replicated", "Z": "replicated"})
    inputs = sample_inputs(plan.workload, 0)
    (check,) = check_outputs(plan.workload, inputs, LocalEngine().run(plan, inputs).outputs)
    assert check.agrees
    assert [row.tensor for row in communication(plan)] in (["S"], ["Z"])


def test_a_result_without_ranks_may_stay_addends():
    total = without_ranks(workload_of(("L[O: 0] = A[m]",), M=8))
    plan = distribute_workload(total, {"x": 4}, {"A": {"M": "x"}, "L": {"partial": "x"}})
    assert communication(plan) == ()
    inputs = sample_inputs(total, 0)
    assert LocalEngine().run(plan, inputs).outputs["L"] == pytest.approx(inputs["A"].sum())


def test_a_rank_of_a_tensor_that_has_none_is_refused():
    with pytest.raises(SpecError, match="tensor 'L' has no rank 'M'") as caught:
        distribute_workload(without_ranks(LOSS), {"x": 4}, {"L": {"M": "x"}})
    assert caught.value.hint == "ranks: on, partial"


@FORMS
def test_the_planner_splits_the_work_and_reduces_one_value(form):
    big = form(workload_of(("L[O: 0] = A[m, k] * B[k]", "Z[m] = C[m] * L[O: 0]"), M=4096, K=4096))
    mesh = Mesh((("x", 8),))
    best = plan_workload(big, PlanRequest(mesh, flat_cluster(mesh, 100e9, 1e-9, 1e12))).best
    assert best.proven
    assert "L" in [part.what.split()[-1] for part in best.parts if part.sent]
    assert best.sent_bytes == 2 * 7 / 8 * 8
    assert best.loops["L"] in ({"m": ("x",)}, {"k": ("x",)})


@FORMS
@pytest.mark.parametrize("cascade", WITH_SCALARS)
def test_the_engine_jax_reduces_them_too(engine, cascade, form):
    workload = form(workload_of(cascade, M=7, K=5))
    check_run(engine, distribute_workload(workload, {"x": 2, "y": 2}, {"A": {"M": "x", "K": "y"}}))


def test_empty_brackets_say_how_a_scalar_is_written():
    with pytest.raises(SpecError) as caught:
        workload_of(("L[] = A[m]",), M=8)
    assert "write L[O: 0]" in str(caught.value)
