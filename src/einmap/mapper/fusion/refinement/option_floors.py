"""Lower bounds of whole cascades with an option, by all graphs so far: later ones have no option beyond the cutoff.

Each graph of boundary states bounds the cascades that have an option. Such a bound holds for good, and for whatever is
listed of the option later. So the next graph needs only the options whose cascades may be within the cutoff.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature, SignatureClass
from einmap.mapper.fusion.fronts.protocol import Fronts
from einmap.mapper.fusion.paths.boundary_states import EinsumOptions, Option
from einmap.mapper.fusion.paths.first_floors import FirstFloors
from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.fusion.refinement.option_bounds import bounds_of
from einmap.mapper.fusion.refinement.relaxation import Relaxation
from einmap.mapper.objective.tolerances import ROUNDING


@dataclass
class OptionFloors:
    """Floors of the objective for each option, of cascades up to a cutoff.

    `options`: all of them, by Einsum and by signature or signature class. The floor of a signature class is that of its
    chains that are not listed. `steps`: the Einsums with all options, by the last graph.
    """

    cascade: CascadeProblem
    options: Mapping[tuple[str, FusionSignature | SignatureClass], Option]
    cutoff: float = math.inf
    steps: Sequence[EinsumOptions] = ()
    _floors: dict[Option, float] = field(default_factory=dict)
    _rests: dict[Option, Floats] = field(default_factory=dict)
    """Of signature classes: what all other Einsums cost at least, weighted."""
    _steps: dict[tuple[EinsumOptions, tuple[int, ...]], EinsumOptions] = field(default_factory=dict)

    def copied(self) -> OptionFloors:
        """A copy of all bounds, for a search of its own."""
        return replace(self, _floors=dict(self._floors), _rests=dict(self._rests), _steps=dict(self._steps))

    def of_first(self, limit: float) -> FirstFloors | None:
        """Floors for a search of what is within a limit; None where it is beyond the cutoff."""
        limit *= 1 + ROUNDING
        if not limit <= self.cutoff < math.inf:
            return None
        first_of = self.cascade.first_of
        floors: dict[str, dict[FusionSignature | SignatureClass, float]] = {}
        for step, chains, _ in self._each(self.steps):
            of = floors.setdefault(first_of[chains], {})
            for option in step.options:
                key = option.signature_class or option.signature
                of[key] = min(of.get(key, math.inf), self._floors[option])
        return FirstFloors(floors, limit)

    def within(self, steps: Sequence[EinsumOptions]) -> list[EinsumOptions]:
        """The steps with only those options whose cascades may be within the cutoff."""
        if math.isinf(self.cutoff):
            return list(steps)
        fewer: dict[EinsumOptions, EinsumOptions] = {}
        known = self.cascade.first_floors
        first_of = dict(zip(steps, self.cascade.firsts, strict=True)) if known else {}
        for step, _, _ in self._each(steps):
            floors = np.array([self._floors.get(option, -math.inf) for option in step.options])
            if known:
                floors[[not known.allow(first_of[step], option) for option in step.options]] = math.inf
            numbers = tuple(np.flatnonzero(floors <= self.cutoff * (1 + ROUNDING)).tolist())
            if len(numbers) < len(step.options) and (step, numbers) not in self._steps:
                self._steps[step, numbers] = replace(step, options=tuple(step.options[o] for o in numbers))
            fewer[step] = self._steps.get((step, numbers), step)
        return [fewer[step] for step in steps]

    def listed(self, steps: Sequence[EinsumOptions], changed: Collection[Fronts]) -> None:
        """Take over the floors of signature classes for what was listed of them anew."""
        for step, chains, name in self._each(steps):
            by_class: dict[SignatureClass, list[Option]] = {}
            for option in step.options if chains in changed and math.isfinite(self.cutoff) else ():
                if not option.unexpanded:
                    by_class.setdefault(option.signature.signature_class, []).append(option)
            for signature_class, options in by_class.items():
                self._take_over(self.options.get((name, signature_class)), chains, options, step.times)

    def learn(self, relaxed: Relaxation | None, steps: Sequence[EinsumOptions]) -> None:
        """Raise floors by the graph of the options that were `within` the cutoff.

        What no way through it has is part of no cascade within the cutoff.
        """
        if math.isinf(self.cutoff):
            return
        self.steps = steps
        floors: dict[Option, float] = {}
        of_stages = [] if relaxed is None else [(relaxed.stages[k], relaxed.rests[k]) for k in relaxed.places]
        for stage, rests in of_stages:
            assert relaxed is not None
            values = relaxed.values(relaxed.paths.through[stage])
            for option, value, rest in zip(stage.step.options, values, rests, strict=True):
                again = option in floors
                floors[option] = min(float(value), floors.get(option, math.inf))
                if option.unexpanded:
                    self._rests[option] = np.minimum(rest, self._rests[option]) if again else rest
        for step, _, _ in self._each(steps):
            for option in step.options:
                self._floors[option] = max(self._floors.get(option, -math.inf), floors.get(option, math.inf))

    def _each(self, steps: Sequence[EinsumOptions]) -> Iterator[tuple[EinsumOptions, Fronts, str]]:
        """Each step once, with the fronts that its options are of and the name of the first Einsum that has it."""
        seen: set[EinsumOptions] = set()
        for step, member in zip(steps, self.cascade.members, strict=True):
            if step not in seen:
                seen.add(step)
                yield step, member.chains, member.einsum.name

    def _take_over(self, of_class: Option | None, chains: Fronts, options: Sequence[Option], times: float) -> None:
        """Floors of options of which chains were listed that their signature class stood for."""
        floor, rest = -math.inf, None
        if of_class is not None:
            floor, rest = self._floors.get(of_class, floor), self._rests.get(of_class)
        least, weights = np.full(len(options), -math.inf), self.cascade.weights
        if rest is not None and len(rest) == len(weights):
            own = [(bounds_of(chains, option) @ weights.T).min(axis=0) for option in options]
            least = self.cascade.objective.values(weights, times * np.array(own) + rest)
        for option, value in zip(options, least.tolist(), strict=True):
            self._floors[option] = max(min(self._floors.get(option, math.inf), floor), value)
