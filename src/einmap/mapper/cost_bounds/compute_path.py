"""One path of the architecture with everything that the search of an Einsum on it needs: lattice, lanes, plans."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from einmap.arch.component import Compute, Leaf, Memory, Network, Toll
from einmap.arch.constraint import Names
from einmap.arch.tree import Architecture
from einmap.arrays import Bools, Ints
from einmap.einsum.einsum import Einsum
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.cost_bounds.coefficients import Pricer, pays_for_visits
from einmap.mapper.cost_bounds.columns import columns_of, without_idle
from einmap.mapper.cost_bounds.rates.line_rates import in_lines, moves_lines
from einmap.mapper.cost_bounds.stalling_machine import StallingMachine
from einmap.mapper.cost_bounds.use_dominance import undominated
from einmap.mapper.mapspace.dataplacement import Dataplacement, backings, choices, outermost, placements_of
from einmap.mapper.mapspace.enumeration import Walk, listed, share_of
from einmap.mapper.mapspace.lanes.dimension_ways import limited_variables
from einmap.mapper.mapspace.lanes.fanout_table import (
    MOST_USES,
    LaneTable,
    lane_table,
    most_uses,
    unordered_lanes,
)
from einmap.mapper.mapspace.lanes.spatial_mappings import first_routed
from einmap.mapper.mapspace.node_orders import NodeOrders
from einmap.mapper.mapspace.tile_lattice import LARGE, MOST_SIZES, Lattice, lattice_of
from einmap.mapper.objective.objectives import table_columns
from einmap.mapper.problem.request import Request
from einmap.mapper.templates.chain_template import ChainTemplate, Planner
from einmap.mapper.templates.given_planner import GivenPlanner
from einmap.mapper.templates.groups import Group, TileShapes, loops_leave_most_out
from einmap.model.timing.stalls import winding_up
from einmap.progress import Progress

MOST_LOOKED_AT = 10_000
"""Dataplacements that are looked at to see which memories may back shared tensors."""
PLANNING = 0.2
"""Part of the time that each step of planning may take."""
PLAN_TABLES = 12
"""Tables of a dataplacement of middling depth; so many must have room."""
THINNER = 1.5
"""How much further apart tile shapes are in each coarser choice of them."""


@dataclass(eq=False)
class Path:
    """Facts that all dataplacements on one path share."""

    einsum: Einsum
    arch: Architecture
    leaves: tuple[Leaf, ...]
    request: Request
    given: GivenPlanner | None = field(default=None, init=False)
    plans: list[ChainTemplate] = field(default_factory=list, init=False)
    """Dataplacements, once they are made; a first mapping is found without all of them."""
    all_plans: bool = field(default=False, init=False)
    """Whether `plans` has all dataplacements of the path that may be the best."""
    beyond: float = field(default=0.0, init=False)
    """Value of the first objective that no dataplacement that is not listed is below."""
    hurried: bool = field(default=False, init=False)
    """Whether time for listing dataplacements was limited."""
    _listing: Progress = field(default_factory=Progress, init=False)
    """Until when uses of the fanouts are listed."""
    short_of_room: int = field(default=0, init=False)
    """Dataplacements with one use of the fanouts each that were not searched because their tables had no room."""
    all_uses: bool = field(default=True, init=False)
    """Whether every order of lanes below a network was looked at."""
    machine: StallingMachine | None = field(default=None, init=False)
    """The machine as it is, where it stalls tile by tile: costs on `arch` are then lower bounds."""

    def __post_init__(self) -> None:
        self.machine = None if self.einsum.is_copy else StallingMachine.of(self.arch, self.leaves)
        if self.machine is not None:
            self.arch = winding_up(self.arch)
            self.leaves = self.arch.path(self.leaves[-1].name)

    @cached_property
    def tile_shapes(self) -> TileShapes:
        """All tile shapes; a coarser choice of them where there is no room for tables of all."""
        choices = self._lattices()
        lattice = next(choices)
        has_many = any(axis.is_thinned for axis in lattice.axes)
        is_coarse = has_many
        while any(len(axis.sizes) > MOST_SIZES for axis in lattice.axes):
            has_many = is_coarse = True
            lattice = next(choices)
        columns = table_columns(self.request.goals, columns_of(self.einsum, self.leaves).n)
        most = self.request.room // (PLAN_TABLES * 8 * len(columns))
        is_sparse = lattice.size > min(LARGE, most) and lattice.size > 1 and self.may_be_sparse
        most = lattice.size if is_sparse else most
        while lattice.size > max(most, 2 ** len(lattice.axes)):
            is_coarse = True
            lattice = next(choices)
        return TileShapes(lattice, is_sparse, has_many, is_coarse)

    @cached_property
    def lattice(self) -> Lattice:
        """The lattice of tile shapes."""
        return self.tile_shapes.lattice

    @property
    def is_sparse(self) -> bool:
        """Whether tables have rows for a few points only: on large lattices, or where loops leave most points out."""
        return self.tile_shapes.is_sparse or bool(self.plans and self._few_rows)

    @cached_property
    def _few_rows(self) -> bool:
        return self.may_be_sparse and self.costs_nothing_less and loops_leave_most_out(self.lattice, self.plans)

    @property
    def may_be_sparse(self) -> bool:
        """Whether the search knows tables with few rows for what is asked."""
        asked = self.request
        if asked.uneven_loops or asked.uneven_lanes or asked.shared or asked.given is not None:
            return False
        return not moves_lines(self.leaves) and not any(m.is_spread for m in self.leaves if isinstance(m, Memory))

    def _lattices(self) -> Iterator[Lattice]:
        """The lattice that is asked for, then coarser and coarser ones.

        Tile shapes that divide their bound are kept while there are others: no mapping with perfect factors is left
        out for one with imperfect factors.
        """
        coarseness = self.request.coarseness
        lattice = self._lattice(coarseness)
        yield lattice
        if any(axis.uneven for axis in lattice.axes):
            thinning, most = 1.0, max(axis.sizes[-1] for axis in lattice.axes)
            while thinning < most:
                thinning *= THINNER
                yield self._lattice(coarseness, thinning)
        while True:
            coarseness *= THINNER
            yield self._lattice(coarseness, math.inf)

    def _lattice(self, coarseness: float, thinning: float = 1) -> Lattice:
        """Variables that constraints speak of are not merged with others."""
        limits = [
            limit
            for leaf in self.leaves
            if isinstance(leaf, Memory | Toll) and leaf.placement is not None
            for limit in leaf.placement.tile_shape
        ]
        apart = limited_variables(self.einsum, self.leaves).union(*(limit.variables for limit in limits))
        limited = frozenset[str]().union(
            *(limit.variables for limit in limits if limit.comparison not in ("<=", "<")),
        )
        if first_routed(self.leaves) < len(self.leaves):
            # the order of lanes over each variable counts, and which of them are idle in the last tile
            apart = limited = frozenset(self.einsum.rank_variables)
        apart |= in_lines(self.einsum, self.leaves)
        if self.machine is not None:
            # which of several loops comes first makes a difference
            apart = frozenset(self.einsum.rank_variables)
        if self.request.given is not None:
            apart |= self.request.given.variables
        if self.fused_dimensions:
            # lanes over one of them would be other lanes for those who use the tensor too
            apart = apart.union(*(self.einsum.by_tensor[t].variables for t in self.request.shared))
        options = self.request
        if options.steps is not None and options.steps.outside:
            # loops over one of these stand above that over the steps
            apart |= {options.steps.variable}
        return lattice_of(
            self.einsum,
            apart,
            uncut=options.uncut,
            ragged=self.is_uneven and (options.uneven_loops or options.uneven_lanes),
            loose=self.is_uneven and options.uneven_loops,
            limited=limited,
            coarseness=coarseness,
            thinning=thinning,
        )

    @cached_property
    def lanes(self) -> LaneTable:
        """Uses of the fanouts; where some are left out that are never better, `groups` gives them their orders."""
        given, routed = self.request.given, first_routed(self.leaves) < len(self.leaves)
        named = self.fused_dimensions | (frozenset() if given is None else given.dimensions)
        # the search of one Einsum rules out most uses by a bound that takes little room
        alone = not self.request.shared and given is None and not routed
        most = most_uses(self.leaves, self.lattice) if alone else MOST_USES
        uneven = self.is_uneven and self.request.uneven_lanes
        listed = unordered_lanes if self.prunes_uses else lane_table
        over = self.einsum, self.leaves, self.lattice, named
        return listed(*over, uneven=uneven, most=most, stopped=lambda: self._listing.stopped)

    @cached_property
    def is_uneven(self) -> bool:
        """Whether imperfect factors are searched where they are asked for: not for lines, of tiles that are alike."""
        return not moves_lines(self.leaves)

    @cached_property
    def fused_dimensions(self) -> frozenset[tuple[str, str]]:
        """Dimensions whose lanes may stand above the outermost storage of a shared tensor: which is which matters."""
        shared = self.request.shared
        if not shared or not any(leaf.spatial for leaf in self.leaves):
            return frozenset()
        every = backings(self.einsum, self.leaves, self.backed_outside, MOST_LOOKED_AT)
        backing = {memory for some in every for tensor, memory in some.items() if tensor in shared}
        deepest = max((i for i, leaf in enumerate(self.leaves) if leaf.name in backing), default=-1)
        above = self.leaves[: deepest + 1]
        return frozenset((leaf.name, d.name) for leaf in above for d in leaf.spatial)

    @cached_property
    def pricer(self) -> Pricer:
        """Coefficients of costs."""
        shared = bool(self.request.shared)
        return Pricer(self.einsum, self.arch, self.leaves, self.lattice, self.request.rules, shared)

    @cached_property
    def fanouts(self) -> tuple[int, ...]:
        """Levels of the components whose fanouts may be used."""
        lanes = self.lanes
        used = {int(level) for i, level in enumerate(lanes.levels) if (lanes.bounds[:, i] > 1).any()}
        return tuple(sorted(used))

    def has_all_uses(self, progress: Progress) -> bool:
        """Whether all uses of the fanouts are listed, within a part of the time."""
        self._listing = share_of(progress, PLANNING)
        return self.lanes.complete

    def make_plans(self, progress: Progress) -> None:
        """All dataplacements as chains of steps; a fair part of them where there are too many or time runs out."""
        self._listing = share_of(progress, PLANNING)
        given, planner = self.request.given, self.planner
        # above what other Einsums share the order of loops matters
        rest = self.lanes, self.prunes and not self.request.shared, self.request.added
        self.given = None if given is None else GivenPlanner(planner, given, *rest)
        placed, self.all_plans = listed(self._placements, np.random.default_rng(0), share_of(progress, PLANNING))
        # where none has room all stay, so that the reason why nothing fits may speak of them
        memories = {leaf.name: leaf for leaf in self.leaves if isinstance(leaf, Memory)}
        placed = [placement for placement in placed if placement.has_room(memories)] or placed
        self.plans = []
        planning = share_of(progress, PLANNING)
        self.hurried = progress.deadline is not None or progress.stopped
        for placement in placed:
            if len(self.plans) >= self.request.most_plans or (self.plans and planning.stopped):
                self.all_plans = False
                break
            self.plans += [planner.plan(placement)] if self.given is None else self.given.plans(placement)

    @property
    def prunes(self) -> bool:
        """Whether loops that are never better are left out."""
        is_exact = self.machine is None
        return self.request.prune and self.costs_nothing_less and is_exact and not pays_for_visits(self.leaves)

    @cached_property
    def planner(self) -> Planner:
        """Planner of dataplacements."""
        reducing = frozenset(
            a.tensor
            for a in self.einsum.accesses
            if a.output
            and self.request.rules.lane_first_touch == "one lane"
            and bool((self.pricer.merged(self.lanes, a.tensor) > 1).any())
        )
        return Planner(
            self.einsum,
            self.leaves,
            self.lattice,
            self.request.rules,
            self.fanouts,
            reducing,
            self.prunes and self.request.given is None,
            self.request.uncut,
            self.request.shared,
            self.request.fused_per_axis,
        )

    def _placements(self, walk: Walk) -> Iterator[Dataplacement]:
        placements = self.walked(walk)
        return placements if self.given is None else filter(self.given.may_hold, placements)

    def walked(self, walk: Walk) -> Iterator[Dataplacement]:
        """Dataplacements as a walk comes to them, one by one; `InOrder` those first that keep least."""
        for held in choices(self.einsum, self.leaves, self.backed_outside, walk):
            yield from self.placements_of(held, walk)

    def placements_of(self, held: Mapping[str, Names], walk: Walk) -> Iterator[Dataplacement]:
        """The dataplacements in which memories and tolls keep what they hold in one choice."""
        top = outermost(self.leaves) if self.request.shared else None
        single = self.request.steps.single if self.request.steps is not None else frozenset[str]()
        asked = self.request.force_hierarchy_order, walk, top, single, self.node_orders
        return placements_of(self.einsum, self.leaves, held, *asked)

    @property
    def backed_outside(self) -> Names:
        """Tensors whose outermost holder is the outermost memory that may keep them."""
        return self.einsum.tensors - self.request.intermediates

    @cached_property
    def node_orders(self) -> NodeOrders | None:
        """The orders of storage nodes that are worth listing; None for all."""
        asked, steps = self.request, self.request.steps
        if not asked.few_orders or not self.prunes or asked.given is not None:
            return None
        recurrence = (None, None) if steps is None else (steps.variable, steps.token, steps.outside)
        return NodeOrders(self.einsum, self.leaves, asked.shared, asked.uncut, asked.joint, *recurrence)

    @cached_property
    def costs_nothing_less(self) -> bool:
        """Whether no action has a negative energy."""
        units = [leaf for leaf in self.leaves if isinstance(leaf, Memory | Toll | Network | Compute)]
        return all(action.energy >= 0 for unit in units for action in unit.actions)

    @property
    def pruned(self) -> tuple[str, ...]:
        """Parts of the Einsum's mapspace that are left out, in words."""
        name, texts = self.einsum.name, []
        if not self.all_plans and len(self.plans) >= self.request.most_plans:
            texts.append(f"dataplacements of {name} beyond max_pmapping_templates_per_einsum")
        elif not self.all_plans:
            texts.append(f"some dataplacements of {name}, since there are too many to list{' in time' * self.hurried}")
        if self.tile_shapes.is_coarse:
            room = "tables of all have no room (80 MB, or what memory_limit leaves)"
            reason = "there are too many" if self.tile_shapes.has_many else room
            texts.append(f"some tile shapes of {name}, since {reason}")
        if not self.is_uneven and (self.request.uneven_loops or self.request.uneven_lanes):
            texts.append(f"imperfect factors of {name}, for which memories move lines")
        if not (self.lanes.complete and self.all_uses):
            why = f"since there are too many to list{' in time' * self.lanes.ended}"
            texts.append(f"most uses of the fanouts by {name}, {why}")
        if self.machine is not None and self.machine.has_more_orders:
            texts.append(f"some orders of loops of {name}, since there are too many of which one may stall less")
        if any(self.leaves_out(plan) for plan in self.plans):
            texts.append(f"mappings of {name} that cannot be counted (what units of an array have is not known)")
        if self.short_of_room:
            subspaces = f"{self.short_of_room:,} dataplacement{'s' * (self.short_of_room > 1)}"
            texts.append(
                f"{subspaces} of {name} with some uses of the fanouts, since memory_limit has no room for tables"
            )
        return tuple(texts)

    @property
    def cut(self) -> bool:
        """Whether there was no time to list all dataplacements and all uses of the fanouts."""
        return self.lanes.ended or (not self.all_plans and self.hurried and len(self.plans) < self.request.most_plans)

    def with_plans(self, request: Request, plans: list[ChainTemplate]) -> Path:
        """This path with some of its templates, for other objectives or other uses of its tensors."""
        other = copy(self)
        other.request, other.plans = request, plans
        if request.goals != self.request.goals:
            other.beyond = 0.0
            with suppress(AttributeError):  # where it was not asked for yet
                del other.of_tables
        return other

    def with_lanes(self, lanes: LaneTable) -> Path:
        """This path with other uses of the fanouts. Levels of fanouts that templates speak of stay as they are."""
        other = copy(self)
        other.lanes = lanes
        return other

    def groups(self) -> Iterator[Group]:
        """Plans with the lanes that they admit: none above the outermost storage of a tensor that it does not index."""
        by_lanes: dict[object, list[ChainTemplate]] = {}
        held = self.pricer.units.held
        for plan in self.plans:
            key = *(self.waiting(plan, level) for level in self.fanouts), self.stalled(plan), held(plan)
            by_lanes.setdefault((key, b"" if plan.lanes is None else plan.lanes.tobytes()), []).append(plan)
        for plans in by_lanes.values():
            lanes = self.admitted(plans[0])
            if self.prunes_uses:
                lanes = undominated(self.pricer, self.request.goals, plans, lanes)
                self.all_uses &= lanes.complete
            if len(lanes):
                yield Group(plans, lanes, self.lattice)

    @property
    def prunes_uses(self) -> bool:
        """Whether uses of the fanouts are left out that are never better than others, below a network.

        Elsewhere those that share less are left out before (`lane_dominance`).
        """
        asked = self.request
        is_free = asked.prune and not asked.shared and asked.given is None
        if not is_free or self.machine is not None or first_routed(self.leaves) == len(self.leaves):
            return False
        return not any(axis.uneven for axis in self.lattice.axes) and not self.pricer.units.levels

    def admitted(self, plan: ChainTemplate) -> LaneTable:
        """The lanes that a plan admits."""
        admitted = self._admitted(plan) & self.pricer.units.countable(plan, self.lanes)
        return self.lanes if admitted.all() else self.lanes.only(np.flatnonzero(admitted))

    def _admitted(self, plan: ChainTemplate) -> Bools:
        admitted = np.ones(len(self.lanes), dtype=bool) if plan.lanes is None else plan.lanes.copy()
        for level in self.fanouts:
            for tensor in self.waiting(plan, level):
                here = self.lanes.levels == level
                shared = tensor in self.request.shared
                none = np.array(
                    [
                        not plan.builder.may_stand_above(tensor, axis.variables[0]) if shared else r is Relevance.NONE
                        for axis, r in zip(self.lattice.axes, self.pricer.axis_relevance[tensor], strict=True)
                    ]
                )
                admitted &= self.lanes.over(here, none) == 1
        for tensor in self.stalled(plan):
            partly = np.array([r is not Relevance.FULL for r in self.pricer.axis_relevance[tensor]], dtype=bool)
            assert self.machine is not None
            admitted &= self.lanes.over(self.lanes.levels <= self.machine.level, partly) == 1
        return admitted & self.pricer.units.fits(plan, self.lanes)

    def leaves_out(self, plan: ChainTemplate) -> bool:
        """Whether uses of the fanouts are left out with which nobody knows how tensors lie in units of an array."""
        units = self.pricer.units
        return bool(units.levels) and bool((self._admitted(plan) & ~units.countable(plan, self.lanes)).any())

    def stalled(self, plan: ChainTemplate) -> frozenset[str]:
        """Outputs that the memory that stalls exchanges: stalls are not counted where lanes above it reduce them."""
        if self.machine is None:
            return frozenset()
        outputs = (access.tensor for access in self.einsum.accesses if access.output)
        return frozenset(t for t in outputs if self.machine.level in plan.chains[t][1:])

    def lanes_above(self) -> bool:
        """Whether some fanout that may be used stands above the outermost memory of some plan."""
        return any(
            plan.builder.place_of(self.leaves[level].name) < plan.placement.n_outer
            for plan in self.plans
            for level in self.fanouts
        )

    def waiting(self, plan: ChainTemplate, level: int) -> frozenset[str]:
        """Tensors that are held nowhere above the fanout at `level`."""
        return self.einsum.tensors - plan.builder.held_above(plan.builder.place_of(self.leaves[level].name))

    @cached_property
    def of_tables(self) -> Ints:
        """Columns of cost whose tables are worth their time."""
        columns = table_columns(self.request.goals, self.pricer.columns.n)
        different = {tuple(plan.chains.items()): plan.chains for plan in self.plans}.values()
        every = {self.pricer.on_which_constants_depend(chains): chains for chains in different}.values()
        times = (self.pricer.constants(self.lanes, chains)[:, 1:] for chains in every if len(self.lanes))
        return without_idle(columns, self.pricer.columns, self.leaves, times)
