"""Layers that are equal become one with instances, which exchange values with what is around them as graph inputs.

The Einsums of a model with equal layers repeat: those at the same place of each layer differ in tensors alone. Such a
run is one layer, if each reads what is of its own, what the layer before it gives at one place, and what all share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from einmap.frontends.cascade.program import Access, CascadeEinsum, Program, Stored

FEWEST_EINSUMS = 4
"""Einsums of a layer."""
_MOST_TRIED = 20
"""Lengths of a layer that are tried, those first that leave fewest Einsums."""
_MOST_KINDS = 8
"""Kinds of layers."""


def with_instances(
    program: Program, einsums: list[CascadeEinsum], kept: set[str]
) -> tuple[list[CascadeEinsum], set[str]]:
    """The Einsums with equal layers as one, and the tensors that are results then; as they are without equal layers.

    Layers of several kinds, as those of an encoder and of a decoder, are one each. What passes between a layer and
    others is a result where it is written, and a graph input where it is read.
    """
    for _ in range(_MOST_KINDS):
        runs = (_Run(einsums, *found) for found in _runs(einsums))
        run = next((run for run in runs if run.is_foldable()), None)
        if run is None:
            break
        einsums, kept = run.folded(program, kept)
    return einsums, kept


def _runs(einsums: Sequence[CascadeEinsum]) -> list[tuple[int, int, int]]:
    """Where Einsums repeat: start, length of a layer, how many layers; those that save most first."""
    numbers: dict[Any, int] = {}
    # one that stands for several already is like no other
    kinds = [_kind_of(einsum) if einsum.instances == 1 else einsum.name for einsum in einsums]
    marks = np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds])
    contracts = np.array([einsum.weight is not None for einsum in einsums])
    found = []
    for length in range(FEWEST_EINSUMS, len(marks) // 2 + 1):
        same = np.concatenate(([False], marks[length:] == marks[:-length], [False]))
        edges = np.flatnonzero(same[1:] != same[:-1])
        for begin, end in zip(edges[::2], edges[1::2], strict=True):
            count = int(end - begin) // length + 1
            if count > 1 and contracts[begin : begin + length].any():
                found.append((length * (count - 1), -length, int(begin), count))
    return [(begin, -length, count) for _, length, begin, count in sorted(found, reverse=True)[:_MOST_TRIED]]


def _kind_of(einsum: CascadeEinsum) -> Any:
    """Facts of an Einsum without names of tensors: those of equal layers are equal."""
    accesses = [
        (a.tensor.sizes, a.tensor.bits, a.index, a.looked_up, a.tensor.weight) for a in (einsum.output, *einsum.inputs)
    ]
    extents = tuple(einsum.extents.items())
    return tuple(accesses), einsum.expression, einsum.reduction, extents, einsum.weight, einsum.is_copy, einsum.cuts


@dataclass(frozen=True, slots=True)
class _Run:
    """Equal layers among Einsums: `count` of `length` Einsums, from `start` on."""

    einsums: Sequence[CascadeEinsum]
    start: int
    length: int
    count: int

    @property
    def end(self) -> int:
        """Behind the last Einsum of the run."""
        return self.start + self.length * self.count

    def places(self) -> dict[str, tuple[int, int]]:
        """The layer and the place in it that write each tensor of the run."""
        layers = enumerate(self.einsums[self.start : self.end])
        return {einsum.name: divmod(i, self.length) for i, einsum in layers}

    def is_foldable(self) -> bool:
        """Whether all layers are joined to one another, and to the rest, in one way."""
        places = self.places()
        for j in range(self.length):
            layers = [self.einsums[self.start + b * self.length + j] for b in range(self.count)]
            for tensors in zip(*([a.tensor for a in e.inputs] for e in layers), strict=True):
                if not _is_regular([places.get(t.name) for t in tensors], tensors):
                    return False
        return True

    def folded(self, program: Program, kept: set[str]) -> tuple[list[CascadeEinsum], set[str]]:
        """The Einsums with the second layer in place of all of them, and the tensors that are results then.

        The second reads what the one before it gives, and what all share, as tensors of their own; the first may not.
        """
        places = self.places()
        layer = self.einsums[self.start + self.length : self.start + 2 * self.length]
        before, after = self.einsums[: self.start], self.einsums[self.end :]
        own = {einsum.name for einsum in layer}
        elsewhere = {a.tensor.name for e in (*before, *after) for a in e.inputs}
        written = {einsum.name for einsum in before}
        made: dict[str, Stored] = {}

        def given(tensor: Stored) -> Stored:
            """The tensor as a graph input of its own."""
            if tensor.name not in made:
                name = program.free_name(f"{tensor.name}_in")
                made[tensor.name] = replace(tensor, name=name, source=tensor.source or name)
                if tensor.name in program.margins:
                    program.margins[name] = [*program.margins[tensor.name]]
            return made[tensor.name]

        def of_layer(access: Access) -> Access:
            name = access.tensor.name
            return (
                access
                if name in own or name not in written | elsewhere
                else replace(access, tensor=given(access.tensor))
            )

        def behind(access: Access) -> Access:
            return replace(access, tensor=given(access.tensor)) if access.tensor.name in places else access

        one = [replace(e, inputs=tuple(map(of_layer, e.inputs)), instances=self.count) for e in layer]
        rest = [replace(e, inputs=tuple(map(behind, e.inputs))) for e in after]
        # what other layers or what is behind them reads, and what is a result of one of them
        read = {a.tensor.name for e in after for a in e.inputs}
        read |= {
            a.tensor.name
            for i, e in enumerate(self.einsums[self.start : self.end])
            for a in e.inputs
            if a.tensor.name in places and places[a.tensor.name][0] != i // self.length
        }
        results = {layer[places[name][1]].name for name in (kept | read) & places.keys()}
        taken = {a.tensor.name for e in self.einsums[self.start : self.end] for a in e.inputs} & written
        return [*before, *one, *rest], (kept - places.keys()) | results | taken


def _is_regular(places: list[tuple[int, int] | None], tensors: Sequence[Stored]) -> bool:
    """Whether tensors that layers read at one place are their own, those of the layer before, or one for all."""
    first, *others = [None if place is None else (i - place[0], place[1]) for i, place in enumerate(places)]
    if len({*others}) != 1:
        return False
    if others[0] is None:
        names = {tensor.name for tensor in tensors}
        are_own = len(names) == len(tensors) and all(tensor.source is not None for tensor in tensors)
        return first is None and (len(names) == 1 or are_own)
    back = others[0][0]
    return first == others[0] if back == 0 else first is None and back == 1
