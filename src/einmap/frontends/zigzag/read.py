"""ZigZag's files -> workload.yaml, architecture.yaml and given.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from einmap.errors import At, SpecError
from einmap.frontends.files import read_text_file
from einmap.frontends.foreign import GIVEN_FILE, LONGEST_KEY, Report, Translation, Value
from einmap.frontends.yaml.dump import to_yaml
from einmap.frontends.yaml.parsing.parse import parse_yaml
from einmap.frontends.zigzag.hardware import Hardware, read_hardware
from einmap.frontends.zigzag.layers import Layer, read_layers
from einmap.frontends.zigzag.mapping import (
    DEFAULT,
    Constraints,
    Given,
    constraints,
    given_for,
    orderings,
    read_mappings,
    read_spatial,
)
from einmap.frontends.zigzag.onnx_layers import read_onnx_layers
from einmap.frontends.zigzag.roles import DEFAULT_LINKS
from einmap.frontends.zigzag.workload import cascade
from einmap.spec.raw import RawList, RawMap, RawScalar, from_python

type Kind = Literal["workload", "hardware", "mapping"]


def read(files: Sequence[Path], *, define: Mapping[str, object], root: Sequence[Path], bits: int | None) -> Translation:
    """Translation of a workload, hardware and mapping of ZigZag, in any order; each may be missing.

    The workload may be a model in ONNX, of which `define` gives open dimensions. Other files have no templates, and
    none includes anything, so `root` must be empty; `bits` replaces all widths. A mapping needs the other two: it
    becomes limits on the architecture's spatial loops, and, where it orders loops, a partly given mapping. Raises
    SpecError with the place.
    """
    models = [file for file in files if file.suffix.lower() == ".onnx"]
    for option, value in (("-D", not models and define), ("--root", root)):
        if value:
            raise SpecError(f"{option} has no meaning for ZigZag's files, which have no templates")
    report = Report()
    documents = _documents([file for file in files if file not in models], report)
    if len(models) + ("workload" in documents) > 1:
        raise SpecError("a second workload, beside the model", at=At(str(models[-1])), hint="import them one by one")
    hardware = read_hardware(documents["hardware"], report) if "hardware" in documents else None
    layers = read_layers(documents["workload"], report) if "workload" in documents else ()
    if models:
        layers = read_onnx_layers(models[0], define, report)
    mappings = _mappings(documents, hardware, bool(layers), report)
    if mappings and not (hardware and layers):
        what = "hardware" if layers else "workload"
        raise SpecError(
            f"a mapping is read with its {what}", at=next(iter(mappings.values())).at, hint=f"name the {what} file, too"
        )
    return translation(with_bits(layers, bits), hardware, mappings, report, "ZigZag")


def with_bits(layers: Sequence[Layer], bits: int | None) -> Sequence[Layer]:
    """Layers whose values all have so many bits, where a number is given."""
    if bits is None:
        return layers
    return [
        replace(layer, bits={letter: bits if own else 0 for letter, own in layer.bits.items()}, partial_bits=bits)
        for layer in layers
    ]


def translation(
    layers: Sequence[Layer], hardware: Hardware | None, mappings: Mapping[str, Given], report: Report, tool: str
) -> Translation:
    """The texts of workload.yaml, architecture.yaml and given.yaml, as far as there is something for each."""
    limits = constraints(layers, mappings, hardware, report) if hardware and mappings else Constraints()
    texts: dict[str, object] = {}
    if layers:
        links = {layer.name: _links(layer, mappings) for layer in layers}
        section: dict[str, object] = {"workload": cascade(layers, report).workload(links)}
        if limits.renames:
            section["renames"] = {
                "einsums": [{"name": name, "rank_variables": sets} for name, sets in limits.renames.items()]
            }
        texts["workload.yaml"] = section
    if hardware is not None:
        texts["architecture.yaml"] = {"arch": hardware.arch(limits.limits, report)}
    if hardware is not None and (given := orderings(layers, mappings, hardware, report)):
        texts[GIVEN_FILE] = {"given": given}
    written = {
        name: f"# from {tool}'s files, written by einmap\n{to_yaml(from_python(tree))}" for name, tree in texts.items()
    }
    return report.counted(written)


def _links(layer: Layer, mappings: Mapping[str, Given]) -> Mapping[str, str]:
    given = given_for(layer, mappings)
    return DEFAULT_LINKS if given is None else given.links


def _mappings(
    documents: Mapping[Kind, Value], hardware: Hardware | None, has_layers: bool, report: Report
) -> dict[str, Given]:
    """Mappings by name; `dataflows` of the hardware stand in where no file gives one."""
    if "mapping" in documents:
        if hardware is not None and hardware.dataflows is not None:
            report.leave(hardware.dataflows.at, "dataflows", "the mapping file says what is spread")
        return read_mappings(documents["mapping"], hardware, report)
    if hardware is None or hardware.dataflows is None or not has_layers:
        return {}
    spatial = read_spatial(hardware.dataflows, hardware, report)
    return {DEFAULT: Given(spatial, {}, DEFAULT_LINKS, (), hardware.dataflows.at)}


def document(file: Path, report: Report) -> Value:
    """The document in a file. A key that is given twice has its last value, as in ZigZag, and is noted."""
    repeated: list[RawScalar] = []
    raw = parse_yaml(read_text_file(file), str(file), repeated=repeated)
    for key in repeated:
        report.leave(key.at or At(str(file)), str(key.text)[:LONGEST_KEY], "it is given again below, which counts")
    return Value(raw, "")


def _documents(files: Sequence[Path], report: Report) -> dict[Kind, Value]:
    documents: dict[Kind, Value] = {}
    for file in files:
        found = document(file, report)
        kind = _kind(found, file)
        if kind in documents:
            first = documents[kind].at.file
            raise SpecError(f"a second {kind}, beside {first}", at=At(str(file)), hint="import them one by one")
        documents[kind] = found
    return documents


def _kind(found: Value, file: Path) -> Kind:
    raw = found.raw
    if isinstance(raw, RawMap) and {"memories", "operational_array", "multipliers"} & set(raw.keys()):
        return "hardware"
    if isinstance(raw, RawList) and raw.items and isinstance(raw.items[0], RawMap):
        keys = {key for item in raw.items if isinstance(item, RawMap) for key in dict(item.items)}
        if keys & {"equation", "loop_dims", "loop_sizes", "operator_type"}:
            return "workload"
        if keys & {"spatial_mapping", "memory_operand_links", "temporal_ordering", "spatial_mapping_hint", "name"}:
            return "mapping"
    hint = "a workload is a list of layers with `equation`, hardware has `memories`, a mapping `spatial_mapping`"
    raise SpecError("this is neither a workload nor hardware nor a mapping of ZigZag", at=At(str(file), 1), hint=hint)
