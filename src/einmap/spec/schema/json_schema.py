"""The input models as one JSON Schema, for editors and for specifications that are made by programs.

Descriptions end with the unit, and with what is taken where the field is not written, if `default` does not say that.

Editors take a tagged node (`!Memory {...}`) for a plain dictionary, and JSON has no tags: with the field
`type` a node is checked as that class, without it as any class whose fields it has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from einmap.errors import SpecError, did_you_mean
from einmap.spec.schema.arch import BRANCHES, LEAVES, ArchInput
from einmap.spec.schema.base import Input
from einmap.spec.schema.cluster import ClusterInput
from einmap.spec.schema.distribution import DistributionInput
from einmap.spec.schema.documented import KIND, REFUSED, UNIT, WITHOUT
from einmap.spec.schema.fields import READ_ELSEWHERE
from einmap.spec.schema.machine import MachineInput
from einmap.spec.schema.mapping import IGNORED, NODES, MappingInput
from einmap.spec.schema.options import ConfigInput, MapperInput, ModelInput
from einmap.spec.schema.sparsity import SparsityInput
from einmap.spec.schema.workload import EinsumInput, RenamesInput, WorkloadInput

type Schema = dict[str, Any]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_SECTIONS: Mapping[str, type[Input] | None] = {
    "arch": ArchInput,
    "workload": WorkloadInput,
    "renames": RenamesInput,
    "sparsity": SparsityInput,
    "mapping": MappingInput,
    "variables": None,
    "mapper": MapperInput,
    "model": ModelInput,
    "config": ConfigInput,
    "distribution": DistributionInput,
    "cluster": ClusterInput,
}
MACHINE = "machine"
"""The key of machine files, which are files by themselves."""
ARCH_TAGS = (*LEAVES, *BRANCHES)
MAPPING_TAGS = (*NODES, *IGNORED)
_SPLITS = ("Sequential", "Split", "Pipeline", "Nested")
_ANY_OBJECT: Schema = {
    "type": "object",
    "description": "Values that all expressions may use by name.",
    "examples": [{"word": 8}],
}
_TYPE = "The kind of the node, as its tag says it. Needed in JSON, which has no tags."


def json_schema(section: str | None = None) -> Schema:
    """The schema of a specification file, or of the value under the top-level key `section`; or of a machine file.

    Raises SpecError for other keys.
    """
    if section == MACHINE:
        return _of_machine_files()
    if section is not None and section not in _SECTIONS:
        known = (*_SECTIONS, MACHINE)
        raise SpecError(f"no section {section!r}", hint=did_you_mean(section, known, listing="sections"))
    definitions = _definitions()
    sections = {key: _ref(model) if model else _ANY_OBJECT for key, model in _SECTIONS.items()}
    top: Schema = {
        "title": "einmap specification",
        "type": "object",
        "properties": sections,
        # places for anchors
        "patternProperties": {"^(x-|_)": {}},
        "additionalProperties": False,
    }
    start = top if section is None else sections[section]
    return {"$schema": DRAFT, **start, "$defs": definitions}


def _of_machine_files() -> Schema:
    _, whole = models_json_schema([(MachineInput, "validation")], ref_template="#/$defs/{model}")
    found: Schema = {key.removesuffix("Input"): _tidied(value) for key, value in whole["$defs"].items()}
    top = {"title": "einmap machine", "type": "object", "properties": {MACHINE: _ref(MachineInput)}}
    return {"$schema": DRAFT, **top, "required": [MACHINE], "$defs": found}


def _ref(model: type[BaseModel] | str) -> Schema:
    return {"$ref": f"#/$defs/{model if isinstance(model, str) else _name(model)}"}


def _name(model: type[BaseModel]) -> str:
    return model.__name__.removesuffix("Input")


def _definitions() -> Schema:
    """All classes by name, and the nodes, which are one of several."""
    models: set[type[Input]] = {*LEAVES.values(), *BRANCHES.values(), *NODES.values(), EinsumInput}
    models |= {model for model in _SECTIONS.values() if model is not None}
    listed = [(model, "validation") for model in sorted(models, key=lambda model: model.__name__)]
    _, whole = models_json_schema(listed, ref_template="#/$defs/{model}")  # type: ignore[arg-type]
    found: Schema = {key.removesuffix("Input"): _tidied(value) for key, value in whole["$defs"].items()}
    _complete_workload(found)
    _complete_nodes(found, ArchInput, "ArchNode", {**LEAVES, **BRANCHES}, (), tuple(BRANCHES))
    _complete_nodes(found, MappingInput, "MappingNode", NODES, IGNORED, _SPLITS)
    for name, schema in found["Mapper"]["properties"].items():
        if schema.get("type") == "number":
            found["Mapper"]["properties"][name] = {**schema, "type": ["number", "string"]}
    return found


def _tidied(schema: Any) -> Any:
    """Without what only says how the classes are named here; defaults that JSON lacks are left out."""
    match schema:
        case dict():
            tidied = {
                key: value if key == "examples" else _tidied(value)
                for key, value in schema.items()
                if not (key == "title" and isinstance(value, str))
                and not (key == "default" and isinstance(value, float) and not math.isfinite(value))
            }
            return _whole_description(tidied) if isinstance(tidied.get("description"), str) else tidied
        case list():
            return [_tidied(value) for value in schema]
        case str() if schema.startswith("#/$defs/"):
            return schema.removesuffix("Input")
        case _:
            return schema


def _whole_description(schema: Schema) -> Schema:
    """The schema of a field; unit and what is taken without it in its description, where editors show them."""
    unit, without = schema.pop(UNIT, ""), schema.pop(WITHOUT, "")
    for key in (REFUSED, KIND):
        schema.pop(key, None)
    parts = [schema["description"], f"Unit: {unit}." if unit else "", f"Without it: {without}." if without else ""]
    if not schema.get("examples", True):
        del schema["examples"]
    return {**schema, "description": " ".join(filter(None, parts))}


def _read_elsewhere(model: type[Input], name: str) -> Schema:
    """Description and examples of a field that is not one of the model."""
    info = READ_ELSEWHERE[model][name]
    return {"description": info.description, "examples": info.examples}


def _complete_workload(found: Schema) -> None:
    """Einsums are strings, dictionaries, or lists of those at any depth."""
    string = {"type": "string", "pattern": "=", "description": "for example Z[m, n] = A[m, k] * B[k, n]"}
    found["EinsumItem"] = {
        "anyOf": [string, _ref("Einsum"), {"type": "array", "items": _ref("EinsumItem")}],
    }
    found["Einsum"]["anyOf"] = [{"required": ["einsum"]}, {"required": ["name", "tensor_accesses"]}]
    einsums = {"type": "array", "items": _ref("EinsumItem"), **_read_elsewhere(WorkloadInput, "einsums")}
    found["Workload"]["properties"]["einsums"] = einsums


def _complete_nodes(
    found: Schema,
    root: type[Input],
    node: str,
    models: Mapping[str, type[Input]],
    open_tags: Iterable[str],
    branches: tuple[str, ...],
) -> None:
    """Add the list `nodes` to `root` and to branches, and the definition of what may stand in it."""
    nodes: Schema = {"type": "array", "items": _ref(node)}
    found[_name(root)]["properties"]["nodes"] = {**nodes, **_read_elsewhere(root, "nodes")}
    for tag in {*models}:
        model = found[_name(models[tag])]
        model["properties"].setdefault("type", {"type": "string", "description": _TYPE})
        if tag in branches:
            model["properties"]["nodes"] = {**nodes, **_read_elsewhere(models[tag], "nodes")}
            model["required"] = sorted({*model.get("required", ()), "nodes"})
    by_type = [_if_type(tag, _ref(_name(model))) for tag, model in models.items()]
    names = dict.fromkeys(_name(model) for model in models.values())
    found[node] = {
        "type": "object",
        "properties": {"type": {"enum": [*models, *open_tags]}},
        "allOf": by_type,
        "if": {"not": {"required": ["type"]}},
        "then": {"anyOf": [*map(_ref, names), *map(_untyped, open_tags)]},
    }


def _if_type(tag: str, then: Schema) -> Schema:
    return {"if": {"properties": {"type": {"const": tag}}, "required": ["type"]}, "then": then}


def _untyped(tag: str) -> Schema:
    """Schema of a node without checked fields, for an editor that does not see its tag."""
    fields = {
        "Reservation": ["purposes"],
        "TextBox": ["text"],
    }
    return {"type": "object", "required": fields[tag]}
