"""Given mappings of the caller, as patterns by Einsum."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf

from einmap.errors import At, EinmapError, MappingError, SpecError, attempt, did_you_mean, raise_all
from einmap.mapper.given.pattern import Pattern, pattern_of
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Compute, Node, Pipeline, Split, format_address
from einmap.mapping.template import OpenCompute, PartialMapping, PartialNode, StageBegin
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
    """Given mapping of one Einsum, as a partial mapping."""
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
    """The nodes above one Einsum, with its own tensors only, and where its stage begins."""
    nodes: list[PartialNode] = []
    places: list[At] = []
    path = given.path_of[name]
    for placed, below in zip(path, (*path[1:], path[-1]), strict=True):
        node: Node | StageBegin = placed.node
        if isinstance(node, Pipeline):
            number = below.address[len(placed.address)]
            node = StageBegin(format_address(placed.address), number, node.component, node.name)
        if not isinstance(node, Split):
            nodes.append(node)
            places.append(At(path=f"given.{format_address(placed.address)}"))
    others = spec.workload.users.keys() - spec.workload.by_name[name].tensors
    return PartialMapping(tuple(nodes), tuple(places)).without(others)
