"""The architecture, bound for one Einsum: the raw tree becomes frozen components."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from einmap.arch.component import Container, Leaf, Skew, SpatialDimension
from einmap.arch.constraint import Comparison
from einmap.arch.tree import Architecture, Array, Fork, Hierarchical, Node, outermost_memory
from einmap.einsum.einsum import Einsum
from einmap.errors import (
    At,
    EinmapError,
    ExpressionError,
    ManyErrors,
    Note,
    SpecError,
    attempt,
    did_you_mean,
    raise_all,
)
from einmap.expressions.arithmetic import number, tensor_set
from einmap.expressions.records import Record, safe_function
from einmap.expressions.scope import Lazy, Scope, lazy_layer
from einmap.expressions.sets import NameSet
from einmap.spec.binding.array_units import array_problems, check_networks, in_array, misplaced
from einmap.spec.binding.component.applied_scales import CostOrigin
from einmap.spec.binding.component.bind_component import bind_component, record_of, unknown_holding
from einmap.spec.binding.component.component_context import ComponentContext, SizesOf, Where, changed_globals
from einmap.spec.binding.component.component_placement import bind_comparison
from einmap.spec.binding.component.unit_slips import BoundPart, unit_slips
from einmap.spec.dialects.dialect import Choice
from einmap.spec.models import ModelChoice
from einmap.spec.names import RESERVED, check_name
from einmap.spec.raw import Path, Raw, RawList, RawMap, place, tag_of
from einmap.spec.schema.arch import (
    BRANCHES,
    LEAVES,
    ArchInput,
    ArrayInput,
    ComponentInput,
    ContainerInput,
    ForkInput,
)
from einmap.spec.schema.base import Input, SetExpression, check
from einmap.spec.schema.documented import word_in
from einmap.spec.schema.placement import ComparisonInput, SpatialInput

MAX_INSTANCES = 2**40
"""Instances of a component."""


@dataclass(frozen=True)
class LeafInput:
    """A leaf as written and where it stands."""

    tag: str
    given: ContainerInput
    path: Path


@dataclass(frozen=True)
class BranchInput:
    """A Fork or a nested hierarchy as written."""

    tag: str
    given: Input
    nodes: tuple[LeafInput | BranchInput, ...]
    path: Path


@dataclass(frozen=True)
class ArchInputs:
    """The architecture as written, its shape checked; the same for all Einsums."""

    given: ArchInput
    nodes: tuple[LeafInput | BranchInput, ...]

    @property
    def leaves(self) -> tuple[LeafInput, ...]:
        """All leaves in written order."""
        return tuple(_leaves(self.nodes))


def _leaves(nodes: tuple[LeafInput | BranchInput, ...]) -> list[LeafInput]:
    leaves: list[LeafInput] = []
    for node in nodes:
        leaves += [node] if isinstance(node, LeafInput) else _leaves(node.nodes)
    return leaves


def read_arch(root: RawMap) -> ArchInputs:
    """Check the shape of the key `arch`. Raises all problems together."""
    problems: list[EinmapError] = []
    raw = root.get("arch") or RawMap(())
    given = check(ArchInput, raw, root, ("arch",), problems, drop=("nodes",))
    listed = raw.get("nodes") if isinstance(raw, RawMap) else None
    nodes = _read_nodes(listed, root, ("arch", "nodes"), problems)
    raise_all(problems)
    assert given is not None
    arch = ArchInputs(given, nodes)
    _check_names(arch, root, problems)
    raise_all(problems)
    return arch


def _read_nodes(
    raw: Raw | None, root: Raw, path: Path, problems: list[EinmapError]
) -> tuple[LeafInput | BranchInput, ...]:
    if isinstance(root, RawMap) and root.get(str(path[0])) is None:
        hint = "give a file with this key, or one of the architectures that `einmap examples` lists"
        problems.append(SpecError(f"the specification has no key {path[0]!r}", at=place(root, path[:1]), hint=hint))
        return ()
    if not isinstance(raw, RawList) or not raw.items:
        problems.append(SpecError("the architecture needs a list of nodes", at=place(root, path)))
        return ()
    nodes: list[LeafInput | BranchInput] = []
    for index, item in enumerate(raw.items):
        here: Path = (*path, index)
        tag = tag_of(item) or ""
        if tag in LEAVES:
            leaf = check(LEAVES[tag], item, root, here, problems, node=True)
            nodes += [LeafInput(tag, leaf, here)] if leaf is not None else []
        elif tag in BRANCHES:
            assert isinstance(item, RawMap)
            problems += misplaced(item, root, here) if tag == "Array" else ()
            branch = check(BRANCHES[tag], item, root, here, problems, drop=("nodes",), node=True)
            inner = _read_nodes(item.get("nodes"), root, (*here, "nodes"), problems)
            if isinstance(branch, ArrayInput):
                problems += array_problems([(leaf.tag, leaf.given, leaf.path) for leaf in _leaves(inner)], root)
                inner = (*inner, LeafInput("Array", branch, here))
            nodes += [BranchInput(tag, branch, inner, here)] if branch is not None else []
        else:
            text = f"unknown node tag !{tag}" if tag else "an architecture node needs a tag such as !Memory"
            hint = did_you_mean(tag, [*LEAVES, *BRANCHES], listing="tags")
            problems.append(SpecError(text, at=place(root, here), hint=hint))
    return tuple(nodes)


def _check_names(arch: ArchInputs, root: Raw, problems: list[EinmapError]) -> None:
    seen: dict[str, Path] = {}
    for leaf in arch.leaves:
        name, at = leaf.given.name, place(root, leaf.path)
        if name in seen:
            problems.append(SpecError(f"component name {name!r} is used twice (also {place(root, seen[name])})", at=at))
        seen[name] = leaf.path
        attempt(problems, partial(check_name, name, "component", place(root, (*leaf.path, "name"))))
        dimensions: set[str] = set()
        for index, dimension in enumerate(leaf.given.spatial):
            at = place(root, (*leaf.path, "spatial", index))
            attempt(problems, partial(check_name, dimension.name, "dimension", at))
            if dimension.name in dimensions:
                problems.append(SpecError(f"dimension {dimension.name!r} of {name!r} is given twice", at=at))
            dimensions.add(dimension.name)
    for node in _branches(arch.nodes):
        if node.tag == "Fork" and not any(leaf.tag == "Compute" for leaf in _leaves(node.nodes)):
            problems.append(SpecError("a Fork needs a Compute", at=place(root, node.path)))
    if not any(leaf.tag == "Compute" for leaf in arch.leaves):
        problems.append(SpecError("the architecture has no Compute", at=place(root, ("arch", "nodes"))))


def _branches(nodes: tuple[LeafInput | BranchInput, ...]) -> list[BranchInput]:
    branches: list[BranchInput] = []
    for node in nodes:
        if isinstance(node, BranchInput):
            branches += [node, *_branches(node.nodes)]
    return branches


def bind_arch(
    arch: ArchInputs,
    where: Where,
    variables: Scope,
    symbols: Mapping[str, NameSet],
    einsum: Einsum,
    dialect: Choice,
    models: ModelChoice,
    sizes_of: SizesOf = lambda _: {},
) -> tuple[Architecture, tuple[Note, ...], dict[str, CostOrigin]]:
    """Evaluate every expression of the architecture for one Einsum. `where`: the place of a path of the specification.

    `models`: what components may name; `sizes_of`: the size of each rank of a tensor, as the Einsum orders them. The
    last part: what the costs of each component came from, by name.

    Raises all problems together; each names component, field, place, and the Einsum where it matters.
    """
    binder = _Binder(arch, where, variables, symbols, einsum, dialect, models, sizes_of)
    bound = Architecture(binder.nodes(arch.nodes))
    raise_all(binder.problems)
    _check_instances(bound, arch, where)
    _check_paths(bound, where(("arch", "nodes")))
    origins = {part.component.name: part.origin for part in binder.parts}
    return bound, (*binder.notes, *unit_slips(binder.parts, where)), origins


def _check_instances(bound: Architecture, arch: ArchInputs, where: Where) -> None:
    """Fanouts multiply: what is refused is named at the first component that has too many instances."""
    for leaf in arch.leaves:
        if bound.instances[leaf.given.name] > MAX_INSTANCES:
            text = f"{leaf.given.name!r} has more than 2**40 instances: its fanout and those above it multiply to more"
            raise SpecError(text, at=where(leaf.path))


def _check_paths(arch: Architecture, at: At) -> None:
    """There is a memory above each Compute."""
    for unit in arch.computes:
        if outermost_memory(arch.path(unit.name)) is None:
            raise SpecError(f"no Memory stands above the Compute {unit.name!r}", at=at)


class Below(Record):
    """A component that is not above, as expressions see it: its fanouts are known, since they are fixed."""

    def expression_attribute(self, name: str) -> object:
        """The functions of fanouts. Raises ExpressionError for anything else."""
        if name in self.attributes:
            return self.attributes[name]
        text = f"{self.name} is not above; only components above can be referenced, and get_fanout() of others"
        raise ExpressionError(text)


def below(name: str, fanouts: Callable[[], dict[str, int]]) -> Below:
    """Attributes that expressions may ask of a component that is not above; `fanouts`: by dimension."""
    functions = {
        "get_fanout": safe_function(lambda: math.prod(fanouts().values()), "get_fanout"),
        "get_fanout_along": safe_function(lambda along, default=1: fanouts().get(along, default), "get_fanout_along"),
    }
    return Below(name, functions, {"tensors": unknown_holding(name)})


class _Binder:
    """Walks the tree outside in; components above are in scope for those below."""

    def __init__(
        self,
        arch: ArchInputs,
        where: Where,
        variables: Scope,
        symbols: Mapping[str, NameSet],
        einsum: Einsum,
        dialect: Choice,
        models: ModelChoice,
        sizes_of: SizesOf,
    ) -> None:
        self.models = models
        self.sizes_of = sizes_of
        self.partial_bits = einsum.partial_bits
        self.where = where
        self.symbols = symbols
        self.einsum = einsum.name
        self.dialect = dialect
        self.arch = arch
        self.problems: list[EinmapError] = []
        self.inside: Container | None = None
        self.notes: list[Note] = []
        self.parts: list[BoundPart] = []
        base = Scope(symbols, variables)
        for field in ("variables", "extra_attributes_for_all_component_models"):
            at = partial(self.place_in_arch, field)
            self.problems += changed_globals(getattr(arch.given, field), base, at, "outside of arch")
        for name in sorted(arch.given.variables.keys() & symbols.keys()):
            text = f"the variable {name!r} of arch hides the set, tensor or rank variable of that name in expressions"
            self.notes.append(Note(text, self.place_in_arch("variables", name)))
        layer = lazy_layer(arch.given.variables, base, partial(self.place_in_arch, "variables"))
        together = Lazy(lambda: {name: layer.lookup(name) for name in arch.given.variables})
        base = layer.layer({"arch_variables": together, "Above": Lazy(self._refuse_above)})
        # a set name, tensor or rank variable of the same name wins in expressions
        self.hidden = frozenset(leaf.given.name for leaf in arch.leaves) & {*symbols, *RESERVED}
        others = {leaf.given.name: below(leaf.given.name, partial(self.fanouts, leaf, base)) for leaf in arch.leaves}
        self.scope = base.layer({name: value for name, value in others.items() if name not in self.hidden})
        for leaf in arch.leaves:
            if leaf.given.name in self.hidden:
                text = f"{leaf.given.name!r} also names a set, tensor or rank variable, which wins in expressions"
                self.notes.append(Note(text, where(leaf.path)))

    def place_in_arch(self, field: str, name: str) -> At:
        return self.where(("arch", field, name))

    def _refuse_above(self) -> object:
        raise ExpressionError(unknown_holding("`Above`"))

    def fanouts(self, leaf: LeafInput, scope: Scope) -> dict[str, int]:
        """Fanouts of a leaf by dimension, from expressions that need no component. Raises SpecError."""

        def fanout(dimension: SpatialInput, at: At) -> int:
            return int(number(dimension.fanout, scope, at=at, what="fanout", integer=True))

        places = (self.where((*leaf.path, "spatial", i, "fanout")) for i in range(len(leaf.given.spatial)))
        return {given.name: fanout(given, at) for given, at in zip(leaf.given.spatial, places, strict=True)}

    def nodes(self, nodes: tuple[LeafInput | BranchInput, ...]) -> tuple[Node, ...]:
        bound: list[Node] = []
        for node in nodes:
            if isinstance(node, LeafInput):
                try:
                    leaf = self.leaf(node)
                except EinmapError as problem:
                    if not isinstance(problem, ManyErrors):
                        problem.at = problem.at or self.where(node.path)
                    self.problems.append(problem)
                    continue
                bound.append(leaf)
            elif isinstance(node.given, ForkInput):
                outside = self.scope
                inner = self.nodes(node.nodes)
                self.scope = outside
                bound.append(Fork(inner, node.given.forked_power_gateable, node.given.non_forked_power_gateable))
            elif isinstance(node.given, ArrayInput):
                bound.append(self.array(node))
            else:
                bound.append(Hierarchical(self.nodes(node.nodes)))
        return tuple(bound)

    def array(self, node: BranchInput) -> Node:
        """An array: its fanout is known before what stands in it, which is above it on the path."""
        *inside, own = node.nodes
        assert isinstance(own, LeafInput)
        fanout = attempt(self.problems, partial(self.spatial, own, self.scope))
        if fanout is None:
            return Hierarchical(())
        self.inside = Container(own.given.name, fanout)
        bound = self.nodes(tuple(inside))
        container, self.inside = self.inside, None
        paths = {leaf.given.name: leaf.path for leaf in self.arch.leaves}
        attempt(self.problems, partial(check_networks, bound, paths, self.where))
        self.show(container.name, record_of(container.name, container.spatial, {}))
        return Array((*bound, container))

    def leaf(self, node: LeafInput) -> Leaf:
        if node.tag in ("Container", "Fanout"):
            container = Container(node.given.name, self.spatial(node, self.scope))
            self.show(container.name, record_of(container.name, container.spatial, {}))
            return container
        array, spatial = self.inside, partial(self.spatial, node)
        context = ComponentContext(
            self.where,
            node.path,
            node.given.name,
            self.scope,
            self.symbols,
            self.einsum,
            self.arch.given.extra_attributes_for_all_component_models,
            {leaf.given.name for leaf in self.arch.leaves},
            models=self.models,
            sizes_of=self.sizes_of,
            partial_bits=self.partial_bits,
        )
        bound = bind_component(context, node.tag, node.given, spatial)
        bound = replace(bound, component=in_array(bound.component, array, context.at))
        self.notes += bound.notes
        assert isinstance(node.given, ComponentInput)
        self.parts.append(BoundPart(bound.component, node.given, node.path, bound.origin))
        self.show(bound.component.name, bound.record)
        return bound.component

    def show(self, name: str, record: Record) -> None:
        """Let nodes below refer to a component."""
        if name not in self.hidden:
            self.scope = self.scope.layer({name: record})

    def spatial(self, node: LeafInput, scope: Scope) -> tuple[SpatialDimension, ...]:
        problems: list[EinmapError] = []
        found = [
            attempt(problems, partial(self.dimension, d, (*node.path, "spatial", i), scope))
            for i, d in enumerate(node.given.spatial)
        ]
        for i, d in enumerate(node.given.spatial):
            if d.vector and node.tag != "Compute":
                text = f"{d.name!r} of {node.given.name!r} is a vector, but {node.given.name!r} is not a Compute"
                at = self.where((*node.path, "spatial", i, "vector"))
                problems.append(SpecError(text, at=at, hint="give the dimension to the Compute"))
        raise_all(problems)
        return tuple(d for d in found if d is not None)

    def dimension(self, given: SpatialInput, path: Path, scope: Scope) -> SpatialDimension:
        def at(field: str) -> At:
            return self.where((*path, field))

        fields = {"fanout": given.fanout, "min_usage": given.min_usage, "usage_scale": given.usage_scale}
        scope = lazy_layer(fields, scope.layer({"name": given.name}), at)

        def amount(field: str, value: object, **limits: Any) -> float:
            return number(value, scope, at=partial(at, field), what=field, **limits)

        everything = self.symbols["All"]  # not by its name, which a variable of the architecture may have
        nothing = frozenset[str]()
        reuse = nothing if given.reuse is None else self.tensors(given.reuse, scope, at("reuse"))
        if given.may_reuse is not None:
            may_reuse = self.tensors(given.may_reuse, scope, at("may_reuse"))
        else:
            may_reuse = self.default_may_reuse(given, reuse, everything.members, at("reuse"))
        min_usage = amount("min_usage", given.min_usage, minimum=0)
        if min_usage > 1:
            raise SpecError(f"min_usage must be between 0 and 1, found {min_usage}", at=at("min_usage"))
        if given.vector and min_usage not in (0, 1):
            text = f"the vector {given.name!r} uses all lanes that it can, min_usage {min_usage} is not of use"
            raise SpecError(text, at=at("min_usage"), hint="leave out min_usage")
        fanout = int(amount("fanout", given.fanout, minimum=1, integer=True, allow_inf=False))
        usage_scale = amount("usage_scale", given.usage_scale, minimum=0)
        if usage_scale > fanout:
            text = (
                f"dimension {given.name!r} can never have usage <= 1: usage_scale {usage_scale} exceeds fanout {fanout}"
            )
            raise SpecError(text, at=at("usage_scale"))
        word_in(given, "skew", at("skew"), listing="kinds")
        return SpatialDimension(
            given.name,
            fanout,
            may_reuse,
            reuse,
            self.comparisons(given.loop_bounds, (*path, "loop_bounds"), scope),
            1.0 if given.vector else min_usage,
            usage_scale,
            given.power_gateable,
            cast(Skew, given.skew),
            given.vector,
        )

    def default_may_reuse(
        self, given: SpatialInput, reuse: frozenset[str], everything: frozenset[str], at: At
    ) -> frozenset[str]:
        """All tensors; in the newer dialect those of `reuse` where it is given. A note where that matters."""
        if given.reuse is None:
            return everything
        is_older = self.dialect.dialect == "older"
        if reuse != everything and (is_older or not self.dialect.is_certain):
            meant = "all tensors may be reused here" if is_older else "only those of `reuse` may be reused here"
            other = "newer one would reuse only those of `reuse`" if is_older else "older one would reuse all"
            text = (
                f"`reuse` without `may_reuse`: {meant} ({self.dialect.dialect} dialect, since "
                f"{self.dialect.reason}); the {other}. Write `may_reuse`, or `config: {{dialect: ...}}`"
            )
            self.notes.append(Note(text, at))
        return everything if is_older else reuse

    def tensors(self, given: SetExpression, scope: Scope, at: At) -> frozenset[str]:
        return tensor_set(given, scope, at=at).members

    def comparisons(self, given: list[ComparisonInput], path: Path, scope: Scope) -> tuple[Comparison, ...]:
        return tuple(bind_comparison(c, self.where, (*path, i), scope) for i, c in enumerate(given))
