"""A LoopTree of one Einsum as Timeloop's mapping: loops go to levels, tile shapes become factors.

A level of Timeloop holds all of its tensors in front of the same loops, and does not fetch again what the loops
directly above it do not change. So the nodes of a memory may stand above one another only where the loops between them
do not index the tensor; where einmap counts something that Timeloop does not, that is said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from einmap.arch.component import Leaf, Memory
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.einsum.spaces.projection import Relevance
from einmap.errors import At, NotSupportedError
from einmap.frontends.foreign import Report
from einmap.mapping.mapping import PlacedNode
from einmap.mapping.nodes import Sequential, Spatial, Storage, Temporal
from einmap.spec.raw import Raw, from_python
from einmap.spec.spec import Spec


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop of more than one iteration; `component` and `axis` where it is spatial.

    `last`: its iterations in the last one of the loops over its variable further out.
    """

    variable: str
    iterations: int
    last: int
    at: At
    component: str = ""
    axis: str = ""


@dataclass(frozen=True, slots=True)
class _Held:
    """One tensor in a memory, below so many loops; `slides`: whether the node is a line buffer."""

    tensor: str
    memory: str
    position: int
    slides: bool
    at: At


def write_mapping(
    spec: Spec, axes: Mapping[tuple[str, str], str], dimensions: Mapping[str, str], report: Report
) -> Raw:
    """The section `mapping`. `axes`: X or Y by component and dimension; `dimensions`: names by rank variable.

    Raises NotSupportedError, with the place of the node, for what no mapping of Timeloop says.
    """
    return _Writer(spec, axes, dimensions, report).written()


class _Writer:
    def __init__(
        self, spec: Spec, axes: Mapping[tuple[str, str], str], dimensions: Mapping[str, str], report: Report
    ) -> None:
        self._spec = spec
        self._axes = axes
        self._dimensions = dimensions
        self._report = report
        self._einsum: Einsum = spec.workload.einsums[0]
        assert spec.mapping is not None
        self._placed: tuple[PlacedNode, ...] = spec.mapping.path_of[self._einsum.name]
        arch: Architecture = spec.arch(self._einsum.name)
        unit = self._placed[-1].node
        self._path: tuple[Leaf, ...] = arch.path(getattr(unit, "component", ""))
        self._levels = {leaf.name: i for i, leaf in enumerate(self._path)}
        self._loops: list[_Loop] = []
        self._left: dict[str, int] = {}
        self._held: list[_Held] = []

    def written(self) -> Raw:
        """Directives for each level, outermost first."""
        self._read()
        starts = self._starts()
        for memory, start in starts.items():
            for held, reason in self._differences(memory, start):
                self._report.leave(held.at, f"{held.tensor} in {held.memory}", reason)
        entries: list[dict[str, object]] = []
        memories = [leaf for leaf in self._path if isinstance(leaf, Memory)]
        for leaf in self._path:
            entries += self._spatial(leaf)
            if not isinstance(leaf, Memory):
                continue
            following = memories[memories.index(leaf) + 1 :]
            end = starts[following[0].name] if following else len(self._loops)
            own = [loop for loop in self._loops[starts[leaf.name] : end] if not loop.component]
            entries.append(self._entry(leaf.name, "temporal", own))
            keep = [held.tensor for held in self._held if held.memory == leaf.name]
            bypass = [a.tensor for a in self._einsum.accesses if a.tensor not in keep]
            entries.append({"target": leaf.name, "type": "dataspace", "keep": keep, "bypass": bypass})
        return from_python(entries)

    # what the LoopTree says

    def _read(self) -> None:
        extents = dict(self._einsum.extents)
        self._left = dict(extents)
        for here in self._placed:
            at = self._spec.place_of_node(here.address)
            node = here.node
            match node:
                case Temporal() | Spatial():
                    self._read_loop(node, extents, at)
                case Storage():
                    for tensor in node.tensors:
                        if tensor in self._einsum.by_tensor:
                            slides = self._slides(node)
                            self._held.append(_Held(tensor, node.component, len(self._loops), slides, at))
                case Sequential():
                    raise NotSupportedError("Timeloop's mappings are of one Einsum, without branches", at=at)
                case _:
                    continue

    def _slides(self, node: Storage) -> bool:
        option = self._spec.model_options.sliding_window
        return option if node.sliding_window is None else node.sliding_window

    def _read_loop(self, node: Temporal | Spatial, extents: dict[str, int], at: At) -> None:
        name = self._einsum.name
        variable, shape = node.rank_variable.of(name), node.tile_shape.of(name)
        assert variable is not None and shape is not None
        extent = extents[variable]
        if isinstance(node, Temporal) and node.initial_tile_shape.of(name) not in (None, shape):
            raise NotSupportedError("Timeloop's tiles are all alike, initial_tile_shape has no counterpart", at=at)
        if shape < extent and extent % shape and extent != self._einsum.extents[variable]:
            text = f"{variable} in tiles of {extent} that are cut into {shape} leaves a remainder in each of them"
            hint = f"choose a tile shape that divides {extent}: Timeloop's factors leave one in the last tile alone"
            raise NotSupportedError(text, at=at, hint=hint)
        if shape >= extent:
            return
        extents[variable] = shape
        iterations, last = -(-extent // shape), -(-self._left[variable] // shape)
        self._left[variable] -= (last - 1) * shape
        if isinstance(node, Temporal):
            self._loops.append(_Loop(variable, iterations, last, at))
        else:
            axis = self._axes.get((node.component, node.name), "X")
            self._loops.append(_Loop(variable, iterations, last, at, node.component, axis))

    # which loops belong to which level

    def _starts(self) -> dict[str, int]:
        """How many loops stand above each memory: of all that say the same, those that leave least out.

        Raises NotSupportedError where no mapping of Timeloop is the same.
        """
        memories = [leaf.name for leaf in self._path if isinstance(leaf, Memory)]
        self._check_innermost_copies()
        best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, (0,))}
        for memory in memories[1:]:
            found: dict[int, tuple[int, tuple[int, ...]]] = {}
            for start in self._candidates(memory):
                cost = len(self._differences(memory, start))
                options = [
                    (before_cost + cost, (*starts, start))
                    for before, (before_cost, starts) in best.items()
                    if before <= start and self._twice(before, start) is None
                ]
                if options:
                    found[start] = min(options)
            if not found:
                raise self._no_start(memory, best)
            best = found
        last = [option for start, option in best.items() if self._twice(start, len(self._loops)) is None]
        if not last:
            raise self._no_start(None, best)
        return dict(zip(memories, min(last)[1], strict=True))

    def _filled(self, memory: str) -> list[_Held]:
        """Tensors that a memory takes from another one: a tensor is backed by its first holder, which is not filled."""
        return [h for h in self._held if h.memory == memory and self._holders(h.tensor)[0] is not h]

    def _holders(self, tensor: str) -> list[_Held]:
        return [h for h in self._held if h.tensor == tensor]

    def _candidates(self, memory: str) -> list[int]:
        """Where the tensors of a memory may stand together: below each one's node no loop passed indexes it."""
        filled = self._filled(memory)
        least = max((held.position for held in filled), default=0)
        starts = range(least, len(self._loops) + 1)
        return [s for s in starts if self._obstacle(filled, s) is None and self._crossed(memory, s) is None]

    def _obstacle(self, filled: Sequence[_Held], start: int) -> tuple[_Held, _Loop] | None:
        """A tensor and a loop in time that indexes it, between its node and the place `start`."""
        for held in filled:
            for loop in self._loops[held.position : start]:
                if not loop.component and self._relevance(held.tensor, loop.variable) is not Relevance.NONE:
                    return held, loop
        return None

    def _crossed(self, memory: str | None, start: int) -> _Loop | None:
        """A loop over copies just outside of a memory that stands elsewhere among the loops in time over it."""
        for position, loop in enumerate(self._loops):
            if not loop.component or self._inside_of(loop.component) != memory:
                continue
            same = [i for i, other in enumerate(self._loops) if other.variable == loop.variable and not other.component]
            if sum(i < start for i in same) != sum(i < position for i in same):
                return loop
        return None

    def _inside_of(self, component: str) -> str | None:
        """The first memory inside of a fanout; None where only the compute unit is."""
        inner = self._path[self._levels[component] :]
        return next((leaf.name for leaf in inner if isinstance(leaf, Memory)), None)

    def _check_innermost_copies(self) -> None:
        if (loop := self._crossed(None, len(self._loops))) is not None:
            raise _crossing(loop)

    def _twice(self, start: int, end: int) -> _Loop | None:
        """A loop in time between two places whose variable has another one there, with others between."""
        loops = [loop for loop in self._loops[start:end] if not loop.component]
        order = [variable for variable, _ in groupby(loop.variable for loop in loops)]
        return next((loop for loop in reversed(loops) if order.count(loop.variable) > 1), None)

    def _no_start(self, memory: str | None, best: Mapping[int, object]) -> NotSupportedError:
        """Why a memory (None: the compute unit) has no place that a level of Timeloop has."""
        if memory is not None:
            filled = self._filled(memory)
            least = max([min(best), *(held.position for held in filled)])
            if (obstacle := self._obstacle(filled, least)) is not None:
                held, loop = obstacle
                text = (
                    f"{held.tensor} in {memory} stands above the loop over {loop.variable}, other tensors there or "
                    "outside below it; a level of Timeloop holds all at one place"
                )
                hint = f"move {held.tensor} below the loop, or the others above"
                return NotSupportedError(text, at=held.at, hint=hint)
            if (crossed := self._crossed(memory, least)) is not None:
                return _crossing(crossed)
        repeated = (self._twice(start, len(self._loops)) for start in best)
        twice = next((loop for loop in repeated if loop is not None), None)
        at = self._spec.provenance("mapping") if twice is None else twice.at
        name = "a variable" if twice is None else twice.variable
        text = f"two loops over {name} with others between fall to one level, a level of Timeloop has one"
        return NotSupportedError(text, at=at, hint="move them together, or hold a tensor between them")

    def _differences(self, memory: str, start: int) -> list[tuple[_Held, str]]:
        """Tensors fetched again here and not in Timeloop, or the other way round, where a memory has this place."""
        found: list[tuple[_Held, str]] = []
        outside = [loop for loop in self._loops[:start] if not loop.component]
        for held in self._filled(memory):
            holders = self._holders(held.tensor)
            number = holders.index(held)
            # the outermost holder is not filled, so that what stands above it counts for the next one
            outside_of_parent = holders[number - 1].position if number > 1 else 0
            above = [loop for loop in self._loops[outside_of_parent : held.position] if not loop.component]
            if above and self._relevance(held.tensor, above[-1].variable) is Relevance.NONE:
                reason = f"it is fetched again in each iteration over {above[-1].variable}; Timeloop keeps it"
                found.append((held, reason))
            slides = bool(outside) and self._relevance(held.tensor, outside[-1].variable) is Relevance.PARTIAL
            if slides and not held.slides:
                reason = f"Timeloop brings in only what is new in windows that move over {outside[-1].variable}"
                found.append((held, reason))
            if held.slides and not slides and self._could_slide(held):
                found.append((held, "Timeloop brings in its windows in full"))
        return found

    def _could_slide(self, held: _Held) -> bool:
        above = [loop for loop in self._loops[: held.position] if not loop.component]
        return bool(above) and self._relevance(held.tensor, above[-1].variable) is Relevance.PARTIAL

    def _relevance(self, tensor: str, variable: str) -> Relevance:
        return self._einsum.by_tensor[tensor].relevance(variable)

    def _spatial(self, leaf: Leaf) -> list[dict[str, object]]:
        if math.prod(dimension.fanout for dimension in leaf.spatial) == 1:
            return []
        own = [loop for loop in self._loops if loop.component == leaf.name]
        along = {axis: {loop.variable for loop in own if loop.axis == axis} for axis in "XY"}
        if both := sorted(along["X"] & along["Y"]):
            at = next(loop.at for loop in own if loop.variable == both[0])
            raise NotSupportedError(f"{both[0]} is spread along X and Y of {leaf.name}, Timeloop has one factor", at=at)
        entry = self._entry(leaf.name, "spatial", sorted(own, key=lambda loop: loop.axis, reverse=True))
        return [entry | {"split": len(along["X"])}]

    def _entry(self, target: str, kind: str, loops: Sequence[_Loop]) -> dict[str, object]:
        """A directive; loops of one variable at one level are one loop of all their iterations."""
        factors: dict[str, int] = {}
        last: dict[str, int] = {}
        for loop in loops:
            factors[loop.variable] = factors.get(loop.variable, 1) * loop.iterations
            last[loop.variable] = (last.get(loop.variable, 1) - 1) * loop.iterations + loop.last
        for variable in factors:
            self._check_joined([loop for loop in loops if loop.variable == variable])
        innermost = [*reversed(factors)]
        order = [*innermost, *(v for v in self._dimensions if v not in factors)]
        return {
            "target": target,
            "type": kind,
            "factors": [
                f"{self._dimensions[v]}={_written(factors.get(v, 1), last.get(v, 1))}" for v in self._dimensions
            ],
            "permutation": [self._dimensions[v] for v in order],
        }

    def _check_joined(self, loops: Sequence[_Loop]) -> None:
        """Say where loops that become one move windows, which may be brought in otherwise then."""
        variable, name = loops[0].variable, self._dimensions[loops[0].variable]
        moves = any(self._relevance(tensor, variable) is Relevance.PARTIAL for tensor in self._einsum.by_tensor)
        if len(loops) > 1 and moves:
            reason = "loops over it are one there, which may bring in windows otherwise"
            self._report.leave(loops[1].at, f"{name}: windows", reason)


def _written(iterations: int, last: int) -> str:
    return str(iterations) if last == iterations else f"{iterations},{last}"


def _crossing(loop: _Loop) -> NotSupportedError:
    text = (
        f"the loop over {loop.variable} on {loop.component} crosses loops in time over it that belong to other levels"
    )
    return NotSupportedError(text, at=loop.at, hint="write it where the copies stand in the architecture")
