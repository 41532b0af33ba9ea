"""Timeloop's files in: what workload.yaml, architecture.yaml and mapping.yaml say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from einmap.errors import At, SpecError
from einmap.frontends.foreign import Report, Translation, named
from einmap.frontends.timeloop.architecture import Design, Machine, machine_of
from einmap.frontends.timeloop.components import SECTIONS as CLASSES
from einmap.frontends.timeloop.components import read_classes
from einmap.frontends.timeloop.constraints import SECTIONS, constraint_lists, inside
from einmap.frontends.timeloop.levels import read_levels, read_storage_list
from einmap.frontends.timeloop.mapping import read_mapping
from einmap.frontends.timeloop.problem import Problem, read_problem
from einmap.frontends.timeloop.sections import Sections, read_sections
from einmap.frontends.yaml.dump import to_yaml

BITS = 8
"""Bits of a value where no component says so."""
MAIN = ("problem", "architecture", "arch", "mapping")
KNOWN = (*MAIN, "variables", *SECTIONS, *CLASSES)


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
    machine = _machine(sections, problem, report)
    texts: dict[str, str] = {}
    if problem is not None:
        texts["workload.yaml"] = to_yaml(problem.raw(bits or (machine.bits if machine else BITS)))
    if machine is not None:
        texts["architecture.yaml"] = to_yaml(machine.raw)
    if (mapping := sections.one("mapping")) is not None:
        if problem is None or machine is None:
            missing = "problem" if problem is None else "architecture"
            text = f"a mapping is read together with its {missing}, which no file has"
            raise SpecError(text, at=named(mapping.at, "mapping"), hint=f"name the file with the {missing}, too")
        texts["mapping.yaml"] = to_yaml(read_mapping(mapping, machine, problem, report, sections.scope))
    return report.translation(texts)


def _machine(sections: Sections, problem: Problem | None, report: Report) -> Machine | None:
    newer, oldest = sections.one("architecture"), sections.one("arch")
    if newer is not None and oldest is not None:
        raise SpecError("two architectures are given", at=named(oldest.at, "arch"), hint="name the files of one design")
    if newer is not None:
        levels = read_levels(newer, report, sections.scope, sections.defaults)
    elif oldest is not None:
        levels = read_storage_list(oldest, report, sections.scope)
    else:
        return None
    constraints = [
        directive
        for level in levels
        for section in level.constraints
        for directive in inside(level.targets[0], section, report)
    ]
    constraints += constraint_lists(sections.entries, report)
    design = Design(levels, read_classes(sections.entries, report), constraints, sections.scope)
    return machine_of(design, problem, report)
