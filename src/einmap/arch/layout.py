"""How a tensor lies in a memory: which values a line holds. A line is what one access moves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """The lines of one tensor in one memory: boxes of its indices, side by side from index 0 of each rank on.

    `block`: values that a line holds along each rank, in the order in which the Einsum writes the tensor's indices.
    `values`: what a line moves, in values: its bits divided by those of a value, filled or not.
    """

    block: tuple[int, ...]
    values: float
