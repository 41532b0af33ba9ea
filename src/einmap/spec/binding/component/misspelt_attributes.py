"""Extra attributes of components whose names are nearly those of attributes that the component's model reads."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from einmap.errors import Note, closest
from einmap.spec.binding.component.component_context import ComponentContext
from einmap.spec.raw import Path
from einmap.spec.schema.arch import ComponentInput

if TYPE_CHECKING:
    from einmap.components.base import Attribute

_ALIKE = 0.75
"""Similarity of two names from which one is taken for a slip of the other: any extra attribute may be meant."""
_EXTRA = "extra_attributes_for_component_model"
_WORD = re.compile(r"[^\W\d]\w*")


def misspelt_attributes(
    given: ComponentInput, attributes: Iterable[Attribute], context: ComponentContext
) -> list[Note]:
    """A note for each extra attribute that is probably a slip; `attributes`: what the model reads.

    Such a name is close to that of an attribute that is not written, and no expression of the component uses it.
    """
    spellings = [(attribute.name, *attribute.aliases) for attribute in attributes]
    read = {name for names in spellings for name in names}
    notes = []
    for path, extra, texts in _extras(given):
        small = {_small(name) for name in extra}
        absent = [name for names in spellings if small.isdisjoint(names) for name in names]
        used = {word for text in texts for word in _WORD.findall(text)}
        for name in extra:
            guess = None if name in used or _small(name) in read else _near(_small(name), absent)
            if guess is not None:
                text = f"{given.name}: extra attribute {name!r} is not read by the model; did you mean {guess!r}?"
                notes.append(Note(text, context.at(*path, _EXTRA, name)))
    return notes


def _small(name: str) -> str:
    return name.lower().replace("-", "_")


def _near(name: str, names: Iterable[str]) -> str | None:
    guess = closest(name, names)
    return guess if guess and difflib.SequenceMatcher(None, name, guess).ratio() >= _ALIKE else None


def _extras(given: ComponentInput) -> Iterator[tuple[Path, Mapping[str, Any], list[str]]]:
    """Extra attributes of the component and of each action, where they stand, and the texts that may name them."""
    extra = given.extra_attributes_for_component_model
    if extra:
        yield (), extra, list(_texts(given.model_dump(exclude={"name"})))
    for index, action in enumerate(given.actions):
        if action.extra_attributes_for_component_model:
            texts = _texts(action.model_dump(exclude={"name"}))
            yield ("actions", index), action.extra_attributes_for_component_model, list(texts)


def _texts(value: Any) -> Iterator[str]:
    """All texts of a value, without the names of fields."""
    match value:
        case str():
            yield value
        case Mapping():
            for part in value.values():
                yield from _texts(part)
        case list() | tuple():
            for part in value:
                yield from _texts(part)
