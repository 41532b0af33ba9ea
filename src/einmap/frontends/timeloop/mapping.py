"""Timeloop's mapping as a LoopTree: factors become tile shapes, levels storage nodes of their tensors.

A level of Timeloop holds its data spaces at one place, and what the loops directly above it do not change is not
fetched again. Here the place of a storage node says it: the node of a tensor stands above the loops that do not index
it, as far out as the next outer node of that tensor. Where the innermost loop above a level moves a window over the
tensor (`p + r`), Timeloop counts what is new in it alone: the node is a line buffer. Where a loop inside of that one
leaves the window in place, Timeloop's outputs have each window whole. What differs or surprises is noted (`overlaps`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from einmap.einsum.spaces.projection import Relevance
from einmap.errors import Note, SpecError, did_you_mean
from einmap.expressions.scope import Scope
from einmap.frontends.foreign import Report, an_integer, named
from einmap.frontends.timeloop.architecture import Machine, axes, level_of
from einmap.frontends.timeloop.constraints import (
    DATASPACE,
    Directive,
    Kept,
    directives,
    factors,
    kept,
    permutation,
    place,
)
from einmap.frontends.timeloop.levels import Level
from einmap.frontends.timeloop.overlaps import Hold, Loop, overlaps, relevance_of
from einmap.frontends.timeloop.problem import DataSpace, Problem
from einmap.spec.raw import Raw, RawMap, from_python


@dataclass(slots=True)
class _Orders:
    """Loops of one level in a mapping, by kind: factors, iterations of the last time where they differ, order."""

    factors: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    split: int | None = None
    at: Directive | None = None


@dataclass(frozen=True, slots=True)
class Nest:
    """A mapping: the section `mapping` of a specification, its loops, and who holds what, both outermost first."""

    raw: RawMap
    loops: Sequence[Loop]
    holds: Sequence[Hold]
    widened: Mapping[str, tuple[int, int]]
    """Lanes along X and Y of fanouts that have more than their copies, packed into these."""


def read_mapping(raw: Raw, machine: Machine, problem: Problem, report: Report, scope: Scope) -> Nest:
    """The mapping of a file. Raises SpecError with the place of what is wrong."""
    return _Reader(machine, problem, report, scope).mapping(raw)


class _Reader:
    def __init__(self, machine: Machine, problem: Problem, report: Report, scope: Scope) -> None:
        self._machine = machine
        self._problem = problem
        self._report = report
        self._scope = scope
        self._spatial: dict[str, _Orders] = {}
        self._temporal: dict[str, _Orders] = {}
        self._kept: dict[str, Kept] = dict(machine.kept)
        self._widened: dict[str, tuple[int, int]] = {}

    def mapping(self, raw: Raw) -> Nest:
        for directive in directives(raw, "mapping", self._report):
            self._read(directive)
        self._resolve_rests(raw)
        loops = self._loops()
        holds = [hold for space in self._problem.spaces for hold in self._holds(space, loops, raw)]
        for text in overlaps(self._problem, self._machine.levels, loops, holds):
            self._report.notes.append(Note(text, at=named(raw.at, "mapping"), kind="advice"))
        section = from_python({"mapping": {"nodes": self._nodes(loops, holds)}})
        assert isinstance(section, RawMap)
        return Nest(section, loops, holds, self._widened)

    # directives

    def _read(self, directive: Directive) -> None:
        kind, fields = directive.kind, directive.fields
        if kind not in ("dataspace", "spatial", "temporal"):
            self._report.leave(place(directive, "type"), kind, "this kind of directive has no counterpart")
            return
        level = level_of(self._machine.levels, directive.target, kind)
        if level is None and kind == "temporal":  # a level without entries, whose loops stand outside its copies
            level = level_of(self._machine.levels, directive.target, "spatial")
        if level is None:
            self._without_level(directive)
            return
        if kind == "dataspace":
            self._report.leave_others(fields, DATASPACE, "this field of a directive has no counterpart")
            bypass = kept(directive, self._problem.tensors).bypass
            self._kept[level.name] = Kept(frozenset(self._problem.tensors) - bypass, bypass)
            return
        known = ("type", "target", "name", "factors", "permutation", "split")
        self._report.leave_others(fields, known, "this field of a directive has no counterpart")
        found = self._spatial if kind == "spatial" else self._temporal
        if level.name in found:
            text = f"two {kind} directives for {directive.target}"
            raise SpecError(text, at=named(fields.at, f"mapping {directive.target}"))
        orders = found[level.name] = self._orders(directive)
        if kind == "temporal" and level.kind == "compute" and any(n > 1 for n in orders.factors.values()):
            raise SpecError(f"{directive.target} computes, it has no loops", at=place(directive, "factors"))

    def _orders(self, directive: Directive) -> _Orders:
        fields, what, dimensions = directive.fields, directive.target, self._problem.dimensions
        written = factors(fields.get("factors"), f"{what}.factors", dimensions, self._scope)
        first, last = permutation(fields.get("permutation"), f"{what}.permutation", dimensions)
        order = (*first, *(name for name in dimensions if name not in (*first, *last)), *last)
        split = fields.get("split")
        return _Orders(
            {factor.dimension: factor.value for factor in written},
            {factor.dimension: factor.last for factor in written if factor.last not in (None, factor.value)},
            order,
            None if split is None else an_integer(split, f"{what}.split", self._scope, 0),
            directive,
        )

    def _without_level(self, directive: Directive) -> None:
        """A directive for a level that is not there: nothing where it says nothing, as those of dummies do."""
        levels, target, kind = self._machine.levels, directive.target, directive.kind
        names = {name for level in levels for name in level.targets}
        is_known = target in names or (target.startswith("inter_") and target.endswith("_spatial"))
        if not is_known:
            hint = did_you_mean(target, names, listing="levels")
            raise SpecError(f"{target!r} is not a level of the architecture", at=place(directive, "target"), hint=hint)
        if kind != "dataspace" and any(n > 1 for n in self._orders(directive).factors.values()):
            what = "copies" if kind == "spatial" else "loops in time"
            raise SpecError(f"{target} has no {what}", at=place(directive, "factors"))
        if kind == "dataspace" and kept(directive, self._problem.tensors).keep:
            raise SpecError(f"{target} holds nothing, it is a fanout", at=place(directive, "keep"))

    def _resolve_rests(self, raw: Raw) -> None:
        """Replace a factor of 0 by what is left of its dimension, and check that all factors make up the sizes."""
        everything = [*self._temporal.values(), *self._spatial.values()]
        for dimension in self._problem.dimensions:
            if any(dimension in orders.last for orders in everything):
                self._check_remainders(dimension, raw)
                continue
            size = self._problem.sizes.get(dimension, 1)
            product = math.prod(orders.factors.get(dimension, 1) or 1 for orders in everything)
            open_ones = [orders for orders in everything if orders.factors.get(dimension) == 0]
            if len(open_ones) == 1 and size % product == 0:
                open_ones[0].factors[dimension] = size // product
                continue
            if product != size or open_ones:
                text = f"the factors of {dimension} make {product}, its size is {size}"
                hint = "one factor of 0 stands for what is left" if not open_ones else "one factor of 0 at most"
                raise SpecError(text, at=named(raw.at, "mapping"), hint=hint)

    def _check_remainders(self, dimension: str, raw: Raw) -> None:
        """Check that factors with remainders make up the size of a dimension.

        Of n iterations further out the last one has `last` of the factor, all others have it whole: there are
        (n - 1) * factor + last. So einmap cuts an extent by the same tile shapes, with what is left at the end.
        """
        iterations = 1
        for orders, _ in self._in_order():
            factor = orders.factors.get(dimension, 1)
            if factor == 0:
                text = f"a factor of 0 for {dimension} beside factors with remainders"
                raise SpecError(text, at=named(raw.at, "mapping"), hint="write the number of iterations")
            last = orders.last.get(dimension, factor)
            iterations = (iterations - 1) * factor + last
        self._note_single(dimension)
        size = self._problem.sizes.get(dimension, 1)
        if iterations != size:
            text = f"the factors of {dimension} with their remainders make {iterations}, its size is {size}"
            hint = "P=7,3 inside of P=3 makes 2 * 7 + 3"
            raise SpecError(text, at=named(raw.at, "mapping"), hint=hint)

    def _in_order(self) -> Iterator[tuple[_Orders, Level]]:
        """Loops in time, then copies, of each level, outermost first."""
        for level in self._machine.levels:
            for found in (self._temporal, self._spatial):
                if level.name in found:
                    yield found[level.name], level

    def _note_single(self, dimension: str) -> None:
        for orders in self._temporal.values():
            if orders.last.get(dimension) == 1 and orders.at is not None:
                text = (
                    f"{dimension} has one iteration of {orders.factors[dimension]} the last time: Timeloop keeps tiles "
                    "that stay where they are then, which are fetched again here"
                )
                self._report.notes.append(Note(text, at=place(orders.at, "factors"), kind="advice"))

    # loops

    def _loops(self) -> list[Loop]:
        """All loops of more than one iteration, outermost first."""
        loops: list[Loop] = []
        for orders, level in self._in_order():
            outermost_first = [d for d in reversed(orders.order) if orders.factors.get(d, 1) > 1]
            axis_of = self._axes_of(level, orders) if orders is self._spatial.get(level.name) else {}
            loops += [Loop(level, d, orders.factors[d], axis_of.get(d)) for d in outermost_first]
        return loops

    def _axes_of(self, level: Level, orders: _Orders) -> dict[str, str]:
        """X or Y for each dimension: X in front of `split`; without it X is filled first. Raises SpecError."""
        dimensions = axes(level)
        used = [d for d in orders.order if orders.factors.get(d, 1) > 1]
        room = dict(zip("XY", level.fanout, strict=True))
        chosen: dict[str, str] = {}
        for dimension in used:
            n = orders.factors[dimension]
            if orders.split is not None:
                axis = "X" if orders.order.index(dimension) < orders.split else "Y"
                axis = axis if axis in dimensions or room["XY".replace(axis, "")] < n else dimensions[0]
            else:
                axis = next((name for name in dimensions if room[name] >= n), dimensions[-1])
            if room[axis] < n and self._machine.packs:
                x, y = self._widened.get(level.name, level.fanout)
                times = -(-n // room[axis])
                self._widened[level.name] = (x * times, y) if axis == "X" else (x, y * times)
                room[axis] *= times
            if room[axis] < n:
                text = f"{dimension}={n} needs more copies than {level.name} has left along {axis}"
                shown = " x ".join(str(copies) for copies in level.fanout)
                at = place(orders.at, "factors") if orders.at else level.at
                raise SpecError(text, at=at, hint=f"{level.name} has {shown}; split says what goes along X")
            room[axis] //= n
            chosen[dimension] = axis
        return chosen

    # storage nodes

    def _holds(self, space: DataSpace, loops: Sequence[Loop], raw: Raw) -> list[Hold]:
        name = next(name for name, tensor in self._problem.tensors.items() if tensor == space.tensor)
        holds: list[Hold] = []
        for level in self._machine.levels:
            if level.kind != "memory" or not self._keeps(level, name):
                continue
            start = self._start(level, loops)
            above = 0 if not holds else holds[-1].position
            holds.append(self._hold(level, space, loops[:start], above) if holds else Hold(level, space, 0, False))
        if not holds:
            raise SpecError(f"no level keeps {name}", at=named(raw.at, "mapping"))
        return holds

    def _keeps(self, level: Level, space: str) -> bool:
        own = self._kept.get(level.name)
        if own is None:
            return True
        return space in own.keep or (space not in own.bypass and not (own.keep and not own.bypass))

    def _start(self, level: Level, loops: Sequence[Loop]) -> int:
        """How many loops stand above a level."""
        order = {other.name: i for i, other in enumerate(self._machine.levels)}
        return sum(1 for loop in loops if order[loop.level.name] < order[level.name])

    def _hold(self, level: Level, space: DataSpace, above: Sequence[Loop], least: int) -> Hold:
        """The storage node below the loops `above`, moved outward over those that do not index the tensor."""
        position = len(above)
        innermost = next((loop for loop in reversed(above) if loop.axis is None), None)
        while position > least:
            loop = above[position - 1]
            if loop.axis is None and relevance_of(self._problem, space, loop) is not Relevance.NONE:
                break
            position -= 1
        # spatial loops that were passed last stay outside: their place does not matter
        while position < len(above) and above[position].axis is not None:
            position += 1
        slides = innermost is not None and self._moves_a_window(space, innermost)
        return Hold(level, space, position, slides)

    def _moves_a_window(self, space: DataSpace, loop: Loop) -> bool:
        """Whether a loop moves a window of more than one value over a data space."""
        if relevance_of(self._problem, space, loop) is not Relevance.PARTIAL:
            return False
        variable = self._problem.variables[loop.dimension]
        size_of = {self._problem.variables[name]: size for name, size in self._problem.sizes.items()}
        sums = [index for index in space.indices if variable in dict(index.terms)]
        return any(size_of[v] > 1 for index in sums for v, _ in index.terms if v != variable)

    def _nodes(self, loops: Sequence[Loop], holds: Sequence[Hold]) -> list[dict[str, object]]:
        shapes: dict[str, int] = {}
        for each in loops:
            shapes[each.dimension] = shapes.get(each.dimension, 1) * each.iterations
        nodes: list[dict[str, object]] = []
        for position, loop in enumerate([*loops, None]):
            nodes += self._storages([hold for hold in holds if hold.position == position])
            if loop is None:
                continue
            shapes[loop.dimension] //= loop.iterations
            node: dict[str, object] = {
                "type": "Temporal" if loop.axis is None else "Spatial",
                "rank_variable": self._problem.variables[loop.dimension],
                "tile_shape": shapes[loop.dimension],
            }
            if loop.axis is not None:
                node |= {"component": self._machine.components[loop.level.name], "name": loop.axis}
            nodes.append(node)
        nodes.append({"type": "Compute", "einsum": self._problem.einsum, "component": self._machine.compute})
        return nodes

    def _storages(self, holds: Sequence[Hold]) -> list[dict[str, object]]:
        """Storage nodes at one place, outermost level first; tensors of one level together."""
        order = {level.name: i for i, level in enumerate(self._machine.levels)}
        groups: dict[tuple[int, bool], list[Hold]] = {}
        for hold in holds:
            groups.setdefault((order[hold.level.name], hold.slides), []).append(hold)
        nodes: list[dict[str, object]] = []
        for (_, slides), group in sorted(groups.items(), key=lambda entry: entry[0]):
            component = self._machine.components[group[0].level.name]
            node: dict[str, object] = {"type": "Storage", "component": component}
            node["tensors"] = [hold.space.tensor for hold in group]
            nodes.append(node | {"sliding_window": True} if slides else node)
        return nodes
