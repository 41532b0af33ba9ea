"""Small graphs of options made by hand, without any Einsums behind them, and all their combinations by definition."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, product

import numpy as np
from hypothesis import strategies as st

from einmap.mapper.fusion.fronts.nests.loops import TEMPORAL, in_time
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature, Key
from einmap.mapper.fusion.fronts.protocol import FrontMemories, FusedFront
from einmap.mapper.fusion.paths.boundary_states import ANY_LOOPS, EinsumOptions, Option
from einmap.mapper.fusion.paths.label_setting import LabelSetting, StageFronts
from einmap.mapper.fusion.paths.shortest_paths import ContendedMemories, OptionCosts, ShortestPaths, packed
from einmap.mapper.fusion.paths.state_graph import Edge, Stage, StateGraph
from einmap.mapper.fusion.refinement.relaxation import NO_PATHS

LANES = ("PE", "X")
OUTERMOST = "DRAM"
"""It has no bound, and no loops stand above what it backs."""
WEIGHTS = {1: np.eye(1), 2: np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.25], [1.0, 1.0], [1.0, 4.0]])}

# for each shared tensor its slot and the positions of its users
STRUCTURES: dict[str, tuple[tuple[int, tuple[int, ...]], ...]] = {
    "two": ((0, (0, 1)),), "three": ((0, (0, 1)), (1, (1, 2))), "residual": ((0, (0, 1, 2)), (1, (1, 2))),
    "used late": ((0, (0, 2)), (1, (1, 2))), "four": ((0, (0, 1)), (1, (1, 2)), (0, (2, 3))),
    "twice the same": ((0, (0, 1)), (0, (2, 3))),
}  # fmt: skip


@dataclass(frozen=True)
class Small:
    """A graph, the fronts of the options of each step, and the memories. `own`: bits that are part of each front's use
    and of `room.always`.
    """

    steps: tuple[EinsumOptions, ...]
    fronts: Mapping[EinsumOptions, Mapping[int, FusedFront]]
    room: ContendedMemories
    n_costs: int
    own: float

    def graph(self) -> StateGraph:
        """All ways through the options."""
        graph = StateGraph([f"E{k}" for k in range(len(self.steps))])
        graph.build(self.steps)
        return graph

    def with_unlisted(self) -> Small:
        """The same where each signature class has chains that are not listed, and that cost what listed ones cost at least."""
        known: dict[EinsumOptions, EinsumOptions] = {}
        fronts: dict[EinsumOptions, dict[int, FusedFront]] = {}
        for step, own in self.fronts.items():
            signature_classes: dict[object, list[int]] = {}
            for o, option in enumerate(step.options):
                signature_classes.setdefault(wild_of(option).signature_class, []).append(o)
            unexpanded = [wild_of(step.options[members[0]]) for members in signature_classes.values()]
            known[step] = EinsumOptions(
                (*unexpanded, *step.options), step.needed, step.born, step.intermediates, step.times
            )
            fronts[known[step]] = {len(unexpanded) + o: front for o, front in own.items()}
            for o, members in enumerate(signature_classes.values()):
                least = np.min([own[member].values[:, : self.n_costs].min(axis=0) for member in members], axis=0)
                space = np.full(len(self.room.capacity), self.own)
                fronts[known[step]][o] = FusedFront(np.concatenate([least, space])[None], NO_PATHS)
        return Small(tuple(known[step] for step in self.steps), fronts, self.room, self.n_costs, self.own)

    @property
    def weights(self) -> np.ndarray:
        """Weights of the costs, the unit ones first."""
        return WEIGHTS[self.n_costs]

    def rows(self, stage: Stage, option: int) -> OptionCosts:
        """The front of an option as lower bounds are made of it."""
        n, m, values = self.n_costs, len(self.room.capacity), self.fronts[stage.step][option].values
        kept = values[:, n + m :].reshape(len(values), m, -1)
        return OptionCosts(values[:, :n], values[:, n : n + m] - self.own, kept)

    def paths(self, graph: StateGraph) -> ShortestPaths:
        """Lower bounds of all paths."""
        stages = dict.fromkeys(graph.stages)
        rows = {stage: {o: self.rows(stage, o) for o in stage.options} for stage in stages}
        every = {
            stage: packed(stage, own, self.room).weighed(self.weights, {}, stage.step.times)
            for stage, own in rows.items()
        }
        return ShortestPaths(graph, self.weights, self.room, every)

    def join(self, graph: StateGraph, most: float | None = None, reached: np.ndarray | None = None) -> LabelSetting:
        """The join; with no limit and nothing reached all that fits is kept."""
        own = np.full(len(self.room.capacity), self.own)
        parts = [StageFronts(self.fronts[stage.step], own) for stage in graph.stages]
        points = np.zeros((0, self.n_costs)) if reached is None else reached
        return LabelSetting(graph, parts, self.room, self.n_costs, self.paths(graph), most, points)


@dataclass(frozen=True)
class Combination:
    """One edge of each stage with one row of its front. `costs`: (Einsums, costs); `use`: most bits of each memory."""

    edges: tuple[Edge, ...]
    costs: np.ndarray
    use: tuple[float, ...]
    fits: bool


def ways(graph: StateGraph) -> Iterator[tuple[Edge, ...]]:
    """All paths from the first Einsum to the last."""
    found: list[tuple[Edge, ...]] = [()]
    for stage in graph.stages:
        edges = [Edge(*row) for row in stage.edges.tolist()]
        found = [(*way, e) for way in found for e in edges if e.before == (way[-1].after if way else 0)]
    yield from found


def combinations(small: Small, graph: StateGraph) -> list[Combination]:
    """All choices of edges and rows."""
    found = []
    for way in ways(graph):
        fronts = [small.fronts[s.step][e.option].values for s, e in zip(graph.stages, way, strict=True)]
        space = _Timeline(small, graph.stages, way)
        for chosen in product(*(range(len(front)) for front in fronts)):
            rows = [front[i] for front, i in zip(fronts, chosen, strict=True)]
            costs = [s.step.times * row[: small.n_costs] for s, row in zip(graph.stages, rows, strict=True)]
            use = space.use(rows)
            fits = all(own <= size for own, size in zip(use, small.room.capacity, strict=True))
            found.append(Combination(way, np.array(costs), use, fits))
    return found


class _Timeline:
    """What is in use while each Einsum runs: it alone, tensors that pass it, and all that others keep meanwhile."""

    def __init__(self, small: Small, stages: Sequence[Stage], way: Sequence[Edge]) -> None:
        self.small, self.m = small, len(small.room.capacity)
        self.options = [s.step.options[e.option] for s, e in zip(stages, way, strict=True)]
        self.plain = [not option.unexpanded and not option.absent for option in self.options]
        n, before = len(way), [s.before[e.before] for s, e in zip(stages, way, strict=True)]
        # loops that two Einsums share are open all the time between them
        self.shared = {
            (i, j): min(len(before[b].loops) for b in range(i + 1, j + 1)) for i in range(n) for j in range(i + 1, n)
        }
        self.passing = [
            [sum(v.bits for v in b.live if v.key.memory == name and v.slot not in option.keys) for name in self.names]
            for b, option in zip(before, self.options, strict=True)
        ]
        self.born = [self._shared(k, s.step, before[k].loops, s.step.born) for k, s in enumerate(stages)]
        dying = [frozenset(o.keys) - s.step.needed for o, s in zip(self.options, stages, strict=True)]
        self.dying = [self._shared(k, s.step, before[k].loops, dying[k]) for k, s in enumerate(stages)]

    @property
    def names(self) -> tuple[str, ...]:
        return self.small.room.space.memories

    def _shared(self, k, step, open_loops, slots):
        """[memory][l]: bits of shared tensors that live on while others run below the first l loops of Einsum k."""
        option = self.options[k]
        loops = open_loops if option.absent else option.loops
        parted = [kind == TEMPORAL or not self.small.room.space.by_tree for kind, _ in loops]
        found = [[0.0] * (len(loops) + 1) for _ in self.names]
        for slot in slots & frozenset(option.bits):
            key = option.keys[slot]
            for i, name in enumerate(self.names):
                for above in range(len(loops) + 1):
                    if key.memory == name and any(parted[len(key.loops) : above]):
                        found[i][above] += option.bits[slot]
        return found

    def use(self, rows: Sequence[np.ndarray]) -> tuple[float, ...]:
        """The most that is in use at any time in each memory; what is not known takes none."""
        times = [k for k in range(len(rows)) if self.plain[k]]
        return tuple(max((self._in_use(k, i, rows) for k in times), default=0.0) for i in range(self.m))

    def _in_use(self, k: int, i: int, rows: Sequence[np.ndarray]) -> float:
        n, room = self.small.n_costs, self.small.room
        total = rows[k][n + i] - self.small.own + room.always[i] + self.passing[k][i]
        for j in range(len(rows)):
            both = 0 if j == k else self.shared[min(j, k), max(j, k)]
            if not both or self.options[j].unexpanded:
                continue
            if self.plain[j]:
                fused = len(self.options[j].loops)
                total += rows[j][n + self.m + i * fused + both - 1] + (self.dying if j < k else self.born)[j][i][both]
            elif j > k:
                total += self.born[j][i][both]
        return float(total)


# made by Hypothesis


@st.composite
def smalls(draw: st.DrawFn, *, boundless: bool = False, unexpanded: bool = True, structures=tuple(STRUCTURES)) -> Small:
    """Two to four Einsums with random options; not all have a way through."""
    structure = STRUCTURES[draw(st.sampled_from(structures))]
    n_costs, names = draw(st.integers(1, 2)), ("near", "far")[: draw(st.integers(1, 2))]
    pool = draw(_loops())
    last = max(users[-1] for _, users in structure)
    most = 2 if last == 3 else 3
    signatures = [draw(_configuration(structure, names, len(pool))) for _ in range(draw(st.integers(1, most)))]
    bits = {slot: draw(st.integers(0, 4)) for slot, _ in structure}
    known: dict[tuple[frozenset[int], ...], EinsumOptions] = {}
    steps = []
    for k in range(last + 1):
        uses = frozenset(slot for slot, users in structure if k in users)
        born = frozenset(slot for slot, users in structure if users[0] == k)
        needed = frozenset(slot for slot, users in structure if users[0] <= k < users[-1])
        if (uses, born, needed) not in known:
            own = {tuple(backed[t] for t, (_, users) in enumerate(structure) if k in users) for backed in signatures}
            slots = [slot for slot, users in structure if k in users]
            options = [option_of(dict(zip(slots, backed, strict=True)), pool, bits) for backed in sorted(own)]
            if born == uses and len(uses) == 1 and draw(st.booleans()):
                options += _pruned(draw, min(uses), names, bits)
            if unexpanded:
                options = [*draw(_unexpanded(options)), *options]
            intermediates = frozenset(slot for slot in uses if draw(st.booleans()))
            known[uses, born, needed] = EinsumOptions(
                tuple(options), needed, born, intermediates, draw(st.integers(1, 2))
            )
        steps.append(known[uses, born, needed])
    own_bits = float(draw(st.integers(0, 1)))
    fronts = {
        step: {o: draw(_front(option, n_costs, names, own_bits, most)) for o, option in enumerate(step.options)}
        for step in known.values()
    }
    always = np.full(len(names), own_bits)
    roomy = ContendedMemories(FrontMemories(names, draw(st.booleans())), np.full(len(names), math.inf), always)
    small = Small(tuple(steps), fronts, roomy, n_costs, own_bits)
    graph = small.graph()
    if boundless or not graph.exists:
        return small
    # sizes that some combinations just fit into, and others just not
    uses = [sorted(set(own)) for own in zip(*(found.use for found in combinations(small, graph)), strict=True)]
    capacity = np.array([draw(st.sampled_from(own)) for own in uses])
    return replace(small, room=ContendedMemories(roomy.space, capacity, always))


@st.composite
def _loops(draw: st.DrawFn) -> list[tuple[tuple[str, str], str, int, int]]:
    """Loops that all Einsums fuse some of: kind, rank, tile shape, iterations."""
    found = []
    for rank in ("M", "N")[: draw(st.sampled_from((0, 1, 2, 2, 2)))]:
        found.append((draw(st.sampled_from((TEMPORAL, TEMPORAL, LANES))), rank, 2, draw(st.integers(2, 3))))
    return found


@st.composite
def _configuration(draw: st.DrawFn, structure, names, n_loops: int) -> list[tuple[str, int]]:
    """Memory of each tensor, and the number of loops above it. Users of one slot may have it alike by chance."""
    found = []
    for _ in structure:
        memory = draw(st.sampled_from((*names * 3, OUTERMOST)))
        found.append((memory, 0 if memory == OUTERMOST else draw(st.sampled_from((*range(n_loops), *[n_loops] * 3)))))
    return found


def option_of(backed: Mapping[int, tuple[str, int]], pool, bits: Mapping[int, float]) -> Option:
    """An option that keeps each tensor in a memory below so many of the loops."""
    fused = max(depth for _, depth in backed.values())
    seen = tuple((kind, rank, tile) for kind, rank, tile, _ in pool[:fused])
    keys = {slot: Key(memory, seen[:depth]) for slot, (memory, depth) in backed.items()}
    cuts = {slot: tuple(map(in_time, seen[depth:])) for slot, (_, depth) in backed.items() if depth < fused}
    signature = FusionSignature(
        tuple(keys.items()), tuple((kind, times) for kind, _, _, times in pool[:fused]), (), tuple(cuts.items())
    )
    return Option(signature, keys, {}, cuts, {slot: float(bits[slot]) for slot in keys})


def wild_of(option: Option) -> Option:
    """All that is in the same memories."""
    keys = {slot: Key(key.memory, () if key.memory == OUTERMOST else ANY_LOOPS) for slot, key in option.keys.items()}
    signature_class = tuple((slot, key.memory) for slot, key in sorted(option.keys.items()))
    return Option(FusionSignature((), (), (), ()), keys, {}, {}, {}, signature_class=signature_class)


def _pruned(draw: st.DrawFn, slot: int, names, bits: Mapping[int, float]) -> list[Option]:
    key = Key(draw(st.sampled_from((*names, OUTERMOST))), ())
    signature = FusionSignature(((slot, key),), (), (), ())
    return [Option(signature, {slot: key}, {}, {}, {slot: float(bits[slot])}, absent=True)]


@st.composite
def _unexpanded(draw: st.DrawFn, options: Sequence[Option]) -> list[Option]:
    found = {option.signature_class: option for option in map(wild_of, options)}
    return [option for option in found.values() if draw(st.integers(0, 3)) == 0]


@st.composite
def _front(draw: st.DrawFn, option: Option, n_costs: int, names, own: float, most: int) -> FusedFront:
    """One row or more of costs, bits in use and bits that stay; nothing is used where the option takes no space.

    What stays, and shared tensors, are a part of what is in use, and below more loops nothing more is over.
    """
    rows = []
    for _ in range(1 if option.absent else draw(st.integers(1, most))):
        costs = [0 if option.absent else draw(st.integers(0, 9)) for _ in range(n_costs)]
        if option.absent or option.unexpanded:
            rows.append([*costs, *(0.0 for _ in names)])
            continue
        kept = [list(accumulate(draw(st.integers(0, 3)) for _ in option.loops)) for _ in names]
        shared = [sum(bits for slot, bits in option.bits.items() if option.keys[slot].memory == name) for name in names]
        used = [max(stay, default=0) + bits + draw(st.integers(0, 4)) for stay, bits in zip(kept, shared, strict=True)]
        rows.append([*costs, *used, *chain.from_iterable(kept)])
    values = np.array(rows, dtype=np.float64)
    values[:, n_costs : n_costs + len(names)] += own
    return FusedFront(values, NO_PATHS)
