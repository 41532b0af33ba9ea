"""Paths and places in the raw tree; what may be changed in a Spec, and what it survives."""

import copy
import pickle

import pytest

from einmap import Spec, SpecError, evaluate, load, loads
from einmap.mapping.nodes import format_address, parse_address

MACHINE = {
    "arch": {
        "nodes": [
            {"type": "Memory", "name": "Main", "size": "inf", "component_class": "Dummy"},
            {"type": "Memory", "name": "GLB", "size": 1024, "component_class": "Dummy"},
            {"type": "Compute", "name": "MAC", "component_class": "Dummy"},
        ]
    },
    "workload": {"rank_sizes": {"M": 4}, "bits_per_value": {"All": 8}, "einsums": ["Z[m] = A[m]"]},
}
TREE = """
mapping:
  nodes:
  - !Reservation {purposes: [A], resource: Main}
  - !Storage {tensors: [A, Z], component: Main}
  - !TextBox {text: "hello"}
  - !Nested
    nodes:
    - !Temporal {rank_variable: m, tile_shape: 2}
    - !TextBox {text: "hello"}
    - !Sequential
      nodes:
      - !Nested
        nodes:
        - !Reservation {purposes: [A], resource: Main}
        - !Temporal {rank_variable: m, tile_shape: 1}
        - !Compute {einsum: Z, component: MAC}
"""


def test_list_elements_are_placed_by_name_too():
    spec = loads("arch:\n  nodes:\n  - !Memory {name: Main}\n  - !Memory\n    name: GLB\n    size: 3\n")
    assert spec.provenance("arch.nodes.GLB.size") == spec.provenance("arch.nodes[1].size")
    assert (spec.provenance("arch.nodes.GLB.size").line, spec.provenance("arch.nodes.GLB.size").path) == (
        6,
        'arch.nodes[1] "GLB".size',
    )


@pytest.mark.parametrize(
    ("address", "line"),
    [((), 3), ((0,), 5), ((1,), 9), ((2,), 11), ((2, 0), 13), ((2, 0, 0), 16), ((2, 0, 1), 17), ((2, 0, 7), 13)],
)
def test_a_node_is_placed_where_it_is_written_behind_nodes_that_say_nothing_and_in_a_nested(address, line):
    assert loads(TREE).place_of_node(address).line == line


def test_a_node_address_reads_back():
    assert parse_address(format_address((3, 0, 1))) == (3, 0, 1)


@pytest.mark.parametrize(
    "text", ["nodes[-1]", "nodes[]", "nodes[ 1]", "nodes[1_0]", "nodes[0].", "nodes[x]", "node[1]"]
)
def test_a_malformed_node_address_is_refused(text):
    with pytest.raises(ValueError, match="is not a node address"):
        parse_address(text)


def test_the_type_of_a_node_is_a_synonym_of_its_tag():
    tagged = load("simple", "matmul", "simple_matmul")
    typed = loads(
        "arch:\n  nodes:\n  - {type: Memory, name: Main, size: inf, component_class: Dummy}\n"
        "  - {type: Fanout, name: Rows, spatial: [{name: X, fanout: 2}]}\n"
        "  - {type: Compute, name: MAC, component_class: Dummy}\n"
        "workload: {rank_sizes: {M: 4}, bits_per_value: {All: 8}, einsums: ['Z[m] = A[m]']}\n"
        "mapping:\n  nodes:\n  - {type: Storage, tensors: [A, Z], component: Main}\n"
        "  - {type: Temporal, rank_variable: m, tile_shape: 1}\n  - {type: Compute, einsum: Z, component: MAC}\n"
    )
    assert typed.dialect == "older"
    assert evaluate(typed).latency == 0
    assert tagged.set("arch.nodes.MAC.type", "Compute").arch().leaves.keys() == tagged.arch().leaves.keys()


@pytest.mark.parametrize(("type_", "words"), [("Toll", "type says 'Toll'"), (3, "something else"), (None, "something")])
def test_tag_and_type_must_agree(type_, words):
    spec = load("simple", "matmul", "simple_matmul")
    with pytest.raises(SpecError, match=words):
        spec.set("arch.nodes.MainMemory.type", type_).arch()
    with pytest.raises(SpecError, match=words):
        _ = spec.set("mapping.nodes[0].type", type_).mapping


def test_a_misspelt_type_is_an_unknown_tag():
    with pytest.raises(SpecError, match="did you mean 'Memory'"):
        loads("arch: {nodes: [{type: memory, name: A}]}\nworkload: {einsums: ['Z[m] = A[m]']}").arch_inputs  # noqa: B018


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda spec: spec.set("", 3), "is a dictionary"),
        (lambda spec: spec.set(3, 3), "a path is a text"),
        (lambda spec: spec.set("maping", {}), "did you mean 'mapping'"),
        (lambda spec: spec.arch("nope"), "no Einsum 'nope'.*\n.*Einsums: Z"),
        (lambda spec: Spec.from_dict(3), "is a dictionary, found 3"),
        (lambda spec: load(3), "a path is a text or"),
        (lambda spec: loads(3), "expected YAML text"),
        (lambda spec: load("a" * 300), "File name too long"),
    ],
)
def test_wrong_arguments_are_spec_errors(wrong, words):
    with pytest.raises(SpecError, match=words):
        wrong(Spec.from_dict(MACHINE))


def test_a_spec_can_be_copied_and_pickled_after_evaluation():
    spec = load("simple", "matmul", "simple_matmul")
    cost = evaluate(spec)
    for again in (pickle.loads(pickle.dumps(spec)), copy.deepcopy(spec)):
        assert (again, again.load_notes) == (spec, spec.load_notes)
        assert evaluate(again).energy == cost.energy
