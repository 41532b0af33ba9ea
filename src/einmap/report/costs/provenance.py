"""Where the numbers of a result come from: each part of its energy with a line or a publication, the models used."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from einmap.model.cost import Cost
from einmap.model.explanation.energy_terms import EnergyExplanation, EnergyTerm
from einmap.report.text.formatting import NONE, percent, quantity
from einmap.report.text.layout import Table, Tone, indented, section, section_title, stacked
from einmap.spec.cost_sources import CostSource, UsedModel, cost_sources_of_all, used_models
from einmap.spec.spec import Spec
from einmap.units import format_count, format_si

MOST_TERMS = 60
"""Terms that the terminal shows; all of them are in the JSON document."""


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
    lines: list[RenderableType] = []
    for model in models:
        text = f"  {model.component_class} for {', '.join(model.components)}: {'; '.join(model.sources)}"
        lines.append(Text(text, no_wrap=True, overflow="ellipsis"))
        lines += [indented(f"priced for {prices}", 4) for prices in _priced_for(model)]
    return section("Costs by models (`einmap components show` has each number)", *lines)


def _priced_for(model: UsedModel) -> list[str]:
    """For what size, width and node each component is priced, one text at most."""
    priced = {name: price for name, price in zip(model.components, model.priced_for, strict=True) if price}
    if len(set(priced.values())) == 1:
        return [next(iter(priced.values()))]
    return ["; ".join(f"{name}: {price}" for name, price in priced.items())] if priced else []


def terms_table(explanation: EnergyExplanation, most: int, sources: Mapping[int, str]) -> Table:
    """The energy as a sum, largest terms first. `sources`: where the number of each term comes from, by its place."""
    paid = [term for term in explanation.terms if term.energy]
    several = len({einsum for term in explanation.terms for einsum in term.einsums}) > 1
    texts = [
        (
            term.component, term_name(term, several), term_count(term), _each(term.each), format_si(term.energy, "J"),
            percent(term.share), sources[place],
        )
        for place, term in enumerate(paid[:most])
    ]  # fmt: skip
    tones: dict[int, Tone] = {place: "warning" for place, term in enumerate(paid[:most]) if term.share < 0}
    rest = paid[most:]
    if rest:
        share = percent(math.fsum(term.share for term in rest))
        texts.append((f"{len(rest)} more", "(--json has them)", "", "", format_si(_joules(rest), "J"), share, ""))
    total = _joules(explanation.terms)
    share = percent(total / explanation.energy) if explanation.energy else NONE
    tones[len(texts)] = "strong"
    texts.append(("total", "", "", "", format_si(total, "J"), share, ""))
    head = ("", "", "actions", "each", "energy", "", "from")
    return Table(head, texts, left=(0, 1), whole=(3, 4, 5, 6), tones=tones)


def _joules(terms: Iterable[EnergyTerm]) -> float:
    return math.fsum(part.energy for term in terms for part in term.parts)


def energy_report(explanation: EnergyExplanation) -> RenderableType:
    """The energy as a sum, largest terms first, and where the number of each term comes from."""
    paid = [term for term in explanation.terms if term.energy]
    told = {_key(term.each): term.each for term in paid[:MOST_TERMS]}
    numbers = {key: f"[{number}]" for number, key in enumerate(told, 1)}
    table = terms_table(explanation, MOST_TERMS, {n: numbers[_key(t.each)] for n, t in enumerate(paid[:MOST_TERMS])})
    free = len(explanation.terms) - len(paid)
    rest = [Text(f"  and {free} kinds of actions of 0 J", style="dim")] if free else []
    return stacked(
        [
            section_title(f"energy {format_si(explanation.energy, 'J')}, counted as {explanation.semantics}"),
            section("What the energy is made of: actions x energy of one", table, *rest),
            section(
                "Where the energy of one action comes from",
                *(indented(f"{numbers[key]} {source_line(each)}") for key, each in told.items()),
            ),
        ]
    )


def _key(each: CostSource) -> tuple[object, ...]:
    """Key of equal sources: everything but the Einsums."""
    return each.component, each.action, each.quantity, each.value, each.source, each.scaling, each.factors


def source_line(each: CostSource) -> str:
    """`DRAM read 20.3 pJ = 1.3 nJ / bits of a row 64, from DRAM: Horowitz, ISSCC 2014`."""
    name = f"{each.component} {each.action or each.quantity.replace('_', ' ')}"
    made = f" = {' '.join((quantity(each.before, each.quantity), *map(str, each.factors)))}" if each.factors else ""
    return f"{name} {_each(each)}{made}, from {'; '.join((each.source, *each.scaling))}"


def _each(each: CostSource) -> str:
    return quantity(each.value, each.quantity)


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
