"""A plan as the key `distribution` of a specification, which `einmap run` executes."""

from __future__ import annotations

from typing import Any

from einmap.distribute.placements.request import Turns
from einmap.distribute.planner.chosen import ChosenPlan
from einmap.distribute.steps.write_steps import written_axes, written_placement, written_steps
from einmap.spec.schema.documented import flow_text


def distribution_document(chosen: ChosenPlan) -> dict[str, Any]:
    """Mesh, the homes of all tensors (of those that are made in parts none), the loops of all Einsums, and the steps.

    The steps are the plan; placements and loops are there to be read, and to be kept where the steps are derived anew.
    """
    plan = chosen.plan
    sizes = {buffer.tensor: dict(buffer.sizes) for buffer in plan.buffers}
    placements = {
        tensor: written_placement(plan.mesh, sizes[tensor], homes[0])
        for tensor, homes in chosen.homes.items()
        if not homes[0].partial or tensor not in plan.workload.producers
    }
    loops = {
        name: {variable: written_axes(axes) for variable, axes in split.items()} for name, split in chosen.loops.items()
    }
    turns = [] if chosen.turns is None else [_written_turns(chosen.turns)]
    return {
        "distribution": {
            "mesh": dict(plan.mesh.axes),
            "dtype": plan.dtype,
            "placements": placements,
            "loops": loops,
            "steps": written_steps(plan.mesh, sizes, chosen.actions),
            **({"turns": turns} if turns else {}),
        }
    }


def _written_turns(turns: Turns) -> dict[str, Any]:
    written = {"einsums": list(turns.einsums), "over": {turns.variable: written_axes(turns.axes)}}
    return written if turns.panels is None else written | {"panels": turns.panels}


def distribution_text(chosen: ChosenPlan) -> str:
    """The document as a YAML file with a line for each tensor, Einsum and step."""
    proven = "" if chosen.proven else "not "
    lines = [f"# Written by einmap plan; {proven}proven least. `steps` are the plan, one line each.\n"]
    lines.append("# Costs are of the bits of the workload; `einmap run` computes and counts in `dtype`.\n")
    for key, fields in distribution_document(chosen).items():
        lines.append(f"{key}:\n")
        for name, value in fields.items():
            match value:
                case [*steps]:
                    lines += [f"  {name}:\n", *(f"  - {flow_text(step)}\n" for step in steps)]
                case {**entries} if name != "mesh":
                    each = (f"    {flow_text(one)}: {flow_text(entry)}\n" for one, entry in entries.items())
                    lines += [f"  {name}:\n", *each]
                case _:
                    lines.append(f"  {name}: {flow_text(value)}\n")
    return "".join(lines)
