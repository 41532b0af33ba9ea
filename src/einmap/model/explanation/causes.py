"""Where savings of zeros come from: what each format leaves out, and what each tensor that is looked at saves.

Conditions are added one after another, those that skip first; what another one leaves out of the sum before it is what
it saves. So all savings of an action and what is done add up to what dense tensors would take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from einmap.arrays import Amounts
from einmap.model.cost import ActionRow
from einmap.model.evaluate import Workings
from einmap.model.explanation.values import SavingCause
from einmap.model.sparsity.conditions import Condition
from einmap.model.sparsity.expected import EinsumZeros, operations_of
from einmap.model.sparsity.sums import WHOLE, Sets, Visits, lane_loops
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.sparse.savings import Sparsity

type State = Literal["dense", "not stored", "gated", "skipped", "done", "metadata"]
type Action = tuple[str, str | None, str]
"""Component, tensor (None: operations), name of the action."""
type Cause = tuple[State, str, str | None]
"""How actions are saved, by what component, and the tensor whose zeros it sees."""

ROUNDING = 1e-9
"""Part of dense actions below which a difference of sums is rounding."""


def causes_of(workings: Workings) -> Iterator[SavingCause]:
    """The causes of all savings of a mapping, Einsum by Einsum; none where zeros change nothing."""
    for name in workings.order:
        sparsity = workings.spec.sparsity.get(name)
        if sparsity is None or not sparsity.saves:
            continue
        traffic = workings.traffic[name]
        instances = workings.spec.workload.n_instances * traffic.path.einsum.n_instances
        metadata: dict[Action, ActionRow] = {
            (row.component, row.tensor, row.action.removeprefix("metadata_")): row
            for row in workings.cost.actions
            if row.einsum == name and row.action.startswith("metadata_")
        }
        for action, causes in _Causes(traffic, sparsity).amounts().items():
            yield from _rows(traffic, sparsity, instances, action, causes)
            if action in metadata:
                row = metadata[action]
                yield SavingCause(name, *action, "metadata", row.component, row.tensor, row.count or 0.0, row.energy)


def _rows(
    traffic: EinsumTraffic, sparsity: Sparsity, instances: int, action: Action, causes: Mapping[Cause, float]
) -> Iterator[SavingCause]:
    """The causes of one action, those that make no difference left out."""
    component, tensor, name = action
    unit = traffic.path.arch.components[component]
    rate = 1.0 if tensor is None else unit.action(name).actions_per_value[tensor]
    dense = causes["dense", "", None]
    for (state, at, leader), values in causes.items():
        if state in ("dense", "done") or abs(values) > ROUNDING * abs(dense):
            each = unit.action(name).energy
            if state in ("gated", "skipped"):
                each -= sparsity.energies.get((component, f"{state}_{name}"), 0.0)
            count = values * rate * instances * unit.actions_scale
            yield SavingCause(traffic.path.einsum.name, *action, state, at, leader, count, count * each)


class _Causes:
    """Sums of values and operations of one Einsum, all instances of each component together."""

    def __init__(self, traffic: EinsumTraffic, sparsity: Sparsity) -> None:
        self.traffic, self.sparsity, self.path = traffic, sparsity, traffic.path
        self.found: dict[Action, dict[Cause, float]] = {}

    def amounts(self) -> dict[Action, dict[Cause, float]]:
        """Values by action and cause."""
        einsum = EinsumZeros(self.sparsity, self.traffic)
        for zeros in einsum.tensors:
            tensor = zeros.tensor
            for exchange in tensor.exchanges:
                if exchange.child.position in tensor.slides:
                    for passed in zeros.slid(exchange):
                        action = passed.station.component.name, zeros.name, passed.action
                        form = zeros.form(exchange, passed.station, passed.way)
                        moved = float(tensor.flow(exchange, passed.station).live)
                        self._begin(action, form.component.name, moved, passed.values.totals[0])
                    continue
                visits = zeros.visits(exchange)
                for station, name, way in zeros.places(exchange):
                    form = zeros.form(exchange, station, way)
                    contents = zeros.positions(visits.boxes), zeros.content(exchange, form, visits)
                    action = station.component.name, zeros.name, name
                    sets = zeros.sets(exchange, station, visits, way)
                    self._add(action, form.component.name, visits, station.level, sets, contents)
        visits = einsum.operation_visits()
        content = operations_of(visits)
        compute = self.path.compute
        done: Action = (compute.component.name, None, "compute")
        self._add(done, "", visits, compute.level, WHOLE, (content, content))
        return self.found

    def _begin(self, action: Action, form: str, dense: float, left: float) -> None:
        """Count what dense tensors take and what the format of a memory leaves out; the rest is done."""
        causes = self.found.setdefault(action, {("dense", "", None): 0.0})
        _count(causes, ("dense", "", None), dense)
        if form:
            _count(causes, ("not stored", form, action[1]), dense - left)
        _count(causes, ("done", "", None), left)

    def _add(
        self, action: Action, form: str, visits: Visits, level: int, sets: Sets, contents: tuple[Amounts, Amounts]
    ) -> None:
        """Count one way of an action. `contents`: positions of each visit, and the values that are stored of them."""
        lanes = lane_loops(self.path, level)

        def total(conditions: Mapping[str, Condition], content: Amounts) -> float:
            return visits.total(conditions, content, lanes, sets)

        positions, content = contents
        left = total({}, content)
        self._begin(action, form, left if positions is content else total({}, positions), left)
        causes = self.found[action]
        met: dict[str, Condition] = {}
        kinds: tuple[tuple[State, Mapping[str, Condition]], ...] = ("skipped", visits.timed), ("gated", visits.done)
        for state, conditions in kinds:
            for leader, condition in conditions.items():
                if met.get(leader) != condition:
                    met = {**met, leader: condition}
                    rest = total(met, content)
                    _count(causes, (state, condition.at, leader), left - rest)
                    _count(causes, ("done", "", None), rest - left)
                    left = rest


def _count(causes: dict[Cause, float], cause: Cause, values: float) -> None:
    causes[cause] = causes.get(cause, 0.0) + values
