"""Components inside an array: its memories are units along the array's dimensions, and one memory to a mapping."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from einmap.arch.component import Component, Container, Memory, Network, Units
from einmap.errors import At, NotSupportedError, SpecError, did_you_mean
from einmap.spec.raw import Path, Raw, RawList, RawMap, place, tag_of
from einmap.spec.schema.arch import ContainerInput

type Place = Callable[..., At]
"""Where a field of a component stands."""


def misplaced(array: RawMap, root: Raw, path: Path) -> Iterator[SpecError]:
    """Problems of nodes that may not stand inside an array."""
    listed = array.get("nodes")
    for index, item in enumerate(listed.items if isinstance(listed, RawList) else ()):
        inner = tag_of(item)
        if inner in ("Compute", "Fork", "Hierarchical", "Array", "Container", "Fanout"):
            at = place(root, (*path, "nodes", index))
            hint = f"an !Array holds memories, tolls and networks; let a !{inner} follow it"
            yield SpecError(f"a !{inner} cannot stand inside an !Array", at=at, hint=hint)


def array_problems(leaves: Sequence[tuple[str, ContainerInput, Path]], root: Raw) -> Iterator[SpecError]:
    """Problems of the leaves inside an array, as far as their fanouts need not be known."""
    network = ""
    for tag, given, path in leaves:
        name = given.name
        if tag == "Network":
            network = network or name
        elif tag == "Memory" and network:
            text = f"the memory {name!r} stands below the network {network!r} of the same array"
            yield NotSupportedError(
                f"{text}; that is not supported yet", at=place(root, path), hint="put the memory before the network"
            )
        if tag != "Memory" and given.spatial:
            text = f"the {tag} {name!r} stands inside an array, which says of how many lanes it is"
            yield SpecError(text, at=place(root, (*path, "spatial")), hint="leave out spatial")
        for index, dimension in enumerate(given.spatial if tag == "Memory" else ()):
            for field in sorted(dimension.model_fields_set - {"name", "fanout"}):
                text = f"of a memory inside an array only the number of units may be said, not {field!r}"
                at = place(root, (*path, "spatial", index, field))
                yield SpecError(text, at=at, hint="say it of the array's dimension")


def in_array(component: Component, array: Container | None, at: Place) -> Component:
    """A component with what it is inside its array, if it stands in one.

    Raises SpecError where its units do not fit the array's lanes, and for `replicate` outside of arrays.
    """
    if array is None:
        if isinstance(component, Memory) and component.replicate:
            text = f"{component.name!r} is one memory, which stands in no array: there is nothing to replicate"
            raise SpecError(text, at=at("replicate"), hint="leave out replicate")
        return component
    if isinstance(component, Network):
        return replace(component, array=array.name)
    if not isinstance(component, Memory):
        return component
    lanes = {dimension.name: dimension.fanout for dimension in array.spatial}
    own = {dimension.name: dimension.fanout for dimension in component.spatial}
    for index, (name, number) in enumerate(own.items()):
        if name not in lanes:
            hint = did_you_mean(name, lanes, listing="dimensions")
            text = f"the array {array.name!r} has no dimension {name!r}, along which {component.name!r} has units"
            raise SpecError(text, at=at("spatial", index), hint=hint)
        if lanes[name] % number:
            text = f"{number} units of {component.name!r} do not divide the {lanes[name]} lanes of {array.name}.{name}"
            raise SpecError(text, at=at("spatial", index), hint="each unit serves as many lanes")
    units = tuple(Units(name, own.get(name, 1), n // own.get(name, 1)) for name, n in lanes.items())
    memory = replace(component, spatial=(), array=array.name, units=units)
    if memory.is_spread:
        _refuse(memory, at)
    return memory


def check_networks(nodes: Sequence[object], paths: Mapping[str, Path], where: Callable[[Path], At]) -> None:
    """Raise NotSupportedError for a network of an array over which values cannot go from one unit to other lanes."""
    spread = next((node.name for node in nodes if isinstance(node, Memory) and node.is_spread), None)
    for node in nodes:
        if spread is not None and isinstance(node, Network) and node.topology not in ("mesh", "all_to_all"):
            text = f"the network {node.name!r} is a {node.topology} beside the units of {spread!r}"
            raise NotSupportedError(
                f"{text}; that is not supported yet",
                at=where((*paths[node.name], "topology")),
                hint="a mesh or all_to_all joins units",
            )


def _refuse(memory: Memory, at: Place) -> None:
    """Raise NotSupportedError for options that are not known of a memory of several units."""
    odd = {
        "layout": bool(memory.layout),
        "wind_up": memory.wind_up,
        "buffering": memory.buffering == "single",
        "stalls": memory.stalls != "average",
        "actions": any(action.startup or action.pipeline_latency for action in memory.actions),
    }
    for field in (field for field, is_given in odd.items() if is_given):
        what = "actions that take time to begin or to answer" if field == "actions" else f"{field!r}"
        text = f"{what} of {memory.name!r}, which is several units of an array, is not supported yet"
        raise NotSupportedError(text, at=at(field), hint=f"leave it out, or give {memory.name} one unit")
