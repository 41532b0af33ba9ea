"""Stream's files -> workload.yaml and architecture.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from einmap.errors import At, SpecError
from einmap.frontends.foreign import Report, Translation, Value
from einmap.frontends.stream.cores import read_cores
from einmap.frontends.stream.mapping import read_tilings
from einmap.frontends.zigzag.onnx_layers import read_onnx_layers
from einmap.frontends.zigzag.read import document, translation, with_bits
from einmap.spec.raw import RawMap


def read(files: Sequence[Path], *, define: Mapping[str, object], root: Sequence[Path], bits: int | None) -> Translation:
    """Translation of hardware, an ONNX model and a mapping of Stream 2.1, in any order; each may be missing.

    `define`: sizes of dimensions that the model leaves open; `root`: folders from which files of cores may be read,
    beside those of `files`. A mapping needs the other two. Raises SpecError with the place.
    """
    report = Report()
    models = [file for file in files if file.suffix.lower() == ".onnx"]
    found: dict[str, tuple[Value, Path]] = {}
    for file in files:
        if file in models:
            continue
        one = document(file, report)
        kind = _kind(one, file)
        if kind in found:
            raise SpecError(
                f"a second {kind}, beside {found[kind][1]}", at=At(str(file)), hint="import them one by one"
            )
        found[kind] = one, file
    if len(models) > 1:
        raise SpecError("a second model", at=At(str(models[1])), hint="import them one by one")
    if "mapping" in found and not (models and "hardware" in found):
        missing = "hardware" if models else "model"
        text = f"a mapping is read with its {missing}"
        raise SpecError(text, at=At(str(found["mapping"][1])), hint=f"name the {missing} file, too")
    layers = with_bits(read_onnx_layers(models[0], define, report), bits) if models else ()
    if "hardware" not in found:
        return translation(layers, None, {}, report, "Stream")
    hardware, cores = read_cores(*found["hardware"], root, report)
    given = read_tilings(found["mapping"][0], layers, cores, report) if "mapping" in found else {}
    return translation(layers, hardware, given, report, "Stream")


def _kind(one: Value, file: Path) -> str:
    keys = one.raw.keys() if isinstance(one.raw, RawMap) else ()
    if "cores" in keys:
        return "hardware"
    if "layers" in keys:
        return "mapping"
    text = "this is neither hardware nor a mapping of Stream"
    raise SpecError(text, at=At(str(file), 1), hint="hardware has `cores`, a mapping `layers`; the model is in ONNX")
