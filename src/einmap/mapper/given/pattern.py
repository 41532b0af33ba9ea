"""Given mapping of one Einsum as a row of tokens, checked against Einsum and architecture."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from einmap.arch.component import Leaf, Memory, Toll
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.errors import At, EinmapError, MappingError, NoMappingError, NotSupportedError, did_you_mean, raise_all
from einmap.mapping import nodes as tree
from einmap.mapping.template import (
    AnyPlace,
    OpenCompute,
    OpenSpatial,
    OpenTemporal,
    PartialMapping,
    PartialNode,
    StageBegin,
)


@dataclass(frozen=True, slots=True)
class Free:
    """Any nodes may stand here; without `temporal` no temporal loops.

    With `full_only` of these loops only those that index the tensor of the node above.
    """

    full_only: bool = False
    temporal: bool = True


@dataclass(frozen=True, slots=True)
class GivenLoop:
    """A temporal loop, or lanes of `dimension` (component and name); `shape` None: any tile shape, also no loop."""

    variable: str
    shape: int | None
    dimension: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class GivenHolder:
    """Storage nodes or tolls of some tensors, in any order with nothing between."""

    component: str
    tensors: frozenset[str]
    toll: bool = False


@dataclass(frozen=True, slots=True)
class GivenCompute:
    """The end. `component` None: any compute."""

    component: str | None = None


type Token = Free | GivenLoop | GivenHolder | GivenCompute
FREE = Free()


@dataclass(frozen=True)
class GivenStage:
    """The stage of a Pipeline that an Einsum is given: where it begins, the tokens above it, where it was written."""

    begin: StageBegin
    above: tuple[Token, ...]
    at: At = field(compare=False)

    @property
    def fanout(self) -> tuple[str, str] | None:
        """Component and dimension of which each stage takes lanes; None where stages have Computes of their own."""
        component, name = self.begin.component, self.begin.name
        return None if component is None or name is None else (component, name)


@dataclass(frozen=True)
class Pattern:
    """Tokens from the outside in, the last a GivenCompute; `places[i]` says where a token was written."""

    tokens: tuple[Token, ...]
    places: tuple[At, ...]
    stage: GivenStage | None = None

    @property
    def variables(self) -> frozenset[str]:
        """Rank variables that are given a loop."""
        return frozenset(t.variable for t in self.tokens if isinstance(t, GivenLoop))

    @property
    def dimensions(self) -> frozenset[tuple[str, str]]:
        """Dimensions of fanouts that are given a loop."""
        return frozenset(t.dimension for t in self.tokens if isinstance(t, GivenLoop) and t.dimension)

    @property
    def stored(self) -> frozenset[tuple[str, str]]:
        """(memory, tensor) of the storage nodes."""
        held = (t for t in self.tokens if isinstance(t, GivenHolder) and not t.toll)
        return frozenset((t.component, tensor) for t in held for tensor in t.tensors)

    @property
    def compute(self) -> str | None:
        """The compute, if it is given."""
        last = self.tokens[-1]
        assert isinstance(last, GivenCompute)
        return last.component

    @property
    def said(self) -> tuple[object, ...]:
        """All that is given, wherever it was written."""
        return self.tokens, None if self.stage is None else (self.stage.begin, self.stage.above)

    @property
    def says_nothing(self) -> bool:
        """Whether every mapping is like this."""
        return self.tokens == (FREE, GivenCompute()) and self.stage is None

    def kept_nowhere(self, ever: Collection[tuple[str, str]]) -> NoMappingError | None:
        """The error for a node that no dataplacement has."""
        for memory, tensor in sorted(self.stored - {*ever}):
            text = f"{memory!r} keeps {tensor!r} in no mapping of the mapspace"
            return NoMappingError(
                text,
                at=self.place_of(tensor, memory),
                hint="see tensors.keep, may_keep and back of the memories; the outermost memory backs every tensor",
            )
        return None

    def kept_elsewhere(self, always: Collection[tuple[str, str]], outermost: str) -> NoMappingError | None:
        """The error for a tensor that is given nodes below the outermost memory, but not all that it must have."""
        levels = {t: m for m, t in sorted(self.stored) if m != outermost}
        for memory, tensor in sorted({*always} - self.stored):
            if tensor in levels and memory != outermost:
                text = f"{tensor!r} is kept where a node is given and nowhere else, but {memory!r} must keep it"
                hint = f"add a Storage node of {tensor!r} in {memory!r}, or name {tensor!r} in no node"
                return NoMappingError(text, at=self.place_of(tensor, levels[tensor]), hint=hint)
        return None

    def place_of(self, tensor: str, memory: str) -> At | None:
        """Where the node of a tensor in a memory was written."""
        for token, at in zip(self.tokens, self.places, strict=True):
            if isinstance(token, GivenHolder) and token.component == memory and tensor in token.tensors:
                return at
        return None


def pattern_of(given: PartialMapping, einsum: Einsum, arch: Architecture) -> Pattern:
    """The tokens of a partial mapping. Raises MappingError (several together) with the places of the nodes."""
    checker = _Checker(given, einsum, arch)
    pattern = checker.run()
    raise_all(checker.problems)
    return pattern


class _Checker:
    """Collects problems while nodes become tokens."""

    def __init__(self, given: PartialMapping, einsum: Einsum, arch: Architecture) -> None:
        self.given, self.einsum, self.arch = given, einsum, arch
        self.problems: list[EinmapError] = []
        self.levels = {leaf.name: i for unit in arch.computes for i, leaf in enumerate(arch.path(unit.name))}
        self.held: dict[str, str] = {}
        self.stored: set[tuple[str, str]] = set()
        self.lanes: set[tuple[str, tuple[str, str]]] = set()
        self.shapes = dict(einsum.bounds)
        self.row: list[tuple[Token, At]] = []
        self.stage: GivenStage | None = None
        self.loose: set[str] = set()
        """Variables whose extent here is not known: something may have iterated them further."""

    def complain(self, text: str, at: At, hint: str | None = None) -> None:
        self.problems.append(MappingError(f"Einsum {self.einsum.name!r}: {text}", at=at, hint=hint))

    def run(self) -> Pattern:
        last = At()
        for index, node in enumerate(self.given.nodes):
            last = self.given.at(index)
            if self.row and isinstance(self.row[-1][0], GivenCompute):
                self.complain("nothing may follow the Compute", last)
                break
            self.row += [(token, last) for token in self.tokens(node, last)]
        if not self.row or not isinstance(self.row[-1][0], GivenCompute):
            self.row.append((GivenCompute(), last))
        self.brought_to_one(last)
        kept = _without_redundant(self.row)
        return Pattern(tuple(t for t, _ in kept), tuple(at for _, at in kept), self.stage)

    def begin(self, stage: StageBegin, at: At) -> Iterable[Token]:
        """The stage of a Pipeline begins."""
        if self.stage is not None:
            self.problems.append(NotSupportedError("a Pipeline inside a stage of another one is not supported", at=at))
        self.stage = GivenStage(stage, tuple(token for token, _ in self.row), at)
        return ()

    def tokens(self, node: PartialNode, at: At) -> Iterable[Token]:
        match node:
            case AnyPlace(temporal=temporal):
                self.loose |= self.shapes.keys()
                return (Free(temporal=temporal),)
            case OpenTemporal(rank_variable=v):
                return self.loop(v, None, at)
            case OpenSpatial(rank_variable=v, component=component, name=name):
                return self.spatial(v, None, component, name, at)
            case tree.Temporal():
                if node.initial_tile_shape != tree.PerEinsum():
                    text = "initial_tile_shape in a given mapping is not supported"
                    self.problems.append(NotSupportedError(text, at=at, hint="the mapper uses perfect factors"))
                return self.loop(node.rank_variable.of(self.einsum.name), node.tile_shape.of(self.einsum.name), at)
            case tree.Spatial():
                variable, shape = node.rank_variable.of(self.einsum.name), node.tile_shape.of(self.einsum.name)
                return self.spatial(variable, shape, node.component, node.name, at)
            case tree.Storage():
                return self.holder(node, at, Memory)
            case tree.Toll():
                return self.holder(node, at, Toll)
            case tree.Compute(einsum=name, component=component):
                self.ends(name, component, at)
                return (GivenCompute(component),)
            case StageBegin():
                return self.begin(node, at)
            case OpenCompute(einsum=name):
                self.ends(name, None, at)
                return (GivenCompute(),)

    # nodes

    def ends(self, einsum: str, component: str | None, at: At) -> None:
        if einsum != self.einsum.name:
            self.complain(f"its Compute names Einsum {einsum!r}", at)
        units = [unit.name for unit in self.arch.computes if unit.enabled]
        if component is not None and component not in units:
            hint = did_you_mean(component, units, listing="computes")
            self.complain(f"the architecture has no Compute {component!r} for it", at, hint)

    def loop(
        self, variable: str | None, shape: int | None, at: At, dimension: tuple[str, str] | None = None
    ) -> Iterable[Token]:
        if variable is None or variable not in self.einsum.extents:
            shown = f"{variable!r} is not a rank variable of it" if variable else "the loop names no rank variable"
            self.complain(shown, at, did_you_mean(variable or "", self.einsum.extents, listing="its rank variables"))
            return ()
        before = self.shapes[variable]
        if shape is None:
            self.loose.add(variable)
        elif before % shape:
            if shape > before:
                self.complain(f"tile shape {shape} of {variable!r} exceeds the extent {before} at this point", at)
            else:
                text = f"tile shape {shape} of {variable!r} does not divide {before}, the tile shape outside it"
                self.complain(text, at, "the mapper uses perfect factors")
        else:
            if dimension is not None and variable not in self.loose:
                self.fanout(dimension, before // shape, at)
            self.shapes[variable] = shape
            self.loose.discard(variable)
        if self.einsum.extents[variable] == 1:
            return ()
        return (GivenLoop(variable, shape, dimension),)

    def spatial(self, variable: str | None, shape: int | None, component: str, name: str, at: At) -> Iterable[Token]:
        leaf = self.arch.leaves.get(component)
        if leaf is None:
            hint = did_you_mean(component, self.arch.leaves, listing="components")
            self.complain(f"the architecture has no component {component!r}", at, hint)
            return ()
        if name not in {d.name for d in leaf.spatial}:
            hint = did_you_mean(name, (d.name for d in leaf.spatial), listing="its dimensions")
            self.complain(f"{component!r} has no fanout dimension {name!r}", at, hint)
            return ()
        if variable is not None and (variable, (component, name)) in self.lanes:
            self.complain(f"a second loop over {variable!r} on {component}.{name}", at, "write one loop")
        if variable is not None:
            self.lanes.add((variable, (component, name)))
        return self.loop(variable, shape, at, (component, name))

    def fanout(self, dimension: tuple[str, str], lanes: int, at: At) -> None:
        component, name = dimension
        most = next(d.fanout for d in self.arch.leaves[component].spatial if d.name == name)
        if lanes > most:
            self.complain(f"{lanes} instances used on {component}.{name}, its fanout is {most}", at)

    def holder(self, node: tree.Storage | tree.Toll, at: At, kind: type[Leaf]) -> Iterable[Token]:
        leaf = self.arch.leaves.get(node.component)
        if leaf is None or not isinstance(leaf, kind):
            names = [name for name, unit in self.arch.leaves.items() if isinstance(unit, kind)]
            hint = did_you_mean(node.component, names, listing="tolls" if kind is Toll else "memories")
            self.complain(f"the architecture has no {kind.__name__} {node.component!r}", at, hint)
            return ()
        if isinstance(node, tree.Storage):
            self.storage_fields(node, at)
        for tensor in node.tensors:
            self.tensor(node, tensor, at)
        toll = isinstance(node, tree.Toll)
        if not node.tensors:
            return ()
        return (GivenHolder(node.component, frozenset(node.tensors), toll),)

    def storage_fields(self, node: tree.Storage, at: At) -> None:
        """Refuse what the mapping found would not have."""
        if node.sliding_window is not None:
            text = "sliding_window in a given mapping is not supported"
            hint = "leave it out, and add it to the node of the mapping found"
            self.problems.append(NotSupportedError(text, at=at, hint=hint))
        outermost = next((leaf.name for leaf in self.arch.leaves.values() if isinstance(leaf, Memory)), None)
        if node.persistent and node.component != outermost:
            text = (
                f"persistent storage in {node.component!r} in a given mapping is not supported: persistent tensors "
                f"persist in the outermost memory, {outermost!r}"
            )
            self.problems.append(NotSupportedError(text, at=at, hint="leave out `persistent` there"))

    def tensor(self, node: tree.Storage | tree.Toll, tensor: str, at: At) -> None:
        if tensor not in self.einsum.tensors:
            hint = did_you_mean(tensor, self.einsum.tensors, listing="its tensors")
            self.complain(f"it has no tensor {tensor!r}", at, hint)
            return
        if (node.component, tensor) in self.stored:
            self.complain(f"tensor {tensor!r} is held twice in {node.component!r}", at)
        outer = self.held.get(tensor)
        if outer is not None and self.levels.get(node.component, 0) < self.levels.get(outer, 0):
            self.complain(f"{tensor!r} is held in {node.component!r} below {outer!r}, against the hierarchy", at)
        self.stored.add((node.component, tensor))
        self.held[tensor] = node.component
        lasting = isinstance(node, tree.Storage) and node.persistent
        if lasting and not self.einsum.by_tensor[tensor].persistent:
            text = f"persistent storage of {tensor!r}, which is not persistent in the workload, is not supported"
            self.problems.append(NotSupportedError(text, at=at, hint="name it in workload.persistent_tensors"))

    def brought_to_one(self, at: At) -> None:
        for variable, shape in self.shapes.items():
            if shape > 1 and variable not in self.loose and not self.problems:
                text = f"rank variable {variable!r} is not iterated down to tile shape 1 (innermost tile {shape})"
                hint = f"add a loop over {variable} with tile_shape: 1, or an !Any where loops may be inserted"
                self.complain(text, at, hint)


def _without_redundant(tokens: list[tuple[Token, At]]) -> list[tuple[Token, At]]:
    """Open loops next to a free place say nothing; free places next to each other are one."""
    kept: list[tuple[Token, At]] = []
    for token, at in tokens:
        last = kept[-1][0] if kept else None
        if token == FREE:
            while kept and (isinstance(kept[-1][0], Free) or _is_open(kept[-1][0])):
                kept.pop()
        elif isinstance(last, Free) and (isinstance(token, Free) or (_is_open(token) and last.temporal)):
            continue
        kept.append((token, at))
    return kept


def _is_open(token: Token) -> bool:
    return isinstance(token, GivenLoop) and token.shape is None
