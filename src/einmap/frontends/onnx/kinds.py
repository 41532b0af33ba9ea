"""Types of the values of a model, by the types that ONNX gives them: what an operator does may depend on them."""

from __future__ import annotations

from collections.abc import Mapping

from einmap.frontends.onnx.model import Node, bits_of

FLOAT, UINT8, INT64, BOOL = 1, 2, 7, 9
INTEGERS = frozenset({2, 3, 4, 5, 6, 7, 12, 13, 21, 22, 25, 26})
"""Types of integers (`TensorProto.DataType`)."""
UNSIGNED = frozenset({2, 4, 12, 13, 21, 25})


def ends_of(kind: int) -> tuple[int, int]:
    """The smallest and the largest number of a type of integers, or of truth values."""
    if kind == BOOL:
        return 0, 1
    bits = bits_of(kind)
    return (0, 2**bits - 1) if kind in UNSIGNED else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


_OF_SECOND = frozenset({"CastLike", "Where", "DequantizeLinear", "OneHot"})
_TRUTH_VALUES = frozenset(
    {"And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor"}
)
_PLACES = frozenset({"ArgMax", "ArgMin", "NonZero", "Shape", "Size"})
_OF_OPERAND = {
    "QLinearMatMul": 7, "QLinearConv": 7, "QGemm": 8, "QLinearConcat": 1, "QLinearWhere": 1, "MatMulIntegerToFloat": 2,
    "GatherBlockQuantized": 2,
}  # fmt: skip
"""Operators whose result has the type of this operand."""
_INTEGERS_OF_32 = frozenset({"MatMulInteger", "ConvInteger"})


def kinds_of_results(node: Node, kinds: Mapping[str, int]) -> list[int]:
    """The type of each result of an operator, from those of its operands by name; a value that is not there is `FLOAT`.

    It is that of the first operand, but for operators that say otherwise.
    """
    operands = [kinds.get(name, FLOAT) for name in node.inputs]
    kind, operator = (operands or [FLOAT])[0], node.operator.rpartition(".")[2]
    attributes = node.attributes
    if operator in ("BitCast", "Cast", "EyeLike", "ConstantOfShape"):
        tensor = attributes.get("value")
        said = attributes.get("to", attributes.get("dtype", getattr(tensor, "data_type", FLOAT)))
        kind = said if isinstance(said, int) else FLOAT
    elif operator == "Constant":
        tensor = attributes.get("value")
        integers = any(name in attributes for name in ("value_int", "value_ints"))
        kind = tensor.data_type if tensor is not None else INT64 if integers else FLOAT
    elif operator in _OF_SECOND and len(operands) > 1:
        kind = operands[2] if operator == "OneHot" and len(operands) > 2 else operands[1]
    elif operator == "QuantizeLinear":
        said = attributes.get("output_dtype", 0) or UINT8
        kind = operands[2] if len(operands) > 2 and node.inputs[2] else said if isinstance(said, int) else UINT8
    elif operator in _OF_OPERAND and len(operands) > _OF_OPERAND[operator]:
        kind = operands[_OF_OPERAND[operator]]
    elif operator == "QGemm":
        kind = FLOAT
    elif operator in _TRUTH_VALUES:
        kind = BOOL
    elif operator in _PLACES:
        kind = INT64
    elif operator in _INTEGERS_OF_32:
        kind = 6
    second = {"TopK": INT64, "MaxPool": INT64, "Dropout": BOOL}.get(operator, kind)
    return [kind, *[second] * len(node.outputs)][: len(node.outputs)]
