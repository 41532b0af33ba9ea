"""Why a mapping costs what it does: what one change would help, and the reuse at every storage node."""

from __future__ import annotations

from dataclasses import replace

from einmap.mapping.nodes import format_address
from einmap.model.explanation.energy_terms import EnergyExplanation
from einmap.model.explanation.values import Explanation
from einmap.report.costs.provenance import source_line, terms_table
from einmap.report.explanations.explanation import (
    FIXED,
    NO_CHANGE,
    NOTATION,
    bottleneck_table,
    case_rows,
    changes_table,
    count_line,
    energy_table,
    helpful,
    piece_line,
)
from einmap.report.explanations.savings import savings_lines
from einmap.report.frames.kinds import frame_of
from einmap.report.frames.shown import shown
from einmap.report.html.parts import Code, Folded, Paragraph, Part, Section
from einmap.report.text.layout import Table

_CASES = {
    "einsum": "Einsum", "tensor": "tensor", "component": "held in", "node": "node", "reuse": "reuse",
    "fetches": "fetched", "chunks": "chunks", "tile shape": "tile", "tile [bits]": "size", "child": "used by",
}  # fmt: skip
"""Columns of the table of storage nodes."""
_MOST = 300
"""Rows of a table, and counts with all their pieces."""


def explained_sections(explanation: Explanation) -> tuple[Section, ...]:
    """Sections on gains, limits, and reuse and counts in full."""
    return (_help(explanation), _reuse(explanation))


def terms_section(explanation: EnergyExplanation) -> Section:
    """The energy as a sum, and where the number of each term comes from."""
    terms = [term for term in explanation.terms if term.energy]
    table = terms_table(explanation, _MOST, {n: source_line(term.each) for n, term in enumerate(terms[:_MOST])})
    shares = [term.share for term in terms[:_MOST]]
    bars = {5: shares + [0.0] * (len(table.rows) - len(shares))}
    lead = f"Actions x energy of one, largest first; counted as {explanation.semantics}."
    return Section("terms", "What the energy is made of", (replace(table, left=(0, 1, 6), bars=bars),), lead)


def _help(explanation: Explanation) -> Section:
    changes = changes_table(helpful(explanation.changes))
    tried: list[Part] = [changes, Paragraph(FIXED)] if changes.rows else [Paragraph(f"{NO_CHANGE.capitalize()}.")]
    table = bottleneck_table(explanation)
    caption = "How far the slowest component is ahead of the next one."
    margins = replace(table, rows=table.rows[:_MOST], caption=caption)
    return Section("help", "What one change would help", (*tried, margins))


def _reuse(explanation: Explanation) -> Section:
    cases = Folded("what the loops above and below each node do", (Paragraph(NOTATION), _cases(explanation)))
    counts = []
    for derivation in explanation.derivations[:_MOST]:
        counts.append(f"{derivation.einsum}: {count_line(derivation)}")
        counts += [f"    {piece_line(piece, derivation)}" for piece in derivation.pieces]
    more = len(explanation.derivations) - _MOST
    counts += [f"... and {more:,} more"] if more > 0 else []
    zeros = savings_lines(explanation.savings)
    saved = (Folded("what zeros save", (Code("\n".join(zeros)),)),) if zeros else ()
    parts = (
        shown(frame_of(explanation, "cases"), _MOST, _CASES),
        cases,
        Folded("what each count is made of", (Code("\n".join(counts)),)),
        *saved,
        Folded("energy, largest part first", (energy_table(explanation.energy[:_MOST]),)),
    )
    lead = "How often each value is used from a storage node after it was fetched into it once."
    return Section("reuse", "Reuse", parts, lead)


def _cases(explanation: Explanation) -> Table:
    rows = []
    for node in explanation.cases[:_MOST]:
        name = f"{node.einsum}: {node.tensor} in {node.component} ({format_address(node.address)})"
        rows += [(name if not n else "", *texts) for n, texts in enumerate(case_rows(node))]
    return Table(("node", "", "loops above", "loops below"), rows, left=range(4))
