"""The formats of other tools by name; the module of a format is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

from einmap.errors import SpecError, did_you_mean
from einmap.frontends.foreign import Translation
from einmap.spec.spec import Spec

ONNX, HUGGINGFACE, TORCH = "onnx", "huggingface", "torch"
READERS = {name: f"einmap.frontends.{name}.read" for name in ("scalesim", "timeloop", "zigzag")}
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
    read: Read = import_module(_module(name, READERS, "--from", (ONNX, HUGGINGFACE, TORCH, *READERS))).read
    return read


def writer(name: str) -> Write:
    """The writer of a format. Raises SpecError for an unknown name."""
    write: Write = import_module(_module(name, WRITERS, "--to", WRITERS)).write
    return write


def _module(name: str, modules: Mapping[str, str], option: str, known: Sequence[str] | Mapping[str, str]) -> str:
    if name not in modules:
        raise SpecError(f"{option} {name}: this format is not known", hint=did_you_mean(name, known, listing="formats"))
    return modules[name]
