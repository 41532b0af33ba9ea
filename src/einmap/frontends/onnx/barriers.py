"""Operators without Einsum form: shapes of their results, and how many products they hide, by estimate from shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from einmap.errors import EinmapError
from einmap.frontends.cascade.builder import MOST_VALUES
from einmap.frontends.cascade.program import Array
from einmap.frontends.onnx.kinds import FLOAT, kinds_of_results
from einmap.frontends.onnx.model import GRAPH_ATTRIBUTES, Node, Tensor, bits_of, graph_of
from einmap.frontends.onnx.wire import text_of
from einmap.optional import require

type Shape = tuple[int, ...]
MOST_SHAPE_NUMBERS = 2**10
"""Numbers of an operand that may say a shape."""
MOST_ESTIMATE = 10**24
_DEEPEST = 4
"""Graphs within graphs whose products are estimated."""


@dataclass(slots=True)
class Surroundings:
    """Values that an operator may read, by name: shapes, types, and numbers where they are known."""

    opset: int
    shapes: dict[str, Shape] = field(default_factory=dict)
    kinds: Mapping[str, int] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)

    def tensor(self, name: str) -> Any:
        """A value as an input of a model."""
        onnx = require("onnx", "onnx")
        return onnx.helper.make_tensor_value_info(name, self.kinds.get(name, FLOAT), self.shapes[name])

    def initialisers(self, names: Sequence[str]) -> list[Any]:
        """Few numbers that are known: shapes, axes, scales."""
        onnx = require("onnx", "onnx")
        found = []
        for name in names:
            array = self.arrays.get(name)
            if array is not None and array.size <= MOST_SHAPE_NUMBERS and array.dtype.kind in "iuf":
                kind = np.float32 if array.dtype.kind == "f" else np.int64
                found.append(onnx.numpy_helper.from_array(np.asarray(array, kind), name))
        return found


def results_of(node: Node, around: Surroundings, graph: Any) -> dict[str, Tensor]:
    """Results of an operator whose shapes are known: by rules of its own, inference of ONNX, or as its graph says."""
    kinds = dict(zip(node.outputs, kinds_of_results(node, around.kinds), strict=True))
    shapes = [around.shapes.get(name) for name in node.inputs]
    rule = _RULES.get(node.operator.removeprefix("com.microsoft."))
    if rule is not None and ("." in node.operator or node.operator in _NOT_INFERRED):
        try:
            found = rule(shapes, node.attributes)
        except (ArithmeticError, IndexError, KeyError, TypeError, ValueError):
            found = []  # operands are not those of the operator
        made = {
            name: Tensor(name, tuple(shape), bits_of(kinds[name]), kinds[name])
            for name, shape in zip(node.outputs, found, strict=False)
            if shape is not None and all(isinstance(n, int) and n > 0 for n in shape) and prod(shape) < MOST_VALUES
        }
    else:
        made = _states_of(node, around) | _inferred(node, around)
    if all(name in made for name in node.outputs if name):
        return made
    return {name: tensor for name, tensor in shapes_in(graph).items() if name in node.outputs} | made


def _inferred(node: Node, around: Surroundings) -> dict[str, Tensor]:
    """Shapes that ONNX infers for one operator."""
    onnx = require("onnx", "onnx")
    names = [*dict.fromkeys(name for name in around.shapes if name)]
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.outputs if name]
    graph = onnx.helper.make_graph([proto_of(node)], "g", list(map(around.tensor, names)), outputs)
    graph.initializer.extend(around.initialisers(names))
    return shapes_in(_with_shapes(graph, around.opset))


def _with_shapes(graph: Any, opset: int) -> Any:
    """The graph with shapes of values that ONNX infers."""
    onnx = require("onnx", "onnx")
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    try:
        # without the propagation of data, which goes through each number that a hostile model expands
        return onnx.shape_inference.infer_shapes(model).graph
    except Exception:  # it raises several kinds of errors, for models that are not sane
        return graph


def proto_of(node: Node) -> Any:
    """The message of an operator."""
    onnx = require("onnx", "onnx")
    domain, _, kind = node.operator.rpartition(".")
    made = onnx.helper.make_node(kind, node.inputs, node.outputs, domain=domain)
    for name, value in node.attributes.items():
        if getattr(value, "type", None) in GRAPH_ATTRIBUTES:
            made.attribute.append(value)
        elif not (isinstance(value, list) and not value):
            made.attribute.append(onnx.helper.make_attribute(name, value))
    return made


def shapes_in(graph: Any) -> dict[str, Tensor]:
    """Shapes that a graph declares, those that are numbers."""
    shapes: dict[str, Tensor] = {}
    for info in (*graph.input, *graph.value_info, *graph.output):
        kind = info.type.tensor_type
        sizes: Sequence[Any] = kind.shape.dim
        if info.type.HasField("tensor_type") and kind.HasField("shape") and all(d.dim_value > 0 for d in sizes):
            shape = tuple(int(d.dim_value) for d in sizes)
            if prod(shape) < MOST_VALUES:
                shapes[text_of(info.name)] = Tensor(text_of(info.name), shape, bits_of(kind.elem_type), kind.elem_type)
    return shapes


# shapes of results of operators of ONNX Runtime


def _same(shapes: Sequence[Shape | None], _: Mapping[str, Any]) -> list[Shape | None]:
    return [shapes[0]] * 4


def _broadcast(shapes: Sequence[Shape | None], _: Mapping[str, Any], second: int = 3) -> list[Shape | None]:
    return [tuple(np.broadcast_shapes(shapes[0] or (), shapes[second] or ()))]


def _attention(shapes: Sequence[Shape | None], attributes: Mapping[str, Any]) -> list[Shape | None]:
    """Attention of ONNX Runtime."""
    batch, tokens, _ = shapes[0] or ()
    total = (shapes[1] or ())[1]
    size = (attributes.get("qkv_hidden_sizes") or [0, 0, total // 3])[2]
    past = shapes[4] if len(shapes) > 4 else None
    heads = attributes["num_heads"]
    present = (2, batch, heads, tokens + (past[3] if past else 0), size // heads)
    return [(batch, tokens, size), present]


def _multi_head(shapes: Sequence[Shape | None], attributes: Mapping[str, Any]) -> list[Shape | None]:
    """MultiHeadAttention, and that of one token (DecoderMaskedMultiHeadAttention)."""
    query, heads = shapes[0] or (), attributes["num_heads"]
    hidden = query[2] if len(query) == 3 else query[2] * query[4]
    key = (shapes[1] if len(shapes) > 1 else None) or query
    past = shapes[6] if len(shapes) > 6 else None
    cache = (query[0], heads, key[1] + (past[2] if past else 0), hidden // heads)
    return [(query[0], query[1], hidden), cache, cache]


def _grouped(shapes: Sequence[Shape | None], attributes: Mapping[str, Any]) -> list[Shape | None]:
    """GroupQueryAttention."""
    batch, tokens, hidden = shapes[0] or ()
    heads, key_heads = attributes["num_heads"], attributes["kv_num_heads"]
    size = hidden // heads if shapes[1] else hidden // (heads + 2 * key_heads)
    past = (shapes[3] or (0, 0, 0))[2] if len(shapes) > 3 else 0
    cache = batch, key_heads, past + tokens, size
    return [(batch, tokens, heads * size), cache, cache]


def _linear(shapes: Sequence[Shape | None], attributes: Mapping[str, Any]) -> list[Shape | None]:
    """A product with a weight of N rows that are packed (MatMulNBits, MatMulBnb4)."""
    return [(*(shapes[0] or ())[:-1], attributes["N"])]


def _product(shapes: Sequence[Shape | None], attributes: Mapping[str, Any]) -> list[Shape | None]:
    a, b = shapes[0] or (), shapes[1] or ()
    rows = a[-1] if attributes.get("transA") else a[-2]
    columns = b[-2] if attributes.get("transB") else b[-1]
    return [(*np.broadcast_shapes(a[:-2], b[:-2]), rows, columns)]


def _rows(shapes: Sequence[Shape | None], attributes: Mapping[str, Any]) -> list[Shape | None]:
    """GatherBlockQuantized along the first axis, of bytes of several numbers."""
    table, places = shapes[0] or (), shapes[1] or ()
    return [(*places, *table[1:-1], table[-1] * (8 // attributes.get("bits", 4)))]


def _state(shapes: Sequence[Shape | None], attributes: Mapping[str, Any]) -> list[Shape | None]:
    """LinearAttention, with its state."""
    batch, tokens, hidden = shapes[0] or ()
    heads, key_heads = attributes["q_num_heads"], attributes["kv_num_heads"]
    size, value = hidden // heads, (shapes[2] or ())[2] // key_heads
    return [(batch, tokens, heads * value), (batch, key_heads, size, value)]


def _embedding(shapes: Sequence[Shape | None], _: Mapping[str, Any]) -> list[Shape | None]:
    batch, tokens = shapes[0] or ()
    size = (shapes[2] or ())[1]
    return [(batch, tokens, size), (batch,), (batch, tokens, size)]


_NOT_INFERRED = frozenset({"LinearAttention"})
"""Operators of ONNX whose results have no shape by its inference."""
_RULES: dict[str, Any] = {
    **dict.fromkeys(
        (
            "Gelu", "BiasGelu", "FastGelu", "QuickGelu", "BiasSoftmax", "BiasDropout", "BiasAdd",
            "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "SimplifiedLayerNormalization",
            "RotaryEmbedding", "GemmaRotaryEmbedding", "MoE", "QMoE", "GroupNorm", "SkipGroupNorm", "QLinearSigmoid",
            "QLinearLeakyRelu", "QLinearSoftmax", "DequantizeLinear", "QuantizeLinear", "Inverse",
        ),
        _same,
    ),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), _broadcast),
    "Attention": _attention,
    "LinearAttention": _state,
    **dict.fromkeys(("MultiHeadAttention", "DecoderMaskedMultiHeadAttention"), _multi_head),
    **dict.fromkeys(("GroupQueryAttention", "SparseAttention", "PagedAttention"), _grouped),
    **dict.fromkeys(("MatMulNBits", "MatMulBnb4", "MatMulFpQ4"), _linear),
    **dict.fromkeys(("FusedMatMul", "FusedGemm", "TransposeMatMul", "DynamicQuantizeMatMul",
                     "MatMulIntegerToFloat"), _product),
    "GatherBlockQuantized": _rows,
    "EmbedLayerNormalization": _embedding,
}  # fmt: skip
"""By the name of the operator: the shapes of its results from those of its operands and its attributes."""


# how many products are hidden


def products_of(node: Node, around: Surroundings, results: Mapping[str, Tensor], depth: int = 0) -> int:
    """An estimate of the products that an operator sums, from shapes; 0 for one of ONNX that has none."""
    shapes = [around.shapes.get(name) or () for name in node.inputs]
    out = next((results[name].shape for name in node.outputs if name in results), ())
    try:
        caches = [t.shape[2] for name in node.outputs[1:] if (t := results.get(name)) and len(t.shape) == 4]
        found = _estimate(node, shapes, out, around, depth, seen=max(caches, default=0))
    except (EinmapError, IndexError, KeyError, TypeError, ValueError):  # operands that are not those of the operator
        found = 0
    return max(0, min(int(found), MOST_ESTIMATE))


def _estimate(node: Node, shapes: Sequence[Shape], out: Shape, around: Surroundings, depth: int, *, seen: int) -> int:
    """An estimate from shapes of operands and of the first result; `seen`: rows of the cache afterwards, 0 without."""
    kind = node.operator.rpartition(".")[2]
    first, second = shapes[0] if shapes else (), shapes[1] if len(shapes) > 1 else ()
    if kind in ("If", "Loop", "Scan"):
        return _of_graphs(node, around, depth) if depth < _DEEPEST else 0
    if kind in ("RNN", "GRU", "LSTM"):
        gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
        return first[0] * first[1] * (second[0] * second[1] * (second[2] + second[1] // gates))
    if kind in ("Conv", "ConvInteger", "DeformConv", "FusedConv", "QLinearConv", "NhwcConv"):
        weight = shapes[3] if kind == "QLinearConv" else second
        return prod(out) * prod(weight[1:])
    if kind == "ConvTranspose":
        return prod(first) * prod(second[1:])
    if kind == "LinearAttention":  # each step adds to a state of so many numbers, and reads it
        return 2 * prod(first) * (shapes[2][-1] // int(node.attributes["kv_num_heads"]))
    if "Attention" in kind:
        if len(second) == 2:  # the weight of all rows
            return prod(first) * second[1] + 2 * prod(first[:-1]) * first[1] * second[1] // 3
        return 2 * prod(first) * (seen or (second or first)[-2])
    if kind in ("MatMulNBits", "MatMulBnb4", "MatMulFpQ4"):
        return prod(first) * int(node.attributes["N"])
    if kind in ("MoE", "QMoE"):
        packed = 8 // int(node.attributes.get("expert_weight_bits", 4)) if kind == "QMoE" else 1
        weights = sum(prod(s[1:]) for s in shapes[2:] if len(s) == 3 and min(s) > 2)
        return prod(first[:-1]) * int(node.attributes.get("k", 1)) * weights * packed
    if "." not in node.operator and kind not in ("MatMul", "Gemm", "Einsum", "MatMulInteger", "QLinearMatMul"):
        return 0
    # each further operand that has an axis as long as the last one of the first is taken as a factor
    n = first[-1]
    factors = (s for s in shapes[1:] if len(s) > 1 and n > 1 and n in s)
    return sum(prod(first) * prod(s) // n for s in factors)


def _of_graphs(node: Node, around: Surroundings, depth: int) -> int:
    """Products of the graphs of an operator: of the larger branch of an `If`, of each step of a loop."""
    steps, rows = 1, 0
    if node.operator == "Loop":
        array = around.arrays.get(node.inputs[0])
        steps = int(array.reshape(-1)[0]) if array is not None and array.size else 1
    if node.operator == "Scan":
        rows = int(node.attributes.get("num_scan_inputs", 1))
        steps = around.shapes.get(node.inputs[-1], (1,))[0]
    attributes = [a for a in node.attributes.values() if getattr(a, "type", None) == GRAPH_ATTRIBUTES[0]]
    totals = [_of_graph(node, attribute, around, depth, rows) for attribute in attributes]
    return max(totals, default=0) * max(1, steps)


def _of_graph(node: Node, attribute: Any, around: Surroundings, depth: int, rows: int) -> int:
    """Products of one graph, of whose inputs the last `rows` are parts of those of the operator."""
    nodes, inner, known, _ = _inside(node, attribute, around, rows)
    return sum(products_of(one, inner, known, depth + 1) for one in nodes)


def _inside(
    node: Node, attribute: Any, around: Surroundings, rows: int = 0
) -> tuple[list[Node], Surroundings, dict[str, Tensor], list[str]]:
    """Operators of a graph, the values that they read, shapes of its values, and the names of its results."""
    nodes, initialisers, outputs = graph_of(attribute, node.at.file or "", node.at)
    onnx = require("onnx", "onnx")
    graph = onnx.GraphProto()
    graph.CopyFrom(attribute.g)
    shapes, kinds = dict(around.shapes), dict(around.kinds)
    for i, (info, given) in enumerate(zip(graph.input, node.inputs, strict=False)):
        if given in around.shapes:
            skipped = 1 if i >= len(node.inputs) - rows else 0
            shapes[text_of(info.name)] = around.shapes[given][skipped:]
            kinds[text_of(info.name)] = around.kinds.get(given, FLOAT)
    inner = replace(around, shapes=shapes, kinds=kinds)
    kept = [info for info in graph.input if text_of(info.name) not in shapes]
    del graph.input[:]
    graph.input.extend([*kept, *map(inner.tensor, shapes)])
    known = shapes_in(_with_shapes(graph, around.opset)) | {tensor.name: tensor for tensor in initialisers}
    shapes |= {name: tensor.shape for name, tensor in known.items()}
    return nodes, inner, known, outputs


def _states_of(node: Node, around: Surroundings) -> dict[str, Tensor]:
    """The values that a `Loop` carries, those whose shape no step changes: ONNX does not infer them."""
    body = node.attributes.get("body")
    if node.operator != "Loop" or body is None:
        return {}
    try:
        _, _, known, outputs = _inside(node, body, around)
    except EinmapError:
        return {}
    states = zip(node.outputs, node.inputs[2:], outputs[1:], strict=False)
    return {
        name: replace(known[inner], name=name)
        for name, given, inner in states
        if inner in known and known[inner].shape == around.shapes.get(given)
    }
