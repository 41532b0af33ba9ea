"""Messages of the page: small JSON objects, checked before anything is done."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from einmap.errors import SpecError
from einmap.visible import short

LONGEST = 1_000_000
"""Characters of one message."""

type Address = Annotated[str, Field(max_length=400)]
type Words = Annotated[str, Field(max_length=2_000)]
type Name = Annotated[str, Field(max_length=200)]


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Look(_Message):
    """The state as it is."""

    do: Literal["look"]


class Move(_Message):
    """A rewrite as `einmap rewrite --do` reads it; `instead`: of the last one, if that reshaped this loop."""

    do: Literal["move"]
    text: Words
    instead: bool = False


class Moves(_Message):
    """Question: which moves apply to the node at an address; `tensor`: to this tensor of a storage node alone."""

    do: Literal["moves"]
    node: Address
    tensor: Name | None = None


class Judge(_Message):
    """Question: whether a rewrite applies, and why not."""

    do: Literal["judge"]
    text: Words


class Step(_Message):
    """Undo, redo, or go back to the first mapping."""

    do: Literal["undo", "redo", "reset"]


class Pin(_Message):
    """Pin a node for searches, or free it."""

    do: Literal["pin"]
    node: Address


class Search(_Message):
    """Begin a search; `pinned`: only among mappings that have what is pinned."""

    do: Literal["search"]
    metric: Literal["energy", "latency", "edp", "front"] = "edp"
    pinned: bool = False
    seconds: Annotated[float, Field(gt=0, le=3600)] = 60.0


class OfSearch(_Message):
    """End the search with its best so far; take what it found, of a front the mapping `index`; look how far it is."""

    do: Literal["stop", "keep", "progress"]
    index: Annotated[int, Field(ge=0)] = 0


class Play(_Message):
    """Question: a run of the mapping, step by step."""

    do: Literal["play"]


class Details(_Message):
    """Question: occupancy over time, reuse, roofline of the mapping."""

    do: Literal["details"]


class Notes(_Message):
    """Question: what `einmap evaluate` notes on the mapping, with what could be better."""

    do: Literal["notes"]


class Explain(_Message):
    """Question: what the numbers of a component, a tensor or an Einsum are made of."""

    do: Literal["explain"]
    component: Name | None = None
    tensor: Name | None = None
    einsum: Name | None = None


class Compare(_Message):
    """Question: how a mapping differs from another one: the one before, the first one, that of the search, or a step.

    `step`: the mapping after that many steps; None: the mapping as it is.
    """

    do: Literal["compare"]
    other: Literal["before", "first", "found"] | Annotated[int, Field(ge=0)]
    step: Annotated[int, Field(ge=0)] | None = None


class Set(_Message):
    """Another value of a field of the architecture."""

    do: Literal["set"]
    path: Words
    value: Annotated[str, Field(max_length=1_000)]


class Draw(_Message):
    """Question: a drawing of the architecture or the workload."""

    do: Literal["draw"]
    what: Literal["arch", "workload"]


class Text(_Message):
    """Question: the mapping as YAML, or as the command that makes it."""

    do: Literal["text"]


class Export(_Message):
    """Question: an HTML report of the mapping, its code in C, or the whole specification."""

    do: Literal["export"]
    what: Literal["html", "c", "spec"]


class Lesson(_Message):
    """Begin a lesson; without a name end the one that was begun."""

    do: Literal["lesson"]
    name: Name | None = None


class Answer(_Message):
    """An answer to the question of the lesson."""

    do: Literal["answer"]
    text: Name


class Files(_Message):
    """Question: YAML files in the folders of the studio."""

    do: Literal["files"]


class Open(_Message):
    """Open a mapping from a file of the folders, or from YAML text."""

    do: Literal["open"]
    file: Words | None = None
    text: Annotated[str, Field(max_length=LONGEST)] | None = None


class Save(_Message):
    """Write the mapping as YAML into the first of the folders; `force`: over a file that is there."""

    do: Literal["save"]
    file: Words
    force: bool = False


type Message = Annotated[
    Look | Move | Moves | Judge | Step | Pin | Search | OfSearch | Details | Notes | Explain | Compare | Set | Draw
    | Text | Files | Open | Save | Export | Lesson | Answer | Play,
    Field(discriminator="do"),
]  # fmt: skip

_ADAPTER: TypeAdapter[Message] = TypeAdapter(Message)


def read_message(text: str) -> Message:
    """The message in a JSON text. Raises SpecError, with what is wrong, for any other text."""
    if len(text) > LONGEST:
        raise SpecError(f"a message has {len(text):,} characters, more than {LONGEST:,}")
    try:
        return _ADAPTER.validate_python(json.loads(text))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise SpecError(f"not a message of the studio: {where or 'message'}: {first['msg']}") from None
    except (ValueError, RecursionError):
        raise SpecError(f"not a message of the studio, which is JSON: {short(text)}") from None
