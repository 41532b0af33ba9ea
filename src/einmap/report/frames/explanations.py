"""Tables of explanations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from einmap.mapping.nodes import format_address
from einmap.report.frames.frame import Row, Table
from einmap.report.text.formatting import shape_text

if TYPE_CHECKING:
    from einmap.model.explanation.energy_terms import EnergyExplanation
    from einmap.model.explanation.values import Explanation


def _counts(explanation: Explanation) -> Iterable[Row]:
    for d in explanation.derivations:
        traffic = d.moved_bits
        yield (
            d.einsum, d.component, d.tensor, d.action, d.values, d.bits, d.per_value, d.instances, d.count, traffic,
            d.energy,
        )  # fmt: skip


def _pieces(explanation: Explanation) -> Iterable[Row]:
    for d in explanation.derivations:
        for p in d.pieces:
            yield (
                d.einsum, d.component, d.tensor, d.action, p.way, p.child, p.parent, p.tiles, p.tile_values, p.gross,
                p.kept, p.skipped, p.shared, p.values, p.multicast,
            )  # fmt: skip


def _cases(explanation: Explanation) -> Iterable[Row]:
    for c in explanation.cases:
        yield (
            c.einsum, c.tensor, c.component, format_address(c.address), c.backing, c.visits, c.fetches, c.reads,
            c.lanes, c.positions, c.chunks, shape_text(c.shape), c.bits, c.child, c.reuse, c.overlap,
        )  # fmt: skip


def _stationary(explanation: Explanation) -> Iterable[Row]:
    for r in explanation.stationary:
        loops = "  ".join(f"{use.variable} {use.iterations:,}{' lanes' * bool(use.dimension)}" for use in r.loops)
        yield r.einsum, r.level, loops, r.tensor, shape_text(r.shape), r.iterations, r.values


def _lives(explanation: Explanation) -> Iterable[Row]:
    for life in explanation.lives:
        node, begins, ends = map(format_address, (life.address, life.begins, life.ends))
        einsums = ", ".join(life.einsums)
        yield life.tensor, life.memory, node, life.bits, life.times, begins, ends, einsums, life.persistent, life.copies


def _busy(explanation: Explanation) -> Iterable[Row]:
    for bottleneck in explanation.bottlenecks:
        for component, seconds in bottleneck.busy:
            yield bottleneck.einsum, component, seconds, seconds == bottleneck.latency


def _changes(explanation: Explanation) -> Iterable[Row]:
    for c in explanation.changes:
        yield (
            c.kind, c.component, c.what, c.energy, c.latency, c.energy_change, c.latency_change, c.fits, c.needs_bits,
            c.rewrite,
        )  # fmt: skip


def _terms(explanation: EnergyExplanation) -> Iterable[Row]:
    for term in explanation.terms:
        each, unit = term.each, "W" if term.count is None else "J"
        steps = "; ".join(each.steps) or None
        for part in term.parts:
            share = part.energy / explanation.energy if explanation.energy else 0.0
            yield (
                part.einsum, term.component, term.tensor, term.action, part.count, each.value, unit, part.energy, share,
                each.source, steps,
            )  # fmt: skip


table = Table.written
_COUNTED = "text einsum | component | tensor | action"
TABLES: dict[str, tuple[Table, ...]] = {
    "Explanation": (
        table(
            "counts",
            f"{_COUNTED}; integer values; number value [bits] | actions per value; integer instances; "
            "number actions | traffic [bits] | energy [J]",
            _counts,
        ),
        table(
            "pieces",
            f"{_COUNTED}; text way | child | parent; integer tiles | tile [values] | gross [values] | kept [values] | "
            "skipped [values] | shared [values] | paid [values]; number multicast",
            _pieces,
        ),
        table(
            "cases",
            "text einsum | tensor | component | node; truth backing; integer visits | fetches | reads | lanes | "
            "positions | chunks; text tile shape; number tile [bits]; text child; number reuse; "
            "integer overlap [values]",
            _cases,
        ),
        table(
            "stationary",
            "text einsum; integer level; text loops | tensor | tile shape; integer iterations | tile [values]",
            _stationary,
        ),
        table(
            "lives",
            "text tensor | component | node; number size [bits]; integer times; text begins | ends | einsums; "
            "truth persistent; integer copies",
            _lives,
        ),
        table(
            "fullest",
            "text component | einsum; number held [bits] | capacity [bits]",
            lambda e: ((r.memory, r.einsum, r.bits, r.capacity) for r in e.fullest),
        ),
        table(
            "occupancy",
            "text einsum | component; number held [bits]",
            lambda e: ((r.einsum, r.memory, r.bits) for r in e.occupied),
        ),
        table("latencies", "text einsum | component; number busy [s]; truth limits", _busy),
        table(
            "energy",
            "text component | tensor | action; number energy [J] | share",
            lambda e: ((r.component, r.tensor, r.action, r.energy, r.share) for r in e.energy),
        ),
        table(
            "fanouts",
            "text einsum | component | dimension; integer used | available",
            lambda e: ((r.einsum, r.component, r.dimension, r.used, r.available) for r in e.fanouts),
        ),
        table(
            "changes",
            "text kind | component | what; number energy [J] | latency [s] | energy change | latency change; "
            "truth fits; number needs [bits]; text rewrite",
            _changes,
        ),
        table(
            "savings",
            f"{_COUNTED}; text state | at | leader; number actions | energy [J]",
            lambda e: (
                (r.einsum, r.component, r.tensor, r.action, r.state, r.at or None, r.leader, r.count, r.energy)
                for r in e.savings
            ),
        ),
    ),
    "EnergyExplanation": (
        table(
            "terms",
            f"{_COUNTED}; number actions | value; text unit; number energy [J] | share; text source | scaling",
            _terms,
        ),
    ),
}
