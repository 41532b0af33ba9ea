"""Run the action of a sweep on one specification."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from einmap.errors import EinmapError, NoMappingError
from einmap.mapping.mapping import Mapping
from einmap.model.cost import Cost
from einmap.model.evaluate import evaluate
from einmap.spec.spec import Spec
from einmap.sweep.definition.definition import Asked
from einmap.sweep.outcome import BUG, DONE, INVALID, MEMORY, NO_MAPPING, NO_PLAN, TIME, Outcome, failure, told


@dataclass(frozen=True)
class Task:
    """A specification, and what is asked of it."""

    spec: Spec
    asked: Asked


def outcome_of(task: Task) -> Outcome:
    """Map, evaluate or plan; whatever goes wrong is the outcome."""
    start = time.perf_counter()
    try:
        return replace(_ACTIONS[task.asked.action](task), seconds=time.perf_counter() - start)
    except NoMappingError as error:
        seconds = time.perf_counter() - start
        limit = task.asked.time_limit
        nothing = NO_PLAN if task.asked.action == "plan" else NO_MAPPING
        status = TIME if limit is not None and seconds >= limit else nothing
        return failure(status, told(error), seconds)
    except EinmapError as error:
        return failure(INVALID, told(error), time.perf_counter() - start)
    except MemoryError:
        return failure(MEMORY, "there was not enough memory", time.perf_counter() - start)
    except Exception as error:  # a point that shows a fault of ours must not end the others
        return failure(BUG, f"{type(error).__name__}: {error}", time.perf_counter() - start)


def _evaluated(task: Task) -> Outcome:
    cost = evaluate(task.spec, semantics=task.asked.semantics)
    mapping = task.spec.mapping
    return replace(_of_cost(cost), mapping="" if mapping is None else _text_of(mapping))


@lru_cache(maxsize=8)
def _text_of(mapping: Mapping) -> str:
    """A given mapping as YAML, which is the same at most points."""
    # Here, not above, as below: they take long to import, and the parent of workers needs none of them.
    from einmap.frontends.yaml.spec import dump_mapping

    return dump_mapping(mapping)


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
        mapping=dump_mapping(result.mapping, **result.front[0].made_for),
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


def _planned(task: Task) -> Outcome:
    from einmap.sweep.actions.planned import planned

    return planned(task.spec, task.asked)


_ACTIONS: dict[str, Callable[[Task], Outcome]] = {"map": _mapped, "evaluate": _evaluated, "plan": _planned}
"""By the names of actions in sweep files."""
