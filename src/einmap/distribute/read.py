"""The key `distribution` of a specification as a plan."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from einmap.distribute.costs.cost_model import traffic_first
from einmap.distribute.derive import cheapest_plan, check_dtype, context_of, plan_from
from einmap.distribute.placements.mesh import Mesh, check_axis
from einmap.distribute.placements.request import Where, checked_request
from einmap.distribute.plans.plan import Dtype, Plan
from einmap.distribute.steps.read_steps import STEPS, read_steps
from einmap.einsum.einsum import TensorName
from einmap.errors import At, EinmapError, SpecError, attempt, raise_all
from einmap.spec.raw import Raw, RawMap, place, placed, to_python
from einmap.spec.schema.base import sound_values
from einmap.spec.schema.distribution import NAMED, DistributionInput
from einmap.spec.spec import Spec

KEY = "distribution"


def plan_of(spec: Spec, dtype: Dtype | None = None) -> Plan:
    """The plan that the specification's `distribution` asks for, or is; `dtype` takes the place of the one given there.

    Raises SpecError, all problems of the key together, with their places; see `distribute_workload`.
    """
    raw = _key(spec)

    def locate(where: Where) -> At:
        return place(spec.raw, (KEY, *where))

    problems: list[EinmapError] = []
    values = sound_values(DistributionInput, raw, spec.raw, (KEY,), problems, drop=NAMED)
    named: dict[str, Any] = {name: to_python(value) for name, value in raw.items if name in NAMED}
    mesh = _mesh(spec.raw, values.get("mesh", {}), problems)
    kind = dtype or cast(Dtype, values.get("dtype", "float64"))
    attempt(problems, partial(check_dtype, kind, locate))
    context = request = None
    if mesh is not None:
        imperfect = values.get("imperfect", True)
        context = attempt(problems, partial(context_of, spec.workload, mesh, imperfect, locate))
    if context is not None:
        asked = [named.get(name) for name in NAMED if name != STEPS]
        request = attempt(problems, partial(checked_request, context, *asked))
    raise_all(problems)
    assert context is not None
    assert request is not None
    if STEPS in named:
        return plan_from(context, request, read_steps(context, request, named[STEPS]), kind)
    return cheapest_plan(context, request, kind, traffic_first(context.mesh))


def mesh_and_placements(spec: Spec) -> tuple[Mesh, Mapping[TensorName, Any]]:
    """The mesh that the specification's `distribution` names, and the placements that it asks for, not yet checked.

    Raises SpecError, all problems of the mesh together, with their places.
    """
    raw = _key(spec)
    problems: list[EinmapError] = []
    values = sound_values(DistributionInput, raw, spec.raw, (KEY,), problems, drop=NAMED)
    mesh = _mesh(spec.raw, values.get("mesh", {}), problems)
    raise_all(problems)
    assert mesh is not None
    placements = raw.get("placements")
    return mesh, {} if placements is None else dict(to_python(placements))


def _mesh(raw: Raw, axes: Mapping[str, Any], problems: list[EinmapError]) -> Mesh | None:
    """The mesh of PEs. Where sizes are wrong their problems are added, and axes that can be named have one PE, for the
    rest to be checked; None where there is no axis.
    """
    before = len(problems)
    for name, size in axes.items():
        attempt(problems, partial(_check_axis, raw, name, size))

    def mesh() -> Mesh:
        with placed(raw, (KEY, "mesh")):
            return Mesh(tuple(axes.items()))

    made = attempt(problems, mesh) if axes and len(problems) == before else None
    if not (axes or problems):
        attempt(problems, mesh)
    named = tuple((name, 1) for name in axes if name.isidentifier())
    return Mesh(named) if made is None and named else made


def _check_axis(raw: Raw, name: str, size: object) -> None:
    with placed(raw, (KEY, "mesh", name)):
        check_axis(name, size)


def _key(spec: Spec) -> RawMap:
    """The raw tree of the key."""
    raw = spec.raw.get(KEY)
    if raw is None:
        hint = "give a file with this key, or one of the distributions that `einmap examples` lists"
        raise SpecError(f"the specification has no key {KEY!r}: it says nothing of a mesh", hint=hint)
    if spec.raw.get("workload") is None:
        raise SpecError(f"there is a {KEY!r}, but no workload to distribute", hint="give a workload as well")
    if not isinstance(raw, RawMap):
        at = place(spec.raw, (KEY,))
        raise SpecError(f"{KEY} is a dictionary with a mesh", at=at, hint="write for example mesh: {x: 4}")
    return raw
