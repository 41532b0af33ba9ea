"""The terminal report and the JSON document of `einmap tokens`."""

from __future__ import annotations

from math import isfinite
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from einmap.report.text.layout import Table, section, stacked
from einmap.serving.on_cluster import PartCost
from einmap.serving.tokens import TokenCosts, TokenPoint
from einmap.units import format_bytes, format_count, format_si

SCHEMA = 1
"""Version of the JSON document."""
NO = "-"


def tokens_report(costs: TokenCosts) -> RenderableType:
    """Times and rates, what is held, and what limits each part, point by point."""
    return stacked([_times(costs), _memory(costs), _parts(costs)])


def _times(costs: TokenCosts) -> RenderableType:
    front = {*costs.front}
    known = any(point.energy is not None for point in costs.points)
    served = any(point.served is not None for point in costs.points)
    columns = ["batch", "context", "each token", *(["served"] if served else []), "first token"]
    columns += ["tokens/s of a device", "of a user"]
    columns += ["energy", "proven"] if known else []
    rows = []
    for point in costs.points:
        first = point.seconds_to_first
        cells = [f"{point.batch:,}", f"{point.context:,}", format_si(point.seconds, "s")]
        cells += [format_si(point.served or point.seconds, "s")] if served else []
        cells += [
            NO if first is None else format_si(first, "s"),
            format_count(point.rate),
            format_count(point.user_rate),
        ]
        if known:
            cells += [NO if point.energy is None else format_si(point.energy, "J"), "yes" if point.proven else "no"]
        rows.append([*cells, "no room" if not point.held.fits else "front" if point in front else ""])
    devices = costs.points[0].devices
    on = f" on {devices} devices" if devices > 1 else ""
    title = f"{costs.architecture} of {format_count(costs.n_parameters)} parameters{on}"
    return section(title, Table((*columns, ""), rows, left=()))


def _memory(costs: TokenCosts) -> RenderableType:
    memory = costs.points[0].held.memory
    rows = [
        (
            f"{point.batch:,}",
            f"{point.context:,}",
            format_bytes(point.held.weights),
            format_bytes(point.held.cache),
            format_bytes(point.held.activations),
            "any" if point.most_sequences is None else f"{point.most_sequences:,}",
        )
        for point in costs.points
    ]
    of = f" of {format_bytes(memory)}" if isfinite(memory) else ""
    columns = "batch", "context", "weights", "cache", "activations", "most sequences"
    return section(f"What a device holds{of}", Table(columns, rows, left=()))


def _parts(costs: TokenCosts) -> RenderableType:
    rows = []
    for point in costs.points:
        for part in point.parts:
            time = f"{part.instances:,} x {format_si(part.seconds, 's')}"
            rows.append((f"{point.batch:,}", f"{point.context:,}", part.name, time, part.limited_by))
    table = Table(("batch", "context", "part", "of a token", "limited by"), rows, left=(2, 4))
    return section("What limits each part", table, *[Text(str(note), style="yellow") for note in costs.notes])


def tokens_document(costs: TokenCosts) -> dict[str, Any]:
    """Plain dictionaries and lists, ready for JSON; times in s, sizes in bytes, energies in J."""
    front = {*costs.front}
    return {
        "schema": SCHEMA,
        "architecture": costs.architecture,
        "parameters": costs.n_parameters,
        "points": [_point(point, on_front=point in front) for point in costs.points],
        "notes": [str(note) for note in costs.notes],
    }


def _point(point: TokenPoint, *, on_front: bool) -> dict[str, Any]:
    held = point.held
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
        "memory": {
            "weights": held.weights,
            "cache": held.cache,
            "activations": held.activations,
            "size": held.memory if isfinite(held.memory) else None,
            "fits": held.fits,
            "most_sequences": point.most_sequences,
        },
        "limited_by": point.limited_by,
        "proven": point.proven,
        "front": on_front,
        "parts": [_part(part) for part in point.parts],
        "first": [_part(part) for part in point.first],
    }


def _part(part: PartCost) -> dict[str, Any]:
    return {
        "name": part.name,
        "instances": part.instances,
        "seconds": part.seconds,
        "energy": part.energy,
        "limited_by": part.limited_by,
        "proven": part.proven,
    }
