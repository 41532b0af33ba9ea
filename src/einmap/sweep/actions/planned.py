"""The best distribution of a workload over a mesh, as an outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from einmap.distribute.costs.cluster import default_cluster
from einmap.distribute.costs.cost import plan_cost
from einmap.distribute.costs.cost_model import PER_MOVE, PLAN_METRICS, ClusterCost
from einmap.distribute.costs.pe_spec import combined
from einmap.distribute.planner.best import Best, best_plan
from einmap.distribute.planner.chosen import ChosenPlan, parts_of
from einmap.distribute.planner.document import distribution_text
from einmap.distribute.planner.planning import Planning, PlanRequest
from einmap.distribute.planner.read_cluster import KEY as CLUSTER
from einmap.distribute.planner.read_cluster import cluster_of
from einmap.distribute.planner.too_little import too_little
from einmap.distribute.read import KEY as DISTRIBUTION
from einmap.distribute.read import mesh_and_placements
from einmap.distribute.selection.solve import TIME_LIMIT
from einmap.errors import NoMappingError
from einmap.facade import arch_of_pes
from einmap.frontends.yaml.folders import FolderNames
from einmap.progress import Progress
from einmap.spec.raw import Raw, RawMap, RawScalar, from_python, place, set_value
from einmap.spec.spec import Spec
from einmap.sweep.definition.definition import Asked
from einmap.sweep.outcome import DONE, Outcome


def planned(spec: Spec, asked: Asked) -> Outcome:
    """The best plan. Raises SpecError for a cluster or a mesh that is wrong, NoMappingError where no plan is found."""
    planning = planning_of(spec, asked)
    best = best_plan(planning, Progress().within(asked.time_limit))
    if best.chosen is None:
        problem = too_little(planning, best, Progress().within(asked.time_limit))
        raise NoMappingError(str(problem))
    return _outcome(planning, best, best.chosen)


def planning_of(spec: Spec, asked: Asked) -> Planning:
    """The planning problem, checked. Raises SpecError."""
    mesh, placements = mesh_and_placements(spec)
    cluster = cluster_of(spec, lambda _name, _at: spec) or default_cluster(mesh)
    metric = next(name for name in PLAN_METRICS if name == asked.metric)
    request = PlanRequest(mesh, cluster, metric, None, placements, asked.time_limit or TIME_LIMIT)
    return Planning(spec.workload, request)


def for_planning(spec: Spec, mesh: Mapping[str, int], root: FolderNames = ()) -> Spec:
    """The specification with the mesh of a sweep, and with the architecture of its PEs, which may stand in a file.

    So it is all that a plan depends on, on any host, and paths lead to the architecture of a PE as to any other. An
    `arch` that it has is that of the PEs. Raises SpecError.
    """
    if mesh:
        given = spec.raw.get(DISTRIBUTION)
        kept = given.items if isinstance(given, RawMap) else ()
        items = (("mesh", from_python(dict(mesh))), *((key, value) for key, value in kept if key != "mesh"))
        spec = _with(spec, DISTRIBUTION, RawMap(items))
    cluster = spec.raw.get(CLUSTER)
    pe = cluster.get("pe") if isinstance(cluster, RawMap) else None
    name = pe.get("arch") if isinstance(pe, RawMap) else None
    if not isinstance(name, RawScalar) or spec.raw.get("arch") is not None:
        return spec
    arch = arch_of_pes(root, str(name.value), place(spec.raw, (CLUSTER, "pe", "arch")))
    whole = combined(spec, arch)
    for key in (CLUSTER, DISTRIBUTION):
        section = spec.raw.get(key)
        if section is not None:
            whole = _with(whole, key, section)
    return whole


def _with(spec: Spec, key: str, section: Raw) -> Spec:
    changed = set_value(spec.raw, (key,), section)
    assert isinstance(changed, RawMap)
    return replace(spec, raw=changed)


def _outcome(planning: Planning, best: Best, chosen: ChosenPlan) -> Outcome:
    cluster, plan = planning.request.cluster, chosen.plan
    cost = plan_cost(plan, cluster, chosen.bits)
    energies = _sums(best, chosen, ClusterCost(cluster, "energy"))
    return Outcome(
        DONE,
        reason="proven least" if chosen.proven else f"not proven least; the bound is {chosen.bound:g}",
        energy=sum(energies.values()) or None,  # a cluster without energies
        latency=float(cost.latency),
        optimal=chosen.proven,
        lower_bound=float(chosen.bound),
        sent_bytes=float(chosen.sent_bytes),
        peak_memory=float(chosen.peak.bytes),
        processing_elements=plan.mesh.n_devices,
        energy_by_component=energies if any(energies.values()) else {},
        seconds_by_step=_sums(best, chosen, ClusterCost(cluster, "time")),
        mapping=distribution_text(chosen),
    )


def _sums(best: Best, chosen: ChosenPlan, model: ClusterCost) -> dict[str, float]:
    """Costs of the steps by kind of step."""
    sums: dict[str, float] = {}
    for part in parts_of(best.space, chosen, model):
        added = 0.0 if part.what.startswith("computing") else PER_MOVE  # tells equal plans apart, and costs nothing
        sums[part.what] = sums.get(part.what, 0.0) + max(part.cost - added, 0.0)
    return sums
