"""Numbers and tables of costs, as terminal and HTML show them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from einmap.model.cost import Cost
from einmap.report.costs import rows
from einmap.report.text.formatting import NONE, Scale, area, largest, limited, percent
from einmap.report.text.layout import Table
from einmap.spec.spec import Spec
from einmap.units import format_bits, format_count, format_si

FULL = 0.9
"""Memories filled to this part are worth a look."""
OPERATIONS = "compute"
"""Energy that belongs to no tensor."""


def totals(cost: Cost) -> list[tuple[str, str, str]]:
    """Name, value and what matters most in it: energy, latency, EDP, area and work."""
    parts = {row.component: row.share for row in rows.energy_rows(cost)}
    powers = [
        f"; {rows.power_name(name)} {percent(energy / cost.energy)}"
        for name, energy in rows.by_power(cost.actions).items()
        if energy
    ]
    limits = {row.component: row.limits for row in rows.busy_rows(cost)}
    found = [
        ("energy", format_si(cost.energy, "J"), largest(parts) + "".join(powers)),
        ("latency", format_si(cost.latency, "s"), limited(limits)),
        ("EDP", format_si(cost.edp, "J*s"), ""),
    ]
    if cost.area:
        shares = {row.component: (row.total_area or 0.0) / cost.area for row in cost.components}
        found.append(("area", area(cost.area), largest(shares)))
    computes = cost.count_by("action").get(("compute",), 0.0)
    if computes:
        rate = f", {format_si(computes / cost.latency, '')}/s" if cost.latency else ""
        found.append(("computes", format_count(computes), f"{format_si(cost.energy / computes, 'J')} each{rate}"))
    if cost.semantics != "exact":
        found.append(("counted as", cost.semantics, ""))
    return found


def einsums_table(cost: Cost) -> Table:
    """A row for each Einsum: energy, latency, what limits it, what it fills most."""
    lines = rows.einsum_rows(cost)
    energy, latency = Scale.of((r.energy for r in lines), "J"), Scale.of((r.latency for r in lines), "s")
    texts = [
        (
            row.einsum, energy.show(row.energy), percent(row.energy_share), latency.show(row.latency),
            percent(row.latency_share), " + ".join(row.limited_by) or NONE,
            f"{row.memory} {percent(row.usage)}" if row.memory else NONE,
        )
        for row in lines
    ]  # fmt: skip
    head = ("", f"energy\n{energy.unit}", "", f"latency\n{latency.unit}", "", "\nlimited by", "\nfills most")
    return Table(head, texts, left=(0, 5, 6), bars={4: [row.latency_share for row in lines]})


def energy_unit(cost: Cost) -> str:
    """The unit of all numbers of `energy_table`."""
    return Scale.of((row.total for row in rows.energy_rows(cost)), "J").unit


def energy_table(cost: Cost, columns: Mapping[str, str] | None = None) -> Table:
    """Energy by component and tensor. `columns`: that of each tensor, where they have not one each."""
    lines = rows.energy_rows(cost)
    scale = Scale.of((row.total for row in lines), "J")
    sums: dict[str, list[float]] = {}
    for tensor in rows.tensors(cost):
        column = sums.setdefault(columns[tensor] if columns else tensor, [0.0] * len(lines))
        for place, row in enumerate(lines):
            column[place] += row.by_tensor.get(tensor, 0.0)
    sums[OPERATIONS] = [row.compute for row in lines]
    for name in rows.powers(cost):
        sums[name] = [row.by_power.get(name, 0.0) for row in lines]
    sums["total"] = [row.total for row in lines]
    texts = [
        (row.component, *(scale.show(column[place]) for column in sums.values()), percent(row.share))
        for place, row in enumerate(lines)
    ]
    texts.append(("total", *(scale.show(math.fsum(column)) for column in sums.values()), ""))
    bars = {len(sums) + 1: [*(row.share for row in lines), 0.0]}
    return Table(("", *sums, ""), texts, bars=bars, tones={len(lines): "strong"})


def largest_energies(cost: Cost) -> Table:
    """Energy by component, each with the tensors that cost most."""
    lines = rows.energy_rows(cost)
    scale = Scale.of((row.total for row in lines), "J")
    texts = []
    for row in lines:
        parts = {**row.by_tensor, OPERATIONS: row.compute, **row.by_power}
        shares = {name: value / row.total if row.total else 0.0 for name, value in parts.items()}
        texts.append((row.component, scale.show(row.total), percent(row.share), largest(shares, most=5)))
    return Table(("", "total", "", "of which"), texts, left=(0, 3), bars={2: [row.share for row in lines]})


def busy_table(cost: Cost) -> Table:
    """How long each component works, and for which part of the latency nothing works longer."""
    lines = rows.busy_rows(cost)
    scale = Scale.of((row.busy for row in lines), "s")
    several = len(cost.latency_by_einsum) > 1
    limits = [f"limits {percent(row.limits)} of the time" if several else "limits the latency" for row in lines]
    texts = [
        (row.component, scale.show(row.busy), percent(row.share), limit if row.limits else "")
        for row, limit in zip(lines, limits, strict=True)
    ]
    tones = {n: "strong" for n, row in enumerate(lines) if row.limits}
    head, bars = ("", scale.unit, "busy", ""), {2: [row.share for row in lines]}
    return Table(head, texts, left=(0, 3), bars=bars, marked=tones, tones=dict.fromkeys(tones, "strong"))


def memories_table(cost: Cost, spec: Spec | None = None) -> Table:
    """How full each memory is at its fullest, and with what."""
    lines, texts = rows.memory_rows(cost, spec), []
    for row in lines:
        copies = f"{row.instances:,} x " if row.instances > 1 else ""
        capacity = f"{copies}{format_bits(row.size_bits)}" if row.size_bits is not None else NONE
        if row.size_bits is not None and math.isinf(row.size_bits):
            texts.append((row.component, NONE, "unlimited", ""))
        else:
            texts.append((row.component, percent(row.usage), capacity, largest(row.by_tensor)))
    bars = {1: [row.usage if text[1] != NONE else 0.0 for row, text in zip(lines, texts, strict=True)]}
    marked = [n for n, row in enumerate(lines) if row.usage >= FULL]
    return Table(("", "full", "capacity", "largest tensors"), texts, left=(0, 3), bars=bars, marked=marked)


def fanouts_table(cost: Cost, spec: Spec | None = None) -> Table:
    """How much of each fanout works."""
    lines = rows.spatial_rows(cost, spec)
    texts = [
        (
            f"{row.component}.{row.dimension}", percent(row.mean), NONE if row.fanout is None else f"{row.fanout:,}",
            f"{percent(row.lowest)} in {row.lowest_in}, up to {percent(row.highest)}"
            if row.highest - row.lowest > 1e-9 else "",
        )
        for row in lines
    ]  # fmt: skip
    return Table(("", "used", "fanout", ""), texts, left=(0, 3), bars={1: [row.mean for row in lines]})
