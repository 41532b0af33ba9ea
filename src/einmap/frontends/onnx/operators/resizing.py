"""Resize and Upsample, axis by axis: each result is a sum of a few values of its axis at places that are known."""

from __future__ import annotations

from itertools import pairwise
from math import floor, isfinite

import numpy as np

from einmap.errors import SpecError
from einmap.frontends.cascade.builder import check_shape
from einmap.frontends.cascade.program import Array
from einmap.frontends.cascade.step import NotExpressible
from einmap.frontends.cascade.values import MOST_KNOWN, Value, broadcast, known, reshape
from einmap.frontends.onnx.operators.call import MOST_INTEGERS, Call

_COORDINATES = frozenset(
    {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric", "tf_half_pixel_for_nn"}
)


def resize(call: Call) -> list[Value]:
    """Resize and Upsample: repeated values are a projection, evenly spaced ones a slice, others are looked up.

    Interpolation adds two values of an axis, or four, each times a number that is known.
    """
    value = call.operand(0)
    is_old = call.opset < 11 or call.node.operator == "Upsample"
    if call.integer("antialias", 0) or call.integer("exclude_outside", 0):
        raise NotExpressible("it filters what it leaves out")
    sizes = _sizes(call, value, is_old=is_old)
    if all(size == value.shape[axis] for axis, (size, _) in sizes.items()):
        return [value]  # also where it is scaled by less than one more value, as in ONNX Runtime
    for axis, (size, scale) in sizes.items():
        if size != value.shape[axis] or scale != 1:
            check_shape([size], "its result")
            value = _resized(call, value, axis, size, _positions(call, value.shape[axis], size, scale, is_old=is_old))
    return [value]


def _sizes(call: Call, value: Value, *, is_old: bool) -> dict[int, tuple[int, float]]:
    """The new size and the scale of each axis that the operator names."""
    rank = len(value.shape)
    axes = [call.axis(axis, rank) for axis in call.integers("axes") or range(rank)]
    sizes = call.optional(3)
    if sizes is not None and not is_old:
        wanted = call.known_integers(3, "the size")
        if call.text("keep_aspect_ratio_policy", "stretch") != "stretch":
            raise NotExpressible("it keeps the aspect ratio")
        found = [(n, n / value.shape[axis]) for n, axis in zip(wanted, axes, strict=False)]
    else:
        given = call.node.attributes.get("scales") if call.opset < 9 else None
        given = call.known(1 if is_old else 2, "the scale") if given is None else given
        with np.errstate(over="ignore", invalid="ignore"):
            scales = [np.float32(s) for s in np.reshape(given, -1)]
            # the product in 32 bits, as ONNX Runtime has it: 10 times 0.7 is 7
            ends = [float(np.float32(value.shape[axis]) * s) for s, axis in zip(scales, axes, strict=False)]
        if not all(map(isfinite, ends)):
            raise SpecError(f"a scale must be a positive number, found {[*map(float, scales)]}", at=call.node.at)
        found = [(floor(end), float(s)) for end, s in zip(ends, scales, strict=False)]
    if len(found) != len(axes) or any(size < 1 for size, _ in found):
        raise SpecError(f"sizes or scales do not fit the shape {[*value.shape]}", at=call.node.at)
    return dict(zip(axes, found, strict=True))


def _positions(call: Call, size: int, new: int, scale: float, *, is_old: bool) -> Array:
    """Where each result stands among the values of its axis, in 32 bits as ONNX Runtime has it: rounding decides which
    of two values is nearer.
    """
    coordinates = "asymmetric" if is_old else call.text("coordinate_transformation_mode", "half_pixel")
    if coordinates not in _COORDINATES:
        raise NotExpressible(f"its coordinates are {coordinates[:30]}")
    if new > MOST_INTEGERS:
        raise NotExpressible(f"it takes {new:,} places")
    single = np.float32
    x, per_value = np.arange(new, dtype=single), single(scale)
    if coordinates == "asymmetric":
        return x / per_value
    if coordinates == "align_corners":
        return x * single(size - 1) / single(max(1, new - 1))
    if coordinates == "pytorch_half_pixel" and new == 1:
        return single(0) * x
    if coordinates == "tf_half_pixel_for_nn":
        return (x + single(0.5)) / per_value
    if coordinates == "half_pixel_symmetric":
        moved = single(size / 2) * (single(1) - single(new) / (per_value * single(size)))
        return (np.float64(moved) + (x + 0.5) / np.float64(per_value) - 0.5).astype(single)
    found: Array = (x + single(0.5)) / per_value - single(0.5)
    return found


def _resized(call: Call, value: Value, axis: int, new: int, positions: Array) -> Value:
    size, mode = value.shape[axis], call.text("mode", "nearest")
    if mode == "nearest":
        return _taken(call, value, axis, np.clip(_nearest(call, positions, is_smaller=new < size), 0, size - 1))
    if mode not in ("linear", "bilinear", "cubic"):
        raise NotExpressible(f"it interpolates (mode {mode[:20]})")
    if new * len(value.shape) > MOST_KNOWN:
        raise NotExpressible(f"it interpolates {new:,} results")
    first = np.floor(positions)
    rest = (positions - first).astype(np.float64)
    a = call.number("cubic_coeff_a", -0.75)
    taps = {0: 1 - rest, 1: rest} if mode != "cubic" else _cubic(a, rest)
    value = call.builder.written(value, f"{call.name}_input")
    total: Value | None = None
    for step, factors in taps.items():
        shape = [-1 if other == axis else 1 for other in range(len(value.shape))]
        seen = _taken(call, value, axis, np.clip(first + step, 0, size - 1))
        term = call.pointwise("a * b", seen, known(factors.reshape(shape), value.bits), bits=value.bits)
        total = term if total is None else call.pointwise("a + b", total, term)
    assert total is not None
    return total


def _nearest(call: Call, positions: Array, *, is_smaller: bool) -> Array:
    """The place that is nearest; before opset 11 the next one where an axis gets smaller, as in ONNX Runtime."""
    is_old = call.opset < 11 or call.node.operator == "Upsample"
    match ("ceil" if is_smaller else "floor") if is_old else call.text("nearest_mode", ""):
        case "floor":
            return np.floor(positions)
        case "ceil":
            return np.ceil(positions)
        case "round_prefer_ceil":
            return np.floor(positions + 0.5)
        case _:
            return np.ceil(positions - 0.5)


def _cubic(a: float, rest: Array) -> dict[int, Array]:
    """Factors of the four values around a position (Keys, 1981)."""

    def near(t: Array) -> Array:
        return ((a + 2) * t - (a + 3)) * t * t + 1

    def far(t: Array) -> Array:
        return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a

    return {-1: far(1 + rest), 0: near(rest), 1: near(1 - rest), 2: far(2 - rest)}


def _taken(call: Call, value: Value, axis: int, places: Array) -> Value:
    """The values of an axis at places: a view where they are repeated or evenly spaced, else looked up."""
    size, where = value.shape[axis], [int(i) for i in places]
    times = len(where) // size
    if times * size == len(where) and where == [i // times for i in range(len(where))]:
        plain = call.builder.as_expression(value, call.name)
        before, behind = value.shape[:axis], value.shape[axis + 1 :]
        wide = broadcast(reshape(plain, (*before, size, 1, *behind)), (*before, size, times, *behind))
        return call.reshape(wide, (*before, size * times, *behind))
    steps = {b - a for a, b in pairwise(where)} or {1}
    if len(steps) == 1 and steps != {0}:
        return call.take(value, axis, where[0], next(iter(steps)), len(where))
    if size == 1:
        shape = [len(where) if other == axis else n for other, n in enumerate(value.shape)]
        return broadcast(call.builder.as_expression(value, call.name), shape)
    return call.gathered(value, [(axis, known(places.astype(np.float64), 32))])
