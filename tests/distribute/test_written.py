"""Plans as steps of a file: what is written is read as it was, and what cannot be done is told."""

import random
import re

import pytest
from tests.distribute.drawn_plans import AXES, draw_placements, draw_spec
from tests.machines import workload

from einmap import Spec, SpecError, load, loads
from einmap.distribute.backends.check import check_outputs, sample_inputs
from einmap.distribute.backends.local import LocalEngine
from einmap.distribute.costs.cluster import flat_cluster
from einmap.distribute.costs.cost import plan_cost
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.planner.best import best_plan
from einmap.distribute.planner.document import distribution_text
from einmap.distribute.planner.planning import Planning, PlanRequest
from einmap.distribute.read import plan_of
from einmap.frontends.yaml.spec import dump

SHAPES = ((2,), (3,), (4,), (2, 2))
LARGER = ((3, 2), (4, 2), (2, 2, 2))
HAND = """
distribution:
  mesh: {x: 2, y: 2}
  placements: {A: {M: x, K: y}, B: {K: y}, C: {K: y}}
  steps:
  - {compute: T, loops: {m: x, k: y}, reads: {A: {M: x, K: y}, B: {K: y}}}
  - {compute: Z, loops: {m: x, k: y}, reads: {T: {M: x, K: y}, C: {K: y}}}
  - {move: Z, by: reduce_scatter, over: y, before: {M: x, partial: y}, after: {M: x, N: y}}
""" + workload("M: 10, K: 8, N: 6", "T[m, k] = A[m, k] * B[k]", "Z[m, n] = T[m, k] * C[k, n]", bits="All: 32")
B_GATHERED = {"K": {"axes": "y", "block": 2}}
FIRST, SECOND, THIRD = (line for line in HAND.splitlines() if line.startswith("  - "))


def drawn(seed, shapes=SHAPES):
    """The best plans for a random problem, in any memory and in little, with their specification and cluster."""
    rng = random.Random(seed)
    spec = draw_spec(rng)
    mesh = Mesh(tuple(zip(AXES, rng.choice(shapes), strict=False)))
    cluster = flat_cluster(mesh, rng.choice((1e6, 1e9, 1e12)), rng.choice((0.0, 1e-6)), 1e12)
    metric = rng.choice(("time", "bytes"))
    memory = None
    for share in (1, 0.8):
        # within a second, proven or not
        request = PlanRequest(mesh, cluster, metric, memory, time_limit=1.0)
        best = best_plan(Planning(spec.workload, request)).chosen
        if best is not None:
            yield spec, cluster, best
            memory = share * 0.8 * best.peak.bytes


def read_again(spec, best):
    return plan_of(loads(dump(spec) + "\n" + distribution_text(best)))


def check_drawn(seed, shapes):
    """Whether anything is moved in the plans of that seed."""
    moved = False
    for spec, cluster, best in drawn(seed, shapes):
        again = read_again(spec, best)
        # buffers, steps and their order, inputs and outputs
        assert again == best.plan
        assert plan_cost(again, cluster, best.bits) == plan_cost(best.plan, cluster, best.bits)
        moved |= any(hasattr(step, "kind") for step in again.steps)
    return moved


def test_a_drawn_plan_is_read_as_it_was_written():
    assert sum(check_drawn(seed, SHAPES) for seed in range(10)) > 2


@pytest.mark.slow
@pytest.mark.distribute
@pytest.mark.parametrize("first", range(100, 300, 20))
def test_many_drawn_plans_are_read_as_they_were_written(first):
    for seed in range(first, first + 20):
        check_drawn(seed, (*SHAPES, *LARGER))


@pytest.mark.parametrize("seed", [*range(8), 61])
def test_a_plan_with_tensors_that_are_placed_is_read_as_it_was_written(seed):
    rng = random.Random(seed)
    spec = draw_spec(rng)
    mesh = Mesh(tuple(zip(AXES, rng.choice(SHAPES), strict=False)))
    placements = draw_placements(rng, spec.workload, mesh)
    request = PlanRequest(mesh, flat_cluster(mesh, 1e9, 1e-6, 1e12), placements=placements)
    try:
        best = best_plan(Planning(spec.workload, request)).chosen
    except SpecError:
        return  # no Einsum makes the partial sums that are asked for
    assert read_again(spec, best) == best.plan


def test_blocks_that_were_empty_may_be_gathered_to_more_than_the_rank_has():
    # of one coordinate over 4 PEs each has a block of 1; two of these blocks are 2
    einsums = ["Z[m, k] = A[m, k] * B[k]"]
    spec = Spec.from_dict(
        workload={"rank_sizes": {"M": 8, "K": 1}, "bits_per_value": {"All": 32}, "einsums": einsums},
        distribution={
            "mesh": {"x": 2, "y": 2},
            "placements": {"A": {"M": "x"}, "B": {"K": ["y", "x"]}},
            "steps": [
                {"move": "B", "by": "all_gather", "over": "x", "before": {"K": ["y", "x"]}, "after": B_GATHERED},
                {"move": "B", "by": "all_gather", "over": "y", "before": B_GATHERED},
                {"compute": "Z", "loops": {"m": "x"}, "reads": {"A": {"M": "x"}}},
            ],
        },
    )
    plan = plan_of(spec)
    inputs = sample_inputs(plan.workload, 0)
    assert all(one.agrees for one in check_outputs(plan.workload, inputs, LocalEngine().run(plan, inputs).outputs))


def test_steps_of_a_file_are_run():
    plan = plan_of(loads(HAND))
    assert [getattr(step, "kind", "Einsum") for step in plan.steps] == ["Einsum", "Einsum", "reduce_scatter"]
    inputs = sample_inputs(plan.workload, 0)
    assert all(one.agrees for one in check_outputs(plan.workload, inputs, LocalEngine().run(plan, inputs).outputs))


def test_steps_are_read_without_a_search(monkeypatch):
    from einmap.distribute import derive

    def none(*_):
        raise AssertionError("nothing is searched")

    monkeypatch.setattr(derive, "search_space", none)
    assert len(plan_of(loads(HAND)).steps) == 3


def test_blocks_that_are_not_even_are_written_too():
    # 6 heads of 16 over 4 PEs: blocks of 2 heads, where 96 coordinates alone would be cut in 24
    einsums = ["T[m, G: 16*h + f] = A[m, h, f] * D[h]", "Z[m, d] = T[m, g] * W[g, d]"]
    sizes = {"M": 4, "H": 6, "F": 16, "G": 96, "D": 4}
    spec = Spec.from_dict(workload={"rank_sizes": sizes, "bits_per_value": {"All": 32}, "einsums": einsums})
    mesh = Mesh((("x", 4),))
    request = PlanRequest(mesh, flat_cluster(mesh, 1e6, 0.0, 1e12), placements={"A": {"H": "x"}})
    best = best_plan(Planning(spec.workload, request)).chosen
    assert "block: 2" in distribution_text(best) or "granule: 32" in distribution_text(best)
    assert read_again(spec, best) == best.plan


def test_results_in_chunks_are_asked_for_beside_the_steps():
    steps = """
distribution:
  mesh: {x: 2}
  placements: {A: {K: x}, B: {K: x}}
  overlap: [Z]
  steps:
  - {compute: Z, loops: {k: x}, reads: {A: {K: x}, B: {K: x}}}
  - {move: Z, by: reduce_scatter, over: x, before: {partial: x}, after: {M: x}}
""" + workload("M: 8, K: 8, N: 6", "Z[m, n] = A[m, k] * B[k, n]", bits="All: 32")
    assert type(plan_of(loads(steps)).steps[-1]).__name__ == "Repeat"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (THIRD, "  - {move: Z, by: all_gather, over: y, before: {M: x, N: y}}", "'Z' is not there as M: x, N: y"),
        (THIRD, THIRD.replace("over: y", "over: x"), "no reduce_scatter over x brings 'Z' from M: x, partial sum"),
        (THIRD, THIRD.replace("reduce_scatter", "reduce_scater"), "did you mean 'reduce_scatter'"),
        (THIRD, THIRD.replace("move: Z", "move: Q"), "the workload has no tensor 'Q'"),
        (THIRD, THIRD.replace("after", "afer"), "a step to move has no field 'afer'"),
        (THIRD, THIRD.replace("N: y}}", "N: z}}"), "the mesh has no axis 'z'"),
        (SECOND, SECOND.replace("compute: Z", "compute: T"), "Einsum 'T' was computed before"),
        (FIRST, SECOND, "'T' is not there yet"),
        (SECOND, SECOND.replace("k: y}, reads", "n: y}, reads"), "here it reads T as K: y, M: x; C as K: y"),
        (SECOND, SECOND.replace("m: x, k: y}, r", "m: x, k: x}, r"), "mesh axis 'x' is used twice in the loops of"),
        (SECOND, SECOND.replace("loops: {m: x", "loops: {q: x"), "Einsum 'Z' has no rank variable 'q'"),
        (SECOND, SECOND.replace("loops: {m: x", "loops: {m: {axes: x, block: 3}"), "block must be a whole number from"),
        (SECOND, SECOND.replace("C: {", "A: {"), "Einsum 'Z' does not read 'A'"),
        (f"{SECOND}\n{THIRD}", "", "no step computes Einsum 'Z'"),
        (FIRST, "  - {T: 1}", "a step is called `compute` or `move`"),
        (FIRST, "  - 1", "expected a dictionary of what a step does"),
        ("placements: {", "placements: {Z: {M: y}, ", "'Z' is asked for as M: y, but the steps make it"),
        ("  steps:", "  loops: {Z: {n: x}}\n  steps:", "Einsum 'Z' is spread in another way by the steps: m: x, k: y"),
    ],
)
def test_steps_that_cannot_be_done_are_told_with_their_place(old, new, message):
    assert old in HAND
    with pytest.raises(SpecError, match=re.escape(message)) as error:
        plan_of(loads(HAND.replace(old, new)))
    assert error.value.at is not None
    assert error.value.at.line is not None


def test_real_sizes_are_read_back():
    sizes = {"BITS": 16, "N_TOKENS": 8192, "D_MODEL": 8192, "HEADS": 64, "KV_HEADS": 8, "D_HEAD": 128, "D_FF": 28672}
    spec = load("llama3_8b", define=sizes)
    mesh = Mesh((("x", 8), ("y", 8)))
    request = PlanRequest(mesh, flat_cluster(mesh, 100e9, 1e-6, 300e12), placements={"X": {"M": "y"}})
    best = best_plan(Planning(spec.workload, request)).chosen
    assert read_again(spec, best) == best.plan
