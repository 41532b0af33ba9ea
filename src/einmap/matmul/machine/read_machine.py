"""A machine from a YAML file, a shipped one by name, or a dictionary of the same form."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from einmap.errors import EinmapError, SpecError, attempt, closest, did_you_mean, raise_all
from einmap.expressions.arithmetic import check_size, number
from einmap.expressions.scope import Scope
from einmap.frontends.files import exists
from einmap.frontends.yaml.folders import FolderNames, Roots
from einmap.frontends.yaml.include import Documents
from einmap.frontends.yaml.spec import example_paths
from einmap.matmul.machine.data_types import DATA_TYPES
from einmap.matmul.machine.machine import BANDWIDTHS, DIMENSIONS, ComputeUnit, Level, Machine, Sizes
from einmap.spec.raw import Path as RawPath
from einmap.spec.raw import Raw, RawMap, from_python, place, placed
from einmap.spec.schema.base import check
from einmap.spec.schema.machine import ComputeUnitInput, LevelInput, MachineInput
from einmap.visible import short

KIND = "machines"
"""The directory of shipped machines."""
_TOP = ("machine",)


def machine_paths() -> dict[str, Path]:
    """The shipped machines by name."""
    return example_paths((KIND,))


def load_machine(path: str | Path, define: Mapping[str, object] | None = None, root: FolderNames = ()) -> Machine:
    """The machine in a YAML file under the key `machine`, or a shipped one by name when there is no such file.

    `define`: values of template variables. `root`: folders from which it may include files, beside its own. Raises
    SpecError (several problems together) with file, line and field.
    """
    file = Path(path)
    if not exists(path):
        shipped = machine_paths()
        if str(path) not in shipped:
            hint = did_you_mean(str(path), shipped, listing="shipped machines")
            raise SpecError(f"there is no file {str(path)!r}, and no shipped machine of that name", hint=hint)
        file = shipped[str(path)]
    return read_machine(Documents(define or {}, Roots.of([file], root)).file(file), file.stem)


def machine_from_dict(value: Mapping[str, Any], name: str = "machine") -> Machine:
    """A machine from a dictionary: `{"machine": {...}}`, or what stands under that key. Raises SpecError."""
    if not isinstance(value, Mapping):
        raise SpecError(f"a machine is a dictionary, found {short(value)}")
    return read_machine(from_python(value if "machine" in value else {"machine": value}), name)


def read_machine(raw: Raw, name: str) -> Machine:
    """The machine of a raw tree; `name` for one that gives itself none."""
    top = raw.get("machine") if isinstance(raw, RawMap) else None
    if top is None:
        keys = raw.keys() if isinstance(raw, RawMap) else ()
        guess = closest("machine", keys)
        hint = f"did you mean {guess!r}? " if guess else ""
        raise SpecError("the key 'machine' is missing", at=place(raw, ()), hint=hint + "levels stand below it")
    problems: list[EinmapError] = []
    fields = check(MachineInput, top, raw, _TOP, problems)
    raise_all(problems)
    assert fields is not None
    levels = [
        attempt(problems, partial(_level, raw, (*_TOP, "levels", i), level)) for i, level in enumerate(fields.levels)
    ]
    compute = attempt(problems, partial(_compute, raw, (*_TOP, "compute"), fields.compute))
    grain = attempt(problems, partial(_grain, raw, fields.grain))
    raise_all(problems)
    assert compute is not None
    assert grain is not None
    with placed(raw, _TOP):
        complete = tuple(level for level in levels if level is not None)
        return Machine(fields.name or name.replace("-", "_"), complete, compute, grain, fields.main)


def _level(raw: Raw, path: RawPath, fields: LevelInput) -> Level:
    problems: list[EinmapError] = []
    values: dict[str, Any] = {}
    for field in ("size", *BANDWIDTHS, "startup", "run_startup"):
        if getattr(fields, field) is not None:
            check_value = partial(_value, raw, (*path, field), getattr(fields, field), zero="startup" in field)
            values[field] = attempt(problems, check_value)
    for field in ("workers", "line"):
        values[field] = attempt(problems, partial(_whole, raw, (*path, field), getattr(fields, field)))
    raise_all(problems)
    with placed(raw, path):
        size, load, line = values.pop("size"), values.pop("load_bandwidth"), values.pop("line")
        return Level.of(fields.name, size, load, line_bits=line, **values)


def _compute(raw: Raw, path: RawPath, fields: ComputeUnitInput) -> ComputeUnit:
    problems: list[EinmapError] = []
    flops: dict[str, float] = {}
    for name, rate in fields.flops.items():
        at = (*path, "flops", name)
        if name not in DATA_TYPES:
            hint = did_you_mean(name, DATA_TYPES, listing="types")
            problems.append(SpecError(f"no data type {name!r}", at=place(raw, at), hint=hint))
            continue
        flops[name] = attempt(problems, partial(_value, raw, at, rate)) or 0.0
    tables: dict[str, dict[int, float]] = {}
    for dimension, steps in fields.efficiency.items():
        tables[dimension] = {}
        for size, part in steps.items():
            at = (*path, "efficiency", dimension, size)
            least = attempt(problems, partial(_whole, raw, at, size))
            tables[dimension][least or 0] = attempt(problems, partial(_value, raw, at, part)) or 0.0
    raise_all(problems)
    with placed(raw, path):
        return ComputeUnit.of(flops, fields.name, pads=fields.pads, efficiency=tables)


def _grain(raw: Raw, grain: Any) -> Sizes:
    path = (*_TOP, "grain")
    if not isinstance(grain, dict):
        size = _whole(raw, path, grain)
        return size, size, size
    unknown = [d for d in grain if d not in DIMENSIONS]
    raise_all(
        [SpecError(f"no dimension {d!r}", at=place(raw, (*path, d)), hint=did_you_mean(d, DIMENSIONS)) for d in unknown]
    )
    m, k, n = (_whole(raw, (*path, d), grain.get(d, 1)) for d in DIMENSIONS)
    return m, k, n


def _value(raw: Raw, path: RawPath, text: object, *, zero: bool = False) -> float:
    """A number > 0, or >= 0 with `zero`."""
    at = place(raw, path)
    value = number(text, Scope(), at=at, what=str(path[-1]), minimum=0)
    if not value and not zero:
        raise SpecError(f"{path[-1]} must be > 0, found {text}", at=at)
    check_size(str(path[-1]), value, at)
    return value


def _whole(raw: Raw, path: RawPath, text: object) -> int:
    at = place(raw, path)
    return int(number(text, Scope(), at=at, what=str(path[-1]), minimum=1, integer="exact", allow_inf=False))
