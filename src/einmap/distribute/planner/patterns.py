"""Names of plans: data, column and row tensor parallel.

Of an Einsum with a weight (a graph input beside the operand that is worked on), a split rank variable is a *column*
of the weight where it indexes the weight and the result, a *row* where it is reduced, and *data* where it indexes the
operand and the result alone. Einsums without a weight, such as those of attention or a norm, are split along with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from einmap.distribute.placements.mesh import AxisName
from einmap.distribute.planner.chosen import ChosenPlan
from einmap.distribute.steps.actions import Computed
from einmap.einsum.einsum import Einsum
from einmap.einsum.spaces.projection import RankVar
from einmap.einsum.workload import Workload

type Role = Literal["data", "column", "row", "along", "reduced"]


def role_of(workload: Workload, einsum: Einsum, variable: RankVar) -> Role:
    """Meaning of a split rank variable of an Einsum."""
    operands = [access for access in einsum.accesses if not access.output]
    written = any(variable in access.variables for access in einsum.accesses if access.output)
    weights = [access for access in operands[1:] if access.tensor not in workload.producers]
    if operands and operands[0].tensor not in workload.producers and len(operands) > 1 and not weights:
        weights = [operands[0]]
    indexed = [access for access in operands if variable in access.variables]
    if not written:
        return "row" if any(access in weights for access in indexed) else "reduced"
    if weights and any(access in weights for access in indexed):
        return "column" if len(indexed) < len(operands) else "along"
    return "data" if weights else "along"


def patterns(chosen: ChosenPlan) -> tuple[str, ...]:
    """One sentence for each axis of the mesh, such as `x: column then row tensor parallel (s): FFG, FFU, then FFD`."""
    return tuple(sentence for axis, size in chosen.plan.mesh.axes if size > 1 for sentence in _of_axis(chosen, axis))


def _of_axis(chosen: ChosenPlan, axis: AxisName) -> list[str]:
    workload = chosen.plan.workload
    groups: dict[tuple[Role, str], list[str]] = {}
    idle: list[str] = []
    for name, loops in chosen.loops.items():
        variable = next((v for v, axes in loops.items() if axis in axes), None)
        if variable is None:
            idle.append(name)
        else:
            groups.setdefault((role_of(workload, workload.find(name), variable), variable), []).append(name)
    said = [_tensor_parallel(axis, groups), _listed(axis, "data parallel", groups, "data")]
    said.append(_listed(axis, "split along with them", groups, "along"))
    said.append(_listed(axis, "sums split", groups, "reduced"))
    gathered = _gathered(chosen, axis)
    if gathered:
        said.append(f"{axis}: kept in parts and gathered to be read (fully sharded): {', '.join(gathered)}")
    if idle:
        said.append(f"{axis}: every PE repeats {', '.join(idle)}")
    return [sentence for sentence in said if sentence]


def _tensor_parallel(axis: AxisName, groups: Mapping[tuple[Role, str], list[str]]) -> str:
    columns = [name for (role, _), names in groups.items() for name in names if role == "column"]
    rows = [name for (role, _), names in groups.items() for name in names if role == "row"]
    if columns and rows:
        return f"{axis}: column then row tensor parallel, columns in {', '.join(columns)}, rows in {', '.join(rows)}"
    if columns:
        return f"{axis}: column tensor parallel in {', '.join(columns)}"
    return f"{axis}: row tensor parallel in {', '.join(rows)}" if rows else ""


def _listed(axis: AxisName, what: str, groups: Mapping[tuple[Role, str], list[str]], wanted: Role) -> str:
    by_variable: dict[str, list[str]] = {}
    for (role, variable), names in groups.items():
        if role == wanted:
            by_variable.setdefault(variable, []).extend(names)
    listed = "; ".join(f"{variable} in {', '.join(names)}" for variable, names in by_variable.items())
    return f"{axis}: {what}, {listed}" if listed else ""


def _gathered(chosen: ChosenPlan, axis: AxisName) -> list[str]:
    """Graph inputs that are kept split over an axis and read whole along it."""
    inputs = {tensor for tensor, _ in chosen.plan.inputs}
    found: dict[str, None] = {}
    for action in chosen.actions:
        if isinstance(action, Computed):
            for tensor, placement in action.operands:
                if tensor in inputs and axis in chosen.homes[tensor][0].used and axis not in placement.used:
                    found[tensor] = None
    return list(found)
