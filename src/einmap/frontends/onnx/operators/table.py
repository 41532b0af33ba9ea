"""All operators that are imported, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from einmap.frontends.cascade.values import Value
from einmap.frontends.onnx.operators.call import Call
from einmap.frontends.onnx.operators.choice import CHOICES
from einmap.frontends.onnx.operators.contractions import CONTRACTIONS
from einmap.frontends.onnx.operators.elementwise import ELEMENTWISE
from einmap.frontends.onnx.operators.fused import FUSED
from einmap.frontends.onnx.operators.layout import LAYOUT
from einmap.frontends.onnx.operators.normalisation import NORMALISATIONS
from einmap.frontends.onnx.operators.packed import PACKED
from einmap.frontends.onnx.operators.quantised import QUANTISED
from einmap.frontends.onnx.operators.windows import WINDOWS

OPERATORS: Mapping[str, Callable[[Call], list[Value]]] = {
    **ELEMENTWISE,
    **CONTRACTIONS,
    **WINDOWS,
    **NORMALISATIONS,
    **LAYOUT,
    **QUANTISED,
    **FUSED,
    **PACKED,
    **CHOICES,
}
"""Functions that give the results of operators, of other domains by full names; constants are folded before."""
