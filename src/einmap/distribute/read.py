"""The key `distribution` of a specification as a plan."""

from __future__ import annotations

from typing import Any, cast

from einmap.distribute.cost_model import traffic_first
from einmap.distribute.derive import cheapest_plan, context_of, plan_from
from einmap.distribute.mesh import Mesh
from einmap.distribute.plan import Dtype, Plan
from einmap.distribute.request import Where, checked_request
from einmap.distribute.written.read_steps import STEPS, read_steps
from einmap.errors import At, EinmapError, SpecError, raise_all
from einmap.spec.raw import RawMap, place, placed, to_python
from einmap.spec.schema.base import check
from einmap.spec.schema.distribution import NAMED, DistributionInput
from einmap.spec.spec import Spec

KEY = "distribution"


def plan_of(spec: Spec, dtype: Dtype | None = None) -> Plan:
    """The plan that the specification's `distribution` asks for, or is; `dtype` takes the place of the one given there.

    Raises SpecError (several problems together) with their places, see `distribute_workload`.
    """
    raw, inputs = _read(spec)

    def locate(where: Where) -> At:
        return place(spec.raw, (KEY, *where))

    named: dict[str, Any] = {name: to_python(value) for name, value in raw.items if name in NAMED}
    with placed(spec.raw, (KEY, "mesh")):
        mesh = Mesh(tuple(inputs.mesh.items()))
    context = context_of(spec.workload, mesh, inputs.imperfect, locate)
    request = checked_request(context, named.get("placements"), named.get("loops"), named.get("overlap") or ())
    values = dtype or cast(Dtype, inputs.dtype)
    if STEPS in named:
        return plan_from(context, request, read_steps(context, request, named[STEPS]), values)
    return cheapest_plan(context, request, values, traffic_first(mesh))


def _read(spec: Spec) -> tuple[RawMap, DistributionInput]:
    """The raw tree of the key, and its checked fields without those that name tensors, ranks and Einsums."""
    raw = spec.raw.get(KEY)
    if raw is None:
        hint = "give a file with this key, or one of the distributions that `einmap examples` lists"
        raise SpecError(f"the specification has no key {KEY!r}: it says nothing of a mesh", hint=hint)
    if spec.raw.get("workload") is None:
        raise SpecError(f"there is a {KEY!r}, but no workload to distribute", hint="give a workload as well")
    problems: list[EinmapError] = []
    inputs = check(DistributionInput, raw, spec.raw, (KEY,), problems, drop=NAMED)
    raise_all(problems)
    assert inputs is not None
    assert isinstance(raw, RawMap)
    return raw, inputs
