"""Matrix products, convolutions and attention."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

import numpy as np

from einmap.frontends.onnx.operators.choice import TABLE_PRODUCT
from einmap.frontends.torch.operators.call import LOWEST, Aten, Rule
from einmap.frontends.torch.program import BOOL, FLOAT, INT64


def product(call: Aten) -> str:
    """mm, bmm, matmul, mv and dot."""
    second = next(name for name in ("mat2", "other", "vec", "tensor", "vec2") if call.has(name))
    return call.emit("MatMul", call.tensor("self" if call.has("self") else "input"), call.tensor(second))


def linear(call: Aten) -> str:
    """linear: a product with a transposed matrix, and a bias."""
    x, w, bias = call.tensor("input"), call.tensor("weight"), call.optional("bias")
    if len(call.shape(x)) == len(call.shape(w)) == 2:
        return call.emit("Gemm", x, w, *([bias] if bias else []), transB=1)
    turned = call.transpose(w, [1, 0]) if len(call.shape(w)) == 2 else w
    y = call.emit("MatMul", x, turned)
    return call.emit("Add", y, bias) if bias else y


def product_added(call: Aten) -> str:
    """addmm, baddbmm and addmv: a product times a factor, plus a tensor times another."""
    first, second = ("batch1", "batch2") if call.has("batch1") else ("mat1", "mat2")
    if call.has("vec"):
        first, second = "mat", "vec"
    added, a, b = call.tensor("self"), call.tensor(first), call.tensor(second)
    alpha, beta = call.number("alpha", 1), call.number("beta", 1)
    if len(call.shape(a)) == len(call.shape(b)) == 2 and len(call.shape(added)) <= 2:
        return call.emit("Gemm", a, b, added, alpha=float(alpha), beta=float(beta))
    y = call.emit("MatMul", a, b)
    y = y if alpha == 1 else call.emit("Mul", y, call.constant(float(alpha)))
    if beta == 0:
        return y
    added = added if beta == 1 else call.emit("Mul", added, call.constant(float(beta)))
    return call.emit("Add", y, added)


def einsum(call: Aten) -> str:
    """einsum by its equation."""
    return call.emit("Einsum", *call.tensors("tensors"), equation=call.text("equation", ""))


def outer(call: Aten) -> str:
    """outer: the product of two vectors."""
    a, b = call.tensor("self"), call.tensor("vec2")
    return call.emit("MatMul", call.reshape(a, [*call.shape(a), 1]), call.reshape(b, [1, *call.shape(b)]))


def convolution(call: Aten) -> str:
    """convolution and conv1d to conv3d, also transposed, also of one image without a batch."""
    name = call.name
    x, w, bias = call.tensor("input"), call.tensor("weight"), call.optional("bias")
    dims = len(call.shape(w)) - 2
    is_transposed = bool(call.plain("transposed", "transpose" in name))
    is_single = len(call.shape(x)) == dims + 1
    x = call.reshape(x, [1, *call.shape(x)]) if is_single else x
    padding = call.plain("padding", 0)
    attributes: dict[str, Any] = {
        "strides": _each(call, "stride", 1, dims), "dilations": _each(call, "dilation", 1, dims),
        "group": call.integer("groups", 1),
    }  # fmt: skip
    if padding == "same":
        attributes["auto_pad"] = "SAME_UPPER"
    else:
        pads = [0] * dims if padding == "valid" else _each(call, "padding", 0, dims)
        attributes["pads"] = pads * 2
    if is_transposed:
        attributes["output_padding"] = _each(call, "output_padding", 0, dims)
    operator = "ConvTranspose" if is_transposed else "Conv"
    y = call.emit(operator, x, w, *([bias] if bias else []), **attributes)
    return call.reshape(y, call.result.shape) if is_single else y


def _each(call: Aten, name: str, default: int, dims: int) -> list[int]:
    """An argument for each spatial axis; one number is that of all."""
    found = call.integers(name, [default])
    return found * dims if len(found) == 1 else found


def attention(call: Aten) -> str | list[str]:
    """scaled_dot_product_attention, also grouped: queries of one group are rows of one product with its keys."""
    q, k, v = call.tensor("query"), call.tensor("key"), call.tensor("value")
    if call.number("dropout_p", 0.0):
        raise call.refuse("it drops random values, as in training")
    *batch, heads, rows, width = (1, *call.shape(q)) if len(call.shape(q)) == 3 else call.shape(q)
    if len(call.shape(q)) < 3:
        *batch, heads, rows, width = (1, *call.shape(q))
    groups, columns = (1, *call.shape(k))[-3:-1] if len(call.shape(k)) > 2 else (1, call.shape(k)[-2])
    each = heads // groups if groups and heads % groups == 0 else 1
    if each > 1:
        q = call.reshape(q, [*batch, groups, each * rows, width])
    order = [*range(len(call.shape(k)))]
    order[-2:] = order[-1], order[-2]
    scores = call.emit("MatMul", q, call.transpose(k, order))
    scores = call.emit("Mul", scores, call.constant(call.number("scale", 1 / sqrt(max(1, width)))))
    mask = next((call.tensor(name) for name in ("attn_mask", "attn_bias") if call.has(name)), "")
    if mask:
        scores = _masked(call, scores, _by_group(call, mask, each, groups, rows))
    if call.plain("is_causal", False):
        first = call.constant(np.tile(call.count(rows), each)[:, None])
        is_later = call.emit("Less", first, call.constant(call.count(columns)[None, :]))
        scores = call.emit("Where", is_later, call.constant(LOWEST), scores)
    y = call.emit("MatMul", call.emit("Softmax", scores, axis=-1), v)
    y = call.reshape(y, call.result.shape) if each > 1 else y
    return [y, *[""] * (len(call.results) - 1)] if len(call.results) > 1 else y


def _by_group(call: Aten, mask: str, each: int, groups: int, rows: int) -> str:
    """A mask with a row for each query of each head of a group."""
    if each == 1:
        return mask
    shape = [*[1] * (4 - len(call.shape(mask))), *call.shape(mask)]
    if shape[-3] == shape[-2] == 1:
        return mask
    *before, heads, queries, columns = shape
    per_group = [groups, each] if heads > 1 else [1, 1]
    mask = call.reshape(mask, [*before, *per_group, queries, columns])
    mask = call.expand(mask, [*before, per_group[0], each, rows, columns])
    return call.reshape(mask, [*before, per_group[0], each * rows, columns])


def _masked(call: Aten, scores: str, mask: str) -> str:
    """Scores where a mask of truth values allows them, or with one of numbers added."""
    if call.kind(mask) == BOOL:
        return call.emit("Where", mask, scores, call.constant(LOWEST), kind=FLOAT)
    return call.emit("Add", scores, mask)


def grouped_product(call: Aten) -> str:
    """grouped_mm: rows times one matrix of several each; `offs`: where the rows of each matrix end."""
    x, w = (
        call.tensor("input" if call.has("input") else "self"),
        call.tensor("weight" if call.has("weight") else "mat2"),
    )
    if not call.has("offs"):
        return call.emit("MatMul", x, w)
    if len(call.shape(x)) != 2 or len(call.shape(w)) != 3:
        raise call.refuse("its groups are not those of rows")
    rows = call.constant(call.count(call.shape(x)[0])[:, None])
    ends = call.reshape(call.tensor("offs"), [1, call.shape(w)[0]])
    before = call.emit("Cast", call.emit("LessOrEqual", ends, rows), to=INT64)
    which = call.emit("ReduceSum", before, axes=[1], keepdims=1)
    y = call.emit(TABLE_PRODUCT, x, call.transpose(w, [0, 2, 1]), which)
    y = call.reshape(y, call.result.shape)
    return call.emit("Add", y, call.tensor("bias")) if call.has("bias") else y


CONTRACTIONS: Mapping[str, Rule] = {
    **dict.fromkeys(("mm", "bmm", "matmul", "mv", "dot", "inner"), product),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), product_added),
    **dict.fromkeys(
        ("convolution", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
        convolution,
    ),
    **dict.fromkeys(
        ("scaled_dot_product_attention", "_scaled_dot_product_flash_attention", "_scaled_dot_product_cudnn_attention",
         "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_efficient_attention",
         "_scaled_dot_product_fused_attention_overrideable", "_scaled_dot_product_attention_math"),
        attention,
    ),
    **dict.fromkeys(("_grouped_mm", "grouped_mm_fallback"), grouped_product),
    "linear": linear,
    "einsum": einsum,
    "outer": outer,
}  # fmt: skip
"""By the name of the operator, without its overload."""
