"""Constraints on the lanes of a fanout: which dimensions lie along X and Y, and how far each is spread.

Timeloop orders all dimensions by `permutation`; those in front of number `split` lie along X, the others along Y
(`Uber::AssignSpatialTilingDirections_Level_Expand`). Dimensions that a permutation does not name may stand in any order
behind those that it does, and before those behind its `_`. Without `split` any place of it is searched.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from einmap.errors import SpecError
from einmap.expressions.scope import Scope
from einmap.frontends.foreign import Report, an_integer
from einmap.frontends.timeloop.constraints import Directive, factors, permutation, place
from einmap.frontends.timeloop.levels import Level
from einmap.frontends.timeloop.problem import Problem

KEYS = ("factors", "permutation", "split", "default_max_factor", "default_min_factor")
_BOTH = frozenset("XY")
_MANY = 12
"""Factors of which each may lie along X or Y; all places of more are not looked at."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit of spatial loops over a rank variable."""

    variable: str
    operator: str
    value: int


@dataclass(slots=True)
class Spread:
    """All that constraints say of one fanout. Factors by dimension: `exact` ones, at most, and at least."""

    level: Level
    exact: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    split: int | None = None
    directives: list[Directive] = field(default_factory=list)

    def read(self, directive: Directive, problem: Problem, scope: Scope, report: Report) -> None:
        """Add what a constraint says. Raises SpecError where it contradicts an earlier one."""
        self.directives.append(directive)
        self._read_factors(directive, problem, scope, report)
        fields, what = directive.fields, directive.target
        for key, found, add in (("default_max_factor", self.most, min), ("default_min_factor", self.least, max)):
            if fields.get(key) is not None:
                value = an_integer(fields.get(key), f"{what}.{key}", scope)
                found |= {name: add(found.get(name, value), value) for name in problem.dimensions if name not in found}
        first, last = permutation(fields.get("permutation"), f"{what}.permutation", problem.dimensions)
        if (first or last) and (self.first or self.last) and (first, last) != (self.first, self.last):
            raise self._twice(directive, "permutation")
        self.first, self.last = (first, last) if first or last else (self.first, self.last)
        if fields.get("split") is not None:
            split = an_integer(fields.get("split"), f"{what}.split", scope, 0)
            if self.split not in (None, split):
                raise self._twice(directive, "split")
            self.split = split

    def _read_factors(self, directive: Directive, problem: Problem, scope: Scope, report: Report) -> None:
        what = f"{directive.target}.factors"
        for factor in factors(directive.fields.get("factors"), what, problem.dimensions, scope):
            name, value, at = factor.dimension, factor.value, place(directive, "factors")
            size = problem.sizes.get(name, 1)
            if value == 0:
                reason = f"what is left of {name} is no limit; where all {size} are meant, write {name}={size}"
                report.leave(at, f"{name}=0", reason)
                continue
            if factor.last is not None:
                reason = "a limit is on the iterations of all but the last one, whose number follows"
                report.leave(at, f"{name}={value},{factor.last}", reason)
            if factor.operator != "<=" and value > size:
                reason = f"{name} has {size}: Timeloop passes over a factor that is larger"
                report.leave(at, f"{name}{factor.written}{value}", reason)
                continue
            if factor.operator == "==":
                if self.exact.setdefault(name, value) != value:
                    raise self._twice(directive, "factors", f"{name}={self.exact[name]} and {name}={value}")
            else:
                found, add = (self.most, min) if factor.operator == "<=" else (self.least, max)
                found[name] = add(found.get(name, value), value)

    def _twice(self, directive: Directive, key: str, what: str = "") -> SpecError:
        text = f"two constraints give {self.level.name} different {what or key}"
        return SpecError(text, at=place(directive, key), hint="leave one out")

    def check(self) -> None:
        """Raise SpecError for a dimension whose limits leave no factor."""
        for name in dict.fromkeys((*self.exact, *self.least)):
            value = max(self.exact.get(name, 1), self.least.get(name, 1))
            most = min(self.exact.get(name, value), self.most.get(name, value))
            if most < value:
                text = f"{name} is to have a factor of at least {value} and of at most {most} in {self.level.name}"
                raise SpecError(text, at=place(self.directives[-1], "factors"))

    def axes(self, dimensions: Sequence[str]) -> dict[str, frozenset[str]]:
        """Where each dimension may lie: along X, along Y, or both. Raises SpecError where factors have no room."""
        possible = dict.fromkeys(dimensions, frozenset[str]())
        for placed in self._placements(dimensions):
            for name, places in placed.items():
                possible[name] |= places
        if not any(possible.values()):
            named = " ".join(f"{name}={value}" for name, value in self._needed(dimensions).items())
            x, y = self.level.fanout
            text = f"{named} have no room in {self.level.name}, which has {x} copies along X and {y} along Y"
            if self.split is not None:
                text += f", with the first {self.split} of the permutation along X"
            raise SpecError(text, at=place(self.directives[-1], "factors"))
        return possible

    def _needed(self, dimensions: Sequence[str]) -> dict[str, int]:
        """Lanes that a dimension needs, where these are several."""
        needed = {name: self.exact.get(name, self.least.get(name, 1)) for name in dimensions}
        return {name: value for name, value in needed.items() if value > 1}

    def _placements(self, dimensions: Sequence[str]) -> Iterator[dict[str, frozenset[str]]]:
        """Ways to lay all dimensions along X and Y in which what is needed has room."""
        needed = self._needed(dimensions)
        free = [name for name in dimensions if name not in (*self.first, *self.last)]
        behind = len(dimensions) - len(self.last)
        splits: Sequence[int | None] = (self.split,)
        if self.split is None and (self.first or self.last):
            splits = range(len(dimensions) + 1)
        for split in splits:
            placed = dict.fromkeys(free, _BOTH)
            if split is not None:
                placed |= {name: frozenset("X" if i < split else "Y") for i, name in enumerate(self.first)}
                placed |= {name: frozenset("X" if behind + i < split else "Y") for i, name in enumerate(self.last)}
                if not len(self.first) < split < behind:
                    placed |= dict.fromkeys(free, frozenset("Y" if split <= len(self.first) else "X"))
            either = [name for name in needed if placed[name] == _BOTH]
            for axes in product("XY", repeat=len(either)) if len(either) <= _MANY else [()]:
                chosen = placed | {name: frozenset(axis) for name, axis in zip(either, axes, strict=False)}
                if self._has_room(needed, chosen):
                    yield chosen

    def _has_room(self, needed: Mapping[str, int], placed: Mapping[str, frozenset[str]]) -> bool:
        for axis, room in zip("XY", self.level.fanout, strict=True):
            if math.prod(value for name, value in needed.items() if placed[name] == frozenset(axis)) > room:
                return False
        return True

    def limits(self, problem: Problem, report: Report) -> dict[str, list[Limit]]:
        """Limits on spatial loops along each dimension of the fanout that has copies; what they cannot say is left."""
        self.check()
        possible = self.axes(problem.dimensions)
        real = [axis for axis, copies in zip("XY", self.level.fanout, strict=True) if copies > 1] or ["X"]
        found: dict[str, list[Limit]] = {axis: [] for axis in real}
        for name in dict.fromkeys((*self.exact, *self.most, *self.least, *problem.dimensions)):
            variable = problem.variables.get(name)
            if variable is None:
                continue
            places = [axis for axis in real if axis in possible[name]]
            own = [Limit(variable, op, value) for op, value in self._own(name)]
            for axis in real:
                if axis not in places:
                    found[axis].append(Limit(variable, "==", 1))
                elif len(places) == 1 or own == [Limit(variable, "==", 1)]:
                    found[axis] += own
                else:
                    found[axis] += [Limit(variable, "<=", limit.value) for limit in own if limit.operator != ">="]
            self._leave_either(name, own, places, report)
        return found

    def _own(self, name: str) -> list[tuple[str, int]]:
        if name in self.exact:
            return [("==", self.exact[name])]
        found = ((">=", self.least.get(name, 1)), ("<=", self.most.get(name, 0)))
        return [(op, value) for op, value in found if value > (1 if op == ">=" else 0)]

    def _leave_either(self, name: str, own: Sequence[Limit], places: Sequence[str], report: Report) -> None:
        """Say what is lost where a dimension may lie along X or Y."""
        for limit in own:
            if len(places) > 1 and limit.value > 1:
                at = next((place(d, "factors") for d in self.directives if d.fields.get("factors") is not None), None)
                at = at or place(self.directives[-1], "split")
                kept = "" if limit.operator == ">=" else f"; each has at most {limit.value}"
                reason = f"it may lie along X or Y, since permutation and split do not say where, or along both{kept}"
                report.leave(at, f"{name}{'=' if limit.operator == '==' else limit.operator}{limit.value}", reason)
