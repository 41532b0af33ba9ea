"""Where energy goes: by component, by tensor and by Einsum, each stacked by what it is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from operator import attrgetter

from einmap.model.cost import ActionRow, Cost
from einmap.report.costs import rows as report_rows
from einmap.report.costs.tables import OPERATIONS, energy_table, energy_unit
from einmap.report.html.charts import MOST_ROWS, Amount, colours_of, grouped, stacked
from einmap.report.html.parts import Figure, Folded, Option, Section, Tabs
from einmap.report.text.formatting import Scale, percent, summed

type Key = Callable[[ActionRow], str]
_component, _einsum = attrgetter("component"), attrgetter("einsum")


def energy_section(cost: Cost) -> Section | None:
    """The section, or None where nothing costs energy."""
    if not cost.energy:
        return None
    components = colours_of([row.component for row in cost.components])
    tensors = colours_of(
        [*report_rows.tensors(cost), OPERATIONS, *map(report_rows.power_name, report_rows.powers(cost))]
    )
    views = [
        Option("by component", (_view(cost, "component", "tensor", _component, _what, tensors),)),
        Option("by tensor", (_view(cost, "tensor", "component", _what, _component, components),)),
    ]
    if len(cost.latency_by_einsum) > 1:
        views.append(Option("by Einsum", (_view(cost, "Einsum", "component", _einsum, _component, components),)))
    sums = _sums((row for row in cost.actions if row.tensor is not None), _what)
    table = replace(energy_table(cost, grouped(sums, "others")), caption=f"Energy ({energy_unit(cost)}).")
    return Section("energy", "Energy", (Tabs(tuple(views)), Folded("numbers", (table,))))


def _what(row: ActionRow) -> str:
    return row.tensor or (report_rows.power_name(row.action) if row.is_constant else OPERATIONS)


def _view(cost: Cost, along: str, of: str, bar: Key, part: Key, colours: Mapping[str, str]) -> Figure:
    parts = grouped(_sums(cost.actions, part), f"other {of}s")
    bars = _sums(cost.actions, bar)
    rows = grouped(bars, f"other {along}s", MOST_ROWS - 1) if along == "tensor" else {name: name for name in bars}
    sums = summed(((rows[bar(row)], parts[part(row)]), row.energy) for row in cost.actions)
    totals = summed((name, energy) for (name, _), energy in sums.items())
    if along == "tensor":
        sums = dict(sorted(sums.items(), key=lambda item: -totals[item[0][0]]))
    elif along == "component":
        order = {row.component: place for place, row in enumerate(cost.components)}
        sums = dict(sorted(sums.items(), key=lambda item: order.get(item[0][0], 0)))
    scale = Scale.of(totals.values(), "J")
    shares = {name: percent(total / cost.energy) for name, total in totals.items()}
    amounts = [
        Amount(name, what, energy / scale.factor, energy / cost.energy, f"all of {name}: {shares[name]}")
        for (name, what), energy in sums.items()
    ]
    plot = stacked(amounts, scale.unit, "energy", of, _with_rest(colours, parts.values()))
    most = max(totals, key=lambda name: totals[name])
    text = f"Energy by {along}, stacked by {of}: most in {most}, {shares[most]} of all."
    return Figure(f"energy-by-{along.lower()}", f"Energy by {along}, stacked by {of}", plot, text)


def _with_rest(colours: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The colours, and that of the rest for the name that is not among them; again from the start for what is shown."""
    shown = [name for name in dict.fromkeys([*colours, *names]) if name in set(names)]
    if all(name in colours for name in shown) and len(colours) <= MOST_ROWS:
        return dict(colours)
    palette = colours_of([name for name in shown if name in colours])
    return {**palette, **{name: "var(--series-11)" for name in shown if name not in colours}}


def _sums(rows: Iterable[ActionRow], key: Key) -> dict[str, float]:
    return summed((key(row), row.energy) for row in rows)
