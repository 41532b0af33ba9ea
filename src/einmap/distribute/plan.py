"""A plan: what every PE of a mesh does, step by step, to compute a workload together.

All PEs run the same steps (SPMD). A step reads and writes buffers; a buffer is one version of a tensor, placed in one
way. Local Einsums communicate nothing, moves compute nothing but the reduction that their name says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from einmap.distribute.collectives import Kind
from einmap.distribute.mesh import AxisName, Mesh
from einmap.distribute.placement import Placement, local_shape
from einmap.einsum.einsum import TensorName
from einmap.einsum.operation import Reduction
from einmap.einsum.projection import Rank, RankVar
from einmap.einsum.workload import Workload
from einmap.visible import brief

type BufferName = str
type Dtype = Literal["float64", "float32"]
type PlanStep = Local | Move | Combine | Repeat

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
class LocalLoop:
    """The part of a rank variable that each PE covers: `block` values, the PE at position `i` of `axes` from `i*block`.

    Values from `extent` on are padding: never part of a reduction. Without axes: all values, on every PE.
    """

    variable: RankVar
    axes: tuple[AxisName, ...]
    extent: int
    block: int

    @property
    def is_split(self) -> bool:
        """Whether PEs cover different values."""
        return bool(self.axes)


@dataclass(frozen=True, slots=True)
class Local:
    """The Einsum `einsum` of the workload on what each PE holds: `loops` in the order of its rank variables.

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
    - shift: PE `i` sends its buffer to PE `i + offset` (modulo n);
    - permute: PEs exchange whole buffers, so that each has that of its place in the target's placement; `axes`: those
      that mean different things in the two placements (`hops.permute` says who sends to whom);
    - slice: `scatter` is padded to n*b coordinates; PE `i` keeps its block `i + offset + stride*t` (modulo n), where
      `t` is the turn of the innermost Repeat around it (0 without one).

    No axis has size 1: nothing moves along it.
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
    stride: int = 0


@dataclass(frozen=True, slots=True)
class Combine:
    """`target = left + right` (or the larger, or the smaller), element by element; all three are placed alike."""

    left: BufferName
    right: BufferName
    target: BufferName
    reduction: Reduction = "sum"


@dataclass(frozen=True, slots=True)
class Repeat:
    """`steps` `count` times, in turns t = 0, 1, ...; what is in `carried` goes from one turn to the next.

    `carried`: pairs of the buffer that a turn reads and the buffer that it writes for the next turn. Turn 0 reads what
    stands in the first of them before the loop; after each turn, the last one too, the first takes the second's values.
    """

    count: int
    steps: tuple[PlanStep, ...]
    carried: tuple[tuple[BufferName, BufferName], ...]


def buffers_read(step: PlanStep) -> frozenset[BufferName]:
    """The buffers that a step reads; those of the steps of a loop as well."""
    match step:
        case Local(operands=operands):
            return frozenset(name for _, name in operands)
        case Move(source=source):
            return frozenset({source})
        case Combine(left=left, right=right):
            return frozenset({left, right})
        case Repeat(steps=steps):
            return frozenset(name for inner in steps for name in buffers_read(inner))


@dataclass(frozen=True)
class Plan:
    """How the PEs of `mesh` compute `workload` (one instance of it).

    `inputs`: where each graph input is put; `outputs`: the buffers of the tensors that are written and never read.
    """

    __repr__ = brief

    mesh: Mesh
    workload: Workload
    buffers: tuple[Buffer, ...]
    inputs: tuple[tuple[TensorName, BufferName], ...]
    steps: tuple[PlanStep, ...]
    outputs: tuple[tuple[TensorName, BufferName], ...]
    dtype: Dtype = "float64"

    @cached_property
    def by_name(self) -> Mapping[BufferName, Buffer]:
        """Buffers by name."""
        return {buffer.name: buffer for buffer in self.buffers}
