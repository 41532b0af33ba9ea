"""Files that include files: by the tags `!include` and `!includedir`, and by the template functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from einmap.errors import SpecError, did_you_mean
from einmap.frontends.files import read_text_file, reading
from einmap.frontends.yaml.folders import NO_ROOTS, IncludePath, Roots
from einmap.frontends.yaml.parsing.parse import parse_part, parse_yaml
from einmap.frontends.yaml.parsing.places import Places
from einmap.frontends.yaml.parsing.work import FILE_STEPS, MAX_INCLUDED, Work
from einmap.frontends.yaml.template.surroundings import Surroundings
from einmap.frontends.yaml.template.values import plain_variables
from einmap.frontends.yaml.templates import Rendered, is_template, render
from einmap.spec.raw import Raw, RawList, RawMap, RawScalar, Step, format_path, get_value, parse_path

# Characters for private use: allowed in YAML, and written by nobody.
_START, _END = "\ue000", "\ue001"
_PLACEHOLDER = re.compile(rf"{_START}([0-9]{{1,9}}){_END}((?:\.|\[)\S*)?")
_ANY_PLACEHOLDER = re.compile(rf"{_START}[0-9]+{_END}")


@dataclass(frozen=True, slots=True)
class Documents:
    """Reads what the user names; templates get the variables `define`. `names` are those that they used.

    `anchored`: for each file the keys of its top level whose value has an anchor, and whether an alias names it.
    """

    define: Mapping[str, object]
    roots: Roots = NO_ROOTS
    names: set[str] = field(default_factory=set)
    anchored: dict[str, dict[str, bool]] = field(default_factory=dict)

    def file(self, path: Path) -> Raw:
        """The document in a file, with all that it includes. Raises SpecError."""
        text = read_text_file(path)
        resolved = path.absolute().parent.resolve() / path.name
        return self._document(self.source(str(path), resolved), str(path), text)

    def text(self, text: str, name: str) -> Raw:
        """The document in a text, which cannot include files."""
        return self._document(self.source(name, None), name, text)

    def _document(self, source: SourceFile, shown: str, text: str) -> Raw:
        return source.document(text, self.anchored.setdefault(shown, {}))

    def source(self, shown: str, path: Path | None) -> SourceFile:
        """The file at `path`, called `shown` in messages, or a text that is not a file."""
        return SourceFile(_Reading(self.roots, self.names), shown, path, plain_variables(self.define))


@dataclass(slots=True)
class _Reading:
    """State that a file shares with all files that it includes.

    `included` is what placeholders stand for. `parsed` are the documents by file and rendered text, each
    with the variables: what a file includes by tag sees them as well.
    """

    roots: Roots
    names: set[str]
    work: Work = field(default_factory=Work)
    included: list[tuple[Raw, str]] = field(default_factory=list)
    parsed: dict[tuple[Path, str], tuple[Mapping[str, object], Raw]] = field(default_factory=dict)


class SourceFile:
    """One file while it is read, with its variables and the files that include it (`chain`)."""

    def __init__(
        self,
        reading: _Reading,
        shown: str,
        path: Path | None,
        define: Mapping[str, object],
        chain: tuple[tuple[Path, str], ...] = (),
    ) -> None:
        self.work = reading.work
        self._reading = reading
        self._shown = shown
        self._path = path
        self._define = define
        self._chain = chain if path is None else (*chain, (path.resolve(), shown))
        self._paths = IncludePath(None if path is None else path.parent, reading.roots, reading.work)

    def document(self, text: str, anchored: dict[str, bool] | None = None) -> Raw:
        """The document in `text`, the content of the file; `anchored` as in `parse_yaml`."""
        rendered = self.rendered(text)
        return parse_yaml(rendered.text, rendered.places, self, anchored)

    def rendered(self, text: str) -> Rendered:
        """`text` without template constructs."""
        if not is_template(text):
            return Rendered(text, Places(self._shown))
        including = {name: self._including(kind) for name, kind in _KINDS.items()}
        around = Surroundings(self._path, self._reading.roots, self.work, self._functions(), including)
        rendered = render(text, self._shown, self._define, around)
        self._reading.names |= rendered.names
        if (noted := reading()) is not None:
            noted.variables |= rendered.names
        return rendered

    # what the parser asks for

    def by_tag(self, tag: str, path: str) -> Raw:
        """The document that `!include` names, or a list of those in the folder that `!includedir` names."""
        here = IncludePath(self._paths.home(), self._reading.roots, self.work)
        if tag == "!includedir":
            return RawList(tuple(self._part(file, "", self._define) for file in here.files(f"{path}/*.yaml")))
        return self._part(_single(here.files(path), path), "", self._define)

    def by_placeholder(self, text: str) -> Raw | None:
        """Tree that a placeholder stands for; `.key` may follow it."""
        if _ANY_PLACEHOLDER.search(text) is None:
            return None
        match = _PLACEHOLDER.fullmatch(text)
        if match is None or int(match[1]) >= len(self._reading.included):
            hint = "let it stand alone as a value, or followed by .key; include_text() gives text"
            raise SpecError("what include() gives is a value and cannot be a part of a text", hint=hint)
        raw, file = self._reading.included[int(match[1])]
        return _part_of(raw, (match[2] or "").removeprefix("."), file)

    # functions of templates

    def _functions(self) -> dict[str, Callable[..., object]]:
        names = ("cwd", "add_to_path", "find_path", "find_paths", "path_exists")
        return {name: getattr(self._paths, name) for name in names}

    def _including(self, include: Callable[[SourceFile, str, str, dict[str, object]], str]) -> Callable[..., str]:
        def function(
            names: dict[str, object], path: str, /, keys: str = "", inherit_parse_data: bool = True, **variables: object
        ) -> str:
            if not isinstance(keys, str):
                raise SpecError(f"keys are a text such as 'arch.nodes', found {keys!r:.40}")
            return include(self, path, keys, (names if inherit_parse_data else {}) | variables)

        return function

    def _include(self, pattern: str, keys: str, define: dict[str, object]) -> str:
        file = _single(self._paths.files(pattern), pattern)
        return self._placeholder(self._part(file, keys, define), self._reading.roots.shown(file))

    def _include_all(self, pattern: str, keys: str, define: dict[str, object]) -> str:
        files = sorted(self._paths.files(pattern))
        return self._placeholder(RawList(tuple(self._part(file, keys, define) for file in files)), pattern)

    def _include_text(self, pattern: str, keys: str, define: dict[str, object]) -> str:
        if keys:
            raise SpecError("include_text takes no keys: it pastes the whole text", hint="use include")
        texts = [self._other(file, define).rendered(self._read(file)).text for file in self._paths.files(pattern)]
        return "\n".join(texts)

    def _placeholder(self, raw: Raw, file: str) -> str:
        self._reading.included.append((raw, file))
        return f"{_START}{len(self._reading.included) - 1}{_END}"

    # other files

    def _part(self, path: Path, keys: str, define: Mapping[str, object]) -> Raw:
        other = self._other(path, define)
        rendered = other.rendered(self._read(path))
        parsed = self._reading.parsed.get((path, rendered.text))
        raw = parsed[1] if parsed and parsed[0] == define else parse_part(rendered.text, rendered.places, other)
        self._reading.parsed[path, rendered.text] = define, raw
        return _part_of(raw, keys, self._reading.roots.shown(path))

    def _read(self, path: Path) -> str:
        self.work.step(FILE_STEPS)
        text = read_text_file(path)
        self.work.write(len(text))
        return text

    def _other(self, path: Path, define: Mapping[str, object]) -> SourceFile:
        """The file at `path`. Raises SpecError for a file that includes itself, perhaps through others."""
        shown = self._reading.roots.shown(path)
        real = path.resolve()
        names = [name for _, name in self._chain]
        if real in (files := [file for file, _ in self._chain]):
            cycle = " -> ".join([*names[files.index(real) :], shown])
            raise SpecError(f"include cycle {cycle}", hint="move what both need into a file of its own")
        if len(self._chain) > MAX_INCLUDED:
            raise SpecError(f"files include each other more than {MAX_INCLUDED} deep: {' -> '.join(names)}")
        return SourceFile(self._reading, shown, path, define, self._chain)


_KINDS = {
    "include": SourceFile._include,
    "include_all": SourceFile._include_all,
    "include_text": SourceFile._include_text,
}


def _single(files: list[Path], pattern: str) -> Path:
    if len(files) > 1:
        listing = ", ".join(map(str, files[:5])) + (", ..." if len(files) > 5 else "")
        hint = f"name one of them; include_all() gives all of several: {listing}"
        raise SpecError(f"{pattern!r} matches {len(files)} files", hint=hint)
    return files[0]


def _part_of(raw: Raw, keys: str, file: str) -> Raw:
    """The value at the dotted `keys` of the document in `file`. Raises SpecError with the keys there are."""
    done: tuple[Step, ...] = ()
    for step in parse_path(keys):
        try:
            raw = get_value(raw, (step,))
        except SpecError as problem:
            text = f"the key {step!r} is not in " + (f"{format_path(done)} of {file}" if done else file)
            raise SpecError(text, hint=_keys_there(raw, step) or problem.hint) from None
        done = (*done, step)
    return raw


def _keys_there(raw: Raw, step: Step) -> str | None:
    match raw:
        case RawMap():
            return did_you_mean(str(step), raw.keys(), listing="keys there")
        case RawScalar():
            return f"there is a single value, {raw.text!r:.40}"
        case _:
            return None
