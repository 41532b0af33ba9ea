import pytest
from tests.einsum.cascades_to_partition import without_texts
from tests.examples.reduced import REDUCED

from einmap import Spec, SpecError, delay_reduction, dump, evaluate, load, loads, split
from einmap.spec.forms.write_workload import write_workload


def spec(*einsums, **fields):
    return Spec.from_dict(workload={"bits_per_value": {"All": 8}, "einsums": list(einsums), **fields})


def read_back(given):
    return without_texts(loads(dump(Spec.from_dict(workload=write_workload(given)))).workload)


@pytest.mark.parametrize("name", REDUCED)
def test_shipped_workloads_are_read_back(name):
    given = load(name).workload
    assert read_back(given) == without_texts(given)


def test_a_partitioned_workload_in_words():
    given = split(load("matrix_vector", define={"K": 10}).workload, "K", 4)
    assert write_workload(given) == {
        "rank_sizes": {"K1": 3, "K0": 4, "M": 16},
        "bits_per_value": {"All": 8},
        "einsums": [
            {"einsum": "Z[m] = A[k1, k0, m] * B[k1, k0]", "iteration_space_shape": ["4*k1 + k0 < 10"]},
        ],
    }


@pytest.mark.parametrize(
    "einsum",
    [
        {"einsum": "Z[m] = A[m, k]", "reduction": "max", "n_instances": 3},
        {"einsum": "Z[M: m] = A[H: 2*m - 3*k + 9]", "iteration_space_shape": ["k < 3"]},
        {"einsum": "Z[m] = A[m, k]", "iteration_space_shape": ["2 <= m", "k <= m"]},
        {"einsum": "Z[m] = A[m, k]", "iteration_space_shape": ["m mod 2 = 1 or k = 0"]},
        {"einsum": "Z[m] = A[m, K: 2]"},
        {"einsum": "Z[m] = softmax(A[m, k])"},
        {"name": "E", "einsum": "Z[m] = 1 / (A[m, k] - 2)", "tensor_accesses": [{"name": "A", "persistent": True}]},
        {
            "name": "E",
            "operation": "A * A + B",
            "tensor_accesses": [
                {"name": "Z", "projection": ["m"], "output": True},
                {"name": "B", "projection": ["m", "k"], "bits_per_value": 2.5},
                {"name": "A", "projection": {"M": "m"}},
                {"name": "C", "projection": ["k"]},
            ],
        },
    ],
)
def test_every_kind_of_einsum_is_read_back(einsum):
    given = spec(einsum, rank_sizes={"M": 5, "K": 4}, iteration_space_shape={"k": "0 <= k < 4"}, n_instances=2).workload
    assert read_back(given) == without_texts(given)


def test_sizes_that_differ_between_einsums():
    layers = [{"einsum": f"Z{i}[m] = A{i}[K: k{i}, m]", "rank_sizes": {"K": n}} for i, n in enumerate([8, 5])]
    given = spec(*layers, rank_sizes={"M": 2}).workload
    assert "K" not in write_workload(given)["rank_sizes"]
    assert read_back(given) == without_texts(given)


def test_renames_stay_with_their_einsums():
    given = load("simple", "matmul", "simple_matmul")
    made = given.with_workload(delay_reduction(split(given.workload, "K", 16), "K1"))
    assert made.mapping is None
    renames = {e["einsum"].split("[")[0]: e.get("renames") for e in made.get("workload.einsums")}
    assert renames == {"ZT": {"input": "A", "weight": "B"}, "Z": None}
    assert made.bound.keys() == {"ZT", "Z"}


def test_a_workload_made_by_partitions_can_be_evaluated():
    given = load("simple", "matmul", "simple_matmul")
    made = given.with_workload(split(given.workload, "K", 16))
    nodes = [
        {"type": "Storage", "tensors": ["A", "B", "Z"], "component": "MainMemory"},
        *({"type": "Temporal", "rank_variable": v, "tile_shape": 1} for v in ("m", "n", "k1", "k0")),
        {"type": "Compute", "einsum": "Z", "component": "MAC"},
    ]
    whole = [*nodes[:3], {**nodes[3], "rank_variable": "k"}, nodes[5]]
    before = evaluate(given.set("mapping", {"nodes": whole}))
    assert evaluate(made.set("mapping", {"nodes": nodes})).energy == before.energy


def test_renames_that_speak_of_ranks_that_are_gone_are_an_error_with_a_place():
    given = load("matrix_vector").set("renames.einsums.0.rank_variables", {"inner": "k"})
    made = given.with_workload(split(given.workload, "K", 4))
    with pytest.raises(SpecError, match="k"):
        dict(made.bound)
