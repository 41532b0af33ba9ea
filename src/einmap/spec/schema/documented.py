"""Documentation of fields for the reference, the JSON Schema and `einmap schema --field`, beside type and default."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

from einmap.errors import At, SpecError, did_you_mean

UNIT, WITHOUT, REFUSED, KIND = "unit", "without", "refused", "kind"
"""Keys beside those of JSON Schema; `json_schema` puts what they say into the description."""


def documented(
    text: str,
    *examples: Any,
    unit: str = "",
    without: str = "",
    refused: bool = False,
    kind: str = "",
    words: Iterable[str] = (),
    schema: Mapping[str, Any] | None = None,
    default: Any = None,
) -> Any:
    """A field with its description, as its value in an input model.

    `text`: what the field does, and when it is needed. `examples`: values that may stand there, the most typical first.
    `unit`: of the number, or what it counts. `without`: what is taken where the field is not written, if the default
    does not say it. `refused`: the field is known so that its message can say what to write. `kind`: what may stand
    there, if the type does not say it. `words`: the texts that it may be; others are refused where their place is
    known. `schema`: more JSON Schema. `default`: `...` where the field has to be written.
    """
    extra = {"enum": list(words), UNIT: unit, WITHOUT: without, REFUSED: refused, KIND: kind}
    more: dict[str, Any] = {key: value for key, value in extra.items() if value} | dict(schema or {})
    return Field(default, description=text, examples=list(examples), json_schema_extra=more)


def word_in(model: BaseModel, field: str, at: At, what: str = "", listing: str = "choices") -> Any:
    """The word in a field of a model. Raises SpecError where it is not one of those that the field lists.

    `what`: what messages call the field; `listing`: what they call its words.
    """
    value = getattr(model, field)
    extra: Any = type(model).model_fields[field].json_schema_extra
    known: list[str] = extra["enum"]
    if value not in known:
        hint = did_you_mean(str(value), known, listing=listing)
        raise SpecError(f"unknown {what or field} {value!r}", at=at, hint=hint)
    return value


def one_of(words: Iterable[str]) -> Any:
    """The words that a text may be, for `Annotated`; what is not among them is refused where its place is known."""
    return Field(json_schema_extra={"enum": list(words)})


_PLAIN = re.compile(r"[\w~.<=($/+^][^#\n]*")
_FLOW = re.compile(r"[,\[\]{}]")


def flow_text(value: object, *, inside: bool = False) -> str:
    """A value as YAML writes it in one line; `inside`: within brackets, where commas and brackets end a text."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return "inf" if value == float("inf") else repr(value)
        case str():
            is_plain = _PLAIN.fullmatch(value) and ": " not in value and not value.endswith((" ", ":"))
            return value if is_plain and not (inside and _FLOW.search(value)) else json.dumps(value)
        case Mapping():
            pairs = [(flow_text(key, inside=True), one) for key, one in value.items() if key != "type"]
            inner = f"{{{', '.join(f'{key}: {flow_text(one, inside=True)}' for key, one in pairs)}}}"
            return f"!{value['type']} {inner}" if "type" in value else inner
        case list() | tuple():
            return f"[{', '.join(flow_text(one, inside=True) for one in value)}]"
        case _:
            return str(value)


def hint_of(name: str, info: FieldInfo) -> str | None:
    """Hint of a message on a field: how it is written, with its unit; None if nothing is known.

    for example size: 64 * 1024 * 8 (bits)
    """
    if not info.examples:
        return None
    unit = info.json_schema_extra.get(UNIT) if isinstance(info.json_schema_extra, dict) else None
    return f"for example {name}: {flow_text(info.examples[0])}{f' ({unit})' if unit else ''}"
