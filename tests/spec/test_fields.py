"""Fields of each kind of value: lists of sets, booleans, unions, sizes, loops; and the notes about them."""

import re

import pytest

from einmap import EinmapError, MappingError, SpecError, load, loads
from einmap.spec.schema.fields import SECTIONS, example_texts, fields_of

TWO = """
arch:
  nodes:
  - !Memory {name: Main, size: inf, component_class: Dummy}
  - !Toll {name: Bus, direction: up_and_down, component_class: Dummy}
  - !Memory {name: GLB, size: inf, component_class: Dummy}
  - !Compute {name: MAC, component_class: Dummy}
workload:
  rank_sizes: {M: 4, N: 4}
  bits_per_value: {All: 8}
  einsums: ["Y[m] = A[m]", "Z[n] = B[n]"]
mapping:
  nodes:
  - !Storage {tensors: [A, B, Y, Z], component: Main}
  - !Sequential
    nodes:
    - !Nested {nodes: [!Temporal {rank_variable: m, tile_shape: 1}, !Compute {einsum: Y, component: MAC}]}
    - !Nested {nodes: [!Temporal {rank_variable: n, tile_shape: 1}, !Compute {einsum: Z, component: MAC}]}
"""
LOOP = "mapping.nodes[1].nodes[0].nodes[0]"
MATMUL = load("simple", "matmul", "simple_matmul")


def refused(spec, kind=SpecError):
    """The message of a specification that cannot be bound."""
    with pytest.raises(kind) as caught:
        _ = spec.bound, spec.mapping
    return str(caught.value)


@pytest.mark.parametrize("field", ["keep", "may_keep", "back", "no_refetch_from_above", "no_resend_to_below"])
def test_a_list_of_sets_is_their_union(field):
    written = MATMUL.set("arch.nodes.MainMemory.tensors", {field: ["A", "B & Inputs"]})
    placement = written.arch().leaves["MainMemory"].placement
    assert getattr(placement, field).given({}) == {"A", "B"}
    assert hash(placement) is not None


def test_an_empty_list_of_sets_is_nothing():
    written = MATMUL.set("arch.nodes.MainMemory.tensors", {"keep": []})
    assert written.arch().leaves["MainMemory"].placement.choices({}) == (frozenset(), frozenset())


def test_groups_of_an_order_may_be_lists():
    written = MATMUL.set("arch.nodes.MainMemory.tensors", {"tensor_order_options": [[["A", "B"], "Z"]]})
    placement = written.arch().leaves["MainMemory"].placement
    assert placement.order_allows({"B": 0, "A": 1, "Z": 2}, {})
    assert not placement.order_allows({"A": 0, "Z": 1, "B": 2}, {})


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("arch.nodes.MainMemory.tensors", {"keep": 3}, "expected text or a list, found 3"),
        ("arch.nodes.MainMemory.tensors", {"keep": [["A"]]}, "keep[0]: expected text, found a list"),
        ("arch.nodes.MainMemory.size", {}, "expected true or false, a number or text, found a dictionary"),
        ("arch.nodes.MainMemory.name", 3, "expected text, found 3"),
        ("arch.nodes.MainMemory.tensors", {"force_memory_hierarchy_order": "yes"}, "true or false, found 'yes'"),
        ("arch.nodes.MAC.skip_initial_output_write", 1, "expected true or false, found 1"),
        ("mapping.nodes[1].rank_variable", ["m"], "expected text or a dictionary, found a list"),
    ],
)
def test_one_message_says_what_a_field_may_be(path, value, words):
    message = refused(MATMUL.set(path, value))
    assert words in message
    assert len(re.findall(r"expected", message)) == 1


def test_words_for_booleans_come_with_a_hint():
    assert "write true or false" in refused(MATMUL.set("mapping.nodes[0].persistent", "no"))


@pytest.mark.parametrize("size", ["2**5000", 10**400])
def test_a_size_that_no_float_holds_is_too_large(size):
    assert "rank M is too large" in refused(MATMUL.set("workload.rank_sizes.M", size))


@pytest.mark.parametrize("size", [2**40 + 1, 1e30, "2**70"])
def test_a_rank_variable_has_at_most_2_to_the_40_values(size):
    message = refused(MATMUL.set("workload.rank_sizes.M", size))
    assert "rank variable 'm' of Einsum 'Z' is too large" in message
    assert "2**40" in message


def test_the_largest_rank_variable_is_exact():
    assert dict(MATMUL.set("workload.rank_sizes.M", "2**40").workload.einsums[0].bounds)["m"] == 2**40


@pytest.mark.parametrize("field", ["rank_variable", "tile_shape", "initial_tile_shape"])
def test_a_misspelt_einsum_of_a_loop_is_named(field):
    value = {"rank_variable": {"Y": "m", "ZZ": "n"}}.get(field, {"Y": 1, "ZZ": 1})
    message = refused(loads(TWO).set(f"{LOOP}.{field}", value), MappingError)
    assert f"{field}.ZZ: the workload has no Einsum 'ZZ'" in message
    assert "did you mean 'Z'?" in message


def test_without_a_workload_loops_may_name_any_einsum():
    text = "mapping: {nodes: [!Temporal {rank_variable: {Q: m}, tile_shape: 1}, !Compute {einsum: Q, component: MAC}]}"
    assert loads(text).mapping.nodes[0].rank_variable.of("Q") == "m"


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ("!Spatial {rank_variable: m, tile_shape: 1, initial_tile_shape: 1, component: MAC, name: X}", "unknown field"),
        ("!Temporal {rank_variable: m, tile_shape: true}", "a tile shape must be a number, found true"),
        ("!Toll {tensors: [A], component: Bus, persistent: true}", "nothing is persistent in it"),
    ],
)
def test_fields_that_a_node_cannot_have_are_refused(node, words):
    with pytest.raises((SpecError, MappingError), match=words):
        _ = loads(TWO.replace("!Temporal {rank_variable: m, tile_shape: 1}", node)).mapping


def test_persistent_false_is_allowed_on_a_toll():
    node = "!Toll {tensors: [A], component: Bus, persistent: false}, !Temporal {rank_variable: m, tile_shape: 1}"
    assert loads(TWO.replace("!Temporal {rank_variable: m, tile_shape: 1}", node)).mapping is not None


def test_a_toll_cannot_be_the_outermost_holder():
    spec = loads(TWO)
    assert spec.set("arch.nodes.Bus.tensors", {"back": "Nothing"}).bound
    for back in ("All", ["A"], "~Main"):
        message = refused(spec.set("arch.nodes.Bus.tensors", {"back": back}))
        assert "a Toll cannot be the outermost holder" in message


def test_a_tensor_is_listed_once_in_the_concise_form():
    accesses = [{"name": "A", "bits_per_value": 4}, {"name": "A", "persistent": True}]
    spec = loads(TWO).set("workload.einsums", [{"einsum": "Y[m] = A[m]", "tensor_accesses": accesses}])
    assert "tensor_accesses[1] \"A\": tensor 'A' is listed twice" in refused(spec)


def test_renames_of_one_einsum_are_given_once():
    spec = loads(TWO).set("renames", {"einsums": [{"name": "Y"}, {"name": "default"}, {"name": "Y"}]})
    assert "renames.einsums[2] \"Y\": renames of 'Y' are given twice" in refused(spec)


def test_instances_may_depend_on_rank_sizes():
    spec = loads(TWO).set("workload.n_instances", "M//2 + 1")
    spec = spec.set("workload.einsums", [{"einsum": "Y[m] = A[m]", "rank_sizes": {"M": 6}, "n_instances": "M"}])
    assert (spec.workload.n_instances, spec.workload.einsums[0].n_instances) == (3, 6)


def test_sizes_and_bounds_that_nothing_uses_are_noted():
    spec = loads(TWO).set("workload.rank_sizes.Q", 3).set("workload.rank_sizes.P", 4)
    spec = spec.set("workload.n_instances", "P").set("workload.iteration_space_shape", {"q": "0 <= q < 4"})
    assert [str(note) for note in spec.notes] == [
        "workload.iteration_space_shape.q: iteration_space_shape of 'q' is not used: no Einsum has this rank variable",
        "workload.rank_sizes.Q: the size of rank 'Q' is not used: no tensor has this rank",
    ]
    own = loads(TWO).set("workload.einsums", [{"einsum": "Y[m] = A[m]", "rank_sizes": {"N": 6}}])
    assert "Einsum 'Y' has no such rank" in " ".join(str(note) for note in own.notes)


def test_variables_that_the_workload_hides_are_noted():
    spec = loads(TWO).set("variables", {"m": 1, "A": 2, "fine": 3})
    assert [str(note) for note in spec.notes] == [
        "variables.m: the variable 'm' has the name of a rank variable, which wins in expressions",
        "variables.A: the variable 'A' has the name of a tensor, which wins in expressions",
    ]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("arch.nodes.MainMemory.tensors", 3, "expected a dictionary with the fields of Tensors, found 3"),
        ("arch.nodes.MainMemory.spatial", ["X"], "expected a dictionary with the fields of Spatial, found 'X'"),
        ("arch.nodes.MainMemory.enabled", "A", "enabled must be true or false, found tensors {A} (`A`)"),
        ("arch.nodes.GlobalBuffer.area", "len(MainMemory)", "MainMemory has attributes, and no elements"),
    ],
)
def test_messages_speak_of_what_was_written(path, value, words):
    assert words in refused(MATMUL.set(path, value), EinmapError)


def test_a_loop_with_nodes_of_its_own_is_refused():
    loop = {"type": "Temporal", "rank_variable": "m", "tile_shape": 1, "nodes": []}
    assert "mapping.nodes[1].nodes: unknown field 'nodes' of Temporal" in refused(MATMUL.set("mapping.nodes[1]", loop))


@pytest.mark.parametrize(
    ("path", "name"), [("workload.einsms", "einsums"), ("mapping.node", "nodes"), ("arch.node", "nodes")]
)
def test_a_list_that_is_misspelt_gets_a_suggestion(path, name):
    message = refused(MATMUL.set(path, []), EinmapError)
    assert f"did you mean '{name}'?" in message


def test_only_divisions_are_told_to_be_of_integers():
    cycle = refused(MATMUL.set("workload.rank_sizes", {"M": "K // 2", "K": "M * 2", "N": 4}))
    assert "circular dependency" in cycle
    assert "use //" not in cycle
    assert "use // for a division" in refused(MATMUL.set("workload.rank_sizes.M", "8 / 2"))


def test_a_fork_without_a_compute_is_reported_where_it_stands():
    fork = {"type": "Fork", "nodes": [{"type": "Memory", "name": "Side", "size": 8, "component_class": "Dummy"}]}
    nodes = MATMUL.get("arch.nodes")
    message = refused(MATMUL.set("arch.nodes", [nodes[0], fork, *nodes[1:]]))
    assert message == "arch.nodes[1]: a Fork needs a Compute"


def test_examples_of_architectures_need_no_renames():
    for models in (SECTIONS["arch"].values(), SECTIONS["given"].values()):
        for model in models:
            for field in fields_of(model):
                words = {word for text in example_texts(field) for word in re.findall(r"\w+", text)}
                assert words.isdisjoint({"weight", "input", "output"}), field.name
