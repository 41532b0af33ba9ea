"""What the caller gives, as patterns by Einsum."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf

from einmap.errors import At, EinmapError, MappingError, NotSupportedError, SpecError, attempt, did_you_mean, raise_all
from einmap.mapper.given.pattern import Pattern, pattern_of
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Compute, Pipeline, Split, format_address
from einmap.mapping.template import OpenCompute, PartialMapping
from einmap.spec.spec import Spec
from einmap.visible import short

type GivenOne = PartialMapping | Mapping
type Given = GivenOne | MappingOf[str, GivenOne]


def patterns_of(given: Given | None, spec: Spec) -> dict[str, Pattern]:
    """The pattern of each Einsum of which something is given.

    Raises SpecError for what is not a given mapping, MappingError for one that no mapping of the workload is like.
    """
    problems: list[EinmapError] = []
    patterns: dict[str, Pattern] = {}
    for name, partial in _by_einsum(given, spec).items():
        if name not in spec.workload.by_name:
            hint = did_you_mean(name, spec.workload.by_name, listing="Einsums")
            at = partial.at(0) if partial.nodes else None
            problems.append(MappingError(f"the workload has no Einsum {name!r}", at=at, hint=hint))
            continue
        bound = spec.bound[name]
        pattern = attempt(problems, lambda p=partial, b=bound: pattern_of(p, b.einsum, b.arch))  # type: ignore[misc]
        if pattern is not None and not pattern.says_nothing:
            patterns[name] = pattern
    raise_all(problems)
    return patterns


def _by_einsum(given: Given | None, spec: Spec) -> dict[str, PartialMapping]:
    match given:
        case None:
            return {}
        case PartialMapping():
            return {_named(given, spec): given}
        case Mapping():
            return {name: _nodes_above(given, spec, name) for name in given.path_of if name in spec.workload.by_name}
        case MappingOf() if all(isinstance(name, str) for name in given):
            return {name: _given_for(name, value, spec) for name, value in given.items()}
        case _:
            raise SpecError(
                f"expected a given mapping, found {short(given)}",
                hint="a PartialMapping, a Mapping, one of each by name of the Einsum, or the path of a YAML file",
            )


def _given_for(name: str, given: object, spec: Spec) -> PartialMapping:
    """What is given for one Einsum, as a partial mapping."""
    if isinstance(given, PartialMapping):
        return given
    if isinstance(given, Mapping) and name in given.path_of:
        return _nodes_above(given, spec, name)
    raise SpecError(f"given for Einsum {name!r}: expected a PartialMapping or a Mapping of it, found {short(given)}")


def _named(given: PartialMapping, spec: Spec) -> str:
    """The Einsum that the Compute names, or the only one."""
    for node in given.nodes:
        if isinstance(node, Compute | OpenCompute):
            return node.einsum
    names = list(spec.workload.by_name)
    if len(names) == 1:
        return names[0]
    raise SpecError(
        "the given mapping does not say of which Einsum it is", hint=f"give it by name: {{{names[0]!r}: ...}}"
    )


def _nodes_above(given: Mapping, spec: Spec, name: str) -> PartialMapping:
    """The nodes above one Einsum, with its own tensors only. Raises NotSupportedError for a stage of a Pipeline."""
    staged = next((p for p in given.path_of[name] if isinstance(p.node, Pipeline)), None)
    if staged is not None:
        raise NotSupportedError(
            "!Pipeline (stages in a mapping that is given to the mapper) is not supported yet",
            at=At(path=f"given.{format_address(staged.address)}"),
            hint="give mappings of Einsums that are in no stage",
        )
    nodes = tuple(p.node for p in given.path_of[name] if not isinstance(p.node, Split))
    places = tuple(At(path=f"given.{format_address(p.address)}") for p in given.path_of[name]
                   if not isinstance(p.node, Split))  # fmt: skip
    others = spec.workload.users.keys() - spec.workload.by_name[name].tensors
    return PartialMapping(nodes, places).without(others)
