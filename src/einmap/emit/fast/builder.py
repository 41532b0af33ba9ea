"""From the route of a product through a mapping to its nest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import NoReturn

import numpy as np

from einmap.arch.component import Memory
from einmap.einsum.einsum import TensorAccess
from einmap.einsum.functions import apply
from einmap.einsum.operation import Apply, MapExpression, Number, Operand
from einmap.emit.fast.causal import Bound, bound_of
from einmap.emit.fast.fused import FusedMap, fused_map
from einmap.emit.fast.layout import Block, layout_of
from einmap.emit.fast.narrow import paired_of, types_of
from einmap.emit.fast.nest import (
    BYTES,
    MOST_VECTORS,
    OWN,
    VECTOR_BYTES,
    Held,
    Loop,
    Narrow,
    Nest,
    Packed,
    Real,
    Step,
    Tile,
)
from einmap.emit.language.identifiers import Names
from einmap.errors import NotSupportedError
from einmap.mapping.nodes import Address
from einmap.schedule.routes import Hold, Route, Turn
from einmap.schedule.schedule import Schedule

PAGE = 4096
"""Bytes of a page of memory."""


def nest_of(schedule: Schedule) -> Nest:
    """The nest of one product, or of a product and a map of its values.

    Raises NotSupportedError, which says what is not a product.
    """
    route, fused = fused_map(schedule)
    return Builder(route, fused).nest()


@dataclass(frozen=True, slots=True)
class Shared:
    """Parts that all Einsums of a cascade share: identifiers, and the tiles of intermediates that are kept.

    `shapes`: of these tiles as they lie in memory; `origins`: the first value of each rank in them, as C.
    """

    identifiers: Names
    names: dict[str, str]
    index_of: dict[Address, str]
    shapes: Mapping[str, tuple[int, ...]]
    origins: Mapping[str, tuple[str, ...]]


class Builder:
    """Goes down the route of one product; `fused`: the map of its values; `shared`: what a cascade brings."""

    def __init__(self, route: Route, fused: FusedMap | None = None, shared: Shared | None = None) -> None:
        self.route, self.einsum, self.fused = route, route.einsum, fused
        self.kept: Mapping[str, tuple[int, ...]] = {} if shared is None else shared.shapes
        self.is_part = shared is not None
        self.bound = bound_of(route.einsum) if shared is not None else None
        self.scale = scale_of(route.einsum.operation.map) if shared is not None else 1.0
        self.narrow, self.real = self._check_product()
        (self.output,) = route.einsum.outputs
        self.projections = {a.tensor: a.projection for a in route.einsum.accesses}
        self.ranks = {t: tuple(v for _, i in p for v, _ in i.terms) for t, p in self.projections.items()}
        self.axis = self.ranks[self.output][-1]
        self.extents = dict(route.einsum.bounds)
        self.at: dict[str, tuple[str, str]] = {v: ("0", str(n)) for v, n in route.einsum.bounds}
        self.loops: list[Loop] = []
        self.steps: list[Step] = []
        self.nodes: list[Address] = []
        self.origins: dict[str, dict[str, str]] = {}
        if shared is None:
            self.identifiers = Names("c", dict.fromkeys(OWN, ""))
            others = () if fused is None else (*fused.operands, fused.output)
            names = (*route.holds, *route.einsum.rank_variables, *others)
            self.names = {name: self.identifiers.identifier(name) for name in names}
            self.index_of = self._indices(self.identifiers)
        else:
            self.identifiers, self.names, self.index_of = shared.identifiers, shared.names, shared.index_of
            held = {t: shared.origins[t] for t in self.ranks if t in shared.origins}
            self.origins = {t: dict(zip(self.ranks[t], starts, strict=True)) for t, starts in held.items()}
        self.hold = self._memories(self.output)[-1]
        self.outside = [t for t in route.turns if t.position < self.hold.position]
        self.inside = [t for t in route.turns if t.position > self.hold.position]
        self.tile = self._tile(self._lanes())
        self.paired = paired_of(self.einsum, self.tile) if self.narrow == "signed char" else ""
        self.in_place = frozenset(t for t in self.ranks if t != self.output and self._is_in_place(t))

    def _indices(self, names: Names) -> dict[Address, str]:
        """The variable of each loop that cuts its rank variable: `k1`, further in `k2`."""
        counts, left, index_of = dict.fromkeys(self.extents, 0), dict(self.extents), {}
        for turn in self.route.turns:
            if turn.shape < left[turn.variable]:
                counts[turn.variable] += 1
                index_of[turn.address] = names.identifier(f"{self.names[turn.variable]}{counts[turn.variable]}")
                left[turn.variable] = turn.shape
        return index_of

    def nest(self) -> Nest:
        """The nest, from the outermost loop in."""
        einsum, extents = self.einsum, dict(self.einsum.bounds)
        inputs = tuple(a.tensor for a in einsum.accesses if not a.output)
        shapes = {t: self._shape(t, extents) for t in self.ranks}
        shapes |= {} if self.fused is None else self.fused.shapes
        events: list[Turn | Hold] = [*self.outside, *self._stations()]
        for event in sorted(events, key=lambda e: e.position):
            self._pass(event)
        shapes |= {t: shape for t, shape in self.kept.items() if t in shapes}
        steps = tuple(self.steps)
        return Nest(
            einsum, self.real, inputs, self.output, self.ranks, shapes,
            steps, self.tile, self.at, self.names, self.in_place, self.fused,
            tuple(self.nodes), 1.0 if self.scale is None else self.scale, self.origins, self.narrow, self.paired,
        )  # fmt: skip

    # what is a product

    def _check_product(self) -> tuple[Narrow, Real]:
        einsum = self.einsum
        is_product = self.scale is not None if self.is_part else _is_product(einsum.operation.map)
        if einsum.is_copy or not is_product or einsum.operation.reduction != "sum":
            self._refuse(f"computes {einsum.operation}, no sum of products")
        if len(einsum.outputs) != 1 or einsum.gathers:
            self._refuse("has several outputs, or rows that are looked up")
        mapped = () if self.fused is None else (*self.fused.operands, self.fused.output)
        if names := sorted({*einsum.tensors, *mapped} & {*einsum.rank_variables}):
            self._refuse(f"has a tensor and a rank variable {names[0]!r}", "give one of them another name")
        if einsum.cuts and not self.is_part:
            self._refuse("has a constraint on its iteration space")
        for access in einsum.accesses:
            self._check_indices(access)
        if any(first for _, first in einsum.first_values):
            self._refuse("has a rank variable that does not begin at 0")
        for turn in self.route.turns:
            if turn.first != turn.shape and turn.first < dict(einsum.bounds)[turn.variable]:
                self._refuse(f"has a first tile of another size in a loop over {turn.variable!r}")
        return types_of(self.einsum)

    def _check_indices(self, access: TensorAccess) -> None:
        indices = [index for _, index in access.projection]
        terms = [term for index in indices for term in index.terms]
        if any(index.constant or not index.terms for index in indices) or any(factor < 0 for _, factor in terms):
            self._refuse(f"indexes {access.tensor!r} by a number or a difference")
        if access.output and (len(terms) > len(indices) or any(factor != 1 for _, factor in terms)):
            self._refuse(f"indexes its output {access.tensor!r} by a sum or a multiple")
        if len({v for v, _ in terms}) < len(terms) or not terms:
            self._refuse(f"indexes {access.tensor!r} twice by one rank variable, or by none")

    def _refuse(self, text: str, hint: str = "leave out --fast of einmap emit") -> NoReturn:
        raise NotSupportedError(
            f"Einsum {self.einsum.name!r} {text}; fast code for that cannot be emitted yet", hint=hint
        )

    # the register tile

    def _memories(self, tensor: str) -> list[Hold]:
        return [h for h in self.route.holds[tensor] if isinstance(h.component, Memory)]

    def _lanes(self) -> int:
        default = VECTOR_BYTES // BYTES[self.real]
        for turn in self.route.turns:
            if turn.dimension is None or not turn.dimension.vector:
                continue
            if turn.variable != self.axis:
                self._refuse(
                    f"has lanes of vectors along {turn.variable!r}, but neighbours of {self.output!r} in memory lie "
                    f"along {self.axis!r}",
                    f"let the vector's loop run over {self.axis}",
                )
            if turn not in self.inside:
                self._refuse(f"has lanes of vectors outside the tile of {self.output!r} in registers")
            count = turn.dimension.fanout
            if count & (count - 1):
                self._refuse(f"has vectors of {count} values, which is not a power of two")
            return count
        return default

    def _tile(self, lanes: int) -> Tile:
        left = dict(self.einsum.bounds)
        for turn in self.outside:
            left[turn.variable] = min(left[turn.variable], turn.shape)
        variables = self.ranks[self.output]
        reduced = list(dict.fromkeys(t.variable for t in self.inside if t.variable not in variables))
        reduced += [v for v, n in left.items() if v not in variables and n > 1 and v not in reduced]
        tile = Tile(
            self.hold.component.name,
            tuple((v, left[v]) for v in variables),
            tuple((v, left[v]) for v in reduced if left[v] > 1),
            self.axis,
            lanes,
        )
        vectors = tile.vectors
        for _, size in tile.rows:
            vectors *= size
        if vectors > MOST_VECTORS:
            self._refuse(
                f"holds a tile of {self.output!r} of {vectors:,} vectors in {tile.memory!r}, its innermost memory; "
                f"at most {MOST_VECTORS} are kept in registers",
                f"put a loop around the node that holds {self.output} there, as einmap bench does, or hold a smaller "
                "tile in a memory for registers further in",
            )
        return tile

    def _is_in_place(self, tensor: str) -> bool:
        """Whether an input is read where it lies: one that is indexed by sums, of which packed tiles would be larger.

        Vectors of it must lie in memory, and none of them beside it.
        """
        if tensor in self.kept:
            return self.axis not in self.ranks[tensor]
        if self.is_part and self._lies_together(tensor):
            return True
        *outer, (_, last) = self.projections[tensor]
        if all(len(index.terms) == 1 for _, index in (*outer, (_, last))):
            return False
        if self.axis not in self.ranks[tensor]:
            return True
        left = dict(self.einsum.bounds)[self.axis]
        for turn in self.outside:
            if turn.variable == self.axis and turn.shape < left:
                if left % turn.shape:
                    return False
                left = turn.shape
        return last.terms == ((self.axis, 1),) and left % self.tile.lanes == 0

    def _lies_together(self, tensor: str) -> bool:
        """Whether what a register tile reads of an input are neighbours in memory, so that packing moves nothing.

        Vectors of it must be whole; of single values at most a page, as each row is a stream of its own.
        """
        sizes = {**dict(self.tile.sizes), **dict(self.tile.reduced)}
        extents, whole, values = dict(self.einsum.bounds), True, 1
        for _, index in reversed(self.projections[tensor]):
            ((variable, factor), *more) = index.terms
            size = sizes.get(variable, 1)
            if more or factor != 1 or not (whole or size == 1):
                return False
            values *= size
            whole = whole and size == extents[variable]
        if self.axis not in self.ranks[tensor]:
            return values * BYTES[self.real] <= PAGE
        is_whole = sizes[self.axis] == extents[self.axis] and sizes[self.axis] % self.tile.lanes == 0
        return is_whole and self.ranks[tensor][-1] == self.axis

    def _shape(self, tensor: str, extents: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(index.extent(extents) for _, index in self.projections[tensor])

    # what stands around it

    def _stations(self) -> list[Hold]:
        """Storage nodes in time, the outermost ones left out; of each input one at least, where it is packed."""
        stations, tile = [], self.hold
        for tensor in self.route.holds:
            inner = [h for h in self._memories(tensor)[1:] if h.position < tile.position]
            if not inner and tensor != self.output and tensor not in self.in_place:
                inner = [Hold(tensor, tile.component, tile.level, tile.position, tile.address)]
            stations += inner
        return stations

    def _pass(self, event: Turn | Hold) -> None:
        if isinstance(event, Turn):
            self._enter(event)
            return
        tensor = event.tensor
        shape = self._shape(tensor, self.extents)
        known = any(isinstance(s, Held) and s.tensor == tensor and s.packed is not None for s in self.steps)
        packed = None
        if tensor != self.output and tensor not in self.in_place and not known:
            packed = self._pack(event, [t for t in self.outside if t.position > event.position])
        self.steps.append(Held(event.component.name, tensor, shape, packed))
        self.nodes.append(event.address)

    def _enter(self, turn: Turn) -> None:
        variable, extent = turn.variable, self.extents[turn.variable]
        if turn.shape >= extent:
            return
        start, end = self.at[variable]
        index = self.index_of[turn.address]
        loop = within(loop_of(turn, extent, index, start, end), self.bound, self.at)
        if loop.lanes and variable not in self.ranks[self.output]:
            self._refuse(f"spreads the sums over {variable!r} over {loop.lanes!r}", "spread a rank of the output")
        self.steps.append(loop)
        self.nodes.append(turn.address)
        self.loops.append(loop)
        self.extents[variable] = turn.shape
        self.at[variable] = (index, loop.last)

    def _pack(self, hold: Hold, inner: list[Turn]) -> Packed:
        """A copy whose values lie as the loops inside reach them."""
        tensor = hold.tensor
        blocks, left = [], dict(self.extents)
        starts = {v: start for v, (start, _) in self.at.items()}
        for turn in inner:
            if turn.shape >= left[turn.variable]:
                continue
            index = self.index_of[turn.address]
            if turn.variable in self.ranks[tensor]:
                count = -(-left[turn.variable] // turn.shape)
                blocks.append(Block(turn.variable, count, turn.shape, index, starts[turn.variable]))
            left[turn.variable], starts[turn.variable] = turn.shape, index
        reduced = [(v, n) for v, n in self.tile.reduced if v in self.ranks[tensor]]
        lines = [(v, -(-n // 2) if v == self.paired else n) for v, n in reduced]
        tiles = [(v, n) for v, n in self.tile.rows if v in self.ranks[tensor]]
        if self.axis in self.ranks[tensor]:
            tiles.append((self.axis, self.tile.vectors * self.tile.lanes))
        bounds = tuple((v, *self.at[v]) for v in self.ranks[tensor])
        cores = tuple(loop for loop in self.loops if loop.lanes)
        buffer = self.identifiers.identifier(f"{hold.component.name}_{tensor}")
        return Packed(tensor, buffer, layout_of(blocks, lines, tiles), bounds, cores)


def loop_of(turn: Turn, extent: int, index: str, start: str, end: str) -> Loop:
    """The loop of a node; `index`: its variable, `start` and `end`: what it runs between, as C."""
    lanes = turn.dimension.name if turn.dimension is not None else ""
    return Loop(turn.variable, turn.shape, extent, index, f"{index}_end", start, end, lanes)


def within(loop: Loop, bound: Bound | None, at: Mapping[str, tuple[str, str]]) -> Loop:
    """The loop, which ends where the bound of the last row is, if loops further out cut the rows."""
    if bound is None or loop.variable != bound.variable or at[bound.row][0] == "0":
        return loop
    return replace(loop, limit=f"{at[bound.row][1]} + {bound.more}" if bound.more else at[bound.row][1])


def scale_of(expression: MapExpression | None) -> float | None:
    """The number by which an expression multiplies a product of operands; None for anything else."""
    is_product, factor = _scaled(expression)
    return factor if is_product else None


def _scaled(expression: MapExpression | None) -> tuple[bool, float | None]:
    """Whether there are operands in a product, and the number beside them; (False, None) for no product."""
    match expression:
        case Operand():
            return True, 1.0
        case Number(value):
            return False, value
        case Apply(function, arguments):
            parts = [_scaled(argument) for argument in arguments]
            factors = [factor for _, factor in parts if factor is not None]
            has_operands = [is_product for is_product, _ in parts]
            if len(factors) < len(parts):
                return False, None
            if function == "multiply" or not any(has_operands) or (function == "divide" and not has_operands[1]):
                with np.errstate(all="ignore"):  # 1 / 0 is inf
                    found = float(apply(function, *map(np.float64, factors)))
                return any(has_operands), found if isfinite(found) else None
    return False, None


def _is_product(expression: MapExpression | None) -> bool:
    """Whether an expression multiplies operands, and does nothing else."""
    match expression:
        case Operand():
            return True
        case Apply(function="multiply", arguments=arguments):
            return all(_is_product(argument) for argument in arguments)
        case _:
            return False
