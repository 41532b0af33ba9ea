"""Templates in specification files, rendered before the text is read as YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from einmap.frontends.yaml.parsing.places import Places
from einmap.frontends.yaml.template.surroundings import Surroundings

_MARKS = ("{{", "{%", "{#")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A text without template constructs, and where its lines come from; `names` are the variables it used."""

    text: str
    places: Places
    names: frozenset[str] = frozenset()


def is_template(text: str) -> bool:
    """Whether `text` has any template construct."""
    return any(mark in text for mark in _MARKS)


def render(text: str, file: str, define: Mapping[str, object], surroundings: Surroundings) -> Rendered:
    """Render `text` with the variables `define`, plain values; `file` is its name in messages.

    Raises SpecError with the line of the template.
    """
    # Here, not above: most specifications have no templates, and Jinja2 takes long to import.
    from einmap.frontends.yaml.template.rendering import Rendering

    rendering = Rendering(file, define, surroundings)
    page = rendering.page(text)
    return Rendered(page.text(), page.places(text, file), frozenset(rendering.names))
