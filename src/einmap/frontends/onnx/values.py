"""Values of a model's inputs that are given at import, by which control flow is known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from einmap.errors import At, SpecError, did_you_mean
from einmap.frontends.cascade.parts import Parts
from einmap.frontends.cascade.program import Array
from einmap.frontends.cascade.step import NotExpressible
from einmap.frontends.cascade.values import Value
from einmap.frontends.onnx.kinds import BOOL, INTEGERS
from einmap.frontends.onnx.model import Model
from einmap.visible import short


def input_values(model: Model, values: Mapping[str, object]) -> dict[str, Array]:
    """Values of inputs as arrays of their shapes, one number for all of them included; a text is JSON.

    Raises SpecError for names and values that do not fit the model.
    """
    found: dict[str, Array] = {}
    for name, given in values.items():
        if name not in model.inputs:
            hint = did_you_mean(name, model.inputs, listing="inputs")
            raise SpecError(f"the model has no input {short(name, 60)}", at=At(model.file), hint=hint)
        tensor = model.inputs[name]
        try:
            array = np.asarray(json.loads(given) if isinstance(given, str) else given)
        except (ValueError, RecursionError):  # not JSON, or rows of different lengths
            array = np.asarray(None)
        if array.dtype.kind not in "biuf" or array.size not in (1, prod(tensor.shape)):
            text = f"its value must be a number, or numbers of the shape {[*tensor.shape]}, found {short(given, 60)}"
            raise SpecError(text, at=At(model.file, path=f"input {short(name, 60)}"))
        kind = bool if tensor.kind == BOOL else np.int64 if tensor.kind in INTEGERS else np.float64
        same = np.broadcast_to(array.reshape(()), tensor.shape) if array.size == 1 else array.reshape(tensor.shape)
        found[name] = same.astype(kind)
    return found


def unknown_condition(operands: Sequence[Value | Parts | None]) -> NotExpressible:
    """Why an `If` takes no branch, with the inputs of the model whose values would say which as a hint."""
    text = "which branch it takes is known only when the model runs"
    first = operands[0] if operands else None
    leaves = first.leaves if isinstance(first, Value) else ()
    names = {view.tensor.source: None for view in leaves if not view.tensor.weight}
    if not names or not all(isinstance(name, str) for name in names):
        return NotExpressible(text)
    ways = (" ".join(f"{flag} {name}=VALUE" for name in names) for flag in ("--value", "-D"))
    hint = "give the value of an input: einmap import {}, {} of other commands, values={{...}} of einmap.from_onnx"
    return NotExpressible(text, hint.format(*ways))
