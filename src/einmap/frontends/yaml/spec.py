"""load(): files in, a Spec out; the shipped examples by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import cast

from einmap.errors import SpecError
from einmap.frontends.files import exists
from einmap.frontends.yaml.dump import to_yaml
from einmap.frontends.yaml.load import read_files, read_text
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.spec.loop_tree import write_mapping
from einmap.spec.raw import RawMap
from einmap.spec.spec import Spec


def load(
    *paths: str | Path | Sequence[str | Path],
    define: Mapping[str, object] | None = None,
) -> Spec:
    """Read one specification from several YAML files; each gives some of the top-level keys.

    `define`: values of template variables (`{{ N }}`). A path may also be the name of a shipped example
    (`tpu_v4i`, see `example_paths`) when no such file exists. Nothing in a file is executed.

    Raises SpecError (several problems together) with file, line, what was found and what was expected.
    """
    raw, notes = read_files(*(_resolve(p) for p in _flat(paths)), define=define)
    return Spec(raw, notes)


def loads(text: str, define: Mapping[str, object] | None = None) -> Spec:
    """The same from a text."""
    if not isinstance(text, str):
        raise SpecError(f"expected YAML text, found {text!r}", hint="use Spec.from_dict for data")
    raw, notes = read_text(text, define=define)
    return Spec(raw, notes)


def dump_mapping(mapping: LoopTree) -> str:
    """A LoopTree as YAML text with the key `mapping`; loading it gives the same LoopTree."""
    return to_yaml(RawMap((("mapping", write_mapping(mapping)),)))


def dump(spec: Spec, dialect: str | None = None) -> str:
    """A specification as YAML text with tags: `loads(dump(spec)) == spec`.

    Templates and merges are written as what they gave, names of examples as their content. With a
    `dialect` (`older` or `newer`) the architecture is written in its words, see `Spec.in_dialect`; costs
    stay the same. Raises SpecError for what that dialect cannot express.
    """
    return to_yaml((spec if dialect is None else spec.in_dialect(dialect)).raw)


def _flat(paths: Sequence[str | Path | Sequence[str | Path]]) -> list[str | Path]:
    found: list[str | Path] = []
    for path in paths:
        found += path if isinstance(path, list | tuple) else [cast(str | Path, path)]
    for one in found:
        if not isinstance(one, str | Path):
            raise SpecError(f"a path is a text or a pathlib.Path, found {one!r}", hint="use Spec.from_dict for data")
    return found


def _resolve(path: str | Path) -> str | Path:
    if isinstance(path, str) and not exists(path):
        return example_paths().get(path, path)
    return path


def example_paths() -> dict[str, Path]:
    """The shipped specifications by name: `arches`, `workloads` and `mappings`."""
    root = Path(str(resources.files("einmap") / "examples"))
    return {
        path.stem: path for kind in ("arches", "workloads", "mappings") for path in sorted((root / kind).glob("*.yaml"))
    }
