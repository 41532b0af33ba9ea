"""Fields of the workload: tables for each tensor, sizes of ranks, what an Einsum string leaves to `tensor_accesses`."""

import pytest

from einmap import SpecError, evaluate, load

MATMUL = load("simple", "matmul", "simple_matmul").set("renames", {"einsums": []})
EINSUM = "workload.einsums[0]"
TEXT = "Z[m, n] = A[m, k] * B[k, n]"


def refused(spec):
    with pytest.raises(SpecError) as caught:
        evaluate(spec)
    return str(caught.value)


def bits(table):
    found = MATMUL.set("workload.bits_per_value", table).workload.find("Z").by_tensor
    return {tensor: access.bits_per_value for tensor, access in found.items()}


@pytest.mark.parametrize(
    "table",
    [
        {"A": 1, "Other": 2},
        {"A": 1, "(Other)": 2},
        {"A": 1, "Other.tensors": 2},
        {"A": 1, "~(~Other)": 2},
        {"A": 1, "Outputs": 2, "Other&Inputs": 2},
        {"Other if len(All) == 3 else Nothing": 2, "A": 1},
    ],
)
def test_other_may_stand_anywhere_in_a_key(table):
    assert bits(table) == {"A": 1, "B": 2, "Z": 2}


def test_other_is_a_word_of_its_own():
    assert "name 'Others' is not defined" in refused(MATMUL.set("workload.bits_per_value", {"A": 1, "Others": 2}))


def test_sizes_of_an_einsum_see_each_other_before_those_of_the_workload():
    # K is 2 here and something else in the workload; in its own expression a size is that of the workload
    spec = MATMUL.set("workload.rank_sizes", {"M": 4, "N": 8, "K": 16})
    spec = spec.set(EINSUM, {"einsum": TEXT, "rank_sizes": {"M": "K * 3", "K": 2, "N": "N // 2"}})
    assert spec.workload.find("Z").extents == {"m": 6, "k": 2, "n": 4}


def test_a_box_written_as_a_negation_is_a_box():
    spec = MATMUL.set("workload.iteration_space_shape", {"m": "not (m < 2)"})
    assert not any("is not a hyperrectangle" in note.text for note in spec.notes)


@pytest.mark.parametrize("einsum", ["concise", "verbose"])
@pytest.mark.parametrize(("scale", "is_one"), [(2, False), ("2 - 1", True), (1.0, True), ("0.5", False)])
def test_a_scale_of_backing_storage_is_refused_in_both_forms_unless_it_is_one(einsum, scale, is_one):
    access = {"name": "A", "backing_storage_size_scale": scale}
    rest = [{"name": "B", "projection": ["k", "n"]}, {"name": "Z", "projection": ["m", "n"], "output": True}]
    verbose = {"name": "Z", "tensor_accesses": [{**access, "projection": ["m", "k"]}, *rest]}
    spec = MATMUL.set(EINSUM, {"einsum": TEXT, "tensor_accesses": [access]} if einsum == "concise" else verbose)
    if is_one:
        assert evaluate(spec).energy == evaluate(MATMUL).energy
    else:
        field = "backing_storage_size_scale"
        assert f'.tensor_accesses[0] "A".{field}: {field} is not supported' in refused(spec)


def test_an_attribute_added_to_an_einsum_string_is_reported_where_it_stands():
    added = [{"name": "B", "bits_per_value": 8}, {"name": "A", "bits_per_value": 0}]
    message = refused(MATMUL.set(EINSUM, {"einsum": TEXT, "tensor_accesses": added}))
    assert message.startswith("workload.einsums[0].tensor_accesses[1] \"A\".bits_per_value: bits_per_value of 'A' must")


def test_bits_that_need_other_bits_say_where_they_may():
    message = refused(MATMUL.set("workload.bits_per_value", {"A": 8, "Other": "A.bits_per_value"}))
    assert "bits_per_value of A is not known here" in message
    assert "expressions of `arch` may use it" in message


def test_a_rename_is_given_once_in_a_list():
    renames = [{"name": "input", "source": "A"}, {"name": "input", "source": "B"}]
    assert "rename 'input' is given twice" in refused(MATMUL.set(EINSUM, {"einsum": TEXT, "renames": renames}))
    entry = {"name": "Z", "tensor_accesses": {"row": "A"}, "rank_variables": {"row": "m"}}
    message = refused(MATMUL.set("renames", {"einsums": [entry]}))
    assert "rank_variables.row: rename 'row' is given twice" in message


def test_an_expected_count_of_one_is_in_the_singular():
    renames = [{"name": "input", "source": "Inputs", "expected_count": 1}]
    message = refused(MATMUL.set(EINSUM, {"einsum": TEXT, "renames": renames}))
    assert "expected 1 element, got {A, B}" in message
