"""Which chains of successive Einsums fit, and what a whole cascade costs at least for each choice of outlines.

An interface is what lies between two Einsums: the shared tensors that are still needed, how each is backed, and the
loops that stay open. Interfaces and outlines make a graph from the first Einsum to the last; paths through it are the
ways to fuse the cascade. Its edges cost at least what the cost-to-go tables say, so that sums along paths bound the
whole, space that Einsums share aside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from einmap.mapper.fusion.heads import Cut, Key, Kind, Outline
from einmap.mapper.request import Others

type Floats = NDArray[np.float64]


class Live(NamedTuple):
    """A shared tensor that is still needed.

    `shared`: loops that its last user so far and the next Einsum share. `held`: nodes in which the last user holds it
    inside above such loops, as (loops above, memory): the next user has to have the same ones, with a memory's name.
    `written`: how loops below its backing node that its producer and the next Einsum share cut it: a reader must cut it
    alike, or it would read what is not written yet.
    """

    tensor: str
    key: Key
    shared: int
    held: tuple[tuple[int, str], ...]
    written: tuple[Cut, ...]


class Interface(NamedTuple):
    """What lies between two Einsums: tensors that are needed later, and the loops that stay open.

    `partial`: of the tensors only what is known of their keys is looked at, and nothing else is known.
    """

    live: tuple[Live, ...]
    loops: tuple[tuple[Kind, int], ...]
    partial: bool = False


NOTHING = Interface((), ())
ANY_LOOPS: tuple[Cut, ...] = ((("", "any"), "", 0),)
"""In place of the loops of a key: they are not known."""


@dataclass(frozen=True)
class Option:
    """One outline of an Einsum with the names that its tensors have. `bounds`: costs, a row for each head.

    `backed`: for each tensor the memory that backs it and the bits of its tile there. `absent`: the Einsum is a copy
    that is left out. `wild`: it stands for all chains of a family that are not listed; of the keys only the memories
    are known, unless no loop may stand above these. `costs`: of the chains of its front, once that is known.
    `left_out`: what may be missing in the list, or in the front: what has no hope with one of these; None: everything.
    """

    outline: Outline
    keys: Mapping[str, Key]
    held: Mapping[str, tuple[tuple[int, str], ...]]
    cuts: Mapping[str, tuple[Cut, ...]]
    backed: Mapping[str, tuple[str, float]]
    bounds: Floats
    absent: bool = False
    wild: bool = False
    costs: Floats | None = None
    left_out: tuple[Others, ...] | None = None

    def least(self, weights: Floats) -> Floats:
        """For each row of weights what every chain costs at least."""
        rest = self.rest(weights)
        if self.costs is None:
            return rest
        found: Floats = np.minimum(rest, (self.costs @ weights.T).min(axis=0, initial=np.inf))
        return found

    def rest(self, weights: Floats) -> Floats:
        """The same of chains that may be missing."""
        least: Floats = (self.bounds @ weights.T).min(axis=0)
        if self.left_out is None:
            return least
        rest = np.full(len(weights), np.inf)
        for others in self.left_out:
            rest = np.minimum(rest, others.beyond(weights, least))
        return rest

    @property
    def loops(self) -> tuple[tuple[Kind, int], ...]:
        """Kind and iterations of the fused loops."""
        return self.outline.loops


class Edge(NamedTuple):
    """An outline of an Einsum between two interfaces, all by number."""

    before: int
    option: int
    after: int


@dataclass
class Stage:
    """One Einsum of the graph: its options, the edges, and the interfaces behind it."""

    name: str
    options: Sequence[Option]
    edges: list[Edge] = field(default_factory=list)
    interfaces: list[Interface] = field(default_factory=list)


@dataclass
class Graph:
    """All ways to fuse a cascade. `last_user`: of each shared tensor the position of its last user."""

    stages: list[Stage]
    last_user: Mapping[str, int]
    intermediates: frozenset[str]

    def build(self, go_on: Callable[[str, int], None] = lambda _name, _position: None) -> None:
        """Follow all options from the first Einsum on; what leads nowhere is left out.

        `go_on` hears where the work is, often; what it raises ends it.
        """
        before = [NOTHING]
        for position, stage in enumerate(self.stages):
            found: dict[Interface, int] = {}
            known = {live.tensor for interface in before for live in interface.live}
            met = sorted(known.intersection(*(option.keys for option in stage.options[:1])))
            by_keys: dict[object, list[int]] = {}
            for o, option in enumerate(stage.options):
                memories = tuple(option.keys[t].memory for t in met)
                by_keys.setdefault((memories, option.wild), []).append(o)
                if not option.wild:
                    by_keys.setdefault(tuple(option.keys[t] for t in met), []).append(o)
            for i, interface in enumerate(before):
                go_on(stage.name, position)
                keys = {live.tensor: live.key for live in interface.live}
                own = [keys[t] for t in met if t in keys]
                memories = tuple(key.memory for key in own)
                listed = (memories, False) if interface.partial else tuple(own)
                for o in (*by_keys.get((memories, True), ()), *by_keys.get(listed, ())):
                    option = stage.options[o]
                    if interface.partial or option.wild:
                        after = self.relaxed_after(interface, option, position)
                    else:
                        after = self.after(interface, option, position)
                    if after is not None:
                        stage.edges.append(Edge(i, o, found.setdefault(after, len(found))))
            before = stage.interfaces = list(found)
        used = {0} if self.stages and self.stages[-1].interfaces else set()
        for stage in reversed(self.stages):
            stage.edges = [edge for edge in stage.edges if edge.after in used]
            used = {edge.before for edge in stage.edges}

    def after(self, interface: Interface, option: Option, position: int) -> Interface | None:
        """The interface behind an Einsum, None if the option does not fit."""
        if option.absent:
            copied = [Live(t, key, 0, (), ()) for t, key in option.keys.items()]
            return Interface(tuple(sorted((*interface.live, *copied))), interface.loops, interface.partial)
        n = len(interface.loops)
        if option.loops[:n] != interface.loops:
            return None
        waiting: list[Live] = []
        for live in interface.live:
            key = option.keys.get(live.tensor)
            if key is not None:
                if key != live.key:
                    return None
                inside = self._inside(option, live.tensor, live.shared)
                if inside != live.held or any(not memory for _, memory in inside):
                    return None
                if live.written != option.cuts.get(live.tensor, ())[: len(live.written)]:
                    return None
            if self.last_user[live.tensor] > position:
                waiting.append(live)
        known = {live.tensor for live in interface.live}
        born = [t for t in option.keys if t not in known and self.last_user[t] > position]
        keys = {**{live.tensor: live.key for live in waiting}, **{t: option.keys[t] for t in born}}
        after = max((len(key.loops) for key in keys.values()), default=0)
        lives = [self._later(live, option, after) for live in waiting]
        for t in born:
            written = option.cuts.get(t, ())[: max(after - len(option.keys[t].loops), 0)]
            within = self._inside(option, t, after)
            lives.append(Live(t, option.keys[t], after, within, written if t in self.intermediates else ()))
        return Interface(tuple(sorted(lives)), option.loops[:after])

    def relaxed_after(self, interface: Interface, option: Option, position: int) -> Interface | None:
        """The same where not everything is known: it fits unless it surely does not."""
        keys: dict[str, Key] = {}
        for live in interface.live:
            own = option.keys.get(live.tensor, live.key)
            if own.memory != live.key.memory or (own != live.key and ANY_LOOPS not in (own.loops, live.key.loops)):
                return None
            if self.last_user[live.tensor] > position:
                keys[live.tensor] = live.key if own.loops == ANY_LOOPS else own
        if option.absent:
            return self.after(interface, option, position)
        if not keys and not option.wild:
            return self.after(NOTHING, option, position)
        keys |= {t: key for t, key in option.keys.items() if t not in keys and self.last_user[t] > position}
        lives = tuple(sorted(Live(t, key, 0, (), ()) for t, key in keys.items()))
        return Interface(lives, (), any(key.loops for key in keys.values()))

    def _inside(self, option: Option, tensor: str, shared: int) -> tuple[tuple[int, str], ...]:
        """Nodes of a tensor, other than the backing one, that stand above some of the shared loops."""
        return tuple(node for node in option.held.get(tensor, ()) if node[0] < shared)

    def _later(self, live: Live, option: Option, after: int) -> Live:
        """A tensor that is needed later still, behind one more Einsum."""
        written = live.written[: max(after - len(live.key.loops), 0)]
        if live.tensor in option.keys:
            return Live(live.tensor, live.key, after, self._inside(option, live.tensor, after), written)
        shared = min(live.shared, after)
        return Live(live.tensor, live.key, shared, tuple(n for n in live.held if n[0] < shared), written)

    @cached_property
    def exists(self) -> bool:
        """Whether there is any way at all."""
        return bool(self.stages) and all(stage.edges for stage in self.stages)


@dataclass
class Relaxed:
    """What a cascade costs at least, space that Einsums share aside, for several weights of the costs.

    `weights`: rows of weights; `times[k]`: how often Einsum k runs. `forward[k]`, `backward[k]`: for each interface
    before Einsum k the least weighted costs of what comes before it, and of the rest, a column for each weight.
    """

    graph: Graph
    weights: Floats
    times: Sequence[float]

    def __post_init__(self) -> None:
        self.costs = [
            self._option_costs(stage, times) for stage, times in zip(self.graph.stages, self.times, strict=True)
        ]
        n = len(self.weights)
        self.forward = [np.zeros((1, n))]
        for stage, costs in zip(self.graph.stages, self.costs, strict=True):
            reached = np.full((len(stage.interfaces), n), np.inf)
            for edge in stage.edges:
                reached[edge.after] = np.minimum(
                    reached[edge.after], self.forward[-1][edge.before] + costs[edge.option]
                )
            self.forward.append(reached)
        self.backward = [np.zeros((max(len(self.graph.stages[-1].interfaces), 1), n))]
        for k in reversed(range(len(self.graph.stages))):
            stage, costs = self.graph.stages[k], self.costs[k]
            width = len(self.graph.stages[k - 1].interfaces) if k else 1
            rest = np.full((width, n), np.inf)
            for edge in stage.edges:
                rest[edge.before] = np.minimum(rest[edge.before], costs[edge.option] + self.backward[0][edge.after])
            self.backward.insert(0, rest)

    def _option_costs(self, stage: Stage, times: float) -> Floats:
        """Least weighted costs of each option."""
        found = np.full((len(stage.options), len(self.weights)), np.inf)
        for o in {edge.option for edge in stage.edges}:
            found[o] = times * stage.options[o].least(self.weights)
        return found

    @property
    def least(self) -> Floats:
        """Least weighted costs of the whole."""
        found: Floats = self.backward[0][0]
        return found

    def rests(self, k: int) -> dict[int, Floats]:
        """For each option of an Einsum the least weighted costs of all the others."""
        found: dict[int, Floats] = {}
        for edge in self.graph.stages[k].edges:
            rest = self.forward[k][edge.before] + self.backward[k + 1][edge.after]
            found[edge.option] = np.minimum(found[edge.option], rest) if edge.option in found else rest
        return found

    def rest_from(self, k: int, interface: int) -> Floats:
        """Least weighted costs of Einsum k and all later ones."""
        found: Floats = self.backward[k][interface]
        return found


def corners(weights: Floats, least: Floats) -> Floats:
    """The lower left corners of all points x with weights @ x >= least (one or two costs): rows.

    Whatever lies in this region has a product, with anything added, that is no less than that of some corner.
    """
    if weights.shape[1] != 2:
        # the unit weights stand first
        found: Floats = least[None, : weights.shape[1]].copy()
        return found
    low_x, low_y = least[0], least[1]
    lines = [(w[1] / w[0], s / w[0]) for w, s in zip(weights[2:], least[2:], strict=True)]
    # the boundary as x over y: the largest of the lines s - slope * y and of the least x; from the least y on
    slopes = np.array([0.0, *(slope for slope, _ in lines)])
    offsets = np.array([low_x, *(offset for _, offset in lines)])
    points = [low_y]
    for i in range(len(slopes)):
        for j in range(i):
            if slopes[i] != slopes[j]:
                y = (offsets[i] - offsets[j]) / (slopes[i] - slopes[j])
                if y > low_y:
                    points.append(y)
    rows = [(float((offsets - slopes * y).max()), float(y)) for y in sorted(set(points))]
    kept: list[tuple[float, float]] = []
    for x, y in rows:
        if not kept or x < kept[-1][0]:
            kept.append((x, y))
    return np.array(kept)
