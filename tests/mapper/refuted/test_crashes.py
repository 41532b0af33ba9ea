"""Searches that ended in the model's own error: what is searched is valid, and the simulator moves what is counted."""

import random

import pytest
from tests.execute.agreement import differences
from tests.mapper.refuted.beaten import problem
from tests.mapper.specs import MAIN, compute, container, memory

import einmap
from einmap.model.fusion import fusion_of

WHOLE = [memory("L0", "inf", 12, {"keep": "~Intermediates", "may_keep": "All"}), memory("L1", 4096, 1), compute()]


@pytest.mark.parametrize("semantics", ["exact", "accelforge"])
@pytest.mark.parametrize("metrics", ["energy", "latency", "edp", "energy,latency"])
def test_a_window_that_the_end_of_an_intermediate_cuts_is_mapped_and_proven(metrics, semantics):
    spec = problem("pool-crash")
    result = einmap.map_workload(spec, metrics=metrics, semantics=semantics)
    assert result.optimal
    for found in result.front:
        assert einmap.evaluate(spec, found.mapping, semantics=semantics, strict=True).energy == found.cost.energy


def cascade(nodes, second, sizes, **ranges):
    """X of w (and of c, where that has a size), read as `second` says; ranges of rank variables in place of sizes."""
    c = ", c" if "C" in sizes or "c" in ranges else ""
    workload = {
        "rank_sizes": sizes,
        "iteration_space_shape": {v: f"{low} <= {v} < {high}" for v, (low, high) in ranges.items()},
        "bits_per_value": {"All": 8},
        "einsums": [f"X[w{c}] = A[w{c}] * B[w]", second],
    }
    return einmap.Spec.from_dict({"arch": {"nodes": nodes}, "workload": workload})


PADDED = {
    "beyond the end": ("Z[p] = X[W: p + r] * D[r]", {"w": (0, 4), "p": (0, 4), "r": (0, 3)}),
    "beyond both ends": ("Z[p] = X[W: p + r] * D[r]", {"w": (1, 4), "p": (0, 4), "r": (0, 3)}),
    "holes": ("Z[p] = X[W: 2*p + r] * D[r]", {"w": (0, 3), "p": (0, 3), "r": (0, 2)}),
    "another part": ("Z[p] = X[W: p + 2] * D[p]", {"w": (0, 4), "p": (0, 4)}),
}


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("name", PADDED)
def test_what_nobody_writes_of_an_intermediate_is_zero_for_mapper_model_and_simulator(name, fuse):
    second, ranges = PADDED[name]
    spec = cascade(WHOLE, second, {}, **ranges)
    result = einmap.map_workload(spec, metrics="energy", fuse=fuse)
    assert result.optimal
    assert bool(fusion_of(result.mapping, spec).fused) == fuse
    assert differences(spec.with_mapping(result.mapping), result.cost) == []


def test_the_common_tile_of_users_that_see_different_parts_is_what_must_fit():
    # X is written at 0..3 and read at 2..5: whoever holds it for both holds six values, and one of each other tensor
    second, ranges = PADDED["another part"]
    for size, fused in ((6 + 3, True), (6 + 2, True), (5, False)):
        nodes = [WHOLE[0], memory("L1", 8 * size, 0, {"keep": "X", "may_keep": "Nothing"} if fused else {}), compute()]
        spec = cascade(nodes, second, {}, **ranges)
        result = einmap.map_workload(spec, metrics="energy")
        assert bool(fusion_of(result.mapping, spec).fused) == fused
        assert max(row.usage for row in result.cost.memory_usage) <= 1


def test_random_windows_and_memories_never_end_in_an_error_of_the_model():
    rng = random.Random(5)
    simulated = 0
    for _ in range(12):
        w, p, r, step = rng.choice((3, 4, 5, 6)), rng.choice((2, 3, 4)), rng.choice((2, 3)), rng.choice((1, 1, 2))
        second = f"Z[p, c] = X[W: {step}*p + r, c]{rng.choice(('', ' * D[r]'))}"
        box = rng.random() < 0.5
        ranges = {"w": (0, w), "p": (0, p), "r": (0, r), "c": (0, 2)} if box else {}
        main = rng.choice((WHOLE[0], MAIN))
        nodes = [main, memory("L1", rng.choice((64, 128, 256, 512)), rng.choice((0, 2))), compute()]
        spec = cascade(nodes, second, {} if box else {"W": w, "P": p, "R": r, "C": 2}, **ranges)
        result = einmap.map_workload(spec, metrics=rng.choice(("energy", "latency", "edp")))
        assert result.optimal
        if box:
            assert differences(spec.with_mapping(result.mapping), result.cost) == []
            simulated += 1
    assert simulated > 3


@pytest.mark.parametrize("architecture", ["edge", "eyeriss", "nvdla", "simba", "simple", "tpu_v4i"])
def test_a_depthwise_layer_that_ends_with_its_input_maps_on_every_shipped_architecture(architecture, tmp_path):
    workload = tmp_path / "layers.yaml"
    workload.write_text(
        "workload:\n"
        "  rank_sizes: {B: 1, P: 6, T: 4, N: 2, Q: 6}\n"
        "  iteration_space_shape: {r: 0 <= r < 3}\n"
        "  bits_per_value: {All: 8}\n"
        "  einsums: ['X[b, p, t] = A[b, p, n] * V[n, t]', 'Z[b, q, t] = X[B: b, P: q + r, T: t] * W[r, t]']\n"
        "renames: {einsums: [{name: default, tensor_accesses: [{name: input, source: A}, {name: output, source: Z},"
        " {name: weight, source: Nothing}]}]}\n"
    )
    result = einmap.map_workload(einmap.load(architecture, workload), metrics="energy")
    assert result.optimal
    assert any("not a hyperrectangle" in note.text for note in result.cost.notes)


LIMITS = ({"max_evaluations": 1}, {"max_evaluations": 50}, {"time_limit_s": 0}, {"fuse": False})


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("semantics", ["exact", "accelforge"])
@pytest.mark.parametrize("metrics", ["energy", "energy|latency"])
def test_einsums_one_by_one_exchange_whole_what_the_outermost_memory_may_not_keep(metrics, semantics, limits):
    spec = problem("truncated-crash")
    result = einmap.map_workload(spec, metrics=metrics, semantics=semantics, **limits)
    for found in result.front:
        assert einmap.evaluate(spec, found.mapping, semantics=semantics, strict=True) == found.cost
        (kept,) = fusion_of(found.mapping, spec).tensors
        assert (kept.memory, kept.loops) == ("L1", ())
    assert result.optimal == ("fuse" in limits)
    if metrics == "energy" and "fuse" not in limits:
        assert result.lower_bound <= einmap.map_workload(spec, metrics=metrics, semantics=semantics).cost.energy


def chain(size, middle="Y[m] = C[m] * E[m]", **outermost):
    """Three Einsums, the second of them `middle`; the outermost memory may not keep what they exchange."""
    nodes = [memory("L0", "inf", 12, {"keep": "~Intermediates"}, **outermost), memory("L1", size, 1), compute()]
    einsums = ["X[m, n] = A[m] * B[n]", middle, "Z[m, n] = X[m, n] * Y[m]"]
    sizes = {"M": 4, "N": 2, "K": 2, "J": 6}
    workload = {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": einsums}
    return einmap.Spec.from_dict({"arch": {"nodes": nodes}, "workload": workload})


@pytest.mark.parametrize("options", [{}, {"brute_force": True}, {"explore_imperfect_temporal_loops": True}], ids=str)
def test_what_is_exchanged_whole_lives_while_others_run(options):
    # X (8 values) stays while Y (4 values) is made
    spec = chain(8 * (8 + 4))
    result = einmap.map_workload(spec, metrics="energy", fuse=False, **options)
    assert result.optimal
    assert differences(spec.with_mapping(result.mapping), result.cost) == []
    with pytest.raises(einmap.NoMappingError):
        einmap.map_workload(chain(8 * (8 + 3)), metrics="energy", fuse=False, **options)


def test_where_the_best_of_each_do_not_fit_together_the_best_that_do_are_found():
    # by itself the second Einsum keeps a column of C (4 values) and one of E beside Y (4), but X (8) is there too
    middle = "Y[m] = C[m, k] * E[k, j]"
    spec, roomy = (chain(8 * size, middle) for size in (8 + 4 + 2, 8 + 4 + 6))
    result, better = (einmap.map_workload(each, metrics="energy", fuse=False) for each in (spec, roomy))
    assert result.optimal
    assert result.reason == "every unfused mapping (each Einsum by itself) was evaluated or ruled out by a bound"
    assert differences(spec.with_mapping(result.mapping), result.cost) == []
    assert better.cost.energy < result.cost.energy
    assert result.cost.energy == pytest.approx(
        einmap.map_workload(spec, metrics="energy", max_fused_loops=0).cost.energy
    )
    with pytest.raises(einmap.NoMappingError, match="do not fit together"):
        einmap.map_workload(spec, metrics="energy", fuse=False, explore_imperfect_temporal_loops=True)


def test_lanes_over_the_outermost_memory_do_not_part_what_einsums_exchange():
    spec = chain(8 * 16, spatial=[{"name": "X", "fanout": 2}])
    for metrics in ("energy", "latency"):
        result = einmap.map_workload(spec, metrics=metrics, fuse=False)
        assert einmap.evaluate(spec, result.mapping, strict=True) == result.cost


@pytest.mark.parametrize("most", [1, 50])
def test_a_first_mapping_on_an_array_needs_no_list_of_dataplacements(most):
    inner = [container({"name": "X", "fanout": 2}), memory("L2", 64, 1, {"keep": "Nothing", "may_keep": "All"})]
    spec = cascade([*WHOLE[:2], *inner, compute()], "Z[p] = X[W: p + r]", {"W": 4, "P": 2, "R": 3})
    result = einmap.map_workload(spec, metrics="energy,latency", max_evaluations=most)
    assert all(einmap.evaluate(spec, found.mapping, strict=True) == found.cost for found in result.front)


@pytest.mark.parametrize("most", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("name", ["copy-templates-crash", "templates-not-finite"])
def test_few_dataplacements_give_a_mapping_that_is_not_proven(name, most):
    # alone the first dataplacements fit; what the fused search looks at of them does not
    spec = problem(name)
    best = einmap.map_workload(spec, metrics="energy").cost.energy
    result = einmap.map_workload(spec, metrics="energy", max_pmapping_templates_per_einsum=most)
    assert einmap.evaluate(spec, result.mapping, strict=True) == result.cost
    assert result.lower_bound <= best <= result.cost.energy
    assert result.optimal or "max_pmapping_templates_per_einsum" in result.reason
    assert "no mapping of the fused search" not in result.reason
