"""Names that an expression may use, in layers: inner ones hide outer ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from einmap.errors import At, ExpressionError, Where
from einmap.expressions.arithmetic import evaluate
from einmap.expressions.evaluator.budget import Account
from einmap.expressions.evaluator.interpreter import MISSING, undefined
from einmap.expressions.evaluator.syntax import quoted
from einmap.expressions.sets import NameSet

MAX_CHAIN = 50
"""Values that may need each other in a row, so that Python's stack is never the limit."""


class Lazy:
    """A value that is computed when it is first looked up.

    Fields may refer to each other in any order; a value that needs itself is an error that names the cycle.
    """

    __slots__ = ("_compute", "_problem", "_value", "name")

    def __init__(self, compute: Callable[[], object], name: str = "") -> None:
        self.name = name
        self._compute = compute
        self._value: object = MISSING
        self._problem: ExpressionError | None = None

    def value(self, name: str = "") -> object:
        """The value; `name` is what it was looked up as. Raises ExpressionError for a cycle."""
        if self._problem is not None:
            raise self._problem
        if self._value is MISSING:
            try:
                self._value = self._computed(name)
            except ExpressionError as problem:
                self._problem = problem
                raise
        return self._value

    def _computed(self, name: str) -> object:
        name = self.name or name
        underway = _UNDERWAY.get()
        for position, (lazy, _) in enumerate(underway):
            if lazy is self:
                names = [*(name for _, name in underway[position:]), name]
                raise ExpressionError(f"circular dependency {' -> '.join(names)}")
        if len(underway) >= MAX_CHAIN:
            first, last = underway[0][1], name
            raise ExpressionError(f"more than {MAX_CHAIN} values need each other in a chain, from {first} to {last}")
        token = _UNDERWAY.set((*underway, (self, name)))
        try:
            return self._compute()
        finally:
            _UNDERWAY.reset(token)


_UNDERWAY: ContextVar[tuple[tuple[Lazy, str], ...]] = ContextVar("_UNDERWAY", default=())
"""The values being computed, outermost first."""


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """A layer of names on top of a parent scope; `Scope()` knows no names. Never changes.

    Scope().layer({"a": 1, "b": 2}).layer({"b": 3}).lookup("b") == 3
    """

    values: Mapping[str, object] = field(default_factory=dict)
    parent: Scope | None = None
    _account: Account = field(default_factory=Account)

    @property
    def account(self) -> Account:
        """Work that all expressions in scopes with this one's root may still do."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope._account

    def layer(self, values: Mapping[str, object]) -> Scope:
        """These names on top of this scope; values may be `Lazy`."""
        return Scope(dict(values), self)

    def without(self, name: str) -> Scope:
        """This scope, with `name` left out of its top layer."""
        return Scope({n: value for n, value in self.values.items() if n != name}, self.parent)

    def get(self, name: str, default: object = None) -> Any:
        """The innermost value of `name`, or `default`. Raises ExpressionError when computing it fails."""
        scope: Scope | None = self
        while scope is not None:
            value = scope.values.get(name, MISSING)
            if value is not MISSING:
                return value.value(name) if isinstance(value, Lazy) else value
            scope = scope.parent
        return default

    def lookup(self, name: str) -> Any:
        """The innermost value of `name`. Raises ExpressionError with a suggestion when there is none."""
        value = self.get(name, MISSING)
        if value is MISSING:
            raise undefined(name, self.names)
        return value

    def layers(self) -> Iterator[Mapping[str, object]]:
        """The values of each layer, inner ones first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope.values
            scope = scope.parent

    def names(self) -> frozenset[str]:
        """All names, for suggestions."""
        return frozenset().union(*self.layers())

    def sets(self) -> Mapping[str, NameSet]:
        """The sets among the values that are not expressions, for suggestions; inner ones hide outer ones."""
        values = {name: value for layer in reversed(tuple(self.layers())) for name, value in layer.items()}
        return {name: value for name, value in values.items() if isinstance(value, NameSet)}


def lazy_layer(texts: Mapping[str, object], parent: Scope, where: Callable[[str], At | None]) -> Scope:
    """A layer of expressions, each evaluated at first look-up; they may use each other, and `parent`.

    `where` says at which place a name is written. In its own expression a name means that of `parent`.
    A text of a type derived from `str` is quoted: it stands for itself.
    """

    def lazy(name: str, text: object) -> Lazy:
        return Lazy(lambda: _field(text, layer.without(name), partial(where, name)), name)

    layer = parent.layer({name: lazy(name, text) for name, text in texts.items()})
    return layer


def _field(text: object, scope: Scope, at: Where) -> object:
    if isinstance(text, str) and type(text) is not str:
        return text
    try:
        return evaluate(text, scope, at=at)
    except ExpressionError as problem:
        _suggest_quotes(problem, text)
        raise


def _suggest_quotes(problem: ExpressionError, text: object) -> None:
    """`a: hello` is either a name that does not exist or text without quotes."""
    if not isinstance(text, str):
        return
    is_unknown = problem.message == f"name {text.strip()!r} is not defined"
    if is_unknown or problem.message.startswith(f"{quoted(text)} is not an expression"):
        problem.advise("quote it if it is text")
