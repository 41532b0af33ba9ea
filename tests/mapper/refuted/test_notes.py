"""Notes on the mapper's own results: what it finds keeps the constraints, and it is not advised to do better."""

import pytest
from tests.mapper.refuted.beaten import problem
from tests.mapper.specs import MAIN, compute, memory, spec

import einmap
from einmap.mapping.nodes import Storage


@pytest.mark.parametrize("semantics", ["exact", "accelforge"])
@pytest.mark.parametrize("metrics", ["energy", "latency", "edp"])
@pytest.mark.parametrize("name", ["disabled-note", "hierarchy-note", "fallback-total-latency"])
def test_a_result_has_no_note_that_contradicts_the_mapspace(name, metrics, semantics):
    result = einmap.map_workload(problem(name), metrics=metrics, semantics=semantics)
    texts = [note.text for note in result.cost.notes]
    assert not [t for t in texts if "hierarchy" in t or "must keep" in t or "order" in t]
    assert not [note for note in result.cost.notes if note.kind == "advice"]
    # what is wrong with a mapping is said to whoever wrote it, and is an error here
    assert einmap.evaluate(result.spec, result.mapping, semantics=semantics, strict=True) == result.cost


def test_nodes_on_both_sides_of_a_split_stand_at_one_place_unless_a_loop_parts_them():
    spec_text = einmap.dump(problem("hierarchy-note"))
    mapping = """
mapping:
  nodes:
  - !Storage {component: L0, tensors: [A, B, D, Z]}
  - !Temporal {rank_variable: n, tile_shape: 2}
  - !Storage {component: L2, tensors: [X]}
  - !Sequential
    nodes:
    - !Nested
      nodes: [!Temporal {rank_variable: n, tile_shape: 1}, !Temporal {rank_variable: m, tile_shape: 1}, !Compute {einsum: X, component: MAC}]
    - !Nested
      nodes: [LOOP !Storage {component: L1, tensors: [D]}, !Temporal {rank_variable: n, tile_shape: 1}, MORE !Compute {einsum: Z, component: MAC}]
"""
    for parted in (False, True):
        loop = "!Temporal {rank_variable: m, tile_shape: 1}, "
        text = mapping.replace("LOOP ", loop if parted else "").replace("MORE ", "" if parted else loop)
        notes = [note.text for note in einmap.evaluate(einmap.loads(spec_text + text)).notes]
        assert any("L1 stands below storage in L2, against the hierarchy" in note for note in notes) == parted


def test_a_memory_that_is_not_enabled_need_keep_nothing_and_may_not():
    given = spec(
        [MAIN, memory("Buf", 64, 1, {"keep": "B"}, enabled="False"), compute()], ["Z[m] = A[m] * B[m]"], {"M": 4}
    )
    result = einmap.map_workload(given)
    assert [note.text for note in result.cost.notes] == []
    nodes = list(result.mapping.nodes)
    nodes.insert(1, Storage(("B",), "Buf"))
    notes = [note.text for note in einmap.evaluate(given, einmap.Mapping(tuple(nodes))).notes if note.kind == "warning"]
    assert [note for note in notes if "Buf is not enabled" in note]
