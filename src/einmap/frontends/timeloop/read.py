"""Timeloop's files in: what workload.yaml, architecture.yaml and mapping.yaml say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from einmap.errors import At, Note, SpecError
from einmap.frontends.foreign import Report, Translation, named
from einmap.frontends.timeloop.architecture import Design, Machine, machine_of
from einmap.frontends.timeloop.components import SECTIONS as CLASSES
from einmap.frontends.timeloop.components import Energies, read_classes, read_energies
from einmap.frontends.timeloop.constraints import SECTIONS, constraint_lists, inside
from einmap.frontends.timeloop.levels import read_levels, read_storage_list
from einmap.frontends.timeloop.mapping import Nest, read_mapping
from einmap.frontends.timeloop.problem import Problem, read_problem
from einmap.frontends.timeloop.sections import Sections, read_sections
from einmap.frontends.timeloop.sparse import packs, read_sparse, reading, targets_of
from einmap.frontends.yaml.dump import to_yaml
from einmap.spec.raw import Raw, RawMap

BITS = 8
"""Bits of a value where no component says so."""
MAIN = ("problem", "architecture", "arch", "mapping")
KNOWN = (*MAIN, "variables", "sparse_optimizations", "ERT", *SECTIONS, *CLASSES)


def read(
    files: Sequence[Path], *, define: Mapping[str, object], root: Sequence[Path] = (), bits: int | None = None
) -> Translation:
    """Translation of `files`: workload.yaml, architecture.yaml and mapping.yaml, those that they have sections for.

    `define`: values of template variables. `bits`: of every value, in the place of what components say.
    Raises SpecError with the place of what is wrong.
    """
    report = Report()
    sections = read_sections(files, define, root, report, KNOWN)
    if not any(sections.one(name) for name in MAIN):
        at = At(str(files[0])) if files else None
        raise SpecError("no file has a section that is read", at=at, hint=f"sections: {', '.join(MAIN)}")
    problem_raw = sections.one("problem")
    problem = None if problem_raw is None else read_problem(problem_raw, sections.scope, report)
    energies = read_energies(sections.entries.get("ERT", ()), sections.scope, report)
    machine = _machine(sections, problem, energies, report, _lanes(sections, problem, energies))
    texts: dict[str, str] = {}
    if problem is not None:
        texts["workload.yaml"] = to_yaml(problem.raw(bits or (machine.bits if machine else BITS)))
    if machine is not None:
        texts["architecture.yaml"] = to_yaml(machine.raw)
    nest: Nest | None = None
    if (mapping := sections.one("mapping")) is not None:
        if problem is None or machine is None:
            missing = "problem" if problem is None else "architecture"
            text = f"a mapping is read together with its {missing}, which no file has"
            raise SpecError(text, at=named(mapping.at, "mapping"), hint=f"name the file with the {missing}, too")
        nest = read_mapping(mapping, machine, problem, report, sections.scope)
        texts["mapping.yaml"] = to_yaml(nest.raw)
    optimizations = sections.entries.get("sparse_optimizations", ())
    if problem is not None and machine is not None:
        architecture = sections.one("architecture")
        is_newer = isinstance(architecture, RawMap) and architecture.get("nodes") is not None
        beside = reading(sections.scope, report, energies, is_newer=is_newer)
        targets = list(targets_of(machine, optimizations))
        if (sparsity := read_sparse(targets, problem, machine, nest, beside)) is not None:
            texts["sparsity.yaml"] = to_yaml(sparsity)
    else:
        _leave_zeros(problem, machine, optimizations, report)
    return report.translation(texts)


def _lanes(sections: Sections, problem: Problem | None, energies: Energies) -> Mapping[str, tuple[int, int]]:
    """Lanes of fanouts on which a mapping packs more than their copies, where zeros leave some free."""
    mapping, scratch = sections.one("mapping"), Report()
    if mapping is None or problem is None:
        return {}
    optimizations = sections.entries.get("sparse_optimizations", ())
    machine = _machine(sections, problem, energies, scratch, {})
    if machine is None or not packs(list(targets_of(machine, optimizations))):
        return {}
    return read_mapping(mapping, replace(machine, packs=True), problem, scratch, sections.scope).widened


def _leave_zeros(problem: Problem | None, machine: Machine | None, sections: Sequence[Raw], report: Report) -> None:
    """Leave out zeros where either the problem or the architecture is missing."""
    reason = "it is read where files give a problem and an architecture"
    at = [raw.at for raw in sections]
    at += [level.sparse.at for level in (machine.levels if machine else ()) if level.sparse is not None]
    for place in at:
        report.leave(place, "sparse_optimizations", reason)
    for raw in problem.densities.values() if problem else ():
        report.leave(raw.at, "densities", reason)


def _machine(
    sections: Sections,
    problem: Problem | None,
    energies: Energies,
    report: Report,
    lanes: Mapping[str, tuple[int, int]],
) -> Machine | None:
    """The architecture; `lanes`: copies along X and Y of fanouts that are given more than the files say."""
    newer, oldest = sections.one("architecture"), sections.one("arch")
    if newer is not None and oldest is not None:
        raise SpecError("two architectures are given", at=named(oldest.at, "arch"), hint="name the files of one design")
    if newer is not None:
        levels = read_levels(newer, report, sections.scope, sections.defaults)
    elif oldest is not None:
        levels = read_storage_list(oldest, report, sections.scope)
    else:
        return None
    for level in levels:
        if level.name in lanes:
            (x, y), (columns, rows) = lanes[level.name], level.fanout
            text = f"{level.name} has {x} x {y} lanes, whose nonzeros hardware packs into {columns} x {rows}"
            report.notes.append(Note(text, at=level.at, kind="advice"))
    levels = tuple(replace(level, fanout=lanes.get(level.name, level.fanout)) for level in levels)
    constraints = [
        directive
        for level in levels
        for section in level.constraints
        for directive in inside(level.targets[0], section, report)
    ]
    constraints += constraint_lists(sections.entries, report)
    design = Design(levels, read_classes(sections.entries, report), constraints, sections.scope, energies)
    return machine_of(design, problem, report)
