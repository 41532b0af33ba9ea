"""LoopTrees out and in."""

import random

import pytest
from tests.random_specs.cases import draw_case

from einmap import MappingError, Spec, SpecError, dump, dump_mapping, loads
from einmap.mapping.nodes import Sequential, Storage, Temporal

TREE = """
mapping:
  title: a tree
  nodes:
  - !Storage {component: Main, tensors: [A, Z], persistent: true, text: all of it}
  - !Reservation {purposes: [A], resource: Main}
  - !TextBox {text: a remark}
  - !Toll {component: Bus, tensors: A}
  - !Temporal {rank_variable: {Y: m, Z: p}, tile_shape: {Y: 2 * 4, Z: 16 // 2}, initial_tile_shape: 9}
  - !Split
    nodes:
    - !Nested {nodes: [!Temporal {rank_variable: m, tile_shape: 1}, !Compute {einsum: Y, component: MAC}]}
    - !Nested
      text: the second
      nodes:
      - !Nested
        nodes:
        - !Spatial {rank_variable: p, tile_shape: 1, component: Row, name: X}
        - !Compute {einsum: Z, component: MAC}
"""
WRITTEN = """\
mapping:
  nodes:
    - !Storage {component: Main, tensors: [A, Z], persistent: true}
    - !Toll {component: Bus, tensors: [A]}
    - !Temporal {rank_variable: {Y: m, Z: p}, tile_shape: {Y: 8, Z: 8}, initial_tile_shape: 9}
    - !Sequential
      nodes:
        - !Nested
          nodes:
            - !Temporal {rank_variable: m, tile_shape: 1}
            - !Compute {einsum: Y, component: MAC}
        - !Nested
          nodes:
            - !Spatial {rank_variable: p, tile_shape: 1, component: Row, name: X}
            - !Compute {einsum: Z, component: MAC}
"""


def test_a_tree_is_written_with_tags_and_without_what_says_nothing():
    mapping = loads(TREE).mapping
    assert dump_mapping(mapping) == WRITTEN
    assert loads(WRITTEN).mapping == mapping
    assert [type(node) for node in mapping.nodes][2:] == [Temporal, Sequential]
    assert mapping.nodes[0] == Storage(("A", "Z"), "Main", persistent=True)


def test_labels_stay_in_the_specification():
    text = dump(loads(TREE))
    assert loads(text) == loads(TREE)
    assert [
        word for word in ("a tree", "all of it", "a remark", "the second", "!Reservation", "2 * 4") if word not in text
    ] == []


def test_drawn_trees_read_back():
    for seed in range(100):
        spec = Spec.from_dict(draw_case(random.Random(seed)))
        assert loads(dump_mapping(spec.mapping)).mapping == spec.mapping


@pytest.mark.parametrize(
    ("field", "kind", "words"),
    [
        ("n_iterations: 4", MappingError, r"n_iterations is not a field(.|\n)*write tile_shape"),
        ("n_iterations: 4, tile_shape: 2", MappingError, "n_iterations is not a field"),
        ("tile_shape: 3 / 2", SpecError, "must be an integer, found 1.5"),
        ("tile_shape: n", SpecError, "name 'n' is not defined"),
        ("tile_shape: 1, text: [a]", SpecError, "text: expected text"),
    ],
)
def test_what_is_no_tile_shape_or_label_is_refused(field, kind, words):
    text = (
        f"mapping:\n  nodes:\n  - !Temporal {{rank_variable: m, {field}}}\n  - !Compute {{einsum: Z, component: M}}\n"
    )
    with pytest.raises(kind, match=words):
        _ = loads(text).mapping
