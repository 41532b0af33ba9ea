"""`einmap examples`: the shipped specifications."""

from __future__ import annotations

from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from einmap.cli.options import flag, group, option
from einmap.cli.output import print_report
from einmap.cli.writing.target import Target
from einmap.errors import At, EinmapError, SpecError, raise_all
from einmap.frontends.files import read_text_file
from einmap.frontends.yaml.spec import SPEC_KINDS, example_paths
from einmap.matmul.machine.read_machine import KIND
from einmap.report.text.layout import Table, laid_out, section
from einmap.sweep.definition.read import KIND as SWEEPS


@group
class Options:
    """Examples to list or to copy."""

    copy: Path | None = option("DIR", "Write the files into DIR, to change them.")
    features: bool = flag("List which features the mapper does not search together yet.")


def examples_command(options: Options) -> None:
    """List the shipped architectures, workloads, mappings, machines, sweeps, ...; their names stand for files.

    Example: einmap examples --copy my_specs
    """
    if options.features:
        print_report(unknown_pairs())
    elif options.copy is None:
        print_report(listing())
    else:
        print_report(Text("\n".join(copy_examples(options.copy)), overflow="fold"))


def unknown_pairs() -> RenderableType:
    """Pairs that the mapper does not search together, and why."""
    from einmap.mapper.capabilities import FEATURES, REFUSED_LATER, UNKNOWN  # here: names of examples need no mapper

    texts = [(FEATURES[r.feature].words, FEATURES[r.other].words, r.why) for r in (*UNKNOWN, *REFUSED_LATER)]
    return laid_out(Table(("feature", "not yet with", "why"), texts, left=range(3)))


def listing() -> RenderableType:
    """All names by kind, each with the first comment line of its file."""
    parts: list[RenderableType] = []
    for kind, names in _by_kind().items():
        texts = [(name, first_comment(read_text_file(path))) for name, path in names.items()]
        parts += [section(kind, Table(("", ""), texts, left=range(2), whole=(0,))), Text("")]
    return Group(*parts, Text("Try: einmap evaluate simple matmul simple_matmul"))


def first_comment(text: str) -> str:
    """The first line of `text` without its `#`; `...` where the sentence goes on."""
    line = text.partition("\n")[0].lstrip("# ").rstrip()
    return line if line.endswith((".", "!")) else f"{line} ..."


def copy_examples(folder: Path) -> list[str]:
    """Write all examples into `folder`, or nothing where a different file is in the way."""
    texts = {
        folder / kind / path.name: read_text_file(path) for kind, names in _by_kind().items() for path in names.values()
    }
    problems: list[EinmapError] = [
        SpecError("a different file is there already", at=At(str(path)), hint="choose another directory")
        for path, text in texts.items()
        if _is_taken(path, text)
    ]
    raise_all(problems)
    for path, text in texts.items():
        _make_folder(path.parent)
        if not path.exists():  # what is there is the same text
            Target(path).write(text)
    return [f"wrote {path}" for path in texts]


def _by_kind() -> dict[str, dict[str, Path]]:
    paths: dict[str, dict[str, Path]] = {}
    for name, path in example_paths((*SPEC_KINDS, KIND, SWEEPS)).items():
        paths.setdefault(path.parent.name, {})[name] = path
    return paths


def _is_taken(path: Path, text: str) -> bool:
    try:
        return path.exists() and (not path.is_file() or read_text_file(path) != text)
    except EinmapError:
        return True


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SpecError(f"cannot make the directory: {reason}", at=At(str(folder))) from error
