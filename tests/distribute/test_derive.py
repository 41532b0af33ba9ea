"""What is derived from placements: where Einsums are evaluated, what is moved, and what is refused."""

from itertools import pairwise

import pytest
from tests.distribute.drawn_plans import draw

from einmap import Spec, SpecError
from einmap.distribute.backends.check import check_outputs, sample_inputs
from einmap.distribute.backends.local import LocalEngine
from einmap.distribute.costs.cluster import flat_cluster
from einmap.distribute.costs.cost import communication, plan_cost, timeline
from einmap.distribute.derive import distribute_workload
from einmap.distribute.placements.mesh import Groups, Mesh
from einmap.distribute.plans.collectives import Traffic
from einmap.distribute.plans.plan import buffers_read

SIZES = {"M": 4, "N": 8, "K": 16, "J": 12, "P": 5, "R": 3}


def cascade(*einsums, **sizes):
    listed = [{"einsum": one} if isinstance(one, str) else {"einsum": one[0], "reduction": one[1]} for one in einsums]
    written = " ".join(one["einsum"] for one in listed).lower()
    known = {rank: size for rank, size in {**SIZES, **sizes}.items() if rank.lower() in written or rank in sizes}
    spec = {"rank_sizes": known, "bits_per_value": {"All": 8}, "einsums": listed}
    return Spec.from_dict(workload=spec).workload


def moved(workload, placements, mesh=None, **options):
    """What is sent, after checking that the plan is right."""
    plan = distribute_workload(workload, mesh or {"x": 4}, placements, **options)
    inputs = sample_inputs(workload, 0)
    assert all(check.agrees for check in check_outputs(workload, inputs, LocalEngine().run(plan, inputs).outputs))
    return [(row.kind, row.tensor) for row in communication(plan)]


MATMUL = cascade("Z[m, n] = A[m, k] * B[k, n]")
CHAIN = cascade("T[m, j] = A[m, k] * B[k, j]", "Z[m] = T[m, j]")


def test_a_copy_without_a_rank_of_one_element_is_spread():
    einsum = {"einsum": "Z[n] = A[m, n]", "is_copy_operation": True}
    spec = {"rank_sizes": {"M": 1, "N": 8}, "bits_per_value": {"All": 8}, "einsums": [einsum]}
    assert moved(Spec.from_dict(workload=spec).workload, {"A": {"N": "x"}, "Z": "replicated"}) == [("all_gather", "Z")]


def test_without_placements_the_work_is_shared():
    plan = distribute_workload(MATMUL, {"x": 4})
    assert [str(plan.by_name[name].placement) for _, name in plan.inputs] == ["replicated"] * 2
    assert plan_cost(plan).points == 4 * 8 * 16 / 4
    assert communication(plan) == ()


@pytest.mark.parametrize(
    ("placements", "expected"),
    [
        ({"A": {"M": "x"}}, []),
        ({"B": {"N": "x"}}, []),
        ({"A": {"M": "x"}, "Z": "replicated"}, [("all_gather", "Z")]),
        ({"A": {"K": "x"}, "B": {"K": "x"}}, [("reduce_scatter", "Z")]),
        ({"A": {"K": "x"}, "B": {"K": "x"}, "Z": "replicated"}, [("all_reduce", "Z")]),
        ({"A": {"K": "x"}, "B": {"K": "x"}, "Z": {"M": "x"}}, [("reduce_scatter", "Z")]),
        ({"A": {"K": "x"}, "B": {"K": "x"}, "Z": {"M": "x", "partial": "y"}}, [("reduce_scatter", "Z")]),
        ({"A": {"M": "x"}, "Z": {"N": "x"}}, [("all_to_all", "Z")]),
        ({"A": {"K": "x"}}, [("all_to_all", "A")]),  # B is there, and each PE takes rows of A
        ({"B": {"K": "x"}}, [("reduce_scatter", "Z")]),  # what an all-to-all of B sends passes through PEs between
        ({"A": {"k": "x"}, "B": {"k": "x"}, "Z": {"partial": "x"}}, []),
        ({"A": {"partial": "x"}, "Z": {"partial": "x"}}, []),
    ],
)
def test_a_matmul_is_spread_where_that_sends_least(placements, expected):
    partial_over_y = "y" in str(placements)
    mesh = {"x": 4, "y": 1} if partial_over_y else {"x": 4}
    assert moved(MATMUL, placements, mesh) == expected


def test_an_addend_passes_through_what_is_linear_and_is_summed_where_it_is_small():
    assert moved(CHAIN, {"A": {"K": "x"}, "B": {"K": "x"}, "Z": "replicated"}) == [("all_reduce", "Z")]


@pytest.mark.parametrize(
    "second", ["Z[m] = exp(T[m, j])", ("Z[m] = T[m, j]", "max"), "Z[m] = T[m, j] + U[m, j]", "Z[m] = 1 / T[m, j]"]
)
def test_an_addend_is_summed_before_what_is_not_linear(second):
    workload = cascade("T[m, j] = A[m, k] * B[k, j]", second)
    found = moved(workload, {"A": {"K": "x"}, "B": {"K": "x"}}, loops={"T": {"k": "x"}})
    assert found[0] in [("all_reduce", "T"), ("reduce_scatter", "T")]


def test_of_two_addends_that_are_multiplied_one_is_summed_first():
    workload = cascade("T[m] = A[m, k]", "U[m] = B[m, k]", "Z[m] = T[m] * U[m]")
    placements = {"A": {"K": "x"}, "B": {"K": "x"}, "Z": {"partial": "x"}}
    assert moved(workload, placements) in ([("all_reduce", "T")], [("all_reduce", "U")])


def test_addends_that_are_added_stay_addends():
    workload = cascade("T[m] = A[m, k]", "U[m] = B[m, k]", "Z[m] = T[m] - U[m]")
    placements = {"A": {"K": "x"}, "B": {"K": "x"}, "Z": {"partial": "x"}}
    assert moved(workload, placements) == []


def test_a_maximum_over_a_split_rank_is_joined_by_maximum():
    workload = cascade(("Z[m] = A[m, k]", "max"))
    plan = distribute_workload(workload, {"x": 4}, {"A": {"K": "x"}})
    assert [(move.kind, move.reduction) for move in plan.steps if hasattr(move, "kind")] == [("all_reduce", "max")]
    # sums alone are reduce-scattered
    assert moved(workload, {"A": {"K": "x"}, "Z": {"M": "x"}}) != [("reduce_scatter", "Z")]


def test_one_tensor_used_twice_is_moved_once():
    workload = cascade("Z[m, n] = A[m, k] * B[k, n]", "Y[m, j] = A[m, k] * C[k, j]")
    placements = {"A": {"M": "x"}, "B": {"N": "x"}, "C": {"J": "x"}, "Z": {"N": "x"}, "Y": {"J": "x"}}
    assert moved(workload, placements, loops={"Z": {"n": "x"}, "Y": {"j": "x"}}) == [("all_gather", "A")]


def test_a_window_reads_the_whole_rank():
    workload = cascade("Z[p] = I[H: 2*p + r] * F[r]")
    assert moved(workload, {"I": {"H": "x"}, "Z": {"P": "x"}}) == [("all_gather", "I")]
    assert moved(workload, {"Z": {"P": "x"}}) == []


def test_heads_are_joined_without_communication():
    workload = cascade("C[m, G: 3*n + r] = A[m, n, r]", "Z[m, j] = C[m, g] * W[g, j]", G=24)
    placements = {"A": {"N": "x"}, "W": {"G": {"axes": "x", "granule": 3}}, "Z": {"partial": "x"}}
    assert moved(workload, placements) == []
    # 8 heads over 3 PEs: whole heads are blocks of 9, 24 coordinates alone are blocks of 8, which would cut a head
    assert moved(workload, placements, {"x": 3}) == []
    assert moved(workload, {**placements, "W": {"G": "x"}}, {"x": 3}) == [("all_to_all", "C")] * 2


def test_intermediates_lie_where_they_are_asked_for():
    found = moved(CHAIN, {"A": {"K": "x"}, "B": {"K": "x"}, "T": {"J": "x"}}, loops={"T": {"k": "x"}})
    assert found[0] == ("reduce_scatter", "T")


def test_an_axis_of_one_PE_changes_nothing():
    wide = distribute_workload(MATMUL, {"x": 4, "y": 1}, {"A": {"M": "x", "K": "y"}, "B": {"partial": "y"}})
    assert wide.steps == distribute_workload(MATMUL, {"x": 4}, {"A": {"M": "x"}}).steps


def test_the_same_request_gives_the_same_plan():
    assert draw.__wrapped__(7).plan == draw(7).plan


# cost


def test_traffic_counts_padding_and_describes_groups():
    placements = {"A": {"M": "x", "K": "y"}, "B": {"K": "y"}, "Z": {"M": "x", "N": "y"}}
    plan = distribute_workload(MATMUL, {"x": 2, "y": 3}, placements, loops={"Z": {"m": "x", "k": "y"}})
    # 8 columns in blocks of 3: 9 are sent
    groups = Groups(((3, 1),), ((2, 3),))  # PEs 0, 1, 2 and 3, 4, 5
    operand, result = 2 * 9 * 8, 2 * 3 * 8
    assert communication(plan) == (Traffic("reduce_scatter", "Z", ("y",), groups, 1, operand, result, 2 * result),)


def test_values_of_float32_are_half_as_wide():
    placements = {"A": {"K": "x"}, "B": {"K": "x"}}
    wide, narrow = (
        plan_cost(distribute_workload(MATMUL, {"x": 4}, placements, dtype=t)) for t in ("float64", "float32")
    )
    assert wide.sent_bytes == 2 * narrow.sent_bytes > 0


def test_moves_and_Einsums_that_do_not_wait_for_one_another_run_at_once():
    workload = cascade("P[m] = A[m, k]", "Q[m, n] = X[m, j] * Y[j, n]", "Z[m, n] = P[m] * Q[m, n]", M=8)
    loops = {"P": {"k": "x"}, "Q": {"m": "x"}, "Z": {"m": "x"}}
    plan = distribute_workload(
        workload, {"x": 4}, {"A": {"K": "x"}, "P": {"M": "x"}, "X": {"M": "x"}, "Z": {"M": "x"}}, loops=loops
    )
    # P: 8*4 additions; Q: 2*8*12 products and sums; Z: 2*8 products; of P 3/4 of 64 bytes are sent in 3 messages
    cluster = flat_cluster(plan.mesh, 16 / 5, 10.0, 1.0)
    found = timeline(plan, cluster)
    spans = [(span.lanes, span.start, span.end) for span in found.spans if span.lanes]
    assert sorted(spans, key=lambda span: span[1:]) == [
        (("compute",), 0, 32),
        (("axis x",), 32, 77),
        (("compute",), 32, 416),
        (("compute",), 416, 432),
    ]
    assert [found.spans[step].lanes for step in found.critical if found.spans[step].lanes] == [("compute",)] * 3
    cost = plan_cost(plan, cluster)
    assert (cost.latency, cost.overlapped_latency) == (477, 432)


@pytest.mark.parametrize("seed", range(12))
def test_a_timeline_keeps_the_order_of_data_and_is_never_longer_than_the_sum(seed):
    plan = draw(seed).plan
    cluster = flat_cluster(plan.mesh, 1e9, 1e-6, 1e9)
    found, cost = timeline(plan, cluster), plan_cost(plan, cluster)
    assert found.makespan <= cost.latency * (1 + 1e-9)
    for lane in {lane for span in found.spans for lane in span.lanes}:
        on = sorted((span.start, span.end) for span in found.spans if lane in span.lanes)
        assert all(end <= start for (_, end), (start, _) in pairwise(on))
    for later, span in enumerate(found.spans):
        for earlier in found.spans[:later]:
            target = {getattr(plan.steps[earlier.step], "target", None)}
            if target & buffers_read(plan.steps[later]):
                assert earlier.end <= span.start


def test_time_is_that_of_bytes_messages_and_points_and_overlap_hides_the_shorter():
    # a product and a sum at each point: 1e6 points/s
    cluster = flat_cluster(Mesh((("x", 4),)), 1e9, 1e-3, 2e6)
    request = {"placements": {"A": {"K": "x"}, "B": {"K": "x"}, "Z": {"M": "x"}}, "loops": {"Z": {"k": "x"}}}
    plain = plan_cost(distribute_workload(MATMUL, {"x": 4}, **request), cluster)
    assert plain.computation_seconds == pytest.approx(4 * 8 * 4 / 1e6)
    assert plain.communication_seconds == pytest.approx(3 / 4 * 4 * 8 * 8 / 1e9 + 3 * 1e-3)
    assert plain.latency == pytest.approx(plain.computation_seconds + plain.communication_seconds)
    chunked = plan_cost(distribute_workload(MATMUL, {"x": 4}, **request, overlap=["Z"]), cluster)
    assert chunked.communication_seconds == pytest.approx(plain.communication_seconds)
    assert chunked.points == plain.points
    assert chunked.latency == pytest.approx(32 / 1e6 + 3 * max(1e-3 + 64 / 1e9, 32 / 1e6))


# refusals


@pytest.mark.parametrize(
    ("placements", "options", "message"),
    [
        ({"AA": {"M": "x"}}, {}, "no tensor 'AA'"),
        ({"A": {"N": "x"}}, {}, "tensor 'A' has no rank 'N'"),
        ({"A": {"M": "rows"}}, {}, "the mesh has no axis 'rows'"),
        ({"A": {"M": "x", "K": "x"}}, {}, "mesh axis 'x' is used twice in the placements of 'A'"),
        ({"A": {"M": ["x", "x"]}}, {}, "mesh axis 'x' is used twice"),
        ({"A": {"M": "x", "m": "y"}}, {}, "a rank of 'A' is placed twice"),
        ({"A": {"M": []}}, {}, r"expected a mesh axis or a list of them, found \[\]"),
        ({"A": {"M": 3}}, {}, "expected a mesh axis or a list of them, found 3"),
        ({"A": ["M"]}, {}, "expected a dictionary of ranks and their mesh axes"),
        ({"A": {"M": {"granule": 2}}}, {}, "expected axes and perhaps granule or block, and halo, found granule"),
        ({"A": {"M": {"axes": "x", "granule": 3}}}, {}, "4 coordinates, no multiple of 3"),
        ({"A": {"M": {"axes": "x", "granule": 0}}}, {}, "granule must be a whole number from 1 to 4, found 0"),
        ({"A": {"K": "y"}}, {"imperfect": False}, "16 coordinates, which do not divide into 3 equal blocks"),
        ({"Z": {"partial": "x"}}, {"loops": {"Z": {"m": "x"}}}, "'Z' cannot be a partial sum over x"),
        ({}, {"loops": {"Y": {"k": "x"}}}, "no Einsum 'Y'"),
        ({}, {"loops": {"Z": {"j": "x"}}}, "Einsum 'Z' has no rank variable 'j'"),
        ({}, {"loops": {"Z": {"k": "y"}}, "imperfect": False}, "rank variable 'k' of 'Z' has 16 values"),
        ({}, {"loops": {"Z": {"k": "x", "m": "x"}}}, "mesh axis 'x' is used twice in the loops of 'Z'"),
        ({}, {"overlap": ["Z"]}, "not reduce-scattered"),
        ({}, {"overlap": ["Y"]}, "no Einsum 'Y'"),
        ({}, {"dtype": "float16"}, "values are float64 or float32, not 'float16'"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_reason(placements, options, message):
    with pytest.raises(SpecError, match=message):
        distribute_workload(MATMUL, {"x": 2, "y": 3}, placements, **options)


def test_all_problems_of_a_request_are_reported_together():
    with pytest.raises(SpecError) as caught:
        distribute_workload(MATMUL, {"x": 2}, {"AA": {"M": "x"}, "B": {"N": "z"}}, loops={"Q": {}})
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (cascade("Z[Q: 2*m] = A[m]"), r"writes rank Q of 'Z' at 2\*m"),
        (cascade("Z[Q: m + k] = A[m] * B[k]"), r"writes rank Q of 'Z' at m \+ k"),
        (cascade("Z[m, M2: m] = A[m]"), "writes a diagonal of 'Z'"),
        (cascade("Z[m] = nothing(A[m])"), "not arithmetic"),
    ],
)
def test_what_cannot_be_distributed_is_refused_with_its_reason(workload, message):
    with pytest.raises(SpecError, match=message):
        distribute_workload(workload, {"x": 2})


def test_a_result_cannot_be_split_in_a_rank_that_the_variable_does_not_lead():
    workload = cascade("C[m, G: 3*n + r] = A[m, n, r]")
    with pytest.raises(SpecError, match="cannot be spread with r over x"):
        distribute_workload(workload, {"x": 3}, loops={"C": {"r": "x"}})
