"""explain(): everything that can be said about why a mapping costs what it does."""

from __future__ import annotations

from einmap.model.evaluate import workings_of
from einmap.model.explanation.bottlenecks import bottlenecks_of, energy_of, fanouts_of
from einmap.model.explanation.cases import cases_of, stationary_of
from einmap.model.explanation.causes import causes_of
from einmap.model.explanation.changes import changes_of
from einmap.model.explanation.counts import derivations_of, unexplained
from einmap.model.explanation.lifetimes import fullest_of, lives_of, occupied_of
from einmap.model.explanation.values import Explanation
from einmap.spec.spec import Spec


def explain(spec: Spec, *, changes: bool = True) -> Explanation:
    """Why the mapping of a specification costs what it does, counted as the preset `exact` does.

    `changes`: whether single changes that would help are evaluated, which takes longer than all the rest.

    Raises as `evaluate` does: SpecError for a bad specification, MappingError when the mapping does not fit it.
    """
    workings = workings_of(spec)
    return Explanation(
        cost=workings.cost,
        order=workings.order,
        cases=tuple(node for name in workings.order for node in cases_of(workings.traffic[name])),
        stationary=tuple(row for name in workings.order for row in stationary_of(workings.traffic[name])),
        derivations=tuple(derivations_of(workings)),
        lives=tuple(lives_of(workings)),
        fullest=tuple(fullest_of(workings)),
        occupied=tuple(occupied_of(workings)),
        bottlenecks=tuple(bottlenecks_of(workings)),
        energy=tuple(energy_of(workings.cost)),
        fanouts=tuple(fanouts_of(workings)),
        changes=changes_of(workings) if changes else (),
        unexplained=unexplained(workings),
        savings=tuple(causes_of(workings)),
    )
