"""Rows of the catalogue of bad inputs (docs/bad-inputs.md): what a case is, and how it is run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import einmap
from einmap.distribute.planner.read_cluster import cluster_of
from einmap.distribute.read import plan_of
from einmap.errors import EinmapError, ManyErrors, Note

BASE = """\
variables:
  width: 8
renames:
  einsums: []
arch:
  variables:
    depth: 128
  nodes:
  - !Memory
    name: Main
    size: inf
    component_class: Dummy
  - !Container
    name: Array
    spatial:
    - name: X
      fanout: 2
  - !Memory
    name: Buffer
    size: width*depth
    component_class: Dummy
    tensors:
      keep: Nothing
      may_keep: All
  - !Compute
    name: MAC
    component_class: Dummy
workload:
  rank_sizes:
    M: 4
    K: 4
    N: 4
  bits_per_value:
    All: 8
  einsums:
  - name: C
    einsum: "C[m,n] = A[m,k] * B[k,n]"
mapping:
  nodes:
  - !Storage {component: Main, tensors: [A, B, C]}
  - !Spatial {rank_variable: m, tile_shape: 2, component: Array, name: X}
  - !Storage {component: Buffer, tensors: [A]}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Temporal {rank_variable: k, tile_shape: 1}
  - !Compute {einsum: C, component: MAC}
"""
"""A good specification; every case is this text with one thing changed."""

FILE = "spec.yaml"

type Changes = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Case:
    """One input of one row.

    `outcome`: error, warning or legal. `says`: words of the one message that is judged. `path`: the field that
    it names, None where there is none. `on`: a part of the line of `file` that it names. `run`: evaluate, map,
    strict (evaluate --strict) or plan (clusters and distributions). `more`: other files, loaded after `file`; `extra`: files that are only there.
    `loaded`: the names that are loaded, when they are not those of the files.
    """

    row: int
    name: str
    outcome: str
    text: str
    says: tuple[str, ...] = ()
    path: str | None = None
    on: str | None = None
    run: str = "evaluate"
    file: str = FILE
    loaded: tuple[str, ...] | None = None
    more: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.row} {self.name}"

    @property
    def line(self) -> int | None:
        """The line that the message must name."""
        if self.on is None:
            return None
        text = {FILE: self.text, **self.more, **self.extra}[self.file]
        found = [number for number, line in enumerate(text.splitlines(), start=1) if self.on in line]
        assert len(found) == 1, f"{self.on!r} is on the lines {found}"
        return found[0]


def changed(changes: Changes, text: str = BASE) -> str:
    """`text` with each (old, new) replaced; every old must be there exactly once."""
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in the text"
        text = text.replace(old, new)
    return text


def error(row, name, changes, says, path=None, on=None, **more) -> Case:
    """An input that is refused. `on` is the first line of the first change unless given; False for no line."""
    return _case(row, name, "error", changes, says, path, on, more)


def warning(row, name, changes, says, path=None, on=None, **more) -> Case:
    """An input that is accepted with a note."""
    return _case(row, name, "warning", changes, says, path, on, more)


def legal(row, name, changes, **more) -> Case:
    """An input that is accepted without a note."""
    return _case(row, name, "legal", changes, (), None, False, more)


def _case(row, name, outcome, changes, says, path, on, more) -> Case:
    text = changes if isinstance(changes, str) else changed(changes, more.pop("base", BASE))
    if on is None and not isinstance(changes, str):
        on = changes[0][1].splitlines()[0]
    return Case(row, name, outcome, text, tuple(says), path, on or None, **more)


def written(case: Case, folder: Path) -> list[str]:
    """Write the files of a case; the names that are loaded."""
    for name, text in {FILE: case.text, **case.more, **case.extra}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return [*(case.loaded or (FILE, *case.more))]


def notes_of(case: Case, files: Sequence[str]) -> tuple[Note, ...]:
    """Do with the files what the case is about; the notes on the result. Raises EinmapError."""
    spec = einmap.load(*files)
    if case.run == "plan":
        cluster_of(spec)
        if spec.raw.get("distribution") is not None:
            plan_of(spec)
        return (*spec.load_notes, *spec.bound_workload.notes)
    if case.run == "map":
        found = einmap.map_workload(spec)
        return () if found.optimal else (Note(found.reason, spec.provenance("mapper.time_limit")),)
    cost = einmap.evaluate(spec, strict=case.run == "strict")
    return tuple(note for note in cost.notes if note.kind == "warning")


def problems_of(problem: EinmapError) -> list[EinmapError]:
    """The single problems of an error."""
    if isinstance(problem, ManyErrors):
        return [inner for one in problem.problems for inner in problems_of(one)]
    return [problem]


def shortcomings(case: Case, found: EinmapError | Note) -> list[str]:
    """What the message of `found` lacks; nothing when it is good."""
    said = str(found)
    lacking = [f"does not say {word!r}" for word in case.says if word.lower() not in said.lower()]
    at = found.at
    if case.line is not None and (at is None or (at.file, at.line) != (case.file, case.line)):
        place = "nowhere" if at is None else f"{at.file}:{at.line}"
        lacking.append(f"stands at {place}, not at {case.file}:{case.line}")
    if case.path is not None and (at is None or at.path != case.path):
        lacking.append(f"names the path {at.path if at else None!r}, not {case.path!r}")
    return lacking
