"""The JSON Schema takes what einmap takes, and refuses typical mistakes."""

import json
import random
import re
from functools import cache
from pathlib import Path

import pytest
from tests.random_specs.cases import draw_case, draw_networks
from tests.random_specs.wording import reworded

from einmap import Spec, SpecError, load, loads
from einmap.frontends.yaml.spec import example_paths
from einmap.spec.schema.json_schema import ARCH_TAGS, MAPPING_TAGS, json_schema

jsonschema = pytest.importorskip("jsonschema")
GOLDEN = Path(__file__).parents[1] / "golden"


@cache
def validator(section=None):
    schema = json_schema(section)
    json.dumps(schema, allow_nan=False)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def complaints(value, section=None):
    return [f"{error.json_path}: {error.message}" for error in validator(section).iter_errors(value)]


@pytest.mark.parametrize("name", sorted(example_paths()))
def test_every_example_is_valid(name):
    assert complaints(load(name).to_dict()) == []


@pytest.mark.parametrize("name", ["evaluate", "exact", "invalid"])
def test_recorded_specifications_are_valid(name):
    lines = (GOLDEN / f"{name}.jsonl").read_text().splitlines()
    for case in map(json.loads, random.Random(1).sample(lines, 15)):
        parts = (case.get(f"{part}_yaml") for part in ("arch", "workload", "mapping"))
        assert complaints(loads("\n".join(part for part in parts if part)).to_dict()) == []


def test_drawn_specifications_are_valid():
    for seed in range(15):
        rng = random.Random(seed)
        assert complaints(Spec.from_dict(reworded(rng, draw_case(rng))).to_dict()) == []


def test_drawn_networks_and_windows_are_valid():
    for seed in range(10):
        rng = random.Random(seed)
        assert complaints(Spec.from_dict(reworded(rng, draw_networks(rng))).to_dict()) == []


def test_topologies_and_sliding_windows_are_offered():
    arch = {"nodes": [{"type": "Network", "name": "Noc", "topology": "star"}]}
    assert any("'star' is not one of ['mesh', 'torus'" in text for text in complaints({"arch": arch}))
    node = {"type": "Storage", "component": "GLB", "tensors": ["A"], "sliding_window": "often"}
    assert any("sliding_window" in text for text in complaints({"mapping": {"nodes": [node]}}))


def untagged(value):
    """What an editor sees of tagged nodes."""
    match value:
        case dict():
            is_node = str(value.get("type", ""))[:1].isupper()
            return {k: untagged(v) for k, v in value.items() if not (is_node and k == "type")}
        case list():
            return [untagged(item) for item in value]
        case _:
            return value


@pytest.mark.parametrize("name", sorted(example_paths()))
def test_every_example_is_valid_without_its_tags(name):
    assert complaints(untagged(load(name).to_dict())) == []


SPEC = load("simple", "matmul", "simple_matmul")
MAIN = "arch.nodes.MainMemory"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("arch.nodes.MAC.sizzle", 1),
        (f"{MAIN}.size", [1]),
        (f"{MAIN}.type", "Memroy"),
        (f"{MAIN}.actions", {"read": 1}),
        (f"{MAIN}.actions", [{"energy": 1}]),
        (f"{MAIN}.tensors", {"kep": "All"}),
        (f"{MAIN}.skip_initial_output_write", "yes"),
        (f"{MAIN}.spatial", [{"name": "X"}]),
        (f"{MAIN}.tensors", {"tile_shape": [{"expression": "All", "operator": "!=", "value": 1}]}),
        ("workload.einsums", ["Z[m]"]),
        ("workload.einsums", [{"name": "Z"}]),
        ("workload.einsum", "Z[m] = A[m]"),
        ("workload.einsums", [{"einsum": "Z[m] = A[m]", "is_copy_operation": "no"}]),
        ("mapping.nodes", [{"type": "Loop", "rank_variable": "m"}]),
        ("mapping.nodes", [{"type": "Temporal", "tile_shape": 1}]),
        ("mapping.nodes", [{"type": "Spatial", "rank_variable": "m", "tile_shape": 1}]),
        ("mapping.nodes", [{"type": "Sequential"}]),
        ("config", {"dialect": "odler"}),
        ("model", {"semantics": "exakt"}),
        ("distribution", {"placements": {"A": {"M": "x"}}}),
        ("distribution", {"mesh": {"x": 2}, "placements": {"A": {"M": 3}}}),
        ("distribution", {"mesh": {"x": 2}, "placements": {"A": {"M": {"granule": 2}}}}),
    ],
)
def test_a_typical_mistake_is_not_valid(path, value):
    assert complaints(SPEC.to_dict()) == []
    assert complaints(set_plain(SPEC.to_dict(), path, value)) != []


def set_plain(plain, path, value):
    """The dictionaries with `value` at `path`; elements of lists by name."""
    *steps, last = path.split(".")
    here = plain
    for step in steps:
        if isinstance(here, list):
            here = next(item for item in here if item["name"] == step)
        else:
            here = here.setdefault(step, {})
    here[last] = value
    return plain


def test_an_unknown_top_level_key_is_not_valid_unless_it_carries_anchors():
    assert complaints({"maping": {}}) != []
    assert complaints({"x-anchors": [1], "_more": 2}) == []


def test_a_memory_without_size_or_a_toll_without_direction_is_not_valid():
    assert complaints({"nodes": [{"type": "Memory", "name": "A"}]}, "arch") != []
    assert complaints({"nodes": [{"type": "Toll", "name": "A"}]}, "arch") != []
    assert complaints({"nodes": [{"type": "Toll", "name": "A", "direction": "sideways"}]}, "arch") != []
    assert complaints({"nodes": [{"type": "Toll", "name": "A", "direction": {"All": "up"}}]}, "arch") == []


def test_a_section_is_the_value_under_its_key():
    for section in ("arch", "workload", "mapping"):
        assert complaints(SPEC.to_dict()[section], section) == []
        assert complaints(SPEC.to_dict(), section) != []
    with pytest.raises(SpecError, match="did you mean 'mapping'"):
        json_schema("maping")


def test_the_documented_settings_of_editors_name_all_tags():
    text = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    settings = json.loads(re.findall(r"```json\n(.*?)```", text, re.DOTALL)[0])
    assert {tag for tag in settings["yaml.customTags"] if tag[1].isupper()} == {
        f"!{tag} mapping" for tag in (*ARCH_TAGS, *MAPPING_TAGS)
    }
