"""Timeloop's architectures, of any version, as one list of levels from the outermost memory to the compute unit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from einmap.errors import At, NotSupportedError, SpecError
from einmap.expressions.scope import Scope
from einmap.frontends.foreign import Report, a_flag, a_list, a_map, a_text, an_integer, named
from einmap.spec.raw import Raw, RawList, RawMap, RawScalar, tag_of

type Attributes = Mapping[str, Raw]

MAX_LEVELS = 200
MAX_INSTANCES = 2**31
_RANGE = re.compile(r"(.*?)\[\s*(\d{1,12})\s*\.\.\s*(\d{1,12})\s*\]", re.DOTALL)
_COMPONENT = ("name", "class", "subclass", "attributes", "sparse_optimizations")
_NETWORKS = ("noc", "network", "router", "wire")


@dataclass(frozen=True, slots=True)
class Level:
    """A memory, a compute unit, or a fanout: copies of all that is further in, along X and Y.

    `targets`: the names by which directives and constraints speak of it; of a fanout those of spatial loops.
    """

    name: str
    kind: Literal["memory", "compute", "fanout"]
    class_name: str = ""
    attributes: Attributes = field(default_factory=dict)
    fanout: tuple[int, int] = (1, 1)
    targets: tuple[str, ...] = ()
    constraints: tuple[RawMap, ...] = ()
    at: At | None = None
    sparse: RawMap | None = None
    """The section `sparse_optimizations` of the component."""


@dataclass(frozen=True, slots=True)
class _Element:
    """A component of the form with subtrees: how many there are in all, and how many of these along X."""

    name: str
    class_name: str
    attributes: Attributes
    instances: int
    mesh_x: int | None
    group: str
    at: At | None
    sparse: RawMap | None = None

    @property
    def is_place(self) -> bool:
        """Whether it is the place of a fanout, and not a memory: one of Timeloop's front end, or without entries."""
        sizes = [self.attributes.get(key) for key in ("entries", "depth", "sizeKB")]
        is_empty = any(isinstance(size, RawScalar) and size.value == 0 for size in sizes)
        return is_empty or _is_dummy(self.name, self.class_name)


def read_levels(
    architecture: Raw, report: Report, scope: Scope, inherited: Attributes | None = None
) -> tuple[Level, ...]:
    """The levels of a section `architecture`; `inherited`: attributes that all components have.

    Raises SpecError with the place of what is wrong.
    """
    inherited = inherited or {}
    section = a_map(architecture, "architecture")
    if section.get("nodes") is not None:
        report.leave_others(section, ("version", "nodes"))
        levels = _checked(
            list(_Nodes(report, scope).hierarchy(section.get("nodes"), inherited, section.at)), section.at
        )
    else:
        report.leave_others(section, ("version", "subtree", "local", "name", "attributes"))
        tree = section if section.get("local") is not None else section.get("subtree")
        levels = _from_totals(list(_Subtrees(report, scope).elements(tree, inherited, 1, "", section.at)), section.at)
    return levels


def read_storage_list(arch: Raw, report: Report, scope: Scope) -> tuple[Level, ...]:
    """The levels of the oldest form, `arch: {arithmetic, storage}`, whose storage is listed from the inside out."""
    section = a_map(arch, "arch")
    report.leave_others(section, ("arithmetic", "storage", "version"))
    elements = []
    for item in reversed(a_list(section.get("storage"), "arch.storage", section.at)):
        elements.append(_listed(a_map(item, "arch.storage"), "SRAM", scope))
    arithmetic = a_map(section.get("arithmetic"), "arch.arithmetic", section.at)
    elements.append(_listed(arithmetic, "intmac", scope))
    return _from_totals(elements, section.at)


def _listed(entry: RawMap, class_name: str, scope: Scope) -> _Element:
    name = entry.get("name")
    attributes = dict(entry.items)
    technology = entry.get("technology")
    if class_name == "SRAM" and isinstance(technology, RawScalar) and technology.value in ("SRAM", "DRAM"):
        class_name = str(attributes.pop("technology").value)  # type: ignore[union-attr]
    own = _count(attributes, "instances", 1, scope)
    shown = "MACs" if name is None and class_name == "intmac" else a_text(name, "arch.storage.name", entry.at)
    mesh_x = _count(attributes, "meshX", 0, scope) or None
    attributes.pop("instances", None)
    return _Element(shown, class_name, attributes, own, mesh_x, "", entry.at)


def _count(attributes: Attributes, key: str, default: int, scope: Scope) -> int:
    raw = attributes.get(key)
    return default if raw is None else an_integer(raw, key, scope)


def split_name(text: str, at: At | None) -> tuple[str, int]:
    """`PE[0..15]` -> ("PE", 16): the name, and how many there are. Raises SpecError for a range that runs backwards."""
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        if "[" in text:
            raise SpecError(f"{text!r} is not a name with a range", at=named(at, "name"), hint="write PE[0..15]")
        return text.strip(), 1
    first, last = int(match[2]), int(match[3])
    if last < first:
        raise SpecError(f"the range of {text!r} runs backwards", at=named(at, "name"), hint=f"{match[1]}[0..{first}]")
    return match[1].strip(), last - first + 1


class _Subtrees:
    """Versions 0.2 and 0.3, and what Timeloop's own front end writes: subtrees with local components."""

    def __init__(self, report: Report, scope: Scope) -> None:
        self._report = report
        self._scope = scope

    def elements(
        self, raw: Raw | None, inherited: Attributes, outside: int, group: str, at: At | None, depth: int = 0
    ) -> Iterator[_Element]:
        """The components of a tree, outermost first; `outside`: copies of the tree, `group`: what multiplied last.

        Trees beside one another are levels in written order, as nodes of `!Parallel` are; that with the compute unit is
        the innermost. Raises NotSupportedError where another one makes copies.
        """
        trees = _trees(raw, at)
        if len(trees) == 1:
            yield from self._tree(trees[0], inherited, outside, group, depth)
            return
        branches = [list(self._tree(tree, inherited, outside, group, depth)) for tree in trees]
        inner = [branch for branch in branches if any(_is_compute(element.class_name) for element in branch)]
        place = named(trees[0].at, "subtree")
        if len(inner) > 1:
            raise NotSupportedError(f"{len(inner)} of {len(trees)} subtrees have compute units, expected one", at=place)
        beside = [element for branch in branches if branch not in inner for element in branch]
        if any(element.instances != outside for element in beside):
            raise NotSupportedError("copies in a subtree beside that of the compute unit are not read", at=place)
        yield from (*beside, *(element for branch in inner for element in branch))

    def _tree(self, tree: RawMap, inherited: Attributes, outside: int, group: str, depth: int) -> Iterator[_Element]:
        text = a_text(tree.get("name"), "subtree.name", tree.at) if tree.get("name") is not None else ""
        name, own = split_name(text, tree.at)
        outside *= own
        group = name if own > 1 else group
        attributes = {**inherited, **_attributes(tree)}
        self._report.leave_others(tree, ("name", "attributes", "local", "subtree", "version"))
        local = tree.get("local")
        for item in a_list(local, "local") if local is not None else ():
            yield from self._component(a_map(item, "local"), attributes, outside, group)
        if (inner := tree.get("subtree")) is not None:
            yield from self.elements(inner, attributes, outside, group, tree.at, depth + 1)

    def _component(self, entry: RawMap, inherited: Attributes, outside: int, group: str) -> Iterator[_Element]:
        name, own = split_name(a_text(entry.get("name"), "local.name", entry.at), entry.at)
        if entry.get("enabled") is not None and not a_flag(entry.get("enabled"), f"{name}.enabled"):
            self._report.leave(entry.at, name, "the component is not enabled")
            return
        class_name = _class_of(entry, name)
        self._report.leave_others(entry, (*_COMPONENT, "required_actions", "enabled"))
        attributes = {**inherited, **_attributes(entry)}
        if _is_network(class_name):
            self._report.leave(entry.at, name, f"a network of the class {class_name}: nothing is charged for it")
            return
        mesh_x = _count(_attributes(entry), "meshX", 0, self._scope) or None
        # a number of instances is that of all, whatever is around
        total = _count(_attributes(entry), "instances", outside * own, self._scope)
        attributes.pop("instances", None)
        if total > MAX_INSTANCES:
            raise SpecError(f"{name} is there {total:,} times, more than {MAX_INSTANCES:,}", at=named(entry.at, name))
        group = f"{name}_array" if own > 1 else group
        yield _Element(name, class_name, attributes, total, mesh_x, group, entry.at, _sparse(entry))


def _trees(raw: Raw | None, at: At | None) -> list[RawMap]:
    """One tree or more. Raises SpecError for none."""
    if isinstance(raw, RawMap):
        return [raw]
    trees = [a_map(tree, "subtree") for tree in a_list(raw, "subtree", at)]
    if not trees:
        raise SpecError(
            "expected a subtree, found an empty list", at=named(raw.at if raw is not None else at, "subtree")
        )
    return trees


def _from_totals(elements: Sequence[_Element], at: At | None) -> tuple[Level, ...]:
    """Levels, with a fanout wherever the next one is there more often than the one before."""
    levels: list[Level] = []
    before: _Element | None = None
    for element in elements:
        outer, outer_x = (1, 1) if before is None else (before.instances, _along_x(before))
        if element.instances % outer:
            text = f"{element.instances} of {element.name} do not divide among {outer} of what is outside"
            raise SpecError(text, at=named(element.at, element.name))
        if (times := element.instances // outer) > 1:
            x = _along_x(element)
            across = x // outer_x if x % outer_x == 0 and times % (x // outer_x) == 0 else times
            is_place = before is not None and before.is_place
            name = before.name if before is not None and is_place else element.group or f"{element.name}_array"
            targets = (before.name,) if before is not None else ()
            levels.append(Level(name, "fanout", fanout=(across, times // across), targets=targets, at=element.at))
        kind: Literal["memory", "compute"] = "compute" if element is elements[-1] else "memory"
        if not element.is_place:
            levels.append(
                Level(
                    *(element.name, kind, element.class_name, element.attributes),
                    targets=(element.name,),
                    at=element.at,
                    sparse=element.sparse,
                )
            )
        before = element
    return _checked(levels, at)


def _along_x(element: _Element) -> int:
    """Copies along X: as `meshX` says, where these are rows of equal length, or all."""
    if element.mesh_x is not None and element.instances % element.mesh_x == 0:
        return element.mesh_x
    return element.instances


class _Nodes:
    """Version 0.4: a list of nodes, each inside of those before it."""

    def __init__(self, report: Report, scope: Scope) -> None:
        self._report = report
        self._scope = scope

    def hierarchy(self, raw: Raw | None, inherited: Attributes, at: At | None) -> Iterator[Level]:
        """The levels of a list of nodes, each a child of those before it."""
        for item in a_list(raw, "architecture.nodes", at):
            node = a_map(item, "architecture.nodes")
            tag = tag_of(node)
            match tag:
                case "Container":
                    inherited = {**inherited, **_attributes(node)}
                    yield from self._container(node)
                case "Component":
                    yield from self._component(node, inherited)
                case "Hierarchical" | "Parallel" | "Pipelined":
                    self._report.leave_others(node, ("nodes",))
                    if tag != "Parallel":
                        self._warn_of_pipeline(node, tag)
                        yield from self.hierarchy(node.get("nodes"), inherited, node.at)
                    else:
                        yield from self._parallel(node, inherited)
                case "Nothing":
                    continue
                case _:
                    found = f"!{tag}" if tag else "no tag"
                    text = f"expected !Container, !Component, !Hierarchical or !Parallel, found {found}"
                    raise SpecError(text, at=named(node.at, "architecture.nodes"))

    def _warn_of_pipeline(self, node: RawMap, tag: str) -> None:
        if tag == "Pipelined":
            self._report.leave(node.at, "!Pipelined", "its nodes are read as one inside of the other")

    def _parallel(self, node: RawMap, inherited: Attributes) -> Iterator[Level]:
        """Components beside one another: Timeloop counts them as levels in written order, and so do we."""
        for item in a_list(node.get("nodes"), "!Parallel.nodes", node.at):
            inner = list(self.hierarchy(RawList((item,), at=node.at), inherited, node.at))
            if any(level.kind == "fanout" for level in inner):
                raise NotSupportedError("a fanout in one branch of !Parallel is not read", at=named(node.at, "nodes"))
            yield from inner

    def _container(self, node: RawMap) -> Iterator[Level]:
        name = a_text(node.get("name"), "name", node.at)
        self._report.leave_others(node, ("name", "attributes", "spatial", "constraints", "enabled"))
        name, times = split_name(name, node.at)
        fanout = self._fanout(node, name, times)
        constraints = _constraints(node)
        if fanout != (1, 1):
            targets = (name, f"inter_{name}_spatial")
            yield Level(name, "fanout", fanout=fanout, targets=targets, constraints=constraints, at=node.at)

    def _component(self, node: RawMap, inherited: Attributes) -> Iterator[Level]:
        name = a_text(node.get("name"), "name", node.at)
        self._report.leave_others(node, (*_COMPONENT, "spatial", "constraints", "enabled", "required_actions"))
        if node.get("enabled") is not None and not a_flag(node.get("enabled"), f"{name}.enabled"):
            self._report.leave(node.at, name, "the component is not enabled")
            return
        class_name = _class_of(node, name)
        name, times = split_name(name, node.at)
        constraints = _constraints(node)
        fanout = self._fanout(node, name, times)
        around = f"inter_{name}_spatial"
        if fanout != (1, 1):
            targets = (name, around)
            yield Level(around, "fanout", fanout=fanout, targets=targets, constraints=constraints, at=node.at)
        if _is_network(class_name):
            self._report.leave(node.at, name, f"a network of the class {class_name}: nothing is charged for it")
        elif not _is_dummy(name, class_name):
            attributes = {**inherited, **_attributes(node)}
            kind: Literal["memory", "compute"] = "compute" if _is_compute(class_name) else "memory"
            more = {"constraints": constraints, "at": node.at, "sparse": _sparse(node)}
            yield Level(name, kind, class_name, attributes, targets=(name,), **more)  # type: ignore[arg-type]

    def _fanout(self, node: RawMap, name: str, times: int) -> tuple[int, int]:
        raw = node.get("spatial")
        if raw is None:
            return times, 1
        spatial = a_map(raw, f"{name}.spatial")
        self._report.leave_others(spatial, ("meshX", "meshY"))
        x, y = (
            an_integer(spatial.get(key), f"{name}.spatial.{key}", self._scope) if spatial.get(key) is not None else 1
            for key in ("meshX", "meshY")
        )
        if max(x, y) > MAX_INSTANCES:
            text = f"{name} has a fanout of more than {MAX_INSTANCES:,}"
            raise SpecError(text, at=named(spatial.at, f"{name}.spatial"))
        return x * times, y


def _constraints(node: RawMap) -> tuple[RawMap, ...]:
    raw = node.get("constraints")
    return () if raw is None or (isinstance(raw, RawScalar) and raw.value is None) else (a_map(raw, "constraints"),)


def _sparse(node: RawMap) -> RawMap | None:
    raw = node.get("sparse_optimizations")
    return None if raw is None or _is_null(raw) else a_map(raw, "sparse_optimizations")


def _is_null(raw: Raw) -> bool:
    return isinstance(raw, RawScalar) and raw.value is None


def _attributes(node: RawMap) -> dict[str, Raw]:
    raw = node.get("attributes")
    if raw is None or (isinstance(raw, RawScalar) and raw.value is None):
        return {}
    return dict(a_map(raw, "attributes").items)


def _class_of(node: RawMap, name: str) -> str:
    """The class, or the subclass, which says more: `class: storage, subclass: smartbuffer_RF`."""
    own = a_text(node.get("class"), f"{name}.class", node.at)
    sub = node.get("subclass")
    return own if sub is None or (isinstance(sub, RawScalar) and sub.value is None) else a_text(sub, f"{name}.subclass")


def _is_dummy(name: str, class_name: str) -> bool:
    """Whether the level is the place of a fanout and not a memory: Timeloop's front end writes one for each."""
    return class_name.lower().startswith("dummy") and name.startswith("inter_") and name.endswith("_spatial")


def _is_compute(class_name: str) -> bool:
    return any(word in class_name.lower() for word in ("mac", "compute", "multiplier", "alu"))


def _is_network(class_name: str) -> bool:
    return any(word in class_name.lower() for word in _NETWORKS)


def _checked(levels: list[Level], at: At | None) -> tuple[Level, ...]:
    """The levels, where there is a memory and the innermost one computes. Raises SpecError."""
    if len(levels) > MAX_LEVELS:
        raise SpecError(f"the architecture has {len(levels)} levels, more than {MAX_LEVELS}", at=at)
    at = named(at, "architecture")
    leaves = [level for level in levels if level.kind != "fanout"]
    if len(leaves) < 2:
        raise SpecError("expected a memory and, further in, a compute unit", at=at)
    if leaves[-1].kind == "memory":
        levels[levels.index(leaves[-1])] = last = replace(leaves[-1], kind="compute")
        leaves[-1] = last
    if computes := [level for level in leaves[:-1] if level.kind == "compute"]:
        text = f"{computes[0].name} computes and has components inside of it"
        raise NotSupportedError(text, at=named(computes[0].at, computes[0].name), hint="one compute unit is read")
    names = [target for level in levels if level.kind != "fanout" for target in level.targets]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise SpecError(f"the component {twice!r} is given twice", at=at)
    return tuple(levels)
