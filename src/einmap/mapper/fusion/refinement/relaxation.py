"""Bounds of a cascade by a graph of boundary states: its least cost, which options are near the best, and the
best of what is complete.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.fusion.fronts.protocol import FusedFront
from einmap.mapper.fusion.paths.bound_tightening import tighten_bounds
from einmap.mapper.fusion.paths.boundary_states import Option
from einmap.mapper.fusion.paths.label_setting import Answer, Beam, LabelSetting, StageFronts
from einmap.mapper.fusion.paths.shortest_paths import ContendedMemories, PackedOptions, ShortestPaths
from einmap.mapper.fusion.paths.state_graph import Stage, StateGraph
from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.fusion.refinement.option_bounds import OptionBounds, bounds_of
from einmap.mapper.objective.tolerances import ROUNDING

NO_PATHS = np.zeros((0, 0), dtype=np.int64)


class Relaxation:
    """A graph of all that is listed and of all that is not, with the shortest paths through it.

    `places`: where each stage is for the first time; it is the same where it is again. `packed`: what is known of the
    options of each stage. `paths`: bounds of all cascades.
    """

    def __init__(
        self,
        cascade: CascadeProblem,
        graph: StateGraph,
        option_bounds: OptionBounds,
        room: ContendedMemories,
        packed: Mapping[Stage, PackedOptions],
        places: Sequence[int],
        paths: ShortestPaths,
    ) -> None:
        self.cascade, self.graph, self.option_bounds, self.room = cascade, graph, option_bounds, room
        self.packed, self.places, self.paths, self.stages = packed, places, paths, graph.stages
        self.rests = [paths.rests[stage] for stage in self.stages]
        """Rest of the bound of the whole without each option of each Einsum."""
        self.limits: dict[Stage, Floats] = {}
        self._least: dict[tuple[Stage, ShortestPaths], Floats] = {}
        """Least objectives of cascades with each option."""
        self.fronts: dict[tuple[Stage, int, bool], FusedFront] = {}
        self.asked: dict[tuple[int, int], float] = {}
        """Limits up to which Einsums and options were listed or completed since."""
        self.tightened_paths, self.tightened_up_to = paths, -math.inf
        """Bounds of cascades up to a limit alone."""

    def everywhere[T](self, what: Callable[[int], T]) -> list[T]:
        """Values of each Einsum, found once for each stage."""
        by_stage = {self.stages[k]: what(k) for k in self.places}
        return [by_stage[stage] for stage in self.stages]

    def options(self, k: int) -> Sequence[Option]:
        """The options of an Einsum."""
        return self.stages[k].step.options

    def possible(self, k: int) -> list[int]:
        """The options of an Einsum that fit, as far as that is known."""
        return [int(o) for o in np.flatnonzero(np.isfinite(self.rests[k][:, 0]))]

    def value(self, least: Floats) -> float:
        """The least objective of cascades whose weighted costs are at least so much."""
        return float(self.values(least[None])[0])

    def values(self, least: Floats) -> Floats:
        """The least objective for each row of weighted costs."""
        return self.cascade.objective.values(self.cascade.weights, least)

    def shares(self, times: Sequence[float]) -> list[float]:
        """How large a part of the objective each Einsum makes up at least; `times`: how often it runs."""
        n = len(self.cascade.goals)
        whole = self.paths.least[:n]
        least = [self.cascade.least[member.chains][:n] for member in self.cascade.members]
        costs = np.array(times)[:, None] * np.array(least)
        parts = np.divide(costs, whole, out=np.zeros_like(costs), where=whole > 0).sum(axis=1)
        return [float(part) for part in parts]

    def tighten(self, limit: float) -> bool:
        """Bound cascades up to a limit alone; whether there may be any."""
        closed = {}
        for k in self.places:
            stage = self.stages[k]
            rows = self.packed[stage].rows
            is_closed = [
                o in rows and rows[o].is_open and self.known_limit(k, o) >= limit for o in range(len(self.rests[k]))
            ]
            closed[stage] = np.array(is_closed, dtype=bool)
        tightened_paths = tighten_bounds(self.graph, self.room, self.paths, self.packed, closed, self.values, limit)
        if tightened_paths is not None:
            self.tightened_paths, self.tightened_up_to = tightened_paths, limit
        return tightened_paths is not None

    def near(self, k: int, limit: float) -> list[int]:
        """The options of an Einsum that cascades up to a limit can have, as far as the bounds tell."""
        stage, paths = self.stages[k], self.tightened_paths if limit <= self.tightened_up_to else self.paths
        if (stage, paths) not in self._least:
            self._least[stage, paths] = self.values(paths.through[stage])
        fits = np.isfinite(self.rests[k][:, 0]) & (self._least[stage, paths] <= limit)
        fits &= ~stage.step.unexpanded | (self.known_limits(k) < limit)
        numbers: list[int] = np.flatnonzero(fits).tolist()
        return numbers

    def unknown_near(self, k: int, limit: float) -> list[int]:
        """The options near a limit that are not known up to it, nor asked for."""
        known = self.known_limits(k)
        return [o for o in self.near(k, limit) if max(float(known[o]), self.asked.get((k, o), 0.0)) < limit]

    def all_near(self, limit: float) -> list[list[int]]:
        """For each Einsum the options that cascades up to a limit can have."""
        return self.everywhere(lambda k: self.near(k, limit))

    def all_helpful(self) -> list[list[int]]:
        """For each Einsum the options that can be a part of something that is not reached already."""
        return self.everywhere(lambda k: [o for o in self.possible(k) if self.may_help(k, o)])

    def may_help(self, k: int, o: int) -> bool:
        """Whether an option can be a part of something that is not reached already."""
        remainder = self.cascade.remainder(self.rests[k][o], self.cascade.times(self.cascade.members[k].einsum), None)
        bounds = bounds_of(self.cascade.members[k].chains, self.stages[k].step.options[o])
        return remainder is None or not bool(remainder.exceeds_cutoff(bounds).all())

    def known_limit(self, k: int, o: int) -> float:
        """Up to which limit all chains of an option are known."""
        return float(self.known_limits(k)[o])

    def known_limits(self, k: int) -> Floats:
        """Up to which limit all chains of each option are known.

        The limit that they were looked for counts too, but since then the rest of the cascade may have been found to
        cost more, or to have more room: what that is, and what is missing costs at least, makes the limit of today.
        """
        stage = self.stages[k]
        if stage not in self.limits:
            packed, options, chains = self.packed[stage], stage.step.options, self.cascade.members[k].chains
            limits = np.full(len(options), -math.inf)
            missing = self.values(self.rests[k] + packed.costs[np.cumsum(packed.n_rows) - 1])
            for i, rows in packed.rows.items():
                refined = self.option_bounds.refined(chains, options[i])
                if refined is not None:
                    limits[i] = max(refined.limit, missing[i]) if rows.is_open else math.inf
            self.limits[stage] = limits
        return self.limits[stage]

    def unknown(self, answer: Answer) -> tuple[float, list[tuple[int, int]]]:
        """The objective of the best row, and its Einsums and options that stand for chains that are not known."""
        rows = self.cascade.objective.of(answer.reached[-1].costs)
        row = int(np.argmin(rows))
        options = []
        for k in reversed(range(len(self.cascade.members))):
            before, o, chain = (int(x) for x in answer.reached[k + 1].back[row])
            refined = self.option_bounds.refined(self.cascade.members[k].chains, self.stages[k].step.options[o])
            if refined is None or refined.front is None or chain >= len(refined.front.values):
                options.append((k, o))
            row = before
        return float(rows.min()), options

    def known_front(self, k: int, o: int, most: float | None) -> FusedFront:
        """The best chains of an option as far as they are known, and behind them what others cost at least."""
        whole = most is None or self.known_limit(k, o) >= most
        key = self.stages[k], o, whole
        if key not in self.fronts:
            self.fronts[key] = self.front(k, o, whole)
        return self.fronts[key]

    def front(self, k: int, o: int, whole: bool) -> FusedFront:
        """The best chains of an option, and bounds of the others unless the front is known far enough (`whole`)."""
        option = self.stages[k].step.options[o]
        refined = self.option_bounds.refined(self.cascade.members[k].chains, option)
        front = refined.front if refined is not None else None
        if whole:
            return front or FusedFront(np.zeros((0, 0)), NO_PATHS)
        cascade, n = self.cascade, len(self.cascade.goals)
        chains, width = self.cascade.members[k].chains, n + len(cascade.capacity) * (1 + len(option.loops))
        listed = None if option.unexpanded else chains.outer_nest_rows(option.signature)
        outer_nests = np.zeros((1, width)) if listed is None else listed
        if listed is not None and front is None:
            return FusedFront(outer_nests, NO_PATHS)
        # at all weights, as in the bounds: by these rows are compared
        weights = cascade.weights
        rest = self.option_bounds.rest(self.cascade.members[k].chains, option, weights)
        costs = cascade.objective.points(weights, rest)
        costs = costs[np.isfinite(costs).all(axis=1)]
        rows = np.concatenate([costs, np.tile(outer_nests[:, n:].min(axis=0), (len(costs), 1))], axis=1)
        if listed is None:
            rows[:, n : n + len(cascade.capacity)] = cascade.persistent_bits(self.cascade.members[k].chains)
        if front is None or not len(front.values):
            return FusedFront(rows, NO_PATHS)
        return FusedFront(np.concatenate([front.values, rows]), front.paths)

    def join(
        self, near: Sequence[Sequence[int]], most: float | None, beam: int | None = None, *, known: bool = False
    ) -> Answer:
        """Put together what is complete, and bounds of what is not; `known`: without these.

        `beam`: rows that are kept behind each Einsum, if not all.
        """
        cascade = self.cascade

        def part(k: int) -> StageFronts:
            fronts = {o: self.front(k, o, True) if known else self.known_front(k, o, most) for o in near[k]}
            return StageFronts(
                {o: front for o, front in fronts.items() if len(front.values)},
                cascade.persistent_bits(self.cascade.members[k].chains),
            )

        parts = self.everywhere(part)
        paths = self.paths if most is None or most > self.tightened_up_to else self.tightened_paths
        reached = None if most is None else cascade.objective.reached(most)
        cutoff = None if most is None or math.isinf(most) or reached is not None else most
        reached = cascade.known_rows * (1 + ROUNDING) if reached is None else reached
        narrow = None if beam is None else Beam(beam, self.values)
        join = LabelSetting(self.graph, parts, self.room, len(cascade.goals), paths, cutoff, reached, narrow)
        labels = join.run(cascade.watch("putting together Einsums up to {}"))
        return Answer(self.graph, parts, labels)
