"""What a plan predicted, what its program executes and what its compiler made of it, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from einmap.distribute.backends.compare import Compiled, Match, after_compilation
from einmap.distribute.backends.observed_collectives import Collective
from einmap.distribute.mesh import Group as Devices
from einmap.distribute.mesh import Mesh
from einmap.report.formatting import NONE
from einmap.report.layout import new_table
from einmap.report.simulation import exact


def comparison_section(found: Sequence[Match]) -> RenderableType:
    """One row for each different collective: how often it was predicted, and how often the program executes it."""
    title = "Communication of the program against the prediction, per PE"
    if not found:
        return Text(f"{title}: none, as predicted", style="bold")
    table = new_table("collective", "tensor", "groups", "operand B", "result B", "predicted", "executed", left=range(3))
    for one in found:
        row = one.collective
        names = one.collective.kind.replace("_", "-"), ", ".join(one.tensors) or NONE, _over(one.axes, row.groups)
        figures = (row.operand_bytes, row.result_bytes, one.predicted, one.lowered)
        table.add_row(*names, *map(exact, figures), style="" if one.agrees else "bold red")
    return Group(Text(title, style="bold"), table, _verdict(found))


def compilation_section(mesh: Mesh, lowered: Sequence[Collective], compiled: Sequence[Collective]) -> RenderableType:
    """The bytes of each kind and group before and after compilation, and why they differ; a line where they do not."""
    rows = after_compilation(lowered, compiled)
    if not any(row.why for row in rows):
        return Text("The compiled program has the same collectives.")
    table = new_table("collective", "groups", "executed", "in all B", "compiled", "in all B", left=range(2))
    notes = []
    for row in rows:
        figures = (row.lowered_count, row.lowered_bytes, row.compiled_count, row.compiled_bytes)
        axes = _axes(mesh, row)
        name = row.kind.replace("_", "-")
        table.add_row(name, _over(axes, row.groups), *map(exact, figures))
        if row.why:
            notes.append(Text(f"  {name} over {', '.join(axes) or 'other groups'}: {row.why}", style="yellow"))
    return Group(Text("Communication after compilation, per PE", style="bold"), table, *notes)


def agreement(found: Sequence[Match]) -> bool:
    """Whether the program executes what was predicted, no more and no less."""
    return all(one.agrees for one in found)


def comparison_document(found: Sequence[Match], compiled: Sequence[Collective] | None) -> dict[str, Any]:
    """The comparison of predicted and lowered collectives as plain data."""
    return {
        "communication": [
            {
                "kind": one.collective.kind,
                "tensors": one.tensors,
                "groups": one.collective.groups,
                "operand_bytes": one.collective.operand_bytes,
                "result_bytes": one.collective.result_bytes,
                "predicted": one.predicted,
                "executed": one.lowered,
            }
            for one in found
        ],
        "communication_agrees": agreement(found),
        "compiled": None if compiled is None else [asdict(one) for one in compiled],
    }


def _verdict(found: Sequence[Match]) -> Text:
    wrong = sum(not one.agrees for one in found)
    if not wrong:
        return Text("Every collective is as predicted.", style="green")
    return Text(f"{wrong} of {len(found)} kinds of collectives DIFFER from the prediction.", style="bold red")


def _axes(mesh: Mesh, row: Compiled) -> tuple[str, ...]:
    """The mesh axes over which the groups lie; empty where they are not groups of the mesh."""
    if not row.groups:
        return ()
    coordinates = [mesh.coordinates(device) for device in row.groups[0]]
    axes = tuple(name for name in mesh.names if len({place[name] for place in coordinates}) > 1)
    of_mesh = {tuple(sorted(group)) for group in mesh.groups(axes)}
    return axes if of_mesh == set(row.groups) else ()


def _over(axes: Sequence[str], groups: Sequence[Devices]) -> str:
    """`x: 1 of 8` - over axis x, one group of eight PEs."""
    sizes = f"{len(groups)} of {len(groups[0])}" if groups else NONE
    return f"{', '.join(axes)}: {sizes}" if axes else sizes
