"""Timeline of an execution: visits of the innermost loops, joined until they fit a limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from einmap.execute.results.result import CountKey, SpanRow, Tile, TurnKey
from einmap.schedule.boxes import Box
from einmap.schedule.routes import Instance


@dataclass
class Span:
    """Consecutive visits, begun at operation `step`: values by key and instance, and the tile that they belong to.

    `turn`: the tile of a Pipeline that a stage works on, if any. `entries`: pairs of a key and an instance, and one for
    the span. Without tiles where there are several visits.
    """

    step: int
    visits: int = 1
    counts: dict[CountKey, dict[Instance, float]] = field(default_factory=dict)
    tiles: dict[CountKey, Tile] = field(default_factory=dict)
    entries: int = 1
    turn: TurnKey | None = None

    def add(self, key: CountKey, instance: Instance, amount: float) -> None:
        """Count values of one key at one instance."""
        counts = self.counts.setdefault(key, {})
        self.entries += instance not in counts
        counts[instance] = counts.get(instance, 0) + amount

    def joined(self, later: Span) -> Span:
        """This span and the one after it as one."""
        both = Span(self.step, self.visits + later.visits, turn=self.turn)
        for span in (self, later):
            for key, counts in span.counts.items():
                for instance, amount in counts.items():
                    both.add(key, instance, amount)
        return both


@dataclass
class Timeline:
    """Visits in order of time, of at most `most` entries: beyond that neighbours are joined, twice as many each time.

    Those of different tiles of a Pipeline stay apart, and `most` is more where there are many of these. `width`: visits
    of one span at most. `latest`: the last span of each tile.
    """

    most: int
    width: int = 1
    spans: list[Span] = field(default_factory=list)
    entries: int = 0
    hops: dict[tuple[CountKey, Instance], float] = field(default_factory=dict)
    latest: dict[TurnKey, Span] = field(default_factory=dict)

    def visit(self, step: int, turn: TurnKey | None = None) -> None:
        """Begin a visit of the innermost loops of an Einsum, at operation `step`, for one tile of a Pipeline if any."""
        if self.spans and self.spans[-1].visits < self.width and self.spans[-1].turn == turn:
            self.spans[-1].visits += 1
            return
        while self.entries > self.most and len(self.spans) > 1:
            before = len(self.spans)
            self._join()
            if len(self.spans) == before:
                self.most *= 2
        self.spans.append(Span(step, turn=turn))
        self.entries += self.spans[-1].entries
        if turn is not None:
            self.latest[turn] = self.spans[-1]

    def count(
        self, key: CountKey, instance: Instance, amount: float, box: Box | None, turn: TurnKey | None = None
    ) -> None:
        """Values of one action at one instance in the visit that runs, or in the last one of a tile of a Pipeline."""
        span = self.spans[-1] if turn is None else self.latest.get(turn, self.spans[-1])
        before = span.entries
        span.add(key, instance, amount)
        self.entries += span.entries - before
        if self.width == 1 and box is not None:
            span.tiles.setdefault(key, tuple((low, high - 1) for low, high in box))

    def carried(self, totals: Iterable[tuple[CountKey, Mapping[Instance, float]]]) -> None:
        """Steps on networks: `totals` are those of the whole run so far; what is new belongs to the current span."""
        for key, counts in totals:
            for instance, total in counts.items():
                if (new := total - self.hops.get((key, instance), 0)) > 0:
                    self.hops[key, instance] = total
                    self.count(key, instance, new, None)

    def rows(self, rates: Mapping[CountKey, float]) -> Iterable[SpanRow]:
        """All spans, in actions; `rates`: actions for one value."""
        for span in self.spans:
            actions = {
                key: {instance: amount * rates[key] for instance, amount in counts.items()}
                for key, counts in span.counts.items()
            }
            yield SpanRow(span.step, span.visits, actions, span.tiles, span.turn)

    def _join(self) -> None:
        pairs = zip(self.spans[::2], self.spans[1::2], strict=False)
        last = self.spans[-1:] if len(self.spans) % 2 else []
        joined = [[first.joined(second)] if first.turn == second.turn else [first, second] for first, second in pairs]
        self.spans = [span for spans in joined for span in spans] + last
        self.width *= 2
        self.entries = sum(span.entries for span in self.spans)
        self.latest = {span.turn: span for span in self.spans if span.turn is not None}
