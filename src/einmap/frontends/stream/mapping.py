"""Stream's mappings: which cores have a layer, and which of its loops are spread over them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from einmap.errors import SpecError
from einmap.frontends.foreign import Fields, Report, Value
from einmap.frontends.stream.cores import CORES
from einmap.frontends.zigzag.layers import Layer
from einmap.frontends.zigzag.mapping import Given
from einmap.frontends.zigzag.roles import DEFAULT_LINKS

_DIMENSION = re.compile(r"D(\d{1,2})", re.ASCII)


def read_tilings(found: Value, layers: Sequence[Layer], cores: Collection[int], report: Report) -> dict[str, Given]:
    """Loops that each layer spreads over the cores, by its name. Raises SpecError with the place of what is wrong."""
    root = Fields(found, report)
    by_name = {layer.called: layer for layer in layers}
    result: dict[str, Given] = {}
    for item in root.need("layers").items():
        fields = Fields(item, report)
        name = fields.need("name").text()
        layer = by_name.get(name)
        if layer is None:
            report.leave(item.at, f"layers.{name[:40]}", "it is not a convolution or a matrix product of the model")
            for key in fields.names:
                fields.get(key)
            continue
        places = {core.integer() for group in fields.need("core_allocation").items() for core in group.items()}
        if not places <= {*cores}:
            report.leave(item.at, "core_allocation", "it runs on the equal cores")
        tiling = fields.get("inter_core_tiling")
        factors = (
            [] if tiling is None else [_factor(one, layer, report) for group in tiling.items() for one in group.items()]
        )
        spatial = {CORES: tuple(factor for factor in factors if factor[1] > 1)} if len(cores) > 1 and factors else {}
        result[name] = Given(spatial, {}, DEFAULT_LINKS, (), fields.at)
        fields.leave("kernel", "kernels of code have no counterpart")
        fields.close({})
    root.leave("fused_groups", "what is fused is searched: einmap map does it")
    root.leave("runtime_args", "it says how code is called")
    root.close({})
    return result


def _factor(value: Value, layer: Layer, report: Report) -> tuple[str, int]:
    """A loop of a layer and how often it is spread."""
    fields = Fields(value, report)
    dimension, split = fields.need("dim"), fields.need("split").integer(1)
    found = _DIMENSION.fullmatch(dimension.text())
    loops = _loops(layer)
    if found is None or int(found[1]) >= len(loops):
        text = f"{layer.called} has no dimension {dimension.text()[:40]!r}"
        raise SpecError(text, at=dimension.at, hint=f"D0 to D{len(loops) - 1} are {', '.join(loops)}")
    return loops[int(found[1])], split


def _loops(layer: Layer) -> list[str]:
    """Loops in the order in which Stream 2.1 numbers them."""
    if "Conv" in layer.operator:
        return ["B", "OX", "OY", "FX", "FY", "C", "K", "G"]
    if layer.operator == "Gemm":
        return ["D", "C", "K"]
    return [*(loop for loop in ("B", "H") if loop in layer.sizes), "D", "K", "C"]
