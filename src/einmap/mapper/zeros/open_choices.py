"""Formats that are left open, in the search of one Einsum: tables of all of them, and what a mapping was found with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from einmap.arch.component import Memory
from einmap.einsum.einsum import Einsum
from einmap.mapper.cost_bounds.zeros.left_open import OpenTables
from einmap.mapper.problem.problem import Problem
from einmap.model.batch.zero_tables import ZeroTables
from einmap.sparse.formats import Format
from einmap.sparse.savings import Sparsity
from einmap.spec.spec import Spec


class OpenChoices:
    """Formats that a problem leaves open, bound once for each alternative."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.specs = {
            (choice.memory, choice.tensor): [
                problem.spec
                if one == choice.alternatives[0]
                else problem.spec.with_formats({choice.memory: {choice.tensor: one}})
                for one in choice.alternatives
            ]
            for choice in problem.formats
        }

    def tables(self, einsum: Einsum) -> ZeroTables:
        """Tables of an Einsum, of all formats that are left open for its tensors."""
        sparsity = self.problem.spec.sparsity[einsum.name]
        alternatives: dict[tuple[str, str], tuple[Format, ...]] = {}
        for place, specs in self.specs.items():
            if place in sparsity.formats:
                alternatives[place] = tuple(spec.sparsity[einsum.name].formats[place] for spec in specs)
        if not alternatives:
            return ZeroTables(einsum, sparsity)
        left = {place: tuple(range(len(formats))) for place, formats in alternatives.items()}
        widths = {place: width for place in left if (width := self._width(einsum, sparsity, *place))}
        return OpenTables(einsum, sparsity, alternatives=alternatives, left=left, widths=widths)

    def _width(self, einsum: Einsum, sparsity: Sparsity, memory: str, tensor: str) -> float | None:
        """Bits of a value of which each costs no more as metadata; None where that depends on what is gated."""
        unit = self.problem.spec.archs[einsum.name].components[memory]
        is_gated = any(saving.tensor == tensor and saving.kind == "gate" for saving in sparsity.savings)
        if is_gated or sparsity.shares_metadata or memory in sparsity.own_metadata or not isinstance(unit, Memory):
            return None
        return float(unit.bits[tensor])

    def spec_of(self, found: Iterable[ZeroTables]) -> Spec:
        """The specification with the formats that are left in the tables of mappings."""
        if not self.problem.formats:
            return self.problem.spec
        chosen: dict[str, dict[str, Any]] = {}
        written = {(choice.memory, choice.tensor): choice.alternatives for choice in self.problem.formats}
        for tables in found:
            for place, numbers in tables.left.items() if isinstance(tables, OpenTables) else ():
                chosen.setdefault(place[0], {})[place[1]] = written[place][numbers[0]]
        return self.problem.spec.with_formats(chosen)

    def note(self, *, ended: bool) -> tuple[str, ...]:
        """How many formats there were to choose from, in words."""
        count = self.problem.choices
        if count == 1:
            return ()
        if ended:
            return (f"{count:,} choices of formats are left open",)
        return (f"all {count:,} choices of formats were searched or ruled out by a bound",)
