"""Context of the parts of a component's binding: where it is written, its name, its scope of expressions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from einmap.errors import At, EinmapError, SpecError
from einmap.expressions.arithmetic import number
from einmap.expressions.scope import Scope
from einmap.expressions.sets import NameSet
from einmap.spec.binding.per_tensor import per_tensor
from einmap.spec.models import ModelChoice, Models
from einmap.spec.raw import Path

type Where = Callable[[Path], At]
"""Where what stands at a path is written."""
type SizesOf = Callable[[str], Mapping[str, int]]
"""The size of each rank of a tensor, in the order of its indices in an Einsum."""


@dataclass(frozen=True, eq=False)
class ComponentContext:
    """One component as one Einsum sees it.

    `path`: of the component in the specification; `scope`: what its expressions may name; `symbols`: the sets of the
    Einsum; `defaults`: extra attributes that all components have; `components`: names of all components;
    `own`: names that the component itself defines; `models`: those that components may name;
    `sizes_of`: the size of each rank of a tensor, in the order of its indices in the Einsum;
    `partial_bits`: of a partial sum of the outputs for which they are not those of a result.
    """

    where: Where
    path: Path
    name: str
    scope: Scope
    symbols: Mapping[str, NameSet]
    einsum: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    components: Collection[str] = ()
    own: frozenset[str] = frozenset()
    models: ModelChoice = field(default_factory=lambda: ModelChoice(Models()))
    sizes_of: SizesOf = field(default=lambda _: {})
    partial_bits: Mapping[str, float] = field(default_factory=dict)

    @property
    def all(self) -> NameSet:
        """All tensors of the Einsum."""
        return self.symbols["All"]

    def at(self, *path: str | int) -> At:
        """Where a field of the component is written."""
        return self.where((*self.path, *path))

    def number(self, field: str, value: object, **limits: Any) -> float:
        """The value of a numeric field in the component's own scope."""
        return number(value, self.scope, at=partial(self.at, field), what=field, **limits)

    def table(self, given: Mapping[str, Any], scope: Scope, *path: str | int) -> dict[str, tuple[Any, At]]:
        """An entry for each tensor, from a table whose keys are sets of tensors."""
        return per_tensor(given, self.all, scope, lambda key: self.at(*path, key))

    def inside(self, scope: Scope, own: Iterable[str]) -> ComponentContext:
        """The context of the component's own fields."""
        return replace(self, scope=scope, own=frozenset(own))

    def changed_globals(self, extra: Mapping[str, Any], outer: Scope, path: Path) -> list[EinmapError]:
        """Extra attributes with a name that may not change, though it is set outside."""
        where = partial(self.at, *path, "extra_attributes_for_component_model")
        return changed_globals(extra, outer, where, f"outside of {self.name!r}")


def changed_globals(names: Iterable[str], outer: Scope, where: Callable[[str], At], outside: str) -> list[EinmapError]:
    """One error for each name that starts with `global_` and is set in the outer scope, too."""
    changing = [name for name in names if name.startswith("global_")]
    known = outer.names() if changing else frozenset[str]()
    return [
        SpecError(f"{name!r} is already set {outside}; a global_ name may not change", at=where(name))
        for name in changing
        if name in known
    ]
