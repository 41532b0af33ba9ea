"""All fields of input files by name, with what the schema says of them: for the reference and for look-ups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAliasType, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from einmap.errors import InvariantError, SpecError, closest, did_you_mean
from einmap.spec.schema.arch import (
    BRANCHES,
    LEAVES,
    ActionInput,
    ArchInput,
    ArrayInput,
    ForkInput,
    HierarchicalInput,
)
from einmap.spec.schema.base import Expression, Input, SetExpression
from einmap.spec.schema.cluster import ClusterInput, KernelInput, LinkInput, ProcessingElementInput
from einmap.spec.schema.distribution import (
    AxisNames,
    ComputeStepInput,
    DistributionInput,
    LoopSplitInput,
    MoveStepInput,
    RankSplitInput,
    TurnsInput,
)
from einmap.spec.schema.documented import KIND, REFUSED, UNIT, WITHOUT, documented, flow_text
from einmap.spec.schema.latency import BanksInput, PortsInput
from einmap.spec.schema.layout import LayoutInput
from einmap.spec.schema.machine import ComputeUnitInput, LevelInput, MachineInput
from einmap.spec.schema.mapping import NODES, PARTIAL_NODES, MappingInput, PipelineInput, SplitInput
from einmap.spec.schema.options import ConfigInput, MapperInput, ModelInput
from einmap.spec.schema.placement import ComparisonInput, SpatialInput, TensorsInput
from einmap.spec.schema.sparsity import (
    DensityInput,
    FormatLevelInput,
    NamedFormatInput,
    SavingEnergiesInput,
    SavingInput,
    SparsityInput,
)
from einmap.spec.schema.workload import (
    AccessInput,
    EinsumInput,
    EinsumRenamesInput,
    RenameInput,
    RenamesInput,
    WorkloadInput,
)
from einmap.visible import short

_WORDS: Mapping[Any, tuple[str, str]] = {
    Any: ("any value", "values"),
    bool: ("true or false", "truth values"),
    int: ("integer", "integers"),
    float: ("number", "numbers"),
    str: ("text", "texts"),
    Expression: ("expression", "expressions"),
    SetExpression: ("set", "sets"),
    AxisNames: ("mesh axis or list of them", "mesh axes"),
    AccessInput: ("access", "accesses"),
    BanksInput: ("banks", "banks"),
    PortsInput: ("ports", "ports"),
    LayoutInput: ("layout", "layouts"),
    ActionInput: ("action", "actions"),
    ComparisonInput: ("limit", "limits"),
    ComputeUnitInput: ("compute unit", "compute units"),
    EinsumRenamesInput: ("renames of an Einsum", "renames of Einsums"),
    KernelInput: ("kernel", "kernels"),
    LevelInput: ("level", "levels"),
    LinkInput: ("link", "links"),
    ProcessingElementInput: ("processing element", "processing elements"),
    RankSplitInput: ("split", "splits"),
    TurnsInput: ("entry", "entries"),
    RenameInput: ("rename", "renames"),
    SpatialInput: ("dimension", "dimensions"),
    TensorsInput: ("constraints on tensors", "constraints on tensors"),
}
"""Words for the values of a field, one and several."""

_NODE = {"type": "Memory", "name": "Main", "size": "inf"}
_LOOP = {"type": "Temporal", "rank_variable": "m", "tile_shape": 1}
READ_ELSEWHERE: Mapping[type[Input], Mapping[str, FieldInfo]] = {
    ArchInput: {
        "nodes": documented(
            "The nodes, each with a tag such as `!Memory` (or the field `type`). Each is the parent of all that follow "
            "it; a compute ends a path and is the parent of none.",
            [_NODE, {"type": "Compute", "name": "MAC"}],
        )
    },
    ForkInput: {
        "nodes": documented("The nodes inside, with a compute among them.", [_NODE, {"type": "Compute", "name": "ALU"}])
    },
    ArrayInput: {
        "nodes": documented(
            "Memories, networks and tolls, outermost first; networks after the memories.",
            [{"type": "Memory", "name": "RowBuffer", "size": 4096, "spatial": [{"name": "X", "fanout": 4}]}],
        )
    },
    HierarchicalInput: {"nodes": documented("The nodes inside.", [_NODE])},
    WorkloadInput: {
        "einsums": documented(
            "The Einsums in order: strings, dictionaries, or lists of them at any depth. What one reads, an earlier "
            "one writes, or it is an input of the workload.",
            ["Y[m] = A[m]", {"einsum": "Z[m] = Y[m]", "n_instances": 2}],
        )
    },
    MappingInput: {
        "nodes": documented(
            "The nodes, each with a tag such as `!Temporal` (or the field `type`). Each is the parent of the next; the "
            "last one is a compute or a split.",
            [_LOOP, {"type": "Compute", "einsum": "Z", "component": "MAC"}],
        )
    },
    PipelineInput: {
        "nodes": documented(
            "The stages in order, each a `!Nested`.",
            [{"type": "Nested", "nodes": [_LOOP, {"type": "Compute", "einsum": "Z", "component": "MAC"}]}],
        )
    },
    SplitInput: {
        "nodes": documented(
            "Of a split its branches in order, each a `!Nested`; of a `!Nested` nodes, one below the other.",
            [{"type": "Nested", "nodes": [_LOOP, {"type": "Compute", "einsum": "Z", "component": "MAC"}]}],
        )
    },
}
"""Fields that are no fields of the models, because nodes and Einsums are read one by one."""

SECTIONS: Mapping[str, Mapping[str, type[Input]]] = {
    "arch": {
        "": ArchInput,
        **LEAVES,
        **BRANCHES,
        "Action": ActionInput,
        "Ports": PortsInput,
        "Banks": BanksInput,
        "Layout": LayoutInput,
        "Spatial": SpatialInput,
        "Tensors": TensorsInput,
        "Comparison": ComparisonInput,
    },
    "workload": {"": WorkloadInput, "Einsum": EinsumInput, "Access": AccessInput},
    "renames": {"": RenamesInput, "Einsum": EinsumRenamesInput, "Rename": RenameInput},
    "mapping": {"": MappingInput, **NODES},
    "given": PARTIAL_NODES,
    "sparsity": {
        "": SparsityInput,
        "Density": DensityInput,
        "FormatLevel": FormatLevelInput,
        "NamedFormat": NamedFormatInput,
        "Saving": SavingInput,
        "SavingEnergies": SavingEnergiesInput,
    },
    "mapper": {"": MapperInput},
    "model": {"": ModelInput},
    "config": {"": ConfigInput},
    "distribution": {
        "": DistributionInput,
        "RankSplit": RankSplitInput,
        "Turns": TurnsInput,
        "ComputeStep": ComputeStepInput,
        "LoopSplit": LoopSplitInput,
        "MoveStep": MoveStepInput,
    },
    "cluster": {
        "": ClusterInput,
        "ProcessingElement": ProcessingElementInput,
        "Kernel": KernelInput,
        "Link": LinkInput,
    },
    "machine": {"": MachineInput, "Level": LevelInput, "ComputeUnit": ComputeUnitInput},
}
"""By top-level key: the models that stand somewhere below it, by tag or by name; the key's own under an empty name."""


@dataclass(frozen=True, slots=True)
class FieldText:
    """One field of input files.

    `kind`: what may stand there, in words; `default`: what is taken without it, "required" where it must be written;
    `examples`: values, which YAML and JSON can write; `is_refused`: it is known so that its message can help.
    """

    name: str
    kind: str
    unit: str
    default: str
    description: str
    examples: tuple[Any, ...]
    is_refused: bool


def fields_of(model: type[Input], *, inherited: bool = True) -> list[FieldText]:
    """The fields of a model in order; without those of its bases if not `inherited`."""
    bases = [] if inherited else [base for base in model.__bases__ if issubclass(base, Input)]
    own = [item for item in model.model_fields.items() if not any(item[0] in base.model_fields for base in bases)]
    elsewhere = READ_ELSEWHERE.get(model, {})
    lists = [
        FieldText(name, "list", "", "required", info.description or "", tuple(info.examples or ()), False)
        for name, info in elsewhere.items()
    ]
    return [*(_text(name, info) for name, info in own), *lists]


def _text(name: str, info: FieldInfo) -> FieldText:
    extra: Mapping[str, Any] = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    choices = extra.get("enum")
    kind = extra.get(KIND) or (_choice(choices) if choices else kind_of(info.annotation))
    default = "required" if info.is_required() else str(extra.get(WITHOUT) or _default(info.default))
    return FieldText(
        name, str(kind), str(extra.get(UNIT, "")), default, info.description or "", tuple(info.examples or ()),
        bool(extra.get(REFUSED)),
    )  # fmt: skip


def _choice(words: Iterable[object]) -> str:
    return "one of " + ", ".join(f"`{word}`" for word in words)


def _default(value: object) -> str:
    match value:
        case None:
            return "none"
        case {} | []:
            return "empty"
        case _:
            return f"`{flow_text(value)}`"


def kind_of(annotation: Any, *, many: bool = False) -> str:
    """Words for the values of a field with this annotation; `many`: several such values."""
    if annotation in _WORDS:
        return _WORDS[annotation][many]
    if isinstance(annotation, TypeAliasType):
        return kind_of(annotation.__value__, many=many)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        extra = next((m.json_schema_extra for m in arguments[1:] if isinstance(m, FieldInfo)), None)
        choices = extra.get("enum") if isinstance(extra, dict) else None
        return _choice(choices) if isinstance(choices, list) else kind_of(arguments[0], many=many)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(kind_of(part, many=many) for part in arguments if part is not NoneType))
    if origin is list:
        return f"list{'s' if many else ''} of {kind_of(arguments[0], many=True)}"
    if origin is dict:
        return f"dictionar{'ies' if many else 'y'} of {kind_of(arguments[1], many=True)}"
    raise InvariantError(f"no words for {annotation}")


def example_texts(field: FieldText) -> tuple[str, ...]:
    """The examples as lines of YAML: `size: 64 * 1024 * 8`."""
    return tuple(f"{field.name}: {flow_text(example)}" for example in field.examples)


def find_fields(name: str) -> list[tuple[FieldText, list[str]]]:
    """The fields that a name speaks of, each with its full names.

    `arch.Memory.size` is one field, `arch.Memory` all of that class; `arch.Memory.actions.energy` follows what stands
    in fields; and of `Memory.size` or `size` those are found that end so. Raises SpecError with names like it.
    """
    exact = _followed(name)
    if isinstance(exact, FieldText):
        return [(exact, [name])]
    if exact is not None:
        return [(field, [f"{name}.{field.name}"]) for field in fields_of(exact)]
    found: list[tuple[FieldText, list[str]]] = []
    for full, field in _by_name().items():
        if full.endswith(f".{name}"):
            alike = next((names for other, names in found if other == field), None)
            if alike is None:
                found.append((field, [full]))
            else:
                alike.append(full)
    if not found:
        raise SpecError(f"no field {short(name)}", hint=_like(name))
    return found


def _like(name: str) -> str:
    """A hint: names like what was asked for, or those below it."""
    known = _by_name()
    fields = {full.rpartition(".")[2] for full in known}
    if "." not in name:
        return did_you_mean(name, [field for field in fields if name in field] or fields, listing="fields")
    guess = closest(name, known)
    above = name.rpartition(".")[0]
    below = [full for full in known if full.startswith(f"{above}.") and full.count(".") == name.count(".")]
    return did_you_mean(name, [*below, *([guess] if guess else [])] or SECTIONS, listing="names")


def _followed(name: str) -> FieldText | type[Input] | None:
    """The field or model at the end of a path of section, tag and fields; None where it leads nowhere."""
    section, *steps = name.split(".")
    models = SECTIONS.get(section, {})
    model = models.get("")
    for position, step in enumerate(steps):
        if position == 0 and step in models:
            model = models[step]
            continue
        field = next((f for f in fields_of(model) if f.name == step), None) if model is not None else None
        if field is None or model is None:
            return None
        if position == len(steps) - 1:
            return field
        model = _inside(model, step, models)
    return model


def _inside(model: type[Input], field: str, models: Mapping[str, type[Input]]) -> type[Input] | None:
    """The model of what stands in a field."""
    if field not in model.model_fields:
        return models.get("Einsum") if field == "einsums" else None
    waiting: list[Any] = [model.model_fields[field].annotation]
    while waiting:
        annotation = waiting.pop()
        if isinstance(annotation, type) and issubclass(annotation, Input):
            return annotation
        if isinstance(annotation, TypeAliasType):
            waiting.append(annotation.__value__)
        waiting += get_args(annotation)
    return None


@cache
def _by_name() -> Mapping[str, FieldText]:
    """All fields by full name."""
    return {
        ".".join(part for part in (section, tag, field.name) if part): field
        for section, models in SECTIONS.items()
        for tag, model in models.items()
        for field in fields_of(model)
    }
