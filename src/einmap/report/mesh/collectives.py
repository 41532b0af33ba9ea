"""Collectives that a plan predicted, its program executes and its compiler made, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from einmap.distribute.backends.compare import Compiled, Match, after_compilation
from einmap.distribute.backends.observed_collectives import PERMUTE, Collective
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.plans.collectives import Traffic
from einmap.report.text.formatting import NONE, exact, hyphened
from einmap.report.text.layout import Table, section, section_title


def traffic_section(rows: Sequence[Traffic], title: str = "Predicted communication, per PE") -> RenderableType:
    """One row for each collective."""
    return section(title, traffic_table(rows)) if rows else section_title(f"{title}: none")


def traffic_table(rows: Sequence[Traffic]) -> Table:
    """One row for each collective: bytes are those of one PE in one execution, the last column those of all."""
    texts = []
    for row in rows:
        figures = (row.count, row.operand_bytes, row.result_bytes, row.sent_bytes, row.total_sent_bytes)
        groups = f"{', '.join(row.axes)}: {row.groups}"
        texts.append((hyphened(row.kind), row.tensor, groups, *map(exact, figures)))
    head = ("collective", "tensor", "groups", "times", "operand B", "result B", "sent B", "in all B")
    return Table(head, texts, left=range(3), whole=range(3))


def comparison_section(matches: Sequence[Match]) -> RenderableType:
    """One row for each different collective: how often it was predicted, and how often the program executes it."""
    title = "Communication of the program against the prediction, per PE"
    if not matches:
        return section_title(f"{title}: none, as predicted")
    return section(title, matches_table(matches), _verdict(matches))


def matches_table(matches: Sequence[Match]) -> Table:
    """How often each different collective was predicted and executed; those that differ stand out."""
    texts = []
    for match in matches:
        row = match.collective
        names = hyphened(row.kind), ", ".join(match.tensors) or NONE, _over(match.axes, row)
        texts.append((*names, *map(exact, (row.operand_bytes, row.result_bytes, match.predicted, match.lowered))))
    wrong = [place for place, match in enumerate(matches) if not match.agrees]
    head = ("collective", "tensor", "groups", "operand B", "result B", "predicted", "executed")
    return Table(head, texts, left=range(3), tones=dict.fromkeys(wrong, "bad"))


def compilation_section(mesh: Mesh, lowered: Sequence[Collective], compiled: Sequence[Collective]) -> RenderableType:
    """The bytes of each kind and group before and after compilation, and why they differ; a line where they do not."""
    rows = after_compilation(lowered, compiled)
    if not any(row.why for row in rows):
        return Text("The compiled program has the same collectives.")
    texts, notes = [], []
    for row in rows:
        figures = (row.lowered_count, row.lowered_bytes, row.compiled_count, row.compiled_bytes)
        axes, name = _axes(mesh, row), hyphened(row.kind)
        texts.append((name, _over(axes, row), *map(exact, figures)))
        if row.why:
            notes.append(Text(f"  {name} over {', '.join(axes) or 'other groups'}: {row.why}", style="yellow"))
    head = ("collective", "groups", "executed", "in all B", "compiled", "in all B")
    return section("Communication after compilation, per PE", Table(head, texts, left=range(2)), *notes)


def agreement(matches: Sequence[Match]) -> bool:
    """Whether the program executes what was predicted, no more and no less."""
    return all(match.agrees for match in matches)


def comparison_document(matches: Sequence[Match], compiled: Sequence[Collective] | None) -> dict[str, Any]:
    """The comparison of predicted and lowered collectives as plain data."""
    return {
        "communication": [
            {
                "kind": match.collective.kind,
                "tensors": match.tensors,
                "groups": match.collective.groups,
                "operand_bytes": match.collective.operand_bytes,
                "result_bytes": match.collective.result_bytes,
                "predicted": match.predicted,
                "executed": match.lowered,
            }
            for match in matches
        ],
        "communication_agrees": agreement(matches),
        "compiled": None if compiled is None else [asdict(collective) for collective in compiled],
    }


def _verdict(matches: Sequence[Match]) -> Text:
    wrong = sum(not match.agrees for match in matches)
    if not wrong:
        return Text("Every collective is as predicted.", style="green")
    return Text(f"{wrong} of {len(matches)} kinds of collectives DIFFER from the prediction.", style="bold red")


def _axes(mesh: Mesh, row: Compiled) -> tuple[str, ...]:
    """The mesh axes over which the groups lie; empty where they are not groups of the mesh."""
    if not row.groups:
        return ()
    groups = row.groups if row.kind == PERMUTE else row.groups[:1]
    differing: set[str] = set()
    for group in groups:
        first, *others = (mesh.coordinates(device) for device in group)
        differing |= {name for name in mesh.names for place in others if place[name] != first[name]}
    axes = tuple(name for name in mesh.names if name in differing)
    of_mesh = {tuple(sorted(group)) for group in mesh.groups(axes).listed}
    return axes if row.kind == PERMUTE or of_mesh == set(row.groups) else ()


def _over(axes: Sequence[str], row: Compiled | Collective) -> str:
    """`x: 1 of 8` - over axis x, one group of eight PEs; `x: 12 pairs` where single PEs send to single PEs."""
    sizes = f"{len(row.groups)} of {len(row.groups[0])}" if row.groups else NONE
    if row.kind == PERMUTE:
        sizes = "1 pair" if len(row.groups) == 1 else f"{len(row.groups)} pairs"
    return f"{', '.join(axes)}: {sizes}" if axes else sizes
