"""A dataplacement as a chain of steps, each a gap with temporal loops, then lanes, then one storage node.

Two prunings are applied to the loops of a gap (`docs/algorithm.md`): a loop that indexes the tensor of the
above that node (its values move as often, its tile is smaller), and one that does not index the tensor of the node
below goes below it (same tile, fewer visits). Above the outermost storage of tensors that other Einsums use the order
of loops matters: there nothing goes below, and only the first loop of a gap goes above, order by order (`rising`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from einmap.arch.component import Compute, Leaf, Memory, Toll
from einmap.einsum.einsum import Einsum
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.given.slots import Positions, Slot
from einmap.mapper.mapspace.dataplacement import Dataplacement
from einmap.mapper.mapspace.template import ABOVE, TemplateBuilder
from einmap.mapper.mapspace.tile_lattice import Axis, Lattice
from einmap.model.counting.semantics import Semantics
from einmap.model.timing.systolic import is_skewed


@dataclass(frozen=True, slots=True)
class Held:
    """A storage node: the tensor, the level of its memory, whether it is the outermost one of the tensor.

    `first`: the outermost node of its memory, at which limits on tile shapes hold. `within`: the deepest level of the
    nodes further in, -1 where there are none or where nothing depends on it.
    """

    tensor: str
    level: int
    backing: bool
    first: bool
    within: int = -1
    _hash: int = field(init=False, repr=False, compare=False)
    """Worked out once: nodes are parts of the keys of all tables."""

    def __post_init__(self) -> None:
        of = self.tensor, self.level, self.backing, self.first, self.within
        object.__setattr__(self, "_hash", hash(of))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Held], tuple[str, int, bool, bool, int]]:
        # names have other hashes in another process
        return Held, (self.tensor, self.level, self.backing, self.first, self.within)


@dataclass(frozen=True, slots=True)
class ChainSegment:
    """`axes` that may have temporal loops, `fanouts` (levels of components) whose lanes stand below them, the node.

    `lowers`: the node above whose space is reserved below the loops of this gap that index its tensor. `given`: what a
    given mapping says of the gap, `at_node`: of the tile shapes below its loops and lanes. `rising`: where the order of
    loops matters, the axes over which the first one is never worse above the node that it follows.
    """

    axes: tuple[int, ...]
    fanouts: tuple[int, ...]
    node: Held | None
    lowers: Held | None
    rising: frozenset[int] = field(default=frozenset(), kw_only=True)
    given: Slot | None = None
    at_node: Positions = ()


@dataclass(frozen=True, eq=False)
class ChainTemplate:
    """Everything about one dataplacement that a search needs.

    `outer`: nodes of the outermost memory; `chains`: for each tensor the levels of its memories and tolls and of the
    compute; `loops`: for each axis the number of gaps that may have a loop over it, prunings aside; `lanes`: which uses
    of the fanouts a given mapping allows, None for all.
    """

    placement: Dataplacement
    builder: TemplateBuilder
    outer: tuple[Held, ...]
    steps: tuple[ChainSegment, ...]
    chains: Mapping[str, tuple[int, ...]]
    loops: tuple[int, ...]
    lanes: NDArray[np.bool_] | None = None


@dataclass
class Planner:
    """Plans of the dataplacements of one Einsum on one path. `prune`: whether the prunings of gaps are safe."""

    einsum: Einsum
    leaves: tuple[Leaf, ...]
    lattice: Lattice
    rules: Semantics
    fanouts: tuple[int, ...]
    reducing: frozenset[str]
    """Outputs that some lanes reduce: fewer visits of their tiles may cost more further in."""
    prune: bool
    uncut: frozenset[tuple[str, str]] = frozenset()
    """See `TemplateBuilder`."""
    shared: frozenset[str] = frozenset()
    """Tensors that other Einsums use too, so that it matters which loops stand above their outermost storage."""
    fused_per_axis: float = 1
    """Fused loops over one rank variable."""
    _above: dict[str, frozenset[str]] = field(default_factory=dict, init=False, repr=False)
    _orders: dict[tuple[frozenset[str], str | None], list[tuple[str, ...]]] = field(
        default_factory=dict, init=False, repr=False
    )
    """Values that the builders of all dataplacements share."""
    _held: dict[tuple[str, int, bool, bool], Held] = field(default_factory=dict, init=False, repr=False)
    _up: dict[tuple[str, int, str], bool] = field(default_factory=dict, init=False, repr=False)
    """Values that were worked out: of `goes_up` by tensor and level of the node and by variable."""

    def plan(self, placement: Dataplacement) -> ChainTemplate:
        """The steps of one dataplacement."""
        unit = self.leaves[-1]
        assert isinstance(unit, Compute)
        fusion = self.shared, self.uncut, self._above, self._orders
        builder = TemplateBuilder(self.einsum, self.leaves, unit, placement, False, *fusion)
        levels = builder.levels
        held: list[Held] = []
        tensors, memories = set[str](), set[str]()
        for memory, tensor in placement.nodes:
            key = tensor, levels[memory], tensor not in tensors, memory not in memories
            # one object for each: searches look for equal ones again and again
            held.append(self._held.get(key) or self._held.setdefault(key, Held(*key)))
            tensors.add(tensor)
            memories.add(memory)
        if self.is_skewed:
            deepest = [max((h.level for h in held[i + 1 :]), default=-1) for i in range(len(held))]
            held = [replace(h, within=within) for h, within in zip(held, deepest, strict=True)]
        steps = []
        places = [(level, builder.place_of(self.leaves[level].name)) for level in self.fanouts]
        fused = max((i for i, h in enumerate(held) if h.backing and h.tensor in self.shared), default=-1)
        for index in range(placement.n_outer, len(held) + 1):
            above = held[index - 1] if index else None
            node = held[index] if index < len(held) else None
            fanouts = tuple(level for level, place in places if place == index)
            stopped = bool(builder.tolls.get((index, ABOVE)))
            lowered = above if self.rules.lowering and above and not above.backing and not stopped else None
            if index <= fused:
                axes, rising = self.fused_axes(builder, index, above, bool(fanouts))
                steps.append(ChainSegment(axes, fanouts, node, lowered, rising=rising))
            else:
                steps.append(ChainSegment(self.axes(builder, index, above, node), fanouts, node, lowered))
        gaps = [frozenset(orders[0]) for orders in builder.gaps]
        loops = tuple(sum(axis.variables[0] in gap for gap in gaps) for axis in self.lattice.axes)
        outer = tuple(held[: placement.n_outer])
        return ChainTemplate(placement, builder, outer, tuple(steps), self.chains(placement, levels), loops)

    def chains(self, placement: Dataplacement, levels: dict[str, int]) -> dict[str, tuple[int, ...]]:
        """For each tensor the levels of its memories and tolls and of the compute."""
        chains = {}
        for access in self.einsum.accesses:
            levels_of = {levels[m] for m, t in placement.nodes if t == access.tensor}
            levels_of |= {levels[name] for name, tensors in placement.tolls if access.tensor in tensors}
            chains[access.tensor] = (*sorted(levels_of), len(self.leaves) - 1)
        return chains

    def fused_axes(
        self, builder: TemplateBuilder, index: int, above: Held | None, lanes: bool
    ) -> tuple[tuple[int, ...], frozenset[int]]:
        """Axes whose loops are worth trying in a gap above the outermost storage of a shared tensor, and those rising.

        Other Einsums may stand below these loops, too, in their order. If all axes rise, so does one loop after the
        other, unless the gap above has one over the variable already; `lanes`: some may stand before them.
        """
        allowed = [i for i, axis in enumerate(self.lattice.axes) if self.allows(builder, index, axis)]
        rising = frozenset(
            i for i in allowed if above is not None and self.rises(builder, index, above, self.lattice.axes[i])
        )
        all_rise = len(rising) == len(allowed) and not lanes and self.fused_per_axis <= 1
        return () if all_rise else tuple(allowed), rising

    def axes(self, builder: TemplateBuilder, index: int, above: Held | None, node: Held | None) -> tuple[int, ...]:
        """Axes whose loops are worth trying in the gap before node `index`."""
        return tuple(
            i
            for i, axis in enumerate(self.lattice.axes)
            if self.allows(builder, index, axis)
            and not (above and self.rises(builder, index, above, axis))
            and not (
                self.prune
                and node
                and above
                and self.goes_down(builder, index, above, node, axis)
                and self.may_cross(builder, index, axis)
            )
        )

    def allows(self, builder: TemplateBuilder, index: int, axis: Axis) -> bool:
        """Whether a loop over an axis may stand in the gap before node `index`."""
        return axis.variables[0] in builder.gaps[index - builder.placement.n_outer][0]

    def may_cross(self, builder: TemplateBuilder, index: int, axis: Axis) -> bool:
        """Whether loops over an axis may be moved past the lanes of a gap: what is uneven keeps its place."""
        return not axis.uneven or not any(builder.place_of(self.leaves[level].name) == index for level in self.fanouts)

    def rises(self, builder: TemplateBuilder, index: int, above: Held, axis: Axis) -> bool:
        """Whether a loop that follows the node above, before node `index`, is left to the gap above that node."""
        return (
            self.prune
            and self.goes_up(above, axis)
            and self.allows(builder, index - 1, axis)
            and self.may_cross(builder, index - 1, axis)
        )

    def goes_up(self, above: Held, axis: Axis) -> bool:
        """Whether a loop is never worse above the node that it follows."""
        key = above.tensor, above.level, axis.variables[0]
        if key not in self._up:
            full = self.einsum.by_tensor[above.tensor].relevance(axis.variables[0]) is Relevance.FULL
            self._up[key] = full and not self.limited(above) and not self.in_units(above)
        return self._up[key] and not above.backing

    def goes_down(self, builder: TemplateBuilder, index: int, above: Held, node: Held, axis: Axis) -> bool:
        """Whether a loop is never worse below the node that follows it."""
        variable = axis.variables[0]
        if self.rules.lowering and self.einsum.by_tensor[above.tensor].relevance(variable) is not Relevance.NONE:
            return False
        if self.einsum.by_tensor[node.tensor].relevance(variable) is not Relevance.NONE:
            return False
        if node.backing or self.limited(node) or node.tensor in self.reducing:
            return False
        # no_resend_to_below begins at the node: a loop that may stand above it may be forbidden below
        return not builder.refetches(variable, index + 1)

    def in_units(self, held: Held) -> bool:
        """Whether its memory is several units, of which the fullest has a larger part of a smaller tile."""
        return held.level in self.spread

    def limited(self, held: Held) -> bool:
        """Whether the memory limits its tile shapes, so that its node cannot be moved freely."""
        return held.level in self.limiting

    @cached_property
    def is_skewed(self) -> bool:
        """Whether lanes begin one after the other."""
        return is_skewed(self.leaves)

    @cached_property
    def spread(self) -> frozenset[int]:
        """Levels of memories that are several units."""
        return frozenset(i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Memory) and leaf.is_spread)

    @cached_property
    def limiting(self) -> frozenset[int]:
        """Levels of memories and tolls that limit tile shapes."""
        holders = [(i, leaf.placement) for i, leaf in enumerate(self.leaves) if isinstance(leaf, Memory | Toll)]
        return frozenset(i for i, placement in holders if placement is not None and placement.tile_shape)
