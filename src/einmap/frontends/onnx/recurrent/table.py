"""All operators that are recurrences, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from einmap.frontends.cascade.parts import Parts
from einmap.frontends.cascade.values import Value
from einmap.frontends.onnx.operators.call import Call
from einmap.frontends.onnx.recurrent.layers import GATES, recurrent
from einmap.frontends.onnx.recurrent.linear_attention import linear_attention

RECURRENT: Mapping[str, Callable[[Call], list[Value | Parts]]] = {
    **dict.fromkeys(GATES, recurrent),
    "LinearAttention": linear_attention,
}
"""By the name of the operator."""
