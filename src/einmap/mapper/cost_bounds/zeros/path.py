"""One path of the architecture for the search of an Einsum whose tensors have zeros."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

import numpy as np

from einmap.mapper.cost_bounds.coefficients import Pricer, pays_for_visits
from einmap.mapper.cost_bounds.compute_path import MOST_LOOKED_AT, Path
from einmap.mapper.cost_bounds.zeros.looking import Look, Tile, Windows
from einmap.mapper.cost_bounds.zeros.rates import ZerosPricer
from einmap.mapper.mapspace.enumeration import InOrder
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable, lane_table, most_uses
from einmap.mapper.mapspace.tile_lattice import Lattice, lattice_of
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.mapper.templates.groups import Group
from einmap.mapping.mapping import Mapping
from einmap.model.batch.zero_tables import ZeroTables
from einmap.progress import Progress
from einmap.sparse.savings import Sparsity

MOST_WINDOWS = 64
"""Windows of a dataplacement, in a search that looks at all of them together."""
WINDOWS_EACH_SECOND = 3
"""As many at most for each second that is left."""


@dataclass(frozen=True, eq=False)
class Zeros:
    """Zeros of an Einsum's tensors, and `cost_of`, what the model says of a mapping with them."""

    tables: ZeroTables
    cost_of: Callable[[Sparsity], Callable[[Mapping], tuple[float, float] | None]]

    @cached_property
    def cost(self) -> Callable[[Mapping], tuple[float, float] | None]:
        """J and s of one instance of a mapping.

        It gives None where tiles do not fit, and raises NotSupportedError for mappings that the model does not know.
        """
        return self.cost_of(self.tables.sparsity)


@dataclass(eq=False)
class ZerosPath(Path):
    """A path on which nothing is left out that is never better without zeros: smaller tiles may save more."""

    zeros: Zeros = field(kw_only=True)
    unknown: list[tuple[list[ChainTemplate], LaneTable]] = field(default_factory=list, init=False)
    """Plans with uses of the lanes that the model does not know with them, once `groups` were asked for."""

    @property
    def prunes(self) -> bool:
        """Whether loops that are never better are left out."""
        if self.zeros_pricer.windows is not None:
            return False
        is_dense = not pays_for_visits(self.leaves)
        return self.request.prune and self.costs_nothing_less and is_dense and self.zeros_pricer.may_prune

    @property
    def zeros_pricer(self) -> ZerosPricer:
        """Coefficients of costs."""
        assert isinstance(self.pricer, ZerosPricer)
        return self.pricer

    @cached_property
    def without_windows(self) -> ZerosPricer:
        """Coefficients of costs, whatever the chances further out are."""
        pricer = self.zeros_pricer
        return pricer if pricer.windows is None else pricer.with_windows(None, pricer.tables)

    def windowed(self, progress: Progress) -> list[ZerosPath]:
        """Paths with windows of what stands further out that together have all mappings; this one where it is exact.

        There are the fewer windows, the less time is left.
        """
        pricer = self.zeros_pricer
        if pricer.is_exact:
            return [self]
        most = int(max(1, min(MOST_WINDOWS, WINDOWS_EACH_SECOND * progress.seconds_left())))
        by_looks: dict[tuple[Look | Tile, ...], list[ChainTemplate]] = {}
        for plan in self.plans:
            by_looks.setdefault(pricer.looks(plan.chains), []).append(plan)
        return [
            self._with_windows(windows, plans)
            for looks, plans in by_looks.items()
            for windows in pricer.parted(looks, most)
        ]

    def _with_windows(self, windows: Windows, plans: Sequence[ChainTemplate]) -> ZerosPath:
        """Some plans, which are others than those with other windows."""
        other = copy(self)
        other.plans = [replace(plan) for plan in plans]
        other.pricer = self.zeros_pricer.with_windows(windows, self.zeros.tables)
        other.without_windows, other.unknown = self.without_windows, []
        return other

    def groups(self) -> Iterator[Group]:
        """Plans with the lanes that they admit, without those that the model does not know."""
        self.unknown = []
        for group in super().groups():
            by_known: dict[bytes, list[ChainTemplate]] = {}
            for plan in group.plans:
                known = self.without_windows.known(group.lanes, plan.chains)
                by_known.setdefault(known.tobytes(), []).append(plan)
            for flags, plans in by_known.items():
                known = np.frombuffer(flags, dtype=bool)
                if not known.all():
                    self.unknown.append((plans, group.lanes.only(np.flatnonzero(~known))))
                if known.any():
                    lanes = group.lanes if known.all() else group.lanes.only(np.flatnonzero(known))
                    yield Group(plans, lanes, self.lattice)

    @property
    def may_be_sparse(self) -> bool:
        """Whether the search knows tables with few rows for what is asked."""
        return False

    @cached_property
    def lanes(self) -> LaneTable:
        """Uses of the fanouts: lanes that share what passes take it where one of them needs it."""
        most = most_uses(self.leaves, self.lattice)
        over = self.einsum, self.leaves, self.lattice
        return lane_table(*over, most=most, stopped=lambda: self._listing.stopped, shares=False)

    @cached_property
    def pricer(self) -> Pricer:
        """Least coefficients of costs."""
        of_path = self.einsum, self.arch, self.leaves, self.lattice, self.request.rules
        return ZerosPricer(*of_path, tables=self.zeros.tables, every_use=self.lanes, holds=self.may_hold)

    def may_hold(self, memory: str, tensor: str) -> bool:
        """Whether some dataplacement keeps a tensor in a memory."""
        return self._held is None or (memory, tensor) in self._held

    @cached_property
    def _held(self) -> frozenset[tuple[str, str]] | None:
        """Memories with the tensors that they may keep; None where there are too many dataplacements to look at."""
        some = list(islice(self.walked(InOrder()), MOST_LOOKED_AT + 1))
        if len(some) > MOST_LOOKED_AT:
            return None
        return frozenset(node for placement in some for node in placement.nodes)

    def _lattice(self, coarseness: float, thinning: float = math.inf) -> Lattice:
        """Zeros of a tile, and its metadata, depend on each of its lengths."""
        apart = frozenset(self.einsum.rank_variables)
        return lattice_of(self.einsum, apart, coarseness=coarseness, thinning=thinning)
