"""The LoopTree between its raw form and its nodes: read, check the shape, write."""

from __future__ import annotations

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
from einmap.mapping.nodes import Compute, Node, PerEinsum, Sequential, Spatial, Storage, Temporal, Toll
from einmap.spec.raw import Path, Raw, RawList, RawMap, from_python, place
from einmap.spec.schema.base import Input, check
from einmap.spec.schema.mapping import (
    IGNORED,
    LATER,
    NODES,
    ComputeNodeInput,
    LoopInput,
    MappingInput,
    SpatialLoopInput,
    StorageInput,
    TollNodeInput,
)


def read_mapping(root: Raw, path: Path = ("mapping",)) -> Mapping | None:
    """The LoopTree at `path` of the raw tree; None when there is none. Raises all problems together."""
    raw = root.get("mapping") if isinstance(root, RawMap) else None
    if raw is None:
        return None
    reader = _Reader(root)
    check(MappingInput, raw, root, path, reader.problems, drop=("nodes",))
    nodes = raw.get("nodes") if isinstance(raw, RawMap) else None
    found = reader.chain(nodes, (*path, "nodes"))
    raise_all(reader.problems)
    return Mapping(found)


class _Reader:
    """Collects problems while the tree is read."""

    def __init__(self, root: Raw) -> None:
        self.root = root
        self.problems: list[EinmapError] = []

    def complain(self, text: str, path: Path, hint: str | None = None) -> None:
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
            if isinstance(item, RawMap) and item.tag in IGNORED:
                continue
            if ended_at is not None:
                self.complain(
                    f"nothing may follow a {_tag(raw.items[ended_at])} in its list; only the last node has children",
                    here,
                )
                return tuple(nodes)
            found = self.node(item, here)
            nodes += found
            if found and isinstance(found[-1], Sequential | Compute):
                ended_at = index
        if ended_at is None and not self.problems:
            self.complain("every branch must end in exactly one Compute node", (*path, len(raw.items) - 1))
        return tuple(nodes)

    def node(self, raw: Raw, path: Path) -> tuple[Node, ...]:
        """One node, or the several that it stands for."""
        tag = _tag(raw)
        if tag in LATER:
            self.problems.append(
                NotSupportedError(f"!{tag} ({LATER[tag]}) is not supported yet", at=place(self.root, path))
            )
            return ()
        if tag not in NODES:
            known = [*NODES, *IGNORED]
            found = f"unknown mapping node !{tag}" if tag else "a mapping node needs a tag such as !Temporal"
            self.complain(found, path, did_you_mean(tag or "", known, listing="tags"))
            return ()
        model = check(NODES[tag], raw, self.root, path, self.problems, drop=("nodes",))
        if model is None:
            return ()
        if tag in ("Sequential", "Split"):
            return self.split(raw, path)
        if tag == "Nested":
            assert isinstance(raw, RawMap)
            return self.chain(raw.get("nodes"), (*path, "nodes"))
        return self.leaf(model, path)

    def split(self, raw: Raw, path: Path) -> tuple[Node, ...]:
        branches = raw.get("nodes") if isinstance(raw, RawMap) else None
        if not isinstance(branches, RawList) or not branches.items:
            self.complain(f"{_tag(raw)} needs a list of branches", path)
            return ()
        found = []
        for index, branch in enumerate(branches.items):
            here = (*path, "nodes", index)
            if _tag(branch) != "Nested" or not isinstance(branch, RawMap):
                self.complain(
                    f"a branch of {_tag(raw)} must be !Nested, found !{_tag(branch)}",
                    here,
                    "wrap it in !Nested",
                )
                continue
            check(NODES["Nested"], branch, self.root, here, self.problems, drop=("nodes",))
            found.append(self.chain(branch.get("nodes"), (*here, "nodes")))
        return (Sequential(tuple(found)),)

    def leaf(self, model: Input, path: Path) -> tuple[Node, ...]:
        match model:
            case SpatialLoopInput():
                return (
                    Spatial(
                        _per_einsum(model.rank_variable),
                        self.tile_shape(model, path),
                        model.component,
                        model.name,
                    ),
                )
            case LoopInput():
                initial = self.shapes(model.initial_tile_shape, (*path, "initial_tile_shape"))
                return (Temporal(_per_einsum(model.rank_variable), self.tile_shape(model, path), initial),)
            case StorageInput() if model.sliding_window:
                at = place(self.root, (*path, "sliding_window"))
                self.problems.append(NotSupportedError("sliding_window is not supported yet", at=at))
                return ()
            case StorageInput():
                return (Storage(_names(model.tensors), model.component, model.persistent),)
            case TollNodeInput():
                return (Toll(_names(model.tensors), model.component),)
            case ComputeNodeInput():
                return (Compute(model.einsum, model.component),)
            case _:
                raise AssertionError(type(model))

    def tile_shape(self, model: LoopInput, path: Path) -> PerEinsum[int]:
        if model.n_iterations is not None:
            hint = "write tile_shape: the number of values that one iteration handles"
            at = place(self.root, (*path, "n_iterations"))
            self.problems.append(
                MappingError("iteration counts are derived; n_iterations is no field", at=at, hint=hint)
            )
            return PerEinsum(1)
        if model.tile_shape is None:
            self.complain("a loop needs a tile_shape", path)
            return PerEinsum(1)
        return self.shapes(model.tile_shape, (*path, "tile_shape"))

    def shapes(self, value: int | str | dict[str, int | str] | None, path: Path) -> PerEinsum[int]:
        if value is None:
            return PerEinsum()
        at = place(self.root, path)
        if isinstance(value, dict):
            return PerEinsum(None, tuple((name, self.shape(v, at)) for name, v in value.items()))
        return PerEinsum(self.shape(value, at))

    def shape(self, value: int | str, at: At) -> int:
        try:
            return int(number(value, Scope(), at=at, what="a tile shape", minimum=1, integer=True, allow_inf=False))
        except ExpressionError as error:
            self.problems.append(error)
            return 1


def _tag(raw: Raw) -> str:
    return (raw.tag if isinstance(raw, RawMap) else None) or ""


def _names(value: list[str] | str) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _per_einsum(value: str | dict[str, str]) -> PerEinsum[str]:
    return PerEinsum(value) if isinstance(value, str) else PerEinsum(None, tuple(value.items()))


def write_mapping(mapping: Mapping) -> Raw:
    """The raw form; default fields are left out, so that reading it gives the same mapping."""
    return from_python({"nodes": [_write(node) for node in mapping.nodes]})


def _plain[T](value: PerEinsum[T]) -> Any:
    return dict(value.by_einsum) if value.by_einsum else value.default


def _write(node: Node) -> dict[str, Any]:
    match node:
        case Temporal():
            plain = {"rank_variable": _plain(node.rank_variable), "tile_shape": _plain(node.tile_shape)}
            if node.initial_tile_shape != PerEinsum():
                plain["initial_tile_shape"] = _plain(node.initial_tile_shape)
            return {"type": "Temporal", **plain}
        case Spatial():
            where = {"component": node.component, "name": node.name}
            loop = {"rank_variable": _plain(node.rank_variable), "tile_shape": _plain(node.tile_shape)}
            return {"type": "Spatial", **loop, **where}
        case Storage():
            lasting = {"persistent": True} if node.persistent else {}
            return {"type": "Storage", "component": node.component, "tensors": list(node.tensors), **lasting}
        case Toll():
            return {"type": "Toll", "component": node.component, "tensors": list(node.tensors)}
        case Compute():
            return {"type": "Compute", "einsum": node.einsum, "component": node.component}
        case Sequential(branches=branches):
            nested = [{"type": "Nested", "nodes": [_write(inner) for inner in branch]} for branch in branches]
            return {"type": "Sequential", "nodes": nested}
        case _:
            assert_never(node)
