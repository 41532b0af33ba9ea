"""All Einsums together: sums of costs, and the space that is needed at the same time.

Einsums are joined from first to last. A row behind Einsum k stands for one choice of chains so far. Beside its costs it
has, for each memory: what stays in use while later Einsums run below the first l of the open loops (`stay`), and the
most that was in use while those Einsums ran that share just l loops with what follows (`peak`): what later Einsums keep
above these loops was in use then, too. Rows that another row with the same interface beats in everything are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from einmap.mapper import cascade
from einmap.mapper.fusion.chains import Front, Space
from einmap.mapper.fusion.heads import Key, Outline
from einmap.mapper.fusion.interfaces import Edge, Graph, Interface, Option, Relaxed, corners
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


@dataclass(frozen=True)
class Joined:
    """Everything about one Einsum that a join needs. `times`: how often it runs; `own`: what its persistent tensors
    take in each memory, which is counted at all times for all Einsums.
    """

    times: float
    fronts: Mapping[int, Front]
    own: Floats


@dataclass
class Join:
    """The join of a cascade. `capacity`: bits of each memory of the space; `always`: what is in use at all times.

    `most`: the product of all costs may not be above this, None where nothing is known. `reached`: costs of the whole
    that are reached already.
    """

    graph: Graph
    parts: Sequence[Joined]
    space: Space
    capacity: Floats
    always: Floats
    first_user: Mapping[str, int]
    n_costs: int
    relaxed: Relaxed
    most: float | None
    reached: Floats

    def run(self, go_on: Callable[[str, int], None] = lambda _name, _position: None) -> list[dict[int, Rows]]:
        """For each Einsum the rows behind it, by interface; the last one holds what was found.

        `go_on` hears where the work is, often; what it raises ends it.
        """
        n = len(self.capacity)
        start = Rows(
            np.zeros((1, self.n_costs)), np.zeros((1, n, 0)), np.zeros((1, n, 0)), np.zeros((1, 4), dtype=np.int64)
        )
        found: list[dict[int, Rows]] = [{0: start}]
        interfaces: Sequence[Interface] = [Interface((), ())]
        for k, stage in enumerate(self.graph.stages):
            reached: dict[int, list[Rows]] = {}
            for edge in stage.edges:
                go_on(stage.name, k)
                before, front = found[-1].get(edge.before), self.parts[k].fronts.get(edge.option)
                if before is None or front is None or not len(front.values):
                    continue
                if self.most is not None:
                    least = before.costs.min(axis=0) + self.parts[k].times * front.values[:, : self.n_costs].min(axis=0)
                    if not self._promising(k + 1, edge.after, least[None, :])[0]:
                        continue
                option = stage.options[edge.option]
                join = self._left_out if option.absent else self._unknown if option.wild else self._joined
                rows = join(k, edge, interfaces[edge.before], before, front)
                if len(rows.costs):
                    reached.setdefault(edge.after, []).append(rows)
            interfaces = stage.interfaces
            found.append({after: self._best(rows) for after, rows in reached.items()})
        return found

    def _joined(self, k: int, edge: Edge, interface: Interface, before: Rows, front: Front) -> Rows:
        """All rows before an Einsum with all chains of one option, as far as they fit."""
        part, option = self.parts[k], self.graph.stages[k].options[edge.option]
        n, n_memories = self.n_costs, len(self.capacity)
        pairs = np.arange(len(before.costs) * len(front.values))
        left, right = pairs // len(front.values), pairs % len(front.values)
        costs = before.costs[left] + part.times * front.values[right, :n]
        ok = self._promising(k + 1, edge.after, costs)
        left, right, costs = left[ok], right[ok], costs[ok]
        after = self.graph.stages[k].interfaces[edge.after]
        used = front.values[right, n : n + n_memories] - part.own
        fused = len(option.loops)
        kept = front.values[right, n + n_memories :].reshape(len(right), n_memories, fused)
        usage = used + self.always + self._passing(interface, option)
        if interface.loops:
            usage = usage + before.stay[left][:, :, -1]
        born, dying = self._shared(k, option)
        peak = before.peak[left] + kept[:, :, : len(interface.loops)] + born[None, :, : len(interface.loops)]
        fits = (usage <= self.capacity).all(axis=1) & (peak <= self.capacity[:, None]).all(axis=(1, 2))
        left, right, costs, usage, kept, peak = (
            left[fits],
            right[fits],
            costs[fits],
            usage[fits],
            kept[fits],
            peak[fits],
        )
        stay, peak = self._later(len(after.loops), before.stay[left], peak, usage, kept + dying)
        number = np.stack([np.full(len(left), edge.before), left, np.full(len(left), edge.option), right], axis=1)
        return Rows(costs, stay, peak, number)

    def _left_out(self, k: int, edge: Edge, interface: Interface, before: Rows, _: Front) -> Rows:
        """The rows before a copy that is left out, with its tensor in use from here on."""
        option, n_loops = self.graph.stages[k].options[edge.option], len(interface.loops)
        peak = before.peak
        for memory, bits in option.backed.values():
            alive = Outline((), interface.loops, (), ()).alive(self.space.by_tree)[0][1:]
            peak = peak + (self._in(memory, bits)[:, None] * np.array(alive, dtype=np.float64))[None, :, :n_loops]
        rows = np.arange(len(before.costs))[(peak <= self.capacity[:, None]).all(axis=(1, 2))]
        number = np.array([[edge.before, row, edge.option, 0] for row in rows], dtype=np.int64).reshape(-1, 4)
        return Rows(before.costs[rows], before.stay[rows], peak[rows], number)

    def _unknown(self, k: int, edge: Edge, _: Interface, before: Rows, front: Front) -> Rows:
        """The rows before an Einsum of whose chains only the least costs are known: they take no space."""
        n, n_memories = self.n_costs, len(self.capacity)
        pairs = np.arange(len(before.costs) * len(front.values))
        left, right = pairs // len(front.values), pairs % len(front.values)
        costs = before.costs[left] + self.parts[k].times * front.values[right, :n]
        ok = self._promising(k + 1, edge.after, costs)
        left, right, costs = left[ok], right[ok], costs[ok]
        number = np.stack([np.full(len(left), edge.before), left, np.full(len(left), edge.option), right], axis=1)
        return Rows(costs, np.zeros((len(left), n_memories, 0)), np.zeros((len(left), n_memories, 0)), number)

    def _later(self, after: int, stay: Floats, peak: Floats, usage: Floats, kept: Floats) -> tuple[Floats, Floats]:
        """What stays and was in use, by the loops that are open after the Einsum."""
        open_before = stay.shape[2]
        n_rows, n_memories = usage.shape
        new_stay = np.zeros((n_rows, n_memories, after))
        new_peak = np.full((n_rows, n_memories, after), -np.inf)
        for level in range(1, after + 1):
            if open_before:
                new_stay[:, :, level - 1] = stay[:, :, min(level, open_before) - 1]
            new_stay[:, :, level - 1] += kept[:, :, level - 1]
            if level <= open_before and level < after:
                new_peak[:, :, level - 1] = peak[:, :, level - 1]
        if after:
            deeper = peak[:, :, after - 1 :].max(axis=2) if open_before >= after else np.full_like(usage, -np.inf)
            new_peak[:, :, after - 1] = np.maximum(deeper, usage)
        return new_stay, new_peak

    def _passing(self, interface: Interface, option: Option) -> Floats:
        """What shared tensors take that live on while an Einsum runs that does not use them."""
        found = np.zeros(len(self.capacity))
        for live in interface.live:
            if live.tensor not in option.keys:
                memory, bits = self._bits.get((live.tensor, live.key), ("", 0.0))
                found += self._in(memory, bits)
        return found

    def _shared(self, k: int, option: Option) -> tuple[Floats, Floats]:
        """Bits of shared tensors that the Einsum uses first, and last, while others run below its first ... loops."""
        fused = len(option.loops)
        born, dying = np.zeros((len(self.capacity), fused)), np.zeros((len(self.capacity), fused))
        for tensor, (memory, bits) in option.backed.items():
            depth = len(option.keys[tensor].loops)
            alive = option.outline.alive(self.space.by_tree)[depth][1:]
            own = self._in(memory, bits)[:, None] * np.array(alive, dtype=np.float64)
            if self.first_user[tensor] == k:
                born += own
            if self.graph.last_user[tensor] == k:
                dying += own
        return born, dying

    def _in(self, memory: str, bits: float) -> Floats:
        return np.array([bits if name == memory else 0.0 for name in self.space.memories])

    @cached_property
    def _bits(self) -> dict[tuple[str, Key], tuple[str, float]]:
        """What each shared tensor takes, and where, by how it is backed."""
        return {
            (tensor, option.keys[tensor]): backed
            for stage in self.graph.stages
            for option in stage.options
            for tensor, backed in option.backed.items()
        }

    def _promising(self, k: int, interface: int, costs: Floats) -> NDArray[np.bool_]:
        """Rows that may still become something good."""
        rest = self.relaxed.rest_from(k, interface)
        if self.most is not None:
            return ~Others(corners(self.relaxed.weights, rest), self.most).hopeless(costs)
        return ~Others(self.reached - rest[: self.n_costs], -1.0).hopeless(costs)

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
    kept: list[int] = []
    front = np.empty_like(ranked)
    n = 0
    for i in range(len(ranked)):
        if not (front[:n] <= limit[i]).all(axis=1).any():
            front[n] = ranked[i]
            n += 1
            kept.append(int(order[i]))
    return np.array(kept, dtype=np.int64)
