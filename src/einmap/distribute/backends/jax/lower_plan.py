"""A plan as one JAX program: `jax.shard_map` over a device mesh, every step by the operation of JAX that it names.

Imported only in the processes of the `jax` engine. Ranks are sharded by `PartitionSpec`, so JAX itself deals the
blocks; whole arrays are padded (with NaN, as in the `local` engine) so that the blocks are equal. A partial sum
has a leading axis with the addends, sharded over its mesh axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, assert_never

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from numpy.typing import NDArray

from einmap.distribute.backends.arithmetic import Arrays, Here, local_einsum, neutral
from einmap.distribute.backends.base import addend_share
from einmap.distribute.hops.pairs import fetched_by, only_halo_is_cut, pairs_of, rounds_of
from einmap.distribute.placements.mesh import AxisName, Mesh
from einmap.distribute.placements.placement import Split
from einmap.distribute.plans.collectives import Pairs
from einmap.distribute.plans.plan import (
    Buffer,
    BufferName,
    Combine,
    Fill,
    Local,
    Move,
    Plan,
    PlanStep,
    Put,
    Repeat,
    Turn,
    buffers_read,
)
from einmap.einsum.einsum import TensorName
from einmap.einsum.operation import Reduction

type Array = Any
type Memory = dict[BufferName, Array]
"""The array of one PE, by buffer."""

JAX = Arrays(jnp, partial(jnp.einsum, precision=lax.Precision.HIGHEST))
"""JAX's arrays. Accelerators multiply float32 with fewer bits unless told otherwise."""
_ALL_REDUCE: Mapping[Reduction, Callable[..., Array]] = {"sum": lax.psum, "max": lax.pmax, "min": lax.pmin}
_JOIN: Mapping[Reduction, Callable[..., Array]] = {"sum": jnp.add, "max": jnp.maximum, "min": jnp.minimum}


@dataclass(frozen=True)
class Program:
    """A jitted function from the plan's inputs (in order) to its outputs (in order), and where they lie."""

    plan: Plan
    devices: jax.sharding.Mesh
    function: Callable[..., tuple[Array, ...]]

    def lower(self) -> jax.stages.Lowered:
        """The program in StableHLO; nothing is allocated or run."""
        return self.function.lower(*(self._described(name) for _, name in self.plan.inputs))  # type: ignore[attr-defined]

    def place(self, inputs: Mapping[TensorName, NDArray[Any]]) -> list[Array]:
        """The inputs on the devices; a process makes the parts of its own devices only."""
        placed = []
        for tensor, name in self.plan.inputs:
            whole = padded(self.plan, self.plan.by_name[name], inputs[tensor])
            sharding = self._sharding(name)
            placed.append(jax.make_array_from_callback(whole.shape, sharding, lambda index, w=whole: w[index]))
        return placed

    def _described(self, name: BufferName) -> jax.ShapeDtypeStruct:
        shape = global_shape(self.plan, self.plan.by_name[name])
        return jax.ShapeDtypeStruct(shape, self.plan.dtype, sharding=self._sharding(name))

    def _sharding(self, name: BufferName) -> NamedSharding:
        return NamedSharding(self.devices, partition_spec(self.plan.by_name[name]))


def program(plan: Plan, devices: Sequence[jax.Device]) -> Program:
    """The program of a plan on the first `plan.mesh.n_devices` of `devices`, which are numbered as PEs are."""
    chosen = np.array(devices[: plan.mesh.n_devices]).reshape(plan.mesh.shape)
    mesh = jax.sharding.Mesh(chosen, plan.mesh.names)
    mapped = jax.shard_map(
        partial(_run, plan),
        mesh=mesh,
        in_specs=tuple(partition_spec(plan.by_name[name]) for _, name in plan.inputs),
        out_specs=tuple(partition_spec(plan.by_name[name]) for _, name in plan.outputs),
        # What is replicated follows from the plan; JAX would add casts to see the same.
        check_vma=False,
    )
    return Program(plan, mesh, jax.jit(mapped))


# whole arrays


def partition_spec(buffer: Buffer) -> PartitionSpec:
    """The placement in JAX's words: mesh axes for each rank, those of partial sums and parts of the mesh on a leading
    axis.
    """
    splits = [buffer.placement.of(rank) for rank in buffer.ranks]
    by_rank = [split.axes if split else None for split in splits]
    return PartitionSpec(*([buffer.placement.stacked] if buffer.placement.stacked else []), *by_rank)


def global_shape(plan: Plan, buffer: Buffer) -> tuple[int, ...]:
    """The whole tensor, padded to equal blocks; with a leading axis of addends if it is a partial sum."""
    shape = []
    for rank, size in buffer.sizes:
        split = buffer.placement.of(rank)
        shape.append(split.room * plan.mesh.parts(split.axes) if split else size)
    stacked = buffer.placement.stacked
    return (*([plan.mesh.parts(stacked)] if stacked else []), *shape)


def padded(plan: Plan, buffer: Buffer, whole: NDArray[Any]) -> NDArray[Any]:
    """`whole` in its `global_shape`: blocks with their halos, one after another; padding is NaN, as is what a PE does
    not hold; addends are shares of the values, as in the `local` engine.
    """
    placement = buffer.placement
    filled = whole.astype(plan.dtype)
    for axis, (rank, size) in enumerate(buffer.sizes):
        split = buffer.placement.of(rank)
        if split is not None:
            filled = _in_turn(filled, axis, _coordinates(plan, split, size))
    if not placement.stacked:
        return filled
    stacked = Mesh(tuple((axis, plan.mesh.size(axis)) for axis in placement.stacked))
    shares = [
        addend_share(stacked, placement.partial, place) if placement.is_held(stacked.coordinates(place)) else np.nan
        for place in range(stacked.n_devices)
    ]
    return np.stack([filled * share for share in shares]).astype(plan.dtype)


def _coordinates(plan: Plan, split: Split, size: int) -> NDArray[np.intp]:
    """The coordinates that each PE along the axes of a split holds, one PE after another; -1: padding."""
    starts = np.arange(plan.mesh.parts(split.axes)) * split.block
    held = (starts[:, None] + np.arange(split.room)).reshape(-1)
    return np.where(held < size, held, -1)


def _in_turn(whole: NDArray[Any], axis: int, coordinates: NDArray[np.intp]) -> NDArray[Any]:
    """The values at the coordinates of one axis, NaN where they are -1."""
    taken = whole.take(coordinates.clip(0), axis=axis)
    taken[(slice(None),) * axis + (coordinates < 0,)] = np.nan
    return taken


# what each PE does


def _run(plan: Plan, *inputs: Array) -> tuple[Array, ...]:
    memory: Memory = {}
    for (_, name), values in zip(plan.inputs, inputs, strict=True):
        memory[name] = values[0] if plan.by_name[name].placement.stacked else values
    _run_steps(plan, plan.steps, memory, turn=0)
    outputs = [(plan.by_name[name], memory[name]) for _, name in plan.outputs]
    # JAX drops what no result depends on, also the collective that brings a tensor where it is asked for
    read = {name for step in plan.steps for name in buffers_read(step)} | {name for _, name in plan.outputs}
    unread = [memory[step.target] for step in plan.steps if isinstance(step, Move) and step.target not in read]
    kept, _ = lax.optimization_barrier((tuple(values for _, values in outputs), unread))
    whole = zip((buffer for buffer, _ in outputs), kept, strict=True)
    return tuple(values[None] if buffer.placement.stacked else values for buffer, values in whole)


def _run_steps(plan: Plan, steps: Sequence[PlanStep], memory: Memory, turn: Any) -> None:
    for step in steps:
        match step:
            case Local():
                operands = {tensor: memory[name] for tensor, name in step.operands}
                results = local_einsum(plan, step, operands, Here(_position, turn), JAX)
                memory.update({name: results[tensor] for tensor, name in step.results})
            case Move():
                source = memory[step.source]
                if step.after is not None:
                    source, _ = lax.optimization_barrier((source, memory[step.after]))
                memory[step.target] = move(plan, step, source, turn)
            case Combine():
                memory[step.target] = _JOIN[step.reduction](memory[step.left], memory[step.right])
            case Fill():
                value = jnp.nan if step.reduction is None else neutral(step.reduction, plan.dtype)
                memory[step.target] = jnp.full(plan.by_name[step.target].shape, value, plan.dtype)
            case Put():
                memory[step.target] = _put(plan, step, memory[step.part], memory[step.whole], turn)
            case Repeat():
                _repeat(plan, step, memory)
            case _:
                assert_never(step)


def _repeat(plan: Plan, step: Repeat, memory: Memory) -> None:
    """A loop of the program, not of Python: the compiler sees it once and may overlap its turns."""
    outside = dict(memory)

    def one_turn(turn: Any, carried: tuple[Array, ...]) -> tuple[Array, ...]:
        inside = outside | {read: values for (_, read, _), values in zip(step.carried, carried, strict=True)}
        _run_steps(plan, step.steps, inside, turn)
        return tuple(inside[written] for _, _, written in step.carried)

    first = tuple(memory[start] for start, _, _ in step.carried)
    last = lax.fori_loop(0, step.count, one_turn, first)
    memory.update({read: values for (_, read, _), values in zip(step.carried, last, strict=True)})


def _position(axes: tuple[AxisName, ...]) -> Any:
    return lax.axis_index(axes)


def move(plan: Plan, step: Move, values: Array, turn: Any = 0) -> Array:
    """The array of a PE afterwards. See `plan.Move` for what the kinds mean."""
    target = plan.by_name[step.target]
    parts = plan.mesh.parts(step.axes)
    match step.kind:
        case "all_gather":
            moved = lax.all_gather(values, step.axes, axis=_axis(target, step.gather), tiled=True)
        case "all_reduce":
            moved = _ALL_REDUCE[step.reduction](values, step.axes)
        case "reduce_scatter":
            axis = _axis(target, step.scatter)
            blocks = _in_blocks(values, axis, parts * target.shape[axis])
            moved = lax.psum_scatter(blocks, step.axes, scatter_dimension=axis, tiled=True)
        case "all_to_all":
            axis, joined = _axis(target, step.scatter), _axis(target, step.gather)
            blocks = _in_blocks(values, axis, parts * target.shape[axis])
            moved = lax.all_to_all(blocks, step.axes, split_axis=axis, concat_axis=joined, tiled=True)
        case "shift" | "permute":
            moved = _permuted(plan, step, values)
        case "halo":
            axis = _axis(target, step.gather)
            start, count = fetched_by(plan, step)
            axes, pairs = _in_mesh_order(plan.mesh, step.axes, pairs_of(plan, step))
            part = lax.ppermute(lax.slice_in_dim(values, start, start + count, axis=axis), axes, pairs)
            moved = jnp.concatenate((values, part), axis=axis)
        case "broadcast" | "reduce":
            moved = _along_tree(plan, step, values)
        case "slice" if step.scatter is None:
            moved = values
        case "slice" if only_halo_is_cut(plan, step):
            moved = values
        case "slice" if step.turn is None:
            axis, split = _axis(target, step.scatter), target.placement.of(step.scatter or "")
            size = target.shape[axis]
            between = split.block if split else size
            blocks = _in_blocks(values, axis, (parts - 1) * between + size)
            moved = lax.dynamic_slice_in_dim(blocks, _position(step.axes) * between, size, axis)
        case "slice":
            assert step.turn is not None
            axis = _axis(target, step.scatter)
            cut = _in_pieces(values, axis, step.turn, target.shape[axis])
            moved = lax.dynamic_index_in_dim(cut, Here(_position, turn).block(step.turn), axis + 1, keepdims=False)
            moved = moved.reshape(target.shape)
        case _:
            assert_never(step.kind)
    return moved[tuple(slice(size) for size in target.shape)]


def _permuted(plan: Plan, step: Move, values: Array) -> Array:
    """The array that the PE gets; its own where it is not a receiver."""
    axes, pairs = _in_mesh_order(plan.mesh, step.axes, pairs_of(plan, step))
    moved = lax.ppermute(values, axes, pairs)
    receives = np.zeros(plan.mesh.parts(axes), dtype=bool)
    receives[[receiver for _, receiver in pairs]] = True
    return moved if receives.all() else jnp.where(jnp.asarray(receives)[_position(axes)], moved, values)


def _along_tree(plan: Plan, step: Move, values: Array) -> Array:
    """The array of the PE after a broadcast or a reduction on a part of the mesh: a permute of some PEs a round."""
    for pairs in rounds_of(plan, step):
        sent = lax.ppermute(values, step.axes, pairs)
        receives = np.zeros(plan.mesh.parts(step.axes), dtype=bool)
        receives[[receiver for _, receiver in pairs]] = True
        joined = sent if step.kind == "broadcast" else _JOIN[step.reduction](values, sent)
        values = jnp.where(jnp.asarray(receives)[_position(step.axes)], joined, values)
    return values


def _put(plan: Plan, step: Put, part: Array, whole: Array, turn: Any) -> Array:
    target = plan.by_name[step.target]
    axis, which = _axis(target, step.rank), step.turn
    size = part.shape[axis]
    cut = _in_pieces(whole, axis, which, size)
    block = part.reshape((*part.shape[:axis], which.pieces, 1, size // which.pieces, *part.shape[axis + 1 :]))
    written = lax.dynamic_update_slice_in_dim(cut, block, Here(_position, turn).block(which), axis + 1)
    joined = written.reshape((*part.shape[:axis], -1, *part.shape[axis + 1 :]))
    return joined[tuple(slice(size) for size in target.shape)]


def _in_pieces(values: Array, axis: int, turn: Turn, size: int) -> Array:
    """One axis as three: pieces, the blocks of each, and coordinates; `size`: coordinates of the blocks of a turn."""
    width = size // turn.pieces
    whole = _in_blocks(values, axis, turn.pieces * turn.count * width)
    return whole.reshape((*values.shape[:axis], turn.pieces, turn.count, width, *values.shape[axis + 1 :]))


def _in_mesh_order(mesh: Mesh, axes: Sequence[AxisName], pairs: Pairs) -> tuple[tuple[AxisName, ...], Pairs]:
    """Axes in the order of the mesh, the only one that `ppermute` takes, and who sends to whom in that order."""
    in_order = tuple(name for name in mesh.names if name in axes)
    numbers = np.arange(mesh.parts(axes)).reshape([mesh.size(axis) for axis in in_order])
    place = numbers.transpose([in_order.index(axis) for axis in axes]).reshape(-1).tolist()
    return in_order, tuple((place[sender], place[receiver]) for sender, receiver in pairs)


def _in_blocks(values: Array, axis: int, size: int) -> Array:
    """Padded along one axis to `size`: whole blocks."""
    missing = size - values.shape[axis]
    if missing <= 0:
        return values
    widths = [(0, missing if other == axis else 0) for other in range(values.ndim)]
    return jnp.pad(values, widths, constant_values=jnp.nan)


def _axis(buffer: Buffer, rank: str | None) -> int:
    assert rank is not None
    return buffer.ranks.index(rank)
