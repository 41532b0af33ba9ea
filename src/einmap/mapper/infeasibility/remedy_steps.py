"""Single changes of an architecture, and the least one of a kind that leaves a mapping.

A `Ladder` is a list of steps, the smallest change first. Where each step admits all that the ones before it admit,
the least one that helps is found by bisection, else by trying one after the other. `Size` bisects over bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from einmap.arch.component import Memory
from einmap.arch.tree import Architecture
from einmap.mapper.branch_and_bound.smallest_tiles import Fit
from einmap.mapper.infeasibility.oracle import Oracle, resized

type Edit = Callable[[Architecture], Architecture]
type Settings = tuple[tuple[str, object], ...]

DROPPED = 2.0
"""The size of dropping one constraint: as that of doubling a number."""
MOST_TRIED = 64
"""Steps that are tried one by one."""


@dataclass(frozen=True)
class RelaxationStep:
    """A change that may help. `size`: as in `Remedy`; `text`: what the field would be, in words.

    `settings`: paths and values for `Spec.set`; `clash`: what needs it, where that is known.
    """

    edit: Edit
    size: float
    text: str
    settings: Settings
    clash: str = ""


class Candidate(Protocol):
    """One field that may be changed."""

    @property
    def field(self) -> str:
        """Path as `Spec.set` takes it."""

    @property
    def relaxed(self) -> Edit | None:
        """The change that admits all that any change of the field admits, if there is such a change."""

    def least(self, arch: Architecture, oracle: Oracle) -> RelaxationStep | None:
        """The smallest change that leaves a mapping; None if no change does. Raises UndecidedError."""


@dataclass(frozen=True)
class Ladder:
    """Steps, smallest first. `rising`: each admits all that the ones before it admit, and the last admits most."""

    field: str
    steps: tuple[RelaxationStep, ...]
    relaxed: Edit | None
    rising: bool

    def least(self, arch: Architecture, oracle: Oracle) -> RelaxationStep | None:
        """The smallest step that leaves a mapping."""
        if not self.steps:
            return None
        if len(self.steps) > 1 and self.relaxed and not oracle.admits(self.relaxed(arch)):
            return None
        return self._bisected(arch, oracle) if self.rising else self._first(arch, oracle)

    def _bisected(self, arch: Architecture, oracle: Oracle) -> RelaxationStep | None:
        if len(self.steps) == 1 and not oracle.admits(self.steps[0].edit(arch)):
            return None
        low, high = -1, len(self.steps) - 1
        while high - low > 1:
            middle = (low + high) // 2
            if oracle.admits(self.steps[middle].edit(arch)):
                high = middle
            else:
                low = middle
        return self.steps[high]

    def _first(self, arch: Architecture, oracle: Oracle) -> RelaxationStep | None:
        """The first one that helps, and in its text the others of its size that do."""
        helping: list[RelaxationStep] = []
        for step in self.steps[:MOST_TRIED]:
            if helping and step.size > helping[0].size:
                break
            if oracle.admits(step.edit(arch)):
                helping.append(step)
        if not helping:
            return None
        first = helping[0]
        others = "".join(f", or {step.text}" for step in helping[1:])
        return RelaxationStep(first.edit, first.size, first.text + others, first.settings)


@dataclass(frozen=True)
class Size:
    """The size of a finite memory, in bits."""

    field: str
    memory: str
    outermost: bool

    @property
    def relaxed(self) -> Edit | None:
        """No limit."""
        return lambda arch: resized(arch, self.memory, math.inf)

    def least(self, arch: Architecture, oracle: Oracle) -> RelaxationStep | None:
        """The least number of bits with which a mapping fits, by bisection; no more than those found need."""
        unit = arch.find(self.memory)
        assert isinstance(unit, Memory)
        best = oracle.fit(resized(arch, self.memory, math.inf), self.memory)
        if best is None:
            return None
        # what mappings need is a multiple of the grain, so no other sizes need be tried
        step = grain(unit)
        low, high = math.floor(unit.size_bits / step), -(-best.bits(self.memory) // step)
        while high - low > 1 and not best.is_least:
            middle = (low + high) // 2
            fit = oracle.fit(resized(arch, self.memory, middle * step), self.memory)
            if fit is None:
                low = middle
            else:
                best, high = fit, min(middle, -(-fit.bits(self.memory) // step))
        least = high * step
        ratio = least / unit.size_bits if unit.size_bits else math.inf
        text = f"{bits(least * unit.parts)} instead of {bits(unit.size_bits * unit.parts)}"
        edit = partial(resized, memory=self.memory, size=least)
        return RelaxationStep(edit, ratio, text, ((self.field, least * unit.parts),), self.clash(unit, best))

    def clash(self, unit: Memory, needed: Fit) -> str:
        """Least contents of the memory, in words."""
        held = needed.held[self.memory]
        each = " + ".join(f"{tensor} {bits(amount)}" for tensor, amount, _ in held)
        total = f" = {bits(needed.bits(self.memory))}" if len(held) > 1 else ""
        if all(values <= 1 for _, _, values in held):
            how = " even with all tile shapes 1" if len(held) > 1 else " even with tile shape 1"
        elif self.outermost:
            how = ", the outermost memory, which holds whole tensors"
        else:
            how = " with the smallest tiles that the constraints and other capacities leave"
        return f"{each}{total} at {unit.name}{how}; it holds {bits(unit.size_bits)}{' in each half' * (unit.parts > 1)}"


def grain(memory: Memory) -> int:
    """A number of bits of which all that is held here is a multiple."""
    widths = list(memory.bits.values())
    return math.gcd(*(int(w) for w in widths)) or 1 if all(w == int(w) for w in widths) else 1


def bits(n: float) -> str:
    """A number of bits, exact.

    >>> bits(4608), bits(1), bits(2.5)
    ('4,608 bits', '1 bit', '2.5 bits')
    """
    shown = f"{int(n):,}" if n == int(n) else f"{n:,.6g}"
    return f"{shown} {'bit' if n == 1 else 'bits'}"
