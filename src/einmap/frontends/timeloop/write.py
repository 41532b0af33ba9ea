"""A specification as Timeloop's files (version 0.4)."""

from __future__ import annotations

from einmap.errors import SpecError
from einmap.frontends.timeloop.values import Report
from einmap.frontends.timeloop.write_problem import write_problem
from einmap.frontends.translation import Translation
from einmap.frontends.yaml.dump import to_yaml
from einmap.spec.raw import RawMap
from einmap.spec.spec import Spec


def write(spec: Spec) -> Translation:
    """problem.yaml of a specification with one Einsum. Raises SpecError for what Timeloop has no problem for."""
    report = Report()
    workload = spec.workload
    if len(workload.einsums) != 1:
        raise SpecError(
            f"the workload has {len(workload.einsums)} Einsums, Timeloop's problem is one",
            at=spec.provenance("workload.einsums"),
            hint=f"write one of them into a workload of its own: {', '.join(workload.einsum_names[:20])}",
        )
    problem = write_problem(workload.einsums[0], report, spec.provenance("workload.einsums[0]"))
    texts = {"problem.yaml": to_yaml(RawMap((("problem", problem.raw),)))}
    return Translation(texts, tuple(report.left_out), tuple(report.notes))
