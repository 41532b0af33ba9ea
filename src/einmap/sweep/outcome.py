"""One specification mapped or evaluated; a failure is an outcome too."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from einmap.errors import EinmapError, ManyErrors, NoMappingError
from einmap.model.cost import Cost
from einmap.model.evaluate import evaluate
from einmap.spec.spec import Spec
from einmap.sweep.definition import Asked
from einmap.visible import brief, cut

DONE = "done"
NO_MAPPING, INVALID, MEMORY, TIME, CRASH, BUG = (
    "no mapping", "invalid", "out of memory", "time-out", "crash", "internal error",
)  # fmt: skip
TRANSIENT = frozenset({MEMORY, TIME, CRASH, BUG})
"""Failures that depend on the machine: they may be gone when tried again."""
LONGEST_REASON = 2_000
"""Characters of a reason."""


@dataclass(frozen=True)
class Outcome:
    """What became of one specification.

    `status`: `done`, or a kind of failure with its `reason`. `energy` in J, leakage (`leak_energy`) included, `latency`
    in s, `area` in m^2, None where a component gives none. `optimal`: whether the mapping is proven best; None where it
    was only evaluated. `lower_bound` is that of the metric. `mapping`: as YAML. `seconds` of wall time do not count
    when outcomes are compared.
    """

    __repr__ = brief

    status: str
    reason: str = ""
    energy: float | None = None
    latency: float | None = None
    leak_energy: float | None = None
    area: float | None = None
    optimal: bool | None = None
    lower_bound: float | None = None
    energy_by_component: Mapping[str, float] = field(default_factory=dict)
    mapping: str = ""
    seconds: float = field(default=0.0, compare=False)

    @property
    def done(self) -> bool:
        """Whether there is a cost."""
        return self.status == DONE


@dataclass(frozen=True)
class Task:
    """A specification, and what is asked of it."""

    spec: Spec
    asked: Asked


def outcome_of(task: Task) -> Outcome:
    """Map or evaluate; whatever goes wrong is the outcome."""
    start = time.perf_counter()
    try:
        made = _mapped(task) if task.asked.action == "map" else _evaluated(task)
        return replace(made, seconds=time.perf_counter() - start)
    except NoMappingError as error:
        seconds = time.perf_counter() - start
        limit = task.asked.time_limit
        status = TIME if limit is not None and seconds >= limit else NO_MAPPING
        return failure(status, told(error), seconds)
    except EinmapError as error:
        return failure(INVALID, told(error), time.perf_counter() - start)
    except MemoryError:
        return failure(MEMORY, "there was not enough memory", time.perf_counter() - start)
    except Exception as error:  # a point that shows a fault of ours must not end the others
        return failure(BUG, f"{type(error).__name__}: {error}", time.perf_counter() - start)


def told(error: EinmapError) -> str:
    """The text of an error, files without their folders: what is kept is the same on another machine."""
    text = str(error)
    for problem in error.problems if isinstance(error, ManyErrors) else (error,):
        if problem.at is not None and problem.at.file:
            text = text.replace(problem.at.file, Path(problem.at.file).name)
    return text


def failure(status: str, reason: str, seconds: float = 0.0) -> Outcome:
    """An outcome without a cost."""
    return Outcome(status, cut(reason, LONGEST_REASON), seconds=seconds)


def _evaluated(task: Task) -> Outcome:
    # Here, not above, as below: they take long to import, and the parent of workers needs neither.
    from einmap.frontends.yaml.spec import dump_mapping

    cost = evaluate(task.spec, semantics=task.asked.semantics)
    mapping = task.spec.mapping
    return replace(_of_cost(cost), mapping=dump_mapping(mapping) if mapping is not None else "")


def _mapped(task: Task) -> Outcome:
    from einmap.frontends.yaml.spec import dump_mapping
    from einmap.mapper.mapper import best_mappings

    asked = task.asked
    result = best_mappings(
        task.spec,
        fuse=asked.fuse,
        metrics=asked.metric,
        semantics=asked.semantics,
        time_limit_s=asked.time_limit,
        workers=1,
        **asked.options,
    )
    return replace(
        _of_cost(result.cost),
        reason=result.reason or "",
        optimal=result.optimal,
        lower_bound=result.lower_bound,
        mapping=dump_mapping(result.mapping, result.front[0].copies),
    )


def _of_cost(cost: Cost) -> Outcome:
    by_component = {str(name): float(energy) for (name,), energy in cost.energy_by("component").items()}
    return Outcome(
        DONE,
        energy=float(cost.energy),
        latency=float(cost.latency),
        leak_energy=float(cost.leak_energy),
        area=None if cost.area is None else float(cost.area),
        energy_by_component=by_component,
    )
