"""A plan: what every PE of a mesh does, step by step, to compute a workload together.

All PEs run the same steps (SPMD). A step reads and writes buffers; a buffer is one version of a tensor, placed in one
way. Local Einsums communicate nothing, moves compute nothing but the reduction that their name says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from einmap.distribute.placements.mesh import AxisName, Mesh
from einmap.distribute.placements.placement import Placement, local_shape
from einmap.distribute.plans.collectives import Kind
from einmap.einsum.einsum import Einsum, TensorName
from einmap.einsum.operation import Reduction
from einmap.einsum.spaces.projection import Rank, RankVar
from einmap.einsum.workload import Workload
from einmap.visible import brief

type BufferName = str
type Dtype = Literal["float64", "float32"]
type PlanStep = Local | Move | Combine | Fill | Put | Repeat

BYTES: Mapping[Dtype, int] = {"float64": 8, "float32": 4}
"""Bytes of one value."""


@dataclass(frozen=True)
class Buffer:
    """One version of a tensor. `sizes`: of the whole tensor, ranks in the order of the workload (numeric.shapes)."""

    __repr__ = brief

    name: BufferName
    tensor: TensorName
    sizes: tuple[tuple[Rank, int], ...]
    placement: Placement

    @cached_property
    def ranks(self) -> tuple[Rank, ...]:
        """The ranks of a tensor in order: the axes of its arrays."""
        return tuple(rank for rank, _ in self.sizes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The array that each PE has, padding included."""
        return tuple(local_shape(dict(self.sizes), self.placement).values())


@dataclass(frozen=True, slots=True)
class Turn:
    """Which of `count` blocks a PE takes in turn t of the innermost Repeat around it (t = 0 without one): the sum of
    its positions over each of `over`, and of `offset + stride*t`, modulo `count`.

    With several `pieces`, what is cut has as many pieces of equal length, one after another, and the block is that
    block of each piece, joined.
    """

    over: tuple[tuple[AxisName, ...], ...]
    offset: int
    stride: int
    count: int
    pieces: int = 1


@dataclass(frozen=True, slots=True)
class LocalLoop:
    """The part of a rank variable that each PE covers: `block` values, the PE at position `i` of `axes` from `i*block`.

    Values from `extent` on are padding: never part of a reduction. Without axes: all values, on every PE. With `turn`
    the PE covers that block instead of block `i`.
    """

    variable: RankVar
    axes: tuple[AxisName, ...]
    extent: int
    block: int
    turn: Turn | None = None

    @property
    def is_split(self) -> bool:
        """Whether PEs cover different values, or turns do."""
        return bool(self.axes) or self.turn is not None


@dataclass(frozen=True, slots=True)
class Local:
    """The Einsum `einsum` of the plan on what each PE holds: `loops` in the order of its rank variables.

    Results are partial over the axes of split variables that they are not indexed by.
    """

    __repr__ = brief

    einsum: str
    operands: tuple[tuple[TensorName, BufferName], ...]
    results: tuple[tuple[TensorName, BufferName], ...]
    loops: tuple[LocalLoop, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """A collective over `axes` (first the slowest), or `slice`, which is free. With `b` the block of the rank in the
    buffer that has it split over these axes, `n` the PEs of a group, in the order of `Mesh.position`:

    - all_gather: blocks of `gather` are joined in order (n*b coordinates), cut to the extent of the target's buffer;
    - reduce_scatter (sum only): `scatter` is padded with zeros to n*b coordinates; PE `i` gets the sum of blocks `i`;
    - all_reduce: every PE gets the sum, maximum or minimum (`reduction`) of all;
    - all_to_all: `scatter` is padded to n*b and cut in n blocks; PE `i` gets all blocks `i`, joined in rank `gather`,
      cut to the extent of the target's buffer;
    - shift: PE `i` sends its buffer to PE `i + offset` (modulo n); with `skew`, the first of `axes`, positions are
      those over the other axes, and a PE at position `s` over `skew` sends to `i + offset*s`;
    - permute: PEs exchange whole buffers, so that each has that of its place in the target's placement; `axes`: those
      that mean different things in the two placements (`hops.permute` says who sends to whom);
    - halo: each PE but the last gets from the next one what its halo of `gather` lacks, after what it has;
    - broadcast: the PEs along the one axis get what those hold that the source's placement says (`on`);
    - reduce: the PEs that the target's placement says (`on`) get the sum, maximum or minimum of all along the one axis;
    - slice: `scatter` is padded to n*b coordinates, where b is its block in the target; PE `i` keeps block `i`, with
      `turn` the block that this says, of `turn.count` (padded to as many times b), without it the halo of the target
      as well, after the block. Where `scatter` is split over these axes already, the end of its halo is cut off.
      Without `scatter`, PEs beyond those that the target's placement says (`on`) give the tensor up.

    No axis has size 1: nothing moves along it. With `after` a move begins when that buffer has been written.
    """

    __repr__ = brief

    kind: Kind
    source: BufferName
    target: BufferName
    axes: tuple[AxisName, ...]
    gather: Rank | None = None
    scatter: Rank | None = None
    reduction: Reduction = "sum"
    offset: int = 0
    turn: Turn | None = None
    skew: tuple[AxisName, ...] = ()
    after: BufferName | None = None

    @property
    def along(self) -> tuple[AxisName, ...]:
        """The axes whose links are used."""
        return self.axes[len(self.skew) :]


@dataclass(frozen=True, slots=True)
class Combine:
    """`target = left + right` (or the larger, or the smaller), element by element; all three are placed alike."""

    left: BufferName
    right: BufferName
    target: BufferName
    reduction: Reduction = "sum"


@dataclass(frozen=True, slots=True)
class Fill:
    """All values of `target` become what changes no `reduction`: 0, or the lowest or highest finite number for a
    maximum or minimum; without a reduction they mean nothing (NaN) until they are written.
    """

    target: BufferName
    reduction: Reduction | None = None


@dataclass(frozen=True, slots=True)
class Put:
    """`target` has the values of `whole`, but for one block of `rank`: there it has those of `part`, as far as they lie
    within the rank.
    """

    part: BufferName
    whole: BufferName
    target: BufferName
    rank: Rank
    turn: Turn


@dataclass(frozen=True, slots=True)
class Repeat:
    """`steps` `count` times, in turns t = 0, 1, ...; what is in `carried` goes from one turn to the next.

    `carried`: the buffer that stands before the loop, the one that a turn reads, and the one that it writes for the
    next turn. Turn 0 reads in the second what stands in the first; after each turn, the last one too, the second takes
    the values of the third.
    """

    count: int
    steps: tuple[PlanStep, ...]
    carried: tuple[tuple[BufferName, BufferName, BufferName], ...]


def buffers_read(step: PlanStep) -> frozenset[BufferName]:
    """The buffers that a step reads; those of the steps of a loop as well."""
    match step:
        case Local(operands=operands):
            return frozenset(name for _, name in operands)
        case Move(source=source, after=after):
            return frozenset({source} if after is None else {source, after})
        case Combine(left=left, right=right):
            return frozenset({left, right})
        case Fill():
            return frozenset()
        case Put(part=part, whole=whole):
            return frozenset({part, whole})
        case Repeat(steps=steps, carried=carried):
            inner = {name for one in steps for name in buffers_read(one)}
            return frozenset(inner - {read for _, read, _ in carried} | {start for start, _, _ in carried})


def buffers_written(step: PlanStep) -> frozenset[BufferName]:
    """The buffers that a step writes; those of the steps of a loop as well."""
    match step:
        case Local(results=results):
            return frozenset(name for _, name in results)
        case Move(target=target) | Combine(target=target) | Fill(target=target) | Put(target=target):
            return frozenset({target})
        case Repeat(steps=steps, carried=carried):
            inner = {name for one in steps for name in buffers_written(one)}
            return frozenset(inner | {read for _, read, _ in carried})


@dataclass(frozen=True)
class Plan:
    """How the PEs of `mesh` compute `workload` (one instance of it).

    `inputs`: where each graph input is put; `outputs`: the buffers of the tensors that are written and never read;
    `derived`: Einsums of local steps that the workload does not have, made from those that it has.
    """

    __repr__ = brief

    mesh: Mesh
    workload: Workload
    buffers: tuple[Buffer, ...]
    inputs: tuple[tuple[TensorName, BufferName], ...]
    steps: tuple[PlanStep, ...]
    outputs: tuple[tuple[TensorName, BufferName], ...]
    dtype: Dtype = "float64"
    derived: tuple[Einsum, ...] = ()

    def einsum(self, name: str) -> Einsum:
        """The Einsum of a local step. Raises SpecError for an unknown one."""
        return next((einsum for einsum in self.derived if einsum.name == name), None) or self.workload.find(name)

    @cached_property
    def by_name(self) -> Mapping[BufferName, Buffer]:
        """Buffers by name."""
        return {buffer.name: buffer for buffer in self.buffers}
