"""Specifications made in Python are those of the files, with the same errors; what they can be asked."""

import json

import numpy as np
import pytest

from einmap import LiteralString, Spec, SpecError, evaluate, load, loads
from einmap.einsum.numeric import shapes

SPEC = load("simple", "matmul", "simple_matmul")
CONV = """
workload:
  rank_sizes: {P: 4, R: 3}
  bits_per_value: {All: 8}
  n_instances: 2
  einsums:
  - {einsum: "O[p] = I[W: 2*p + r + 1] * F[r]", n_instances: 3}
  - "Q[p] = O[p]"
"""


def test_plain_data_gives_the_specification_of_the_file():
    assert Spec.from_dict(SPEC.to_dict()) == SPEC
    assert Spec.from_dict(**SPEC.to_dict()) == SPEC
    assert hash(Spec.from_dict(SPEC.to_dict())) == hash(SPEC)


def test_a_json_file_is_a_specification():
    again = loads(json.dumps(SPEC.to_dict(), indent=1))
    assert again == SPEC
    assert evaluate(again).energy == evaluate(SPEC).energy


def test_a_loop_tree_may_stand_under_mapping():
    made = Spec.from_dict({**SPEC.to_dict(), "mapping": SPEC.mapping})
    assert made.mapping == SPEC.mapping
    assert evaluate(made).energy == evaluate(SPEC).energy


def test_numbers_of_numpy_are_numbers():
    given = {
        "workload": {
            "rank_sizes": {"M": np.int64(4)},
            "bits_per_value": {"A": np.float32(0.5)},
            "n_instances": np.int8(2),
        }
    }
    plain = {"workload": {"rank_sizes": {"M": 4}, "bits_per_value": {"A": 0.5}, "n_instances": 2}}
    assert Spec.from_dict(given) == Spec.from_dict(plain)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("variables: {a: 4.0, b: 0x10}", "variables:\n  a: 4   # four\n  b: 16"),
        ("arch: {nodes: [!Memory {name: A}]}", "arch: {nodes: [{name: A, type: Memory}]}"),
        ('workload: {rank_sizes: {"M": "4*2"}}', "workload: {rank_sizes: {M: 4*2}}"),
        ("variables: {a: b + 1}", "variables:\n  a: |\n    b + 1\n"),
        ("variables: {a: .nan}", "variables: {a: .NaN}"),
    ],
)
def test_equal_content_is_equal_however_it_is_written(first, second):
    assert loads(first) == loads(second)
    assert loads(first).content_hash == loads(second).content_hash


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('variables: {a: "b"}', "variables: {a: b}"),
        ("variables: {a: true}", "variables: {a: 1}"),
        ("arch: {nodes: [!Memory {name: A}]}", "arch: {nodes: [!Toll {name: A}]}"),
        ("renames: {einsums: [{name: default, tensor_accesses: {a: A, b: a}}]}", "renames: {einsums: [{name: default, tensor_accesses: {b: a, a: A}}]}"),
    ],
)  # fmt: skip
def test_what_means_something_else_is_not_equal(first, second):
    assert loads(first) != loads(second)
    assert loads(first).content_hash != loads(second).content_hash


def test_text_and_expressions_of_python():
    made = Spec.from_dict(variables={"b": 2, "word": "b * 4", "name": LiteralString("b * 4")})
    assert made.variables.lookup("word") == 8
    assert made.variables.lookup("name") == "b * 4"
    assert isinstance(made.to_dict()["variables"]["name"], LiteralString)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("arch.nodes.MainMemory.sizzle", 1),
        ("arch.nodes.MainMemory.size", "1 / 0"),
        ("workload.rank_sizes.M", 4.5),
        ("mapping.nodes[1].tile_shape", 0),
    ],
)
def test_an_error_has_the_path_of_the_field_and_the_text_that_files_have(path, value):
    def message(spec):
        with pytest.raises(Exception, match=r".") as caught:
            evaluate(spec)
        return caught.value.at.path, caught.value.message

    plain = Spec.from_dict(SPEC.to_dict())
    assert message(plain.set(path, value)) == message(SPEC.set(path, value))
    assert message(plain.set(path, value))[0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Spec.from_dict({"arch": {}}, arch={}), "the section 'arch' is given twice"),
        (lambda: Spec.from_dict(maping={}), "did you mean 'mapping'"),
        (lambda: Spec.from_dict(arch={"nodes": {1, 2}}), "cannot hold a set"),
        (lambda: SPEC.workload.find("Y"), "no Einsum 'Y'"),
        (lambda: SPEC.workload.tensor_size("AA"), "no tensor 'AA'"),
        (lambda: SPEC.arch().is_above("MainMemory", "MACC"), "did you mean 'MAC'"),
        (lambda: SPEC.arch().fanout("MAC", "X"), "has no dimension 'X'"),
    ],
)
def test_wrong_names_are_answered(call, words):
    with pytest.raises(SpecError, match=words):
        call()


def test_questions_to_a_workload():
    workload = loads(CONV).workload
    assert workload.einsum_names == ("O", "Q")
    # 2 instances of the cascade; 3 of O with 12 operations, one of Q with 4
    assert workload.n_computes == 2 * (3 * 12 + 4)
    # 2*p + r + 1 runs from 1 to 2*3 + 2 + 1 = 9
    assert workload.tensor_shape("I") == {"W": 9}
    assert (workload.tensor_size("I"), workload.tensor_bits("F")) == (9, 24)
    assert (workload.consumers["O"], workload.users["O"], workload.consumers["Q"]) == (("Q",), ("O", "Q"), ())
    assert shapes(workload)["I"] == (10,)  # arrays start at 0


def test_questions_to_an_architecture():
    arch = load("tpu_v4i", "matmul").arch()
    assert [memory.name for memory in arch.memories] == ["MainMemory", "GlobalBuffer", "LocalBuffer", "Register"]
    assert arch.is_above("GlobalBuffer", "MAC")
    assert not arch.is_above("MAC", "GlobalBuffer")
    assert not arch.is_above("ScalarUnit", "MAC")
    assert (arch.fanout("ArrayFanout"), arch.fanout("ArrayFanout", "reuse_input"), arch.fanout("MAC")) == (
        128 * 128,
        128,
        1,
    )
    leaking = load("tpu_v4i", "matmul").set("arch.nodes.MAC.leak_power", 2).arch()
    assert leaking.total_leak_power == 2 * 4 * 128 * 128
