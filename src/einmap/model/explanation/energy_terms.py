"""Every joule of a result followed to a line of the specification or to a publication."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath
from typing import Any

from einmap.errors import Note
from einmap.model.cost import ActionRow, Cost
from einmap.model.evaluate import evaluate
from einmap.spec.cost_sources import CostSource, cost_sources
from einmap.spec.spec import Spec

SCHEMA = 1
"""Version of `EnergyExplanation.to_dict()`."""


@dataclass(frozen=True, slots=True)
class EnergyPart:
    """Share of one Einsum in a term: `count` actions (None for constant power) and J, as in `Cost.actions`.

    `seconds`: how long the Einsum takes, all its instances together.
    """

    einsum: str
    count: float | None
    energy: float
    seconds: float


@dataclass(frozen=True, slots=True)
class EnergyTerm:
    """One line of the sum: actions x J of one action, or W x s x instances of leakage and of other constant power.

    `share`: part of the whole. `tensor` is None for operations and power. `each`: J of one action, or W of one
    instance, with its source; Einsums for which it is another number are terms of their own. `count`: actions of all
    instances; None for power, which `instances` of the component draw for `seconds`, of which the part `powered` is not
    gated.
    """

    component: str
    tensor: str | None
    action: str
    each: CostSource
    energy: float
    share: float
    parts: tuple[EnergyPart, ...]
    count: float | None
    instances: int
    seconds: float | None = None
    powered: float = 1.0

    @property
    def einsums(self) -> tuple[str, ...]:
        """The Einsums that the term is about."""
        return tuple(part.einsum for part in self.parts)


@dataclass(frozen=True)
class EnergyExplanation:
    """The energy of a result, in J, as a sum of `terms`, the largest first; `semantics`: by which rules it is counted.

    Without filters the energies of all parts, added up exactly and rounded once (`math.fsum`), are `energy`.
    """

    energy: float
    semantics: str
    terms: tuple[EnergyTerm, ...]
    notes: tuple[Note, ...] = ()

    def only(
        self, einsums: Collection[str] = (), tensors: Collection[str] = (), components: Collection[str] = ()
    ) -> EnergyExplanation:
        """Terms about these Einsums, tensors and components; empty: all. Shares are still of the whole energy."""
        found = []
        for term in self.terms:
            parts = tuple(part for part in term.parts if not einsums or part.einsum in einsums)
            if not parts or (tensors and term.tensor not in tensors):
                continue
            if components and term.component not in components:
                continue
            found.append(term if parts == term.parts else _of(term, parts, self.energy))
        return replace(self, terms=_largest_first(found))

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists, ready for JSON; `schema` is 1."""
        return {
            "schema": SCHEMA,
            "semantics": self.semantics,
            "energy": self.energy,
            "terms": [asdict(term) for term in self.terms],
            "notes": [str(note) for note in self.notes],
        }


def explain_energy(spec: Spec, cost: Cost | None = None) -> EnergyExplanation:
    """Terms of the energy of a mapping, and the source of each number.

    `cost`: the result of this specification that is explained; without it, its mapping is evaluated under its own
    preset of counting rules. Raises as `evaluate` does.
    """
    result = evaluate(spec) if cost is None else cost
    instances, times = {row.component: row.instances for row in result.components}, result.latency_by_einsum
    groups: dict[tuple[str, str | None, str, CostSource], list[ActionRow]] = {}
    sources = _Sources(spec)
    for row in result.actions:
        key = row.component, row.tensor, row.action, sources.of(row)
        groups.setdefault(key, []).append(row)
    terms = []
    for (component, tensor, action, each), rows in groups.items():
        parts = tuple(EnergyPart(r.einsum, r.count, r.energy, times.get(r.einsum, 0.0)) for r in rows)
        term = EnergyTerm(component, tensor, action, each, 0.0, 0.0, parts, None, instances[component])
        terms.append(_of(term, parts, result.energy))
    return EnergyExplanation(result.energy, result.semantics, _largest_first(terms), result.notes)


def _largest_first(terms: list[EnergyTerm]) -> tuple[EnergyTerm, ...]:
    return tuple(sorted(terms, key=lambda term: -abs(term.energy)))


def _of(term: EnergyTerm, parts: tuple[EnergyPart, ...], whole: float) -> EnergyTerm:
    """The term of these parts alone; `whole`: J of the result."""
    energy = math.fsum(part.energy for part in parts)
    counts = [part.count for part in parts if part.count is not None]
    found = replace(
        term,
        parts=parts,
        energy=energy,
        share=energy / whole if whole else 0.0,
        count=math.fsum(counts) if counts else None,
    )
    if found.count is not None:
        return found
    power = (term.each.value or 0.0) * term.instances
    seconds = math.fsum(part.seconds for part in parts)
    return replace(found, seconds=seconds, powered=energy / (power * seconds) if power and seconds else 1.0)


class _Sources:
    """Where the numbers of each Einsum come from, asked once for Einsums that are the same but for names."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.by_einsum: dict[str, dict[tuple[str, str | None, str], CostSource]] = {}

    def of(self, row: ActionRow) -> CostSource:
        """The source of J of one action of a row, or of W of one instance."""
        like = self.spec.bound[row.einsum].like
        if like not in self.by_einsum:
            rows = cost_sources(self.spec, like)
            self.by_einsum[like] = {(one.component, one.action, one.quantity): one for one in rows}
        if row.is_constant:
            return self.by_einsum[like][row.component, None, f"{row.action}_power"]
        action = row.action
        zeros = self.spec.sparsity.get(row.einsum)
        if zeros is not None and zeros.saves:
            if action.startswith(("gated_", "skipped_")) or (
                action.startswith("metadata_") and row.component in zeros.own_metadata
            ):
                return self._of_zeros(row.component, action, zeros.energies.get((row.component, action)))
            # without a store of their own metadata are read and written as values are
            action = action.removeprefix("metadata_")
        return self.by_einsum[like][row.component, action, "energy"]

    def _of_zeros(self, component: str, action: str, value: float | None) -> CostSource:
        """The source of J of an action that is saved, or of a bit of metadata in a store of its own."""
        at = self.spec.provenance(f"sparsity.energies.{component}.{action}")
        written = f"{PurePath(at.file).name}:{at.line}" if at.file else at.path
        source = written if value is not None else "0 since sparsity.energies does not give it"
        return CostSource(component, action, "energy", value or 0.0, source, before=value or 0.0)
