"""Every field of input files is described, and its examples are what einmap takes."""

import json

import pytest

from einmap import load, loads
from einmap.cli.main import main
from einmap.errors import SpecError
from einmap.frontends.yaml.parsing.parse import parse_yaml
from einmap.mapper.problem.options import metrics_named
from einmap.spec.raw import to_python
from einmap.spec.schema.base import Input
from einmap.spec.schema.documented import flow_text
from einmap.spec.schema.fields import SECTIONS, example_texts, fields_of, find_fields
from einmap.spec.schema.json_schema import json_schema

jsonschema = pytest.importorskip("jsonschema")
MODELS = {model.__name__: model for models in SECTIONS.values() for model in models.values()}
FIELDS = {f"{name}.{field.name}": field for name, model in MODELS.items() for field in fields_of(model)}


def all_models(base=Input):
    for model in base.__subclasses__():
        yield model
        yield from all_models(model)


def test_every_model_has_its_place_in_a_section():
    # the fields of sweep files are in docs/sweep.md
    models = [model for model in all_models() if not model.__module__.startswith("einmap.sweep")]
    leaves = {model.__name__ for model in models if not model.__subclasses__()}
    assert leaves - {*MODELS} == set()


def test_every_field_has_a_description_and_an_example():
    assert len(FIELDS) > 200
    assert [name for name, field in FIELDS.items() if not field.description.endswith(".")] == []
    assert [name for name, field in FIELDS.items() if not field.examples and not field.is_refused] == []


def test_an_optional_field_says_what_is_taken_without_it():
    mute = [name for name, field in FIELDS.items() if field.default == "none" and not field.is_refused]
    labels = ("name", "text", "title")
    assert [name for name in mute if name.partition(".")[2] not in labels] == []


@pytest.mark.parametrize("section", [None, "machine"])
def test_examples_are_valid_by_the_json_schema(section):
    schema = json_schema(section)
    definitions = schema["$defs"]
    checked = 0
    for name, definition in definitions.items():
        for field, about in definition.get("properties", {}).items():
            part = {"$ref": f"#/$defs/{name}/properties/{field}", "$defs": definitions}
            for example in about.get("examples", ()):
                errors = [error.message for error in jsonschema.Draft202012Validator(part).iter_errors(example)]
                assert errors == [], f"{name}.{field}"
                checked += 1
    assert checked > (15 if section else 150)


def test_descriptions_in_the_json_schema_end_with_unit_and_default():
    about = json_schema()["$defs"]["Memory"]["properties"]["leak_power"]
    assert about["description"].endswith(
        "Unit: W. Without it: what the model of `component_class` says, or else an error."
    )
    assert {*about} == {"anyOf", "default", "description", "examples"}
    assert "no limit" in json_schema()["$defs"]["Mapper"]["properties"]["time_limit"]["description"]
    text = json.dumps([json_schema(), json_schema("machine")])
    assert not any(f'"{key}":' in text.replace('"unit": {', "") for key in ("without", "refused", "kind"))


BASE = """
arch:
  nodes:
  - !Memory {name: Main, size: inf, area: 0, COSTS}
  - !Toll {name: Bus, direction: up_and_down, COSTS}
  - !Container {name: Rows, spatial: [{name: R, fanout: 2}]}
  - !Network {name: Noc, COSTS}
  - !Memory {name: Local, size: 8 * 1024, COSTS}
  - !Fork
    nodes:
    - !Compute {name: ALU, COSTS}
  - !Hierarchical
    nodes:
    - !Compute {name: MAC, COSTS}
workload:
  rank_sizes: {M: 8, K: 8, N: 8}
  bits_per_value: {All: 8}
  einsums: ["Z[m, n] = A[m, k] * B[k, n]"]
renames:
  einsums:
  - {name: default, tensor_accesses: {output: Outputs, input: A, weight: B}}
""".replace("COSTS", "component_class: Dummy")
PLACES = {
    "Memory": "arch.nodes[0]",
    "Toll": "arch.nodes[1]",
    "Container": "arch.nodes[2]",
    "Network": "arch.nodes[3]",
    "Fork": "arch.nodes[5]",
    "Hierarchical": "arch.nodes[6]",
    "Compute": "arch.nodes[6].nodes[0]",
    "Spatial": "arch.nodes[2].spatial[0]",
    "Tensors": "arch.nodes[0].tensors",
}
UNBOUND = {"name", "component_class", "component_model", "nodes", "vector", "replicate"}
"""Fields whose example needs more beside it."""


@pytest.fixture(scope="module")
def base():
    return loads(BASE)


@pytest.mark.parametrize("tag", PLACES)
def test_examples_of_the_architecture_are_bound(tag, base):
    for field in fields_of(SECTIONS["arch"][tag]):
        for example in () if field.name in UNBOUND else field.examples:
            assert base.set(f"{PLACES[tag]}.{field.name}", example).bound, example_texts(field)


@pytest.mark.parametrize("field", fields_of(SECTIONS["arch"]["Action"]), ids=lambda field: field.name)
def test_examples_of_actions_are_bound(field, base):
    for example in field.examples:
        action = {"name": "read", "energy": 1e-12, field.name: example}
        assert base.set("arch.nodes[4].actions", [action]).bound


def test_examples_of_the_workload_are_bound(base):
    for field in fields_of(SECTIONS["workload"][""]):
        for example in field.examples if field.name != "einsums" else ():
            old = base.get(f"workload.{field.name}") if field.name == "rank_sizes" else {}
            value = {**old, **example} if isinstance(example, dict) else example
            assert base.set(f"workload.{field.name}", value).bound, field.name
    for field in fields_of(SECTIONS["workload"]["Einsum"]):
        if field.name in ("einsum", "tensor_accesses", "is_copy_operation", "operation"):
            continue
        for example in field.examples:
            einsum = {"einsum": "Z[m, n] = A[m, k] * B[k, n]", field.name: example}
            assert base.set("workload.einsums", [einsum]).bound, field.name


def test_examples_of_options_are_taken(base):
    for section in ("mapper", "model", "config"):
        for field in fields_of(SECTIONS[section][""]):
            for example in field.examples:
                written = base.set(section, {field.name: example})
                assert getattr(written, f"{section}_options", None) is not None or section == "config"
                if section == "mapper" and field.name.endswith("metrics"):
                    assert metrics_named(example)


def test_examples_of_mappings_are_read():
    spec = load("simple", "matmul", "simple_matmul")
    for field in fields_of(SECTIONS["mapping"]["Storage"]):
        for example in field.examples:
            assert spec.set(f"mapping.nodes[0].{field.name}", example).raw is not None
    for example in next(f for f in fields_of(SECTIONS["mapping"]["Temporal"]) if f.name == "tile_shape").examples:
        written = spec.set("mapping.nodes[1].tile_shape", example if isinstance(example, int) else {"Z": example["Z"]})
        assert written.mapping is not None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"output": "2 * output.bits_per_value", "Other": 8}, "{output: 2 * output.bits_per_value, Other: 8}"),
        ([{"type": "Compute", "name": "MAC"}], "[!Compute {name: MAC}]"),
        ("O[p] = I[W: p + r]", '"O[p] = I[W: p + r]"'),
        (["~m", True, 1e-12, float("inf"), None], "[~m, true, 1e-12, inf, null]"),
        (">=", '">="'),
    ],
)
def test_values_as_one_line_of_yaml(value, text):
    assert flow_text(value) == text


def with_numbers(value):
    """The value with numbers for texts that are one: YAML does not quote expressions."""
    match value:
        case dict():
            return {str(key): with_numbers(one) for key, one in value.items()}
        case list():
            return [with_numbers(one) for one in value]
        case str():
            try:
                return float(value)
            except ValueError:
                return value
        case _:
            return value


def test_examples_read_back_from_yaml():
    for field in FIELDS.values():
        for text, example in zip(example_texts(field), field.examples, strict=True):
            found = to_python(parse_yaml(text, "f.yaml"))[field.name]
            assert with_numbers(found) == with_numbers(example)


def test_a_field_is_found_by_its_name_its_path_or_its_end():
    assert [names for _, names in find_fields("arch.Memory.size")] == [["arch.Memory.size"]]
    (through,) = find_fields("arch.Memory.tensors.tile_shape.value")
    assert through[0].name == "value"
    assert [names for _, names in find_fields("size")] == [
        ["arch.Memory.size"],
        ["cluster.Link.size"],
        ["machine.Level.size"],
    ]
    (area,) = find_fields("leak_power")
    assert area[1] == [f"arch.{tag}.leak_power" for tag in ("Memory", "Toll", "Network", "Compute")]
    assert {field.name for field, _ in find_fields("arch.Action")} >= {"energy", "throughput"}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("arch.Memory.sice", "did you mean 'arch.Memory.size'?"),
        ("arch.Memry.size", "did you mean 'arch.Memory.size'?"),
        ("sizs", "did you mean 'size'?"),
        ("leak", "fields: leak_power, leak_power_scale, total_leak_power"),
    ],
)
def test_an_unknown_field_gets_close_names(name, hint):
    with pytest.raises(SpecError) as caught:
        find_fields(name)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("path", "value", "hint"),
    [
        ("arch.nodes[0]", {"type": "Memory", "name": "Main"}, "for example size: 64 * 1024 * 8 (bits)"),
        ("arch.nodes[0].size", {}, "for example size: 64 * 1024 * 8 (bits)"),
        ("arch.nodes[1].direction", [1], "for example direction: down"),
    ],
)
def test_messages_about_a_field_show_how_it_is_written(path, value, hint, base):
    with pytest.raises(SpecError) as caught:
        _ = base.set(path, value).bound
    assert caught.value.hint == hint


def test_the_command_prints_one_field(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    with pytest.raises(SystemExit) as ended:
        main(["schema", "--field", "arch.Memory.size"])
    assert not ended.value.code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "arch.Memory.size"
    assert {"  unit     bits", "  default  required", "  example  size: inf"} <= {*lines}


def test_the_command_refuses_a_name_that_is_not_printable(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["schema", "--field", "si\x1bze"])
    assert ended.value.code == 2
    assert "\x1b" not in capsys.readouterr().err
