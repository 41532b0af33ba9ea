"""The LoopTree between its raw form and its nodes: read, check the shape, write."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, assert_never

from einmap.errors import (
    At,
    EinmapError,
    ExpressionError,
    MappingError,
    NotSupportedError,
    did_you_mean,
    raise_all,
)
from einmap.expressions.arithmetic import number
from einmap.expressions.scope import Scope
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import (
    Address,
    Compute,
    LeafNode,
    Node,
    PerEinsum,
    Pipeline,
    Sequential,
    Spatial,
    Split,
    Storage,
    Temporal,
    Toll,
)
from einmap.spec.raw import Path, Raw, RawList, RawMap, from_python, get_value, place, tag_of
from einmap.spec.schema.base import Expression, Input, check
from einmap.spec.schema.mapping import (
    IGNORED,
    LATER,
    NODES,
    ComputeNodeInput,
    LoopInput,
    MappingInput,
    PipelineInput,
    SpatialLoopInput,
    SplitInput,
    StorageInput,
    TemporalInput,
    TollNodeInput,
)

MOST = 2**53
"""Tile shapes up to here are exact whatever number they are read as."""


def read_mapping(root: Raw, path: Path = ("mapping",), *, einsums: Collection[str] | None = None) -> Mapping | None:
    """The LoopTree at `path` of the raw tree; None when there is none. Raises all problems together.

    `einsums`: names that loops may give values for; None when there is no workload to compare with.
    """
    raw = root.get("mapping") if isinstance(root, RawMap) else None
    if raw is None:
        return None
    reader = TreeReader(root, einsums)
    check(MappingInput, raw, root, path, reader.problems, drop=("nodes",))
    nodes = raw.get("nodes") if isinstance(raw, RawMap) else None
    nodes_read = reader.chain(nodes, (*path, "nodes"))
    raise_all(reader.problems)
    return Mapping(nodes_read)


def path_of_node(root: Raw, address: Address) -> Path:
    """Where the node with this address stands in the raw tree, or the nearest node above it that exists.

    Addresses count the nodes of a Mapping: those that say nothing are left out, and a Nested at the end
    of a list stands for its nodes.
    """
    path: Path = ("mapping",)
    here: Path = (*path, "nodes")
    for depth, step in enumerate(address):
        is_branch = depth % 2 == 1
        places = _branch_places(root, here) if is_branch else _node_places(root, here)
        if not 0 <= step < len(places):
            break
        path = places[step]
        here = (*path, "nodes")
    return path


def _listed(root: Raw, path: Path) -> tuple[Raw, ...]:
    try:
        raw = get_value(root, path)
    except EinmapError:
        return ()
    return raw.items if isinstance(raw, RawList) else ()


def _branch_places(root: Raw, path: Path) -> list[Path]:
    return [(*path, index) for index, _ in enumerate(_listed(root, path))]


def _node_places(root: Raw, path: Path) -> list[Path]:
    places: list[Path] = []
    for index, item in enumerate(_listed(root, path)):
        if tag_of(item) == "Nested":
            places += _node_places(root, (*path, index, "nodes"))
        elif tag_of(item) not in IGNORED:
            places.append((*path, index))
    return places


class TreeReader:
    """Collects problems while the tree is read."""

    def __init__(self, root: Raw, einsums: Collection[str] | None) -> None:
        self.root = root
        self.einsums = einsums
        self.problems: list[EinmapError] = []

    def complain(self, text: str, path: Path, hint: str | None = None) -> None:
        """Note a problem at a path of the tree."""
        self.problems.append(MappingError(text, at=place(self.root, path), hint=hint))

    def chain(self, raw: Raw | None, path: Path) -> tuple[Node, ...]:
        """The nodes of the root or of one branch: only the last may split, and it ends in a Compute."""
        if not isinstance(raw, RawList) or not raw.items:
            self.complain(
                f"{'nothing to evaluate: ' if path == ('mapping', 'nodes') else ''}a list of nodes is needed",
                path,
            )
            return ()
        nodes: list[Node] = []
        ended_at: int | None = None
        for index, item in enumerate(raw.items):
            here = (*path, index)
            if _tag(item) in IGNORED:
                continue
            if ended_at is not None:
                self.complain(
                    f"nothing may follow a {_tag(raw.items[ended_at])} in its list; only the last node has children",
                    here,
                )
                return tuple(nodes)
            found = self.node(item, here)
            nodes += found
            if found and isinstance(found[-1], Split | Compute):
                ended_at = index
        if ended_at is None and not self.problems:
            self.complain("every branch must end in exactly one Compute node", (*path, len(raw.items) - 1))
        return tuple(nodes)

    def node(self, raw: Raw, path: Path) -> tuple[Node, ...]:
        """One node, or the several that it stands for."""
        tag = _tag(raw)
        if tag not in NODES:
            self.unknown(tag, path, NODES)
            return ()
        drop = ("nodes",) if issubclass(NODES[tag], SplitInput) else ()
        model = check(NODES[tag], raw, self.root, path, self.problems, drop=drop, node=True)
        if model is None:
            return ()
        if tag in ("Sequential", "Split"):
            return self.split(raw, path)
        if isinstance(model, PipelineInput):
            return self.pipeline(model, raw, path)
        if tag == "Nested":
            assert isinstance(raw, RawMap)
            return self.chain(raw.get("nodes"), (*path, "nodes"))
        return self.leaf(model, path)

    def unknown(self, tag: str, path: Path, tags: Collection[str]) -> None:
        """Complain about a tag that is not in `tags`."""
        if tag in LATER:
            text = f"!{tag} ({LATER[tag]}) is not supported yet"
            self.problems.append(NotSupportedError(text, at=place(self.root, path)))
            return
        message = f"unknown mapping node !{tag}" if tag else "a mapping node needs a tag such as !Temporal"
        self.complain(message, path, did_you_mean(tag, [*tags, *IGNORED], listing="tags"))

    def split(self, raw: Raw, path: Path) -> tuple[Node, ...]:
        """A split with its branches."""
        branches = raw.get("nodes") if isinstance(raw, RawMap) else None
        if not isinstance(branches, RawList) or not branches.items:
            self.complain(f"{_tag(raw)} needs a list of branches", path)
            return ()
        split = []
        for index, branch in enumerate(branches.items):
            here = (*path, "nodes", index)
            if _tag(branch) != "Nested" or not isinstance(branch, RawMap):
                self.complain(
                    f"a branch of {_tag(raw)} must be !Nested, found !{_tag(branch)}",
                    here,
                    "wrap it in !Nested",
                )
                continue
            check(NODES["Nested"], branch, self.root, here, self.problems, drop=("nodes",), node=True)
            split.append(self.chain(branch.get("nodes"), (*here, "nodes")))
        return (Sequential(tuple(split)),)

    def pipeline(self, model: PipelineInput, raw: Raw, path: Path) -> tuple[Node, ...]:
        """A Pipeline with its stages."""
        self.fanout_of_stages(model, path)
        split = self.split(raw, path)
        if not split:
            return ()
        assert isinstance(split[0], Split)
        stages = split[0].branches
        self.stages(len(stages), path)
        return (Pipeline(stages, model.component, model.name),)

    def stages(self, number: int, path: Path) -> None:
        """Complain about a Pipeline of a single stage."""
        if number < 2 and not self.problems:
            self.complain(f"a Pipeline needs two stages or more, found {number}", path, "leave the Pipeline out")

    def fanout_of_stages(self, model: PipelineInput, path: Path) -> None:
        """Complain where only a half is said of which fanout stages share."""
        if (model.component is None) != (model.name is None):
            missing = "name" if model.name is None else "component"
            hint = "component: the node of the architecture, name: its dimension of which each stage takes lanes"
            self.complain(f"a Pipeline whose stages stand side by side needs a {missing}, too", path, hint)

    def leaf(self, model: Input, path: Path) -> tuple[Node, ...]:
        """The node of a model that is not a split; none after a problem."""
        match model:
            case SpatialLoopInput():
                return (
                    Spatial(
                        self.rank_variable(model, path),
                        self.tile_shape(model, path),
                        model.component,
                        model.name,
                    ),
                )
            case TemporalInput():
                initial = self.shapes(model.initial_tile_shape, (*path, "initial_tile_shape"))
                return (Temporal(self.rank_variable(model, path), self.tile_shape(model, path), initial),)
            case StorageInput():
                return (Storage(_names(model.tensors), model.component, model.persistent, model.sliding_window),)
            case TollNodeInput():
                if model.persistent:
                    self.complain("a Toll holds nothing, so nothing is persistent in it", (*path, "persistent"))
                return (Toll(_names(model.tensors), model.component),)
            case ComputeNodeInput():
                return (Compute(model.einsum, model.component),)
            case _:
                raise AssertionError(type(model))

    def rank_variable(self, model: LoopInput, path: Path) -> PerEinsum[str]:
        """The rank variable of a loop, for each Einsum."""
        variable = model.rank_variable
        if isinstance(variable, str):
            return PerEinsum(variable)
        self.known_einsums(variable, (*path, "rank_variable"))
        return PerEinsum(None, tuple(variable.items()))

    def known_einsums(self, names: Collection[str], path: Path) -> None:
        """Complain about names that are not Einsums."""
        for name in names:
            if self.einsums is not None and name not in self.einsums:
                hint = did_you_mean(name, self.einsums, listing="Einsums")
                self.complain(f"the workload has no Einsum {name!r}", (*path, name), hint)

    def tile_shape(self, model: LoopInput, path: Path) -> PerEinsum[int]:
        """The tile shape of a loop, for each Einsum."""
        if model.n_iterations is not None:
            hint = "write tile_shape: the number of values that one iteration handles"
            at = place(self.root, (*path, "n_iterations"))
            self.problems.append(
                MappingError("iteration counts are derived; n_iterations is not a field", at=at, hint=hint)
            )
            return PerEinsum(1)
        if model.tile_shape is None:
            self.complain("a loop needs a tile_shape", path)
            return PerEinsum(1)
        return self.shapes(model.tile_shape, (*path, "tile_shape"))

    def shapes(self, value: Expression | dict[str, Expression] | None, path: Path) -> PerEinsum[int]:
        """Tile shapes as written, evaluated."""
        if value is None:
            return PerEinsum()
        at = place(self.root, path)
        if isinstance(value, dict):
            self.known_einsums(value, path)
            return PerEinsum(None, tuple((name, self.shape(v, at)) for name, v in value.items()))
        return PerEinsum(self.shape(value, at))

    def shape(self, value: Expression, at: At) -> int:
        """One tile shape."""
        try:
            return int(number(value, Scope(), at=at, what="a tile shape", minimum=1, integer=True, allow_inf=False))
        except ExpressionError as error:
            self.problems.append(error)
            return 1


def _tag(raw: Raw) -> str:
    return tag_of(raw) or ""


def _names(value: list[str] | str) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


_NO_SHAPE: PerEinsum[int] = PerEinsum()


def is_as_read(mapping: Mapping, einsums: Collection[str] | None = None) -> bool:
    """Whether reading what `write_mapping` writes gives this very mapping, without any problem."""
    return _chain_as_read(mapping.nodes, einsums, set())


def _chain_as_read(nodes: tuple[Node, ...], einsums: Collection[str] | None, seen: set[int]) -> bool:
    """`seen`: ids of loops that are looked at already; chains of one Einsum in several layers have some in common."""
    if not nodes or not isinstance(nodes[-1], Split | Compute):
        return False
    for node in nodes[:-1]:
        if id(node) in seen:
            continue
        if isinstance(node, Split | Compute) or not _node_as_read(node, einsums):
            return False
        seen.add(id(node))
    last = nodes[-1]
    if isinstance(last, Split):
        return bool(last.branches) and all(_chain_as_read(branch, einsums, seen) for branch in last.branches)
    return _node_as_read(last, einsums)


def _node_as_read(node: LeafNode, einsums: Collection[str] | None) -> bool:
    if isinstance(node, Temporal | Spatial):
        if isinstance(node, Temporal):
            initial = node.initial_tile_shape
            as_read = initial == _NO_SHAPE or _values_as_read(initial, int, einsums)
        else:
            as_read = type(node.component) is str and type(node.name) is str
        as_read = as_read and _values_as_read(node.rank_variable, str, einsums)
        return as_read and _values_as_read(node.tile_shape, int, einsums)
    if isinstance(node, Storage | Toll):
        how = (node.persistent, node.sliding_window or False) if isinstance(node, Storage) else ()
        names = (node.component, *node.tensors) if type(node.tensors) is tuple else ()
        return bool(names) and all(type(name) is str for name in names) and all(type(h) is bool for h in how)
    if isinstance(node, Compute):
        return type(node.einsum) is str and type(node.component) is str
    assert_never(node)


def _values_as_read(values: PerEinsum[Any], kind: type[int] | type[str], einsums: Collection[str] | None) -> bool:
    if not values.by_einsum:
        return type(values.default) is kind and (kind is str or 1 <= int(values.default) <= MOST)
    names = [name for name, _ in values.by_einsum]
    fits = all(type(v) is kind and (kind is str or 1 <= int(v) <= MOST) for _, v in values.by_einsum)
    plain = fits and len({*names}) == len(names)
    return plain and values.default is None and (einsums is None or all(n in einsums for n in names))


def write_mapping(mapping: Mapping) -> Raw:
    """The raw form; default fields are left out, so that reading it gives the same mapping."""
    return _Writer().dictionary(None, nodes=mapping.nodes)


class _Writer:
    """Writes nodes; a name or number that is written often is one value."""

    def __init__(self) -> None:
        self._known: dict[tuple[type, object], Raw] = {}

    def node(self, node: Node) -> Raw:
        match node:
            case Temporal(rank_variable, tile_shape, initial):
                first = {} if initial == PerEinsum() else {"initial_tile_shape": initial}
                return self.dictionary("Temporal", rank_variable=rank_variable, tile_shape=tile_shape, **first)
            case Spatial(rank_variable, tile_shape, component, name):
                loop = {"rank_variable": rank_variable, "tile_shape": tile_shape}
                return self.dictionary("Spatial", **loop, component=component, name=name)
            case Storage(tensors, component, persistent, sliding_window):
                how = {"persistent": True} if persistent else {}
                if sliding_window is not None:
                    how["sliding_window"] = sliding_window
                return self.dictionary("Storage", component=component, tensors=tensors, **how)
            case Toll(tensors, component):
                return self.dictionary("Toll", component=component, tensors=tensors)
            case Compute(einsum, component):
                return self.dictionary("Compute", einsum=einsum, component=component)
            case Split(branches):
                nested = [self.dictionary("Nested", nodes=branch) for branch in branches]
                pipelined = isinstance(node, Pipeline)
                fanout = (("component", node.component), ("name", node.name)) if isinstance(node, Pipeline) else ()
                said: list[tuple[str, Raw]] = [(key, self.value(value)) for key, value in fanout if value is not None]
                return _dictionary(
                    "Pipeline" if pipelined else "Sequential", [*said, ("nodes", RawList(tuple(nested)))]
                )
            case _:
                assert_never(node)

    def dictionary(self, tag: str | None, **fields: Any) -> Raw:
        return _dictionary(tag, [(name, self.value(value)) for name, value in fields.items()])

    def value(self, value: Any) -> Raw:
        match value:
            case PerEinsum(default, by_einsum):
                pairs = [(str(name), self.value(each)) for name, each in dict(by_einsum).items()]
                return _dictionary(None, pairs) if pairs else self.value(default)
            case Temporal() | Spatial() | Storage() | Toll() | Compute() | Split():
                return self.node(value)
            case tuple() | list():
                return RawList(tuple(map(self.value, value)))
            case str() | int():
                key = type(value), value
                return self._known.get(key) or self._known.setdefault(key, from_python(value))
            case _:
                return from_python(value)


def _dictionary(tag: str | None, pairs: list[tuple[str, Raw]]) -> RawMap:
    return RawMap(tuple(pairs), tag=tag, key_at=(None,) * len(pairs))
