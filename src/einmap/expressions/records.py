"""Values with named attributes, and functions that expressions may call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, overload, runtime_checkable

from einmap.errors import ExpressionError, did_you_mean


@runtime_checkable
class HasAttributes(Protocol):
    """A value whose attributes expressions may ask for; the value itself decides which."""

    def expression_attribute(self, name: str) -> object:
        """The attribute. Raises ExpressionError when there is none of this name."""
        ...


class FunctionView:
    """Base of values that functions of the user get as they are, with their attributes; they hold plain data."""


@dataclass(frozen=True, slots=True, eq=False)
class SafeFunction:
    """A function that expressions may call; `name` is for messages.

    `cost`: steps that a call takes beyond the size of its arguments, from these arguments.
    """

    function: Callable[..., object]
    name: str
    cost: Callable[..., int] | None = None

    def __call__(self, *arguments: Any, **options: Any) -> object:
        """Call the function."""
        return self.function(*arguments, **options)

    def __repr__(self) -> str:
        return f"function {self.name}"


def safe_function(function: Callable[..., object], name: str | None = None) -> SafeFunction:
    """Mark `function` as one that expressions may call; the caller vouches for its effects and its time.

    `name` is for messages; without one it is that of the function.
    """
    return SafeFunction(function, name or str(getattr(function, "__name__", "function")))


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """Attributes of a component or an action that expressions may ask for: `MainMemory.size`, `a.n_calls`."""

    name: str
    attributes: Mapping[str, object]
    refused: Mapping[str, str] = field(default_factory=dict)
    """Attributes that have no value here, each with the reason."""

    def expression_attribute(self, name: str) -> object:
        """The attribute. Raises ExpressionError that lists those there are."""
        if name in self.refused:
            raise ExpressionError(self.refused[name])
        if name not in self.attributes:
            hint = did_you_mean(name, [*self.attributes, *self.refused], listing="attributes")
            raise ExpressionError(f"{self.name} has no attribute {name!r}", hint=hint)
        return self.attributes[name]

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class RecordList(Sequence[Record]):
    """Records in order, found by position or by name: `actions[0]`, `actions['read']`."""

    records: tuple[Record, ...]

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    @overload
    def __getitem__(self, key: int | str) -> Record: ...
    @overload
    def __getitem__(self, key: slice) -> RecordList: ...
    def __getitem__(self, key: int | str | slice) -> Record | RecordList:
        if isinstance(key, slice):
            return RecordList(self.records[key])
        if isinstance(key, str):
            return self._named(key)
        if not -len(self) <= key < len(self):
            raise ExpressionError(f"position {key} of a list of {len(self)}")
        return self.records[key]

    def _named(self, name: str) -> Record:
        for record in self.records:
            if record.name == name:
                return record
        hint = did_you_mean(name, [record.name for record in self.records])
        raise ExpressionError(f"no element named {name!r}", hint=hint)

    def __repr__(self) -> str:
        return f"[{', '.join(record.name for record in self.records)}]"
