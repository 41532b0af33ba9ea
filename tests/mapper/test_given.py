"""`given`: special partly given mappings, and what is said of those that cannot be."""

import pytest
from tests.mapper.specs import CONV, MAIN, MATMUL, compute, memory, spatial, spec, two_level, with_toll

import einmap
from einmap import MappingError, NoMappingError, PartialMapping, SpecError, map_workload
from einmap.errors import NotSupportedError
from einmap.frontends.yaml.given import load_given
from einmap.mapping.nodes import Compute, PerEinsum, Spatial, Storage, Temporal
from einmap.mapping.template import AnyPlace, OpenCompute, OpenSpatial, OpenTemporal

ANY = AnyPlace()
CHAIN = ["X[m, n] = A[m, k] * B[k, n]", "Z[m, p] = X[m, n] * D[n, p]"]


def temporal(variable, shape):
    return Temporal(PerEinsum(variable), PerEinsum(shape))


def lanes(variable, shape, name="X"):
    return Spatial(PerEinsum(variable), PerEinsum(shape), "Array", name)


def vectors():
    """One memory above a compute with eight lanes."""
    nodes = [MAIN, memory("Buf", 160, 1, {"keep": "All"}), compute(spatial=[{"name": "vector", "fanout": 8}])]
    return spec(nodes, MATMUL, {"M": 8, "K": 4, "N": 8})


def loops(mapping):
    return [placed.node for placed in mapping.loops]


@pytest.mark.parametrize("semantics", ["exact", "accelforge"])
@pytest.mark.parametrize("make", [two_level, spatial, with_toll, vectors])
def test_a_mapping_that_is_given_as_a_whole_is_the_result(make, semantics):
    given = make()
    best = map_workload(given, metrics="energy", semantics=semantics)
    for metric in ("latency", "energy"):
        again = map_workload(given, metrics=metric, semantics=semantics, given=best.mapping)
        assert again.mapping == best.mapping
        assert again.optimal


@pytest.mark.parametrize("make", [two_level, spatial, with_toll, vectors])
def test_any_alone_says_nothing(make):
    given = make()
    free = map_workload(given, metrics="edp")
    assert map_workload(given, metrics="edp", given=PartialMapping((ANY,))).mapping == free.mapping
    every_tensor_outside = PartialMapping((Storage(("B", "A"), "Main"), ANY, OpenCompute("Z")))
    assert map_workload(given, metrics="edp", given=every_tensor_outside).cost.edp == pytest.approx(free.cost.edp)


def test_a_fixed_innermost_vector_loop_is_kept():
    vector = Spatial(PerEinsum("m"), PerEinsum(1), "MAC", "vector")
    found = map_workload(vectors(), given=PartialMapping((ANY, temporal("m", 8), vector)))
    assert found.optimal
    assert loops(found.mapping)[-1] == vector
    free = map_workload(vectors())
    assert found.cost.edp >= free.cost.edp


def test_a_fixed_use_of_the_lanes_is_kept_and_no_other_is_made():
    given = PartialMapping(
        (ANY, Storage(("A", "Z"), "Glb"), OpenTemporal("m"), lanes("k", 3), Storage(("Z",), "Reg"), ANY)
    )
    found = map_workload(spatial(), given=given)
    used = [loop for loop in loops(found.mapping) if isinstance(loop, Spatial)]
    assert used == [lanes("k", 3)]
    assert map_workload(spatial()).cost.edp < found.cost.edp


def test_lanes_may_be_inserted_at_any():
    given = PartialMapping((ANY, temporal("n", 2), ANY, Storage(("A",), "Glb"), ANY))
    found = map_workload(spatial(), given=given)
    assert any(isinstance(loop, Spatial) for loop in loops(found.mapping))
    assert temporal("n", 2) in loops(found.mapping)


def test_a_fixed_outer_order_is_kept():
    given = PartialMapping((Storage(("A", "B", "Z"), "Main"), temporal("n", 1), temporal("m", 2), ANY))
    found = map_workload(two_level(), given=given)
    assert loops(found.mapping)[:2] == [temporal("n", 1), temporal("m", 2)]


def test_a_loop_over_all_values_at_once_is_no_loop():
    given = PartialMapping((Storage(("A", "B", "Z"), "Main"), temporal("m", 4), ANY))
    assert map_workload(two_level(), given=given).cost.edp == map_workload(two_level()).cost.edp


def test_an_open_loop_may_have_one_iteration_and_then_it_is_absent():
    nodes = (
        Storage(("A", "B", "Z"), "Main"),
        OpenTemporal("m"),
        OpenTemporal("k"),
        OpenTemporal("n"),
        OpenCompute("Z"),
    )
    with pytest.raises(NoMappingError):  # Buf must keep something here
        map_workload(spatial(), given=PartialMapping(nodes))
    found = map_workload(two_level(), given=PartialMapping(nodes))
    assert [type(node) for node in found.mapping.nodes] == [Storage, Temporal, Temporal, Temporal, Compute]
    assert [loop.rank_variable.default for loop in loops(found.mapping)] == ["m", "k", "n"]


def test_a_tensor_that_is_named_is_kept_nowhere_else():
    given = PartialMapping((ANY, Storage(("B",), "Glb"), ANY))
    found = map_workload(spatial(), given=given)
    kept = [(n.component, t) for n in found.mapping.nodes if isinstance(n, Storage) for t in n.tensors]
    assert [m for m, t in kept if t == "B"] == ["Main", "Glb"]
    assert ("Reg", "Z") in kept


def test_einsums_that_are_not_named_are_free():
    given = spec([MAIN, memory("Buf", 120, 1), compute()], CHAIN, {"M": 4, "K": 4, "N": 2, "P": 2})
    free = map_workload(given, metrics="energy")
    first = temporal("n", 1)
    found = map_workload(given, metrics="energy", given={"X": PartialMapping((ANY, first, temporal("m", 4), ANY))})
    assert found.optimal
    assert found.cost.energy >= free.cost.energy
    assert first in loops(found.mapping)
    assert map_workload(given, metrics="energy", given=free.mapping).mapping == free.mapping


def test_several_objectives_give_the_front_of_mappings_like_the_given_one():
    given = PartialMapping((ANY, temporal("k", 2), temporal("k", 1), ANY))
    front = map_workload(spatial(), metrics="energy,latency", given=given).front
    least = map_workload(spatial(), metrics="energy", given=given).cost.energy
    assert front[0].cost.energy == pytest.approx(least)
    assert all(temporal("k", 2) in loops(found.mapping) or lanes("k", 2) in loops(found.mapping) for found in front)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ((ANY, Storage(("D",), "Buf"), ANY), "it has no tensor 'D'"),
        ((ANY, Storage(("A",), "Bug"), ANY), "the architecture has no Memory 'Bug'"),
        ((ANY, temporal("q", 2), ANY), "'q' is not a rank variable of it"),
        ((ANY, temporal("m", 3), ANY), "tile shape 3 of 'm' does not divide 4"),
        ((ANY, temporal("m", 8), ANY), "tile shape 8 of 'm' exceeds the extent 4"),
        ((ANY, temporal("m", 2), ANY, temporal("m", 4), ANY), "tile shape 4 of 'm' exceeds the extent 2"),
        ((ANY, Storage(("A",), "Buf"), ANY, Storage(("A",), "Main"), ANY), "against the hierarchy"),
        ((ANY, Storage(("A",), "Buf"), ANY, Storage(("A",), "Buf"), ANY), "held twice in 'Buf'"),
        ((ANY, temporal("m", 2), Compute("Z", "MAC")), "'m' is not iterated down to tile shape 1"),
        ((Storage(("A", "B", "Z"), "Main"), temporal("m", 2)), "'m' is not iterated down to tile shape 1"),
        ((ANY, Compute("Z", "MAD")), "no Compute 'MAD'"),
        ((ANY, Compute("Z", "MAC"), ANY), "nothing may follow the Compute"),
        ((ANY, OpenSpatial("m", "Arr", "X"), ANY), "no component 'Arr'"),
        ((ANY, OpenSpatial("m", "Buf", "X"), ANY), "no fanout dimension 'X'"),
    ],
)  # fmt: skip
def test_what_cannot_be_given_is_said(nodes, message):
    with pytest.raises(MappingError, match="Einsum 'Z'") as raised:
        map_workload(two_level(), given=PartialMapping(nodes))
    assert message in str(raised.value)


def test_too_many_lanes_are_refused():
    with pytest.raises(MappingError, match=r"6 instances used on Array\.X, its fanout is 4"):
        map_workload(spatial(), given=PartialMapping((Storage(("A", "B", "Z"), "Main"), lanes("k", 1), ANY)))


def test_nodes_in_an_order_that_no_mapping_has_are_named():
    nodes = (ANY, Storage(("A",), "Glb"), ANY, Storage(("B",), "Reg"), ANY, Storage(("Z",), "Glb"), ANY)
    nodes = (*nodes, Storage(("Z",), "Reg"), ANY)
    with pytest.raises(NoMappingError, match=r"given\.nodes\[3\]: no mapping of Einsum 'Z'"):
        map_workload(spatial(), given=PartialMapping(nodes))


def test_a_node_that_the_architecture_does_not_allow_is_named():
    with pytest.raises(NoMappingError, match=r"given\.nodes\[1\]: 'Toy' keeps 'A' in no mapping"):
        toy = memory("Toy", 64, 1, {"keep": "Z"})
        map_workload(
            spec([MAIN, toy, compute()], MATMUL, {"M": 2, "K": 2, "N": 2}),
            given=PartialMapping((ANY, Storage(("A",), "Toy"), ANY)),
        )


def test_a_tensor_that_is_named_needs_all_nodes_that_the_architecture_demands():
    with pytest.raises(NoMappingError, match=r"given\.nodes\[1\]: 'Z' is kept where .* but 'Glb' must keep it"):
        map_workload(spatial(), given=PartialMapping((ANY, Storage(("Z",), "Reg"), ANY)))


def test_a_given_mapping_that_does_not_fit_leaves_none():
    nodes = (ANY, Storage(("A", "B", "Z"), "Buf"), ANY)
    with pytest.raises(
        NoMappingError, match="no mapping of Einsum 'Z' that is like the given one keeps the constraints and fits"
    ):
        map_workload(two_level(size=16), given=PartialMapping(nodes))


def test_what_is_no_given_mapping_is_refused():
    with pytest.raises(SpecError, match="expected a given mapping, found 7"):
        map_workload(two_level(), given=7)
    with pytest.raises(MappingError, match="no Einsum 'Y'"):
        map_workload(two_level(), given={"Y": PartialMapping((temporal("m", 1), ANY))})


def test_einsums_that_are_searched_mapping_by_mapping_take_nothing():
    given = PartialMapping((temporal("m", 2), ANY))
    with pytest.raises(NotSupportedError, match="takes no given mapping"):
        map_workload(two_level(), brute_force=True, given=given)


# files

PART = """\
given:
  nodes:
  - !Storage {component: Main, tensors: [A, B, Z]}
  - !Any {}
  - !Temporal {rank_variable: n, tile_shape: 2}
  - !Spatial {rank_variable: k, component: Array, name: X}
  - !Storage {component: Reg, tensors: B}
  - !Any {}
"""


def written(tmp_path, text):
    path = tmp_path / "partial.yaml"
    path.write_text(text)
    return path


def test_a_file_gives_nodes_loops_without_tile_shape_and_any(tmp_path):
    found = load_given(written(tmp_path, PART), spatial())
    assert found == {
        "Z": PartialMapping(
            (
                Storage(("A", "B", "Z"), "Main"),
                ANY,
                temporal("n", 2),
                OpenSpatial("k", "Array", "X"),
                Storage(("B",), "Reg"),
                ANY,
            )
        )
    }
    assert found["Z"].at(2).line == 5
    mapped = map_workload(spatial(), given=written(tmp_path, PART))
    assert mapped.optimal
    assert {temporal("n", 2), lanes("n", 2)} & {*loops(mapped.mapping)}


def test_a_mapping_that_was_written_can_be_given(tmp_path):
    best = map_workload(spatial()).mapping
    path = written(tmp_path, einmap.dump_mapping(best))
    assert map_workload(spatial(), given=path).mapping == best
    assert einmap.evaluate(spatial(), best).edp == map_workload(spatial(), given=str(path)).cost.edp


def test_a_file_may_speak_of_several_einsums(tmp_path):
    given = spec([MAIN, memory("Buf", 120, 1), compute()], CHAIN, {"M": 4, "K": 4, "N": 2, "P": 2})
    by_name = (
        "given:\n  X: {nodes: [!Any {}, !Temporal {rank_variable: k, tile_shape: 1}, !Compute {}]}\n  Z: [!Any {}]\n"
    )
    tree = """\
given:
  nodes:
  - !Storage {component: Main, tensors: [A, B, X, D, Z]}
  - !Sequential
    nodes:
    - !Nested {nodes: [!Any {}, !Temporal {rank_variable: k, tile_shape: 1}, !Compute {einsum: X}]}
    - !Nested {nodes: [!Any {}, !Compute {einsum: Z, component: MAC}]}
"""
    first = load_given(written(tmp_path, by_name), given)
    assert first["X"].nodes == (ANY, temporal("k", 1), OpenCompute("X"))
    second = load_given(written(tmp_path, tree), given)
    assert second["X"].nodes == (Storage(("A", "B", "X"), "Main"), *first["X"].nodes)
    assert second["Z"].nodes == (Storage(("X", "D", "Z"), "Main"), ANY, Compute("Z", "MAC"))
    energies = {map_workload(given, metrics="energy", given=g).cost.energy for g in (first, second)}
    assert len(energies) == 1


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("n, tile_shape: 2", "n, tile_shape: 3", 5, "tile shape 3 of 'n' does not divide 4"),
        ("variable: n", "variable: nn", 5, "'nn' is not a rank variable of it"),
        ("component: Reg", "component: Rag", 7, "did you mean 'Reg'?"),
        ("tensors: B", "tensors: Y", 7, "it has no tensor 'Y'"),
        ("!Any", "!Every", 4, "unknown mapping node !Every"),
        ("name: X", "names: X", 6, "unknown field 'names'"),
        ("!Any {}", "!Any {nodes: 1}", 4, "unknown field 'nodes'"),
        ("given:", "givven:", 1, "did you mean 'given'?"),
        ("given:\n  nodes:", "given:\n  Y:", 2, "the workload has no Einsum 'Y'"),
        ("  nodes:\n", "  nodes: []\nx-rest:\n", 2, "a list of nodes is needed"),
        ("  - !Any {}\n", "", 6, "is not iterated down to tile shape 1"),
    ],
)
def test_errors_in_a_file_have_their_line(tmp_path, old, new, line, message):
    path = written(tmp_path, PART.replace(old, new))
    with pytest.raises((MappingError, SpecError)) as raised:
        map_workload(spatial(), given=path)
    assert message in str(raised.value)
    assert f"partial.yaml:{line}" in str(raised.value)


def test_a_convolution_with_a_given_window_loop():
    given = spec([MAIN, memory("Buf", 250, 1), compute()], CONV, {"M": 2, "C": 2, "P": 4, "R": 3})
    nodes = (ANY, temporal("p", 2), Storage(("I",), "Buf"), temporal("r", 1), ANY)
    for semantics in ("exact", "accelforge"):
        found = map_workload(given, semantics=semantics, given=PartialMapping(nodes))
        place = found.mapping.nodes.index(temporal("r", 1))
        assert found.mapping.nodes[place - 1] == Storage(("I",), "Buf")
