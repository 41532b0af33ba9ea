"""The formats of other tools by name; the module of a format is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from einmap.errors import SpecError, did_you_mean
from einmap.frontends.foreign import Translation
from einmap.plugins import plugin, plugin_names
from einmap.spec.spec import Spec

ONNX, HUGGINGFACE, TORCH = "onnx", "huggingface", "torch"
READERS = {name: f"einmap.frontends.{name}.read" for name in ("scalesim", "stream", "timeloop", "zigzag")}
"""Formats beside models that `einmap import` reads: each module has a function `read`."""
WRITERS = {name: f"einmap.frontends.{name}.write" for name in ("accelforge", "scalesim", "timeloop")}
"""Formats that `einmap export` writes: each module has a function `write`."""


class Read(Protocol):
    """How a reader is called: with files, values of template variables, and bits of all numbers where given."""

    def __call__(
        self, files: Sequence[Path], *, define: Mapping[str, object], root: Sequence[Path], bits: int | None
    ) -> Translation:
        """Translation of the files: texts of workload.yaml, architecture.yaml, mapping.yaml, as far as given."""
        ...


class Write(Protocol):
    """How a writer is called."""

    def __call__(self, spec: Spec) -> Translation:
        """Translation of a specification: the texts of files of another tool, by name."""
        ...


def reader(name: str) -> Read:
    """The reader of a format. Raises SpecError for an unknown name."""
    read: Read = _function("read", name, READERS, "--from", (ONNX, HUGGINGFACE, TORCH, *READERS))
    return read


def writer(name: str) -> Write:
    """The writer of a format. Raises SpecError for an unknown name."""
    write: Write = _function("write", name, WRITERS, "--to", WRITERS)
    return write


def _function(what: str, name: str, modules: Mapping[str, str], option: str, known: Iterable[str]) -> Any:
    """A function of a format: of einmap's module, or of what a package adds under the name."""
    if name in modules:
        return getattr(import_module(modules[name]), what)
    added = plugin("frontends", name)
    if added is None:
        hint = did_you_mean(name, [*known, *plugin_names("frontends")], listing="formats")
        raise SpecError(f"{option} {name}: this format is not known", hint=hint)
    if not callable(function := getattr(added, what, None)):
        raise SpecError(f"{option} {name}: the plug-in has no function `{what}`")
    return function
