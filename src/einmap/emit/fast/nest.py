"""A mapping of one product as a nest for a processor: loops, packed tiles, a register tile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from einmap.einsum.einsum import Einsum
from einmap.emit.fast.fused import FusedMap
from einmap.emit.fast.layout import Layout
from einmap.emit.fast.vector_maths import BY_LANES, Kind
from einmap.mapping.nodes import Address

type Real = Literal["float", "double", "int"]
type Narrow = Literal["", "signed char", "unsigned short"]
type Step = Loop | Held
REALS: Mapping[float, Real] = {32: "float", 64: "double"}
BYTES: Mapping[Real, int] = {"float": 4, "double": 8, "int": 4}
VECTOR_BYTES = 64
"""Bytes of a vector where no loop of the mapping runs over the lanes of one."""
OWN = (
    *(f"vec_{name}" for name in (*BY_LANES, "pick", "max", "min", "exp")),
    *("real", "vec", "loose", "sum", "to", "from", "first", "last", "add", "lanes", "part", "block", "values"),
    *("wrong", "start", "took", "differ", "now", "found", "count", "arguments", "repeats", "seconds", "best"),
    *("whole", "kept", "total", "value", "lane", "near", "ints", "limit", "inside"),
    *("mapped", "turns", "row", "other", *(f"lanes_{name}" for name in ("sum", "max", "min"))),
    *("unrolled", "next", "narrow", "in_register", "widened", "narrowed", "pair", "multiply_add", "wide", "bits"),
)
"""Names that the code has for itself."""
MOST_VECTORS = 64
"""Vectors of a register tile; processors have 16 or 32 registers."""
FAR = 2**20
"""Bytes of an input that the cache of a core does not keep while others stream by."""
LEAST_SUMS = 8
"""Multiply-adds in a step beside which one instruction more takes no time."""
MOST_UNROLLED = 256
"""Multiply-adds of a register tile that reads a window, as they are written out."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop by `tile` from `start` to below `end`, which are C; `index`: its variable, `last`: where its tile ends.

    `extent`: the most values that it goes through. `lanes`: of a loop over cores the fanout that it is spread over.
    """

    variable: str
    tile: int
    extent: int
    index: str
    last: str
    start: str
    end: str
    lanes: str = ""
    limit: str = ""
    """Where it ends before `end`, as C: behind it nothing is read; empty for nowhere."""

    @property
    def iterations(self) -> int:
        """The most iterations."""
        return -(-self.extent // self.tile)


@dataclass(frozen=True, slots=True)
class Held:
    """A storage node outside the register tile. `packed`: the copy that it makes; None where values stay in place."""

    memory: str
    tensor: str
    shape: tuple[int, ...]
    packed: Packed | None = None


@dataclass(frozen=True, slots=True)
class Packed:
    """A copy of a tile of an input. `cores`: the loops over cores around it, each of which has a copy of its own."""

    tensor: str
    buffer: str
    layout: Layout
    bounds: tuple[tuple[str, str, str], ...]
    """For each rank of the tensor: rank variable, first value, end."""
    cores: tuple[Loop, ...]


@dataclass(frozen=True, slots=True)
class Tile:
    """The register tile of the output, `sizes` by rank variable; `reduced`: loops inside it, with their most values.

    `axis`: the rank variable whose neighbours are the lanes of a vector, `lanes` of them; `memory` holds the tile.
    """

    memory: str
    sizes: tuple[tuple[str, int], ...]
    reduced: tuple[tuple[str, int], ...]
    axis: str
    lanes: int

    @property
    def vectors(self) -> int:
        """Vectors along the axis."""
        return -(-dict(self.sizes)[self.axis] // self.lanes)

    @property
    def rows(self) -> tuple[tuple[str, int], ...]:
        """The other rank variables of more than one value."""
        return tuple((v, n) for v, n in self.sizes if v != self.axis and n > 1)


@dataclass(frozen=True, slots=True)
class Window:
    """Values of `image` that register tiles read: each one vector, which several sums add with other vectors of `taps`.

    For each rank of `image` that rank variables of the tile or of the sums index, its `sides`; `kept`: whether sums and
    all taps fit registers.
    """

    image: str
    taps: str
    sides: tuple[Side, ...]
    kept: bool

    @property
    def places(self) -> int:
        """Vectors of the image that a register tile reads, for each vector along its axis."""
        return prod(len(side.places) for side in self.sides)


@dataclass(frozen=True, slots=True)
class Side:
    """A rank of an image inside a register tile, indexed by `row` x `by` + `tap` x `apart`.

    With the number of values of each; `stride`: values from one place of it to the next one. Names are "" for none.
    """

    row: str
    rows: int
    by: int
    tap: str
    taps: int
    apart: int
    stride: int

    @property
    def size(self) -> int:
        """Places from the first one that is read to the last one."""
        return (self.rows - 1) * self.by + (self.taps - 1) * self.apart + 1

    @property
    def places(self) -> frozenset[int]:
        """Places that are read."""
        return frozenset(p * self.by + r * self.apart for p in range(self.rows) for r in range(self.taps))


@dataclass(frozen=True, slots=True)
class Ahead:
    """The tile of `tensor` that is packed in the next turn of `mover`: register tiles fetch its lines into a cache.

    In each turn of `turns`, a loop further in, other ones.
    """

    tensor: str
    mover: Loop
    turns: Loop

    def part(self, vectors: int) -> float:
        """The part of its lines that are fetched ahead, of so many vectors of a step: not those of the first turn."""
        return min(1.0, self.turns.iterations / vectors) * (1 - 1 / self.mover.iterations)


@dataclass(frozen=True, slots=True)
class Nest:
    """A product as a nest. `shapes`: of whole tensors; `ranks`: rank variables of each tensor in its order.

    `at`: first value and end of each rank variable around the register tile, as C. `in_place`: inputs that the register
    tile reads where they lie, instead of from a packed tile.
    """

    einsum: Einsum
    real: Real
    inputs: tuple[str, ...]
    output: str
    ranks: Mapping[str, tuple[str, ...]]
    shapes: Mapping[str, tuple[int, ...]]
    steps: tuple[Step, ...]
    tile: Tile
    at: Mapping[str, tuple[str, str]]
    names: Mapping[str, str]
    """Identifiers of tensors, and of rank variables inside functions."""
    in_place: frozenset[str]
    fused: FusedMap | None = None
    """The map of its values that is computed as the last sums are added."""
    nodes: tuple[Address, ...] = ()
    """The node of the mapping that each of `steps` stands for."""
    scale: float = 1.0
    """A number by which sums, or the values of the input `scaled`, are multiplied."""
    origins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """For tensors of which the code holds a tile alone: the first value of each rank variable in it, as C."""

    narrow: Narrow = ""
    """The C type of inputs that are narrower than sums; packing widens them."""
    paired: str = ""
    """The rank variable of which two values are summed in one step, where inputs are whole numbers of 8 bits."""

    @property
    def stored(self) -> str:
        """The type of inputs in memory, as the code names it."""
        return "narrow" if self.narrow else "real"

    @property
    def written(self) -> str:
        """The tensor that the code writes; sums that are not done stand in its place."""
        return self.output if self.fused is None else self.fused.output

    @property
    def operands(self) -> tuple[str, ...]:
        """Tensors that the fused map reads beside the sums."""
        return () if self.fused is None else self.fused.operands

    @property
    def packed(self) -> Mapping[str, Packed]:
        """The copy of each input that the register tile reads."""
        return {step.tensor: step.packed for step in self.steps if isinstance(step, Held) and step.packed is not None}

    @property
    def scaled(self) -> str:
        """The input of the smallest packed tile, if there is a `scale`: packing multiplies it; empty for none."""
        sizes = {packed.layout.size: tensor for tensor, packed in self.packed.items()}
        return sizes[min(sizes)] if sizes and self.scale != 1 else ""

    @property
    def loops(self) -> tuple[Loop, ...]:
        """All loops outside the register tile."""
        return tuple(step for step in self.steps if isinstance(step, Loop))

    def is_shared(self, packed: Packed) -> bool:
        """Whether a copy is there once for several cores, which loops further in are spread over."""
        return not packed.cores and any(loop.lanes for loop in self.loops)

    def strides(self, tensor: str) -> dict[str, int]:
        """Values from one value of each rank variable to the next one, in the whole tensor.

        Of `I[2*p + r, c]` with 8 values of c: 16 for p, 8 for r, 1 for c.
        """
        (access,) = (a for a in self.einsum.accesses if a.tensor == tensor)
        strides, step = dict[str, int](), 1
        for (_, index), size in zip(reversed(access.projection), reversed(self.shapes[tensor]), strict=True):
            strides |= {variable: factor * step for variable, factor in reversed(index.terms)}
            step *= size
        return strides

    def clamped(self, variable: str) -> bool:
        """Whether a row of the tile beside the output would be read in place, so that the last one is read again."""
        rows = {v for v, _ in self.tile.rows}
        return variable in rows and any(variable in self.ranks[t] for t in self.in_place)

    @property
    def uneven(self) -> tuple[str, ...]:
        """Rank variables of the output along which some register tiles are not full; the axis last."""
        tile = self.tile
        full = {**dict(tile.rows), tile.axis: tile.vectors * tile.lanes}
        return tuple(v for v, n in full.items() if min(self.sizes(v)) < n)

    @property
    def kind(self) -> Kind:
        """The type of vectors, for functions of maps."""
        return Kind(self.real, self.tile.lanes)

    @property
    def fits_registers(self) -> bool:
        """Whether sums, a row of vectors and a value beside them fit registers."""
        return self.tile.vectors * (1 + prod(n for _, n in self.tile.rows)) < self.registers

    @property
    def registers(self) -> int:
        """Registers of a vector: 32 of 64 bytes, else 16."""
        return 32 if self.tile.lanes * BYTES[self.real] == VECTOR_BYTES else 16

    @property
    def window(self) -> Window | None:
        """The window that full register tiles read once, value by value; None where they read no value twice.

        Two inputs have vectors along the axis: one in its place, indexed by rows and by sums, and one without rows. All
        tiles sum equally many values.
        """
        tile = self.tile
        rows, taps = dict(tile.rows), dict(tile.reduced)
        images = [t for t in self.inputs if t in self.in_place and not {*rows}.isdisjoint(self.ranks[t])]
        if len(self.inputs) != 2 or len(images) != 1 or self.real == "int":
            return None
        (image,), (other,) = images, [t for t in self.inputs if t not in images]
        is_along = tile.axis in self.ranks[image] and tile.axis in self.ranks[other]
        if not is_along or not {*rows, *taps} <= {*self.ranks[image]} or not {*rows}.isdisjoint(self.ranks[other]):
            return None
        if not {*taps} <= {*self.ranks[other]} or any(len(self.sizes(v)) > 1 for v in taps):
            return None
        sides = self._sides(image, rows, taps)
        sums, registers = prod(rows.values()), self.registers
        is_shared = any(side.row and side.tap for side in sides)
        if not is_shared or sums + 2 > registers or sums * prod(taps.values()) > MOST_UNROLLED:
            return None
        return Window(image, other, sides, sums + prod(taps.values()) + 2 <= registers)

    @property
    def ahead(self) -> Ahead | None:
        """The packed tile whose next values register tiles fetch while they compute; None where that does not pay.

        Of a large input, whose neighbours in memory are the lanes of a vector, as filters are: those of one step lie
        apart, where processors fetch nothing by themselves.
        """
        tile, found = self.tile, dict[int, Ahead]()
        sums = tile.vectors * prod(n for _, n in tile.rows)
        if self.narrow or not tile.reduced or sums < LEAST_SUMS or self.window is not None:
            return None
        for place, step in enumerate(self.steps):
            if not isinstance(step, Held) or step.packed is None or self.is_shared(step.packed):
                continue
            tensor, size = step.tensor, BYTES[self.real] * prod(self.shapes[step.tensor])
            moved = [s for s in self.steps[:place] if isinstance(s, Loop) and s.variable in self.ranks[tensor]]
            inner = [s for s in self.steps[place:] if isinstance(s, Loop) and s.variable not in self.ranks[tensor]]
            is_along = self.strides(tensor).get(tile.axis) == 1 and tensor not in self.origins
            if is_along and size >= FAR and moved and inner and not (moved[-1].lanes or inner[-1].lanes):
                found[size] = Ahead(tensor, moved[-1], inner[-1])
        return found[max(found)] if found else None

    def _sides(self, image: str, rows: Mapping[str, int], taps: Mapping[str, int]) -> tuple[Side, ...]:
        """Sides of a window; none where a rank is indexed by several rows, or several sums."""
        (access,) = (a for a in self.einsum.accesses if a.tensor == image)
        found, strides = [], self.strides(image)
        for _, index in access.projection:
            p = [(v, factor) for v, factor in index.terms if v in rows]
            r = [(v, factor) for v, factor in index.terms if v in taps]
            if len(p) > 1 or len(r) > 1:
                return ()
            if p or r:
                (row, by), (tap, apart) = (*p, ("", 1))[0], (*r, ("", 1))[0]
                v, factor = (*p, *r)[0]
                found.append(Side(row, rows.get(row, 1), by, tap, taps.get(tap, 1), apart, strides[v] // factor))
        return tuple(found)

    def sizes(self, variable: str) -> Counter[int]:
        """Values of register tiles along a rank variable, and in how many turns of the loops over it they have so many.

        35 values by 16, then by 8: four times 8, once 3.
        """
        found = Counter({dict(self.einsum.bounds)[variable]: 1})
        for loop in self.loops:
            if loop.variable == variable:
                cut = Counter[int]()
                for size, count in found.items():
                    cut[min(size, loop.tile)] += count * max(1, size // loop.tile)
                    if size > loop.tile and size % loop.tile:
                        cut[size % loop.tile] += count
                found = cut
        return found

    @property
    def whole_parts(self) -> tuple[int, ...]:
        """Vectors along the axis of register tiles that are cut off behind a whole vector; fewest first."""
        tile = self.tile
        found = {size // tile.lanes for size in self.sizes(tile.axis) if size % tile.lanes == 0}
        return tuple(sorted(found - {tile.vectors}))

    @property
    def edge_parts(self) -> tuple[int, ...]:
        """Vectors along the axis of register tiles that are cut off inside a vector, or in their rows; fewest first."""
        tile = self.tile
        rows_are_cut = any(v != tile.axis for v in self.uneven)
        sizes = [size for size in self.sizes(tile.axis) if rows_are_cut or size % tile.lanes]
        return tuple(sorted({-(-size // tile.lanes) for size in sizes}))

    @property
    def has_parts(self) -> bool:
        """Whether some register tiles have fewer vectors along the axis than others."""
        return any(count < self.tile.vectors for count in (*self.whole_parts, *self.edge_parts))

    def divides(self, loop: Loop) -> bool:
        """Whether all tiles of a loop have one size."""
        outer = [e for e in self.loops[: self.loops.index(loop) + 1] if e.variable == loop.variable]
        return all(e.extent % e.tile == 0 for e in outer)
