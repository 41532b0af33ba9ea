"""The names that expressions may use for one Einsum: set names, tensors, renames, rank variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from einmap.einsum.spaces.projection import Projection
from einmap.errors import At, ExpressionError, SpecError, did_you_mean
from einmap.expressions.scope import Scope
from einmap.expressions.sets import NameSet, SetInfo
from einmap.visible import short


@dataclass(frozen=True)
class CascadeFacts:
    """Facts of the whole cascade for the symbols of one Einsum."""

    tensors: frozenset[str]
    rank_variables: frozenset[str]
    intermediates: frozenset[str]
    shared: frozenset[str]


@dataclass(frozen=True)
class EinsumFacts:
    """Facts of the Einsum itself for its symbols."""

    name: str
    projections: Mapping[str, Projection]
    outputs: frozenset[str]
    persistent: frozenset[str]
    rank_variables: tuple[str, ...]

    @property
    def tensors(self) -> frozenset[str]:
        """All tensors of the Einsum."""
        return frozenset(self.projections)


def tensor_universe(einsum: EinsumFacts, bits: Mapping[str, float]) -> NameSet:
    """All tensors of the Einsum as a set value; `bits` may be empty while they are not known yet."""
    return NameSet(einsum.tensors, einsum.tensors, "tensors", _info(einsum, bits))


def _info(einsum: EinsumFacts, bits: Mapping[str, float]) -> SetInfo:
    variables = {
        tensor: frozenset(v for _, index in projection for v, _ in index.terms)
        for tensor, projection in einsum.projections.items()
    }
    last = {
        tensor: frozenset(v for v, _ in projection[-1][1].terms)
        for tensor, projection in einsum.projections.items()
        if projection
    }
    return SetInfo.of(variables, bits, frozenset(einsum.rank_variables), last)


@dataclass(frozen=True, eq=False)
class Symbols(Mapping[str, NameSet]):
    """The names that expressions may use in one Einsum, which are few, and those of the cascade, maybe thousands.

    Tensors and rank variables of other Einsums are empty sets.
    """

    own: Mapping[str, NameSet]
    cascade: CascadeFacts
    no_tensors: NameSet
    no_variables: NameSet

    def renamed(self, renames: Mapping[str, NameSet]) -> Symbols:
        """These names, and renames that hide what had their names."""
        return replace(self, own={**self.own, **renames})

    def __getitem__(self, name: str) -> NameSet:
        value = self._find(name)
        if value is None:
            raise KeyError(name)
        return value

    def get(self, name: str, default: Any = None) -> Any:
        """Meaning of a name, or `default`."""
        value = self._find(name)
        return default if value is None else value

    def _find(self, name: object) -> NameSet | None:
        if name in self.own:
            return self.own[name]  # type: ignore[index]
        if name in self.cascade.tensors:
            return self.no_tensors
        return self.no_variables if name in self.cascade.rank_variables else None

    def __contains__(self, name: object) -> bool:
        return self._find(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter({**self.own, **dict.fromkeys(self.cascade.tensors | self.cascade.rank_variables)})

    def __len__(self) -> int:
        return len(self.own.keys() | self.cascade.tensors | self.cascade.rank_variables)


def symbols(cascade: CascadeFacts, einsum: EinsumFacts, bits: Mapping[str, float]) -> Symbols:
    """Set names, tensors and rank variables of one Einsum."""
    universe = tensor_universe(einsum, bits)

    def tensors(members: frozenset[str]) -> NameSet:
        return universe.with_members(members & einsum.tensors)

    variables = NameSet(
        frozenset(einsum.rank_variables),
        frozenset(einsum.rank_variables),
        "rank variables",
        universe.info,
    )
    none = tensors(frozenset())
    names = {
        **{v: variables.with_members(frozenset({v})) for v in einsum.rank_variables if v not in cascade.tensors},
        **{t: tensors(frozenset({t})) for t in einsum.tensors},
        "All": universe,
        "Tensors": universe,
        "Inputs": tensors(einsum.tensors - einsum.outputs),
        "Outputs": tensors(einsum.outputs),
        "Intermediates": tensors(cascade.intermediates),
        "Shared": tensors(cascade.shared),
        "Persistent": tensors(einsum.persistent),
        "Nothing": none,
    }
    return Symbols(names, cascade, none, variables.with_members(frozenset()))


@dataclass(frozen=True, slots=True)
class Rename:
    """One rename as written: `source` is a set expression, `count` the number it must have or None."""

    name: str
    source: object
    count: object | None
    at: At


def union_text(source: object) -> object:
    """A list of set expressions as the one expression of their union; anything else as it is.

    ["A", "B & C"] --> "(A) | (B & C)"
    """
    if not isinstance(source, list | tuple):
        return source
    return " | ".join(f"({part})" for part in source) or "Nothing"


def apply_renames(
    renames: list[Rename], scope: Scope, einsum: str, second_names: Mapping[str, str]
) -> dict[str, NameSet]:
    """Evaluate renames in order; each may use the ones before it. Raises SpecError.

    `second_names`: tensors by the names of copies that count as the tensor itself.
    """
    from einmap.expressions.arithmetic import evaluate, number

    tables: dict[str, NameSet] = {}
    for position, rename in enumerate(renames):
        current = scope.layer(tables)
        try:
            value = evaluate(union_text(rename.source), current, at=rename.at)
        except ExpressionError as problem:
            _suggest_order(problem, renames[position:])
            raise
        if not isinstance(value, NameSet):
            raise ExpressionError(
                f"rename {rename.name!r} of Einsum {einsum!r} must be a set, got {short(value)}", at=rename.at
            )
        if rename.count is not None:
            expected = number(rename.count, current, at=rename.at, what="expected_count", minimum=0, integer=True)
            if len({second_names.get(name, name) for name in value}) != expected:
                elements = "element" if expected == 1 else "elements"
                raise SpecError(
                    f"rename {rename.name!r} of Einsum {einsum!r}: expected {expected} {elements}, "
                    f"got {{{', '.join(value)}}}",
                    at=rename.at,
                )
        tables[rename.name] = value
    return tables


def _suggest_order(problem: ExpressionError, later: list[Rename]) -> None:
    """A name that is not defined yet is defined further down."""
    for rename in later:
        if problem.message == f"name {rename.name!r} is not defined":
            problem.hint = f"a rename sees only those before it: change the order, {rename.name!r} comes later"


def unknown_einsum(name: str, einsums: list[str], at: At) -> SpecError:
    """A top-level rename for an Einsum that does not exist."""
    return SpecError(f"no Einsum {name!r} in the workload", at=at, hint=did_you_mean(name, einsums))
