"""A sweep file or dictionary becomes a definition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from einmap.distribute.costs.cost_model import PLAN_METRICS
from einmap.distribute.placements.mesh import check_axis
from einmap.errors import At, EinmapError, SpecError, attempt, closest, did_you_mean, raise_all
from einmap.expressions.arithmetic import number
from einmap.expressions.scope import Scope
from einmap.frontends.files import exists
from einmap.frontends.yaml.folders import FolderNames, Roots
from einmap.frontends.yaml.include import Documents
from einmap.frontends.yaml.spec import example_paths
from einmap.mapper.objective.metrics import ALIASES, DEFAULT, added_metric
from einmap.mapper.problem.options import metrics_named
from einmap.model.counting.semantics import semantics_named
from einmap.spec.raw import Raw, RawMap, content, from_python, place
from einmap.spec.schema.base import check
from einmap.spec.schema.options import MapperInput
from einmap.sweep.definition.definition import NOT_OF_PLANS, OBJECTIVES, OF_PLANS, Asked, Definition, SweptWorkload
from einmap.sweep.definition.inputs import ACTIONS, SweepInput
from einmap.sweep.definition.points.axes import linked, read_axis
from einmap.sweep.definition.points.grid import Condition, Grid
from einmap.visible import short

KIND = "sweeps"
"""The folder of shipped sweeps."""
_TOP = ("sweep",)


@dataclass(frozen=True, slots=True)
class _Folder:
    """Where the files of a sweep are looked for, and which folders they may be in; None: in any."""

    path: Path
    roots: Roots | None

    def files(self, names: list[str], at: Callable[..., At]) -> tuple[str, ...]:
        """Files as they are found from here: beside the sweep file, or examples by name. Raises SpecError."""
        shipped = example_paths()
        files = []
        for i, name in enumerate(names):
            beside = self.path / name
            if self.roots is not None and "\0" not in name:
                with _at(at(i)):
                    self.roots.check(beside.absolute(), name)
            if not exists(beside) and name not in shipped:
                hint = did_you_mean(name, shipped, listing="shipped")
                raise SpecError(f"there is no file {name!r} here, and no example of that name", at=at(i), hint=hint)
            files.append(str(beside if exists(beside) else shipped[name]))
        return tuple(files)


@contextmanager
def _at(place: At) -> Iterator[None]:
    """Errors that leave this block without a place get this one."""
    try:
        yield
    except SpecError as problem:
        problem.at = problem.at or place
        raise


def sweep_paths() -> dict[str, Path]:
    """The shipped sweeps by name."""
    return example_paths((KIND,))


def sweep_file(name: str | Path) -> Path:
    """The file of that name, or a shipped sweep. Raises SpecError."""
    if exists(name):
        return Path(name)
    shipped = sweep_paths()
    if str(name) not in shipped:
        hint = did_you_mean(str(name), shipped, listing="shipped sweeps")
        raise SpecError(f"there is no file {str(name)!r}, and no shipped sweep of that name", hint=hint)
    return shipped[str(name)]


def read_sweep(source: str | Path | Mapping[str, Any], root: FolderNames = ()) -> Definition:
    """A sweep from a YAML file, a shipped one by name, or a dictionary of the same form.

    A file may name files in its own folder and below, in the folders `root`, and shipped examples; a dictionary any.
    Raises SpecError (several problems together) with file, line and field.
    """
    if isinstance(source, Mapping):
        raw = from_python(source if "sweep" in source else {"sweep": source})
        return _definition(raw, "sweep", _Folder(Path(), None), (), root)
    if not isinstance(source, str | Path):
        raise SpecError(f"a sweep is a file or a dictionary, found {short(source)}")
    file = sweep_file(source)
    roots = Roots.of([file], root)
    raw = Documents({}, roots).file(file)
    return _definition(raw, file.stem, _Folder(file.parent, roots), (str(file),), root)


def _definition(raw: Raw, name: str, folder: _Folder, read: tuple[str, ...], root: FolderNames) -> Definition:
    top = raw.get("sweep") if isinstance(raw, RawMap) else None
    if top is None or not isinstance(raw, RawMap):
        guess = closest("sweep", raw.keys() if isinstance(raw, RawMap) else ())
        hint = f"did you mean {guess!r}? " if guess else ""
        raise SpecError("the key 'sweep' is missing", at=place(raw, ()), hint=f"{hint}specs and axes stand below it")
    problems: list[EinmapError] = [
        SpecError(f"unknown key {key!r} beside sweep", at=raw.place_of(key))
        for key in raw.keys()  # noqa: SIM118 - not a dict
        if key != "sweep"
    ]
    fields = check(SweepInput, top, raw, _TOP, problems)
    raise_all(problems)
    assert fields is not None

    def at(*steps: str | int) -> At:
        return place(raw, (*_TOP, *steps))

    grid = attempt(problems, partial(_grid, fields, at))
    workloads = attempt(problems, partial(_workloads, fields, folder, at))
    asked = attempt(problems, partial(_asked, fields, at))
    objectives = attempt(problems, partial(_objectives, fields, at))
    mesh = attempt(problems, partial(_mesh, fields, at))
    limits = attempt(problems, partial(_limits, fields, at))
    files = attempt(problems, partial(folder.files, fields.specs, partial(at, "specs")))
    if not fields.specs and not any(w.files for w in fields.workloads):
        problems.append(SpecError("a sweep names at least one file", at=at("specs")))
    raise_all(problems)
    assert grid is not None and workloads is not None and asked is not None
    assert objectives is not None and files is not None
    assert mesh is not None and limits is not None
    return Definition(
        name=fields.name or name,
        files=files,
        define=dict(fields.define),
        grid=grid,
        workloads=workloads,
        asked=asked,
        objectives=objectives,
        content=content(top),
        read=read,
        limits=limits,
        mesh=mesh,
        root=root,
    )


def _grid(fields: SweepInput, at: Callable[..., At]) -> Grid:
    problems: list[EinmapError] = []
    if not fields.axes:
        raise SpecError("a sweep without axes has no points", at=at("axes"))
    axes = [attempt(problems, partial(read_axis, axis, partial(at, "axes", i))) for i, axis in enumerate(fields.axes)]
    raise_all(problems)
    pairs = [(axis, given) for axis, given in zip(axes, fields.axes, strict=True) if axis is not None]
    texts = [fields.where] if isinstance(fields.where, str) else fields.where
    places = [at("where")] if isinstance(fields.where, str) else [at("where", i) for i in range(len(texts))]
    grid = Grid(linked(pairs, partial(at, "axes")), tuple(map(Condition, texts, places)))
    grid.check()
    return grid


def _workloads(fields: SweepInput, folder: _Folder, at: Callable[..., At]) -> tuple[SweptWorkload, ...]:
    workloads: dict[str, SweptWorkload] = {}
    for i, given in enumerate(fields.workloads):
        here = partial(at, "workloads", i)
        if given.name in workloads:
            raise SpecError(f"two workloads are called {given.name!r}", at=here("name"))
        weight = number(given.weight, Scope(), at=here("weight"), what="weight", minimum=0, allow_inf=False)
        files = folder.files(given.files, partial(here, "files"))
        workloads[given.name] = SweptWorkload(given.name, files, dict(given.define), float(weight))
    return tuple(workloads.values()) or (SweptWorkload("workload"),)


def _asked(fields: SweepInput, at: Callable[..., At]) -> Asked:
    if fields.action not in ACTIONS:
        hint = did_you_mean(fields.action, ACTIONS, listing="actions")
        raise SpecError(f"unknown action {fields.action!r}", at=at("action"), hint=hint)
    metric = _metric(fields, at)
    for name in fields.options:
        if name not in MapperInput.model_fields:
            hint = did_you_mean(name, MapperInput.model_fields, listing="options")
            raise SpecError(f"the mapper has no option {name!r}", at=at("options", name), hint=hint)
    if fields.semantics is not None:
        semantics_named(fields.semantics)
    limit = fields.time_limit
    if limit is not None:
        limit = number(limit, Scope(), at=at("time_limit"), what="time_limit", minimum=0, allow_inf=False)
    seconds = None if limit is None else float(limit)
    return Asked(fields.action, metric, fields.semantics, fields.fuse, dict(fields.options), seconds)


def _objective(action: str, given: str, at: At) -> str:
    """The name of an objective that the action gives."""
    name = ALIASES.get(given, given)
    absent = NOT_OF_PLANS if action == "plan" else OF_PLANS
    listed = [one for one in OBJECTIVES if one not in absent]
    if name not in OBJECTIVES:
        hint = did_you_mean(name, listed, listing="objectives")
        raise SpecError(f"unknown objective {name!r}", at=at, hint=hint)
    if name in absent:
        raise SpecError(f"the action {action} gives no {name}", at=at, hint=f"objectives are {', '.join(listed)}")
    return name


def _limits(fields: SweepInput, at: Callable[..., At]) -> dict[str, float]:
    """Upper limits of objectives."""
    limits: dict[str, float] = {}
    for given, value in fields.limits.items():
        name = _objective(fields.action, given, at("limits", given))
        limits[name] = float(number(value, Scope(), at=at("limits", given), what=f"limit of {name}", minimum=0))
    return limits


def _metric(fields: SweepInput, at: Callable[..., At]) -> str:
    if fields.action == "plan":
        metric = fields.metric or PLAN_METRICS[0]
        if metric not in PLAN_METRICS:
            hint = did_you_mean(metric, PLAN_METRICS, listing="metrics of plans")
            raise SpecError(f"unknown metric {metric!r} of plans", at=at("metric"), hint=hint)
        return metric
    if (added := added_metric(fields.metric)) is not None:
        return added.name
    metrics = metrics_named(fields.metric or DEFAULT, option="metric", at=at("metric"))
    if len(metrics) != 1:
        hint = "a point is one mapping of each workload; `objectives` compare points"
        raise SpecError("a mapping is searched for one metric", at=at("metric"), hint=hint)
    return metrics[0]


def _mesh(fields: SweepInput, at: Callable[..., At]) -> dict[str, int]:
    """The PEs along each axis of the mesh."""
    if fields.mesh and fields.action != "plan":
        raise SpecError("a mesh is for the action plan", at=at("mesh"), hint="write action: plan")
    sizes: dict[str, int] = {}
    for name, given in fields.mesh.items():
        size = number(given, Scope(), at=at("mesh", name), what=f"mesh axis {name}", minimum=1, allow_inf=False)
        if size != int(size):
            raise SpecError(f"mesh axis {name!r} has {size:g} PEs; expected an integer", at=at("mesh", name))
        with _at(at("mesh", name)):
            check_axis(name, int(size))
        sizes[name] = int(size)
    return sizes


def _objectives(fields: SweepInput, at: Callable[..., At]) -> tuple[str, ...]:
    given = fields.objectives
    if given is None:
        given = ["latency", "peak_memory"] if fields.action == "plan" else ["energy", "latency"]
    names = [_objective(fields.action, name, at("objectives", i)) for i, name in enumerate(given)]
    if not names:
        raise SpecError("points are judged by at least one objective", at=at("objectives"))
    return tuple(dict.fromkeys(names))
