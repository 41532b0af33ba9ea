"""All Einsums together: sums of costs, and the space that is needed at the same time.

Einsums are joined from first to last. A row behind Einsum k stands for one choice of chains so far. Beside its costs it
has, for each memory: what stays in use while later Einsums run below the first l of the open loops (`stay`), and the
most that was in use while those Einsums ran that share just l loops with what follows (`peak`): what later Einsums keep
above these loops was in use then, too. Rows that another row with the same interface beats in everything are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from einmap.mapper import cascade
from einmap.mapper.fusion.chains import Front
from einmap.mapper.fusion.compiled import joined, unbeaten
from einmap.mapper.fusion.heads import Outline
from einmap.mapper.fusion.interfaces import Edge, Graph, Stage, corners
from einmap.mapper.fusion.paths import Paths, Room
from einmap.mapper.kernels import hopeless
from einmap.mapper.request import Others

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

TIE = 1e-12
"""Costs that differ by less than this fraction count as equal."""


@dataclass
class Rows:
    """Choices so far with one interface behind them.

    `costs`: (n, costs); `stay`, `peak`: (n, memories, open loops); `back`: (n, 4) interface and row before, option, row
    of its front.
    """

    costs: Floats
    stay: Floats
    peak: Floats
    back: Ints

    @cached_property
    def least(self) -> Floats:
        """The least of each cost."""
        found: Floats = self.costs.min(axis=0)
        return found


@dataclass(frozen=True)
class Joined:
    """The fronts of one Einsum, or of several that look the same, by option. `own`: what its persistent tensors take in
    each memory, which is counted at all times for all Einsums.
    """

    fronts: Mapping[int, Front]
    own: Floats
    _least: dict[int, Floats] = field(default_factory=dict)

    def least(self, option: int, n_costs: int) -> Floats:
        """The least of each cost of the chains of an option."""
        if option not in self._least:
            self._least[option] = self.fronts[option].values[:, :n_costs].min(axis=0)
        return self._least[option]


@dataclass(frozen=True)
class Fitted:
    """Chains of an edge that can fit: costs, bits in use, what they keep above the loops that are open before and above
    all fused loops. `rows`: of the front; `after`: number of loops that are open behind.
    """

    costs: Floats
    usage: Floats
    above: Floats
    kept: Floats
    rows: Ints
    after: int


@dataclass
class Join:
    """The join of a cascade. `paths`: what the rest costs at least.

    `most`: the product of all costs may not be above this, None where nothing is known. `reached`: costs of the whole
    that are reached already.
    """

    graph: Graph
    parts: Sequence[Joined]
    room: Room
    n_costs: int
    paths: Paths
    most: float | None
    reached: Floats
    _known: dict[tuple[Stage, Edge], Fitted] = field(default_factory=dict)

    def run(self, go_on: Callable[[str, int], None] = lambda _name, _position: None) -> list[dict[int, Rows]]:
        """For each Einsum the rows behind it, by interface; the last one holds what was found.

        `go_on` hears where the work is, often; what it raises ends it.
        """
        n = len(self.room.capacity)
        start = Rows(
            np.zeros((1, self.n_costs)), np.zeros((1, n, 0)), np.zeros((1, n, 0)), np.zeros((1, 4), dtype=np.int64)
        )
        found: list[dict[int, Rows]] = [{0: start}]
        near: dict[Stage, list[Edge]] = {}
        for k, stage in enumerate(self.graph.stages):
            reached: dict[int, list[Rows]] = {}
            fronts = self.parts[k].fronts
            go_on(self.graph.names[k], k)
            if stage not in near:
                own = np.isin(stage.edges[:, 1], list(fronts))
                near[stage] = [Edge(*row) for row in stage.edges[own].tolist()]
            edges = [edge for edge in near[stage] if edge.before in found[-1]]
            others = self._others(k + 1, sorted({edge.after for edge in edges}))
            for edge in edges:
                go_on(self.graph.names[k], k)
                before, option, rest = found[-1][edge.before], stage.step.options[edge.option], others[edge.after]
                least = before.least + stage.step.times * self.parts[k].least(edge.option, self.n_costs)
                if hopeless(least, rest.rows, rest.most):
                    continue
                if option.absent:
                    rows = self._left_out(stage, edge, before)
                else:
                    rows = self._joined(self._fitted(stage, edge, self.parts[k]), edge, before, rest)
                if len(rows.costs):
                    reached.setdefault(edge.after, []).append(rows)
            found.append({after: self._best(rows) for after, rows in reached.items()})
        return found

    def _fitted(self, stage: Stage, edge: Edge, part: Joined) -> Fitted:
        """What the chains of an edge need, whatever comes before; the same for all Einsums of a stage."""
        key = stage, edge
        if key not in self._known:
            option, interface = stage.step.options[edge.option], stage.before[edge.before]
            values = part.fronts[edge.option].values
            n, n_memories = self.n_costs, len(self.room.capacity)
            fused, opened = len(option.loops), len(interface.loops)
            costs = stage.step.times * values[:, :n]
            if option.wild:
                # what is not known takes no space
                rows, nothing = np.arange(len(values)), np.zeros((len(values), n_memories, 0))
                self._known[key] = Fitted(costs, np.zeros((len(values), n_memories)), nothing, nothing, rows, 0)
                return self._known[key]
            kept = values[:, n + n_memories :].reshape(len(values), n_memories, fused)
            used = values[:, n : n + n_memories] - part.own
            usage = used + self.room.always + self.room.passing(interface, option.keys)
            born, dying = self.room.shared(stage.step, option)
            fits = (usage <= self.room.capacity).all(axis=1)
            self._known[key] = Fitted(
                costs[fits],
                usage[fits],
                kept[fits, :, :opened] + born[None, :, :opened],
                kept[fits] + dying,
                np.flatnonzero(fits),
                len(stage.interfaces[edge.after].loops),
            )
        return self._known[key]

    def _joined(self, own: Fitted, edge: Edge, before: Rows, others: Others) -> Rows:
        """All rows before an Einsum with all chains of one option, as far as they fit."""
        stay, peak = before.stay, before.peak
        opened = own.above.shape[2]
        costs, stay, peak, left, right = joined(
            before.costs, stay[:, :, :opened], peak[:, :, :opened], own.costs, own.usage, own.above, own.kept,
            self.room.capacity, own.after, others.rows, others.most,
        )  # fmt: skip
        number = np.empty((len(left), 4), dtype=np.int64)
        number[:, 0], number[:, 1], number[:, 2], number[:, 3] = edge.before, left, edge.option, own.rows[right]
        return Rows(costs, stay, peak, number)

    def _left_out(self, stage: Stage, edge: Edge, before: Rows) -> Rows:
        """The rows before a copy that is left out, with its tensor in use from here on."""
        option, loops = stage.step.options[edge.option], stage.before[edge.before].loops
        peak = before.peak
        for slot, bits in option.bits.items():
            peak = peak + self.room.kept(option.keys[slot].memory, bits, Outline((), loops, (), ()), 0)[None]
        rows = np.arange(len(before.costs))[(peak <= self.room.capacity[:, None]).all(axis=(1, 2))]
        number = np.array([[edge.before, row, edge.option, 0] for row in rows], dtype=np.int64).reshape(-1, 4)
        return Rows(before.costs[rows], before.stay[rows], peak[rows], number)

    def _others(self, k: int, interfaces: Sequence[int]) -> dict[int, Others]:
        """What Einsum k and all later ones add at least, by interface before them."""
        rests = self.paths.backward(k)
        if self.most is None:
            return {i: Others(self.reached - rests[i, : self.n_costs], -1.0) for i in interfaces}
        of_all = corners(self.paths.weights, rests[interfaces])
        return {i: Others(own, self.most) for i, own in zip(interfaces, of_all, strict=True)}

    def _best(self, found: list[Rows]) -> Rows:
        """The rows that no other one beats."""
        rows = Rows(*(np.concatenate([getattr(r, name) for r in found]) for name in ("costs", "stay", "peak", "back")))
        n = len(rows.costs)
        columns = np.concatenate([rows.costs, rows.stay.reshape(n, -1), rows.peak.reshape(n, -1)], axis=1)
        kept = nondominated(columns, rows.costs.shape[1])
        return Rows(rows.costs[kept], rows.stay[kept], rows.peak[kept], rows.back[kept])


def nondominated(values: Floats, eased: int) -> Ints:
    """Rows that no other one is at most as large as in everything (`eased` columns: but for a hair), of equals one."""
    if values.shape[1] <= 2:
        return cascade.nondominated(values)
    order = np.lexsort(values.T[::-1])
    ranked = values[order]
    limit = ranked.copy()
    limit[:, :eased] *= 1 + TIE
    found: Ints = order[unbeaten(ranked, limit)]
    return found
