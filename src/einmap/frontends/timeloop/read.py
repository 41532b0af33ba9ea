"""Timeloop's files in: what workload.yaml, architecture.yaml and mapping.yaml say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from einmap.errors import At, SpecError
from einmap.frontends.timeloop.problem import read_problem
from einmap.frontends.timeloop.sections import read_sections
from einmap.frontends.timeloop.values import Report
from einmap.frontends.translation import Translation
from einmap.frontends.yaml.dump import to_yaml

BITS = 8
"""Bits of a value where no component says so."""
KNOWN = ("problem", "variables")


def read(
    files: Sequence[Path], *, define: Mapping[str, object], root: Sequence[Path] = (), bits: int | None = None
) -> Translation:
    """What the problem in `files` is here: workload.yaml. Raises SpecError with the place of what is wrong."""
    report = Report()
    sections = read_sections(files, define, root, report, KNOWN)
    raw = sections.one("problem")
    if raw is None:
        at = At(str(files[0])) if files else None
        raise SpecError("no file has a section that is read", at=at, hint="sections: problem")
    problem = read_problem(raw, sections.scope, report)
    texts = {"workload.yaml": to_yaml(problem.raw(bits or BITS))}
    return Translation(texts, tuple(report.left_out), tuple(report.notes))
