"""Lower bounds of whole cascades with an option, by all graphs so far: later ones have no option beyond the cutoff.

Each graph of boundary states bounds the cascades that have an option. Such a bound holds for good, and for whatever is
listed of the option later. So the next graph needs only the options whose cascades may be within the cutoff.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from weakref import WeakKeyDictionary

import numpy as np

from einmap.arrays import Floats, Ints
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
    _values: Floats = field(default_factory=lambda: np.zeros(0))
    """Floors by the number of an option, not a number where none is known."""
    _numbers: dict[Option, int] = field(default_factory=dict)
    _of_step: WeakKeyDictionary[EinsumOptions, Ints] = field(default_factory=WeakKeyDictionary)
    """Numbers of the options of each step; of those that are made again later, too."""
    _rests: dict[Option, Floats] = field(default_factory=dict)
    """Of signature classes: what all other Einsums cost at least, weighted."""
    _steps: WeakKeyDictionary[EinsumOptions, dict[bytes, EinsumOptions]] = field(default_factory=WeakKeyDictionary)
    """Of each step those with fewer options, by which these are."""

    def copied(self) -> OptionFloors:
        """A copy of all bounds, for a search of its own."""
        return replace(self, _values=self._values.copy(), _rests=dict(self._rests))

    def of_first(self, limit: float) -> FirstFloors | None:
        """Floors for a search of what is within a limit; None where it is beyond the cutoff."""
        limit *= 1 + ROUNDING
        if not limit <= self.cutoff < math.inf:
            return None
        first_of = self.cascade.first_of
        floors: dict[str, dict[FusionSignature | SignatureClass, float]] = {}
        for step, chains, _ in self._each(self.steps):
            of = floors.setdefault(first_of[chains], {})
            for option, floor in zip(step.options, self._floors(step).tolist(), strict=True):
                key = option.signature_class or option.signature
                of[key] = min(of.get(key, math.inf), floor)
        return FirstFloors(floors, limit)

    def within(self, steps: Sequence[EinsumOptions]) -> list[EinsumOptions]:
        """The steps with only those options whose cascades may be within the cutoff."""
        if math.isinf(self.cutoff):
            return list(steps)
        fewer: dict[EinsumOptions, EinsumOptions] = {}
        known = self.cascade.first_floors
        first_of = dict(zip(steps, self.cascade.firsts, strict=True)) if known else {}
        for step, _, _ in self._each(steps):
            floors = self._floors(step)
            if known:
                floors[[not known.allow(first_of[step], option) for option in step.options]] = math.inf
            left = np.flatnonzero(floors <= self.cutoff * (1 + ROUNDING))
            if len(left) == len(step.options):
                fewer[step] = step
                continue
            known_steps, where = self._steps.setdefault(step, {}), blake2b(left.tobytes()).digest()
            if where not in known_steps:
                known_steps[where] = replace(step, options=tuple(step.options[o] for o in left.tolist()))
                self._of_step[known_steps[where]] = self._of_step[step][left]
            fewer[step] = known_steps[where]
        return [fewer[step] for step in steps]

    def listed(self, steps: Sequence[EinsumOptions], changed: Collection[Fronts]) -> None:
        """Take over the floors of signature classes for what was listed of them anew."""
        for step, chains, name in self._each(steps) if math.isfinite(self.cutoff) else ():
            by_class: dict[SignatureClass, list[int]] = {}
            for o, option in enumerate(step.options) if chains in changed else ():
                if not option.unexpanded:
                    by_class.setdefault(option.signature.signature_class, []).append(o)
            for signature_class, options in by_class.items():
                self._take_over(self.options.get((name, signature_class)), chains, step, options)

    def learn(self, relaxed: Relaxation | None, steps: Sequence[EinsumOptions]) -> None:
        """Raise floors by the graph of the options that were `within` the cutoff.

        What no way through it has is part of no cascade within the cutoff.
        """
        if math.isinf(self.cutoff):
            return
        self.steps = steps
        of_options = [self._numbers_of(step) for step, _, _ in self._each(steps)]
        of_stages = [] if relaxed is None else [(relaxed.stages[k], relaxed.rests[k]) for k in relaxed.places]
        numbers_of = [self._numbers_of(stage.step) for stage, _ in of_stages]
        floors, rests_of = np.full(len(self._values), math.inf), dict[Option, Floats]()
        for (stage, rests), numbers in zip(of_stages, numbers_of, strict=True):
            assert relaxed is not None
            floors[numbers] = np.minimum(floors[numbers], relaxed.values(relaxed.paths.through[stage]))
            for o in np.flatnonzero(stage.step.unexpanded).tolist():
                option = stage.step.options[o]
                rests_of[option] = np.minimum(rests[o], rests_of.get(option, math.inf))
        self._rests |= rests_of
        for numbers in of_options:
            self._values[numbers] = np.fmax(self._values[numbers], floors[numbers])

    def _numbers_of(self, step: EinsumOptions) -> Ints:
        """The number of each option of a step; each option has one, whatever step it is of."""
        if step not in self._of_step:
            numbers = [self._numbers.setdefault(option, len(self._numbers)) for option in step.options]
            self._of_step[step] = np.array(numbers, dtype=np.int64)
        if len(self._values) < len(self._numbers):
            self._values = np.append(self._values, np.full(2 * len(self._numbers) - len(self._values), math.nan))
        return self._of_step[step]

    def _floors(self, step: EinsumOptions) -> Floats:
        """The floors of the options of a step, without limit where none is known."""
        return self._known(step, -math.inf)

    def _known(self, step: EinsumOptions, unknown: float) -> Floats:
        """The floors of the options of a step, with a number for unknown ones."""
        numbers = self._numbers_of(step)
        return np.nan_to_num(self._values[numbers], nan=unknown, posinf=math.inf, neginf=-math.inf)

    def _each(self, steps: Sequence[EinsumOptions]) -> Iterator[tuple[EinsumOptions, Fronts, str]]:
        """Each step once, with the fronts that its options are of and the name of the first Einsum that has it."""
        seen: set[EinsumOptions] = set()
        for step, member in zip(steps, self.cascade.members, strict=True):
            if step not in seen:
                seen.add(step)
                yield step, member.chains, member.einsum.name

    def _take_over(self, of_class: Option | None, chains: Fronts, step: EinsumOptions, options: Sequence[int]) -> None:
        """Floors of options of which chains were listed that their signature class stood for."""
        numbers, known = self._numbers_of(step)[options], self._known(step, math.inf)[options]
        floor, rest = -math.inf, None
        if of_class is not None:
            number, rest = self._numbers.get(of_class, len(self._values)), self._rests.get(of_class)
            floor = float(np.fmax(floor, self._values[number])) if number < len(self._values) else floor
        least, weights = np.full(len(options), -math.inf), self.cascade.weights
        if rest is not None and len(rest) == len(weights):
            bounds = [bounds_of(chains, step.options[o]) for o in options]
            begins = np.cumsum([0, *(len(rows) for rows in bounds[:-1])])
            own = np.minimum.reduceat(np.concatenate(bounds) @ weights.T, begins)
            least = self.cascade.objective.values(weights, step.times * own + rest)
        self._values[numbers] = np.maximum(np.minimum(known, floor), least)
