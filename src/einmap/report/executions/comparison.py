"""Model against execution: every count, peak usage and number of steps, and the outputs against a plain einsum."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.arch.component import Compute, Network
from einmap.einsum.numeric import run
from einmap.execute.results.result import Execution
from einmap.model.cost import Cost, LatencyRow
from einmap.model.evaluate import workings_of
from einmap.model.timing.systolic import is_skewed, skew_seconds
from einmap.model.traffic.networks_crossed import network_use
from einmap.report.text.formatting import summed
from einmap.spec.spec import Spec

SCHEMA = 1
"""Version of `Comparison.to_dict()`."""
USAGE, STEPS, ROUTE, LINK = "usage", "steps", "longest route", "busiest link"
"""Names in place of the action in rows that compare a memory's peak usage, the operations of the busiest compute, the
steps of the longest route over a network, or the actions that pass its busiest link."""
ROUNDING = 1e-9
"""Outputs, and counts that are not whole numbers, may differ by this part: the order of additions rounds."""
ROUNDING_OF_USAGE = 1e-12
"""Fractions of a capacity may differ by this part: one bit of a large memory is a small part."""
SMALL = 1e-3
"""Errors of elements below this part of the tensor's largest one are taken relative to that: they may be what is
left when large values cancel."""


@dataclass(frozen=True, slots=True)
class ComparedCount:
    """One number from both sides. `tensor` is None for operations, steps and usage, `einsum` is "" for usage."""

    einsum: str
    component: str
    tensor: str | None
    action: str
    model: float
    simulated: float

    @property
    def difference(self) -> float:
        """How much more the execution counted."""
        return self.simulated - self.model

    @property
    def agrees(self) -> bool:
        """Whole numbers must be equal; what is not a whole number may differ by rounding."""
        if self.model == self.simulated:
            return True
        if self.action == USAGE:
            return math.isclose(self.model, self.simulated, rel_tol=ROUNDING_OF_USAGE)
        whole = float(self.model).is_integer() and float(self.simulated).is_integer()
        return not whole and math.isclose(self.model, self.simulated, rel_tol=ROUNDING)


class ComparedMean(ComparedCount):
    """One number of the model that is a mean over masks of zeros, beside that of one of them."""

    __slots__ = ()

    @property
    def agrees(self) -> bool:
        """Always true: a mask is not the mean of all of them."""
        return True


@dataclass(frozen=True, slots=True)
class OutputError:
    """How far a written tensor is from the plain einsum: the largest errors of its elements; inf if incomparable."""

    tensor: str
    max_abs_error: float
    max_relative_error: float

    @property
    def agrees(self) -> bool:
        """Whether nothing but rounding is different."""
        return self.max_relative_error <= ROUNDING


@dataclass(frozen=True)
class Comparison:
    """Model and execution side by side: `actions`, peak `usage` of memories, `steps` where the model tells them.

    `routes`: of each network the steps of its longest route, and what passes its busiest link. `outputs`: every written
    tensor against the plain einsum. `steps_simulated`: those of all Einsums.
    """

    outputs: tuple[OutputError, ...]
    actions: tuple[ComparedCount, ...]
    usage: tuple[ComparedCount, ...]
    steps: tuple[ComparedCount, ...]
    steps_simulated: Mapping[str, int]
    routes: tuple[ComparedCount, ...] = ()

    @property
    def rows(self) -> tuple[ComparedCount, ...]:
        """Everything that was compared, equal or not."""
        return (*self.actions, *self.usage, *self.steps, *self.routes)

    @cached_property
    def mismatches(self) -> tuple[ComparedCount, ...]:
        """The rows in which the two sides differ."""
        return tuple(row for row in self.rows if not row.agrees)

    @property
    def max_abs_error(self) -> float:
        """The largest error of any element of any output."""
        return max((row.max_abs_error for row in self.outputs), default=0.0)

    @property
    def max_relative_error(self) -> float:
        """The largest error relative to the element (to a part of the tensor's largest where the element is small)."""
        return max((row.max_relative_error for row in self.outputs), default=0.0)

    @property
    def agrees(self) -> bool:
        """Whether all outputs are right and all numbers equal."""
        return not self.mismatches and all(row.agrees for row in self.outputs)

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists, ready for JSON; `model` of steps is None where the model does not tell."""
        told = {row.einsum: row.model for row in self.steps}
        return {
            "schema": SCHEMA,
            "agrees": self.agrees,
            "max_relative_error": self.max_relative_error,
            "max_abs_error": self.max_abs_error,
            "mismatches": [asdict(row) for row in self.mismatches],
            "outputs": [asdict(row) for row in self.outputs],
            "actions": [asdict(row) for row in self.actions],
            "routes": [asdict(row) for row in self.routes],
            "usage": [{"component": r.component, "model": r.model, "simulated": r.simulated} for r in self.usage],
            "steps": {
                einsum: {"model": told.get(einsum), "simulated": count}
                for einsum, count in self.steps_simulated.items()
            },
        }


def compare(spec: Spec, cost: Cost, execution: Execution) -> Comparison:
    """The model's counts of a mapping (`cost`, preset `exact`) against those of its execution.

    Of tensors with zeros of which only the density is known, counts stand side by side, and need not agree. Usage of
    tensors in a format is left out: the model takes the fullest tile that can occur.
    """
    means = any(sparsity.is_mean for sparsity in spec.sparsity.values())
    return Comparison(
        outputs=tuple(output_errors(execution.tensors, run(spec.workload, execution.inputs))),
        actions=tuple(_actions(cost, execution, means=means)),
        usage=() if cost.tiles else tuple(_usage(cost, execution)),
        steps=() if means else tuple(_steps(spec, cost, execution)),
        steps_simulated=dict(execution.steps),
        routes=tuple(_routes(spec, execution)),
    )


# outputs


def output_errors(
    outputs: Mapping[str, NDArray[np.float64]], expected: Mapping[str, NDArray[np.float64]]
) -> Iterator[OutputError]:
    """The errors of each expected tensor; one that is missing or has another shape is infinitely wrong."""
    for tensor, right in expected.items():
        values = outputs.get(tensor)
        if values is None or values.shape != right.shape:
            yield OutputError(tensor, math.inf, math.inf)
        else:
            yield OutputError(tensor, *largest_errors(np.asarray(values, float), np.asarray(right, float)))


def largest_errors(values: NDArray[np.float64], expected: NDArray[np.float64]) -> tuple[float, float]:
    """The largest absolute and relative error of an element; equal infinities are equal, and so are two NaN."""
    differs = ~((values == expected) | (np.isnan(values) & np.isnan(expected)))
    if not differs.any():
        return 0.0, 0.0
    finite = np.abs(expected[np.isfinite(expected)])
    floor = SMALL * float(finite.max(initial=0.0))
    wrong, exact = values[differs], expected[differs]
    if not (np.isfinite(wrong).all() and np.isfinite(exact).all()):
        return math.inf, math.inf
    errors = np.abs(wrong - exact)
    scale = np.maximum(np.abs(exact), floor)
    relative = np.divide(errors, scale, out=np.full_like(errors, math.inf), where=scale > 0)
    return float(errors.max()), float(relative.max())


# numbers


def _actions(cost: Cost, execution: Execution, *, means: bool) -> Iterator[ComparedCount]:
    """In the order of the model; what only the execution did comes last. Leakage is not an action of a machine."""
    model = summed(((r.einsum, r.component, r.tensor, r.action), r.count) for r in cost.actions if r.count)
    simulated = summed(((r.einsum, r.component, r.tensor, r.action), r.count) for r in execution.actions if r.count)
    for key in dict.fromkeys((*model, *simulated)):
        yield (ComparedMean if means else ComparedCount)(*key, model.get(key, 0), simulated.get(key, 0))


def _usage(cost: Cost, execution: Execution) -> Iterator[ComparedCount]:
    model = {row.component: row.usage for row in cost.memory_usage}
    for component in dict.fromkeys((*model, *execution.usage)):
        yield ComparedCount("", component, None, USAGE, model.get(component, 0.0), execution.usage.get(component, 0.0))


def _steps(spec: Spec, cost: Cost, execution: Execution) -> Iterator[ComparedCount]:
    waits = _waits(spec)
    for row in cost.latencies:
        steps = model_steps(spec, row, waits.get(row.einsum, 0.0))
        if steps is not None and row.einsum in execution.steps:
            yield ComparedCount(row.einsum, row.component, None, STEPS, steps, execution.steps[row.einsum])


def _routes(spec: Spec, execution: Execution) -> Iterator[ComparedCount]:
    """The longest route over each network and what passes its busiest link, for one instance of each Einsum."""
    if not any(isinstance(unit, Network) for arch in spec.archs.values() for unit in arch.components.values()):
        return
    for einsum, traffic in workings_of(spec).traffic.items():
        for name, use in network_use(traffic).items():
            scale = traffic.path.arch.components[name].actions_scale
            routed, passed = (
                found.get((einsum, name), 0) for found in (execution.longest_route, execution.link_traffic)
            )
            yield ComparedCount(einsum, name, None, ROUTE, float(use.max_hops), routed)
            yield ComparedCount(einsum, name, None, LINK, float(use.max_link_traffic * scale), passed)


def _waits(spec: Spec) -> dict[str, float]:
    """Seconds in which one instance of each Einsum waits for lanes of a systolic array; none where no lanes are skewed.

    The simulator's lanes begin at one time.
    """
    if not any(is_skewed(arch.path(unit.name)) for arch in spec.archs.values() for unit in arch.computes):
        return {}
    workings = workings_of(spec)
    return {name: float(skew_seconds(path, workings.traffic[name])) for name, path in workings.paths.items()}


def model_steps(spec: Spec, row: LatencyRow, waits: float = 0.0) -> float | None:
    """Operations of the busiest instance, from the seconds that a compute unit works.

    `waits`: seconds of these, for one instance of the Einsum, in which it waits for lanes that begin later.

    None for other components, and where seconds do not tell: `total_latency` is an expression, or the unit
    takes no time.
    """
    unit = spec.arch(row.einsum).components[row.component]
    if not isinstance(unit, Compute) or unit.total_latency is not None:
        return None
    throughput = unit.action("compute").throughput
    instances = spec.workload.n_instances * spec.workload.by_name[row.einsum].n_instances
    if not (0 < throughput < math.inf and unit.actions_scale and instances):
        return None
    steps = (row.latency - waits * instances) * throughput / (unit.actions_scale * instances)
    return round(steps) if math.isclose(steps, round(steps), rel_tol=ROUNDING) else steps
