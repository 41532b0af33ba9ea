"""How the Einsums of a layer may be split along tensor, context and expert parallel axes, and its weights be kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from einmap.distribute.placements.placement import Placement
from einmap.distribute.plans.plan import LocalLoop
from einmap.distribute.training.machine import Machine
from einmap.distribute.training.model import Layer
from einmap.distribute.training.plan import Dim
from einmap.einsum.einsum import Einsum, TensorName


@dataclass(frozen=True)
class Rules:
    """How Einsums may be split along axes. `gradients`: of weights."""

    layer: Layer
    machine: Machine
    sequence_parallel: bool
    gradients: set[TensorName]

    def allow(self, einsum: Einsum, loops: Sequence[LocalLoop]) -> bool:
        """Whether an Einsum may be spread so."""
        over = {axis: loop.variable for loop in loops for axis in loop.axes}
        rules: Mapping[Dim, Callable[[Einsum, Sequence[str | None]], bool]] = {
            "tp": self._tensor,
            "cp": self._context,
            "ep": self._expert,
        }
        return all(
            rule(einsum, [over.get(axis) for axis in self.machine.axes[dim]])
            for dim, rule in rules.items()
            if self.machine.axes[dim]
        )

    def keep(self, tensor: TensorName, placement: Placement) -> bool:
        """Whether a tensor may be kept so: a weight may not be in parts along `cp`, as it is used whole there."""
        if tensor not in self.layer.weights and tensor not in self.gradients:
            return True
        return placement.used <= set(self.machine.over(("tp", "ep"))) and not placement.partial

    def _weight(self, einsum: Einsum) -> frozenset[str] | None:
        """The rank variables of the weight, or gradient of one, of an Einsum."""
        for access in einsum.accesses:
            if access.tensor in self.layer.weights or access.tensor in self.gradients:
                return access.variables
        return None

    def _tensor(self, einsum: Einsum, variables: Sequence[str | None]) -> bool:
        weight, layer = self._weight(einsum), self.layer
        if weight is not None and len(weight) > 1:
            return all(variable in weight - layer.batch - layer.sequence for variable in variables)
        # what lies as results do: norms and residual sums
        written = {variable for access in einsum.accesses if access.output for variable in access.variables}
        along = self.layer.passing
        if written <= along:
            kept = layer.sequence if self.sequence_parallel else frozenset[str]()
            # such as classes, of which a loss is the sum
            kept |= frozenset(einsum.rank_variables) - along - layer.batch - layer.sequence
            return all(variable is None or variable in kept for variable in variables)
        banned = layer.batch | along if len(layer.sequence & set(einsum.rank_variables)) > 1 else along - layer.sequence
        return all(variable not in banned | layer.batch for variable in variables)

    def _context(self, einsum: Einsum, variables: Sequence[str | None]) -> bool:
        positions = self.layer.sequence & set(einsum.rank_variables)
        if len(positions) > 1 and self._weight(einsum) is None:
            return all(variable is not None and variable not in self.layer.batch for variable in variables)
        return not positions or all(variable in positions for variable in variables)

    def _expert(self, einsum: Einsum, variables: Sequence[str | None]) -> bool:
        names = set(einsum.rank_variables)
        wanted = self.layer.experts & names or self.layer.batch & names
        if self._weight(einsum) is not None:
            return not wanted or all(variable in wanted for variable in variables)
        # values for experts are made where the samples are and sent, or near the experts of samples that were gathered
        wanted |= self.layer.batch & names
        return all(variable is None or variable in wanted for variable in variables)
