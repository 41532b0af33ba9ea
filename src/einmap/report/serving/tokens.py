"""The terminal report and the JSON document of `einmap tokens`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from einmap.errors import Note
from einmap.report.serving.tables import (
    MOST_WAYS,
    has_ways,
    memory_table,
    memory_title,
    parts_table,
    side_by_side,
    times_table,
    title_of,
    together,
    ways_table,
)
from einmap.report.text.layout import section, stacked
from einmap.serving.on_cluster import PartCost, Planned
from einmap.serving.tokens import TokenCosts, TokenPoint

SCHEMA = 1
"""Version of the JSON document."""


def tokens_report(several: Sequence[TokenCosts]) -> RenderableType:
    """Of one machine times and rates, how devices are divided, what is held, and what limits each part, point by point;
    of several machines times and rates side by side.
    """
    if len(several) > 1:
        tables = [section(title, table) for title, table in side_by_side(several)]
        return stacked([section(together(several)), *tables, _noted(several)])
    (costs,) = several
    most = max(len(point.ways) for point in costs.points)
    title = "The best plan of each way to divide devices"
    if most > MOST_WAYS:
        title += f": the {MOST_WAYS} best of {most}"
    return stacked(
        [
            section(title_of(costs), times_table(costs)),
            section(title, ways_table(costs, MOST_WAYS)) if has_ways(costs) else None,
            section(memory_title(costs), memory_table(costs)),
            section("What limits each part", parts_table(costs)),
            _noted(several),
        ]
    )


def _noted(several: Iterable[TokenCosts]) -> RenderableType | None:
    notes: dict[Note, None] = {note: None for costs in several for note in costs.notes}
    return stacked([Text(str(note), style="yellow") for note in notes]) if notes else None


def tokens_document(several: Sequence[TokenCosts]) -> dict[str, Any]:
    """Plain dictionaries and lists, ready for JSON; times in s, sizes in bytes, energies in J. Several machines are in
    a list.
    """
    documents = [_document(costs) for costs in several]
    if len(documents) == 1:
        return {"schema": SCHEMA, **documents[0]}
    return {"schema": SCHEMA, "machines": documents}


def _document(costs: TokenCosts) -> dict[str, Any]:
    front = {*costs.front}
    return {
        "machine": costs.machine,
        "architecture": costs.architecture,
        "parameters": costs.n_parameters,
        "points": [_point(point, on_front=point in front) for point in costs.points],
        "notes": [str(note) for note in costs.notes],
    }


def _point(point: TokenPoint, *, on_front: bool) -> dict[str, Any]:
    return {
        "batch": point.batch,
        "context": point.context,
        "devices": point.devices,
        "seconds_for_each_token": point.seconds,
        "seconds_for_each_token_served": point.served,
        "seconds_to_first_token": point.seconds_to_first,
        "tokens_per_second_of_a_device": point.rate,
        "tokens_per_second_of_a_user": point.user_rate,
        "energy_of_a_token": point.energy,
        "memory": _memory(point.best),
        "limited_by": point.limited_by,
        "proven": point.proven,
        "front": on_front,
        "plan": _plan(point.best),
        "ways": [_way(way) for way in point.ways],
        "parts": [_part(part) for part in point.parts],
        "first": [_part(part) for part in point.first],
    }


def _memory(step: Planned) -> dict[str, Any]:
    held = step.held
    return {
        "weights": held.weights,
        "cache": held.cache,
        "activations": held.activations,
        "size": held.memory if isfinite(held.memory) else None,
        "fits": held.fits,
        "most_sequences": step.most_sequences,
    }


def _plan(step: Planned) -> dict[str, Any]:
    return asdict(step.plan) | {"stages": list(step.stages)}


def _way(step: Planned) -> dict[str, Any]:
    return {
        "plan": _plan(step),
        "seconds_for_each_token": step.each_token,
        "seconds_in_collectives": step.collectives,
        "spent": step.spent,
        "memory": _memory(step),
    }


def _part(part: PartCost) -> dict[str, Any]:
    return {
        "name": part.name,
        "instances": part.instances,
        "seconds": part.seconds,
        "energy": part.energy,
        "limited_by": part.limited_by,
        "proven": part.proven,
        "operations": part.operations,
        "bytes": part.moved,
    }
