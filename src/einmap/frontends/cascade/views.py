"""How the axes of a value index a stored tensor.

The index along an axis is made of *digits*, as a number is: an axis of 12 with the digits (3, 4) has the index
`4*d0 + d1`. Each rank of the tensor has an affine index in the digits. So a reshape that joins or cuts axes changes
digits only, and a digit that no rank uses is a broadcast.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from einmap.einsum.rewrites.edit import substituted
from einmap.einsum.spaces.projection import Affine
from einmap.frontends.cascade.program import Array, Stored

type Sizes = tuple[int, ...]
"""Sizes of the digits of an axis, the one that counts most first; none for an axis of one index."""
type _Digits = list[tuple[str, int]]


class LayoutError(Exception):
    """A change of shape that no affine index says: the value has to be copied into another layout first."""


def digit(axis: int | str, place: int) -> str:
    """The name of a digit of an axis in the indices of a view, or of a label in those of an Einsum."""
    return f"{axis}.{place}"


@dataclass(frozen=True, slots=True)
class View:
    """Part of a stored tensor with axes of its own: `index[i]` is where rank i of the tensor is read."""

    tensor: Stored
    axes: tuple[Sizes, ...]
    index: tuple[Affine, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of indices along each axis."""
        return tuple(prod(sizes) for sizes in self.axes)

    def uses(self, axis: int, place: int) -> bool:
        """Whether a rank of the tensor depends on a digit; if none does, the value is the same for all its indices."""
        name = digit(axis, place)
        return any(v == name for index in self.index for v, _ in index.terms)

    def is_whole(self, axis: int) -> bool:
        """Whether the axis is exactly one rank of the tensor, all of it."""
        if len(self.axes[axis]) != 1:
            return False
        alone = Affine(((digit(axis, 0), 1),))
        ranks = [i for i, index in enumerate(self.index) if any(v == digit(axis, 0) for v, _ in index.terms)]
        return len(ranks) == 1 and self.index[ranks[0]] == alone and self.tensor.sizes[ranks[0]] == self.axes[axis][0]


def view_of(tensor: Stored, shape: Sequence[int]) -> View:
    """A stored tensor as a value of this shape; axes of one index have no rank, unless `tensor.sizes` has them all."""
    every = tuple(shape) == tensor.sizes
    axes = tuple((size,) if size > 1 or every else () for size in shape)
    index = tuple(Affine(((digit(axis, 0), 1),)) for axis, sizes in enumerate(axes) if sizes)
    return View(tensor, axes, index or (Affine(()),))


def composed(terms: Sequence[tuple[str, int]], digits: Mapping[str, Sizes], constant: int = 0) -> Affine:
    """The sum of `coefficient * label + constant` in the variables of the labels' digits."""
    parts: list[tuple[str, int]] = []
    for label, a in terms:
        sizes = digits[label]
        parts += [(digit(label, i), a * prod(sizes[i + 1 :])) for i in range(len(sizes))]
    return Affine(tuple(parts), constant)


def transposed(view: View, order: Sequence[int]) -> View:
    """The axes in another order: `order[i]` is where axis i comes from."""
    return _renamed(view, [_named(view)[axis] for axis in order])


def reshaped(view: View, shape: Sequence[int]) -> View:
    """The value with its elements, in row-major order, in another shape. LayoutError where no affine index says so."""
    digits = [d for axis in _named(view) for d in axis if d[1] > 1]
    used = {v for index in view.index for v, _ in index.terms}
    digits = _joined(digits, used)
    ends = _boundaries([size for _, size in digits]) | _boundaries(shape)
    sizes = _sizes_between(ends)
    pieces, table = _cut(digits, sizes)
    axes: list[_Digits] = []
    rest = list(pieces)
    for size in reversed(shape):
        axis: _Digits = []
        while prod(s for _, s in axis) < size:
            if not rest:
                raise LayoutError(f"its values do not fill the shape {[*shape]}")
            axis.insert(0, rest.pop())
        axes.insert(0, axis)
    index = tuple(substituted(i, table) for i in view.index)
    return _renamed(View(view.tensor, view.axes, index), axes)


def sliced(view: View, axis: int, start: int, step: int, count: int) -> View:
    """Indices `start`, `start + step`, ... of an axis, `count` of them. LayoutError where digits are cut through."""
    named = _named(view)
    digits = named[axis]
    size = prod(s for _, s in digits)
    if (start, step, count) == (0, 1, size):
        return view
    inner = prod(s for _, s in digits[1:])
    if count == 1:
        table = _constants(digits, start)
        named[axis] = []
    elif len(digits) == 1 or (step == 1 and start % inner == 0 and count % inner == 0):
        first = digits[0][0]
        table = {first: Affine(((first, step if len(digits) == 1 else 1),), start // inner)}
        named[axis] = [(first, count // inner), *digits[1:]]
    else:
        raise LayoutError(f"a slice cuts through an axis that is made of {len(digits)} ranks")
    index = tuple(substituted(i, table) for i in view.index)
    return _renamed(View(view.tensor, view.axes, index), named)


def expanded(view: View, shape: Sequence[int]) -> View:
    """Broadcast as NumPy does: axes of one index become as large as in `shape`, new axes come in front."""
    named = _named(view)
    named = [[] for _ in range(len(shape) - len(named))] + named
    for axis, size in enumerate(shape):
        if size > 1 and prod(s for _, s in named[axis]) == 1:
            named[axis] = [(f"new{axis}", size)]
    return _renamed(view, named)


def refined(view: View, axis: int, sizes: Sizes) -> View:
    """The view with smaller digits along an axis: their sizes cut those that are there."""
    if view.axes[axis] == sizes:
        return view
    named = _named(view)
    named[axis], table = _cut(_joined(named[axis], _used(view)), sizes)
    index = tuple(substituted(i, table) for i in view.index)
    return _renamed(View(view.tensor, view.axes, index), named)


def common_digits(views: Iterable[tuple[View, int]]) -> Sizes:
    """Digits into which the axes of all views can be cut. LayoutError where there are none."""
    ends: set[int] = {1}
    for view, axis in views:
        digits = _joined(_named(view)[axis], _used(view))
        ends |= _boundaries([size for _, size in digits])
    return _sizes_between(ends)


def seen(view: View, array: Array, margins: Sequence[tuple[int, int]] = ()) -> Array:
    """The part of a tensor's numbers that a view is, with its shape; `margins`: zeros around those of each rank."""
    sizes = [size for axis in view.axes for size in axis]
    names = [digit(i, place) for i, axis in enumerate(view.axes) for place in range(len(axis))]
    ranges = dict(zip(names, np.ogrid[tuple(slice(size) for size in sizes)], strict=True)) if sizes else {}
    index = []
    for rank, (low, _) in zip(view.index, margins or [(0, 0)] * len(view.index), strict=True):
        place: Any = np.asarray(rank.constant + low)
        for name, a in rank.terms:
            place = place + a * ranges[name]
        index.append(place)
    part: Array = array[tuple(index)]
    return np.broadcast_to(part, sizes).reshape(view.shape)


def _used(view: View) -> set[str]:
    return {v for index in view.index for v, _ in index.terms}


def _named(view: View) -> list[_Digits]:
    return [[(digit(axis, place), size) for place, size in enumerate(sizes)] for axis, sizes in enumerate(view.axes)]


def _renamed(view: View, axes: Sequence[_Digits]) -> View:
    """The view with these axes, digits of one value dropped and the others called by their places."""
    used = _used(view)
    # an axis of one index that is a rank by itself keeps its digit, so that padding may enlarge it
    kept = [[d for d in axis if d[1] > 1 or (len(axis) == 1 and d[0] in used)] for axis in axes]
    names = {name: digit(axis, place) for axis, digits in enumerate(kept) for place, (name, _) in enumerate(digits)}
    table = {v: Affine(((names[v], 1),)) if v in names else Affine(()) for v in used}
    index = tuple(substituted(i, table) for i in view.index)
    return View(view.tensor, tuple(tuple(size for _, size in digits) for digits in kept), index)


def _joined(digits: _Digits, used: set[str]) -> _Digits:
    """Neighbours that no rank uses as one digit."""
    joined: _Digits = []
    for name, size in digits:
        if joined and name not in used and joined[-1][0] not in used:
            joined[-1] = joined[-1][0], joined[-1][1] * size
        else:
            joined.append((name, size))
    return joined


def _boundaries(sizes: Sequence[int]) -> set[int]:
    """The products of the last sizes, 1 and the whole among them."""
    return {prod(sizes[i:]) for i in range(len(sizes) + 1)}


def _sizes_between(ends: set[int]) -> Sizes:
    ordered = sorted(ends)
    if any(large % small for small, large in pairwise(ordered)):
        raise LayoutError(f"axes are cut at {', '.join(map(str, ordered))}, which do not divide one another")
    return tuple(large // small for small, large in reversed([*pairwise(ordered)]))


def _cut(digits: _Digits, sizes: Sizes) -> tuple[_Digits, dict[str, Affine]]:
    """Digits cut into smaller ones of these sizes, and what the old ones are in the new ones."""
    rest = list(sizes)
    pieces: _Digits = []
    table: dict[str, Affine] = {}
    for name, size in reversed(digits):
        terms: list[tuple[str, int]] = []
        stride = 1
        while stride < size:
            piece = f"{name}/{len(terms)}"
            terms.append((piece, stride))
            pieces.insert(0, (piece, rest[-1]))
            stride *= rest.pop()
        table[name] = Affine(tuple(reversed(terms)))
    return pieces, table


def _constants(digits: _Digits, index: int) -> dict[str, Affine]:
    table: dict[str, Affine] = {}
    for name, size in reversed(digits):
        table[name] = Affine((), index % size)
        index //= size
    return table
