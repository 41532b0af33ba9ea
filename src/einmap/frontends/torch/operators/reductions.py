"""Reductions, softmax and normalisations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from einmap.frontends.torch.operators.call import Aten, Rule
from einmap.frontends.torch.program import BOOL, INT64, Kind

_REDUCED = {
    "sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin", "any": "ReduceMax",
    "all": "ReduceMin", "logsumexp": "ReduceLogSumExp", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd",
    "argmax": "", "argmin": "",
}  # fmt: skip


def _axes(call: Aten, value: str) -> list[int]:
    """Axes that go, all of them without an argument."""
    rank = len(call.shape(value))
    given = call.integers("dim", []) if call.has("dim") else []
    return sorted({call.axis_of(axis, value) for axis in given}) or [*range(rank)]


def reduced(call: Aten) -> str | list[str]:
    """sum, mean, largest and smallest values, any and all; the two results of `max` by axis, too."""
    name, value = call.name, call.tensor("self")
    if call.has("other"):
        return call.emit("Max" if name == "max" else "Min", value, call.tensor("other"))
    given = call.plain("dtype")
    value = call.cast(value, given.number) if isinstance(given, Kind) else value
    if name in ("any", "all"):
        value = call.cast(value, BOOL)
    if name in ("mean", "logsumexp"):
        value = call.as_fractions(value)
    if not call.shape(value):
        return value
    keep = int(bool(call.plain("keepdim", False)))
    if name.startswith("arg"):
        return _place(call, value, is_largest=name == "argmax")
    y = call.emit(_REDUCED[name], value, axes=_axes(call, value), keepdims=keep)
    if len(call.results) < 2:
        return y
    is_read = bool(call.operation.outputs[1])
    return [y, _place(call, value, is_largest=name == "max") if is_read else ""]


def _place(call: Aten, value: str, *, is_largest: bool) -> str:
    """The place of the largest or smallest value of an axis, or of all."""
    flat = value if call.has("dim") else call.reshape(value, [call.size_of(call.shape(value))])
    axis = call.axis("dim", flat, 0)
    how = {"axis": axis, "largest": int(is_largest)}
    place = call.emit_all("TopK", [flat, call.constant(np.array([1], np.int64))], 2, how)[1]
    kept = [1 if i == axis else size for i, size in enumerate(call.shape(flat))]
    if call.plain("keepdim", False):
        return place if call.has("dim") else call.reshape(place, [1 for _ in call.shape(value)])
    call.say(place, kept, INT64)
    return call.reshape(place, [size for i, size in enumerate(kept) if i != axis])


def norm(call: Aten) -> str:
    """linalg_vector_norm and norm: the root of the sum of squares, or the sum of sizes."""
    value, order = call.tensor("self"), call.number("ord" if call.has("ord") else "p", 2)
    if order not in (1, 2):
        raise call.refuse(f"it is a norm of order {order}")
    keep = int(bool(call.plain("keepdim", False)))
    return call.emit(f"ReduceL{int(order)}", value, axes=_axes(call, value), keepdims=keep)


def variance(call: Aten) -> str | list[str]:
    """var, std and var_mean: the sum of squares without the mean, by how many values there are, less a correction."""
    name, value = call.name, call.tensor("self")
    axes, keep = _axes(call, value), int(bool(call.plain("keepdim", False)))
    n = call.size_of([call.shape(value)[axis] for axis in axes])
    left = n - call.number("correction", float(bool(call.plain("unbiased", True))))
    mean = call.emit("ReduceMean", value, axes=axes, keepdims=1)
    centred = call.emit("Sub", value, mean)
    squares = call.emit("ReduceSumSquare", centred, axes=axes, keepdims=keep)
    y = call.emit("Div", squares, call.constant(float(max(left, 0))))
    y = call.emit("Sqrt", y) if name.startswith("std") else y
    if not name.endswith("mean"):
        return y
    call.say(mean, [1 if i in axes else size for i, size in enumerate(call.shape(value))], call.kind(value))
    last = call.results[-1]
    return [y, mean if keep or last is None else call.reshape(mean, last.shape)]


def softmax(call: Aten) -> str:
    """softmax, log_softmax, and the ones with names of their own; rows that are minus infinity alone are not zeros."""
    value = call.tensor("self" if call.has("self") else "input")
    given = call.plain("dtype")
    value = call.cast(value, given.number) if isinstance(given, Kind) else value
    if not call.shape(value):
        return call.emit("Sub", value, value)
    is_log = "log" in call.name
    return call.emit("LogSoftmax" if is_log else "Softmax", value, axis=call.axis("dim", value))


def layer_norm(call: Aten) -> str | list[str]:
    """layer_norm and rms_norm over the last axes."""
    name, value = call.name, call.tensor("input")
    shape = call.integers("normalized_shape")
    is_rms = "rms" in name
    weight = call.optional("weight") or call.constant(np.broadcast_to(np.float64(1), tuple(shape)))
    bias = call.optional("bias")
    epsilon = call.number("eps", 1.1920929e-07 if is_rms else 1e-5)
    how: dict[str, Any] = {"axis": -len(shape), "epsilon": float(epsilon)}
    if is_rms:
        y = call.emit("RMSNormalization", value, weight, **how)
        return [y, *[""] * (len(call.results) - 1)] if len(call.results) > 1 else y
    operands = [value, weight, *([bias] if bias else [])]
    n = len(call.results) if len(call.results) > 1 else 1
    found = call.emit_all("LayerNormalization", operands, n, dict(how))
    return found if n > 1 else found[0]


def group_norm(call: Aten) -> str | list[str]:
    """group_norm, native_group_norm and instance_norm."""
    name, value = call.name, call.tensor("input")
    if name == "instance_norm" and not call.plain("use_input_stats", True):
        raise call.refuse("it has statistics of its own")
    channels = call.shape(value)[1]
    groups = call.integer("group" if call.has("group") else "num_groups", channels)
    weight = call.optional("weight") or call.constant(np.broadcast_to(np.float64(1), channels))
    bias = call.optional("bias") or call.constant(np.broadcast_to(np.float64(0), channels))
    y = call.emit("GroupNormalization", value, weight, bias, num_groups=groups, epsilon=float(call.number("eps", 1e-5)))
    return [y, *[""] * (len(call.results) - 1)] if len(call.results) > 1 else y


def batch_norm(call: Aten) -> str | list[str]:
    """batch_norm by the statistics that the module has, or of the batch where it keeps none."""
    name, value = call.name, call.tensor("input")
    channels = call.shape(value)[1]
    weight = call.optional("weight") or call.constant(np.broadcast_to(np.float64(1), channels))
    bias = call.optional("bias") or call.constant(np.broadcast_to(np.float64(0), channels))
    epsilon = float(call.number("eps", 1e-5))
    if not call.has("running_mean"):  # statistics of the batch: a group for each channel, of all images
        order = [1, 0, *range(2, len(call.shape(value)))]
        turned = call.transpose(value, order)
        flat = call.reshape(turned, [1, channels, call.size_of(call.shape(value)) // max(1, channels)])
        y = call.emit("GroupNormalization", flat, weight, bias, num_groups=channels, epsilon=epsilon)
        y = call.transpose(call.reshape(y, call.shape(turned)), order)
        return [y, *[""] * (len(call.results) - 1)] if len(call.results) > 1 else y
    if call.plain("training", call.plain("train", "no_training" not in name and "legit" in name)):
        raise call.refuse("it computes its statistics, as in training")
    mean, spread = call.tensor("running_mean"), call.tensor("running_var")
    y = call.emit("BatchNormalization", value, weight, bias, mean, spread, epsilon=epsilon)
    return [y, *[""] * (len(call.results) - 1)] if len(call.results) > 1 else y


def running_sum(call: Aten) -> str:
    """cumsum along an axis."""
    value = call.tensor("self")
    if not call.shape(value):
        return value
    return call.emit("CumSum", value, call.constant(np.int64(call.axis("dim", value))))


REDUCTIONS: Mapping[str, Rule] = {
    **dict.fromkeys(_REDUCED, reduced),
    **dict.fromkeys(("linalg_vector_norm", "norm"), norm),
    **dict.fromkeys(("var", "std", "var_mean", "std_mean"), variance),
    **dict.fromkeys(("softmax", "_softmax", "_safe_softmax", "log_softmax", "_log_softmax"), softmax),
    **dict.fromkeys(("layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm"), layer_norm),
    **dict.fromkeys(("group_norm", "native_group_norm", "instance_norm"), group_norm),
    **dict.fromkeys(
        ("batch_norm", "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training",
         "_batch_norm_no_update", "cudnn_batch_norm"),
        batch_norm,
    ),
    "cumsum": running_sum,
}  # fmt: skip
"""By the name of the operator, without its overload."""
