"""Changes of a workload as values: done one after the other, read from text, and their tensors taken along."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from einmap.einsum.einsum import TensorName
from einmap.einsum.numeric import Tensor, graph_inputs, shapes
from einmap.einsum.rewrites.delay import delay_reduction
from einmap.einsum.rewrites.flatten import flat_strides, flatten, linearise
from einmap.einsum.rewrites.key_blocks import online_softmax, split_softmax
from einmap.einsum.rewrites.partition import TileShapes, split, tile_shapes
from einmap.einsum.rewrites.softmax import softmaxes
from einmap.einsum.spaces.projection import Rank
from einmap.einsum.spaces.recurrence import refuse_recurrences
from einmap.einsum.workload import Workload
from einmap.errors import EinmapError, SpecError
from einmap.visible import brief


@dataclass(frozen=True, slots=True)
class Split:
    """The step `partition.split`; either tile shapes or a number of parts."""

    ranks: tuple[Rank, ...]
    tile_shapes: TileShapes | None = None
    parts: int | None = None

    def __str__(self) -> str:
        size = f"/{self.parts}" if self.tile_shapes is None else f"={','.join(map(str, self.tile_shapes))}"
        return f"split {','.join(self.ranks)}{size}"


@dataclass(frozen=True, slots=True)
class Flatten:
    """The step `flatten.flatten`."""

    ranks: tuple[Rank, ...]
    name: Rank | None = None

    def __str__(self) -> str:
        return f"flatten {_assigned(self.name)}{','.join(self.ranks)}"


@dataclass(frozen=True, slots=True)
class Linearise:
    """The step `flatten.linearise`."""

    rank: Rank
    name: Rank | None = None

    def __str__(self) -> str:
        return f"linearise {_assigned(self.name)}{self.rank}"


@dataclass(frozen=True, slots=True)
class Delay:
    """The step `delay.delay_reduction`."""

    rank: Rank
    einsum: str | None = None
    temporary: TensorName | None = None

    def __str__(self) -> str:
        return f"delay {_assigned(self.temporary)}{self.rank}{f'@{self.einsum}' if self.einsum else ''}"


@dataclass(frozen=True, slots=True)
class SoftmaxBlocks:
    """The step `key_blocks.online_softmax`, or `split_softmax`: keys in blocks of `tile_shape`."""

    ranks: tuple[Rank, ...]
    tile_shape: int
    online: bool = True

    def __str__(self) -> str:
        return f"{'online' if self.online else 'split'}_softmax {','.join(self.ranks)}={self.tile_shape}"


type Step = Split | Flatten | Linearise | Delay | SoftmaxBlocks


def _assigned(name: str | None) -> str:
    return f"{name}=" if name else ""


def applied(workload: Workload, step: Step) -> Workload:
    """The workload after one step. Raises SpecError as the function that the step stands for."""
    match step:
        case Split(ranks, shapes, parts):
            return split(workload, ranks, shapes, parts=parts)
        case Flatten(ranks, name):
            return flatten(workload, ranks, name)
        case Linearise(rank, name):
            return linearise(workload, rank, name)
        case Delay(rank, einsum, temporary):
            return delay_reduction(workload, rank, einsum, temporary)
        case SoftmaxBlocks(ranks, shape, online):
            return (online_softmax if online else split_softmax)(workload, ranks, shape)
        case _:
            assert_never(step)


@dataclass(frozen=True)
class Partitioned:
    """A workload, the steps that change it, and the workload before each of them and after the last."""

    __repr__ = brief

    steps: tuple[Step, ...]
    workloads: tuple[Workload, ...]

    @property
    def original(self) -> Workload:
        """The workload before the first step."""
        return self.workloads[0]

    @property
    def workload(self) -> Workload:
        """The workload after the last step: it computes the same values."""
        return self.workloads[-1]

    def place(self, tensor: TensorName, values: NDArray[Any], fill: float = 0.0) -> Tensor:
        """Values of a tensor of the original, of the shape `numeric.shapes` says, in the shape of the new workload.

        Elements beyond the last value of an imperfect partition are `fill`; they take no part. Raises SpecError for
        another shape and for a tensor that the original has not.
        """
        placed = _checked(self.original, tensor, values)
        for step, before, after in zip(self.steps, self.workloads[:-1], self.workloads[1:], strict=True):
            placed = _fitted(_placed(step, before, tensor, placed, fill), shapes(after)[tensor], fill)
        return placed

    def recover(self, tensor: TensorName, values: NDArray[Any]) -> Tensor:
        """The way back: values of a tensor of the new workload in the shape that it has in the original."""
        if tensor not in self.original.tensors:
            raise SpecError(f"the workload before the steps has no tensor {tensor!r}")
        recovered = _checked(self.workload, tensor, values)
        for step, before in zip(reversed(self.steps), self.workloads[-2::-1], strict=True):
            recovered = _fitted(_recovered(step, before, tensor, recovered), shapes(before)[tensor], 0.0)
        return recovered

    def place_inputs(self, inputs: Mapping[TensorName, NDArray[Any]], fill: float = 0.0) -> dict[TensorName, Tensor]:
        """The graph inputs of the new workload from those of the original, as `numeric.run` takes both."""
        return {tensor: self.place(tensor, inputs[tensor], fill) for tensor in graph_inputs(self.original)}

    def recover_outputs(self, outputs: Mapping[TensorName, NDArray[Any]]) -> dict[TensorName, Tensor]:
        """Every tensor that the original writes, from what the new workload gives; temporaries are left out.

        So are numerators of a softmax that is done in blocks, which are others there.
        """
        pairs = zip(self.steps, self.workloads[:-1], strict=True)
        gone = frozenset(tensor for step, before in pairs for tensor in _blocked(step, before)[1])
        kept = (tensor for tensor in self.original.producers if tensor not in gone)
        return {tensor: self.recover(tensor, outputs[tensor]) for tensor in kept}


def partition(workload: Workload, steps: Iterable[Step]) -> Partitioned:
    """Do the steps one after the other. Raises SpecError that names the step which cannot be done."""
    steps = tuple(steps)
    workloads = [workload]
    for step in steps:
        try:
            refuse_recurrences(workloads[-1].recurrences, "partitioning")
            workloads.append(applied(workloads[-1], step))
        except EinmapError as error:
            raise type(error)(f"{step}: {error.message}", at=error.at, hint=error.hint) from None
    return Partitioned(steps, tuple(workloads))


# values


def _checked(workload: Workload, tensor: TensorName, values: NDArray[Any]) -> Tensor:
    size = shapes(workload)
    if tensor not in size:
        workload.tensor_shape(tensor)  # raises with the closest name
    tensor_values: Tensor = np.asarray(values, dtype=np.float64)
    if tensor_values.shape != size[tensor]:
        raise SpecError(f"tensor {tensor!r} has shape {size[tensor]}, its values have {tensor_values.shape}")
    return tensor_values


def _ranks(workload: Workload, tensor: TensorName) -> list[Rank]:
    """In the order of the tensor's first access, as `numeric.shapes`."""
    return list(workload.tensor_shape(tensor))


def _placed(step: Step, before: Workload, tensor: TensorName, values: Tensor, fill: float) -> Tensor:
    ranks = _ranks(before, tensor)
    match step:
        case SoftmaxBlocks(blocked, keys):
            return _placed(Split(blocked, (keys,)), before, tensor, values, fill)
        case Split(split_ranks, tile_shape, parts):
            sizes = tile_shapes(before, split_ranks, tile_shape, parts)
            for axis in reversed(range(len(ranks))):
                if ranks[axis] in split_ranks:
                    values = _cut_axis(values, axis, sizes, fill)
            return values
        case Flatten(flat) if set(flat) <= set(ranks):
            strides = flat_strides(before, flat)
            values, start = _together(values, ranks, flat)
            # inner ranks as long as their stride says, so that a reshape joins them
            room = [outer // inner for outer, inner in pairwise(strides)]
            size = [*values.shape[: start + 1], *room, *values.shape[start + len(flat) :]]
            whole = _fitted(values, tuple(size), fill)
            return whole.reshape(*values.shape[:start], -1, *values.shape[start + len(flat) :])
        case Flatten() | Linearise() | Delay():
            return values
        case _:
            assert_never(step)


def _recovered(step: Step, before: Workload, tensor: TensorName, values: Tensor) -> Tensor:
    ranks = _ranks(before, tensor)
    match step:
        case SoftmaxBlocks(blocked, keys, online):
            last = values[-1] if online and tensor in _blocked(step, before)[0] else values
            return _recovered(Split(blocked, (keys,)), before, tensor, last)
        case Split(split_ranks, tile_shape, parts):
            sizes = tile_shapes(before, split_ranks, tile_shape, parts)
            for axis in range(len(ranks)):
                if ranks[axis] in split_ranks:
                    values = _join_axes(values, axis, sizes)
            return values
        case Flatten(flat) if set(flat) <= set(ranks):
            strides = flat_strides(before, flat)
            order, start = _order_together(ranks, flat)
            outer = -(-values.shape[start] // strides[0])
            size = [*values.shape[:start], outer * strides[0], *values.shape[start + 1 :]]
            room = [outer, *(a // b for a, b in pairwise(strides))]
            apart = _fitted(values, tuple(size), 0.0).reshape(*values.shape[:start], *room, *values.shape[start + 1 :])
            return apart.transpose(np.argsort(order))
        case Flatten() | Linearise() | Delay():
            return values
        case _:
            assert_never(step)


def _blocked(step: Step, before: Workload) -> tuple[frozenset[str | None], frozenset[str | None]]:
    """Tensors of a softmax that a step does in blocks: those that become states, and those whose values are lost."""
    found = softmaxes(before, step.ranks[0]) if isinstance(step, SoftmaxBlocks) else []
    states = frozenset(t for s in found for t in (s.largest, s.sums, None if s.quotients else s.products))
    return states, frozenset(t for s in found for t in (s.numerators, s.quotients))


def _cut_axis(values: Tensor, axis: int, sizes: TileShapes, fill: float) -> Tensor:
    """One axis as several, the innermost last: by the tile shapes from the outside inwards."""
    for depth, size in enumerate(sizes):
        here = axis + depth
        tiles = -(-values.shape[here] // size)
        long = list(values.shape)
        long[here] = tiles * size
        values = _fitted(values, tuple(long), fill).reshape(*long[:here], tiles, size, *long[here + 1 :])
    return values


def _join_axes(values: Tensor, axis: int, sizes: TileShapes) -> Tensor:
    for depth in reversed(range(len(sizes))):
        here = axis + depth
        long = list(values.shape)
        long[here + 1] = sizes[depth]
        tiles = long[here]
        values = _fitted(values, tuple(long), 0.0).reshape(*long[:here], tiles * sizes[depth], *long[here + 2 :])
    return values


def _order_together(ranks: list[Rank], flat: tuple[Rank, ...]) -> tuple[list[int], int]:
    """The axes with those of `flat` side by side where its outermost stands, and where they begin."""
    order: list[int] = []
    for axis, rank in enumerate(ranks):
        if rank == flat[0]:
            order += [ranks.index(joined) for joined in flat]
        elif rank not in flat:
            order.append(axis)
    return order, order.index(ranks.index(flat[0]))


def _together(values: Tensor, ranks: list[Rank], flat: tuple[Rank, ...]) -> tuple[Tensor, int]:
    order, start = _order_together(ranks, flat)
    return values.transpose(order), start


def _fitted(values: Tensor, shape: tuple[int, ...], fill: float) -> Tensor:
    """The values in a tensor of this shape: what is beyond it is dropped, what is missing is `fill`."""
    if values.shape == shape:
        return values
    fitted = np.full(shape, fill)
    both = tuple(slice(min(have, want)) for have, want in zip(values.shape, shape, strict=True))
    fitted[both] = values[both]
    return fitted


# text


USAGE: Mapping[str, str] = {
    "split": "RANK=SHAPE (K=8, K=16,4) or RANK/PARTS (M/4), equal ranks together (M,P=16)",
    "flatten": "[NAME=]RANK,RANK (K1,K0 or G=H,F)",
    "linearise": "[NAME=]RANK (K1K0 or G=HF)",
    "delay": "[TEMPORARY=]RANK[@EINSUM] (K1 or ZT=K1@Z)",
    "online_softmax": "RANK=KEYS of a block (P=512)",
    "split_softmax": "RANK=KEYS of a block (P=512)",
}
"""How each step is written."""


def parse_step(kind: str, text: str) -> Step:
    """`split`, `K=8` as a step; USAGE says how each kind is written. Raises SpecError for any other text."""
    try:
        return _PARSE[kind]("".join(text.split()))
    except (ValueError, IndexError):
        raise SpecError(f"{kind} {text!r} cannot be read", hint=f"write {USAGE[kind]}") from None


def _parse_split(text: str) -> Split:
    if "=" in text:
        ranks, shapes = text.split("=")
        return Split(_names(ranks), tuple(int(shape) for shape in shapes.split(",")))
    ranks, parts = text.split("/")
    return Split(_names(ranks), parts=int(parts))


def _parse_softmax(text: str, online: bool) -> SoftmaxBlocks:
    ranks, size = text.split("=")
    return SoftmaxBlocks(_names(ranks), int(size), online)


def _parse_flatten(text: str) -> Flatten:
    name, rest = _name_and_rest(text)
    return Flatten(_names(rest), name)


def _parse_linearise(text: str) -> Linearise:
    name, rest = _name_and_rest(text)
    (rank,) = _names(rest)
    return Linearise(rank, name)


def _parse_delay(text: str) -> Delay:
    name, rest = _name_and_rest(text)
    rank, at, einsum = rest.partition("@")
    (only,) = _names(rank)
    if at and not einsum:
        raise ValueError
    return Delay(only, einsum or None, name)


def _name_and_rest(text: str) -> tuple[str | None, str]:
    name, equals, rest = text.rpartition("=")
    if equals and not name.isidentifier():
        raise ValueError
    return name or None, rest


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if not all(names):
        raise ValueError
    return names


_PARSE: Mapping[str, Callable[[str], Step]] = {
    "split": _parse_split,
    "flatten": _parse_flatten,
    "linearise": _parse_linearise,
    "delay": _parse_delay,
    "online_softmax": partial(_parse_softmax, online=True),
    "split_softmax": partial(_parse_softmax, online=False),
}
