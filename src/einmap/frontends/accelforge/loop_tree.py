"""The section `mapping` for AccelForge: a loop above several Einsums has one name for its rank variable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from einmap.errors import NotSupportedError
from einmap.frontends.foreign import Report
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.nodes import Compute, Node, PerEinsum, Pipeline, Sequential, Spatial, Split, Storage, Temporal
from einmap.spec.forms.loop_tree import write_mapping
from einmap.spec.raw import Raw
from einmap.spec.spec import Spec

type Names = dict[tuple[str, str], str]
type _Variable = tuple[str, str]


def common_names(spec: Spec, tree: LoopTree) -> Names:
    """Names of rank variables, by Einsum and the name here, such that every loop has one name.

    Rank variables that one loop runs over are one there: they take the name of the first. Names that mean something
    else somewhere get a number. Raises NotSupportedError where variables of different bounds are one.
    """
    parent: dict[_Variable, _Variable] = {}

    def root(variable: _Variable) -> _Variable:
        while parent.get(variable, variable) != variable:
            variable = parent[variable]
        return variable

    for einsums, node in _loops(tree.nodes):
        variables = [(einsum, v) for einsum in einsums if (v := node.rank_variable.of(einsum)) is not None]
        for other in variables[1:]:
            # the first Einsum of the workload names it
            parent[root(other)] = root(variables[0]) if root(other) != root(variables[0]) else root(other)
    every = [(einsum.name, v) for einsum in spec.workload.einsums for v in einsum.rank_variables]
    if all(root(variable)[1] == variable[1] for variable in every):
        return {}
    return _named(spec, every, {variable: root(variable) for variable in every})


def _named(spec: Spec, every: list[_Variable], roots: dict[_Variable, _Variable]) -> Names:
    """A name for each class of variables; variables of one name that no loop joins stay apart where bounds differ."""
    extents = {(e.name, v): extent for e in spec.workload.einsums for v, extent in e.extents.items()}
    chosen: dict[_Variable, str] = {}
    taken: dict[str, int] = {}
    names: Names = {}
    members: dict[_Variable, list[_Variable]] = {}
    for variable in every:
        members.setdefault(roots[variable], []).append(variable)
    for first, joined in members.items():
        bounds = {extents[variable] for variable in joined}
        if len(bounds) > 1:
            text = f"one loop runs over rank variables of different bounds, {', '.join(map(str, sorted(bounds)))}"
            raise NotSupportedError(text, at=spec.provenance("mapping"), hint="AccelForge has one bound for each name")
        einsums = {einsum for einsum, _ in joined}
        others = {names[v] for v in every if v[0] in einsums and v in names}
        name, number = first[1], 1
        while name in others or taken.get(name, next(iter(bounds))) not in bounds:
            number += 1
            name = f"{first[1]}{number}"
        chosen[first] = name
        taken[name] = next(iter(bounds))
        names |= dict.fromkeys(joined, name)
    return names


def write_nodes(spec: Spec, tree: LoopTree, names: Names, report: Report) -> Raw:
    """The LoopTree with loops that have one name and one tile shape. Raises NotSupportedError for other ones."""
    writer = _Writer(spec, names, report)
    return write_mapping(replace(tree, nodes=tuple(writer.nodes(tree.nodes))))


class _Writer:
    def __init__(self, spec: Spec, names: Names, report: Report) -> None:
        self._spec = spec
        self._names = names
        self._report = report

    def nodes(self, nodes: Iterable[Node]) -> Iterator[Node]:
        chain = tuple(nodes)
        below = _einsums(chain)
        for node in chain:
            match node:
                case Temporal():
                    tile_shape, first = self._one(node.tile_shape, below), self._one(node.initial_tile_shape, below)
                    name = PerEinsum(self._name(node, below))
                    yield replace(node, rank_variable=name, tile_shape=tile_shape, initial_tile_shape=first)
                case Spatial():
                    name = PerEinsum(self._name(node, below))
                    yield replace(node, rank_variable=name, tile_shape=self._one(node.tile_shape, below))
                case Storage(sliding_window=slides) if slides is not None:
                    place = self._spec.provenance("mapping.nodes")
                    self._report.leave(place, "sliding_window", "AccelForge 1.0.467 has no line buffers")
                    yield replace(node, sliding_window=None)
                case Pipeline():
                    text = "AccelForge runs the branches of a Pipeline one after another"
                    raise NotSupportedError(text, at=self._spec.provenance("mapping"), hint="write it as Sequential")
                case Sequential(branches):
                    yield replace(node, branches=tuple(tuple(self.nodes(branch)) for branch in branches))
                case _:
                    yield node

    def _name(self, node: Temporal | Spatial, below: list[str]) -> str:
        names = [
            self._names.get((einsum, variable), variable)
            for einsum in below
            if (variable := node.rank_variable.of(einsum)) is not None
        ]
        return names[0]

    def _one[T](self, value: PerEinsum[T], below: list[str]) -> PerEinsum[T]:
        found = dict.fromkeys(v for einsum in below if (v := value.of(einsum)) is not None)
        if len(found) > 1:
            text = f"a loop has several tile shapes: {', '.join(map(str, found))}"
            raise NotSupportedError(text, at=self._spec.provenance("mapping"), hint="AccelForge has one for each loop")
        return PerEinsum(next(iter(found), None))


def _loops(nodes: Iterable[Node]) -> Iterator[tuple[list[str], Temporal | Spatial]]:
    """Each loop, with the Einsums below it in order."""
    chain = tuple(nodes)
    below = _einsums(chain)
    for node in chain:
        if isinstance(node, Temporal | Spatial):
            yield below, node
        elif isinstance(node, Split):
            for branch in node.branches:
                yield from _loops(branch)


def _einsums(nodes: Iterable[Node]) -> list[str]:
    found: list[str] = []
    for node in nodes:
        if isinstance(node, Compute):
            found.append(node.einsum)
        elif isinstance(node, Split):
            for branch in node.branches:
                found += _einsums(branch)
    return found
