"""What the reference, the JSON Schema and `einmap schema --field` say of a field, beside its type and default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field

UNIT, WITHOUT, REFUSED = "unit", "without", "refused"
"""Keys beside those of JSON Schema; `json_schema` puts what they say into the description."""


def documented(
    text: str,
    *examples: Any,
    unit: str = "",
    without: str = "",
    refused: bool = False,
    schema: Mapping[str, Any] | None = None,
) -> Any:
    """The description of a field for `Annotated`.

    `text`: what the field does, and when it is needed. `examples`: values that may stand there, the most typical first.
    `unit`: of the number, or what it counts. `without`: what is taken where the field is not written, if the default
    does not say it. `refused`: the field is known so that its message can say what to write. `schema`: more JSON
    Schema.
    """
    extra = {UNIT: unit, WITHOUT: without, REFUSED: refused}
    more: dict[str, Any] = {key: value for key, value in extra.items() if value} | dict(schema or {})
    return Field(description=text, examples=list(examples), json_schema_extra=more)


def one_of(words: Iterable[str]) -> Any:
    """The words that a text may be, for `Annotated`; what is not among them is refused where its place is known."""
    return Field(json_schema_extra={"enum": list(words)})
