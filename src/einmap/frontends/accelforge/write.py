"""A specification -> workload.yaml, architecture.yaml and mapping.yaml of AccelForge 1.0.467."""

from __future__ import annotations

from einmap.errors import SpecError
from einmap.frontends.accelforge.architecture import write_arch
from einmap.frontends.accelforge.loop_tree import common_names, write_nodes
from einmap.frontends.accelforge.workload import write_einsums
from einmap.frontends.foreign import Report, Translation
from einmap.frontends.yaml.dump import to_yaml
from einmap.spec.raw import Raw, RawMap, from_python
from einmap.spec.spec import Spec

_OWN_SECTIONS = {
    "mapper": "options of the mapper are those of a call there",
    "model": "AccelForge counts as `--semantics accelforge` does",
    "config": "settings of einmap",
    "distribution": "there is one chip",
    "given": "a partly given mapping has no counterpart",
}


def write(spec: Spec) -> Translation:
    """The sections of `spec` that AccelForge has, one file each; what it cannot say is left out by name.

    Numbers are those that einmap has: costs of component models, sizes and widths are evaluated. Sets stay expressions.
    Raises SpecError for what would mean something else there.
    """
    raw = spec.raw
    if raw.get("workload") is None and raw.get("arch") is None:
        raise SpecError("there is neither a workload nor an architecture to write")
    report = Report()
    for key, reason in _OWN_SECTIONS.items():
        section = raw.get(key)
        if section is not None and not (isinstance(section, RawMap) and not section.items):
            report.leave(raw.place_of(key), key, reason)
    texts: dict[str, str] = {}
    has_workload = raw.get("workload") is not None
    tree = spec.mapping if has_workload else None
    names = common_names(spec, tree) if tree is not None else {}
    if has_workload:
        spec.refuse_recurrences("AccelForge 1.0.467")
        spec.refuse_sparsity("AccelForge 1.0.467")
        texts["workload.yaml"] = _text({"workload": from_python(write_einsums(spec, names, report))})
    if raw.get("arch") is not None:
        newer = spec.in_dialect("newer")
        sections: dict[str, Raw] = {"arch": write_arch(newer, report)}
        variables = newer.raw.get("variables")
        if variables is not None:
            sections = {"variables": variables, **sections}
        texts["architecture.yaml"] = _text(sections)
    if tree is not None:
        texts["mapping.yaml"] = _text({"mapping": write_nodes(spec, tree, names, report)})
    return report.translation(texts)


def _text(sections: dict[str, Raw]) -> str:
    return f"# for AccelForge 1.0.467, written by einmap\n{to_yaml(RawMap(tuple(sections.items())))}"
