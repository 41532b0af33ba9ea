"""A plain search of one Einsum's mapspace, the judge of the fast one: all of it where that is possible.

Nothing is pruned but choices that do not fit. Small spaces are covered completely, every subspace in a
pseudo-random order of its points, so that a stop at any time leaves a fair sample. Large ones are sampled:
subspaces (fullest fanouts first, dataplacements in a seeded order) get a batch of random points and then
steps to the best neighbours, round after round.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.errors import MappingError, NotSupportedError
from einmap.mapper.branch_and_bound.optimum import Optimum
from einmap.mapper.cost_bounds.tile_limits import tile_limits
from einmap.mapper.exhaustive.compulsory_traffic import least_costs
from einmap.mapper.exhaustive.front import ExhaustiveFront
from einmap.mapper.mapspace.dataplacement import Dataplacement
from einmap.mapper.mapspace.enumeration import share_of
from einmap.mapper.mapspace.lanes.spatial_mappings import n_lanes
from einmap.mapper.mapspace.mapspace import MOST_SUBSPACES, BuildingEffort, Mapspace, Subspace, mapspace_of
from einmap.mapper.objective.metrics import OF_ENERGY_AND_LATENCY, of_energy_and_latency
from einmap.mapper.problem.request import Request
from einmap.model.batch.batch import Batch, BatchCost
from einmap.model.counting.semantics import Semantics
from einmap.numbers import coprime_near, rank
from einmap.pareto import nondominated
from einmap.progress import Progress

CHUNK = 16_384
"""Choices evaluated at a time; arrays of this size stay in the cache."""
COMPLETE_LIMIT = 200_000_000
"""Largest mapspace that is enumerated completely."""
SAMPLE = 1_024
"""Random points of a subspace before stepping to neighbours."""
CLIMBERS = 4
"""How many of the best points of a subspace step to their neighbours at a time."""

AT_A_TIME = 16
"""Choices that are evaluated one after another, before the search looks whether to stop."""


@dataclass
class Budget:
    """How much may be evaluated; shared by nothing, so that results do not depend on speed."""

    evaluations: int | None = None
    used: int = 0

    @property
    def left(self) -> float:
        """Evaluations that remain."""
        return math.inf if self.evaluations is None else self.evaluations - self.used


@dataclass
class Searched:
    """Result of a search: the front of (energy, latency) for one instance, and whether all was covered."""

    front: ExhaustiveFront
    complete: bool
    evaluated: int
    seconds: float
    subspaces: int


@dataclass
class Search:
    """One search; `run` does it.

    `uncounted`: why some mappings cannot be counted; `cut`: whether it was stopped between choices of a chunk.
    """

    space: Mapspace
    semantics: Semantics
    objectives: tuple[str, ...]
    rng: np.random.Generator
    progress: Progress
    budget: Budget

    def __post_init__(self) -> None:
        self.front = ExhaustiveFront(keep=self._keep())
        self.seen: set[int] = set()
        self.uncounted: NotSupportedError | None = None
        self.batches: dict[int, Batch] = {}
        self.cut = False

    def run(self) -> Searched:
        """Search until the space is covered, the budget is spent or the progress token says stop."""
        start = time.perf_counter()
        complete = self._cover() if self.space.size <= COMPLETE_LIMIT else self._sample()
        seconds = time.perf_counter() - start
        complete = complete and not self.space.truncated and not self.cut
        return Searched(self.front, complete, self.budget.used, seconds, len(self.seen))

    def _keep(self) -> str:
        return self.objectives[0] if len(self.objectives) == 1 else "front"

    @property
    def _stopped(self) -> bool:
        return self.progress.stopped or self.budget.left <= 0

    def evaluate(self, index: int, points: NDArray[np.int64]) -> BatchCost:
        """Cost of some points of one subspace; the front takes what it can use."""
        subspace = self.space.subspaces[index]
        if math.isfinite(self.budget.left):
            points = points[: int(self.budget.left)]
        if index not in self.batches:
            self.batches[index] = self.batch_of(subspace)
        try:
            cost = self._costs(self.batches[index], subspace, points)
        except MappingError:
            # lanes that do not fit the units of an array: no choice of tile shapes changes that
            nothing = np.full(len(points), np.inf)
            return BatchCost(nothing, nothing, np.zeros(len(points), dtype=bool))
        except NotSupportedError as error:
            # some use of the fanouts, say: what else there is can be searched all the same
            self.uncounted = error
            nothing = np.full(len(points), np.inf)
            return BatchCost(nothing, nothing, np.zeros(len(points), dtype=bool))
        points = points[: len(cost.fits)]
        self.budget.used += len(points)
        self.seen.add(index)
        fits = cost.fits & tile_limits(self.batches[index].path, subspace, points)
        self.offer(index, points, BatchCost(cost.energy, cost.latency, fits))
        return BatchCost(cost.energy, cost.latency, fits)

    def batch_of(self, subspace: Subspace) -> Batch:
        """Evaluates the tile shapes of a subspace."""
        return Batch(subspace.template, self.space.einsum, self.space.arch, self.semantics)

    def offer(self, index: int, points: NDArray[np.int64], cost: BatchCost) -> None:
        """Let the front take what it can use of some points of a subspace."""
        self.front.offer(cost.energy, cost.latency, cost.fits, lambda row: (index, tuple(int(x) for x in points[row])))

    def _costs(self, batch: Batch, subspace: Subspace, points: NDArray[np.int64]) -> BatchCost:
        """Costs of some points; those of the first ones alone where the search is stopped meanwhile."""
        if not batch.is_one_by_one:
            return batch.evaluate(subspace.shapes(points), len(points))
        costs: list[BatchCost] = []
        for begin in range(0, len(points), AT_A_TIME):
            if costs and self.progress.stopped:
                self.cut = True
                break
            part = points[begin : begin + AT_A_TIME]
            costs.append(batch.evaluate(subspace.shapes(part), len(part)))
        energy, latency, fits = zip(*((cost.energy, cost.latency, cost.fits) for cost in costs), strict=True)
        return BatchCost(np.concatenate(energy), np.concatenate(latency), np.concatenate(fits))

    def _say(self, what: str, total: int | None) -> None:
        best = self.front.describe(self.objectives[0])
        self.progress.report(f"{self.space.einsum.name}: {what}", self.budget.used, total, best)

    # covering

    def _cover(self) -> bool:
        """Every point of every subspace once, chunks of the subspaces interleaved."""
        walks = [self._walk(i, s) for i, s in enumerate(self.space.subspaces) if s.size]
        order = self.rng.permutation(len(walks))
        waiting = [walks[i] for i in order]
        while waiting:
            still = []
            for walk in waiting:
                if self._stopped:
                    return False
                if next(walk, None) is not None:
                    still.append(walk)
                self._say("covering the mapspace", self.space.size)
            waiting = still
        return True

    def _walk(self, index: int, subspace: Subspace) -> Iterator[bool]:
        """Visit all points in an order that jumps about: multiples of a stride coprime to the size."""
        size = subspace.size
        stride = coprime_near(size, 0.618)
        offset = int(self.rng.integers(size))
        for begin in range(0, size, CHUNK):
            steps = np.arange(begin, min(begin + CHUNK, size), dtype=np.int64)
            self.evaluate(index, subspace.points_at((offset + steps * stride) % size))
            if begin + CHUNK < size:
                yield True

    # sampling

    def _sample(self) -> bool:
        order = self._sampling_order()
        waiting = iter(order)
        favourites: list[tuple[float, int]] = []
        rounds = 0
        while not self._stopped:
            index = next(waiting, None)
            if index is None or (rounds % 3 == 2 and favourites):
                favourites.sort()
                pick = int(min(self.rng.geometric(0.2) - 1, len(favourites) - 1)) if favourites else 0
                index = favourites[pick][1] if favourites else order[0]
            rounds += 1
            value = self._explore(index)
            if math.isfinite(value):
                favourites.append((value, index))
            self._say(f"sampling {len(self.space.subspaces)} subspaces", None)
        return False

    def _sampling_order(self) -> list[int]:
        """Fullest fanouts first; among equals a seeded order, so that dataplacements mix."""
        keyed = []
        for index, subspace in enumerate(self.space.subspaces):
            keyed.append((-n_lanes(subspace.spatial), float(self.rng.random()), index))
        return [index for _, _, index in sorted(keyed) if self.space.subspaces[index].size]

    def _explore(self, index: int) -> float:
        """Random points of one subspace, then steps to neighbours while they improve; the best value found."""
        subspace = self.space.subspaces[index]
        points = np.concatenate([_large_tiles(subspace), subspace.random_points(self.rng, SAMPLE)])
        values = self._values(index, points)
        best = math.inf
        visited: set[bytes] = set()
        while not self._stopped and np.isfinite(values).any():
            chosen = [i for i in np.argsort(values, kind="stable")[:CLIMBERS] if np.isfinite(values[i])]
            lowest = float(values[chosen[0]])
            if lowest >= best * (1 - 1e-12):
                break
            best = lowest
            around = [subspace.neighbours(tuple(int(x) for x in points[i])) for i in chosen]
            points = np.concatenate([points[chosen], *around])
            fresh = [i for i, row in enumerate(points) if i < len(chosen) or _add(visited, row.tobytes())]
            points = points[fresh]
            values = self._values(index, points)
        return best

    def _values(self, index: int, points: NDArray[np.int64]) -> NDArray[np.float64]:
        if not len(points) or self._stopped:
            return np.full(len(points), np.inf)
        cost = self.evaluate(index, points)
        value = of_energy_and_latency(self.objectives[0], cost.energy, cost.latency)
        if self.objectives[0] == "latency":
            value = value * (1 + 1e-12 * cost.energy / (cost.energy + 1))
        result = np.full(len(points), np.inf)
        result[: len(value)] = np.where(cost.fits, value, np.inf)
        return result


def _add(seen: set[bytes], key: bytes) -> bool:
    if key in seen:
        return False
    seen.add(key)
    return True


def _large_tiles(subspace: Subspace) -> NDArray[np.int64]:
    """The corner points: for each gap, all factors in the loops of that gap or as far in as possible."""
    rows = []
    most = max((digit.loops for digit in subspace.digits), default=0)
    for slot in range(most):
        row = []
        for digit in subspace.digits:
            spread = [0] * digit.loops
            spread[min(slot, digit.loops - 1)] = digit.exponent
            row.append(rank(spread))
        rows.append(row)
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(subspace.digits))


# one Einsum

BUILDING = 1 / 3
"""Part of the time that building the mapspace may take."""
LEAST_SUBSPACES = 1_000
"""So many are built however few evaluations are asked for."""


def brute_force(
    einsum: Einsum,
    arch: Architecture,
    request: Request,
    progress: Progress,
    max_evaluations: float,
    rng: np.random.Generator,
    backed: Mapping[str, str] | None = None,
) -> Optimum:
    """Try the mappings of one Einsum, all if there are not too many: objectives are energy, latency and their product.

    `backed`: tensors that are kept whole, with the memory of each one's outermost node; others are backed outside. Of
    `request.shared` all are kept whole.
    Raises NotSupportedError for other objectives.
    """
    _check_request(einsum, request)
    limited = math.isfinite(max_evaluations)
    kept = dict(backed or {})
    space = mapspace_of(
        einsum,
        arch,
        backed_outside=einsum.tensors - kept.keys(),
        first_partial_matters=request.rules.lowering,
        force_hierarchy_order=request.force_hierarchy_order,
        effort=BuildingEffort(
            share_of(progress, BUILDING),
            # more subspaces than points to be tried are of no use
            min(MOST_SUBSPACES, max(int(max_evaluations), LEAST_SUBSPACES)) if limited else MOST_SUBSPACES,
            int(rng.integers(1 << 30)),
        ),
        whole=(request.shared & einsum.tensors) | kept.keys(),
        admits=(lambda placement: backs(placement, kept)) if kept else None,
    )
    # the product of sums needs the front of each part
    objectives = ("energy_delay_product", "front") if request.goals == ("energy_delay_product",) else request.goals
    search = Search(space, request.rules, objectives, rng, progress, Budget(int(max_evaluations) if limited else None))
    searched = search.run()
    if search.uncounted is not None and not len(searched.front.energy):
        raise search.uncounted
    return _optimum(search, searched, request)


def _check_request(einsum: Einsum, request: Request) -> None:
    if request.uneven_loops or request.uneven_lanes or request.coarseness != 1:
        text = f"Einsum {einsum.name!r} can only be searched with factors that divide, and with all of them"
        raise NotSupportedError(text, hint="leave out the options for imperfect loops and coarseness")
    wrong = [goal for goal in request.goals if goal not in OF_ENERGY_AND_LATENCY]
    if wrong:
        text = f"Einsum {einsum.name!r} is searched mapping by mapping, which cannot minimise {', '.join(wrong)}"
        raise NotSupportedError(text, hint=f"metrics that it can minimise: {', '.join(OF_ENERGY_AND_LATENCY)}")


def _optimum(search: Search, searched: Searched, request: Request) -> Optimum:
    """The best of what was tried, and how much that was."""
    space, einsum = search.space, search.space.einsum
    energy, latency = np.array(searched.front.energy), np.array(searched.front.latency)
    values = np.stack([of_energy_and_latency(goal, energy, latency) for goal in request.goals], axis=1)
    best: Sequence[int] = [int(i) for i in nondominated(values)] if len(values) else []
    return Optimum(
        values=[tuple(float(x) for x in values[i]) for i in best],
        mappings=[space.decode(searched.front.what[i]) for i in best],
        complete=searched.complete and search.uncounted is None,
        bound=tuple(float(x) for x in values.min(axis=0))
        if searched.complete and search.uncounted is None and len(values)
        else least_costs(einsum, space.arch, request.goals),
        plans=len(space.subspaces),
        searched=searched.subspaces,
        work=searched.evaluated,
        size=float(space.size),
        cut=not searched.complete,
        ties_broken=searched.complete,
        without=()
        if search.uncounted is None
        else (f"mappings of {einsum.name} that cannot be counted ({search.uncounted.message})",),
    )


def backs(placement: Dataplacement, backing: Mapping[str, str]) -> bool:
    """Whether the outermost nodes of some tensors are in these memories."""
    outermost: dict[str, str] = {}
    for memory, tensor in placement.nodes:
        outermost.setdefault(tensor, memory)
    return all(outermost[tensor] == memory for tensor, memory in backing.items())
