"""Convolutions and matrix products of an ONNX model as layers with ZigZag's loops, which its mappings name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from einmap.errors import At, Note, SpecError
from einmap.frontends.foreign import Report, Value
from einmap.frontends.onnx.model import Model, Node, bits_of, read_model
from einmap.frontends.onnx.read import KNOWN
from einmap.frontends.onnx.wire import text_of
from einmap.frontends.zigzag.layers import Layer, read_layers
from einmap.optional import require
from einmap.spec.raw import RawList, RawMap, from_python

PARTIAL_BITS = 32
"""Bits of sums of products of integers, of which ONNX has no type."""
_PASSED = frozenset(
    {"BatchNormalization", "Clip", "DequantizeLinear", "Dropout", "Elu", "HardSwish", "Identity", "LeakyRelu"}
    | {"QuantizeLinear", "Relu", "Sigmoid", "Tanh"}
)
"""Operators whose result has the shape of their operand: what reads it reads the layer before it."""
_CONV = "O[b][g][k][oy][ox]+=W[g][k][c][fy][fx]*I[b][g][c][iy][ix]"

type _Shapes = Mapping[str, tuple[tuple[int, ...], int]]
"""Shapes and types of ONNX by name."""


def read_onnx_layers(path: Path, define: Mapping[str, object], report: Report) -> tuple[Layer, ...]:
    """The layers of a model: Conv, QLinearConv, Gemm, MatMul, as ZigZag 3.9.1 takes them (kernels as height, width).

    All other operators are left out, with counts. Raises SpecError where there is no such layer, or a shape is open.
    """
    model = read_model(path, define, imported=KNOWN)
    shapes = _shapes(model)
    made: dict[str, int] = {}
    others: Counter[str] = Counter()
    entries: list[RawMap] = []
    for number, node in enumerate(model.nodes):
        given = _layer(node, shapes)
        if given is None:
            others[node.operator] += 1
            source = made.get(node.inputs[0]) if node.inputs and node.operator in _PASSED else None
            if source is not None:
                made.update(dict.fromkeys(node.outputs, source))
            continue
        sources = {letter: made[name] for letter, name in _operands(node).items() if name in made}
        raw = from_python({"id": number, "name": node.name, **given, "operand_source": sources})
        assert isinstance(raw, RawMap)
        entries.append(replace(raw, at=node.at))
        made.update(dict.fromkeys(node.outputs, number))
    if not entries:
        raise SpecError("the model has no convolution and no matrix product", at=At(str(path)))
    if others:
        counts = ", ".join(f"{kind} ({n})" for kind, n in others.items())
        text = f"operators beside convolutions and matrix products are left out, as ZigZag does: {counts}"
        report.notes.append(Note(f"{text}; import the model without --from for all of it", At(str(path))))
    return read_layers(Value(RawList(tuple(entries), at=At(str(path))), ""), report)


def _operands(node: Node) -> dict[str, str]:
    places = (0, 3) if node.operator == "QLinearConv" else (0, 1)
    return {letter: node.inputs[place] for letter, place in zip("IW", places, strict=True) if place < len(node.inputs)}


def _shapes(model: Model) -> _Shapes:
    """Shapes of all values that ONNX infers."""
    onnx = require("onnx", "onnx")
    try:
        graph = onnx.shape_inference.infer_shapes(model.proto).graph
    except Exception:  # it raises several kinds of errors, for models that are not sane
        graph = model.proto.graph
    found = {
        text_of(info.name): (tuple(int(d.dim_value) for d in kind.shape.dim), int(kind.elem_type))
        for info in (*graph.value_info, *graph.output)
        if (kind := info.type.tensor_type).HasField("shape")
    }
    return {**found, **{t.name: (t.shape, t.kind) for t in (*model.initialisers.values(), *model.inputs.values())}}


def _layer(node: Node, shapes: _Shapes) -> dict[str, Any] | None:
    """Loops, equation and widths of one operator; None for one that is not a layer. Raises SpecError."""
    if node.operator not in ("Conv", "QLinearConv", "Gemm", "MatMul"):
        return None
    operands = _operands(node)
    names = (operands.get("I", ""), operands.get("W", ""), node.outputs[0])
    if any(name not in shapes or min(shapes[name][0], default=0) < 1 for name in names):
        raise SpecError("the shape of an operand or of its result is not known", at=node.at)
    (x, kind), (w, weight_kind), (y, result_kind) = (shapes[name] for name in names)
    bits = {"I": bits_of(kind), "W": bits_of(weight_kind), "O_final": bits_of(result_kind)}
    bits["O"] = max(bits["O_final"], PARTIAL_BITS) if bits["I"] < PARTIAL_BITS else bits["O_final"]
    form = _convolution if "Conv" in node.operator else _product
    return {"operator_type": node.operator, "operand_precision": bits, **form(node, x, w, y)}


def _numbers(node: Node, name: str, default: Sequence[int]) -> list[int]:
    given = node.attributes.get(name) or default
    if not isinstance(given, Sequence) or len(given) != len(default) or not all(isinstance(n, int) for n in given):
        raise SpecError(f"the attribute {name} must be {len(default)} integers", at=node.at)
    return [*given]


def _convolution(node: Node, x: Sequence[int], w: Sequence[int], y: Sequence[int]) -> dict[str, Any]:
    if not len(x) == len(w) == len(y) == 4:
        raise SpecError(f"a convolution of {len(x) - 2} dimensions is not one of ZigZag's, which have 2", at=node.at)
    strides, dilations = _numbers(node, "strides", (1, 1)), _numbers(node, "dilations", (1, 1))
    group = node.attributes.get("group", 1)
    if not isinstance(group, int) or group < 1 or y[1] % group:
        raise SpecError("its groups do not fit its channels", at=node.at)
    pads = _numbers(node, "pads", (0, 0, 0, 0))
    if node.attributes.get("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER"):
        for axis in (0, 1):
            reach = strides[axis] * (y[2 + axis] - 1) + dilations[axis] * (w[2 + axis] - 1) + 1
            total, upper = max(0, reach - x[2 + axis]), node.attributes["auto_pad"] == "SAME_UPPER"
            pads[axis] = total // 2 if upper else -(-total // 2)
            pads[2 + axis] = total - pads[axis]
    return {
        "equation": _CONV,
        "loop_dims": ["B", "K", "G", "OX", "OY", "C", "FX", "FY"],
        "loop_sizes": [y[0], y[1] // group, group, y[3], y[2], w[1], w[3], w[2]],
        "dimension_relations": [
            f"ix={strides[1]}*ox+{dilations[1]}*fx",
            f"iy={strides[0]}*oy+{dilations[0]}*fy",
        ],
        "pr_loop_dims": ["IX", "IY"],
        "padding": [[pads[1], pads[3]], [pads[0], pads[2]]],
    }


def _product(node: Node, x: Sequence[int], w: Sequence[int], y: Sequence[int]) -> dict[str, Any]:
    """`O[b][h][d][k]`, where the weights have the leading axes, too, or are the same for all."""
    turned = [bool(node.attributes.get(name, 0)) for name in ("transA", "transB")]
    if not 2 <= len(y) <= 4 or len(x) != len(y) or len(w) not in (2, len(y)):
        raise SpecError(f"a product of {[*x]} and {[*w]} is not one of ZigZag's", at=node.at)
    lead = ["b", "h"][: len(y) - 2]
    index = "".join(f"[{name}]" for name in lead)
    of_weights = index if len(w) == len(y) and lead else ""
    i, o = ("[c][d]" if turned[0] else "[d][c]"), ("[k][c]" if turned[1] else "[c][k]")
    return {
        "equation": f"O{index}[d][k]+=I{index}{i}*W{of_weights}{o}",
        "loop_dims": ["C", "D", "K", *(name.upper() for name in lead)],
        "loop_sizes": [x[-2] if turned[0] else x[-1], y[-2], y[-1], *y[:-2]],
        "dimension_relations": [],
    }
