"""Actions of the search as a plan: buffers get names.

A letter says what a buffer is, after the tensor's own name: `D` distributed, `L` local result that is only an addend,
`G` gathered, `R` reduced everywhere, `T` split in another rank than before, `P` exchanged with other PEs as a whole,
`H` with what a neighbour has sent, `B` broadcast from a part of the mesh, `O` reduced on a part of it,
`S` cut from what every PE has, `H` received from a neighbour, `A` added up or put together so far, `B` one block of a
result. A number follows where the name is taken. A replicated input or result has the name of its tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.placement import Placement
from einmap.distribute.plans.collectives import Kind
from einmap.distribute.plans.plan import Buffer, BufferName, Dtype, Local, Move, Plan, PlanStep
from einmap.distribute.steps.actions import Computed, Moved, PlanAction
from einmap.einsum.einsum import TensorName
from einmap.einsum.spaces.projection import Rank
from einmap.einsum.workload import Workload

type Sizes = Mapping[TensorName, tuple[tuple[Rank, int], ...]]

LETTER: Mapping[Kind, str] = {
    "all_gather": "G",
    "reduce_scatter": "D",
    "all_reduce": "R",
    "all_to_all": "T",
    "shift": "H",
    "permute": "P",
    "halo": "H",
    "broadcast": "B",
    "reduce": "O",
    "slice": "S",
}
"""The letter of a buffer after the move that fills it."""


class Names:
    """Buffers made so far. A name is given once, and never that of another tensor."""

    def __init__(self, sizes: Sizes, buffers: Sequence[Buffer] = ()) -> None:
        self.buffers = list(buffers)
        self._sizes = sizes
        self._taken = {*sizes, *(buffer.name for buffer in buffers)}

    def make(self, tensor: TensorName, letter: str, placement: Placement) -> BufferName:
        """A new buffer for a tensor. Without a letter it has the tensor's own name, the first time."""
        stem = name = tensor + letter
        number = 2
        while name in self._taken and not (name == tensor and name not in {b.name for b in self.buffers}):
            name, number = f"{stem}{number}", number + 1
        self._taken.add(name)
        self.buffers.append(Buffer(name, tensor, self._sizes[tensor], placement))
        return name


def named_plan(
    mesh: Mesh,
    workload: Workload,
    sizes: Sizes,
    inputs: Mapping[TensorName, Placement],
    actions: Sequence[PlanAction],
    dtype: Dtype,
) -> Plan:
    """The plan that does `actions`. Outputs are the last versions of the tensors that nobody reads."""
    names = Names(sizes)
    buffer_of: dict[tuple[TensorName, Placement], BufferName] = {}
    for tensor, placement in inputs.items():
        buffer_of[tensor, placement] = names.make(tensor, "D" if placement.used else "", placement)
    last = {tensor: buffer_of[tensor, placement] for tensor, placement in inputs.items()}
    steps: list[PlanStep] = []
    for action in actions:
        match action:
            case Computed():
                local = _local(action, names, buffer_of)
                steps.append(local)
                last.update(local.results)
            case Moved():
                move = _move(action, names, buffer_of)
                steps.append(move)
                last[action.tensor] = move.target
            case _:
                assert_never(action)
    dealt = tuple((tensor, buffer_of[tensor, placement]) for tensor, placement in inputs.items())
    outputs = tuple((t, last[t]) for t in workload.producers if not workload.consumers[t])
    return Plan(mesh, workload, tuple(names.buffers), dealt, tuple(steps), outputs, dtype)


def _local(action: Computed, names: Names, buffer_of: dict[tuple[TensorName, Placement], BufferName]) -> Local:
    operands = tuple((tensor, buffer_of[tensor, placement]) for tensor, placement in action.operands)
    results = []
    for tensor, placement in action.results:
        letter = "L" if placement.partial else "D" if placement.used else ""
        buffer_of[tensor, placement] = names.make(tensor, letter, placement)
        results.append((tensor, buffer_of[tensor, placement]))
    return Local(action.einsum, operands, tuple(results), action.loops)


def _move(action: Moved, names: Names, buffer_of: dict[tuple[TensorName, Placement], BufferName]) -> Move:
    hop = action.hop
    source = buffer_of[action.tensor, action.before]
    target = buffer_of[action.tensor, hop.after] = names.make(action.tensor, LETTER[hop.kind], hop.after)
    return Move(hop.kind, source, target, hop.axes, hop.gather, hop.scatter, action.before.reduction)
