"""Renders one file of a specification, with the templates that it includes and imports."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import nodes

from einmap.errors import At, SpecError
from einmap.frontends.files import read_text_file
from einmap.frontends.yaml.parsing.work import FILE_STEPS, MAX_INCLUDED
from einmap.frontends.yaml.template.asked import asked_for
from einmap.frontends.yaml.template.functions import functions, opaque
from einmap.frontends.yaml.template.page import Out, Page
from einmap.frontends.yaml.template.parse import parse
from einmap.frontends.yaml.template.scope import Scope
from einmap.frontends.yaml.template.statements import Statements, TemplateMissingError
from einmap.frontends.yaml.template.surroundings import Surroundings
from einmap.frontends.yaml.template.tools import defined, weigh
from einmap.frontends.yaml.template.values import Function, LoopVariable


class _BuiltIn(dict[str, Any]):
    """A layer of names that templates have anyway: they are not handed on to the files that these include."""


class Rendering:
    """For one file, called `file` in messages. `names` collects the variables that its templates ask for."""

    def __init__(self, file: str, define: Mapping[str, object], surroundings: Surroundings) -> None:
        self.names: set[str] = set()
        self._file = file
        self._define = define
        self._around = surroundings
        self._known: dict[Path, nodes.Template] = {}
        work = surroundings.work
        of_paths = {name: opaque(work, name, call) for name, call in surroundings.functions.items()}
        self._base = Scope(_BuiltIn(functions(work) | of_paths))

    def page(self, text: str) -> Page:
        """Rendered `text`, the content of the file. Raises SpecError with the line."""
        page = Page(self._around.work)
        scope = self._scope(Scope(dict(self._define), self._base))
        chain = () if self._around.path is None else (self._around.path,)
        self._run(self._parsed(text, self._file), self._file, scope, page, chain)
        return page

    def _parsed(self, text: str, file: str) -> nodes.Template:
        tree = parse(text, file, self._around.work)
        try:
            self.names |= asked_for(tree.body, {*self._base.names, *self._around.including})
        except RecursionError:
            raise SpecError("not a valid template: it is nested too deeply", at=At(file, 1)) from None
        return tree

    def _run(self, tree: nodes.Template, file: str, scope: Scope, out: Out, chain: tuple[Path, ...]) -> None:
        def other(name: Any, seen: Scope | None, to: Out) -> Scope:
            return self._other(name, seen, to, chain)

        Statements(self._around.work, file, self._define, other).run(tree.body, scope, out)

    def _scope(self, seen: Scope) -> Scope:
        """The scope of a template on top of the names that it sees; functions that include hand its names on."""
        built_in = _BuiltIn()
        top = Scope({}, Scope(built_in, seen))
        built_in.update({name: self._including(name, call, top) for name, call in self._around.including.items()})
        return top

    def _including(self, name: str, call: Callable[..., object], top: Scope) -> Function:
        def include(*arguments: Any, **options: Any) -> object:
            inherited = _variables(top)
            weigh(self._around.work, inherited)  # they are compared with those of other includes
            return call(inherited, *arguments, **options)

        return opaque(self._around.work, name, include)

    def _other(self, name: Any, seen: Scope | None, out: Out, chain: tuple[Path, ...]) -> Scope:
        """Run another template, which sees `seen`; its own names."""
        path, file = self._found(name, chain)
        chain = (*chain, path)
        if len(chain) > MAX_INCLUDED:
            raise SpecError(self._too_deep(chain), at=At(self._file))
        if path not in self._known:
            self._known[path] = self._parsed(read_text_file(path), file)
        scope = self._scope(self._base if seen is None else seen)
        self._run(self._known[path], file, scope, _Unplaced(out), chain)
        return scope

    def _found(self, name: Any, chain: tuple[Path, ...]) -> tuple[Path, str]:
        """The file that a template names: relative to the one that includes it, and below the roots, also by links."""
        self._around.work.step(FILE_STEPS)
        if not isinstance(defined(name), str) or "\0" in name:
            raise TypeError("the name of a template is a text")
        if not chain:
            raise SpecError("a specification that is not read from a file has no folder to include from")
        target = Path(os.path.normpath(chain[-1].parent / name))
        path = self._around.roots.check(target, self._around.roots.shown(target))
        if not path.is_file():
            raise TemplateMissingError(f"the included template {self._around.roots.shown(path)!r} was not found")
        return path, self._around.roots.shown(path)

    def _too_deep(self, chain: tuple[Path, ...]) -> str:
        shown = [self._around.roots.shown(path) for path in chain]
        first = next((i for i, file in enumerate(shown) if file in shown[:i]), None)
        if first is None:
            return f"files include each other more than {MAX_INCLUDED} deep: {' -> '.join(shown)}"
        return f"include cycle {' -> '.join(shown[shown.index(shown[first]) : first + 1])}"


class _Unplaced:
    """Writes what another file gives: its lines are not those of the page."""

    def __init__(self, out: Out) -> None:
        self._out = out

    def write(self, text: str, line: int | None = None) -> None:  # noqa: ARG002
        self._out.write(text)

    def data(self, text: str, line: int) -> None:  # noqa: ARG002
        self._out.write(text)


def _variables(top: Scope) -> dict[str, Any]:
    """The variables of a template: those given to it, and those that it sets outside of loops and macros."""
    variables: dict[str, Any] = {}
    scope: Scope | None = top
    while scope is not None:
        if not isinstance(scope.names, _BuiltIn):
            variables = scope.names | variables
        scope = scope.parent
    return {name: value for name, value in variables.items() if not isinstance(value, LoopVariable)}
