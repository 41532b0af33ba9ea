"""A specification as SCALE-Sim's topology, and as a configuration where its mapping is one of SCALE-Sim's dataflows."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from einmap.arch.component import Memory
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.operation import product_of
from einmap.einsum.spaces.projection import Affine
from einmap.errors import Note, NotSupportedError, SpecError
from einmap.frontends.foreign import Report, Translation
from einmap.frontends.scalesim.array import FLOWS
from einmap.frontends.scalesim.config import Dataflow
from einmap.mapping.nodes import Spatial, Storage
from einmap.mapping.validate import validate
from einmap.spec.spec import Spec

type Class = dict[str, str]
_DEPTH_WISE = re.compile("DP")
_ROLES = ("input", "weight", "output")
_FIELDS = {"input": "Ifmap", "weight": "Filter", "output": "Ofmap"}
_KB = 1024
_FOLDS = "SCALE-Sim orders folds itself: its report is of the dataflow, not of the other loops of the mapping"
_REST = """IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Bandwidth: 10
Dataflow: {dataflow}
MemoryBanks: 1
ReadRequestBuffer: 32
WriteRequestBuffer: 32
[layout]
IfmapCustomLayout: False
IfmapSRAMBankBandwidth: 10
IfmapSRAMBankNum: 10
IfmapSRAMBankPort: 2
FilterCustomLayout: False
FilterSRAMBankBandwidth: 10
FilterSRAMBankNum: 10
FilterSRAMBankPort: 2
[sparsity]
SparsitySupport: false
SparseRep: ellpack_block
OptimizedMapping: false
BlockSize: 8
RandomNumberGeneratorSeed: 40
[run_presets]
InterfaceBandwidth: CALC
UseRamulatorTrace: False
"""


@dataclass(frozen=True, slots=True)
class _Written:
    """A layer: `product` is M, N, K where it is one, `convolution` the seven numbers of it as a convolution.

    `classes`: m, n or k by rank variable; `repeats`: how often it is there; `roles`: tensors by role.
    """

    einsum: Einsum
    product: tuple[int, int, int] | None
    convolution: tuple[int, ...]
    repeats: int
    classes: Class
    roles: dict[str, str]


def write(spec: Spec) -> Translation:
    """net.csv, and run.cfg where there is a mapping and SCALE-Sim has it.

    A layer that is there several times is depth-wise there (DP in its name), which SCALE-Sim takes apart. Raises
    SpecError if no Einsum is a product of two tensors.
    """
    report = Report()
    layers: list[_Written] = []
    for position, einsum in enumerate(spec.workload.einsums):
        try:
            layers.append(_layer(einsum, spec.workload.n_instances))
        except NotSupportedError as error:
            report.leave(spec.provenance(f"workload.einsums[{position}]"), einsum.name, error.message)
    if not layers:
        hint = "SCALE-Sim has layers that are products of two tensors"
        raise SpecError("no Einsum of the workload is one of its layers", at=spec.provenance("workload"), hint=hint)
    if spec.sparsity:
        report.leave(spec.provenance("sparsity"), "sparsity", "all tensors are written as dense")
    texts = {"net.csv": _topology(layers)}
    if spec.mapping is not None:
        validate(spec.mapping, spec.workload, spec.archs, spec.place_of_node, spec.workload.by_name)
        try:
            texts["run.cfg"] = _configuration(spec, layers)
            report.notes.append(Note(_FOLDS, kind="advice"))
        except NotSupportedError as error:
            report.leave(error.at, "mapping", error.message)
    return report.translation(texts)


def _layer(einsum: Einsum, times: int) -> _Written:
    """The layer of an Einsum. Raises NotSupportedError with the reason where there is none."""
    inputs = [access for access in einsum.accesses if not access.output]
    outputs = [access for access in einsum.accesses if access.output]
    wanted = product_of([access.tensor for access in inputs])
    is_product = (einsum.operation.map, einsum.operation.reduction) == (wanted.map, wanted.reduction)
    if len(inputs) != 2 or len(outputs) != 1 or not is_product or einsum.is_copy:
        raise NotSupportedError("it is not a sum of products of two tensors")
    if einsum.cuts or einsum.first_values or einsum.gathers:
        raise NotSupportedError("its iteration space is not a box, or it looks values up")
    read, weight = sorted(inputs, key=lambda access: not any(len(i.terms) > 1 for i in _indices(access)))
    sets = {role: a.variables for role, a in zip(_ROLES, (read, weight, outputs[0]), strict=True)}
    by_sets = {(True, False, True): "m", (False, True, True): "n", (True, True, False): "k", (True, True, True): "b"}
    classes: Class = {}
    for variable in einsum.rank_variables:
        found = by_sets.get((variable in sets["input"], variable in sets["weight"], variable in sets["output"]))
        if found is None:
            raise NotSupportedError(f"{variable} is in one of its tensors alone")
        classes[variable] = found
    windows = _windows(read, classes)
    if any(len(index.terms) > 1 for access in (weight, outputs[0]) for index in _indices(access)):
        raise NotSupportedError("a window slides over two of its tensors")
    extents = einsum.extents
    inside = {v for p, r, _ in windows for v in (p, r)}
    size = {c: math.prod(extents[v] for v, own in classes.items() if own == c and v not in inside) for c in "mnkb"}
    repeats = einsum.n_instances * times * size["b"]
    roles = dict(zip(_ROLES, (read.tensor, weight.tensor, outputs[0].tensor), strict=True))
    if not windows:
        m, n, k = size["m"], size["n"], size["k"]
        return _Written(einsum, (m, n, k), (m, k, 1, k, 1, n, 1), repeats, classes, roles)
    if repeats > 1 and size["k"] > 1:
        raise NotSupportedError(f"it is there {repeats} times, which topologies say of one channel alone")
    repeats *= size["m"]
    if size["m"] > 1 and size["k"] > 1:
        raise NotSupportedError(f"it has {size['m']} inputs, and a layer has one")
    steps = {step for _, _, step in windows}
    if len(steps) > 1 or len(windows) > 2:
        raise NotSupportedError("its windows have several strides, or more than two axes")
    step = steps.pop()
    places = [extents[p] for p, _, _ in windows] + [1] * (2 - len(windows))
    kernel = [extents[r] for _, r, _ in windows] + [1] * (2 - len(windows))
    area = [(p - 1) * step + r for p, r in zip(places, kernel, strict=True)]
    return _Written(einsum, None, (*area, *kernel, size["k"], size["n"], step), repeats, classes, roles)


def _indices(access: TensorAccess) -> list[Affine]:
    return [index for _, index in access.projection]


def _windows(access: TensorAccess, classes: Class) -> list[tuple[str, str, int]]:
    """Place, value of the kernel and stride of each window. Raises NotSupportedError for another index."""
    found = []
    for index in _indices(access):
        if len(index.terms) < 2 and all(factor == 1 for _, factor in index.terms):
            continue
        by_class = {classes[variable]: (variable, factor) for variable, factor in index.terms}
        if len(index.terms) != 2 or set(by_class) != {"m", "k"} or by_class["k"][1] != 1 or by_class["m"][1] < 1:
            raise NotSupportedError(f"the index {index} is not a window")
        found.append((by_class["m"][0], by_class["k"][0], by_class["m"][1]))
    return found


def _topology(layers: Sequence[_Written]) -> str:
    """One line a layer, each with a comma at its end, without which SCALE-Sim passes over its last number."""
    are_products = all(layer.product and layer.repeats == 1 for layer in layers)
    head = "Layer, M, N, K,"
    if not are_products:
        head = "Layer, IFMAP height, IFMAP width, Filter height, Filter width, Channels, Num filter, Strides,"
    lines = [head]
    for layer in layers:
        name = _DEPTH_WISE.sub("Dp", layer.einsum.name)
        numbers = layer.product if are_products and layer.product else layer.convolution
        if layer.repeats > 1:
            name, numbers = f"DP_{name}", (*numbers[:4], layer.repeats, *numbers[5:])
        lines.append(f"{', '.join(map(str, (name, *numbers)))},")
    return "\n".join(lines) + "\n"


def _configuration(spec: Spec, layers: Sequence[_Written]) -> str:
    """The array, its buffers and its dataflow. Raises NotSupportedError where the mapping is none of SCALE-Sim's."""
    found = {_array(spec, layer) for layer in layers}
    if len(found) > 1:
        raise NotSupportedError("its Einsums use the array in several ways, a configuration has one dataflow")
    component, rows, columns, dataflow = found.pop()
    arch = spec.arch(layers[0].einsum.name)
    fanouts = {d.name: d.fanout for leaf in arch.leaves.values() if leaf.name == component for d in leaf.spatial}
    text = "[general]\nrun_name = run\n[architecture_presets]\n"
    text += f"ArrayHeight: {fanouts[rows]}\nArrayWidth: {fanouts[columns]}\n"
    for role in _ROLES:
        text += f"{_FIELDS[role]}SramSzkB: {_kilobytes(spec, layers, role, component)}\n"
    return text + _REST.format(dataflow=dataflow)


def _array(spec: Spec, layer: _Written) -> tuple[str, str, str, Dataflow]:
    """The component, the dimensions of rows and columns, and the dataflow of a layer's spatial loops."""
    assert spec.mapping is not None
    name = layer.einsum.name
    spread: dict[tuple[str, str], set[str]] = {}
    for placed in spec.mapping.path_of[name]:
        if isinstance(placed.node, Spatial):
            variable = placed.node.rank_variable.of(name)
            own = spread.setdefault((placed.node.component, placed.node.name), set())
            own |= {layer.classes[variable]} if variable in layer.classes else set()
    components = {component for component, _ in spread}
    by_class = {own.copy().pop(): dimension for (_, dimension), own in spread.items() if len(own) == 1}
    for dataflow, flow in FLOWS.items():
        if len(components) == 1 and len(spread) == 2 and set(by_class) == {flow.rows, flow.columns}:
            return components.pop(), by_class[flow.rows], by_class[flow.columns], dataflow
    raise NotSupportedError(f"the spatial loops of {name} are not those of an array with rows and columns")


def _kilobytes(spec: Spec, layers: Sequence[_Written], role: str, component: str) -> int:
    """Size of the innermost memory outside of the array that holds a role; a value is one byte there."""
    assert spec.mapping is not None
    sizes: list[float] = []
    for layer in layers:
        name, tensor = layer.einsum.name, layer.roles[role]
        placed = spec.mapping.path_of[name]
        outside: dict[str, Memory] = {}
        for leaf in spec.arch(name).path(getattr(placed[-1].node, "component", "")):
            if leaf.name == component:
                break
            if isinstance(leaf, Memory) and math.isfinite(leaf.size_bits) and leaf.buffering != "single":
                outside[leaf.name] = leaf
        nodes = [here.node for here in placed if tensor in here.held and isinstance(here.node, Storage)]
        if held := [outside[node.component] for node in nodes if node.component in outside]:
            bits = layer.einsum.by_tensor[tensor].bits_per_value
            sizes.append(held[-1].size_bits * held[-1].parts / bits / _KB)
    return max(1, int(min(sizes, default=1)))
