"""A specification as Timeloop's files (version 0.4), and its Einsum as their problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.gather import refuse_gathers
from einmap.einsum.operation import product_of
from einmap.errors import At, SpecError
from einmap.frontends.foreign import Report, Translation
from einmap.frontends.timeloop.write_arch import VERSION, write_arch
from einmap.frontends.timeloop.write_mapping import write_mapping
from einmap.frontends.yaml.dump import to_yaml
from einmap.mapping.nodes import Compute
from einmap.mapping.validate import validate
from einmap.spec.raw import Raw, RawMap, from_python
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


@dataclass(frozen=True, slots=True)
class WrittenProblem:
    """The section `problem`, and the names that mappings and constraints use: `dimensions` by rank variable."""

    raw: Raw
    dimensions: Mapping[str, str]


def write_problem(einsum: Einsum, report: Report, at: At | None) -> WrittenProblem:
    """The problem of one Einsum. Raises SpecError for what Timeloop has no problem for."""
    if einsum.cuts or einsum.first_values:
        text = f"the iteration space of {einsum.name} is not a box from 0, which Timeloop's problems are"
        raise SpecError(text, at=at)
    if len(einsum.outputs) != 1:
        raise SpecError(f"the Einsum {einsum.name} has {len(einsum.outputs)} outputs, a problem has one", at=at)
    product = product_of([a.tensor for a in einsum.accesses if not a.output])
    if (einsum.operation.map, einsum.operation.reduction) != (product.map, product.reduction):
        report.leave(at, str(einsum.operation), "Timeloop's problems are sums of products; counts do not depend on it")
    if einsum.is_copy:
        report.leave(at, "is_copy_operation", "Timeloop computes at each point, a copy moves values alone")
    if einsum.part is not None:
        report.leave(at, "part", "Timeloop's problems have no parts of a training step; counts do not depend on it")
    dimensions = _dimensions(einsum)
    coefficients: dict[int, str] = {}
    refuse_gathers((einsum,), "a problem of Timeloop", lambda _: at)
    spaces = [_space(access, einsum, dimensions, coefficients, report, at) for access in einsum.accesses]
    shape = {
        "name": einsum.name,
        "dimensions": list(dimensions.values()),
        "coefficients": [{"name": name, "default": value} for value, name in coefficients.items()],
        "data_spaces": spaces,
    }
    if not coefficients:
        del shape["coefficients"]
    instance = {dimensions[v]: bound for v, bound in einsum.bounds}
    return WrittenProblem(from_python({"version": VERSION, "shape": shape, "instance": instance}), dimensions)


def _dimensions(einsum: Einsum) -> dict[str, str]:
    """Names of dimensions by rank variable: in capitals, as Timeloop's files have them."""
    names = {v: v.upper() for v in einsum.rank_variables}
    return names if len(set(names.values())) == len(names) else {v: v for v in names}


def _space(
    access: TensorAccess,
    einsum: Einsum,
    dimensions: Mapping[str, str],
    coefficients: dict[int, str],
    report: Report,
    at: At | None,
) -> dict[str, object]:
    projection: list[list[list[str]]] = []
    for rank, index in access.projection:
        terms: list[list[str]] = []
        for variable, factor in index.terms:
            if factor < 0:
                text = f"the index {rank} of {access.tensor} in {einsum.name} counts backwards: {index}"
                raise SpecError(text, at=at, hint="Timeloop's coefficients are positive")
            name = dimensions[variable]
            if factor != 1:
                coefficients.setdefault(factor, f"Times{factor}")
            terms.append([name] if factor == 1 else [name, coefficients[factor]])
        if index.constant:
            reason = "a problem has no offsets; counts are those without"
            report.leave(at, f"{access.tensor}[{rank}: {index}]", reason)
        if terms:
            projection.append(terms)
    space: dict[str, object] = {"name": access.tensor, "projection": projection}
    return space | {"read_write": True} if access.output else space
