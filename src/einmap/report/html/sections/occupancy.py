"""Contents of each memory while the Einsums run, one after the other as the LoopTree runs them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from einmap.arch.component import Memory
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.model.evaluate import Workings, workings_of
from einmap.model.explanation.lifetimes import live_buffers
from einmap.report.html.charts import (
    MOST_ROWS,
    MOST_SERIES,
    colours_of,
    dashed_line,
    grouped,
    legend,
    name,
    number,
    tooltip,
)
from einmap.report.html.parts import Figure, Option, Paragraph, Part, Section, Tabs
from einmap.report.text.formatting import data_unit, percent, summed
from einmap.spec.spec import Spec
from einmap.units import format_bits

_LEAD = (
    "The largest part of one instance of each memory that is in use while each Einsum runs, in the order of the "
    "LoopTree. Below loops that several Einsums share, these steps take turns."
)
_AT_ONE_TIME = "Einsums of a Pipeline are shown with all that its stages hold at one time in its fullest turn."
_OTHERS = "other tensors"
_MOST_PARTS = 2_000
"""Parts of bars of which each is drawn; of more the largest tensors are, and the rest as one."""
_LOW = 0.2
"""A capacity of which less is used stands in words: its line so far up would press the rest flat."""


@dataclass(frozen=True, slots=True)
class Step:
    """One Einsum as it runs: its place, and the bits of each tensor in one memory."""

    number: int
    einsum: str
    bits: Mapping[str, float]


def occupancy_section(spec: Spec, mapping: LoopTree) -> Section | None:
    """The section, or None where no memory holds anything. Raises as `evaluate` does."""
    memories = steps_of(workings_of(spec, mapping))
    options = [Option(memory.name, (_figure(memory, steps),)) for memory, steps in memories]
    if not options:
        return None
    parts: tuple[Part, ...] = (Tabs(tuple(options)),) if len(options) > 1 else options[0].parts
    if spec.model_options.semantics != "exact":
        parts = (*parts, Paragraph("Lives of buffers are those of the counting rules `exact`."))
    return Section("occupancy", "Occupancy", parts, f"{_LEAD} {_AT_ONE_TIME}" if mapping.is_pipelined else _LEAD)


def steps_of(workings: Workings) -> list[tuple[Memory, tuple[Step, ...]]]:
    """For each memory what lives there step by step; those of limited size first."""
    memories: dict[str, Memory] = {}
    steps: dict[str, list[Step]] = {}
    for place, (einsum, buffers) in enumerate(live_buffers(workings).items(), start=1):
        by_memory: dict[str, dict[str, float]] = {}
        for buffer in buffers:
            name = buffer.memory.name
            if name not in memories or buffer.memory.size_bits > memories[name].size_bits:
                memories[name] = buffer.memory
            held = by_memory.setdefault(name, {})
            held[buffer.tensor] = held.get(buffer.tensor, 0.0) + float(buffer.bits)
        for name, held in by_memory.items():
            steps.setdefault(name, []).append(Step(place, einsum, held))
    order = sorted(memories, key=lambda name: math.isinf(memories[name].size_bits))
    return [(memories[name], tuple(steps[name])) for name in order]


def _figure(memory: Memory, steps: tuple[Step, ...]) -> Figure:
    most: dict[str, float] = {}
    for step in steps:
        for tensor, bits in step.bits.items():
            most[tensor] = max(most.get(tensor, 0.0), bits)
    is_small = sum(len(step.bits) for step in steps) <= _MOST_PARTS
    names = {tensor: tensor for tensor in most} if is_small else grouped(most, _OTHERS, MOST_SERIES - 1)
    peak = max(math.fsum(step.bits.values()) for step in steps)
    capacity = memory.size_bits
    shows_line = math.isfinite(capacity) and peak >= _LOW * capacity
    size, unit = data_unit(max(peak, capacity if shows_line else 0.0))
    rows = [
        {"einsum": step.einsum, "tensor": tensor, "value": bits / size, "bits": format_bits(bits)}
        for step in steps
        for tensor, bits in summed((names[tensor], bits) for tensor, bits in step.bits.items()).items()
    ]
    fullest = max(steps, key=lambda step: math.fsum(step.bits.values()))
    room = f", {percent(peak / capacity)} of {format_bits(capacity)}" if math.isfinite(capacity) and capacity else ""
    text = f"At most {format_bits(peak)}{room}, while {fullest.einsum} runs."
    top = max(peak, capacity if shows_line else 0.0) / size * 1.08 or 1.0
    plot = _plot(rows, [s.einsum for s in steps], f"in use ({unit})", top, capacity / size if shows_line else None)
    line = " Dashed: capacity." if shows_line else ""
    return Figure(f"occupancy-{memory.name}", f"What {memory.name} holds", plot, text, text + line)


def _plot(
    rows: list[dict[str, Any]], einsums: list[str], title: str, top: float, capacity: float | None
) -> dict[str, Any]:
    few = len(einsums) <= MOST_ROWS
    colours = colours_of([row["tensor"] for row in rows if row["tensor"] != _OTHERS])
    colours[_OTHERS] = "var(--series-11)"
    places = {tensor: place for place, tensor in enumerate(colours)}
    rows = [{**row, "order": places[row["tensor"]]} for row in rows]
    channel = legend(colours, [row["tensor"] for row in rows], "tensor")
    if len(colours) > MOST_SERIES + 1:  # colours repeat: tooltips tell what is what
        channel["legend"] = None
    axis = name("einsum", title=None if few else f"{len(einsums):,} Einsums in order", domain=True, labels=few)
    axis["axis"] |= {"labelAngle": 0 if len(einsums) <= 5 else -40, "labelPadding": 2}
    bars = {
        "data": {"values": rows},
        "mark": {"type": "bar", "width": {"band": 0.94 if few else 1}},
        "encoding": {
            "x": {**axis, "scale": {"domain": einsums}},
            "y": number("value", title, {"domain": [0, top], "nice": False}),
            "color": channel,
            "order": {"field": "order", "type": "ordinal"},
            "tooltip": tooltip(einsum="while", tensor="holds", bits="takes"),
        },
    }
    layers: list[dict[str, Any]] = [bars]
    return {"height": 260, "layer": layers if capacity is None else [*layers, dashed_line("capacity", capacity)]}
