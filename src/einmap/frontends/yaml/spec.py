"""load(): files in, a Spec out; the shipped examples by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, cast

from einmap.errors import EinmapError, Note, SpecError
from einmap.expressions.evaluator.custom import custom_functions, hidden_built_ins
from einmap.frontends.code import Functions, allowed_code, functions_of, model_files, run_code
from einmap.frontends.files import exists, read_text_file
from einmap.frontends.yaml.dump import to_yaml
from einmap.frontends.yaml.folders import NO_ROOTS, FolderNames, Roots
from einmap.frontends.yaml.load import Keys, matching_files, read_files, read_text
from einmap.gc_pause import set_aside
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.spec.forms.chosen_formats import ChosenFormats
from einmap.spec.forms.chosen_layouts import Chosen
from einmap.spec.forms.loop_tree import write_mapping
from einmap.spec.models import Models, models_given
from einmap.spec.raw import LiteralString, RawMap, from_python
from einmap.spec.spec import Spec
from einmap.visible import short

_TABLE = re.compile(r"^(ERT|ART)(_summary)?\s*:", re.MULTILINE)
"""Keys of energy and area reference tables."""


def load(
    *paths: str | Path | Sequence[str | Path],
    define: Mapping[str, object] | None = None,
    top_key: Keys | None = None,
    functions: Functions | None = None,
    allow_code: Iterable[str | Path] = (),
    root: FolderNames = (),
    component_models: Any = (),
) -> Spec:
    """Read one specification from several YAML files; each gives some of the top-level keys.

    Tables of component costs (CSV files, and YAML with the key `ERT` or `ART`) may stand among the files.

    `define`: values of template variables (`{{ N }}`). A path may also be the name of a shipped example
    (`tpu_v4i`, see `example_paths`) when no such file exists. `top_key`: read only what stands below
    this key, a section such as `arch` or a whole specification, or below several names of sections. `root`: one
    folder or several from which files may be included, beside those of the files themselves.

    `functions`: what expressions may call beside the built-in functions, by name. `allow_code`: Python
    files that are run for the functions and component models that they define; nothing else is executed, whatever a
    specification says. `component_models`: Python classes and objects that `component_class` may name.

    Raises SpecError (several problems together) with file, line, what was found and what was expected.
    """
    resolved = [_resolve(path) for path in _flat(paths)]
    files = matching_files(resolved, problems := list[EinmapError]())
    tables = [file for file in files if _is_table(file)]
    parts = [file for file in files if file not in tables]
    with set_aside():
        # where a path is wrong, all that is wrong is said together
        raw, notes = read_files(*(resolved if problems else parts), define=define, top_key=top_key, root=root)
    beside = _Beside(functions or {}, _code_files(allow_code), models_given(component_models), tables)
    return _with_code(raw, notes, beside, Roots.of(parts, root))


def loads(
    text: str,
    define: Mapping[str, object] | None = None,
    top_key: Keys | None = None,
    functions: Functions | None = None,
    allow_code: Iterable[str | Path] = (),
    component_models: Any = (),
) -> Spec:
    """A specification from one YAML text, as `load` makes it from files."""
    if not isinstance(text, str):
        raise SpecError(f"expected YAML text, found {short(text)}", hint="use Spec.from_dict for data")
    raw, notes = read_text(text, define=define, top_key=top_key)
    beside = _Beside(functions or {}, _code_files(allow_code), models_given(component_models), [])
    return _with_code(raw, notes, beside, NO_ROOTS)


def loads_as(name: str, text: str) -> Spec:
    """A specification from one YAML text, as `loads` makes it; in messages `name` stands for its file."""
    raw, notes = read_text(text, name)
    return _with_code(raw, notes, _Beside({}, [], (), []), NO_ROOTS)


@dataclass(frozen=True, slots=True)
class _Beside:
    """Inputs beside the files: functions, Python files to run, models of components, and tables of their costs."""

    functions: Functions
    code: list[str | Path]
    models: tuple[object, ...]
    tables: list[Path]


def _with_code(raw: RawMap, notes: tuple[Note, ...], beside: _Beside, roots: Roots) -> Spec:
    """The specification with functions and component models: its tables, then code, then what Python gives."""
    allowed = allowed_code(raw, beside.code)
    defined = run_code(beside.code)
    functions: dict[str, Callable[..., Any]] = {**functions_of(defined)}
    if both := sorted(functions.keys() & beside.functions.keys()):
        raise SpecError(f"the function {both[0]} is given, and defined in a file as well", hint="rename one of them")
    functions |= beside.functions
    custom_functions(functions)  # checks names and callables here, not at the first expression
    hidden = [Note(f"the function {name} takes the place of the built-in one") for name in hidden_built_ins(functions)]
    entries = model_files(raw)
    models: tuple[object, ...] = beside.models
    if any(part.is_model for part in defined):
        from einmap.frontends.code_models import models_of

        models = (*models_of(defined), *models)
    if entries or beside.tables:
        from einmap.frontends.yaml.component_tables import models_of_tables, tables_named

        models = (*models_of_tables([*tables_named(entries, roots), *beside.tables]), *models)
    files = allowed | {str(entry.value) for entry in entries}
    return Spec(raw, (*notes, *hidden), functions, allowed, Models(models, {}, files)).expanded()


def _is_table(path: Path) -> bool:
    """Whether a file that the user names is a table of component costs: by its name, or its keys."""
    if path.suffix.lower() == ".csv":
        return True
    if path.suffix.lower() not in (".yaml", ".yml") or not path.is_file():
        return False
    try:
        text = read_text_file(path)
        return ("ERT" in text or "ART" in text) and _TABLE.search(text) is not None
    except SpecError:  # which is said where the file is read as a part
        return False


def _code_files(files: Iterable[str | Path]) -> list[str | Path]:
    return [files] if isinstance(files, str | Path) else _flat([*files])


def dump_mapping(
    mapping: LoopTree,
    shared_inputs: Mapping[str, str] | None = None,
    layouts: Chosen | None = None,
    rewrites: Sequence[str] = (),
    formats: ChosenFormats | None = None,
) -> str:
    """A LoopTree as YAML text with the key `mapping`; loading it gives the same LoopTree.

    `shared_inputs`: copies of graph inputs that it is made for, `{"X": "X_shared"}`; loaded together with a workload
    that has them not, they are put in. `layouts`: those that it is made for, where the architecture leaves them open,
    `{"DRAM": {"A": ["M", "K"]}}`; loaded together with the architecture they are chosen there. `rewrites`: changes of
    the cascade, which are done when it is loaded together with the workload as it was. `formats`: those of sparse
    tensors that it is made for, where `sparsity` leaves them open, `{"DRAM": {"A": "csr"}}`.
    """
    with set_aside():
        written = write_mapping(mapping)
        changes = [LiteralString(text) for text in rewrites]
        made_for = {
            "layouts": dict(layouts or {}),
            "formats": dict(formats or {}),
            "shared_inputs": dict(shared_inputs or {}),
            "rewrites": changes,
        }
        for key, value in made_for.items():
            if value:
                assert isinstance(written, RawMap)
                written = RawMap(((key, from_python(value)), *written.items))
        return to_yaml(RawMap((("mapping", written),)))


def dump(spec: Spec, dialect: str | None = None) -> str:
    """A specification as YAML text with tags: `loads(dump(spec)) == spec`.

    Templates and merges are written as what they gave, names of examples as their content. With a
    `dialect` (`older` or `newer`) the architecture is written in its words, see `Spec.in_dialect`; costs
    stay the same. Raises SpecError for what that dialect cannot express.
    """
    return to_yaml((spec if dialect is None else spec.in_dialect(dialect)).raw)


def _flat(paths: Sequence[str | Path | Sequence[str | Path]]) -> list[str | Path]:
    flat: list[str | Path] = []
    for path in paths:
        flat += path if isinstance(path, list | tuple) else [cast(str | Path, path)]
    for path in flat:
        if not isinstance(path, str | Path):
            raise SpecError(
                f"a path is a text or a pathlib.Path, found {short(path)}", hint="use Spec.from_dict for data"
            )
    return flat


def _resolve(path: str | Path) -> str | Path:
    if isinstance(path, str) and not exists(path):
        return example_paths().get(path, path)
    return path


SPEC_KINDS = ("arches", "workloads", "mappings", "distributions", "clusters")
"""The folders of shipped specifications; others hold other files."""


def example_paths(kinds: Sequence[str] = SPEC_KINDS) -> dict[str, Path]:
    """The shipped specifications by name, in the order of SPEC_KINDS, or the files of other kinds."""
    return dict(_shipped(tuple(kinds)))


@cache
def _shipped(kinds: tuple[str, ...]) -> dict[str, Path]:
    root = Path(str(resources.files("einmap") / "examples"))
    return {path.stem: path for kind in kinds for path in sorted((root / kind).glob("*.yaml"))}
