"""`spec` as the user's own functions get it: plain data, which may be asked for by attributes, too.

Functions in circulation count fanouts: those in `spatial` of each leaf of `spec.arch.get_nodes_of_type(Leaf)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from einmap.errors import ExpressionError
from einmap.expressions.arithmetic import evaluate
from einmap.expressions.records import FunctionView
from einmap.expressions.scope import Scope
from einmap.spec.schema.arch import ContainerInput
from einmap.spec.schema.placement import SpatialInput

_KINDS = {
    "Memory": ("Component", "TensorHolder"),
    "Toll": ("Component", "TensorHolder"),
    "Compute": ("Component",),
    "Network": ("Component",),
    "Container": ("Fanout",),
    "Fanout": ("Container",),
}
"""Further names of classes that a leaf with this tag belongs to; all are a `Leaf`."""


@dataclass(frozen=True)
class SpatialView:
    """One fanout dimension: `fanout` as a number where it is one without knowing the Einsum, else as written."""

    name: str
    fanout: object
    may_reuse: object
    reuse: object


@dataclass(frozen=True)
class LeafView:
    """One leaf of the architecture, with its tag."""

    tag: str
    name: str
    spatial: tuple[SpatialView, ...]


@dataclass(frozen=True)
class ArchView:
    """The architecture: `variables` are those that have a value without knowing the Einsum."""

    nodes: tuple[LeafView, ...]
    variables: Mapping[str, object] = field(default_factory=dict)

    def get_nodes_of_type(self, kind: type) -> list[LeafView]:
        """The leaves with this tag, in written order; all for a class called `Leaf`."""
        name = kind.__name__
        return [leaf for leaf in self.nodes if name in ("Leaf", leaf.tag, *_KINDS.get(leaf.tag, ()))]


class SpecView(dict[str, Any], FunctionView):
    """`spec` of expressions: `variables` and `workload` as data; for functions, `arch` as an attribute beside them."""

    def __init__(
        self,
        data: Mapping[str, Any],
        leaves: Callable[[], Iterable[tuple[str, ContainerInput]]],
        arch_variables: Callable[[], Scope],
    ) -> None:
        super().__init__(data)
        self._leaves = leaves
        self._arch_variables = arch_variables

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"spec has no {name!r}, it has {', '.join(self)} and arch") from None

    @cached_property
    def arch(self) -> ArchView:
        """The architecture, evaluated as far as that is possible for no Einsum in particular."""
        scope = self._arch_variables()
        names = sorted(scope.names() - set(self.get("variables", ())))
        values = {name: value for name in names if isinstance(value := _value(name, scope), bool | int | float | str)}
        variables = {name: value for name, value in values.items() if value != name}
        leaves = tuple(
            LeafView(tag, given.name, tuple(_dimension(dimension, scope) for dimension in given.spatial))
            for tag, given in self._leaves()
        )
        return ArchView(leaves, variables)


def _dimension(given: SpatialInput, scope: Scope) -> SpatialView:
    reuse = "Nothing" if given.reuse is None else given.reuse
    may_reuse = given.may_reuse if given.may_reuse is not None else "All" if given.reuse is None else given.reuse
    return SpatialView(given.name, _value(given.fanout, scope), may_reuse, reuse)


def _value(text: object, scope: Scope) -> object:
    """The value of an expression; the text itself where it needs an Einsum."""
    try:
        return evaluate(text, scope)
    except ExpressionError:
        return text
