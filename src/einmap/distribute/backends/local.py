"""The engine `local`: one process, a NumPy array for each PE and buffer. It is what a plan means.

Padding is NaN throughout, so that a result that depended on it would be seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Self, assert_never

import numpy as np

from einmap.distribute.backends.arithmetic import Arrays, Here, local_einsum, neutral
from einmap.distribute.backends.base import Run, Tensor, collect, deal
from einmap.distribute.backends.check import check_memory
from einmap.distribute.hops.pairs import fetched_by, only_halo_is_cut, pairs_of, rounds_of
from einmap.distribute.plans.lifetimes import last_uses
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
)
from einmap.einsum.einsum import TensorName
from einmap.einsum.operation import Reduction
from einmap.einsum.spaces.projection import Rank
from einmap.errors import InvariantError

type Memory = dict[BufferName, list[Tensor]]
"""The array of each PE, by buffer."""

_NUMPY = Arrays(np, partial(np.einsum, optimize=True))
_JOIN: Mapping[Reduction, np.ufunc] = {"sum": np.add, "max": np.maximum, "min": np.minimum}


class LocalEngine:
    """Runs plans in this process."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to end."""

    def check(self, plan: Plan) -> None:
        """Raise SpecError when the buffers of all PEs are too large for one process."""
        check_memory(plan)

    def run(self, plan: Plan, inputs: Mapping[TensorName, Tensor]) -> Run:
        """The outputs of the plan. The traffic is not measured: nothing really moves.

        Raises what `check` raises.
        """
        self.check(plan)
        memory: Memory = {
            name: deal(plan, plan.by_name[name], np.asarray(inputs[tensor])) for tensor, name in plan.inputs
        }
        last = last_uses(plan)
        with np.errstate(all="ignore"):
            for position, step in enumerate(plan.steps):
                run_steps(plan, (step,), memory, turn=0)
                for name in [name for name in memory if last.get(name, -1) <= position < len(plan.steps) - 1]:
                    del memory[name]
        return Run({tensor: collect(plan, plan.by_name[name], memory[name]) for tensor, name in plan.outputs})


def run_steps(plan: Plan, steps: Sequence[PlanStep], memory: Memory, turn: int) -> None:
    """Run steps on the arrays of all PEs; `turn`: of the innermost loop around them."""
    for step in steps:
        match step:
            case Local():
                _run_local(plan, step, memory, turn)
            case Move():
                memory[step.target] = _move(plan, step, memory[step.source], turn)
            case Combine():
                pairs = zip(memory[step.left], memory[step.right], strict=True)
                memory[step.target] = [_JOIN[step.reduction](left, right) for left, right in pairs]
            case Fill():
                value = np.nan if step.reduction is None else neutral(step.reduction, plan.dtype)
                shape = plan.by_name[step.target].shape
                memory[step.target] = [np.full(shape, value, plan.dtype)] * plan.mesh.n_devices
            case Put():
                memory[step.target] = [_put(plan, step, memory, device, turn) for device in range(plan.mesh.n_devices)]
            case Repeat():
                memory.update({read: memory[start] for start, read, _ in step.carried})
                for inner in range(step.count):
                    run_steps(plan, step.steps, memory, inner)
                    memory.update({read: memory[written] for _, read, written in step.carried})
            case _:
                assert_never(step)


def _run_local(plan: Plan, step: Local, memory: Memory, turn: int) -> None:
    results: dict[BufferName, list[Tensor]] = {name: [] for _, name in step.results}
    for device in range(plan.mesh.n_devices):
        operands = {tensor: memory[name][device] for tensor, name in step.operands}
        outputs = local_einsum(plan, step, operands, Here(partial(plan.mesh.position, device), turn), _NUMPY)
        for tensor, name in step.results:
            results[name].append(outputs[tensor])
    memory.update(results)


def _put(plan: Plan, step: Put, memory: Memory, device: int, turn: int) -> Tensor:
    target = plan.by_name[step.target]
    axis, part = _axis(target.ranks, step.rank), memory[step.part][device]
    places = Here(partial(plan.mesh.position, device), turn).coordinates(step.turn, part.shape[axis], np)
    inside = places < target.shape[axis]
    whole: Tensor = memory[step.whole][device].copy()
    before = (slice(None),) * axis
    whole[(*before, places[inside])] = part[(*before, inside)]
    return whole


def _move(plan: Plan, step: Move, sources: list[Tensor], turn: int) -> list[Tensor]:
    """The array of each PE afterwards. See `plan.Move` for what the kinds mean."""
    if step.kind in ("broadcast", "reduce") or (step.kind == "slice" and step.scatter is None):
        return _to_or_from_part(plan, step, sources)
    received: list[Tensor | None] = [None] * plan.mesh.n_devices
    buffer = plan.by_name[step.target]
    sender_of = {receiver: sender for sender, receiver in pairs_of(plan, step)}
    for group in plan.mesh.groups(step.axes).listed:
        arrays = [sources[device] for device in group]
        for place, device in enumerate(group):
            here = Here(partial(plan.mesh.position, device), turn)
            if step.kind == "halo":
                whole = _with_halo(plan, step, arrays[place], arrays[sender_of[place]] if place in sender_of else None)
            elif sender_of:
                # a PE to which nobody sends keeps what it has
                whole = arrays[sender_of.get(place, place)]
            else:
                whole = _received(plan, step, arrays, place, here)
            received[device] = _cut(whole, buffer.shape)
    return [array for array in received if array is not None]


def _to_or_from_part(plan: Plan, step: Move, sources: list[Tensor]) -> list[Tensor]:
    """The array of each PE after a broadcast, a reduction on a part of the mesh, or after others have given it up."""
    held = list(sources)
    for pairs in rounds_of(plan, step):
        before = list(held)
        for group in plan.mesh.groups(step.axes).listed:
            for sender, receiver in pairs:
                sent, own = before[group[sender]], before[group[receiver]]
                held[group[receiver]] = sent if step.kind == "broadcast" else _JOIN[step.reduction](own, sent)
    placement = plan.by_name[step.target].placement
    return [
        array if placement.is_held(plan.mesh.coordinates(device)) else np.full_like(array, np.nan)
        for device, array in enumerate(held)
    ]


def _received(plan: Plan, step: Move, arrays: list[Tensor], place: int, here: Here) -> Tensor:
    """The array that the PE at `place` of a group gets from those of the group."""
    buffer = plan.by_name[step.target]
    match step.kind:
        case "all_gather":
            return np.concatenate(arrays, axis=_axis(buffer.ranks, step.gather))
        case "all_reduce":
            total: Tensor = _JOIN[step.reduction].reduce(arrays)
            return total
        case "reduce_scatter":
            summed: Tensor = np.add.reduce([_block(plan, step, array, place) for array in arrays])
            return summed
        case "all_to_all":
            mine = [_block(plan, step, array, place) for array in arrays]
            return np.concatenate(mine, axis=_axis(buffer.ranks, step.gather))
        case "slice" if only_halo_is_cut(plan, step):
            return arrays[place]
        case "slice":
            if step.turn is None:
                return _block(plan, step, arrays[place], place)
            return _taken(arrays[place], _axis(buffer.ranks, step.scatter), here, step.turn, buffer)
        case "shift" | "permute" | "halo" | "broadcast" | "reduce":
            raise InvariantError(f"a {step.kind} has no pairs of PEs")
        case _:
            assert_never(step.kind)


def _with_halo(plan: Plan, step: Move, array: Tensor, sent_by: Tensor | None) -> Tensor:
    """The array of a PE with that of the next one after it; padding where there is no next one."""
    axis = _axis(plan.by_name[step.target].ranks, step.gather)
    start, count = fetched_by(plan, step)
    shape = [count if other == axis else size for other, size in enumerate(array.shape)]
    part = np.full(shape, np.nan, array.dtype)
    if sent_by is not None:
        part = sent_by[(slice(None),) * axis + (slice(start, start + count),)]
    return np.concatenate((array, part), axis=axis)


def _block(plan: Plan, step: Move, array: Tensor, index: int) -> Tensor:
    """Block `index` of the rank that is scattered; beyond the array there is padding."""
    buffer = plan.by_name[step.target]
    axis = _axis(buffer.ranks, step.scatter)
    length, split = buffer.shape[axis], buffer.placement.of(step.scatter or "")
    start = index * (split.block if split else length)
    part = array[(slice(None),) * axis + (slice(start, start + length),)]
    missing = [(0, length - part.shape[axis] if other == axis else 0) for other in range(part.ndim)]
    return np.pad(part, missing, constant_values=np.nan)


def _taken(array: Tensor, axis: int, here: Here, turn: Turn, buffer: Buffer) -> Tensor:
    """The block of a turn; beyond the array there is padding."""
    places = here.coordinates(turn, buffer.shape[axis], np)
    length = int(places.max(initial=0)) + 1
    missing = [(0, max(0, length - size) if other == axis else 0) for other, size in enumerate(array.shape)]
    return np.pad(array, missing, constant_values=np.nan)[(slice(None),) * axis + (places,)]


def _cut(array: Tensor, shape: tuple[int, ...]) -> Tensor:
    return array[tuple(slice(size) for size in shape)]


def _axis(ranks: Sequence[Rank], rank: Rank | None) -> int:
    assert rank is not None
    return ranks.index(rank)
