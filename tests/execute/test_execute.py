"""The simulator on its own: right values, counts by hand, and what it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.execute.agreement import differences
from tests.machines import machine, workload
from tests.nests import nest

import einmap

GOLDEN = Path(__file__).parent.parent / "golden" / "exact.jsonl"

ARCH = machine("DRAM inf 1/1 @8 {bits_per_action: 8} / GLB 4096 1/1 @8 {bits_per_action: 8} / MAC 1 @1")
MATMUL = workload("M: 4, K: 6, N: 5", "Z[m, n] = A[m, k] * B[k, n]") + nest(
    "DRAM: A B Z / k 4 / GLB: Z A / m 1 / n 1 / k 1 / Z @ MAC"
)


def counts(execution):
    return {(r.component, r.tensor, r.action): r.count for r in execution.actions}


def test_a_matmul_gives_numpys_result_and_counts_by_hand():
    data = {"A": np.arange(24.0).reshape(4, 6), "B": np.arange(30.0).reshape(6, 5)}
    execution = einmap.execute(einmap.loads(ARCH + MATMUL), data)
    assert (execution.tensors["Z"] == data["A"] @ data["B"]).all()
    # k in tiles of 4 and 2: two visits of GLB; Z (20 values) comes back once, A (24) is fetched once
    assert counts(execution) == {
        ("DRAM", "A", "read"): 24,
        ("GLB", "A", "write"): 24,
        ("GLB", "A", "read"): 120,
        ("DRAM", "B", "read"): 120,
        ("DRAM", "Z", "read"): 20,
        ("DRAM", "Z", "write"): 40,
        ("GLB", "Z", "write"): 20 + 120,
        ("GLB", "Z", "read"): 40 + 120 - 20,
        ("MAC", None, "compute"): 120,
    }
    assert execution.usage == {"DRAM": 0.0, "GLB": (20 + 16) * 8 / 4096}
    assert execution.steps == {"Z": 120}


def test_the_same_seed_gives_the_same_run():
    spec = einmap.loads(ARCH + MATMUL)
    first, second = (einmap.execute(spec, seed=3) for _ in range(2))
    assert (first.tensors["Z"] == second.tensors["Z"]).all()
    assert first.actions == second.actions


def test_events_of_traced_components_add_up_to_the_counts():
    spec = einmap.loads(ARCH + MATMUL)
    execution = einmap.execute(spec, trace=["GLB"])
    total = sum(e.count for e in execution.events if (e.tensor, e.action) == ("A", "write"))
    assert total == counts(execution)["GLB", "A", "write"]
    assert {e.component for e in execution.events} == {"GLB"}
    fills = [e for e in execution.events if (e.tensor, e.action) == ("A", "write")]
    assert [e.count for e in fills] == [16, 8]


def test_occupancy_over_time_rises_and_falls_with_the_visits():
    execution = einmap.execute(einmap.loads(ARCH + MATMUL))
    bits = [row.bits for row in execution.occupancy if row.component == "GLB"]
    assert bits == [(20 + 16) * 8, (20 + 8) * 8]


CASCADE = """
workload:
  rank_sizes: {M: 4, K: 3, N: 4}
  bits_per_value: {All: 8}
  einsums:
  - "X[m, n] = A[m, k] * B[k, n]"
  - {einsum: "Y[m] = X[m, n]", reduction: max}
  - "Z[m, n] = exp(X[m, n] - Y[m])"
  - "S[m] = Z[m, n]"
  - "P[m, n] = Z[m, n] / S[m]"
""" + nest("""
    DRAM: A B P / m 1 / GLB: X Y Z S / (n 1 / k 1 / X @ MAC | n 1 / Y @ MAC | n 1 / Z @ MAC | n 1 / S @ MAC
    | n 1 / P @ MAC)
""")


def test_a_fused_softmax_is_a_softmax():
    spec = einmap.loads(ARCH + CASCADE)
    execution = einmap.execute(spec)
    logits = execution.inputs["A"] @ execution.inputs["B"]
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    assert np.allclose(execution.tensors["P"], shifted / shifted.sum(axis=1, keepdims=True))
    assert differences(spec) == []


HALO = """
mapping:
  nodes:
  - !Storage {tensors: [A, W, Z, X], component: DRAM}
  - !Temporal {rank_variable: {X: p, Z: q}, tile_shape: {X: 3, Z: 2}}
  - !Storage {tensors: [X], component: GLB}
  - !Sequential
    nodes:
    - !Nested {nodes: [!Temporal {rank_variable: p, tile_shape: 1}, !Compute {einsum: X, component: MAC}]}
    - !Nested {nodes: [!Temporal {rank_variable: q, tile_shape: 1}, !Temporal {rank_variable: r, tile_shape: 1}, !Compute {einsum: Z, component: MAC}]}
""" + workload("P: 6, Q: 4, R: 3", "X[p] = A[p]", "Z[q] = X[P: q + r] * W[r]")


def test_a_value_that_is_not_there_yet_is_an_error():
    # the window of Z reaches two values beyond the tile of X that has been produced
    with pytest.raises(einmap.MappingError, match="reads a value of 'X' that is not in 'GLB'"):
        einmap.execute(einmap.loads(ARCH + HALO))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"A": np.ones((4, 5)), "B": np.ones((6, 5))}, r"shape \(4, 5\), expected \(4, 6\)"),
        ({"A": np.full((4, 6), "x"), "B": np.ones((6, 5))}, "real numbers"),
        ({"A": np.ones((4, 6))}, "no data for the graph input 'B'"),
        ({"A": np.ones((4, 6)), "B": np.ones((6, 5)), "Z": np.ones((4, 5))}, "'Z' is not a graph input"),
    ],
)
def test_bad_data_is_explained(data, words):
    with pytest.raises(einmap.SpecError, match=words):
        einmap.execute(einmap.loads(ARCH + MATMUL), data)


def test_a_problem_that_is_too_large_is_refused_with_an_estimate():
    spec = einmap.loads(
        (ARCH + MATMUL).replace("{M: 4, K: 6, N: 5}", "{M: 4000, K: 6000, N: 5000}").replace("size: 4096", "size: inf")
    )
    with pytest.raises(einmap.SpecError, match=r"too large to execute: .* s and .* GB"):
        einmap.execute(spec)


def test_uneven_loops_count_with_their_empty_iterations():
    loops = "".join(
        f"  - !Temporal {{rank_variable: {v}, tile_shape: {size}}}\n" for size in range(29, 0, -1) for v in "mkn"
    )
    text = (ARCH + MATMUL).replace("{M: 4, K: 6, N: 5}", "{M: 30, K: 30, N: 30}")
    storage = "mapping:\n  nodes:\n  - !Storage {tensors: [A, B, Z], component: DRAM}\n"
    text = f"{text[: text.index('mapping:')]}{storage}{loops}  - !Compute {{einsum: Z, component: MAC}}\n"
    with pytest.raises(einmap.SpecError, match="iterations of loops"):
        einmap.execute(einmap.loads(text))


def test_an_unknown_traced_component_is_named():
    with pytest.raises(einmap.SpecError, match="no component 'GLBB' to trace"):
        einmap.execute(einmap.loads(ARCH + MATMUL), trace=["GLBB"])


def test_text_that_is_no_arithmetic_is_refused_by_name():
    spec = einmap.loads((ARCH + MATMUL).replace("A[m, k] * B[k, n]", "softmax(A[m, k], B[k, n])"))
    einmap.evaluate(spec)
    with pytest.raises(einmap.SpecError, match="Einsum 'Z' is not arithmetic"):
        einmap.execute(spec)


HALF = workload("M: 3, K: 4, N: 2", "X[m] = A[m, k]", "Z[m, k] = X[m] * D[k]") + nest(
    "DRAM: A X D Z / k 2 / (m 1 / k 1 / X @ MAC | m 1 / k 1 / Z @ MAC)"
)


def test_half_reduced_reads_are_noted_and_show_in_the_outputs():
    spec = einmap.loads(ARCH + HALF)
    assert any("half-reduced" in note.text for note in einmap.evaluate(spec).notes)
    with pytest.raises(einmap.MappingError, match="half-reduced"):
        einmap.evaluate(spec, strict=True)
    assert [found[:2] for found in differences(spec)] == [("tensor", "Z")]


def test_what_a_consumer_fetches_beside_the_producers_tile_is_not_written_twice():
    # GLB gets 4 rows of T at first, then 2; Z reads 3 rows around each of its own, some of them made before
    text = """
mapping:
  nodes:
  - !Storage {tensors: [I, T, F, Z], component: DRAM}
  - !Temporal {rank_variable: {T: h, Z: p}, tile_shape: {T: 2, Z: 2}, initial_tile_shape: {T: 4, Z: 2}}
  - !Storage {tensors: [T], component: GLB}
  - !Sequential
    nodes:
    - !Nested
      nodes: [!Temporal {rank_variable: h, tile_shape: 1}, !Temporal {rank_variable: c, tile_shape: 1},
              !Compute {einsum: T, component: MAC}]
    - !Nested
      nodes: [!Temporal {rank_variable: p, tile_shape: 1}, !Temporal {rank_variable: r, tile_shape: 1},
              !Compute {einsum: Z, component: MAC}]
""" + workload("H: 10, P: 8, R: 3, C: 2", "T[h] = I[h, c]", "Z[p] = T[H: p + r] * F[r]")
    spec = einmap.loads(ARCH + text)
    done = einmap.execute(spec)
    assert differences(spec, einmap.evaluate(spec), done) == []
    assert (done.tensors["T"] == done.inputs["I"].sum(axis=1)).all()


def test_lanes_inside_of_lanes_further_in_have_the_visits_that_are_left_to_them():
    # each lane of MAC has 3 values of p, the lanes of GLB 2 and 1 of these: 2 visits and 1
    lanes = "spatial: [{name: X, fanout: 2, may_reuse: Nothing}]"
    arch = ARCH.replace("name: GLB,", f"name: GLB, {lanes},").replace("name: MAC,", f"name: MAC, {lanes},")
    text = """
workload:
  rank_sizes: {P: 6, M: 1}
  bits_per_value: {All: 8}
  einsums: ["Z[m] = T[m, p]"]
mapping:
  nodes:
  - !Storage {tensors: [T, Z], component: DRAM}
  - !Spatial {rank_variable: p, tile_shape: 3, component: MAC, name: X}
  - !Spatial {rank_variable: p, tile_shape: 2, component: GLB, name: X}
  - !Temporal {rank_variable: p, tile_shape: 1}
  - !Storage {tensors: [Z], component: GLB}
  - !Compute {einsum: Z, component: MAC}
"""
    spec = einmap.loads(arch + text)
    cost = einmap.evaluate(spec)
    assert differences(spec, cost) == []
    counted = {row.action: row.count for row in cost.actions if (row.component, row.tensor) == ("DRAM", "Z")}
    assert counted == {"read": 2, "write": 3}  # the first visit fetches nothing


def test_an_index_below_zero_is_counted_but_not_executed():
    text = """
workload:
  iteration_space_shape: {p: 0 <= p < 3, r: 0 <= r < 2}
  bits_per_value: {All: 8}
  einsums: ["Z[p] = A[H: p - r] * B[r]"]
""" + nest("DRAM: A B Z / p 1 / r 1 / Z @ MAC")
    spec = einmap.loads(ARCH + text)
    assert einmap.evaluate(spec).energy > 0
    with pytest.raises(einmap.SpecError, match="indexes rank H of tensor 'A' at -1"):
        einmap.execute(spec)


SHIPPED = [
    (["simple", "matmul", "simple_matmul"], {"M": 32, "K": 32, "N": 32}),
    (["simple", "matmul_chain", "simple_matmul_chain_unfused"], {}),
    (["simple", "matmul_chain", "simple_matmul_chain_fused"], {}),
    (["simple", "two_matvecs", "simple_two_matvecs_unfused"], {}),
    (["simple", "two_matvecs", "simple_two_matvecs_fused"], {}),
]


@pytest.mark.parametrize(("files", "define"), SHIPPED, ids=lambda x: x[-1] if isinstance(x, list) else "")
def test_shipped_mappings_run_as_the_model_says(files, define):
    assert differences(einmap.load(*files, define=define)) == []


@pytest.mark.parametrize(
    ("arch", "workload", "define"),
    [
        ("eyeriss", "matmul", {"M": 6, "K": 8, "N": 6}),
        ("nvdla", "conv", {"C": 4, "M": 4, "P": 4, "Q": 4, "STRIDE": 2}),
        ("tpu_v4i", "matmul", {"M": 8, "K": 16, "N": 16}),
        ("nvdla", "gpt3_6.7b", {"N_TOKENS": 8, "D_MODEL": 16, "HEADS": 2, "D_HEAD": 8, "D_FF": 32}),
        ("eyeriss", "gpt3_6.7b_decode", {"N_CACHED": 8, "D_MODEL": 16, "HEADS": 2, "D_HEAD": 8, "D_FF": 32}),
        ("tpu_v4i", "gpt3_6.7b", {"N_TOKENS": 4, "D_MODEL": 8, "HEADS": 2, "D_HEAD": 4, "D_FF": 16}),
    ],
)
def test_mappings_that_the_mapper_finds_run_as_the_model_says(arch, workload, define):
    spec = einmap.load(arch, workload, define=define)
    found = einmap.map_workload(spec, metrics="energy", max_evaluations=3_000)
    assert differences(found.spec.with_mapping(found.mapping)) == []


CASES = [json.loads(line) for line in GOLDEN.read_text().splitlines()]


def check_against_golden(cases):
    for case in cases:
        if "invalid" in case["expected"]:
            continue
        spec = einmap.loads("\n".join(case[f"{key}_yaml"] for key in ("arch", "workload", "mapping")))
        execution = einmap.execute(spec)
        found = {(r.einsum, r.component, r.tensor, r.action): r.count for r in execution.actions if r.count}
        expected = {tuple(row[:-1]): row[-1] for row in case["expected"]["actions"] if row[-1]}
        assert found == pytest.approx(expected, rel=1e-9), case["id"]
        usage = {name: used for name, used in execution.usage.items() if used}
        assert usage == pytest.approx({k: v for k, v in case["expected"]["memory_usage"].items() if v}), case["id"]


@pytest.mark.parametrize("part", range(2))
def test_counts_equal_those_of_an_unrelated_simulator(part):
    check_against_golden(CASES[part * 6 :: 24])


def test_a_persistent_tensor_backed_in_several_branches_is_one_buffer_throughout():
    spec = einmap.loads(
        """
mapping:
  nodes:
  - !Sequential
    nodes:
    - !Nested
      nodes: [!Storage {component: Main, tensors: [A, T]},
              !Temporal {rank_variable: m, tile_shape: 1}, !Compute {einsum: T, component: MAC}]
    - !Nested
      nodes: [!Storage {component: Main, tensors: [T, Z], persistent: true},
              !Temporal {rank_variable: m, tile_shape: 1}, !Compute {einsum: Z, component: MAC}]
    - !Nested
      nodes: [!Storage {component: Main, tensors: [Z, Y]},
              !Temporal {rank_variable: m, tile_shape: 1}, !Compute {einsum: Y, component: MAC}]
"""
        + workload("M: 4", "T[m] = A[m]", "Z[m] = T[m]", "Y[m] = Z[m]")
        + machine("Main 10000 1/1 @1 {tensors: {keep: All}} / MAC 1 @1")
    )
    execution = einmap.execute(spec)
    # T and Z, of 32 bits each, live all the time; beside them A, then Y
    assert execution.fullest == {("T", "Main"): 96, ("Z", "Main"): 64, ("Y", "Main"): 96}
    assert differences(spec, execution=execution) == []


FULL_SIZE = [
    (["eyeriss", "resnet50_layer", "eyeriss_conv"], {"LAYER": "conv2_2", "BITS": 16}),
    (["tpu_v4i", "matmul", "tpu_v4i_matmul"], {"M": 512, "K": 512, "N": 512}),
]


@pytest.mark.slow
@pytest.mark.simulator
@pytest.mark.parametrize(("files", "define"), FULL_SIZE, ids=lambda x: x[-1] if isinstance(x, list) else "")
def test_shipped_mappings_of_full_size_run_as_the_model_says(files, define):
    assert differences(einmap.load(*files, define=define)) == []


@pytest.mark.slow
@pytest.mark.simulator
@pytest.mark.parametrize("part", range(4))
def test_all_counts_equal_those_of_an_unrelated_simulator(part):
    check_against_golden(CASES[part::4])


def test_an_einsum_of_scalars_has_one_operation():
    workload = {
        "rank_sizes": {"M": 4},
        "bits_per_value": {"All": 8},
        "einsums": ["S[O: 0] = A[m]", "Y[O: 0] = sqrt(S[O: 0])"],
    }
    spec = einmap.Spec.from_dict({**einmap.load("simple").to_dict(), "workload": workload})
    result = einmap.map_workload(spec, fuse=False)
    done = einmap.execute(result.spec.with_mapping(result.mapping), data={"A": np.full(4, 4.0)})
    assert done.tensors["Y"].tolist() == [4.0]
