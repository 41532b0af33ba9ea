"""Which rewrites apply to a node, and why the others do not: what a page offers when a node is taken up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Literal

from einmap.arch.component import Memory
from einmap.errors import EinmapError
from einmap.mapping.mapping import Mapping, PlacedNode
from einmap.mapping.met_loops import MetLoop
from einmap.mapping.nodes import (
    Address,
    LoopNode,
    Node,
    PerEinsum,
    Pipeline,
    Spatial,
    Split,
    Storage,
    Temporal,
    format_address,
)
from einmap.mapping.pretty import describe
from einmap.mapping.rewrite.editing import paths_through, siblings
from einmap.mapping.rewrite.places import PlacedLoop, at, find_node
from einmap.mapping.rewrite.text import rewritten
from einmap.mapping.rewrite.tiles import shapes_around
from einmap.mapping.rewrite.values import holders, met_at
from einmap.mapping.validate import validate
from einmap.numbers import divisors
from einmap.spec.spec import Spec
from einmap.visible import listed, visible

MOST_SHAPES = 64
"""Tile shapes that a slider has."""
MOST_PLACES = 100
"""Loops, and pairs of branches, that are offered as places."""
MOST_KEPT = 40
"""Storage nodes that are offered to be inserted at one place."""
MOST_FIRST = 8
"""Shapes of a first tile that are offered."""
MOST_SPANS = 40
"""Runs of neighbouring branches that are offered to be put together."""
MOST_JUDGED = 16
"""Places for one node that are judged at once; others when a block is held over them."""

type Kind = Literal[
    "place", "shape", "split", "first", "lanes", "merge", "group", "stages", "keep", "past", "other"
]  # fmt: skip
CHECKED = ("place", "lanes", "first", "merge", "group", "stages", "keep")
"""Kinds after which the tree is validated: the rewrite itself does not look at the architecture."""


@dataclass(frozen=True, slots=True)
class Option:
    """A rewrite as text, what it does in words, and the reason why it does not apply; None: it does.

    `kind`: `place`: the node moves `above` or `below` the node at `target`; `shape`, `split`: the tile shape `value`;
    `first`: that of the first tile; `lanes`: into time or over a fanout; `merge`, `group`: branches; `stages`: at one
    time or in turns; `keep`: a new storage node beside the node at `target`; `past`: one tensor of several.
    `judged`: whether it was looked at; else `why` says nothing yet.
    """

    text: str
    label: str
    kind: Kind = "other"
    target: str = ""
    side: Literal["", "above", "below"] = ""
    value: int | None = None
    why: str | None = None
    judged: bool = True


def options_of(
    spec: Spec, mapping: Mapping, node: str, tensor: str | None = None, *, is_valid: bool = True
) -> list[dict[str, Any]]:
    """The moves of the node at an address, as plain data. Raises MappingError for an address without a node.

    `is_valid`: the mapping is, so that what is not after a move is due to the move. `shown`: the text for people.
    """
    placed = find_node(mapping, node)
    options, places = [], 0
    for option in _options(spec, mapping, placed, tensor):
        told = {**asdict(option), "label": visible(option.label), "shown": visible(option.text)}
        places += option.kind == "place"
        if option.kind == "place" and places > MOST_JUDGED:
            options.append({**told, "judged": False})
        else:
            options.append({**told, "why": why_not(spec, mapping, option.text, is_valid and option.kind in CHECKED)})
    return options


def why_not(spec: Spec, mapping: Mapping, text: str, is_checked: bool = True) -> str | None:
    """Why a rewrite does not apply; None: it does. Capacities are known when it is evaluated, and not before."""
    try:
        changed = rewritten(mapping, spec.workload, text)
        if is_checked:
            validate(changed, spec.workload, spec.archs, at, spec.archs, _touched(mapping, changed))
    except EinmapError as error:
        return str(error).replace("\n  hint: ", "; ").replace("\n", "; ")
    return None


def _touched(before: Mapping, after: Mapping) -> frozenset[str]:
    """Einsums that have other nodes on their path than before; what was valid for the others still is."""

    def nodes(mapping: Mapping, name: str) -> list[Node]:
        return [placed.node for placed in mapping.path_of.get(name, ()) if not isinstance(placed.node, Split)]

    return frozenset(name for name in after.path_of if nodes(before, name) != nodes(after, name))


def _options(spec: Spec, mapping: Mapping, placed: PlacedNode, tensor: str | None) -> Iterator[Option]:
    match placed.node:
        case Storage():
            yield from _of_storage(mapping, placed, placed.node, tensor)
        case Temporal() | Spatial():
            yield from _of_loop(spec, mapping, PlacedLoop(placed.address, placed.node))
        case Split():
            yield from _of_split(spec, mapping, placed.address, placed.node)
        case _:
            pass


def _of_storage(mapping: Mapping, placed: PlacedNode, node: Storage, tensor: str | None) -> Iterator[Option]:
    ref = format_address(placed.address)
    ref = f"{tensor}@{ref}" if tensor is not None else ref
    name = tensor if tensor is not None else listed(node.tensors)
    paths = paths_through(mapping, placed.address).values()
    path = next(iter(paths), ())
    above = [(p.address, p.node) for p in path if isinstance(p.node, Temporal | Spatial) and p.address < placed.address]
    below = {p.address: p for path in paths for p in path if p.address > placed.address}
    for address, loop_above in reversed(above):
        where = format_address(address)
        yield Option(f"hoist {ref} above {where}", f"{name} above {describe(loop_above)}", "place", where, "above")
    loops = ((p.address, p.node) for p in below.values() if isinstance(p.node, Temporal | Spatial))
    for address, loop in islice(loops, MOST_PLACES):
        where = format_address(address)
        yield Option(f"sink {ref} below {where}", f"{name} below {describe(loop)}", "place", where, "below")
    yield Option(f"sink {ref}", f"{name} down as far as that saves space at equal traffic")
    yield Option(f"bypass {ref}", f"{name} past {node.component}")
    if tensor is None and len(node.tensors) > 1:
        for one in node.tensors[:MOST_JUDGED]:
            yield Option(f"bypass {one}@{ref}", f"{one} past {node.component}", "past")


def _of_loop(spec: Spec, mapping: Mapping, loop: PlacedLoop) -> Iterator[Option]:
    where = format_address(loop.address)
    yield from _orders(mapping, loop)
    if isinstance(loop.node, Spatial):
        yield Option(f"serialise {where}", "into time", "lanes")
    else:
        for dimension in _dimensions(spec, mapping, loop.address):
            yield Option(f"spread {where} {dimension}", f"over the lanes of {dimension}", "lanes")
    yield from _shapes(spec, mapping, loop)
    yield Option(f"fuse {where}", "one loop with the one below over the same variable")
    yield Option(f"distribute {where}", "into the branches of the split below")
    yield from _kept(spec, mapping, loop.address)


def _orders(mapping: Mapping, loop: PlacedLoop) -> Iterator[Option]:
    """The loop at each other place of the run of loops that it stands in."""
    listed = siblings(mapping, loop.address)
    here = loop.address[-1]
    first, last = here, here
    while first > 0 and isinstance(listed[first - 1], Temporal | Spatial):
        first -= 1
    while last + 1 < len(listed) and isinstance(listed[last + 1], Temporal | Spatial):
        last += 1
    name = describe(loop.node)
    for place in range(first, last + 1):
        if place == here:
            continue
        low, high = min(place, here), max(place, here)
        run = [format_address((*loop.address[:-1], i)) for i in range(low, high + 1)]
        order = [run[-1], *run[:-1]] if place < here else [*run[1:], run[0]]
        side: Literal["above", "below"] = "above" if place < here else "below"
        target = format_address((*loop.address[:-1], place))
        label = f"{name} {side} {describe(listed[place])}"  # type: ignore[arg-type]
        yield Option(f"interchange {' '.join(order)}", label, "place", target, side)


def _dimensions(spec: Spec, mapping: Mapping, address: Address) -> list[str]:
    """The fanouts of the architectures of the Einsums below a node."""
    found: dict[str, None] = {}
    for einsum in paths_through(mapping, address):
        for name, unit in spec.arch(einsum).leaves.items():
            found |= {f"{name}.{dimension.name}": None for dimension in getattr(unit, "spatial", ())}
    return list(found)


def _shapes(spec: Spec, mapping: Mapping, loop: PlacedLoop) -> Iterator[Option]:
    """Other tile shapes of the loop, and those of a new loop above it: divisors of the tile that it meets."""
    met = met_at(mapping, spec.workload, loop.address)
    name, one = next(iter(met.items()))
    below = shapes_around(mapping, loop, name)[1]
    where, is_plain = format_address(loop.address), loop.node.tile_shape.by_einsum == ()
    for shape in divisors(one.extent)[:MOST_SHAPES]:
        text = _shape_text(loop.node, {e: m.shape for e, m in met.items()}, shape, one.shape, is_plain)
        if text is None:
            continue
        if below is not None and shape % below == 0 and shape < one.extent:
            yield Option(f"reshape {where} {text}", f"tiles of {text}", "shape", value=shape)
        if shape > one.shape and shape % one.shape == 0 and shape < one.extent:
            yield Option(f"split {where} {text}", f"a loop of tiles of {text} above it", "split", value=shape)
    yield from _firsts(mapping, loop, name, one)


def _shape_text(node: LoopNode, shapes: dict[str, int], shape: int, old: int, is_plain: bool) -> str | None:
    """A tile shape as `reshape` and `split` read it: one number, or one for each Einsum in proportion."""
    if is_plain or node.tile_shape == PerEinsum(old):
        return str(shape)
    if any(size * shape % old for size in shapes.values()):
        return None
    return ",".join(f"{name}:{size * shape // old}" for name, size in shapes.items())


def _firsts(mapping: Mapping, loop: PlacedLoop, name: str, one: MetLoop) -> Iterator[Option]:
    """Larger shapes of the first tile, the same for all Einsums: a whole window, of which later tiles need a part."""
    where = format_address(loop.address)
    begun = isinstance(loop.node, Temporal) and loop.node.initial_tile_shape != PerEinsum()
    if begun:
        yield Option(f"initial {where} none", "the first tile as the others")
    below = shapes_around(mapping, loop, name)[1]
    if isinstance(loop.node, Spatial) or below is None or loop.node.tile_shape.by_einsum:
        return
    for shape in range(one.shape + below, min(one.extent, one.shape + below * MOST_FIRST) + 1, below):
        if shape != one.first:
            yield Option(f"initial {where} {shape}", f"a first tile of {shape}", "first", value=shape)


def _of_split(spec: Spec, mapping: Mapping, address: Address, node: Split) -> Iterator[Option]:
    where, count = format_address(address), len(node.branches)
    yield Option(f"merge {where}", "one loop above all branches, which begin with it", "merge")
    spans = [(first, last) for last in range(1, count) for first in range(last) if last - first + 1 < count]
    spans.sort(key=lambda span: (span[1] - span[0], span))
    for first, last in spans[:MOST_SPANS]:
        named, numbers = _span(node, first, last), " ".join(map(str, range(first, last + 1)))
        yield Option(f"merge {where} {numbers}", f"one loop above {named}", "merge")
        yield Option(f"group {where} {numbers}", f"{named} as one", "group")
    if len(address) > 1 and address[-1] == 0:
        yield Option(f"ungroup {where}", "its branches into the split around it", "group")
    if isinstance(node, Pipeline):
        yield Option(f"sequence {where}", "one after the other", "stages")
        return
    yield Option(f"pipeline {where}", "at one time, on Computes of their own", "stages")
    for dimension in _dimensions(spec, mapping, address):
        yield Option(f"pipeline {where} {dimension}", f"at one time, on lanes of {dimension}", "stages")


def _span(node: Split, first: int, last: int) -> str:
    """Neighbouring branches in words."""
    what = "stages" if isinstance(node, Pipeline) else "branches"
    return f"{what} {first + 1} {'and' if last == first + 1 else 'to'} {last + 1}"


def _kept(spec: Spec, mapping: Mapping, address: Address) -> Iterator[Option]:
    """A tensor in a memory that does not hold it yet, below the loop, or above one that no loop stands above."""
    paths = paths_through(mapping, address)
    offered: dict[str, None] = {}
    for einsum in paths:
        memories = [name for name, unit in spec.arch(einsum).components.items() if isinstance(unit, Memory)]
        for tensor in spec.workload.by_name[einsum].tensors:
            held = {getattr(mapping.at(a), "component", "") for a in holders(mapping, einsum, tensor)}
            offered |= {f"{tensor}@{memory}": None for memory in memories if memory not in held}
    beside = siblings(mapping, address)[address[-1] - 1] if address[-1] else None
    sides: list[Literal["above", "below"]] = ["below"] if isinstance(beside, Temporal | Spatial) else ["below", "above"]
    where = format_address(address)
    for ref, side in [(ref, side) for side in sides for ref in list(offered)[:MOST_KEPT]]:
        tensor, _, memory = ref.partition("@")
        yield Option(f"keep {ref} {side} {where}", f"hold {tensor} in {memory} {side} it", "keep", where, side)
