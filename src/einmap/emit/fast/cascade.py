"""A cascade of Einsums as one nest: products in register tiles, maps and reductions in passes of vectors.

Intermediates live in tiles of static memory, as large as the mapping says where it first holds them. The loops that
several branches share are those of the mapping; a branch of one product is the nest of that product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import NoReturn

from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.operation import MapExpression, Reduction, operands
from einmap.emit.fast.builder import Builder, Shared, loop_of, scale_of, within
from einmap.emit.fast.causal import Bound, bound_of, check_bounds
from einmap.emit.fast.narrow import type_of_all
from einmap.emit.fast.nest import BYTES, OWN, VECTOR_BYTES, Loop, Nest, Real
from einmap.emit.fast.recurrent import beginnings, check_held, times_of, without_time
from einmap.emit.fast.vector_maths import Kind
from einmap.emit.language.identifiers import Names
from einmap.errors import NotSupportedError
from einmap.mapping.nodes import Address, Split
from einmap.schedule.routes import Route, Turn
from einmap.schedule.schedule import Schedule

MOST_KEPT = 2**30
"""Bytes of all tiles of intermediates together."""
LINE = 16
"""Values by which rows of a tile are longer than they need be, so that they do not all meet in one set of a cache."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The tile of an intermediate: `shape` in memory, its last rank longer than `extents`; `origins`: where it begins.

    `cores`: the loops over cores around it, each of which has a copy; `node`: the storage node.
    """

    tensor: str
    memory: str
    buffer: str
    extents: tuple[int, ...]
    shape: tuple[int, ...]
    origins: tuple[str, ...]
    cores: tuple[Loop, ...]
    node: Address
    over: str = ""
    """The tensor whose tile it overwrites, value by value as that is read for the last time; empty for none."""

    @property
    def place(self) -> tuple[object, ...]:
        """Properties that two tiles have alike where values with equal indices lie at one place at the same time."""
        return self.node[:-1], self.shape, self.origins, self.cores


@dataclass(frozen=True, slots=True)
class Pass:
    """A map of values, or a reduction of them, in vectors along `axis`. `ranks`: rank variables of each tensor.

    `outer`: rank variables of the output but for the axis; `reduced`: the others but for the axis. `at`: the first
    value and the end of each, as C; `strides`: values from one value of each to the next.
    """

    einsum: Einsum
    expression: MapExpression
    reduction: Reduction
    inputs: tuple[str, ...]
    output: str
    axis: str
    outer: tuple[str, ...]
    reduced: tuple[str, ...]
    at: Mapping[str, tuple[str, str]]
    strides: Mapping[str, Mapping[str, int]]
    origins: Mapping[str, Mapping[str, str]]
    split: tuple[str, ...]
    """Rank variables that are summed and that loops outside cut."""
    bound: Bound | None = None
    """Where rows end along the axis."""

    @property
    def along(self) -> bool:
        """Whether the output has the axis; else vectors are reduced to one value."""
        return self.axis in self.strides[self.output]

    @property
    def is_map(self) -> bool:
        """Whether nothing is reduced."""
        return self.along and not self.reduced


@dataclass(frozen=True, slots=True)
class Cascade:
    """Einsums of one mapping. `nests` and `passes` by Einsum; `inputs` and `outputs`: whole tensors, `kept`: tiles.

    `schedule` has the states of recurrences without their rank of time.
    """

    schedule: Schedule
    real: Real
    names: Mapping[str, str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]]
    kept: Mapping[str, Kept]
    nests: Mapping[str, Nest]
    passes: Mapping[str, Pass]
    loops: Mapping[Address, Loop]
    uneven: frozenset[Address]
    """Loops whose last tile is smaller."""
    joined: Mapping[str, str]
    """For the Einsum of a map that of a reduction of its values which is computed in the same pass, right after it."""

    @property
    def lanes(self) -> int:
        """Values of a vector, the same in all. Raises NotSupportedError where Einsums have different ones."""
        found = {nest.tile.lanes for nest in self.nests.values()} or {VECTOR_BYTES // BYTES[self.real]}
        if len(found) > 1:
            raise NotSupportedError(
                "Einsums of one cascade have vectors of different lengths", hint="give all the same"
            )
        return found.pop()

    @property
    def kind(self) -> Kind:
        """The type of vectors, for functions of maps."""
        return Kind(self.real, self.lanes)

    @property
    def einsums(self) -> tuple[Einsum, ...]:
        """Einsums in the order in which they run."""
        return tuple(route.einsum for route in self.schedule.routes.values())

    @property
    def by_lanes(self) -> tuple[Reduction, ...]:
        """Reductions along vectors, whose lanes are reduced at the end."""
        found = (p.reduction for p in self.passes.values() if not p.along)
        return tuple(dict.fromkeys(found))

    @property
    def beginnings(self) -> Mapping[Address, tuple[str, ...]]:
        """For each loop over steps the states that are 0 as it begins."""
        return beginnings(self.schedule)


def is_cascade(schedule: Schedule) -> bool:
    """Whether this is for several Einsums in a nest of their own: not for a product with a map of its values."""
    routes = tuple(schedule.routes.values())
    products = [r.einsum.operation.reduction == "sum" and scale_of(r.einsum.operation.map) == 1 for r in routes]
    if len(routes) == 2 and products[0] and not schedule.workload.recurrences:
        first, second = routes
        summed = set(second.einsum.rank_variables) - {v for o in second.einsum.outputs for v in _variables(second, o)}
        return bool(summed) and first.einsum.outputs <= second.einsum.inputs
    return len(routes) > 1


def cascade_of(schedule: Schedule) -> Cascade:
    """The nest of a cascade. Raises NotSupportedError, which says what cannot be emitted."""
    return _Cascades(schedule).cascade()


def _variables(route: Route, tensor: str) -> frozenset[str]:
    return route.einsum.by_tensor[tensor].variables


class _Cascades:
    """Goes down the routes of all Einsums."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.workload = without_time(schedule), schedule.workload
        self.times = times_of(self.workload)
        self.real = self._check()
        self.identifiers = Names("c", dict.fromkeys(OWN, ""))
        routes = self.schedule.routes.values()
        every = [name for r in routes for name in (*r.holds, *r.einsum.rank_variables)]
        self.names = {name: self.identifiers.identifier(name) for name in dict.fromkeys(every)}
        self.index_of = self._indices()
        self.loops: dict[Address, Loop] = {}
        self.uneven: set[Address] = set()
        self.at = {r.einsum.name: self._walk(r, len(r.turns) + len(schedule.mapping.placed)) for r in routes}

    def cascade(self) -> Cascade:
        """The cascade, once everything in it is known to be possible."""
        routes = self.schedule.routes
        written = {t: r for r in routes.values() for t in r.einsum.outputs}
        kept = {t: self._kept(t, r) for t, r in written.items() if t in self.workload.intermediates}
        size = BYTES[self.real]
        needed = size * sum(prod(k.shape) * prod(loop.iterations for loop in k.cores) for k in kept.values())
        if needed > MOST_KEPT:
            raise NotSupportedError(
                f"the mapping holds tiles of intermediates of {needed:,} bytes, fast code at most {MOST_KEPT:,}",
                hint="hold them below loops over their ranks",
            )
        shapes: dict[str, tuple[int, ...]] = {}
        for route in routes.values():
            extents = dict(route.einsum.bounds)
            for access in route.einsum.accesses:
                here = tuple(index.extent(extents) for _, index in access.projection)
                if shapes.setdefault(access.tensor, here) != here:
                    _refuse(route.einsum, f"reads or writes another part of {access.tensor!r} than others do")
        shared = Shared(
            self.identifiers, self.names, self.index_of,
            {t: k.shape for t, k in kept.items()}, {t: k.origins for t, k in kept.items()},
        )  # fmt: skip
        nests = {
            name: Builder(route, None, shared).nest()
            for name, route in routes.items()
            if route.einsum.operation.reduction == "sum" and self._is_product(route)
        }
        passes = {n: self._pass(r, kept, shapes) for n, r in routes.items() if n not in nests}
        check_bounds({n: r.einsum for n, r in routes.items()}, self.workload.intermediates, frozenset(passes))
        for state in self.workload.states:
            if (name := self.workload.producers[state]) in nests:
                _refuse(routes[name].einsum, f"is a product that writes {state!r}, which steps through time")
            check_held(self.schedule, state)
        packed = [t for nest in nests.values() for t in nest.packed]
        if twice := sorted({t for t in packed if packed.count(t) > 1}):
            raise NotSupportedError(
                f"two products pack {twice[0]!r}; fast code for that cannot be emitted yet",
                hint="leave out --fast of einmap emit",
            )
        for tensor, held in list(kept.items()):
            kept[tensor] = self._overwriting(held, kept, passes.get(written[tensor].einsum.name))
        outputs = tuple(t for t in written if t not in kept)
        inputs = tuple(t for t in shapes if t not in written)
        return Cascade(
            self.schedule, self.real, self.names, inputs, outputs, shapes, kept, nests, passes, self.loops,
            frozenset(self.uneven), self._joined(passes),
        )  # fmt: skip

    def _overwriting(self, kept: Kept, others: Mapping[str, Kept], p: Pass | None) -> Kept:
        """The tile of a map's values in the memory of one that the map is the last to read, where there is such a one.

        Both are alike, and no loop around the map that is inside the tile reads it again.
        """
        if p is None or not p.is_map or kept.tensor in self.workload.states:
            return kept
        routes = list(self.schedule.routes.values())
        at = next(n for n, r in enumerate(routes) if r.einsum.name == p.einsum.name)
        for tensor in p.inputs:
            other = others.get(tensor)
            if other is None or tensor in self.workload.states:
                continue
            is_alike = other.place == kept.place
            is_last = all(tensor not in r.einsum.inputs for r in routes[at + 1 :])
            path = self.schedule.mapping.path_of[p.einsum.name]
            inside = path[[placed.address for placed in path].index(other.node) :]
            again = {self.loops[n.address].variable for n in inside if n.address in self.loops} - {*p.strides[tensor]}
            if is_alike and is_last and not again and p.strides[tensor] == p.strides[kept.tensor]:
                return replace(kept, buffer=other.buffer, over=tensor)
        return kept

    def _joined(self, passes: Mapping[str, Pass]) -> dict[str, str]:
        """Maps whose values the next branch reduces along the vectors, nothing else between them."""
        joined: dict[str, str] = {}
        paths = self.schedule.mapping.path_of
        for (first, a), (second, b) in pairwise((name, passes.get(name)) for name in self.schedule.routes):
            if a is None or b is None or first in joined.values() or not a.is_map or b.along or b.reduced:
                continue
            if (a.axis, {*a.outer}) != (b.axis, {*b.outer}) or a.output not in b.inputs:
                continue
            if any(a.at[v] != b.at[v] for v in (*a.outer, a.axis)) or a.strides[a.output] != b.strides[a.output]:
                continue
            same = sum(x.address == y.address for x, y in zip(paths[first], paths[second], strict=False))
            begin = [paths[name][same].address for name in (first, second)]
            alone = all(sum(any(n.address == at for n in path) for path in paths.values()) == 1 for at in begin)
            if same and isinstance(paths[first][same - 1].node, Split) and alone:
                joined[first] = second
        return joined

    def _check(self) -> Real:
        workload = self.workload
        einsums = [route.einsum for route in self.schedule.routes.values()]
        for einsum in einsums:
            expression = einsum.operation.map
            if einsum.is_copy or expression is None or not operands(expression):
                _refuse(einsum, f"computes {einsum.operation}, no map or reduction of values")
            if len(einsum.outputs) != 1 or einsum.gathers:
                _refuse(einsum, "has several outputs, or rows that are looked up")
            if any(first for _, first in einsum.first_values):
                _refuse(einsum, "has a rank variable that does not begin at 0")
            for access in einsum.accesses:
                if access.tensor in workload.intermediates and not _is_plain(access):
                    _refuse(einsum, f"indexes {access.tensor!r} by other than rank variables")
                ranks = tuple(rank for rank, _ in access.projection)
                if ranks != self._ranks(access.tensor):
                    _refuse(einsum, f"has the ranks of {access.tensor!r} in another order than others")
        if names := sorted({t for e in einsums for t in e.tensors} & {v for e in einsums for v in e.rank_variables}):
            _refuse(einsums[0], f"is in a cascade with a tensor and a rank variable {names[0]!r}")
        return type_of_all(einsums)

    def _ranks(self, tensor: str) -> tuple[str, ...]:
        route = next(r for r in self.schedule.routes.values() if tensor in r.einsum.by_tensor)
        return tuple(rank for rank, _ in route.einsum.by_tensor[tensor].projection)

    def _is_product(self, route: Route) -> bool:
        """Whether an Einsum has a register tile: a product of tensors over which sums run."""
        (output,) = route.einsum.outputs
        summed = set(route.einsum.rank_variables) - set(_variables(route, output))
        return bool(summed) and len(route.einsum.inputs) > 1 and scale_of(route.einsum.operation.map) is not None

    def _indices(self) -> dict[Address, str]:
        """The variable of each loop; loops of different branches at the same depth have the same one."""
        index_of: dict[Address, str] = {}
        known: dict[tuple[str, int], str] = {}
        for route in self.schedule.routes.values():
            counts, left = dict.fromkeys(route.einsum.rank_variables, 0), dict(route.einsum.bounds)
            for turn in route.turns:
                if turn.shape < left[turn.variable]:
                    counts[turn.variable] += 1
                    left[turn.variable] = turn.shape
                    key = turn.variable, counts[turn.variable]
                    if turn.address not in index_of and key not in known:
                        known[key] = self.identifiers.identifier(f"{self.names[turn.variable]}{key[1]}")
                    index_of.setdefault(turn.address, known.get(key, ""))
        return index_of

    def _walk(self, route: Route, end: int) -> dict[str, tuple[str, str]]:
        """First value and end of each rank variable at a position of a path; loops that are shared are noted."""
        at = {v: ("0", str(n)) for v, n in route.einsum.bounds}
        extents, even = dict(route.einsum.bounds), dict.fromkeys(route.einsum.rank_variables, True)
        for turn in route.turns:
            if turn.position >= end or turn.shape >= extents[turn.variable]:
                continue
            if not self._is_shared(turn):
                continue
            loop = loop_of(turn, extents[turn.variable], self.index_of[turn.address], *at[turn.variable])
            loop = within(loop, bound_of(route.einsum), at)
            self._note(route, turn, loop)
            even[turn.variable] &= extents[turn.variable] % turn.shape == 0
            if not even[turn.variable]:
                self.uneven.add(turn.address)
            extents[turn.variable], at[turn.variable] = turn.shape, (loop.index, loop.last)
        return at

    def _note(self, route: Route, turn: Turn, loop: Loop) -> None:
        einsum = route.einsum
        (output,) = einsum.outputs
        if turn.first != turn.shape and turn.first < dict(einsum.bounds)[turn.variable]:
            _refuse(einsum, f"has a first tile of another size in a loop over {turn.variable!r}")
        if turn.dimension is not None and (turn.dimension.vector or turn.variable not in _variables(route, output)):
            _refuse(einsum, f"shares lanes of {turn.dimension.name!r} over {turn.variable!r} with other Einsums")
        known = self.loops.setdefault(turn.address, loop)
        if (known.tile, known.extent, known.start, known.end) != (loop.tile, loop.extent, loop.start, loop.end):
            _refuse(einsum, f"has other tiles in a loop over {turn.variable!r} than Einsums that share it")

    def _is_shared(self, turn: Turn) -> bool:
        """Whether several Einsums are below a loop."""
        paths = self.schedule.mapping.path_of
        return sum(any(p.address == turn.address for p in paths[name]) for name in self.schedule.routes) > 1

    def _kept(self, tensor: str, route: Route) -> Kept:
        """The tile where the mapping first holds an intermediate, the same for all that use it."""
        hold = route.holds[tensor][0]
        users = [r for r in self.schedule.routes.values() if tensor in r.holds]
        if any(r.holds[tensor][0].address != hold.address for r in users):
            _refuse(route.einsum, f"writes {tensor!r} elsewhere than others read it")
        at = self._walk(route, hold.position)
        extents = dict(route.einsum.bounds)
        for turn in route.turns:
            if turn.position < hold.position:
                extents[turn.variable] = min(extents[turn.variable], turn.shape)
        variables = [index.terms[0][0] for _, index in route.einsum.by_tensor[tensor].projection]
        sizes = [extents[v] for v in variables]
        padded = [*sizes[:-1], -(-sizes[-1] // LINE) * LINE + (LINE if sizes[-1] > 4 * LINE else 0)] if sizes else []
        cores = tuple(
            self.loops[t.address]
            for t in route.turns
            if t.address in self.loops and t.position < hold.position and t.dimension is not None
        )
        buffer = self.identifiers.identifier(f"{hold.component.name}_{tensor}")
        return Kept(
            tensor, hold.component.name, buffer, tuple(sizes), tuple(padded),
            tuple(at[v][0] for v in variables), cores, hold.address,
        )  # fmt: skip

    def _pass(self, route: Route, kept: Mapping[str, Kept], shapes: Mapping[str, tuple[int, ...]]) -> Pass:
        einsum = route.einsum
        (output,) = einsum.outputs
        expression = einsum.operation.map
        assert expression is not None
        accesses = einsum.by_tensor
        inputs = tuple(a.tensor for a in einsum.accesses if not a.output)
        for access in einsum.accesses:
            if not _is_plain(access):
                _refuse(einsum, f"indexes {access.tensor!r} by other than rank variables")
        ranks = {t: tuple(index.terms[0][0] for _, index in a.projection) for t, a in accesses.items()}
        if not any(ranks.values()):
            _refuse(einsum, "has single numbers alone")
        axis = max((ranks[t] for t in (*inputs, output)), key=len)[-1]
        for tensor, variables in ranks.items():
            if axis in variables[:-1]:
                _refuse(einsum, f"reads or writes {tensor!r}, whose neighbours in memory do not lie along {axis!r}")
        step = [self.times[einsum.name]] if einsum.name in self.times else []
        outer = dict.fromkeys((*step, *ranks[output]))
        reduced = tuple(v for v in einsum.rank_variables if v not in outer)
        bound = bound_of(einsum)
        if bound is not None and (bound.variable != axis or bound.row not in outer or (axis in outer and reduced)):
            _refuse(einsum, f"has a bound along {bound.variable!r}, and vectors along {axis!r}")
        at = self.at[einsum.name]
        lies = {t: kept[t].shape if t in kept else shapes[t] for t in ranks}
        return Pass(
            einsum, expression, einsum.operation.reduction, inputs, output, axis,
            tuple(v for v in outer if v != axis), tuple(v for v in reduced if v != axis), at,
            {t: _strides(variables, lies[t]) for t, variables in ranks.items()},
            {t: dict(zip(ranks[t], kept[t].origins, strict=True)) for t in ranks if t in kept},
            tuple(v for v in reduced if at[v][0] != "0"),
            bound,
        )  # fmt: skip


def _strides(variables: tuple[str, ...], shape: tuple[int, ...]) -> dict[str, int]:
    return {v: prod(shape[place + 1 :]) for place, v in enumerate(variables)}


def _is_plain(access: TensorAccess) -> bool:
    terms = [index.terms for _, index in access.projection]
    alone = all(
        len(t) == 1 and t[0][1] == 1 and not i.constant for t, (_, i) in zip(terms, access.projection, strict=True)
    )
    return alone and len({t[0][0] for t in terms}) == len(terms)


def _refuse(einsum: Einsum, text: str) -> NoReturn:
    raise NotSupportedError(
        f"Einsum {einsum.name!r} {text}; fast code for that cannot be emitted yet",
        hint="leave out --fast of einmap emit",
    )
