"""The Pareto front of points, as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


def beats(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether `one` is nowhere larger and somewhere smaller.

    >>> beats((1, 2), (1, 3)), beats((1, 2), (1, 2)), beats((1, 2), (0, 3))
    (True, False, False)
    """
    return all(a <= b for a, b in zip(one, other, strict=True)) and tuple(one) != tuple(other)


@dataclass
class Front:
    """Points with their objectives, of which none beats another one. The same for any order of `add`."""

    points: dict[int, tuple[float, ...]] = field(default_factory=dict)

    def add(self, number: int, values: tuple[float, ...]) -> bool:
        """Take in a point; whether it is on the front now."""
        if self.better_than(values) is not None:
            return False
        for other in [n for n, v in self.points.items() if beats(values, v)]:
            del self.points[other]
        self.points[number] = values
        return True

    def better_than(self, values: Sequence[float]) -> int | None:
        """The number of a point that beats these values; None where none does."""
        return next((number for number, own in self.points.items() if beats(own, values)), None)
