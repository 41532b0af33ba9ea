"""Why a mapping costs what it does: what one change would help, and the reuse at every storage node."""

from __future__ import annotations

from einmap.mapping.nodes import format_address
from einmap.model.explanation.energy_terms import EnergyExplanation
from einmap.model.explanation.values import Explanation, NodeCases
from einmap.report.costs.provenance import shown, source_line, term_count, term_name
from einmap.report.explanations.explanation import (
    FIXED,
    NOTATION,
    case_rows,
    change_line,
    count_line,
    helpful,
    piece_line,
    saved,
)
from einmap.report.html.parts import Code, Folded, Paragraph, Part, Section, Table
from einmap.report.text.formatting import NONE, percent
from einmap.units import format_bits, format_si

_MOST = 300
"""Rows of a table, and counts with all their pieces."""


def explained_sections(explanation: Explanation) -> tuple[Section, ...]:
    """What would help, what limits, and reuse and counts in full."""
    return (_help(explanation), _reuse(explanation))


def terms_section(explanation: EnergyExplanation) -> Section:
    """The energy as a sum, and where the number of each term comes from."""
    terms = [term for term in explanation.terms if term.energy]
    several = len({einsum for term in terms for einsum in term.einsums}) > 1
    rows = tuple(
        (
            term.component,
            term_name(term, several),
            term_count(term),
            shown(term.each.value, term.each.quantity),
            format_si(term.energy, "J"),
            percent(term.share),
            source_line(term.each),
        )
        for term in terms[:_MOST]
    )
    head = ("component", "what", "actions", "each", "energy", "part", "where the number comes from")
    bars = {5: tuple(max(0.0, min(1.0, term.share)) for term in terms[:_MOST])}
    parts: list[Part] = [Table(head, rows, left=(1, 6), bars=bars)]
    if len(terms) > _MOST:
        parts.append(Paragraph(f"... and {len(terms) - _MOST:,} more, of less energy; --json has them all."))
    lead = f"Actions x energy of one, largest first; counted as {explanation.semantics}."
    return Section("terms", "What the energy is made of", tuple(parts), lead)


def _help(explanation: Explanation) -> Section:
    changes = helpful(explanation.changes)
    rows = tuple((change_line(c), saved(c.energy_change), saved(c.latency_change)) for c in changes)
    parts: list[Part] = [Paragraph("No single change that was tried saves energy or time.")]
    if rows:
        parts = [Table(("one change", "energy", "latency"), rows), Paragraph(FIXED)]
    margins = tuple(
        (
            row.einsum,
            format_si(row.latency, "s"),
            row.busy[0][0] if row.busy else NONE,
            f"{row.margin:.3g} x" if row.margin is not None else NONE,
            row.busy[1][0] if len(row.busy) > 1 else NONE,
        )
        for row in explanation.bottlenecks[:_MOST]
    )
    head = ("Einsum", "latency", "slowest", "times the next one", "next")
    parts.append(Table(head, margins, left=(2, 4), caption="How far the slowest component is ahead of the next one."))
    return Section("help", "What one change would help", tuple(parts))


def _reuse(explanation: Explanation) -> Section:
    head = ("tensor", "held in", "node", "reuse", "fetched", "chunks", "tile", "size", "used by")
    rows = tuple(_row(node) for node in explanation.cases[:_MOST])
    cases = Folded("what the loops above and below each node do", (Paragraph(NOTATION), *_cases(explanation)))
    counts = [
        line
        for derivation in explanation.derivations[:_MOST]
        for line in (
            f"{derivation.einsum}: {count_line(derivation)}",
            *(f"    {piece_line(piece, derivation)}" for piece in derivation.pieces),
        )
    ]
    more = len(explanation.derivations) - _MOST
    counts += [f"... and {more:,} more"] if more > 0 else []
    energy = Table(
        ("component", "tensor", "action", "energy", "part"),
        tuple(
            (row.component, row.tensor or NONE, row.action, format_si(row.energy, "J"), percent(row.share))
            for row in explanation.energy[:_MOST]
        ),
        left=(1, 2),
        bars={4: tuple(row.share for row in explanation.energy[:_MOST])},
    )
    parts = (
        Table(head, rows, left=(1, 2, 8)),
        cases,
        Folded("what each count is made of", (Code("\n".join(counts)),)),
        Folded("energy, largest part first", (energy,)),
    )
    lead = "How often each value is used from a storage node after it was fetched into it once."
    return Section("reuse", "Reuse", parts, lead)


def _row(node: NodeCases) -> tuple[str, ...]:
    return (
        f"{node.einsum}: {node.tensor}",
        node.component,
        format_address(node.address),
        f"{node.reuse:,.4g} x",
        NONE if node.backing else f"{node.fetches:,} x",
        NONE if node.chunks is None else f"{node.chunks:,}",
        " x ".join(str(n) for n in node.shape) or "1",
        format_bits(node.bits),
        node.child,
    )


def _cases(explanation: Explanation) -> list[Part]:
    rows = []
    for node in explanation.cases[:_MOST]:
        name = f"{node.einsum}: {node.tensor} in {node.component} ({format_address(node.address)})"
        for label, above, below in case_rows(node):
            rows.append((name, label, above.replace("\n", "; "), below.replace("\n", "; ")))
            name = ""
    return [Table(("node", "", "loops above", "loops below"), tuple(rows), left=(1, 2, 3))]
