"""The sections that Timeloop's files give, joined: which key says what, in every version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from einmap.errors import EinmapError, SpecError, attempt, raise_all
from einmap.expressions.arithmetic import evaluate
from einmap.expressions.scope import Lazy, Scope
from einmap.frontends.foreign import Report, a_map, named
from einmap.frontends.yaml.folders import Roots
from einmap.frontends.yaml.include import Documents
from einmap.frontends.yaml.load import matching_files
from einmap.spec.raw import Raw, RawMap, RawScalar

SINGLE = ("problem", "architecture", "arch", "mapping")
"""Sections that are given once."""
QUIET = ("version", "dumped_by_timeloop_front_end")
IGNORED = {
    "mapper": "options of Timeloop's search; einmap's own are in docs/mapper.md",
    "globals": "settings of Timeloop's front end",
    "ART": "areas are those of component models; a file with it can be named beside the specification",
}


@dataclass(frozen=True, slots=True)
class Sections:
    """Contents of all files together: sections by name, in written order, and the values of `variables`."""

    entries: Mapping[str, tuple[Raw, ...]]
    scope: Scope

    @property
    def defaults(self) -> Mapping[str, Raw]:
        """Attributes of all components that `variables` give."""
        given = [pair for raw in self.entries.get("variables", ()) for pair in a_map(raw, "variables").items]
        return {key: value for key, value in given if key in ("technology", "global_cycle_seconds")}

    def one(self, name: str) -> Raw | None:
        """A section that is given once, or None."""
        return next(iter(self.entries.get(name, ())), None)


def read_sections(
    files: Sequence[Path], define: Mapping[str, object], root: Sequence[Path], report: Report, known: Sequence[str]
) -> Sections:
    """Read all files; sections other than `known` are left out. Raises SpecError, problems of all files together."""
    problems: list[EinmapError] = []
    paths = matching_files(files, problems)
    documents = Documents(define, Roots.of(paths, root))
    tops = [attempt(problems, lambda path=path: _top(documents, path)) for path in paths]  # type: ignore[misc]
    raise_all(problems)
    entries: dict[str, list[Raw]] = {}
    for path, top in zip(paths, tops, strict=True):
        assert top is not None
        carriers = documents.anchored.get(str(path), {})
        for key, value in top.items:
            at = named(top.place_of(key), key)
            if key in IGNORED:
                report.leave(at, key, IGNORED[key])
            elif key not in known:
                if key not in carriers and key not in QUIET and not key.startswith(("_", "x-")):
                    report.leave(at, key, "this section has no counterpart")
            elif key in SINGLE and key in entries:
                raise SpecError(f"the section {key!r} is given twice", at=at, hint="name the files of one design only")
            else:
                entries.setdefault(key, []).append(value)
    found = {key: tuple(values) for key, values in entries.items()}
    return Sections(found, variables(found.get("variables", ())))


def _top(documents: Documents, path: Path) -> RawMap:
    raw = documents.file(path)
    if isinstance(raw, RawScalar) and raw.value is None:
        return RawMap(())
    return a_map(raw, "the file")


def variables(sections: Sequence[Raw]) -> Scope:
    """Values by name, which may be expressions of each other."""
    values: dict[str, object] = {}
    scope = Scope(values)
    for raw in sections:
        for key, value in a_map(raw, "variables").items:
            if isinstance(value, RawScalar):
                values[key] = _lazy(value, scope, key)
    return scope


def _lazy(raw: RawScalar, scope: Scope, name: str) -> Lazy:
    return Lazy(lambda: evaluate(raw.value, scope, at=named(raw.at, f"variables.{name}")), name)
