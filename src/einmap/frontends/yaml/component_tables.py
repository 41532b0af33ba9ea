"""Tables of component costs that a specification names: energy and area reference tables, and CSV files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from einmap.components.reference_tables import models_from_reference_tables
from einmap.components.tables import TableModel, models_from_csv
from einmap.errors import At, EinmapError, SpecError, raise_all
from einmap.frontends.files import read_text_file
from einmap.frontends.yaml.folders import IncludePath, Roots
from einmap.frontends.yaml.parsing.parse import parse_yaml
from einmap.frontends.yaml.parsing.work import Work
from einmap.spec.raw import Raw, RawMap, RawScalar, parse_path, place, to_python

_KINDS = {"ERT": "energies", "ERT_summary": "energies", "ART": "areas", "ART_summary": "areas"}
_HINT = "tables are *.csv, and *.yaml with the key ERT or ART; Python files are *.py, and run only with --allow-code"


def tables_named(entries: Iterable[RawScalar], roots: Roots) -> Iterator[Path]:
    """The files of `config.component_models`: in the folder of the file that names them, and below, as for includes.

    Raises SpecError, with the place of the entry, for files that are outside, missing, or neither YAML nor CSV.
    """
    problems: list[EinmapError] = []
    for entry in entries:
        written = (entry.at.file if entry.at else None) or ""
        file = Path(written.removesuffix(" (rendered)"))
        home = file.absolute().parent.resolve() if file.is_file() else None
        try:
            for path in IncludePath(home, roots, Work()).files(str(entry.value)):
                if path.suffix.lower() not in (".yaml", ".yml", ".csv"):
                    raise SpecError(f"{entry.value!r} is not a table of component costs", hint=_HINT)
                yield Path(roots.shown(path))
        except EinmapError as problem:
            problem.at = problem.at or entry.at
            problems.append(problem)
    raise_all(problems)


@dataclass(frozen=True, slots=True)
class _Table:
    """One YAML document with reference tables."""

    file: str
    raw: RawMap
    kinds: frozenset[str]


def models_of_tables(files: Iterable[Path]) -> tuple[TableModel, ...]:
    """Models of the tables in these files, each read once. Raises SpecError with file and line.

    An area table belongs to the energy table before it, or else to the first one.
    """
    models: list[TableModel] = []
    documents: list[_Table] = []
    for file in {file.resolve(): file for file in files}.values():
        if file.suffix.lower() == ".csv":
            models += models_from_csv(read_text_file(file), At(str(file)))
        else:
            documents.append(_document(file))
    models += _of_reference_tables(documents)
    names: dict[str, str] = {}
    for model in models:
        if model.name.lower() in names:
            raise SpecError(f"the component {model.name!r} is in {names[model.name.lower()]} and in {model.source}")
        names[model.name.lower()] = model.source
    return tuple(models)


def _document(file: Path) -> _Table:
    raw = parse_yaml(read_text_file(file), str(file))
    kinds = frozenset(_KINDS[key] for key in raw.keys() if key in _KINDS) if isinstance(raw, RawMap) else frozenset()  # noqa: SIM118
    if not isinstance(raw, RawMap) or not kinds:
        raise SpecError("expected the key ERT or ART", at=At(str(file)), hint=_HINT)
    return _Table(str(file), raw, kinds)


def _of_reference_tables(documents: list[_Table]) -> list[TableModel]:
    energies = [document for document in documents if "energies" in document.kinds]
    if documents and not energies:
        text = "an area table without an energy table"
        raise SpecError(text, at=At(documents[0].file), hint="name the file with the key ERT, too")
    areas: dict[int, _Table] = {}
    owner = 0
    for document in documents:
        if "energies" in document.kinds:
            owner = energies.index(document)
        if "areas" in document.kinds:
            if owner in areas:
                text = f"a second area table for {energies[owner].file}"
                raise SpecError(text, at=At(document.file), hint=f"the first is {areas[owner].file}")
            areas[owner] = document
    models: list[TableModel] = []
    for index, document in enumerate(energies):
        other = areas.get(index)
        try:
            models += models_from_reference_tables(
                to_python(document.raw),
                None if other is None else to_python(other.raw),
                energies_at=At(document.file),
                areas_at=None if other is None else At(other.file),
            )
        except SpecError as error:
            raw = document.raw if error.at is None or error.at.file == document.file else (other or document).raw
            raise SpecError(error.message, at=_with_line(error.at, raw), hint=error.hint) from None
    return models


def _with_line(at: At | None, raw: Raw) -> At | None:
    """The place of a field with the line where it, or the nearest part of it, is written."""
    if at is None or not at.path:
        return at
    try:
        field = place(raw, parse_path(at.path))
    except SpecError:
        return at
    return replace(at, line=field.line, column=field.column)
