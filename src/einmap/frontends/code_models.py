"""Component models that are classes of Python files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from einmap.components.object_model import ObjectModel, model_from_object
from einmap.frontends.code import Defined, run_code


@dataclass(frozen=True, slots=True, eq=False)
class CodeModel(ObjectModel):
    """A component model that is a class of a file. A copy in another process runs the file there."""

    file: str = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_file, (self.file, self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CodeModel) and (self.file, self.name) == (other.file, other.name)

    def __hash__(self) -> int:
        return hash((self.file, self.name))


def models_of(defined: Iterable[Defined]) -> tuple[CodeModel, ...]:
    """The models among what files define."""
    return tuple(_model(part) for part in defined if part.is_model)


def _model(defined: Defined) -> CodeModel:
    model = model_from_object(defined.value, defined.name)
    assert isinstance(model, ObjectModel)
    parts = {field.name: getattr(model, field.name) for field in fields(model)}
    return CodeModel(**{**parts, "source": f"{Path(defined.file).name}: {defined.name}"}, file=defined.file)


def _from_file(file: str, name: str) -> CodeModel:
    return next(model for model in models_of(run_code([file])) if model.name == name)
