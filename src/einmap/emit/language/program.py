"""The small language between mappings and printers: buffers, loops, moves, operations.

All names are identifiers of the target language already; integers are `Linear` sums over loop indices and sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from einmap.einsum.operation import MapExpression, Reduction
from einmap.einsum.spaces.space import Constraint
from einmap.emit.language.linear import Linear
from einmap.emit.language.symbols import Symbols

type Statement = Loop | Let | Extreme | Row | When | Move | TakeLive | Gather | Clear | Operate | Copy
type Definition = Let | Extreme | Row
type Condition = Is | All | Any | Within
type Action = Literal["read", "write"]
type Part = tuple[tuple[Linear, Linear] | Found, ...]
"""A part of a tensor: of each rank first index and number of indices, or where its indices are looked up."""
type Role = Literal["input", "output", "intermediate"]


@dataclass(frozen=True, slots=True)
class Is:
    """`value > 0` or `value == 0`."""

    value: Linear
    sign: Literal["positive", "zero"]


@dataclass(frozen=True, slots=True)
class All:
    """The condition that all of some conditions hold; true when there is none."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Any:
    """One of them; false when there is none."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Within:
    """A constraint of an iteration space (see `space`), with what stands for each rank variable in it."""

    constraint: Constraint
    values: tuple[tuple[str, Linear], ...]


ALWAYS = All(())
NEVER = Any(())


@dataclass(frozen=True, slots=True)
class Tiles:
    """How many tiles an extent is cut into: the first of `first` values, later ones of `shape`."""

    extent: Linear
    first: int
    shape: int

    @property
    def count(self) -> int | None:
        """The number of tiles, where it does not depend on where the loop runs."""
        if not self.extent.is_number:
            return None
        return 1 - min(0, (self.first - self.extent.constant) // self.shape)


@dataclass(frozen=True, slots=True)
class Counter:
    """Values read from or written to a memory, of one tensor. `name`: its variable in the code."""

    name: str
    memory: str
    tensor: str
    action: Action


@dataclass(frozen=True, slots=True)
class Charge:
    """Add the values that are moved (or 1 for an operation) to a counter, where the condition holds."""

    counter: Counter
    where: Condition = ALWAYS


@dataclass(frozen=True, slots=True)
class BufferVariable:
    """One tensor in one memory: `lanes` instances (one axis for each spatial loop) of tiles of at most `shape`.

    `whole`: it is the tensor itself, indexed from 0, not a tile. `flags`: variable of which elements hold results.
    `size_from`: for each rank the loop whose tile shape is its length, or the rank variable and extent, or neither.
    `bits`: of the largest tile; `capacity`: bits of one instance of the memory, may be inf.
    """

    name: str
    memory: str
    tensor: str
    ranks: tuple[str, ...]
    lanes: tuple[int, ...]
    shape: tuple[int, ...]
    use: str
    whole: bool = False
    flags: str = ""
    bits: float = 0.0
    capacity: float = 0.0
    lane_names: tuple[str, ...] = ()
    size_from: tuple[str | tuple[str, int] | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Region:
    """A box in a buffer: instance, first element and (where it is a box) sizes.

    `rows`: names of the rows of a table that were looked up, which are in `start`; where one is -1 there are zeros.
    """

    buffer: BufferVariable
    lane: tuple[Linear, ...]
    start: tuple[Linear, ...]
    rows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """`index` counts tiles from 0. `spatial`: the fanout; `independent`: iterations write to different elements."""

    index: str
    tiles: Tiles
    body: tuple[Statement, ...]
    spatial: str | None = None
    independent: bool = False


@dataclass(frozen=True, slots=True)
class Let:
    """`name` = the smaller of two integers, or (where `index` is given) `later` for all iterations but the first."""

    name: str
    value: Linear
    other: Linear
    index: str | None = None


@dataclass(frozen=True, slots=True)
class Extreme:
    """`name` = the smallest or largest of several integers, of those whose conditions hold."""

    name: str
    largest: bool
    options: tuple[tuple[Linear, Condition], ...]


@dataclass(frozen=True, slots=True)
class Row:
    """`name` = the value of an element of an index tensor: a whole number below `size`, -1 for a row of zeros."""

    name: str
    element: Region
    size: int


@dataclass(frozen=True, slots=True)
class When:
    """Statements under a condition."""

    condition: Condition
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """An index of a table that is a value of another tensor: `tensor`, in these ranges of its ranks.

    `size`: of the rank of the table.
    """

    tensor: str
    ranges: tuple[tuple[Linear, Linear], ...]
    size: int


@dataclass(frozen=True, slots=True)
class Move:
    """Move a box between a buffer and the next one outward.

    `fill` copies in; `take` brings partial results in and leaves nothing behind; `store` overwrites outside; `reduce`
    reduces into what is outside. `box`: in the tensor. `hole`: a part of the
    box (start and sizes in it) that is not moved.
    """

    kind: Literal["fill", "take", "store", "reduce"]
    inner: Region
    outer: Region
    sizes: tuple[Linear, ...]
    reduction: Reduction
    charges: tuple[Charge, ...]
    box: Part
    hole: tuple[tuple[Linear, Linear], ...] | None = None
    mark: bool = False


@dataclass(frozen=True, slots=True)
class TakeLive:
    """Like `take`, for elements that hold results only; `charge_all`: the others are charged too."""

    inner: Region
    outer: Region
    sizes: tuple[Linear, ...]
    reduction: Reduction
    charges: tuple[Charge, ...]
    box: Part
    charge_all: bool = False


@dataclass(frozen=True, slots=True)
class Gather:
    """Fill a box of rows by position from a table: `body` moves value by value; `box`: in the table."""

    body: tuple[Statement, ...]
    inner: Region
    outer: Region
    sizes: tuple[Linear, ...]
    charges: tuple[Charge, ...]
    box: Part


@dataclass(frozen=True, slots=True)
class Clear:
    """Fill a box of a buffer with what does not change a reduction."""

    region: Region
    sizes: tuple[Linear, ...]
    reduction: Reduction


@dataclass(frozen=True, slots=True)
class Result:
    """One output of an operation. `live`: charged where a result is there already; `fresh`: where none is."""

    at: Region
    live: tuple[Charge, ...] = ()
    fresh: tuple[Charge, ...] = ()


@dataclass(frozen=True, slots=True)
class Operate:
    """One point of an Einsum: apply `map` to the operands, reduce into every result (`once`: it is the only value).

    `where`: whether the point is in the iteration space; it is counted all the same.
    """

    einsum: str
    map: MapExpression
    operands: tuple[tuple[str, Region], ...]
    results: tuple[Result, ...]
    reduction: Reduction
    charges: tuple[Charge, ...]
    once: bool = False
    where: Condition = ALWAYS


@dataclass(frozen=True, slots=True)
class Copy:
    """One value that is moved as it is: a point of a copy Einsum, or of rows that are looked up. `where`: as above."""

    einsum: str
    source: Region
    targets: tuple[Region, ...]
    charges: tuple[Charge, ...]
    where: Condition = ALWAYS


@dataclass(frozen=True, slots=True)
class Plain:
    """An Einsum as a plain loop nest: variables with first value and extent, indices of each tensor, where it computes.

    `step`: of the Einsums of a recurrence the variable of its steps; `recurrence`: which one it is.
    """

    name: str
    variables: tuple[tuple[str, int, int], ...]
    map: MapExpression
    reduction: Reduction
    is_copy: bool
    inputs: tuple[tuple[str, str, tuple[Linear | Found, ...]], ...]
    outputs: tuple[tuple[str, str, tuple[Linear, ...]], ...]
    step: str = ""
    recurrence: int = -1
    where: Condition = ALWAYS


@dataclass(frozen=True, slots=True)
class TensorVariable:
    """A whole tensor. `n_rows`: of an index tensor the number of rows from which its values choose, else 0.

    `size`: of the tensor; the code has room for what only the box around an iteration space has, from index `first` on.
    """

    name: str
    tensor: str
    ranks: tuple[str, ...]
    shape: tuple[int, ...]
    role: Role
    reduction: Reduction | None = None
    covered: bool = True
    n_rows: int = 0
    size: tuple[int, ...] = ()
    first: tuple[int, ...] = ()


@dataclass(frozen=True)
class Program:
    """The program to print.

    `exact`: integers stay integers in the whole cascade. `variables`: name of the
    variable for each tensor; `plain_variables`: of the written ones in the plain loop
    nests, which are `plain_functions` by Einsum. `instances`: how often the workload does it.
    """

    tensors: tuple[TensorVariable, ...]
    buffers: tuple[BufferVariable, ...]
    counters: tuple[Counter, ...]
    body: tuple[Statement, ...]
    plain: tuple[Plain, ...]
    exact: bool
    renamed: tuple[tuple[str, str], ...]
    symbols: Symbols
    variables: Mapping[str, str]
    plain_variables: Mapping[str, str]
    plain_functions: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...]]
    first: Mapping[str, tuple[int, ...]]
    """The index of the first place of each rank of a whole tensor: 0, or less."""
    instances: int = 1

    def places(self, tensor: str, indices: Sequence[Linear]) -> tuple[Linear, ...]:
        """Where an element of a whole tensor is in its variable."""
        return tuple(index.plus(-low) for index, low in zip(indices, self.first[tensor], strict=True))
