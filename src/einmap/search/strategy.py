"""The interface of search strategies: one proposes points (`ask`) and learns what they cost (`tell`).

Strategies go by name. Those of einmap are imported when they are used; `register` adds others, as
do packages (`einmap.plugins`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np

from einmap.arrays import Floats
from einmap.errors import SpecError, did_you_mean
from einmap.mapper.mapspace.mapspace import Point
from einmap.plugins import plugin, plugin_names
from einmap.search.cost_model.cost_model import CostModel
from einmap.search.problem import SearchProblem


@dataclass(frozen=True)
class Budget:
    """How much a run may do: mappings that are evaluated, each time it is asked for, and seconds of wall time."""

    evaluations: int
    seconds: float = float("inf")


@dataclass(frozen=True)
class Setup:
    """Inputs of a strategy. `rng`: the one source of chance; `model`: a cost model learned elsewhere."""

    problem: SearchProblem
    rng: np.random.Generator
    budget: Budget
    model: CostModel | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


class Strategy(Protocol):
    """One run of a strategy."""

    def ask(self, n: int) -> Sequence[Point]:
        """At most `n` points to evaluate, at least one; none where the strategy has nothing more to try."""

    def tell(self, points: Sequence[Point], values: Floats) -> None:
        """The objective of each point that was asked for, in their order; inf where a mapping is not valid."""


type Factory = Callable[[Setup], Strategy]


@dataclass(frozen=True, slots=True)
class _Entry:
    """Where a strategy of einmap is (`module:class`), and what it does."""

    place: str
    summary: str


BUILT_IN: Mapping[str, _Entry] = {
    "optimal": _Entry("optimal:Optimal", "the mapper: one mapping, proven best"),
    "exhaustive": _Entry("exhaustive:Exhaustive", "every mapping once, scattered over the mapspace"),
    "random": _Entry("random_draws:RandomDraws", "uniform draws from all mappings"),
    "random-pruned": _Entry("random_draws:PrunedDraws", "uniform draws from the valid mappings"),
    "mcmc": _Entry("mcmc:Metropolis", "Metropolis chains at several temperatures that exchange states"),
    "annealing": _Entry("annealing:Annealing", "Metropolis chains that are cooled down over the budget"),
    "evolutionary": _Entry("sampled:Evolutionary", "NSGA-II of Optuna"),
    "bayesian": _Entry("sampled:Bayesian", "tree-structured Parzen estimators of Optuna"),
    "learned": _Entry("learned:Learned", "gradient-boosted trees choose what is evaluated"),
    "tree": _Entry("beam:Beam", "beam search over partial mappings, guided by gradient-boosted trees"),
}
_REGISTERED: dict[str, Factory] = {}


def register(name: str) -> Callable[[Factory], Factory]:
    """Give a strategy a name, as a decorator of its class or factory. Raises SpecError for a name that is taken."""
    if name in BUILT_IN or name in _REGISTERED:
        raise SpecError(f"there is a strategy {name!r} already")

    def registered(factory: Factory) -> Factory:
        _REGISTERED[name] = factory
        return factory

    return registered


def strategy_names() -> list[str]:
    """All strategies by name."""
    return [*BUILT_IN, *_REGISTERED, *plugin_names("strategies")]


def strategy_named(name: str) -> Factory:
    """A strategy by name. Raises SpecError for an unknown one, with the closest names."""
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name not in BUILT_IN:
        if (added := plugin("strategies", name)) is not None:
            return cast("Factory", added)
        hint = did_you_mean(name, strategy_names(), listing="strategies")
        raise SpecError(f"unknown strategy {name!r}", hint=hint)
    module, _, kind = BUILT_IN[name].place.partition(":")
    return cast("Factory", getattr(import_module(f"einmap.search.strategies.{module}"), kind))
