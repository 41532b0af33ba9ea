"""Mappings that are written for tensors without their second names (see `second_names`): where the copies stand.

A copy stays where the tensor is backed, which is free, and is held wherever its readers hold the tensor:

- !Storage {component: DRAM, tensors: [A, Z]}      - !Storage {component: DRAM, tensors: [A, Z, A_2]}
                                                   - !Sequential
                                                     nodes:
                                                     - !Nested {nodes: [..., !Compute {einsum: A_2, ...}]}
                                                     - !Nested
                                              -->      nodes:
- !Storage {component: GLB, tensors: [A]}              - !Storage {component: GLB, tensors: [A, A_2]}
- ...                                                  - ...
- !Compute {einsum: Z, component: MAC}                 - !Compute {einsum: Z, component: MAC}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from einmap.einsum.einsum import Einsum
from einmap.einsum.workload import Workload
from einmap.errors import MappingError
from einmap.spec.raw import Raw, RawList, RawMap, RawScalar, from_python, place, set_value, tag_of, to_python

_LOOPS = ("Temporal", "Spatial")
_SPLITS = ("Sequential", "Split")


def with_second_names(root: RawMap, workload: Workload, second_names: Mapping[str, str]) -> RawMap:
    """The raw specification, its mapping with the copies that it does not map. `second_names`: tensors by copies.

    A mapping that names a copy anywhere is left as it is. Raises MappingError where there is no place for a copy above
    all loops.
    """
    mapping = root.get("mapping")
    nodes = mapping.get("nodes") if isinstance(mapping, RawMap) else None
    changed = False
    for name, tensor in second_names.items():
        if not isinstance(nodes, RawList) or name in _names(nodes):
            continue
        readers = {einsum for einsum in workload.users[name] if einsum != name}
        component = _component(nodes, readers)
        if component is not None:
            nodes, changed = _Placing(root, workload, name, tensor, readers, component).placed(nodes), True
    if not changed:
        return root
    found = set_value(root, ("mapping", "nodes"), nodes)
    assert isinstance(found, RawMap)
    return found


def _names(raw: Raw | None) -> set[str]:
    """All texts in a tree: names of tensors and Einsums are among them."""
    match raw:
        case RawScalar(value=str(text)):
            return {text}
        case RawList(items=items):
            return set().union(*map(_names, items))
        case RawMap(items=pairs):
            return set().union(*(_names(value) for _, value in pairs))
        case _:
            return set()


def _text(raw: Raw, key: str) -> str | None:
    value = raw.get(key) if isinstance(raw, RawMap) else None
    return value.value if isinstance(value, RawScalar) and isinstance(value.value, str) else None


def _below(raw: Raw) -> tuple[Raw, ...]:
    inner = raw.get("nodes") if isinstance(raw, RawMap) else None
    return inner.items if isinstance(inner, RawList) else ()


def _component(raw: Raw, readers: set[str]) -> str | None:
    """The unit that runs one of these Einsums."""
    if tag_of(raw) == "Compute" and _text(raw, "einsum") in readers:
        return _text(raw, "component")
    inner = raw.items if isinstance(raw, RawList) else _below(raw)
    return next((component for child in inner if (component := _component(child, readers)) is not None), None)


class _Placing:
    """One copy, `name`, of a tensor, for its readers."""

    def __init__(
        self, root: RawMap, workload: Workload, name: str, tensor: str, readers: set[str], component: str
    ) -> None:
        self.root = root
        self.name = name
        self.tensor = tensor
        self.readers = readers
        self.is_input = tensor not in workload.producers
        self.branch = _branch(workload.by_name[name], component)

    def placed(self, nodes: RawList) -> RawList:
        """The nodes of the mapping with the copy. Raises MappingError."""
        items = list(nodes.items)
        tags = [tag_of(node) for node in items]
        ends = (*_LOOPS, *_SPLITS, "Pipeline", "Nested", "Compute")
        inner = next((i for i, tag in enumerate(tags) if tag in ends), len(items))
        backing = next((i for i in range(inner) if tags[i] == "Storage" and self.holds(items[i])), None)
        if backing is None:
            raise self.no_place()
        above = [*items[:backing], self.named(items[backing])]
        rest = [self.also_held(node, i + backing + 1, items) for i, node in enumerate(items[backing + 1 :])]
        if inner == len(items) - 1 and tags[inner] in _SPLITS:
            split = rest[-1]
            branches = list(_below(split))
            first = next(i for i, branch in enumerate(branches) if _component(branch, self.readers) is not None)
            branches.insert(first, self.branch)
            done = set_value(split, ("nodes",), RawList(tuple(branches)))
            return replace(nodes, items=(*above, *rest[:-1], done))
        if not self.is_input:
            raise self.no_place()
        other = RawMap((("nodes", RawList(tuple(rest))),), tag="Nested", key_at=(None,))
        split = RawMap((("nodes", RawList((self.branch, other))),), tag="Sequential", key_at=(None,))
        return replace(nodes, items=(*above, split))

    def holds(self, node: Raw) -> bool:
        """Whether a Storage or Toll names the tensor."""
        return self.tensor in _tensors(node)

    def named(self, node: Raw) -> Raw:
        """A Storage or Toll with the copy beside the tensor."""
        return set_value(node, ("tensors",), [*_tensors(node), self.name])

    def also_held(self, node: Raw, index: int, items: list[Raw]) -> Raw:
        """A node in which the copy is held where a reader holds the tensor. `items`: its list."""
        if tag_of(node) in ("Storage", "Toll") and self.holds(node):
            below = RawList(tuple(items[index + 1 :]))
            return self.named(node) if _component(below, self.readers) is not None else node
        inner = _below(node)
        if not inner:
            return node
        changed = [self.also_held(branch, i, list(inner)) for i, branch in enumerate(inner)]
        return set_value(node, ("nodes",), RawList(tuple(changed)))

    def no_place(self) -> MappingError:
        """The mapping has to say where the copy is."""
        readers = " and ".join(sorted(map(repr, self.readers)))
        text = (
            f"the mapping does not say where {self.name!r} is, the copy of {self.tensor!r} that Einsum {readers} "
            f"reads, and {self.tensor!r} has no Storage above all loops to put it in"
        )
        nodes = [_flow(to_python(node)) for node in _below(self.branch)]
        hint = (
            f"name {self.name} in a Storage above the branches of !Sequential, and add the branch "
            f"!Nested {{nodes: [{', '.join(nodes)}]}} before that of its reader"
        )
        return MappingError(text, at=place(self.root, ("mapping", "nodes")), hint=hint)


def _tensors(node: Raw) -> list[str]:
    tensors = to_python(node.get("tensors") or RawList(())) if isinstance(node, RawMap) else []
    return [tensors] if isinstance(tensors, str) else list(tensors)


def _branch(copy: Einsum, component: str) -> Raw:
    loops: list[dict[str, Any]] = [
        {"type": "Temporal", "rank_variable": variable, "tile_shape": 1} for variable in copy.rank_variables
    ]
    compute = {"type": "Compute", "einsum": copy.name, "component": component}
    return from_python({"type": "Nested", "nodes": [*loops, compute]})


def _flow(node: dict[str, Any]) -> str:
    fields = ", ".join(f"{key}: {value}" for key, value in node.items() if key != "type")
    return f"!{node['type']} {{{fields}}}"
