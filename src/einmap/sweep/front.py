"""The Pareto front of points, as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from einmap.arrays import Floats


@dataclass
class Front:
    """Points with their objectives, of which none beats another one. The same for any order of `add`.

    One point beats another if it is nowhere larger and somewhere smaller; so points with equal values are on it
    together. They are compared once for all of them.
    """

    numbers: dict[tuple[float, ...], list[int]] = field(default_factory=dict)
    """The points by their values."""
    _rows: Floats | None = None
    """The values, in the order of `numbers`."""

    @property
    def points(self) -> dict[int, tuple[float, ...]]:
        """The values of each point."""
        return {number: values for values, numbers in self.numbers.items() for number in numbers}

    @property
    def least(self) -> tuple[float, ...]:
        """The least value of each objective; nothing without a point."""
        return () if self._rows is None else tuple(float(value) for value in self._rows.min(axis=0))

    @property
    def size(self) -> int:
        """How many points there are."""
        return sum(map(len, self.numbers.values()))

    def add(self, number: int, values: tuple[float, ...]) -> bool:
        """Take in a point; whether it is on the front now."""
        if values in self.numbers:
            self.numbers[values].append(number)
            return True
        if self.better_than(values) is not None:
            return False
        row = np.array([values])
        if self._rows is not None:
            kept = ~(row <= self._rows).all(axis=1)
            listed = zip(list(self.numbers.items()), kept, strict=True)
            self.numbers = {held: numbers for (held, numbers), is_kept in listed if is_kept}
            row = np.concatenate([self._rows[kept], row])
        self.numbers[values] = [number]
        self._rows = row
        return True

    def better_than(self, values: Sequence[float]) -> int | None:
        """The number of a point that beats these values; None where none does."""
        if self._rows is None:
            return None
        row = np.array(values)
        beaten = (self._rows <= row).all(axis=1) & (self._rows < row).any(axis=1)
        if not beaten.any():
            return None
        return list(self.numbers.values())[int(beaten.argmax())][0]
