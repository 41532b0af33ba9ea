"""Where the numbers of a result come from: each part of its energy with a line or a publication, the models used."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from einmap.model.cost import Cost
from einmap.model.explanation.energy_terms import EnergyExplanation, EnergyTerm
from einmap.report.text.formatting import NONE, area, percent
from einmap.report.text.layout import new_table, section_title
from einmap.spec.cost_sources import CostSource, UsedModel, cost_sources_of_all, used_models
from einmap.spec.spec import Spec
from einmap.units import format_count, format_si

MOST_TERMS = 60
"""Terms that the terminal shows; all of them are in the JSON document."""
_UNITS = {"leak_power": "W", "refresh_power": "W", "energy": "J", "latency": "s", "hop_latency": "s"}


def cost_document(cost: Cost, spec: Spec) -> dict[str, Any]:
    """A result for JSON with `provenance`: the costs of each component with their sources.

    An entry belongs to the rows of `actions` of its `component`, `action` and `einsums` (none: all); `leak_power` and
    `refresh_power`, of no action, to the rows of `leak` and `refresh`.
    """
    return {**cost.to_dict(), "provenance": provenance_document(spec)}


def provenance_document(spec: Spec) -> list[dict[str, Any]]:
    """The costs of each component with their sources, for JSON."""
    return [asdict(row) for row in cost_sources_of_all(spec)]


def models_section(spec: Spec) -> RenderableType | None:
    """One line for each component model that gives costs, and what it was priced for; None where all are written."""
    models = used_models(spec)
    if not models:
        return None
    lines: list[RenderableType] = [section_title("Costs by models (`einmap components show` has each number)")]
    for model in models:
        text = f"  {model.component_class} for {', '.join(model.components)}: {'; '.join(model.sources)}"
        lines.append(Text(text, no_wrap=True, overflow="ellipsis"))
        lines += [Padding(Text(f"priced for {prices}"), (0, 0, 0, 4)) for prices in _priced_for(model)]
    return Group(*lines)


def _priced_for(model: UsedModel) -> list[str]:
    """For what size, width and node each component is priced, one text at most."""
    priced = {name: price for name, price in zip(model.components, model.priced_for, strict=True) if price}
    if len(set(priced.values())) == 1:
        return [next(iter(priced.values()))]
    return ["; ".join(f"{name}: {price}" for name, price in priced.items())] if priced else []


def energy_report(explanation: EnergyExplanation) -> RenderableType:
    """The energy as a sum, largest terms first, and where the number of each term comes from."""
    paid = [term for term in explanation.terms if term.energy]
    shown, free = paid[:MOST_TERMS], len(explanation.terms) - len(paid)
    sources = {_key(term.each): number for number, term in enumerate({_key(t.each): t for t in shown}.values(), 1)}
    several = len({einsum for term in explanation.terms for einsum in term.einsums}) > 1
    table = new_table("", "", "actions", "each", "energy", "", "from", left=(0, 1), whole=(3, 4, 5, 6))
    for term in shown:
        table.add_row(
            Text(term.component), Text(term_name(term, several)), Text(term_count(term)), _each(term.each),
            format_si(term.energy, "J"), percent(term.share), f"[{sources[_key(term.each)]}]",
            style="" if term.share >= 0 else "yellow",
        )  # fmt: skip
    rest = paid[MOST_TERMS:]
    if rest:
        others = math.fsum(part.energy for term in rest for part in term.parts)
        share = percent(math.fsum(term.share for term in rest))
        table.add_row(f"{len(rest)} more", "(--json has them)", "", "", format_si(others, "J"), share, "")
    total = math.fsum(part.energy for term in explanation.terms for part in term.parts)
    table.add_section()
    table.add_row("total", "", "", "", format_si(total, "J"), _part(total, explanation.energy), "", style="bold")
    head = f"energy {format_si(explanation.energy, 'J')}, counted as {explanation.semantics}"
    parts: list[RenderableType] = [Text(head, style="bold"), Text("")]
    parts += [section_title("What the energy is made of: actions x energy of one"), table]
    if free:
        parts.append(Text(f"  and {free} kinds of actions of 0 J", style="dim"))
    parts += [Text(""), section_title("Where the energy of one action comes from")]
    told = {_key(term.each): term.each for term in shown}
    parts += [Padding(Text(f"[{sources[key]}] {source_line(each)}"), (0, 0, 0, 2)) for key, each in told.items()]
    return Group(*parts)


def _key(each: CostSource) -> tuple[object, ...]:
    """What makes two sources one: everything but the Einsums."""
    return each.component, each.action, each.quantity, each.value, each.source, each.scaling, each.factors


def source_line(each: CostSource) -> str:
    """`DRAM read 20.3 pJ = 1.3 nJ / bits of a row 64, from DRAM: Horowitz, ISSCC 2014`."""
    name = f"{each.component} {each.action or each.quantity.replace('_', ' ')}"
    made = f" = {' '.join((shown(each.before, each.quantity), *map(str, each.factors)))}" if each.factors else ""
    return f"{name} {_each(each)}{made}, from {'; '.join((each.source, *each.scaling))}"


def shown(value: float | None, quantity: str) -> str:
    """A number with the unit of its quantity."""
    if value is None:
        return NONE
    return area(value) if quantity == "area" else format_si(value, _UNITS[quantity])


def _each(each: CostSource) -> str:
    return shown(each.value, each.quantity)


def term_name(term: EnergyTerm, several: bool) -> str:
    """`read A`, and the Einsum where it is one of several."""
    name = " ".join(part for part in (term.action, term.tensor) if part is not None)
    return f"{name} ({term.einsums[0]})" if several and len(term.einsums) == 1 and term.tensor is None else name


def term_count(term: EnergyTerm) -> str:
    """How many actions; of leakage instances x seconds, of which a part is not gated."""
    if term.seconds is None:
        return format_count(term.count or 0.0)
    instances = f"{term.instances:,} x " if term.instances != 1 else ""
    gated = f" x {percent(term.powered)}" if term.powered < 1 - 1e-9 else ""
    return f"{instances}{format_si(term.seconds, 's')}{gated}"


def _part(total: float, whole: float) -> str:
    return percent(total / whole) if whole else NONE
