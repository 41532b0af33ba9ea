"""A specification as Timeloop's files (version 0.4)."""

from __future__ import annotations

from einmap.errors import SpecError
from einmap.frontends.foreign import Report, Translation
from einmap.frontends.timeloop.write_arch import write_arch
from einmap.frontends.timeloop.write_mapping import write_mapping
from einmap.frontends.timeloop.write_problem import write_problem
from einmap.frontends.yaml.dump import to_yaml
from einmap.mapping.nodes import Compute
from einmap.mapping.validate import validate
from einmap.spec.raw import Raw, RawMap
from einmap.spec.spec import Spec


def write(spec: Spec) -> Translation:
    """problem.yaml, architecture.yaml and mapping.yaml of a specification with one Einsum, those that it has parts for.

    Raises SpecError (NotSupportedError) with the place of what Timeloop's files cannot say.
    """
    report = Report()
    workload = spec.workload
    if len(workload.einsums) != 1:
        raise SpecError(
            f"the workload has {len(workload.einsums)} Einsums, Timeloop's problem is one",
            at=spec.provenance("workload.einsums"),
            hint=f"write one of them into a workload of its own: {', '.join(workload.einsum_names[:20])}",
        )
    if (times := workload.n_instances * workload.einsums[0].n_instances) > 1:
        at = spec.provenance("workload.einsums[0]")
        report.leave(at, "n_instances", f"a problem is done once, this Einsum {times} times")
    if spec.sparsity:
        report.leave(spec.provenance("sparsity"), "sparsity", "all tensors are written as dense")
    problem = write_problem(workload.einsums[0], report, spec.provenance("workload.einsums[0]"))
    texts = {"problem.yaml": _section("problem", problem.raw)}
    if spec.raw.get("arch") is not None:
        if spec.mapping is not None:
            validate(spec.mapping, workload, spec.archs, spec.place_of_node, workload.by_name)
        arch = write_arch(spec, _compute(spec), problem.dimensions, report)
        texts["architecture.yaml"] = _section("architecture", arch.raw)
        if spec.mapping is not None:
            texts["mapping.yaml"] = _section("mapping", write_mapping(spec, arch.axes, problem.dimensions, report))
    return report.translation(texts)


def _section(name: str, raw: Raw) -> str:
    return to_yaml(RawMap(((name, raw),)))


def _compute(spec: Spec) -> str:
    """The compute unit that the mapping names, or the first one that is enabled. Raises SpecError."""
    einsum = spec.workload.einsums[0].name
    path = spec.mapping.path_of.get(einsum) if spec.mapping is not None else None
    if path is not None and isinstance(path[-1].node, Compute):
        return path[-1].node.component
    units = [unit.name for unit in spec.arch(einsum).computes if unit.enabled]
    if not units:
        raise SpecError(f"no compute unit does the Einsum {einsum}", at=spec.provenance("arch"))
    return units[0]
