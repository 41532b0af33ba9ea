"""The gradients of one tensor of a workload by others, as a workload of forward and backward Einsums."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from einmap.einsum.einsum import Einsum, TensorName
from einmap.einsum.gradients.backward import backward
from einmap.einsum.gradients.names import Names, placed
from einmap.einsum.gradients.paths import flows, leading_to
from einmap.einsum.gradients.recompute import recomputed
from einmap.einsum.gradients.update import Update, Weight, update
from einmap.einsum.numeric import Tensor, check_operation, rank_sizes
from einmap.einsum.workload import Workload
from einmap.errors import At, SpecError, did_you_mean
from einmap.visible import brief


@dataclass(frozen=True)
class Gradient:
    """A workload that computes a tensor and its gradients.

    `workload`: the Einsums that the tensor needs, with `part` "forward", then those of the backward pass. Their `part`
    is "weight" where only gradients by graph inputs come of it, so that nothing waits for it, else "input"; Einsums of
    an optimiser have "update". `gradients`: for each tensor of `by` its gradient, with the ranks of the tensor itself.
    `seeds`: for each tensor of `of` the graph input that the backward pass begins with, of the same shape: with ones
    the gradients are those of its sum, with other numbers those of the sum that they weight (the scale of a loss), of
    several tensors those of all these sums together. `rows`: graph inputs that
    number the rows of gathered tables, 0, 1, 2 ..., each with how many there are. `kept`: intermediates of the forward
    pass that the backward pass reads, in the order in which they are written. `origins`: for each Einsum behind the
    forward pass the forward Einsum that it is made from. `copies`: Einsums that compute something again. `update`: of
    an optimiser, else None.
    """

    __repr__ = brief

    workload: Workload
    gradients: Mapping[TensorName, TensorName]
    seeds: Mapping[TensorName, TensorName]
    rows: Mapping[TensorName, int]
    kept: tuple[TensorName, ...]
    origins: Mapping[str, str]
    copies: tuple[str, ...] = ()
    update: Update | None = None

    @property
    def seed(self) -> TensorName:
        """The graph input that the backward pass begins with, where it is of one tensor."""
        (seed,) = self.seeds.values()
        return seed

    def inputs(self, scale: float = 1.0) -> dict[TensorName, Tensor]:
        """Values of the graph inputs that a backward pass adds but for those of an optimiser: seeds and rows."""
        sizes = rank_sizes(self.workload)
        seeds = {seed: np.full(tuple(sizes[seed].values()), scale) for seed in self.seeds.values()}
        return seeds | {t: np.arange(float(n)) for t, n in self.rows.items()}


def gradient(
    workload: Workload,
    of: Sequence[TensorName] | TensorName,
    by: Sequence[TensorName] | TensorName,
    *,
    recompute: Collection[TensorName] = (),
    constant: Collection[TensorName] = (),
    optimizer: str | None = None,
    at_of: Callable[[str], At | None] = lambda _: None,
) -> Gradient:
    """The gradients of `of`, summed over all its elements, by other tensors of the workload, as Einsums.

    `of`: one tensor, or several whose sums are added; `by`: graph inputs or intermediates. `recompute`: intermediates
    that the backward pass computes again, in place of reading what the forward pass wrote. `constant`: tensors through
    which no gradient flows, such as the largest value that a softmax subtracts. `optimizer`: `sgd` or `adam`, of which
    a step is appended for those of `by` that are graph inputs. `at_of`: where an Einsum is written.

    Where several values are the largest or the smallest of a reduction, each gets an equal part of the gradient; `max`
    and `min` of two equal values give each a half. The functions' derivatives are in `einsum.functions`. Raises
    SpecError for names that the workload does not have, for operations that are not arithmetic, and where `of` does not
    depend on one of `by`; NotSupportedError for what no Einsum says.
    """
    of, by = ([one] if isinstance(one, str) else list(dict.fromkeys(one)) for one in (of, by))
    _check_names(workload, of, by, constant)
    names = Names(workload)
    needed = {name for tensor in of for name in leading_to(workload, tensor)}
    forward = replace(workload, einsums=tuple(e for e in workload.einsums if e.name in needed))
    for einsum in forward.einsums:
        with placed(einsum.name, at_of):
            check_operation(einsum)
    ways = flows(forward, of, by, constant)
    for tensor in by:
        if all(way.operand.tensor != tensor for way in ways):
            raise SpecError(
                f"{', '.join(map(repr, of))} does not depend on {tensor!r}, or its derivative is 0 everywhere",
                hint=f"leave {tensor} out",
            )
    for tensor in of:
        if all(way.output.tensor != tensor for way in ways):
            raise SpecError(f"{tensor!r} depends on none of {', '.join(by)}", hint=f"leave {tensor} out")
    found = backward(forward, ways, of, by, names, at_of)
    origins = dict(found.origins)
    waiting = {part for tensor in forward.producers for part in found.parts.get(tensor, ())}
    einsums = with_parts(recomputed(forward, found.groups, recompute, names, origins, at_of), waiting)
    step = _update(forward, found.gradients, optimizer, names) if optimizer else None
    ahead = tuple(replace(einsum, part="forward") for einsum in forward.einsums)
    copies = tuple(name for name in origins if name not in found.origins)
    for weight, written in (step.by_weight if step else {}).items():
        origins |= dict.fromkeys(written, forward.users[weight][0])
    whole = replace(workload, einsums=(*ahead, *einsums, *(step.einsums if step else ())))
    read = {tensor for einsum in einsums for tensor in einsum.inputs}
    kept = tuple(t for t in forward.producers if t in read)
    return Gradient(whole, found.gradients, found.seeds, found.rows, kept, origins, copies, step)


def _check_names(
    workload: Workload, of: Sequence[TensorName], by: Sequence[TensorName], constant: Collection[TensorName]
) -> None:
    for tensor in (*of, *by, *constant):
        if tensor not in workload.tensors:
            hint = did_you_mean(str(tensor), workload.tensors, listing="tensors")
            raise SpecError(f"the workload has no tensor {tensor!r}", hint=hint)
    if not of:
        raise SpecError("no tensor to differentiate", hint="name a result, such as of='L'")
    for tensor in of:
        if tensor not in workload.producers:
            raise SpecError(f"no Einsum writes {tensor!r}: its gradient has nothing to go through")
    if not by:
        raise SpecError("no tensor to differentiate by", hint="name weights or inputs, such as by=['W']")
    for tensor in of:
        if tensor in by:
            raise SpecError(f"the gradient of {tensor!r} by itself is 1", hint=f"leave {tensor} out")
        if tensor in constant:
            raise SpecError(
                f"{tensor!r} is constant, so its gradient is 0 everywhere", hint=f"leave {tensor} out of the constants"
            )


def with_parts(einsums: Sequence[Einsum], waiting: Collection[TensorName]) -> list[Einsum]:
    """Backward Einsums with their parts of a training step: "input" where one of the tensors of `waiting` comes of
    them, which others wait for, else "weight".
    """
    needed = {*waiting}
    marked: list[Einsum] = []
    for einsum in reversed(einsums):
        is_inner = bool(einsum.outputs & needed)
        needed |= einsum.inputs if is_inner else set()
        marked.append(replace(einsum, part="input" if is_inner else "weight"))
    return marked[::-1]


def _update(forward: Workload, gradients: Mapping[TensorName, TensorName], optimizer: str, names: Names) -> Update:
    """The optimiser's step for those of the tensors that are graph inputs."""
    sizes = rank_sizes(forward)
    users = {t: [forward.by_name[name] for name in forward.users[t]] for t in gradients}
    weights = [
        Weight(
            tensor,
            sizes[tensor],
            users[tensor][0].by_tensor[tensor].bits_per_value,
            max(user.n_instances for user in users[tensor]),
            found,
        )
        for tensor, found in gradients.items()
        if tensor not in forward.producers
    ]
    if not weights:
        raise SpecError("an optimizer updates graph inputs, and all of `by` are intermediates")
    return update(optimizer, weights, names)
