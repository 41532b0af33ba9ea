"""A partly given mapping from a YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from einmap.errors import SpecError
from einmap.frontends.files import exists
from einmap.frontends.yaml.folders import FolderNames, Roots
from einmap.frontends.yaml.include import Documents
from einmap.frontends.yaml.spec import example_paths
from einmap.mapping.template import PartialMapping
from einmap.spec.forms.partial_tree import read_given
from einmap.spec.raw import Raw
from einmap.spec.spec import Spec


def load_given(
    path: str | Path, spec: Spec, define: Mapping[str, object] | None = None, root: FolderNames = ()
) -> dict[str, PartialMapping]:
    """Given mapping of each Einsum of the workload; Einsums that the file does not name are free.

    `path` may be the name of a shipped mapping when no such file exists. `define`: values of template variables.
    `root`: folders from which it may include files, beside its own. Raises SpecError or MappingError (several
    problems together) with file and line.
    """
    return read_given(_document(path, define or {}, root), spec.workload)


def _document(path: str | Path, define: Mapping[str, object], root: FolderNames) -> Raw:
    file = Path(path)
    if not exists(path):
        shipped = example_paths().get(str(path))
        if shipped is None:
            raise SpecError(f"there is no file {str(path)!r}", hint="a YAML file with the key given or mapping")
        file = shipped
    return Documents(define, Roots.of([file], root)).file(file)
