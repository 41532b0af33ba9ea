"""Jinja2 templates in specification files, rendered before the text is read as YAML."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from einmap.errors import At, EinmapError, NotSupportedError, SpecError, did_you_mean
from einmap.frontends.files import MAX_TEXT

if TYPE_CHECKING:
    from einmap.frontends.yaml.sandbox import SandboxedTemplates

_MARKS = ("{{", "{%", "{#")
_NOT_DEFINED = re.compile(r"'(\w+)' is undefined")


@dataclass(frozen=True, slots=True)
class Rendered:
    """The text without template constructs; `file` says "(rendered)" where lines do not match the source."""

    text: str
    file: str


def render(text: str, file: str, *, folder: Path | None = None, define: Mapping[str, object] | None = None) -> Rendered:
    """Render `text` with the variables `define`; text without template marks is returned as it is.

    `folder` is where the file stands: includes and path functions see it and what is below it, and
    nothing else. Raises SpecError with the line of the template.
    """
    if not any(mark in text for mark in _MARKS):
        return Rendered(text, file)
    # Here, not above: most specifications have no templates, and Jinja2 takes long to import.
    from einmap.frontends.yaml.sandbox import SandboxedTemplates

    templates = SandboxedTemplates(folder)
    templates.globals.update(_path_functions(folder), **_includes())
    define = dict(define or {})
    try:
        rendered = _rendered(templates, text, file, define)
    except Exception as error:  # templates run arbitrary expressions
        raise _explained(error, file, define) from error
    return Rendered(rendered, file if _same_lines(text, rendered) else f"{file} (rendered)")


def _rendered(templates: SandboxedTemplates, text: str, file: str, define: dict[str, object]) -> str:
    code = templates.compile(text, filename=file)
    template = templates.template_class.from_code(templates, code, templates.make_globals(None))
    pieces, length = [], 0
    for piece in template.generate(**define):
        pieces.append(piece)
        length += len(piece)
        if length > MAX_TEXT:
            raise SpecError(f"the rendered text is longer than {MAX_TEXT:,} characters", at=At(file))
    return "".join(pieces)


def _same_lines(text: str, rendered: str) -> bool:
    """Whether every line without template marks is found unchanged where it was."""
    before, after = text.splitlines(), rendered.splitlines()
    return len(before) == len(after) and all(
        old == new or any(mark in old for mark in (*_MARKS, "}}", "%}", "#}"))
        for old, new in zip(before, after, strict=True)
    )


def _explained(error: Exception, file: str, define: Mapping[str, object]) -> EinmapError:
    """The error in our words, with the line of the template that raised it."""
    import jinja2

    at = _place(error.__traceback__) or At(file)
    match error:
        case SpecError():
            error.at = at if error.at is None else error.at
            return error
        case jinja2.TemplateSyntaxError():
            at = At(error.filename or file, error.lineno)
            return SpecError(f"not a valid template: {error.message}", at=at)
        case jinja2.TemplateNotFound():
            hint = "templates can include files of their own folder and the folders below it"
            return SpecError(f"the included template {error.name!r} was not found", at=at, hint=hint)
        case jinja2.UndefinedError():
            return _undefined(error.message or "", at, define)
        case RecursionError():
            return SpecError("the template includes or calls itself without end", at=at)
        case jinja2.TemplateError() | OverflowError() | MemoryError():
            return SpecError(f"the template was stopped: {error}", at=at)
        case _:
            return SpecError(f"the template failed: {type(error).__name__}: {error}", at=at)


def _undefined(message: str, at: At, define: Mapping[str, object]) -> SpecError:
    found = _NOT_DEFINED.fullmatch(message)
    if found is None:
        return SpecError(f"the template failed: {message}", at=at)
    name = found.group(1)
    hint = f"pass it: -D {name}=VALUE, or load(..., define={{{name!r}: ...}})"
    if define:
        hint += "; " + did_you_mean(name, define, listing="given variables")
    return SpecError(f"template variable {name} is not defined", at=at, hint=hint)


def _place(traceback: TracebackType | None) -> At | None:
    """File and line of the innermost template frame: Jinja2 rewrites the frames of its templates."""
    at = None
    while traceback is not None:
        frame = traceback.tb_frame
        if "__jinja_exception__" in frame.f_globals:
            at = At(frame.f_code.co_filename, traceback.tb_lineno)
        traceback = traceback.tb_next
    return at


class _OwnFolders:
    """The folders of a file's include path, all of them its own folder or below it."""

    def __init__(self, folder: Path | None) -> None:
        self._own = None if folder is None else folder.resolve()
        self._folders = [] if self._own is None else [self._own]

    def cwd(self) -> str:
        """The folder of the current file, not of the process."""
        return str(self._home())

    def add_to_path(self, pattern: str) -> str:
        """Search the matching folders too; renders as nothing."""
        found = [path for path in self._matches(pattern) if path.is_dir()]
        if not found:
            raise SpecError(f"add_to_path: no folder matches {pattern!r}", hint=f"searched below {self._home()}")
        self._folders += found
        return ""

    def find_paths(self, pattern: str) -> list[str]:
        """All matching paths: those in the file's folder first, then along the include path."""
        return [str(path) for path in self._matches(pattern)]

    def find_path(self, pattern: str) -> str:
        """The first of `find_paths`; an error if there is none."""
        paths = self.find_paths(pattern)
        if not paths:
            searched = ", ".join(map(str, self._folders))
            raise SpecError(f"find_path: nothing matches {pattern!r}", hint=f"searched: {searched}")
        return paths[0]

    def path_exists(self, pattern: str) -> bool:
        """Whether `find_path` finds something."""
        return bool(self._matches(pattern))

    def _home(self) -> Path:
        if self._own is None:
            raise SpecError("a specification that is not read from a file has no folder")
        return self._own

    def _matches(self, pattern: str) -> list[Path]:
        home = self._home()
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            hint = "templates see the folder of their own file and the folders below it"
            raise SpecError(f"the path {pattern!r} leads out of {home}", hint=hint)
        found = (path for folder in self._folders for path in sorted(folder.glob(pattern)))
        return list(dict.fromkeys(path for path in found if path.resolve().is_relative_to(home)))


def _path_functions(folder: Path | None) -> dict[str, Callable[[str], Any] | Callable[[], str]]:
    own = _OwnFolders(folder)
    return {
        "cwd": own.cwd,
        "add_to_path": own.add_to_path,
        "find_path": own.find_path,
        "find_paths": own.find_paths,
        "path_exists": own.path_exists,
    }


def _includes() -> dict[str, Callable[..., NoReturn]]:
    return {name: _not_supported(name) for name in ("include", "include_all", "include_text")}


def _not_supported(name: str) -> Callable[..., NoReturn]:
    def refuse(*_args: object, **_kwargs: object) -> NoReturn:
        hint = "give all files to the loader, or use {% include 'file' %}, which pastes rendered text"
        raise NotSupportedError(f"the template function {name}() is not supported yet", hint=hint)

    return refuse
