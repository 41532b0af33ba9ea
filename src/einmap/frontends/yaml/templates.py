"""Jinja2 templates in specification files, rendered before the text is read as YAML."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from einmap.errors import At, EinmapError, ManyErrors, SpecError, did_you_mean
from einmap.frontends.yaml.folders import Roots
from einmap.frontends.yaml.places import Places, unmarked
from einmap.frontends.yaml.work import Work

_MARKS = ("{{", "{%", "{#")
_NOT_DEFINED = re.compile(r"'(\w+)' is undefined")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A text without template constructs, and where its lines come from; `names` are the variables it used."""

    text: str
    places: Places
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a template sees beside its variables.

    `path` is the file that it is, without links (None for a text): Jinja's own includes are relative to it.
    """

    path: Path | None
    roots: Roots
    work: Work
    functions: Mapping[str, Callable[..., object]]


def is_template(text: str) -> bool:
    """Whether `text` has any template construct."""
    return any(mark in text for mark in _MARKS)


def render(text: str, file: str, define: Mapping[str, object], surroundings: Surroundings) -> Rendered:
    """Render `text` with the variables `define`; `file` is its name in messages.

    Raises SpecError with the line of the template.
    """
    # Here, not above: most specifications have no templates, and Jinja2 takes long to import.
    from einmap.frontends.yaml.sandbox import SandboxedTemplates

    name = "" if surroundings.path is None else str(surroundings.path)
    templates = SandboxedTemplates(name, surroundings.roots, surroundings.work)
    templates.globals.update(surroundings.functions)
    try:
        code = templates.compile(text, name, file)
        template = templates.template_class.from_code(templates, code, templates.make_globals(None))
        pieces = []
        for piece in template.generate(**define):
            surroundings.work.write(len(piece))
            pieces.append(piece)
    except Exception as error:  # templates run arbitrary expressions
        raise _explained(error, file, define) from error
    rendered, places = unmarked("".join(pieces), text, file)
    return Rendered(rendered, places, frozenset(templates.names))


def _explained(error: Exception, file: str, define: Mapping[str, object]) -> EinmapError:
    """The error in our words, with the line of the template that raised it."""
    import jinja2

    at = _place(error.__traceback__) or At(file)
    match error:
        case ManyErrors():
            return error
        case SpecError():
            error.at = at if error.at is None else error.at
            return error
        case jinja2.TemplateSyntaxError():
            at = At(error.filename or file, error.lineno)
            return SpecError(f"not a valid template: {error.message}", at=at)
        case jinja2.TemplateNotFound():
            return SpecError(f"the included template {error.name!r} was not found", at=at)
        case jinja2.UndefinedError():
            return _undefined(error.message or "", at, define)
        case RecursionError():
            cycle = _cycle(error.__traceback__)
            what = f"include cycle {' -> '.join(cycle)}" if cycle else "the template calls itself without end"
            return SpecError(what, at=At(file) if cycle else at)
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


def _cycle(traceback: TracebackType | None) -> list[str]:
    """The files that Jinja2 includes from one another, down to the first that comes again; empty when none does."""
    chain: list[str] = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if "__jinja_exception__" in traceback.tb_frame.f_globals and code.co_name == "top-level template code":
            chain.append(code.co_filename)
            if code.co_filename in chain[:-1]:
                return chain[chain.index(code.co_filename) :]
        traceback = traceback.tb_next
    return []


def _place(traceback: TracebackType | None) -> At | None:
    """File and line of the innermost template frame: Jinja2 rewrites the frames of its templates."""
    at = None
    while traceback is not None:
        frame = traceback.tb_frame
        if "__jinja_exception__" in frame.f_globals:
            at = At(frame.f_code.co_filename, traceback.tb_lineno)
        traceback = traceback.tb_next
    return at
