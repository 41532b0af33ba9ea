"""Surroundings of a template: everything that it sees beside its variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from einmap.frontends.yaml.folders import Roots
from einmap.frontends.yaml.parsing.work import Work


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Surroundings of a template: everything that it sees beside its variables.

    `path` is the file that it is, without links (None for a text): Jinja's own includes are relative to it.
    `including` are functions whose first argument is the variables of the template that calls them.
    """

    path: Path | None
    roots: Roots
    work: Work
    functions: Mapping[str, Callable[..., object]]
    including: Mapping[str, Callable[..., object]]
