"""The names that a place in a template sees: layers, inner ones first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from einmap.frontends.yaml.template.values import Missing


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """A layer of names, which may be set, on top of a parent."""

    names: dict[str, Any] = field(default_factory=dict)
    parent: Scope | None = None

    def get(self, name: str) -> Any:
        """The innermost value of a name, or Missing."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return Missing(f"{name!r} is undefined", name)

    def inner(self, names: dict[str, Any] | None = None) -> Scope:
        """A layer on top of this one."""
        return Scope({} if names is None else names, self)
