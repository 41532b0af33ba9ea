"""Einsums from operations: axes with the same label have the same index, windows slide, the rest is summed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from einmap.einsum.operation import Apply, MapExpression, Number, Operand, Reduction
from einmap.einsum.rewrites.edit import substituted
from einmap.einsum.spaces.projection import Affine
from einmap.errors import SpecError
from einmap.frontends.cascade.program import Access, Array, CascadeEinsum, Program, Stored, uniform
from einmap.frontends.cascade.uses import LookedUp, Spread, Use, Window, ends_of, leaves_axis
from einmap.frontends.cascade.values import (
    MOST_LEAVES,
    MOST_NODES,
    Scaled,
    Value,
    broadcast,
    broadcast_shape,
    inserted,
    number_of,
    renumbered,
    size_of,
    stored,
)
from einmap.frontends.cascade.views import LayoutError, Sizes, View, common_digits, composed, digit, refined, view_of

MOST_VALUES = 2**40
"""Values of one tensor."""


@dataclass(slots=True)
class Contents:
    """Parts of one Einsum while its operands are being laid out. `bits`: of a number of each leaf."""

    leaves: list[tuple[View, tuple[Use, ...]]] = field(default_factory=list)
    bits: list[int] = field(default_factory=list)
    expressions: list[MapExpression] = field(default_factory=list)
    signs: list[bool] = field(default_factory=list)
    first_leaves: list[int | None] = field(default_factory=list)

    @property
    def gathers(self) -> bool:
        """Whether an axis of an operand is looked up."""
        return any(isinstance(use, LookedUp) for _, uses in self.leaves for use in uses)


class Builder:
    """Collects Einsums: `program`; `unpacked`: graph inputs in place of bytes, by the name of these, shape and bits."""

    def __init__(self) -> None:
        self.program = Program()
        self.unpacked: dict[tuple[str, tuple[int, ...], int], Value] = {}

    def graph_input(
        self,
        name: str,
        shape: Sequence[int],
        bits: int,
        source: str | Array,
        *,
        weight: bool = False,
        array: Array | None = None,
        packed: int = 0,
    ) -> Value:
        """A tensor that no Einsum writes. Raises SpecError for one that is empty or too large."""
        check_shape(shape, f"tensor {name!r}")
        sizes = tuple(size for size in shape if size > 1) or (1,)
        tensor = Stored(self.program.free_name(name), sizes, bits, source, tuple(shape), weight, array, packed)
        return stored(view_of(tensor, shape))

    def as_expression(self, value: Value, name: str) -> Value:
        """A value with an expression: numbers that are all the same are one number, others a tensor."""
        if value.expression is not None and not (value.array is not None and value.array.size == 1):
            return value
        assert value.array is not None
        number = uniform(value.array)
        if number is not None:
            return replace(value, expression=Number(number), leaves=(), nonnegative=number >= 0)
        if value.expression is not None:
            return value
        array = np.asarray(value.array)
        return self.graph_input(f"{name}_constant", value.shape, value.bits, array, weight=True, array=array)

    # operations

    def pointwise(self, expression: MapExpression, operands: Sequence[Value], name: str, bits: int) -> Value:
        """A map expression over operands, which are broadcast; it is not written before something needs it.

        `expression` calls them `Operand("0")`, ... An operand whose expression is long is written first.
        """
        operands = [self.as_expression(value, name) for value in operands]
        operands = self._shortened(operands, name, size_of(expression))
        shape = broadcast_shape(*(value.shape for value in operands))
        check_shape(shape, f"the result of {name!r}")
        leaves: list[View] = []
        parts: list[tuple[MapExpression, bool]] = []
        for value in operands:
            wide = broadcast(value, shape)
            places = []
            for view in wide.leaves:
                if view not in leaves:
                    leaves.append(view)
                places.append(leaves.index(view))
            assert value.expression is not None
            parts.append((renumbered(value.expression, places.__getitem__), value.nonnegative))
        joined, sign = inserted(expression, parts)
        return Value(tuple(shape), bits, joined, tuple(leaves), nonnegative=sign)

    def _shortened(self, operands: list[Value], name: str, extra: int) -> list[Value]:
        """The operands, the longest of them written to tensors where one expression would be too long."""

        def too_long() -> bool:
            leaves = {view for value in operands for view in value.leaves}
            nodes = sum(size_of(value.expression) for value in operands if value.expression is not None)
            return len(leaves) > MOST_LEAVES or nodes + extra > MOST_NODES

        while too_long():
            lengths = [0 if v.is_view or v.expression is None else size_of(v.expression) for v in operands]
            longest = lengths.index(max(lengths))
            if lengths[longest] <= 1:
                break
            value = operands[longest]
            has_integers = value.scaled is not None and not value.scaled.integers.is_view
            operands[longest] = (self.kept if has_integers else self.written)(value, f"{name}_part")
        return operands

    def written(self, value: Value, name: str, uses: Sequence[Use] = ()) -> Value:
        """The value as a tensor of its own, or the view that it is. `uses`: how it is read, for names of variables."""
        value = self.as_expression(value, name)
        return value if value.is_view else self.copied(value, name, uses=uses)

    def kept(self, value: Value, name: str) -> Value:
        """The value with what is to be computed of it written: of one that stands for integers these alone."""
        if value.scaled is None:
            return self.written(value, name)
        integers = self.written(value.scaled.integers, name)
        return self.fraction(replace(value.scaled, integers=integers), name, value.bits)

    def fraction(self, scaled: Scaled, name: str, bits: int) -> Value:
        """Numbers that integers stand for, as a value that keeps the integers."""
        value = scaled.integers
        for function, part in (("subtract", scaled.zero), ("multiply", scaled.scale), ("add", scaled.offset)):
            if part is not None:
                value = self.pointwise(Apply(function, (Operand("0"), Operand("1"))), [value, part], name, bits)
        return replace(value, bits=bits, scaled=scaled)

    def _filled(self, value: Value, name: str) -> Value:
        """A tensor of one number, which no Einsum writes since it reads nothing."""
        assert value.expression is not None
        number = number_of(value.expression)
        return self.graph_input(name, value.shape, value.bits, np.broadcast_to(number, value.shape), weight=True)

    def copied(
        self, value: Value, name: str, *, flat: Sequence[int] = (), whole: Sequence[int] = (), uses: Sequence[Use] = ()
    ) -> Value:
        """The value written to a new tensor.

        `flat`: axes that are one rank there, however they are made of digits. `whole`: axes that are one rank even
        where they have one index only.
        """
        value = self.as_expression(value, name)
        if not value.leaves:
            return self._filled(value, name)
        labels = [f"x{axis}" for axis in range(len(value.shape))]
        for axis, use in enumerate(uses):
            if not isinstance(use, LookedUp):
                labels[axis] = use if isinstance(use, str) else use.terms[0][0]
        out: list[str | Spread] = list(labels)
        for axis in {*flat, *whole}:
            out[axis] = Spread(((labels[axis], 1),), value.shape[axis])
        return self.einsum(name, [(value, labels)], out, Operand("0"), value.bits)

    def einsum(
        self,
        target: str | Stored,
        operands: Sequence[tuple[Value, Sequence[Use]]],
        out: Sequence[str | Spread],
        expression: MapExpression,
        bits: int,
        *,
        reduction: Reduction = "sum",
        extents: Mapping[str, int] | None = None,
        weight: int | None = None,
    ) -> Value:
        """Write a tensor: its value at the labels of `out` is the expression over the operands, reduced over the rest.

        `extents`: of labels that only windows use. `weight`: the operand that is the weight of a contraction. `target`:
        what the tensor is called, or one that is there already, with the ranks that `out` says.
        """
        name = target if isinstance(target, str) else target.name
        given = dict(extents or {})
        operands = [(self.as_expression(value, name), uses) for value, uses in operands]
        if not any(value.leaves for value, _ in operands):
            first, uses = operands[0]
            operands[0] = self._filled(first, f"{name}_input"), uses
        if weight is not None:
            operands[weight] = self._apart(operands, weight)
        contents = self._contents(operands, name, is_contraction=weight is not None)
        digits = self._laid_out(contents, given)
        joined, sign = inserted(expression, list(zip(contents.expressions, contents.signs, strict=True)))
        is_copy = isinstance(joined, Operand) and not _reduces(digits, out) and not contents.gathers
        if not is_copy and _joins_digits(out, digits):
            how: Any = {"reduction": reduction, "extents": extents, "weight": weight}
            return self._through_digits(target, operands, out, expression, bits, **how)
        indices = [self._index(view, uses, digits, given) for view, uses in contents.leaves]
        cuts = tuple(cut for _, found in indices for cut in found)
        inputs = tuple(
            Access(view.tensor, index, self._looked_up(view, uses, contents))
            for (view, uses), (index, _) in zip(contents.leaves, indices, strict=True)
        )
        tensor, index, view = self._output(target, out, digits, bits)
        extents = {digit(label, i): size for label, sizes in digits.items() for i, size in enumerate(sizes)}
        unused = extents.keys() - {v for i in (*index, *(j for a in inputs for j in a.index)) for v, _ in i.terms}
        if unused and reduction == "sum":
            # a sum over what is the same everywhere
            joined = Apply("multiply", (joined, Number(float(prod(extents[v] for v in unused)))))
        place = None if weight is None else contents.first_leaves[weight]
        self.program.einsums.append(
            CascadeEinsum(
                Access(tensor, index),
                inputs,
                joined,
                reduction,
                {v: extent for v, extent in extents.items() if v not in unused},
                {v: "" if re.match(r"x\d", v) else v.partition(".")[0].strip("_") for v in extents},
                place,
                is_copy,
                cuts,
            )
        )
        return stored(view, nonnegative=sign)

    def _through_digits(
        self, target: str | Stored, operands: Any, out: Sequence[str | Spread], *what: Any, **how: Any
    ) -> Value:
        """As `einsum`, by way of a tensor of digits: of outputs that are indexed by sums copies alone can be mapped."""
        labels = [entry if isinstance(entry, str) else entry.terms[0][0] for entry in out]
        name = target if isinstance(target, str) else target.name
        value = self.einsum(f"{name}_digits", operands, labels, *what, **how)
        return self.einsum(target, [(value, labels)], out, Operand("0"), value.bits)

    def _apart(self, operands: Sequence[tuple[Value, Sequence[Use]]], weight: int) -> tuple[Value, Sequence[Use]]:
        """The weight of a contraction: a copy where another operand reads its tensor, so that names tell them apart."""
        value, uses = operands[weight]
        others = [other for i, (other, _) in enumerate(operands) if i != weight and other.is_view]
        tensors = {view.tensor.name for other in others for view in other.leaves}
        if not value.is_view or value.leaves[0].tensor.name not in tensors:
            return value, uses
        return self.copied(value, f"{value.leaves[0].tensor.name}_copy", uses=uses), uses

    def _contents(
        self, operands: Sequence[tuple[Value, Sequence[Use]]], name: str, *, is_contraction: bool
    ) -> Contents:
        """All views that are read, with the use of each of their axes, and the expression of each operand over them."""
        contents = Contents()
        for value, uses in operands:
            # what is read at several points is computed once, before
            is_read_often = is_contraction or any(not isinstance(use, str) for use in uses)
            plain = self.written(value, f"{name}_input", uses) if is_read_often else self.as_expression(value, name)
            places: list[int] = []
            for view in plain.leaves:
                entry = view, tuple(uses)
                if entry not in contents.leaves:
                    contents.leaves.append(entry)
                    contents.bits.append(plain.bits if plain.is_view else view.tensor.bits)
                places.append(contents.leaves.index(entry))
            assert plain.expression is not None
            contents.expressions.append(renumbered(plain.expression, places.__getitem__))
            contents.signs.append(plain.nonnegative)
            contents.first_leaves.append(places[0] if places else None)
        return contents

    def _laid_out(self, contents: Contents, given: Mapping[str, int]) -> dict[str, Sizes]:
        """The digits of each label; leaves are replaced by copies where their digits do not agree."""
        for i, (view, uses) in enumerate(contents.leaves):
            contents.leaves[i] = self._for_windows(stored(view, bits=contents.bits[i]), uses, given), uses
        labels = dict.fromkeys(
            label for _, uses in contents.leaves for use in uses for label in ([use] if isinstance(use, str) else ())
        )
        digits: dict[str, Sizes] = {}
        for label in labels:
            digits[label] = self._digits_of(label, contents)
        for label, extent in given.items():
            digits.setdefault(label, (extent,) if extent > 1 else ())
        return digits

    def _digits_of(self, label: str, contents: Contents) -> Sizes:
        used = [
            (i, axis) for i, (_, uses) in enumerate(contents.leaves) for axis, use in enumerate(uses) if use == label
        ]
        sizes = {contents.leaves[i][0].shape[axis] for i, axis in used}
        if len(sizes - {1}) > 1:
            raise SpecError(f"sizes of one axis differ: {', '.join(map(str, sorted(sizes)))}")
        extent = max(sizes)
        used = [(i, axis) for i, axis in used if contents.leaves[i][0].shape[axis] == extent]
        try:
            digits = common_digits((contents.leaves[i][0], axis) for i, axis in used)
        except LayoutError:
            for i, axis in used:
                view, uses = contents.leaves[i]
                if len(view.axes[axis]) > 1:
                    copy = self.copied(stored(view, bits=contents.bits[i]), f"{view.tensor.name}_flat", flat=[axis])
                    contents.leaves[i] = copy.leaves[0], uses
            digits = common_digits((contents.leaves[i][0], axis) for i, axis in used)
        for i, axis in used:
            view, uses = contents.leaves[i]
            contents.leaves[i] = refined(view, axis, digits), uses
        return digits

    def _for_windows(self, value: Value, uses: Sequence[Use], given: Mapping[str, int]) -> View:
        """A view, or a copy of it where a window needs an axis to be one rank by itself."""
        view = value.leaves[0]
        slid = [axis for axis, use in enumerate(uses) if isinstance(use, Window)]
        if any(isinstance(use, LookedUp) and not view.is_whole(axis) for axis, use in enumerate(uses)):
            whole = [axis for axis, use in enumerate(uses) if isinstance(use, LookedUp)]
            flat = [axis for axis in whole if len(view.axes[axis]) > 1]
            return self.copied(value, f"{view.tensor.name}_rows", flat=flat, whole=whole).leaves[0]
        pads = [axis for axis in slid if not view.is_whole(axis) and leaves_axis(uses[axis], given, view.shape[axis])]
        cut = [axis for axis in slid if axis not in pads and len(view.axes[axis]) > 1]
        if not pads and not cut:
            return view
        return self.copied(value, f"{view.tensor.name}_rows", flat=cut, whole=pads).leaves[0]

    def _index(
        self, view: View, uses: Sequence[Use], digits: Mapping[str, Sizes], given: Mapping[str, int]
    ) -> tuple[tuple[Affine, ...], list[tuple[Affine, int]]]:
        """The index of each rank of a leaf in the variables of the Einsum, and indices that are cut."""
        table: dict[str, Affine] = {}
        cuts: list[tuple[Affine, int]] = []
        for axis, use in enumerate(uses):
            if isinstance(use, str):
                for place in range(len(view.axes[axis])):
                    table[digit(axis, place)] = Affine(((digit(use, place), 1),))
                continue
            if isinstance(use, LookedUp):
                table[digit(axis, 0)] = Affine(())
                continue
            index = composed(use.terms, digits, use.constant)
            low, high = ends_of(use, given)
            size = view.shape[axis]
            if view.axes[axis]:
                table[digit(axis, 0)] = index
            if low >= 0 and high < size:
                continue
            if use.cut:
                cuts.append((index, size))
            else:
                ranks = [i for i, rank in enumerate(view.index) if any(v == digit(axis, 0) for v, _ in rank.terms)]
                self.program.pad(view.tensor, ranks[0], max(0, -low), max(0, high - size + 1))
        return tuple(substituted(index, table) for index in view.index), cuts

    @staticmethod
    def _looked_up(view: View, uses: Sequence[Use], contents: Contents) -> tuple[tuple[int, int], ...]:
        """The ranks of a leaf that are looked up, and which input has their indices."""
        found = []
        for axis, use in enumerate(uses):
            if isinstance(use, LookedUp):
                rank = next(i for i, rank in enumerate(view.index) if rank.terms == ((digit(axis, 0), 1),))
                place = contents.first_leaves[use.operand]
                assert place is not None
                found.append((rank, place))
        return tuple(found)

    def _output(
        self, target: str | Stored, out: Sequence[str | Spread], digits: Mapping[str, Sizes], bits: int
    ) -> tuple[Stored, tuple[Affine, ...], View]:
        """The tensor that is written, the index of each of its ranks, and the tensor as a value."""
        sizes: list[int] = []
        axes: list[Sizes] = []
        index: list[Affine] = []
        for entry in out:
            if isinstance(entry, Spread):
                axes.append((entry.size,))
                sizes.append(entry.size)
                index.append(composed(entry.terms, digits, entry.constant))
                continue
            axes.append(digits[entry])
            sizes += digits[entry]
            index += [Affine(((digit(entry, place), 1),)) for place in range(len(digits[entry]))]
        if isinstance(target, str):
            check_shape(sizes, f"the result of {target!r}")
            target = Stored(self.program.free_name(target), tuple(sizes) or (1,), bits)
        read = tuple(
            Affine(((digit(axis, place), 1),)) for axis, of_axis in enumerate(axes) for place, _ in enumerate(of_axis)
        )
        return target, tuple(index) or (Affine(()),), View(target, tuple(axes), read or (Affine(()),))


def check_shape(shape: Sequence[int], what: str) -> None:
    """Raise SpecError for a tensor without values, or with more than MOST_VALUES."""
    if any(size < 1 for size in shape):
        raise SpecError(f"{what} has the shape {[*shape]}, so that it has no values")
    if prod(shape) > MOST_VALUES:
        raise SpecError(f"{what} has the shape {[*shape]}: {prod(shape):.3g} values, at most 2**40 are allowed")


def _joins_digits(out: Sequence[str | Spread], digits: Mapping[str, Sizes]) -> bool:
    """Whether an axis of the output is one rank, and is made of several digits."""
    spreads = [entry for entry in out if isinstance(entry, Spread)]
    return any(len(digits[label]) > 1 for spread in spreads if len(spread.terms) == 1 for label, _ in spread.terms)


def _reduces(digits: Mapping[str, Sizes], out: Sequence[str | Spread]) -> bool:
    kept = {label for entry in out for label in ([entry] if isinstance(entry, str) else [t for t, _ in entry.terms])}
    return any(sizes and label not in kept for label, sizes in digits.items())
