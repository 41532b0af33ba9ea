"""Inputs of commands on the command line: files and names, template values."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from einmap.cli.options import INPUT, argument, group, option, several
from einmap.cli.writing.target import Writes
from einmap.errors import EinmapError, SpecError, closest, did_you_mean, raise_all
from einmap.frontends.files import Reading, exists, noted_reading
from einmap.frontends.yaml.parsing.scalars import resolve
from einmap.frontends.yaml.spec import example_paths, load
from einmap.spec.spec import Spec


def semantics_option() -> Any:
    """The field `semantics` of a group: the counting rules."""
    return option("exact|accelforge", "Counting rules.", shown="model.semantics, or exact")


@group
class Templates:
    """Values for templates, and folders for includes."""

    define: list[str] = several("NAME=VALUE", "Value of a template variable {{ NAME }}; repeatable.", "-D", panel=INPUT)
    allow_code: list[Path] = several(
        "FILE.py", "Run this file: expressions may call its functions; repeatable.", panel=INPUT
    )
    root: list[Path] = several("DIR", "Files may include what is below this folder, too; repeatable.", panel=INPUT)
    top_key: list[str] = several(
        "KEY", "Read only a section (arch, ...), or a key that holds all; repeatable.", panel=INPUT
    )

    def spec(self, files: Sequence[str]) -> Spec:
        """The specification in `files`. Raises SpecError, with the shipped name that was probably meant."""
        problems: list[EinmapError] = [_unknown(name) for name in files if _is_unknown_name(name)]
        raise_all(problems)
        values = definitions(self.define)
        return load(
            files, define=values, allow_code=self.allow_code or (), root=self.root, top_key=self.top_key or None
        )


@group
class Source(Templates):
    """The files of a specification, and what belongs to them."""

    files: list[str] = argument("FILES", "YAML files, patterns such as 'arch/*.yaml', or names of `einmap examples`.")

    @property
    def words(self) -> list[str | Path]:
        """Words that name files to read."""
        return [*self.files, *(self.allow_code or ())]

    @property
    def names(self) -> list[str]:
        """Names of the files and examples without folders and endings, for titles."""
        return [Path(file).stem if file.endswith((".yaml", ".yml")) else Path(file).name for file in self.files]

    @property
    def command_words(self) -> list[str]:
        """The files and the values of templates, as words of a command line."""
        return [*self.files, *(word for one in self.define for word in ("-D", one))]

    def load(self, *targets: Writes | None) -> Spec:
        """The specification. Raises SpecError, also where a target would replace what is read."""
        with reading_inputs(self.define, *targets):
            return self.spec(self.files)


@contextmanager
def reading_inputs(define: Iterable[str] | None, *targets: Writes | None) -> Iterator[Reading]:
    """Load within what a command needs; at the end the command line is held against what was read.

    Raises SpecError when a file that was read, an included one too, is one of `targets`, and when no template asks
    for a name of `define`. Gives what was read, complete at the end.
    """
    with noted_reading() as read:
        yield read
    for target in targets:
        if target is not None:
            target.spare(read.files)
    raise_all([_unused(name, read) for name in definitions(define) if name not in read.variables])


def definitions(texts: Iterable[str] | None, flag: str = "-D", example: str = "N=128") -> dict[str, object]:
    """`["N=128", "MODE=fast"]` as YAML scalars; quotes keep text. A usage error where `=` is missing,
    or a name is given twice.
    """
    values: dict[str, object] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not name.isidentifier():  # as a model may call its dimensions
            name, equals, value = text.rpartition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{text!r}: write NAME=VALUE, for example {example}", param_hint=flag)
        if name in values:
            raise typer.BadParameter(f"{text!r}: {name} is given twice; give it one value", param_hint=flag)
        try:
            values[name] = _scalar(value.strip())
        except ValueError as error:
            raise typer.BadParameter(f"{text!r}: {error}", param_hint=flag) from None
    return values


def _scalar(text: str) -> object:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return resolve(text)


def _is_unknown_name(name: str) -> bool:
    """Whether `name` is neither a file nor a pattern nor a shipped example, and has no directory."""
    is_name = bool(name) and name == os.path.basename(name) and not any(c in name for c in "*?[\0")  # noqa: PTH119
    return not name or (is_name and name not in example_paths() and not exists(name))


def _unused(name: str, read: Reading) -> SpecError:
    if read.variables:
        hint = did_you_mean(name, read.variables, listing="template variables")
    else:
        hint = f"-D gives values to templates only: write {{{{ {name} }}}} into a file where the value belongs"
    return SpecError(f"-D {name}: no file has a template variable {name}", hint=hint)


def _unknown(name: str) -> SpecError:
    if not name:
        return SpecError("a file name is empty", hint="perhaps a variable of the shell is not set")
    if os.path.islink(name):  # noqa: PTH114
        return SpecError(f"the link {name!r} leads to {os.readlink(name)!r}, where no file can be found")  # noqa: PTH115
    shipped = example_paths()
    here = [entry.name for entry in Path().iterdir() if entry.is_file()]
    guesses = closest(name, here), closest(Path(name).stem, shipped), closest(name, shipped)
    meant = " or ".join(repr(guess) for guess in dict.fromkeys(guesses) if guess)
    listing = ", ".join(sorted(shipped))
    hint = f"did you mean {meant}? `einmap examples` lists what is shipped" if meant else f"shipped: {listing}"
    return SpecError(f"there is no file {name!r} here, and no shipped example of that name", hint=hint)
