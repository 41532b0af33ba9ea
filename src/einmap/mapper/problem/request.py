"""Requests to the search of one Einsum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from einmap.arrays import Bools, Floats
from einmap.einsum.isomorphism import Renaming
from einmap.mapper.given.pattern import Pattern
from einmap.mapper.objective import objective_kernels
from einmap.model.counting.semantics import Semantics
from einmap.pareto import nondominated

POOL_BYTES = 80_000_000
"""Room for cost-to-go tables."""
SPARSE_BYTES = 500_000_000
"""Room for those of large lattices, of which only rows that are needed are made."""


@dataclass(frozen=True)
class Remainder:
    """Least costs that the other Einsums add to the first objectives, in units of one instance of this one.

    `rows`: corners of what they may add, a column for each of the first objectives: whatever they add is no better
    than some point between two neighbouring corners. `most`: the product of the sums may not be above this. If it is
    negative, rows are points that are known to be reached, less what the others add at least: what is no better than
    one of them in anything is not needed. Without rows nothing is known.
    """

    rows: Floats
    most: float

    def exceeds_cutoff(self, values: Floats) -> Bools:
        """Which rows of objectives cannot be a part of anything good."""
        flags: Bools = objective_kernels.many_exceed_cutoff(values, self.rows, self.most)
        return flags

    def beyond(self, weights: Floats, least: Floats) -> Floats:
        """Least weighted costs (one or two, unit weights first) of what is beyond the cutoff and not below `least`."""
        if not len(self.rows) or self.most < 0:
            return np.full(len(weights), np.inf)
        if self.rows.shape[1] == 1:
            return np.maximum(least, self.most - self.rows.min())
        bounds: Floats = objective_kernels.beyond(weights, least, self.rows, self.most)
        return bounds


@dataclass(frozen=True)
class TiedRemainder(Remainder):
    """Rest of the first objective, and of the second one, of which there is a limit.

    `rows`: what may not be reached of the first objective, whatever the second one is; and the other way round.
    """

    def beyond(self, weights: Floats, least: Floats) -> Floats:
        """Least weighted costs of what the first row rules out; the second one does so for good."""
        first = max(float(least[0]), float(self.rows[0, 0]))
        bounds: Floats = np.maximum(least, weights @ np.array([first, least[1]]))
        return bounds


def united(remainders: Sequence[Remainder | None]) -> Remainder | None:
    """The remainder that leaves out only what each of some leaves out, all with one `most`; None: nothing."""
    known = [remainder for remainder in remainders if remainder is not None]
    if len(known) < len(remainders):
        return None
    if known[0].most < 0:
        # row by row what is reached, less what the others add: with the least of that it is the most
        return replace(known[0], rows=np.stack([remainder.rows for remainder in known]).max(axis=0))
    rows = np.concatenate([remainder.rows for remainder in known])
    if rows.shape[1] > 2:
        return Remainder(np.unique(rows, axis=0), known[0].most)
    # with less of everything a product is smaller
    return Remainder(rows[nondominated(rows)], known[0].most)


@dataclass(frozen=True)
class Waiting:
    """Waits of fused Einsums (`model.ways`), once: at most `inward` s for values on their way in, and `outward` s.

    `seconds`: added to the latency of one instance. `overlapping`: what nodes take that work ahead counts for nothing;
    bounds that rest on tables do not know of it.
    """

    inward: float = math.inf
    outward: float = math.inf
    seconds: float = 0.0
    overlapping: bool = False


@dataclass(frozen=True)
class Steps:
    """Steps that the chains of an Einsum of a recurrence share with those of the others.

    Below loops over variables in `outside`, as many as are wanted, stands one over `variable` by 1, and right below it
    the node of `token`, a tensor without values that all Einsums of the recurrence share. `single`: tensors with one
    node alone. `states`: of those that are handed from step to step, how much larger the storage of all steps that are
    kept is than the tile of one step.
    """

    variable: str
    token: str
    single: frozenset[str]
    states: Mapping[str, Fraction] = field(default_factory=dict)
    outside: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Request:
    """Request to a search. `goals`: objectives, all to be minimised; `tolerance`: how far from the best is fine.

    `prune`: leave out loops that are never better. `uneven_loops`, `uneven_lanes`: tile shapes of temporal loops, of
    lanes, need not divide the bound. `coarseness`: see `lattice_of`. `most_plans`: dataplacements that are looked at.
    `memory`: bytes that may be used, `ceiling`: that the process may have in memory. `given`: the mapping must be like
    this. `remainder`: what the other Einsums add, and what the product of the sums may be. `shared`: tensors that other
    Einsums use too, where mappings may be fused, `uncut`: ranks of these that another Einsum cannot cut alike,
    `awaited`: that no loop in time above the tensor may cut, since what is reduced over them is read below it;
    `intermediates`: those of them that may be kept inside; `joint`: those that several Einsums may hold in one inner
    node, each for itself; `fused_per_axis`: loops over one rank variable that other Einsums may stand below; `wider`:
    how much larger the outermost storage of shared tensors is than what this Einsum uses of it, where it is; `waiting`:
    for what its splits may wait; `steps`: of a recurrence that the Einsum is a part of; `made`: inputs that other
    Einsums write; `few_orders`: storage nodes without a loop between them are listed in one order alone.
    """

    goals: tuple[str, ...]
    rules: Semantics
    force_hierarchy_order: bool = True
    tolerance: float = 0.0
    prune: bool = True
    uneven_loops: bool = False
    uneven_lanes: bool = False
    coarseness: float = 1.0
    most_plans: float = math.inf
    memory: float = math.inf
    ceiling: float = math.inf
    given: Pattern | None = None
    remainder: Remainder | None = None
    shared: frozenset[str] = frozenset()
    uncut: frozenset[tuple[str, str]] = frozenset()
    awaited: frozenset[tuple[str, str]] = frozenset()
    intermediates: frozenset[str] = frozenset()
    joint: frozenset[str] = frozenset()
    fused_per_axis: float = 1
    wider: Mapping[str, Fraction] = field(default_factory=dict)
    waiting: Waiting = Waiting()
    steps: Steps | None = None
    made: frozenset[str] = frozenset()
    few_orders: bool = False

    @property
    def added(self) -> frozenset[str]:
        """Tensors that the search of a cascade has added to the Einsum."""
        return frozenset() if self.steps is None else self.steps.single

    @property
    def known_remainder(self) -> Remainder:
        """`remainder`, without rows where nothing is known."""
        return self.remainder or Remainder(np.zeros((0, len(self.goals))), math.inf)

    def renamed(self, names: Renaming) -> Request:
        """Request to an Einsum that is the same but for names."""
        steps = self.steps
        if steps is not None:
            (variable,), (token,) = names.of_variables({steps.variable}), names.of_tensors({steps.token})
            single, outside = names.of_tensors(steps.single), names.of_variables(steps.outside)
            steps = Steps(variable, token, single, names.by_tensor(steps.states), outside)
        return replace(
            self,
            steps=steps,
            shared=names.of_tensors(self.shared),
            uncut=frozenset(names.ranks[pair] for pair in self.uncut if pair in names.ranks),
            awaited=frozenset(names.ranks[pair] for pair in self.awaited if pair in names.ranks),
            intermediates=names.of_tensors(self.intermediates),
            joint=names.of_tensors(self.joint),
            wider=names.by_tensor(self.wider),
            made=names.of_tensors(self.made),
        )

    @property
    def room(self) -> int:
        """Bytes for cost-to-go tables."""
        return int(min(POOL_BYTES, self.memory / 2))

    @property
    def sparse_room(self) -> int:
        """Bytes for those of large lattices."""
        return int(min(SPARSE_BYTES, self.memory / 2))
