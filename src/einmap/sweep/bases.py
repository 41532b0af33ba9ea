"""The specifications of a sweep before and after the values of a point are put in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from einmap.errors import EinmapError, SpecError, did_you_mean, raise_all
from einmap.frontends.files import noted_reading
from einmap.frontends.yaml.spec import load
from einmap.spec.raw import RawMap, format_path, get_value, parse_path
from einmap.spec.spec import Spec
from einmap.sweep.definition.definition import Definition, SweptWorkload
from einmap.sweep.definition.points.axes import Axis, Value
from einmap.sweep.definition.points.grid import Point

type Settings = tuple[tuple[str, Value], ...]
"""Paths as `Spec.set` takes them, and what goes there."""
MOST_BASES = 64
"""Loaded specifications that are kept: one for each workload and choice of template variables."""
_NEED_NOT_BE = frozenset({"arch", "mapper", "model", "config"})
"""Sections with fields that may be left out: their shape is checked with the value in place."""


@dataclass(frozen=True)
class Base:
    """A specification as loaded, and where the values of the axes go in it, by their paths as written.

    `files` were read for it, and their templates ask for `variables`.
    """

    spec: Spec
    places: Mapping[str, str]
    files: tuple[Path, ...]
    variables: frozenset[str]


@dataclass
class Bases:
    """The specifications of a definition, loaded as they are needed."""

    definition: Definition
    _loaded: OrderedDict[tuple[object, ...], Base] = field(default_factory=OrderedDict)

    def base(self, workload: SweptWorkload, point: Point) -> Base:
        """The specification of a workload before the values of a point are put in. Raises SpecError."""
        variables = {a.variable: point.values[a.name] for a in self.definition.grid.axes if a.variable is not None}
        key = (workload.name, *(repr(value) for value in variables.values()))
        if key in self._loaded:
            self._loaded.move_to_end(key)
            return self._loaded[key]
        define = {**self.definition.define, **workload.define, **variables}
        files = [*workload.files, *self.definition.files]
        with noted_reading() as read:
            spec = load(files, define=define, root=self.definition.root)
            if self.definition.asked.action == "plan":
                from einmap.sweep.actions.planned import for_planning  # takes long to import

                spec = for_planning(spec, self.definition.mesh, self.definition.root)
        self._check_sections(spec, workload)
        if spec.raw.get("arch") is not None and spec.runs_code:
            hint = "einmap map takes it; results are told apart by what a specification says"
            raise SpecError("a sweep takes no specification whose costs Python code decides", hint=hint)
        if self.definition.asked.action == "evaluate":
            with suppress(EinmapError):  # it is told at each point
                _ = spec.mapping  # read once for all points that change the architecture alone
        base = Base(spec, _places(spec, self.definition.grid.axes), tuple(read.files), frozenset(read.variables))
        self._loaded[key] = base
        if len(self._loaded) > MOST_BASES:
            self._loaded.popitem(last=False)
        return base

    def settings(self, base: Base, point: Point) -> Settings:
        """Fields of a specification that a point sets."""
        axes = self.definition.grid.axes
        return tuple((base.places[path], point.values[axis.name]) for axis in axes for path in axis.paths)

    def check(self, first: Point) -> tuple[str, ...]:
        """Load what the first point needs; gives the files that were read.

        Raises SpecError (several problems together) for paths that lead nowhere, fields and template variables that do
        not exist, and where there is no mapping to evaluate.
        """
        bases = [self._checked(workload, first) for workload in self.definition.workloads]
        variables = frozenset[str]().union(*(base.variables for base in bases))
        axes = self.definition.grid.axes
        problems = [_unused(a, variables) for a in axes if a.variable is not None and a.variable not in variables]
        names = {*self.definition.define, *(name for w in self.definition.workloads for name in w.define)}
        raise_all([*problems, *(_unasked(name, variables) for name in sorted(names - variables))])
        return tuple(dict.fromkeys(str(file) for base in bases for file in base.files))

    def _checked(self, workload: SweptWorkload, first: Point) -> Base:
        base = self.base(workload, first)
        spec = with_settings(base.spec, self.settings(base, first))
        if self.definition.asked.action == "plan":
            from einmap.sweep.actions.planned import planning_of

            planning_of(spec, self.definition.asked)
            return base
        for part in ("arch_inputs", "mapper_options", "model_options"):
            getattr(spec, part)  # for their errors: the shape of what the values were put into
        return base

    def _check_sections(self, spec: Spec, workload: SweptWorkload) -> None:
        action = self.definition.asked.action
        for section in ("distribution", "workload") if action == "plan" else ("arch", "workload"):
            if spec.raw.get(section) is None:
                hint = "name a file with it under `specs` or `files`"
                hint = "give `mesh`, such as {x: 8}" if section == "distribution" else hint
                raise SpecError(f"the specification of workload {workload.name!r} has no {section}", hint=hint)
        if action == "evaluate" and spec.raw.get("mapping") is None:
            hint = "add a file with a mapping, or use action: map"
            raise SpecError(f"there is no mapping to evaluate for workload {workload.name!r}", hint=hint)


def with_settings(spec: Spec, settings: Settings) -> Spec:
    """The specification with the values in place. Raises SpecError."""
    for path, value in settings:
        spec = spec.set(path, value)
    return spec


def _unused(axis: Axis, variables: frozenset[str]) -> SpecError:
    hint = did_you_mean(str(axis.variable), variables, listing="template variables")
    return SpecError(f"no file has a template variable {axis.variable}", at=axis.at, hint=hint)


def _unasked(name: str, variables: frozenset[str]) -> SpecError:
    hint = did_you_mean(name, variables, listing="template variables")
    return SpecError(f"define {name}: no file has a template variable {name}", hint=hint)


def _places(spec: Spec, axes: tuple[Axis, ...]) -> dict[str, str]:
    problems: list[EinmapError] = []
    places: dict[str, str] = {}
    for axis in axes:
        for path in axis.paths:
            try:
                places[path] = place_in(spec, path)
            except SpecError as problem:
                problem.at = problem.at or axis.at
                problems.append(problem)
    raise_all(problems)
    return places


def place_in(spec: Spec, path: str) -> str:
    """The path for `Spec.set`: `arch.GlobalBuffer.size` stands for the component of that name, wherever it is.

    Raises SpecError with close names where the path leads nowhere.
    """
    steps = parse_path(path)
    arch = spec.raw.get("arch")
    if len(steps) > 1 and steps[0] == "arch" and isinstance(arch, RawMap) and arch.get(str(steps[1])) is None:
        leaves = {leaf.given.name: leaf.path for leaf in spec.arch_inputs.leaves}
        if steps[1] not in leaves:
            hint = did_you_mean(str(steps[1]), [*leaves, *arch.keys()], listing="components and fields")
            raise SpecError(f"{path}: the architecture has no {steps[1]!r}", hint=hint)
        steps = (*leaves[str(steps[1])], *steps[2:])
    if len(steps) < 2:
        raise SpecError(f"{path}: a path leads to one field", hint="for example arch.GlobalBuffer.size")
    if steps[0] in _NEED_NOT_BE:
        if len(steps) > 2:
            get_value(spec.raw, steps[:-1])
    else:
        get_value(spec.raw, steps)
    return format_path(steps)
