"""Scans whose steps are all alike, as recurrences: the body for all steps at once, what it carries as states.

JAX itself gives the body an axis of steps in front (`vmap`). Equations that depend on nothing that is carried come
first, outside of the recurrence; the others read each state as the step before has left it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from einmap.frontends.cascade.builder import Builder
from einmap.frontends.cascade.recurrence import Recurrence, one_rank_of_steps
from einmap.frontends.cascade.step import NotExpressible
from einmap.frontends.cascade.values import Value, reshape, take
from einmap.frontends.jax.equation import constant

FEWEST_STEPS = 8
"""Steps of a scan that is kept; a shorter one is unrolled."""


Run = Callable[[Any, list[Value], list[Value]], list[Value]]
"""Gives the results of equations from their constants and their operands."""


@dataclass(frozen=True, slots=True)
class Body:
    """Equations of a jaxpr with variables in and out, as a jaxpr has them."""

    eqns: Sequence[Any]
    invars: Sequence[Any]
    outvars: Sequence[Any]
    constvars: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class Scan:
    """A scan of `steps` over a closed `jaxpr`.

    `fixed`: the same in all steps; `carried`: from step to step, as it begins; `swept`: a row in each step.
    """

    jaxpr: Any
    steps: int
    reverse: bool
    fixed: Sequence[Value]
    carried: Sequence[Value]
    swept: Sequence[Value]

    def for_all_steps(self, jax: Any) -> Any:
        """The closed jaxpr of the body for all steps at once; what it only hands on is the same in all of them."""
        from jax.extend.core import jaxpr_as_fun

        n = len(self.fixed)
        axes: list[int | None] = []
        shapes = []
        for i, variable in enumerate(self.jaxpr.jaxpr.invars):
            is_same = i < n or (i - n < len(self.carried) and self.handed_on(i - n))
            axes.append(None if is_same else 0)
            shape = tuple(variable.aval.shape)
            shapes.append(jax.ShapeDtypeStruct(shape if is_same else (self.steps, *shape), variable.aval.dtype))
        return jax.make_jaxpr(jax.vmap(jaxpr_as_fun(self.jaxpr), in_axes=axes, out_axes=0))(*shapes)

    def handed_on(self, place: int) -> bool:
        """Whether a carried value stays as it is."""
        inner = self.jaxpr.jaxpr
        return inner.outvars[place] is inner.invars[len(self.fixed) + place]


def kept_scan(jax: Any, builder: Builder, scan: Scan, run: Run, run_within: Run) -> list[Value]:
    """The last carried values and what each step gives. `run` and `run_within`: give the results of equations from
    values, before the recurrence and in it.

    Raises NotExpressible where the steps do not run so.
    """
    whole = scan.for_all_steps(jax)
    n_fixed, n_carried = len(scan.fixed), len(scan.carried)
    states_in = [v for i, v in enumerate(whole.jaxpr.invars[n_fixed : n_fixed + n_carried]) if not scan.handed_on(i)]
    if not states_in:
        raise NotExpressible("nothing is carried from step to step")
    rows = [take(v, 0, scan.steps - 1, -1, scan.steps) if scan.reverse else v for v in scan.swept]
    rows = [v if v.array is not None else one_rank_of_steps(builder, v, "scan_rows") for v in rows]
    given = dict(zip(whole.jaxpr.invars, [*scan.fixed, *scan.carried, *rows], strict=True))
    before, within = _parted(whole.jaxpr, states_in)
    needed = _needed(within, whole.jaxpr, before)
    first = Body(before, [v for v in whole.jaxpr.invars if v not in states_in], needed, whole.jaxpr.constvars)
    constants = [constant(value) for value in whole.consts]
    found = run(first, constants, [given[v] for v in first.invars])
    found = [v if v.array is not None or v.is_view else builder.written(v, "scan_input") for v in found]
    recurrence = Recurrence(builder, "scan", scan.steps)
    states = [recurrence.state(given[v].shape, given[v].bits, given[v], "carry") for v in states_in]
    second = Body(within, [*needed, *states_in], whole.jaxpr.outvars)
    known = {
        **dict(zip(first.invars, [given[v] for v in first.invars], strict=True)),
        **dict(zip(needed, found, strict=True)),
    }
    results = _run_within(run_within, second, known, dict(zip(states_in, [s.before for s in states], strict=True)))
    return _written(builder, scan, recurrence, results)


def _parted(jaxpr: Any, states: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Equations that depend on no state, and those that do."""
    depending = set(states)
    before, within = [], []
    for equation in jaxpr.eqns:
        if any(not hasattr(v, "val") and v in depending for v in equation.invars):
            depending.update(equation.outvars)
            within.append(equation)
        else:
            before.append(equation)
    return before, within


def _needed(within: Sequence[Any], jaxpr: Any, before: Sequence[Any]) -> list[Any]:
    """Values of the equations before the recurrence that it, or results, need."""
    made = {v for equation in before for v in equation.outvars}
    used = [*(v for equation in within for v in equation.invars), *jaxpr.outvars]
    return [v for v in dict.fromkeys(v for v in used if not hasattr(v, "val")) if v in made]


def _run_within(
    run: Run,
    body: Body,
    known: dict[Any, Value],
    states: dict[Any, Value],
) -> list[Value]:
    """The results of the equations of a recurrence."""
    every = {**known, **states}
    used = Counter(v for v in [*(v for e in body.eqns for v in e.invars), *body.outvars] if not hasattr(v, "val"))
    invars = [v for v in used if v in every]
    return run(Body(body.eqns, invars, body.outvars), [], [every[v] for v in invars])


def _written(builder: Builder, scan: Scan, recurrence: Recurrence, results: Sequence[Value]) -> list[Value]:
    """Results of each step, then the states, in tensors of their own."""
    n_carried = len(scan.carried)
    inner = scan.jaxpr.jaxpr
    carried, given = results[:n_carried], list(results[n_carried:])
    same = {v: i for i, v in enumerate(inner.outvars[:n_carried]) if not hasattr(v, "val") and not scan.handed_on(i)}
    follows = [same.get(v) if not hasattr(v, "val") else None for v in inner.outvars[n_carried:]]
    for i, value in enumerate(given):
        if follows[i] is None and value.array is None and not value.is_view:
            given[i] = builder.written(value, "scan_given")
    states = iter(recurrence.states)
    lasts: list[Value] = []
    after: dict[int, Value] = {}
    for i, value in enumerate(carried):
        if scan.handed_on(i):
            lasts.append(scan.carried[i])
            continue
        state = next(states)
        recurrence.write(state, value)
        after[i] = state.after
        lasts.append(reshape(take(state.after, 0, scan.steps - 1, 1, 1), state.after.shape[1:]))
    recurrence.close()
    stacked = [value if place is None else after[place] for value, place in zip(given, follows, strict=True)]
    turned = [take(v, 0, scan.steps - 1, -1, scan.steps) if scan.reverse else v for v in stacked]
    return [*lasts, *turned]
