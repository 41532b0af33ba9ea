"""Intervals along the ranks of a tensor that boxes use: the different ones, and which one each box has.

Answers about boxes are found for all combinations of different intervals, and then spread to the boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from einmap.arrays import Floats, Ints, Wholes

MOST_SLICES = 64
"""Length of an axis whose maximum is found one index after another, at most."""


@dataclass(frozen=True)
class Intervals:
    """Different intervals along a rank, which `begin` and `end` before a position, and `which` one each box has.

    `begin` and `end` have one axis, `which` has the axes of the boxes.
    """

    begin: Ints
    end: Ints
    which: Ints


def different(low: Wholes, size: Wholes) -> Intervals:
    """The different ones of some intervals, in order, by first positions and lengths."""
    if isinstance(low, int) and isinstance(size, int):
        return Intervals(np.array([low]), np.array([low + size]), np.zeros((), dtype=np.int64))
    if not isinstance(size, int) and size.size and size.min() == size.max():
        low, size = np.broadcast_to(low, np.broadcast_shapes(np.shape(low), size.shape)), int(size.flat[0])
    end = np.asarray(low + size)
    if isinstance(size, int):
        flat = end.ravel()
        if (flat[1:] > flat[:-1]).all():
            return Intervals(flat - size, flat, np.arange(flat.size).reshape(end.shape))
        longest = int(flat.max())
        if int(flat.min()) >= 0 and longest <= 16 * flat.size + 1024:
            is_there = np.zeros(longest + 1, dtype=bool)
            is_there[flat] = True
            ends = np.flatnonzero(is_there)
            return Intervals(ends - size, ends, (np.cumsum(is_there) - 1)[end])
    begin = np.broadcast_to(low, end.shape)
    longest = int(end.max(initial=0)) + 1
    keys, which = np.unique(begin * longest + end, return_inverse=True)
    return Intervals(keys // longest, keys % longest, which.reshape(end.shape))


def are_apart(intervals: Sequence[Intervals]) -> bool:
    """Whether no axis of the boxes tells intervals along two ranks apart."""
    axes = [axis for one in intervals for axis in _axes(one)]
    return len(axes) == len(set(axes))


def spread(found: Ints, intervals: Sequence[Intervals], lanes: tuple[int, ...]) -> Floats:
    """Answers for the boxes, of those along the axes `lanes` the most.

    `found`: answers for all combinations of different intervals, which are apart; an axis for each rank.
    """
    ndim = max(one.which.ndim for one in intervals)
    shape, order = [1] * ndim, list[int]()
    for rank, one in enumerate(intervals):
        rows = [axis for axis in _axes(one) if axis not in lanes]
        for axis in rows:
            shape[axis] = one.which.shape[axis]
        order += rows
        found = _of_rows(found, rank, one.which.reshape(prod(shape[axis] for axis in rows), -1))
    found = found.reshape([shape[axis] for axis in order])
    if order != sorted(order):
        found = found.transpose(np.argsort(order))
    return found.reshape(shape).astype(np.float64)


def _axes(one: Intervals) -> list[int]:
    return [axis for axis, n in enumerate(one.which.shape) if n > 1]


def _of_rows(found: Ints, rank: int, which: Ints) -> Ints:
    """Answers by the intervals of a rank for rows of boxes, of those in a row the most. `which`: (rows, lanes)."""
    rows, lanes = which.shape
    if lanes == 1:
        is_all = rows == found.shape[rank] and (which[:, 0] == np.arange(rows)).all()
        return found if is_all else found.take(which[:, 0], rank)
    _, first, back = np.unique(which[:, 0], return_index=True, return_inverse=True)
    groups = which[first]
    if len(first) == rows or (which != groups[back]).any():
        return _most_of(found, rank, which)
    return _most_of(found, rank, groups).take(back, rank)


def _most_of(found: Ints, rank: int, which: Ints) -> Ints:
    if which.shape[1] > MOST_SLICES:
        return found.take(which, rank).max(axis=rank + 1)
    most = found.take(which[:, 0], rank)
    for lane in which.T[1:]:
        np.maximum(most, found.take(lane, rank), out=most)
    return most


def most_along(values: Floats, axes: Sequence[int]) -> Floats:
    """The maximum along some axes, which stay with length 1: faster than NumPy's where they are short."""
    for axis in axes:
        if values.shape[axis] > MOST_SLICES:
            values = values.max(axis=axis, keepdims=True)
            continue
        before = (slice(None),) * axis
        found = values[(*before, slice(0, 1))]
        for i in range(1, values.shape[axis]):
            found = np.maximum(found, values[(*before, slice(i, i + 1))])
        values = found
    return values
