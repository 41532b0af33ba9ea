"""Functions and component models from Python files: run only when the user names the file.

Never because a specification does.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from einmap.errors import At, EinmapError, SpecError, raise_all
from einmap.frontends.files import exists, read_text_file
from einmap.spec.raw import Raw, RawList, RawMap, RawScalar

type Functions = Mapping[str, Callable[..., Any]]


class CodeFunction:
    """A function of a file. A copy in another process runs the file there."""

    def __init__(self, file: str, name: str, function: Callable[..., Any]) -> None:
        self.file = file
        self.name = name
        self._function = function

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call the function."""
        return self._function(*arguments, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_file, (self.file, self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CodeFunction) and (self.file, self.name) == (other.file, other.name)

    def __hash__(self) -> int:
        return hash((self.file, self.name))


@dataclass(frozen=True, slots=True)
class Defined:
    """Definition of a name in a Python file: a function, or a class with methods that can be actions of a model."""

    file: str
    name: str
    value: Callable[..., Any]
    is_model: bool


def run_code(files: Iterable[str | Path]) -> list[Defined]:
    """Run Python files, each once; what they define.

    These are the callables that `__all__` names, or without it those that the file itself defines under names without
    a leading underscore. Raises SpecError when a file fails, or two give the same name.
    """
    defined: dict[str, Defined] = {}
    for file in dict.fromkeys(Path(file).absolute() for file in files):
        for name, value in _run(file):
            if name in defined:
                kind = "component model" if defined[name].is_model else "function"
                text = f"the {kind} {name} is defined in {defined[name].file} and in {file}"
                raise SpecError(text, hint="rename one of them")
            defined[name] = Defined(str(file), name, value, _is_model(value))
    return list(defined.values())


def functions_of(defined: Iterable[Defined]) -> dict[str, CodeFunction]:
    """The functions among what files define, by name."""
    return {part.name: CodeFunction(part.file, part.name, part.value) for part in defined if not part.is_model}


def functions_in(files: Iterable[str | Path]) -> dict[str, CodeFunction]:
    """Run Python files; the functions that they define, by name. Raises SpecError as `run_code` does."""
    return functions_of(run_code(files))


def _is_model(value: object) -> bool:
    """Whether something is a class that can be a component model."""
    if not isinstance(value, type):
        return False
    from einmap.components.object_model import model_from_object

    try:
        model_from_object(value)
    except SpecError:
        return False
    return True


def allowed_code(spec: RawMap, files: Iterable[str | Path]) -> frozenset[str]:
    """The Python files that `config` names for functions and component models, all of which must be among `files`.

    Such a path is relative to the file that it is written in, or else to the current directory. Raises
    SpecError for others: a specification cannot run code that its user has not named.
    """
    allowed = {Path(file).resolve() for file in files}
    listed = list(_listed(spec))
    problems = [problem for path in listed if (problem := _refusal(path, allowed)) is not None]
    raise_all(problems)
    return frozenset(str(path.value) for path in listed)


def _run(file: Path) -> list[tuple[str, Callable[..., Any]]]:
    text = read_text_file(file)
    module = ModuleType(f"einmap_code_{sha256(str(file).encode()).hexdigest()[:16]}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # dataclasses and pickle look their module up
    try:
        exec(compile(text, str(file), "exec"), module.__dict__)
    except SyntaxError as error:
        raise SpecError(f"not valid Python: {error.msg}", at=At(str(file), error.lineno)) from error
    except (Exception, SystemExit) as error:
        raise SpecError(f"the file failed: {type(error).__name__}: {error}", at=_place(error, file)) from error
    return [(name, value) for name, value in _public(module) if callable(value)]


def _public(module: ModuleType) -> list[tuple[str, Any]]:
    if hasattr(module, "__all__"):
        return [(name, getattr(module, name, None)) for name in module.__all__]
    names = vars(module).items()
    return [(n, v) for n, v in names if not n.startswith("_") and getattr(v, "__module__", None) == module.__name__]


def _place(error: BaseException, file: Path) -> At:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return At(str(file), lines[-1] if lines else None)


def _from_file(file: str, name: str) -> CodeFunction:
    return functions_in([file])[name]


def model_files(spec: RawMap) -> list[RawScalar]:
    """The entries of `config.component_models` that are not Python files, with their places."""
    return [entry for entry in _entries(spec, "component_models") if not _is_python(entry)]


def _listed(spec: RawMap) -> Iterable[RawScalar]:
    """The entries of `config` that name Python files."""
    yield from _entries(spec, "expression_custom_functions")
    yield from filter(_is_python, _entries(spec, "component_models"))


def _is_python(entry: RawScalar) -> bool:
    return str(entry.value).lower().endswith(".py")


def _entries(spec: RawMap, field: str) -> Iterable[RawScalar]:
    config = spec.get("config")
    files: Raw | None = config.get(field) if isinstance(config, RawMap) else None
    # what is not a list of texts is refused where the shape of `config` is checked
    items = files.items if isinstance(files, RawList) else ()
    for index, item in enumerate(items):
        if isinstance(item, RawScalar):
            at = replace(item.at or At(), path=f"config.{field}[{index}]")
            yield replace(item, at=at)


def _refusal(path: RawScalar, allowed: set[Path]) -> EinmapError | None:
    folder = Path(path.at.file).parent if path.at and path.at.file else Path()
    tried = list(dict.fromkeys([folder / str(path.value), Path(str(path.value))]))
    file = next((file for file in tried if exists(file)), None)
    if file is None:
        directories = ", ".join(str(file.parent.absolute()) for file in tried)
        return SpecError(
            f"file {path.value!r} not found, searched in {directories}",
            at=path.at,
        )
    if file.resolve() in allowed:
        return None
    hint = f"read {file} first; to run it add --allow-code {file}, or load(..., allow_code=[{str(file)!r}])"
    text = f"code in {path.value!r} runs only when you allow it"
    return SpecError(text, at=path.at, hint=hint)
