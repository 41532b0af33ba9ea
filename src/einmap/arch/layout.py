"""How a tensor lies in a memory: which values a line holds. A line is what one access moves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """The lines of one tensor in one memory: boxes of its indices, side by side from index 0 of each rank on.

    `block`: values that a line holds along each rank, in the order in which the Einsum writes the tensor's indices.
    `values`: what a line moves, in values: its bits divided by those of a value, filled or not. `together`: whether
    lanes are served at one time, so that a line that several of them need moves once. `banks`: those among which lines
    are dealt out, 0 where that is not said; from one line to the next along each rank it is `steps` banks.
    """

    block: tuple[int, ...]
    values: float
    together: bool = False
    banks: int = 0
    steps: tuple[int, ...] = ()
