"""Points one after the other: of a list, or proposed from what earlier ones cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class Proposals(Protocol):
    """Says which point comes next. `total`: how many there are at most; `first`: one of them."""

    total: int
    first: int

    def next(self) -> int | None:
        """The position of the next point; None where there is none for now."""
        ...

    def tell(self, number: int, values: tuple[float, ...] | None) -> None:
        """Hand on the objectives of a point, smaller is better; None for a point without a cost, or beyond a limit."""
        ...

    @property
    def ended(self) -> bool:
        """Whether no further point will come, whatever is told."""
        ...


@dataclass
class Listed:
    """Points of a list, in its order."""

    numbers: Sequence[int]
    ended: bool = False
    _rest: Iterator[int] = field(init=False)

    def __post_init__(self) -> None:
        self.total, self.first = len(self.numbers), self.numbers[0]
        self._rest = iter(self.numbers)

    def next(self) -> int | None:
        """The next one."""
        number = next(self._rest, None)
        self.ended = number is None
        return number

    def tell(self, number: int, values: tuple[float, ...] | None) -> None:
        """The list stays as it is."""
