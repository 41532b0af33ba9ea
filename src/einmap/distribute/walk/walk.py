"""The chains of a Metropolis walk over plans."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

import numpy as np

from einmap.distribute.costs.cluster import Cluster
from einmap.distribute.search.actions import chosen_actions, chosen_homes
from einmap.distribute.search.memory import memory_limits
from einmap.distribute.search.problem import Problem, selection_problem, with_limits
from einmap.distribute.search.refinement import WayCosts
from einmap.distribute.search.search import Found
from einmap.distribute.search.space import SearchSpace
from einmap.distribute.selection.problem import Choice, Selection
from einmap.distribute.walk.energies import Energies, Energy, OverlappedEnergies, SummedEnergies
from einmap.distribute.walk.starts import at_random, cheapest_home, data_parallel
from einmap.errors import SpecError, did_you_mean
from einmap.progress import Progress

type Homes = Literal["follow", "walk"]
HOMES: tuple[Homes, ...] = get_args(Homes.__value__)
REPORT_EVERY = 500
"""Evaluations between two reports of progress."""
LEAST_GAIN = 1e-9
"""Part of the best cost by which another plan must be cheaper to be better: sums that are kept up drift by less."""


@dataclass(frozen=True, slots=True)
class WalkOptions:
    """How to walk. `evaluations`: plans whose cost is found, starts included; `seconds`: after which the walk ends,
    None: never; `beta`: a plan that is dearer by a part d of the best cost is taken with probability exp(-beta d).

    `homes`: where tensors are kept: "follow" takes for each the home that is cheapest with the ways of its Einsums, so
    that a step is another way of one Einsum; "walk" makes another home of one tensor a step of its own. Within a limit
    on memory, which may need dearer homes, one in three steps of "follow" is its own, the others are those of "walk".
    `overlap`: make small the seconds of a plan whose steps run as soon as they may, not their sum. Raises SpecError for
    numbers that are not positive.
    """

    evaluations: int = 5000
    seed: int = 0
    seconds: float | None = None
    beta: float = 30.0
    homes: Homes = "follow"
    overlap: bool = False

    def __post_init__(self) -> None:
        if self.evaluations < 1:
            raise SpecError(f"a walk of {self.evaluations} evaluations; expected at least 1")
        if not 0 < self.beta < math.inf:
            raise SpecError(f"beta is {self.beta:g}; expected a number above 0")
        if self.homes not in HOMES:
            hint = did_you_mean(str(self.homes), HOMES, listing="ways to choose homes")
            raise SpecError(f"homes {self.homes!r} are not a way to choose homes", hint=hint)


@dataclass(frozen=True, eq=False)
class Walked:
    """What a walk has come to. `found`: the best plan that keeps to the memory, None: none was met; its `cost` is in
    the unit of the cost model, or with `overlap` in seconds.

    `trace`: after how many evaluations each better plan was found, and its cost; `evaluations`: of all chains;
    `accepted`: steps that were taken.
    """

    found: Found | None
    trace: tuple[tuple[int, float], ...]
    evaluations: int
    accepted: int

    def after(self, evaluations: int) -> float:
        """The least cost after so many evaluations; inf where nothing had been met."""
        return next((cost for count, cost in reversed(self.trace) if count <= evaluations), math.inf)


def walk(
    space: SearchSpace,
    options: WalkOptions,
    memory: float | None = None,
    cluster: Cluster | None = None,
    progress: Progress | None = None,
) -> Walked:
    """Two Metropolis chains that take turns, one from data parallel and one from a random plan.

    `memory`: bytes that the plan may need on each PE; `cluster`: what the time with overlap is of. `progress` may end
    the walk after any evaluation. Raises SpecError where `options.overlap` is asked for without a cluster.
    """
    if options.overlap and cluster is None:
        raise SpecError("the time with overlap is that on a cluster", hint="give a cluster")
    timed = (progress or Progress()).within(options.seconds)
    bare = selection_problem(space)
    problem = _with_costs(space, bare, timed)
    if memory is not None:
        problem = with_limits(problem, memory_limits(space, problem, memory))
    record = _Record()
    chains: list[_Chain] = []
    for number in range(2):
        rng = Random(f"{options.seed} {number}")
        start = at_random(space, problem, rng) if number else data_parallel(space, problem)
        if start is not None and record.evaluations < options.evaluations:
            chain = _Chain(space, problem, _energies(space, problem, options, memory, cluster), rng, options)
            record.met(start, chain.begin(start))
            chains.append(chain)
    while chains and record.evaluations < options.evaluations and not timed.stopped:
        # a chain that has nothing to choose from makes no steps
        chains = [chain for chain in chains if chain.step(record)]
        if record.evaluations % REPORT_EVERY < len(chains):
            best = None if record.choice is None else f"{record.cost:.4g}"
            timed.report("a Metropolis walk", record.evaluations, options.evaluations, best=best)
    bound = 0.0 if space.cut or options.overlap else _bound(bare.selection)
    bound = bound if space.floor is None else min(bound, space.floor)
    found = None if record.choice is None else _found(space, problem, record.choice, record.cost, bound, options)
    return Walked(found, tuple(record.trace), record.evaluations, sum(chain.accepted for chain in chains))


def _energies(
    space: SearchSpace, problem: Problem, options: WalkOptions, memory: float | None, cluster: Cluster | None
) -> Energies:
    if options.overlap and cluster is not None:
        return OverlappedEnergies(space, problem.nodes, problem.selection, cluster, memory)
    return SummedEnergies(problem.selection)


class _Record:
    """The best choice that was met, and how many were."""

    def __init__(self) -> None:
        self.evaluations = 0
        self.choice: Choice | None = None
        self.cost = math.inf
        self.trace: list[tuple[int, float]] = []

    def met(self, choice: Sequence[int], energy: Energy) -> None:
        """One more evaluation."""
        self.evaluations += 1
        if energy.excess == 0 and energy.cost < self.cost * (1 - LEAST_GAIN):
            self.choice, self.cost = tuple(choice), energy.cost
            self.trace.append((self.evaluations, energy.cost))


class _Chain:
    """One chain: the choice that it is at, and its random numbers."""

    def __init__(
        self, space: SearchSpace, problem: Problem, energies: Energies, rng: Random, options: WalkOptions
    ) -> None:
        self._space, self._problem, self._energies, self._rng, self._options = space, problem, energies, rng, options
        self._choice: list[int] = []
        self._energy = Energy(math.inf)
        self.accepted = 0
        self._sizes = [len(costs) for costs in problem.selection.nodes]
        self._nodes = [node for node, size in enumerate(self._sizes) if size > 1]
        self._einsums = [node for node in self._nodes if node < len(problem.nodes.einsums)]
        # the part of the steps in which homes follow
        self._following = 0.0
        if options.homes == "follow":
            self._following = (1 / 3 if self._einsums else 0.0) if problem.selection.limits else 1.0

    def begin(self, choice: Choice) -> Energy:
        """Energy of the choice that the chain starts from."""
        self._choice = list(choice)
        self._energy = self._energies.begin(choice)
        return self._energy

    def step(self, record: _Record) -> bool:
        """Propose another strategy of one node, each as likely as its way back, and take it or not; False: there is
        none.
        """
        homes_follow = self._rng.random() < self._following
        nodes = self._einsums if homes_follow else self._nodes
        if not nodes:
            return False
        node = self._rng.choice(nodes)
        strategy = self._rng.randrange(self._sizes[node] - 1)
        changes = {node: strategy + (strategy >= self._choice[node])}
        if homes_follow:
            changes |= self._homes_after(changes)
        energy = self._energies.changed(changes)
        before = [(one, self._choice[one]) for one in changes]
        for one, taken in changes.items():
            self._choice[one] = taken
        record.met(self._choice, energy)
        if self._takes(energy, record.cost):
            self._energies.take()
            self._energy = energy
            self.accepted += 1
        else:
            for one, taken in before:
                self._choice[one] = taken
        return True

    def _homes_after(self, changes: Mapping[int, int]) -> dict[int, int]:
        """The cheapest homes of the tensors of an Einsum that is to be spread in another way."""
        ((node, way),) = changes.items()
        choice = list(self._choice)
        choice[node] = way
        homes: dict[int, int] = {}
        for number in self._problem.edges_of[node]:
            tensor = self._problem.selection.edges[number].second
            homes[tensor] = cheapest_home(self._space, self._problem, tensor, choice)[0]
        return homes

    def _takes(self, energy: Energy, best: float) -> bool:
        """Metropolis's rule on the cost, told in the best cost so far; as long as the chain exceeds the memory, on what
        it exceeds it by.
        """
        if not math.isfinite(energy.cost):
            return False
        if self._energy.excess > 0:
            dearer = energy.excess - self._energy.excess
        elif energy.excess > 0:
            return False
        else:
            scale = best if 0 < best < math.inf else self._energy.cost
            dearer = (energy.cost - self._energy.cost) / scale if energy.cost > self._energy.cost else 0.0
        return dearer <= 0 or self._rng.random() < math.exp(-self._options.beta * dearer)


def _with_costs(space: SearchSpace, problem: Problem, progress: Progress) -> Problem:
    """The problem with costs in the place of lower bounds: steps go everywhere, so that all are found out."""
    if all(ways.slow is None for ways in space.ways.values()):
        return problem
    costs = WayCosts(space)
    costs.find_all(progress)
    costs.check_possible()
    return Problem(problem.nodes, costs.within(problem, priced=True), problem.edges)


def _found(
    space: SearchSpace, problem: Problem, choice: Choice, cost: float, bound: float, options: WalkOptions
) -> Found:
    selection = problem.selection
    if not options.overlap:
        cost = Selection(selection.nodes, selection.edges).cost(choice)
    actions = chosen_actions(space, problem.nodes, choice)
    homes = chosen_homes(space, problem.nodes, choice)
    return Found(actions, homes, cost, bound, choice)


def _bound(problem: Selection) -> float:
    """A lower bound: every node and every edge at its least."""
    tables = (*problem.nodes, *(edge.costs for edge in problem.edges))
    return float(sum(table.min(initial=np.inf) for table in tables))
