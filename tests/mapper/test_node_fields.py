"""Every field of every mapping node is kept or refused by name: in mappings, in given ones, and by rewrites."""

import pytest

import einmap
from einmap.errors import EinmapError
from einmap.frontends.yaml.given import load_given
from einmap.mapping.nodes import Temporal
from einmap.mapping.rewrite.text import rewritten
from einmap.spec.raw import to_python
from einmap.spec.schema.mapping import NODES, PARTIAL_NODES

KEPT, WORDS, OBEYED = "kept", "kept as it is written", "obeyed"
SPEC = """
arch:
  nodes:
  - !Memory {name: Main, size: inf, leak_power: 0, area: 0, actions: &both [
      {name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]}
  - !Toll {name: Wire, direction: up_and_down, leak_power: 0, area: 0, actions: [{name: read, energy: 1, throughput: 1}]}
  - !Memory {name: Buffer, spatial: [{name: X, fanout: 2}], size: 4096, leak_power: 0, area: 0, actions: *both}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
workload:
  rank_sizes: {M: 8, K: 4}
  bits_per_value: {All: 8}
  persistent_tensors: B
  einsums: ["Z[m] = A[m, k] * B[k]"]
"""
NODE = {
    "Temporal": {"rank_variable": "m", "tile_shape": "2"},
    "Spatial": {"rank_variable": "k", "tile_shape": "2", "component": "Buffer", "name": "X"},
    "Storage": {"tensors": "[A]", "component": "Buffer"},
    "Toll": {"tensors": "[A]", "component": "Wire"},
    "Compute": {"einsum": "Z", "component": "MAC"},
    "Any": {},
    "Sequential": {},
    "Split": {},
    "Pipeline": {"component": "Buffer", "name": "X"},
    "Nested": {},
}
"""What is written of each node beside the field that is looked at."""
MAPPING = {
    ("Temporal", "rank_variable"): ("m", KEPT),
    ("Temporal", "tile_shape"): ("2", KEPT),
    ("Temporal", "initial_tile_shape"): ("4", KEPT),
    ("Temporal", "n_iterations"): ("2", "n_iterations is not a field"),
    ("Spatial", "rank_variable"): ("k", KEPT),
    ("Spatial", "tile_shape"): ("2", KEPT),
    ("Spatial", "n_iterations"): ("2", "n_iterations is not a field"),
    ("Spatial", "component"): ("Buffer", KEPT),
    ("Spatial", "name"): ("X", KEPT),
    ("Storage", "tensors"): ("[A]", KEPT),
    ("Storage", "component"): ("Buffer", KEPT),
    ("Storage", "persistent"): ("true", KEPT),
    ("Storage", "sliding_window"): ("true", KEPT),
    ("Toll", "tensors"): ("[A]", KEPT),
    ("Toll", "component"): ("Wire", KEPT),
    ("Toll", "persistent"): ("true", "nothing is persistent in it"),
    ("Compute", "einsum"): ("Z", KEPT),
    ("Compute", "component"): ("MAC", KEPT),
    ("Pipeline", "component"): ("Buffer", WORDS),
    ("Pipeline", "name"): ("X", WORDS),
} | {(tag, "text"): ("a label", WORDS) for tag in NODES}
"""The fields of the nodes of a mapping: a value, and what becomes of it."""
GIVEN = {
    key: outcome if key[0] != "Temporal" or key[1] != "initial_tile_shape" else ("4", "initial_tile_shape in a given mapping")
    for key, outcome in MAPPING.items()
} | {
    ("Pipeline", "component"): ("Buffer", "a Pipeline needs two stages or more, found 1"),
    ("Pipeline", "name"): ("X", "a Pipeline needs two stages or more, found 1"),

    ("Any", "temporal"): ("false", OBEYED),
    ("Storage", "persistent"): ("true", "persistent storage in 'Buffer' in a given mapping is not supported"),
    ("Storage", "sliding_window"): ("true", "sliding_window in a given mapping is not supported"),
} | {(tag, "text"): ("a label", "text in a given mapping is not supported") for tag in PARTIAL_NODES}  # fmt: skip


def node(tag, field, value, fields=None):
    """The node, with the value of the field and, of the splits, what stands below."""
    written = {**(NODE[tag] if fields is None else fields), field: value}
    if field == "n_iterations":
        written.pop("tile_shape", None)
    return f"!{tag} {{{', '.join(f'{name}: {text}' for name, text in written.items())}%s}}"


def tree(tag, field, value, is_given):
    """A mapping as text, with the node in its place."""
    free = ["!Any {}"] if is_given else []
    lines = {
        "Storage": ["!Temporal {rank_variable: m, tile_shape: 4}", None],
        "Temporal": [None],
        "Toll": [None, "!Temporal {rank_variable: m, tile_shape: 4}"],
        "Spatial": [None],
        "Any": [],
        "Compute": [],
        "Sequential": [],
        "Split": [],
        "Pipeline": [],
        "Nested": [],
    }[tag]
    found = node(tag, field, value)
    if tag == "Any":
        free = [found % ""]
    outer_nest = "!Storage {tensors: [A, B, Z], component: Main}"
    inner = ["!Temporal {rank_variable: m, tile_shape: 1}", "!Temporal {rank_variable: k, tile_shape: 1}"]
    if tag == "Compute":
        return [outer_nest, *free, *inner, found % ""]
    chain = [
        outer_nest,
        *free,
        *((line or found % "") for line in lines),
        *free,
        *inner,
        "!Compute {einsum: Z, component: MAC}",
    ]
    if tag == "Nested":
        return [outer_nest, found % f", nodes: [{', '.join(chain[1:])}]"]
    if tag in ("Sequential", "Split", "Pipeline"):
        return [outer_nest, found % f", nodes: [!Nested {{nodes: [{', '.join(chain[1:])}]}}]"]
    return chain


def value_of(text):
    return einmap.loads(f"variables: {{x: {text}}}").to_dict()["variables"]["x"]


def holds(mapping, tag, field, value):
    """Whether a node of that kind has the value."""
    match mapping:
        case {"type": kind, **rest} if kind == tag and rest.get(field) == value:
            return True
        case dict():
            return any(holds(inner, tag, field, value) for inner in mapping.values())
        case list():
            return any(holds(inner, tag, field, value) for inner in mapping)
    return False


def test_the_tables_have_every_field_of_every_node():
    assert {(tag, field) for tag, model in NODES.items() for field in model.model_fields} == MAPPING.keys()
    assert {(tag, field) for tag, model in PARTIAL_NODES.items() for field in model.model_fields} == GIVEN.keys()


@pytest.mark.parametrize(("tag", "field"), MAPPING, ids=str)
def test_a_field_of_a_mapping_is_kept_or_refused_by_name(tag, field):
    value, outcome = MAPPING[tag, field]
    nodes = "".join(f"  - {line}\n" for line in tree(tag, field, value, is_given=False))
    spec = einmap.loads(f"{SPEC}mapping:\n  nodes:\n{nodes}")
    if outcome not in (KEPT, WORDS):
        with pytest.raises(EinmapError, match=outcome) as caught:
            _ = spec.mapping
        assert caught.value.at.line == next(
            n
            for n, line in enumerate(f"{SPEC}mapping:\n  nodes:\n{nodes}".splitlines(), 1)
            if f"{field}: {value}" in line and f"!{tag}" in line
        )
        return
    assert holds(to_python(spec.raw), tag, field, value_of(value))
    if outcome == KEPT:
        changed = spec.with_mapping(
            rewritten(spec.mapping, spec.workload, "split m 4" if tag == "Spatial" else "split k 2")
        )
        assert holds(to_python(changed.raw), tag, field, value_of(value))


@pytest.mark.parametrize(("tag", "field"), GIVEN, ids=str)
def test_a_field_of_a_given_mapping_is_kept_or_refused_by_name(tag, field, tmp_path):
    value, outcome = GIVEN[tag, field]
    file = tmp_path / "given.yaml"
    nodes = "".join(f"  - {line}\n" for line in tree(tag, field, value, is_given=True))
    file.write_text(f"given:\n  nodes:\n{nodes}")
    spec = einmap.loads(SPEC)
    if outcome == KEPT:
        result = einmap.map_workload(spec, given=load_given(file, spec))
        assert holds(result.spec.with_mapping(result.mapping).to_dict(), tag, field, value_of(value))
        return
    if outcome == OBEYED:
        # the loops that stand beside the places are all that there are
        nodes = einmap.map_workload(spec, given=load_given(file, spec)).mapping.nodes
        loops = [(loop.rank_variable.default, loop.tile_shape.default) for loop in nodes if isinstance(loop, Temporal)]
        assert loops == [("m", 1), ("k", 1)]
        return
    with pytest.raises(EinmapError, match=outcome) as caught:
        einmap.map_workload(spec, given=load_given(file, spec))
    problems = getattr(caught.value, "problems", [caught.value])
    assert any(problem.at.file == str(file) and problem.at.line for problem in problems)


@pytest.mark.parametrize(
    "fields", ["rank_variable: m, initial_tile_shape: 4", "rank_variable: {Z: m}, initial_tile_shape: 4"]
)
def test_a_loop_without_tile_shape_loses_no_field(fields, tmp_path):
    (tmp_path / "given.yaml").write_text(f"given: {{nodes: [!Any {{}}, !Temporal {{{fields}}}]}}\n")
    with pytest.raises(EinmapError, match="initial_tile_shape in a given mapping is not supported"):
        load_given(tmp_path / "given.yaml", einmap.loads(SPEC))


@pytest.mark.parametrize("tag", ["Sequential", "Split", "Nested"])
def test_an_unknown_field_of_a_split_of_a_given_mapping_is_an_error(tag, tmp_path):
    inner = "!Any {}" if tag == "Nested" else "!Nested {nodes: [!Any {}]}"
    (tmp_path / "given.yaml").write_text(f"given: {{nodes: [!{tag} {{nodes: [{inner}], node: 1}}]}}\n")
    with pytest.raises(EinmapError, match="unknown field 'node'"):
        load_given(tmp_path / "given.yaml", einmap.loads(SPEC))
