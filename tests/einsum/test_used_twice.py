"""A tensor that one Einsum uses several times: by the same indices it is one access."""

import numpy as np
import pytest
from tests.emit.running import problems

from einmap import SpecError, dump, emit, evaluate, execute, load, loads, map_workload
from einmap.distribute.backends.check import check_outputs, sample_inputs
from einmap.distribute.backends.local import LocalEngine
from einmap.distribute.costs.cost import communication
from einmap.distribute.derive import distribute_workload
from einmap.einsum.numeric import random_inputs, run
from einmap.einsum.rewrites.delay import delay_reduction
from einmap.einsum.rewrites.partition import split

HEAD = "workload:\n  rank_sizes: {M: 4, K: 6}\n  bits_per_value: {All: 8}\n  einsums:\n"
SQUARES = HEAD + '  - "X[m, k] = A[m, k] + A[m, k]"\n  - "Z[m] = X[m, k] * X[m, k] + B[m]"\n'
WRITTEN_OUT = """
  - name: Z
    tensor_accesses:
    - {name: A, projection: [m, k]}
    - {name: A, projection: {K: k, M: m}}
    - {name: Z, projection: [m], output: true}
"""
CONCISE = ['  - "Z[m] = A[m, k] * A[m, k]"', '  - "Z[m] = A[m,k] * A[K: k, M: m]"']


@pytest.fixture
def on_simple(tmp_path):
    def spec(workload):
        (tmp_path / "w.yaml").write_text(workload)
        return load("simple", tmp_path / "w.yaml")

    return spec


@pytest.mark.parametrize("einsum", [*CONCISE, WRITTEN_OUT])
def test_equal_indices_are_one_access_that_the_operation_uses_twice(on_simple, einsum):
    spec = on_simple(HEAD + einsum)
    (einsum,) = spec.workload.einsums
    assert [access.tensor for access in einsum.accesses] == ["A", "Z"]
    assert str(einsum.operation) == "A * A"
    assert loads(dump(spec)) == spec


def test_each_operation_reads_it_once_in_model_simulator_and_emitted_code(on_simple):
    found = map_workload(on_simple(SQUARES), metrics="energy")
    assert found.optimal
    mapped = found.spec.with_mapping(found.mapping)
    cost, run = evaluate(mapped), execute(mapped)
    counts = {(r.einsum, r.component, r.tensor, r.action): r.count for r in run.actions}
    assert counts == {key: n for key, n in cost.count_by("einsum", "component", "tensor", "action").items() if n}
    assert counts["X", "GlobalBuffer", "A", "read"] == 8 * 4 * 6
    a, b = run.inputs["A"], run.inputs["B"]
    assert np.array_equal(run.tensors["Z"], ((2 * a) ** 2 + b[:, None]).sum(axis=1))
    assert problems(emit(mapped, "python"), mapped) == []
    once = on_simple(SQUARES.replace(" + A[m, k]", "").replace("* X[m, k] ", ""))
    best = map_workload(once, metrics="energy").cost
    assert best is not None
    assert best.energy == pytest.approx(cost.energy)


def test_partitions_and_delayed_reductions_keep_the_values(on_simple):
    workload = on_simple(SQUARES).workload
    inputs = random_inputs(workload, 1)
    expected = run(workload, inputs)["Z"]
    parted = split(workload, "K", 2)
    cut = {name: array.reshape(*array.shape[:1], 3, 2) if array.ndim == 2 else array for name, array in inputs.items()}
    for changed in (parted, delay_reduction(parted, "K1")):
        assert np.array_equal(run(changed, cut)["Z"], expected)


@pytest.mark.parametrize(
    ("einsum", "sent"), [("Z[m] = T[m] * T[m]", ["all_reduce"]), ("Z[m] = T[m] + T[m]", ["all_reduce"])]
)
def test_partial_sums_are_completed_before_they_are_squared(on_simple, einsum, sent):
    workload = on_simple(HEAD + f'  - "T[m] = A[m, k]"\n  - "{einsum}"\n').workload
    plan = distribute_workload(workload, {"x": 2}, {"A": {"K": "x"}, "Z": "replicated"})
    inputs = sample_inputs(workload, 0)
    assert all(check.agrees for check in check_outputs(workload, inputs, LocalEngine().run(plan, inputs).outputs))
    assert [row.kind for row in communication(plan)] == sent


@pytest.mark.parametrize(
    ("einsum", "words"),
    [
        ('"Z[m] = A[m] * A[m, k]"', ["'A' has ranks M and M, K in Einsum 'Z'", "ranks must be the same"]),
        ('"Z[m, n] = A[m, k] * A[N: n, k]"', ["A[m, k] and A[n, k]", "write out the ranks of both", "A[M: n, K: k]"]),
        ('"Z[m, k] = A[m] * A[k]"', ["K stands for M, but their sizes are 6 and 4", "A[M: k]"]),
        (
            "{name: Z, operation: A - A, tensor_accesses: [{name: A, projection: [m]}, {name: A, projection: {M: n}},"
            " {name: Z, projection: [m, n], output: true}]}",
            ["'A' by different indices, and its operation 'A - A' does not say", "as a string"],
        ),
        ('{einsum: "Z[m] = A[m] * A[m]", is_copy_operation: true}', ["needs exactly one input, found 2"]),
        (
            "{name: Z, tensor_accesses: [{name: A, projection: [m], persistent: true}, {name: A, projection: [m]},"
            " {name: Z, projection: [m], output: true}]}",
            ["persistent of tensor 'A' differs between its two uses"],
        ),
        (
            "{name: Z, tensor_accesses: [{name: A, projection: [m]}, {name: A, projection: [m], output: true}]}",
            ["'A' is both input and output in Einsum 'Z'"],
        ),
        (
            "{name: Z, tensor_accesses: [{name: Z, projection: [m], output: true},"
            " {name: Z, projection: [m], output: true}]}",
            ["'Z' is written twice in Einsum 'Z'"],
        ),
    ],
)
def test_what_is_still_refused_is_named(on_simple, einsum, words):
    with pytest.raises(SpecError) as caught:
        on_simple(HEAD + f"  - {einsum}\n").workload  # noqa: B018
    assert [word for word in words if word not in str(caught.value)] == []
