"""Files to one raw tree: find the files, render, parse, and join their top-level keys."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path

from einmap.errors import At, EinmapError, ManyErrors, Note, SpecError, closest, did_you_mean, raise_all
from einmap.frontends.files import reading
from einmap.frontends.yaml.folders import FolderNames, Roots
from einmap.frontends.yaml.include import Documents
from einmap.spec.raw import Raw, RawList, RawMap, RawScalar

TOP_LEVEL_KEYS = (
    *("arch", "workload", "renames", "sparsity", "mapping", "variables", "mapper", "model", "config"),
    *("distribution", "cluster"),
)

MODELS = {
    ".onnx": ("einmap.frontends.onnx.read", "read_onnx"),
    ".pt2": ("einmap.frontends.torch.read", "read_torch"),
    ".tflite": ("einmap.frontends.tflite.read", "read_tflite"),
}
"""Models, by the end of a file's name: the module and function that give the workload."""
MISSPELT = 2
"""Letters by which a misspelt key may be longer or shorter."""

type FilePath = str | Path
type Keys = str | Sequence[str]
type Loaded = tuple[RawMap, tuple[Note, ...]]


@dataclass(frozen=True, slots=True)
class _Document:
    """The top level of one file: its keys that count, in written order."""

    file: str
    entries: tuple[tuple[str, Raw, At | None], ...]
    notes: tuple[Note, ...] = ()


def read_files(
    *paths: FilePath | Sequence[FilePath],
    define: Mapping[str, object] | None = None,
    top_key: Keys | None = None,
    root: FolderNames = (),
) -> Loaded:
    """The specification in `paths` as one tree, with notes on what was dropped.

    A path may be a glob pattern or a list of paths; a file reached twice is read once. Where two files
    give one top-level key, the first file wins. Keys that start with `_` or `x-`, or whose value has an
    anchor, are left out: they are places for anchors. With `top_key` only the values of these keys count: sections
    such as `arch`, or one that holds a whole specification. `root`: folders from which files may be included, beside
    those of the files. Raises SpecError, or ManyErrors with the problems of all files.
    """
    problems: list[EinmapError] = []
    files = matching_files(paths, problems)
    documents = Documents(define or {}, Roots.of(files, root))
    tops = [
        top for path in files if (top := _collect(problems, partial(_read_file, documents, path, top_key))) is not None
    ]
    raise_all(problems)
    return _loaded(tops, top_key, documents)


def read_text(
    text: str, name: str = "<text>", define: Mapping[str, object] | None = None, top_key: Keys | None = None
) -> Loaded:
    """The specification in `text`; `name` stands for the file in messages."""
    documents = Documents(define or {})
    return _loaded([_top_level(documents.text(text, name), name, documents, top_key)], top_key, documents)


def _loaded(tops: list[_Document], top_key: Keys | None, documents: Documents) -> Loaded:
    tree, notes = _joined(tops)
    if top_key is not None:
        tree = _sections(tree, _keys(top_key), [top.file for top in tops])
    # who reads several specifications with the same values says himself what none of them asks for
    unused = [name for name in documents.define if name not in documents.names and reading() is None]
    return tree, (*notes, *(Note(f"{name} is defined, but no file has a template variable {name}") for name in unused))


def _keys(top_key: Keys | None) -> tuple[str, ...]:
    if top_key is None or isinstance(top_key, str):
        return () if top_key is None else (top_key,)
    return tuple(dict.fromkeys(top_key))


def _sections(tree: RawMap, keys: tuple[str, ...], files: list[str]) -> RawMap:
    """Tree below `keys`: with the names of sections, a specification of these sections alone."""
    values = {key: _value_of(key, tree, files) for key in keys}
    other = [key for key in keys if key not in TOP_LEVEL_KEYS]
    if len(keys) == 1 and other:
        return _whole(other[0], values[other[0]])
    if other or not keys:
        hint = f"several keys name sections: {', '.join(TOP_LEVEL_KEYS)}"
        raise SpecError(f"{other[0]!r} (top_key) is not a section" if other else "top_key names no key", hint=hint)
    return RawMap(tuple(values.items()), at=tree.at, key_at=tuple(tree.place_of(key) for key in keys))


def _value_of(key: str, tree: RawMap, files: list[str]) -> Raw:
    value = tree.get(key)
    if value is None:
        hint = did_you_mean(key, tree.keys(), listing="keys there")
        raise SpecError(f"the key {key!r} (top_key) is not in {', '.join(files)}", hint=hint)
    return value


def _whole(key: str, value: Raw) -> RawMap:
    if not isinstance(value, RawMap) or value.tag is not None:
        raise SpecError(f"below top_key {key!r} must be a dictionary, but it is {_kind(value)}", at=value.at)
    section = _counting_part(value)
    raise_all([_unknown(name, section) for name, _ in section.items if name not in TOP_LEVEL_KEYS])
    return section


def _collect[T](problems: list[EinmapError], read: Callable[[], T]) -> T | None:
    try:
        return read()
    except ManyErrors as error:
        problems.extend(error.problems)
    except SpecError as error:
        problems.append(error)
    return None


def matching_files(paths: Iterable[FilePath | Sequence[FilePath]], problems: list[EinmapError]) -> list[Path]:
    """All matching files, each once, in the given order; `problems` takes what is wrong with a path."""
    flat = [file_path for path in paths for file_path in ([path] if isinstance(path, str | Path) else path)]
    if not flat:
        problems.append(SpecError("no files are given", hint="name at least one file"))
    files: dict[Path, Path] = {}
    for path in flat:
        for file in _collect(problems, partial(_matching, Path(path))) or ():
            files.setdefault(file.resolve(), file)
    return list(files.values())


def _matching(pattern: Path) -> list[Path]:
    if "\0" in str(pattern):
        raise SpecError(f"{str(pattern)!r} is not a usable path")
    try:
        if pattern.exists():
            return [pattern]
        # Path.glob takes no absolute patterns.
        matches = [Path(match) for match in sorted(glob.glob(str(pattern), recursive=True))]  # noqa: PTH207
    except OSError as error:
        raise SpecError(f"{str(pattern)!r} is not a usable path: {error}") from error
    if files := [match for match in matches if match.is_file()]:
        return files
    raise _no_file(pattern)


def _no_file(pattern: Path) -> SpecError:
    folder = pattern.parent.absolute()
    if not folder.is_dir():
        return SpecError(f"no file matches {str(pattern)!r}: the directory {folder} does not exist")
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    except OSError:
        names = []
    guess = closest(pattern.name, names)
    listing = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    hint = (f"did you mean {guess!r}? " if guess else "") + f"files there: {listing or 'none'}"
    return SpecError(f"no file matches {str(pattern)!r}, searched in {folder}", hint=hint)


def _read_file(documents: Documents, path: Path, top_key: Keys | None) -> _Document:
    if path.suffix.lower() in MODELS:
        return _read_model(documents, path)
    return _top_level(documents.file(path), str(path), documents, top_key)


def _read_model(documents: Documents, path: Path) -> _Document:
    """A model gives the workload; its open dimensions are set as template variables are."""
    module, name = MODELS[path.suffix.lower()]
    model, dimensions = getattr(import_module(module), name)(path, documents.define)
    documents.names.update(dimensions)
    entries = tuple((key, value, At(str(path))) for key, value in model.spec.raw.items)
    return _Document(str(path), entries, model.notes)


def _top_level(raw: Raw, file: str, documents: Documents, top_key: Keys | None) -> _Document:
    """The entries that count. With `top_key` a file may have keys of any name beside it."""
    top = _counting_part(_dictionary(raw, file), _keys(top_key))
    if top_key is None:
        if top.keys() == ("spec",) and isinstance(inner := top.get("spec"), RawMap):
            top = _counting_part(inner)
        top = _without_anchored(top, documents.anchored.get(file, {}))
        raise_all([_unknown(key, top) for key, _ in top.items if key not in TOP_LEVEL_KEYS])
    return _Document(file, tuple((key, value, top.place_of(key)) for key, value in top.items))


def _dictionary(raw: Raw, file: str) -> RawMap:
    if isinstance(raw, RawMap) and raw.tag is None:
        return raw
    hint = f"start with one of the keys {', '.join(TOP_LEVEL_KEYS)}, each followed by a colon"
    if isinstance(raw, RawMap):
        hint = f"include it in a specification, where the node belongs: nodes: [!include {Path(file).name}, ...]"
        text = f"this file is a single node, !{raw.tag}, and not a specification with keys such as arch and workload"
        raise SpecError(text, at=raw.at or At(file), hint=hint)
    raise SpecError(f"the top level must be a dictionary, but it is {_kind(raw)}", at=raw.at or At(file), hint=hint)


def _kind(raw: Raw) -> str:
    match raw:
        case RawMap(tag=tag):
            return f"a dictionary with the tag !{tag}" if tag else "a dictionary"
        case RawList():
            return "a list"
        case RawScalar(value=None):
            return "empty"
        case RawScalar(value=value):
            return repr(value) if len(repr(value)) < 40 else repr(value)[:40] + "..."


def _counting_part(top: RawMap, also: tuple[str, ...] = ()) -> RawMap:
    """The document without the keys that only carry anchors; those in `also` stay."""
    return _kept(top, [key for key, _ in top.items if key in also or not key.startswith(("_", "x-"))])


def _without_anchored(top: RawMap, anchored: Mapping[str, bool]) -> RawMap:
    """The document without unknown keys that stand there for the anchor of their value.

    One that nothing refers to is kept where its name is a valid one but for a letter or two: it is probably misspelt.
    """
    carriers = {key for key, is_used in anchored.items() if is_used or not _is_misspelt(key)}
    return _kept(top, [key for key, _ in top.items if key in TOP_LEVEL_KEYS or key not in carriers])


def _is_misspelt(key: str) -> bool:
    guess = closest(key, TOP_LEVEL_KEYS)
    return guess is not None and abs(len(guess) - len(key)) <= MISSPELT


def _kept(top: RawMap, keys: list[str]) -> RawMap:
    items = tuple((key, value) for key, value in top.items if key in keys)
    return replace(top, items=items, key_at=tuple(top.place_of(key) for key, _ in items))


def _unknown(key: str, top: RawMap) -> SpecError:
    hint = did_you_mean(key, TOP_LEVEL_KEYS, listing="valid keys")
    hint += "; keys that only carry anchors start with x- or _, or have the anchor at their value"
    return SpecError(f"unknown top-level key {key!r}", at=top.place_of(key), hint=hint)


def _joined(documents: list[_Document]) -> Loaded:
    """One dictionary of all top-level keys; the first file that gives a key wins."""
    entries: dict[str, tuple[Raw, At | None, str]] = {}
    notes: list[Note] = []
    for document in documents:
        notes += document.notes
        for key, value, at in document.entries:
            first, _, file = entries.setdefault(key, (value, at, document.file))
            if first != value:
                text = f"the key {key!r} is given in {file} and in {document.file}; {file} is used"
                notes.append(Note(text, at))
    items = tuple((key, value) for key, (value, _, _) in entries.items())
    tree = RawMap(items, at=At(documents[0].file), key_at=tuple(at for _, at, _ in entries.values()))
    return tree, tuple(notes)
