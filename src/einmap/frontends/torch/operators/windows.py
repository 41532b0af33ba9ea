"""Pooling, and images made larger or smaller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from einmap.frontends.torch.operators.call import Aten, Rule


def _with_batch(call: Aten, dims: int, pooled: Callable[[str], str]) -> str:
    """A pool over a batch of images, or over one without a batch."""
    value = call.tensor("self" if call.has("self") else "input")
    if len(call.shape(value)) != dims + 1:
        return pooled(value)
    return call.reshape(pooled(call.reshape(value, [1, *call.shape(value)])), call.result.shape)


def _dims(call: Aten) -> int:
    return int(next(c for c in call.name if c in "123"))


def pool(call: Aten) -> str | list[str]:
    """max_pool and avg_pool of one to three dimensions."""
    dims, name = _dims(call), call.name
    kernel = _each(call.integers("kernel_size"), dims)
    how: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": _each(call.integers("stride", []) or kernel, dims),
        "pads": _each(call.integers("padding", [0]), dims) * 2,
        "ceil_mode": int(bool(call.plain("ceil_mode", False))),
    }
    if name.startswith("avg"):
        if call.has("divisor_override"):
            raise call.refuse("it divides by another number than that of its values")
        how["count_include_pad"] = int(bool(call.plain("count_include_pad", True)))
        return _with_batch(call, dims, lambda x: call.emit("AveragePool", x, **how))
    how["dilations"] = _each(call.integers("dilation", [1]), dims)
    if len(call.results) > 1 and call.operation.outputs[1]:
        raise call.refuse("it gives the places of the maxima, too")
    y = _with_batch(call, dims, lambda x: call.emit("MaxPool", x, **how))
    return [y, ""] if len(call.results) > 1 else y


def _each(given: list[int], dims: int) -> list[int]:
    return given * dims if len(given) == 1 else given


def adaptive_pool(call: Aten) -> str | list[str]:
    """adaptive pools whose windows are all alike: the result's size divides that of the image."""
    dims, name = _dims(call), call.name.strip("_")
    value = call.tensor("self")
    sizes, wanted = call.shape(value)[-dims:], call.result.shape[-dims:]
    if any(size % new for size, new in zip(sizes, wanted, strict=True)):
        raise call.refuse(f"its windows are not alike: {[*sizes]} become {[*wanted]}")
    kernel = [size // new for size, new in zip(sizes, wanted, strict=True)]
    operator = "AveragePool" if "avg" in name else "MaxPool"
    if len(call.results) > 1 and call.operation.outputs[1]:
        raise call.refuse("it gives the places of the maxima, too")
    y = _with_batch(call, dims, lambda x: call.emit(operator, x, kernel_shape=kernel, strides=kernel))
    return [y, ""] if len(call.results) > 1 else y


def resized(call: Aten) -> str:
    """upsample: the nearest value, or an interpolation between two or four along each axis."""
    name, value = call.name.strip("_"), call.tensor("self" if call.has("self") else "input")
    if name.endswith("_aa"):
        raise call.refuse("it filters what it leaves out")
    operands = ["", call.constant(np.array(call.result.shape, np.int64))]
    scales = [float(n) for n in call.plain("scale_factors", [])]
    if scales and not call.plain("align_corners", False):
        # what is between two values is counted by the factor that is given, and not by how many there are
        ones = [1.0] * (len(call.result.shape) - len(scales))
        operands = [call.constant(np.array([*ones, *scales]))]
    how: dict[str, Any] = {}
    if "exact" in name:
        how = {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
    elif "nearest" in name:
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    else:
        is_aligned = bool(call.plain("align_corners", False))
        how = {
            "mode": "cubic" if "cubic" in name else "linear",
            "coordinate_transformation_mode": "align_corners" if is_aligned else "half_pixel",
        }
    return call.emit("Resize", value, "", *operands, **how)


WINDOWS: Mapping[str, Rule] = {
    **{f"{kind}_pool{d}d{end}": pool for kind in ("max", "avg") for d in (1, 2, 3) for end in ("", "_with_indices")},
    **{f"{dash}adaptive_{kind}_pool{d}d": adaptive_pool
       for dash in ("", "_") for kind in ("max", "avg") for d in (1, 2, 3)},
    **dict.fromkeys(
        ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d",
         "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d",
         "upsample_trilinear3d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"),
        resized,
    ),
}  # fmt: skip
"""By the name of the operator, without its overload."""
